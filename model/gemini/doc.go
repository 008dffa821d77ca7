// Package gemini asks the Gemini models of Google, through the Gemini API or Vertex AI. It is a
// module of its own, on Google's SDK, so that only who wants it has that.
//
//	model, err := gemini.New(ctx, nil) // with the key GEMINI_API_KEY
//	agent, err := react.New(react.Config{Name: "forecaster", Model: model, ModelName: "gemini-3-pro", …})
//
// A [Model] is a react.Model. Which model is asked, the request says.
//
// # What is sent
//
// The request of streamGenerateContent. System texts are its systemInstruction. Media in base64
// are inlineData; media by an https, http or gs URL are fileData, which the model fetches itself.
// A result is a functionResponse with a member output, an object if the result is one and else a
// string, or with a member error. Empty texts are left out, and so are turns without anything
// else, because the API refuses them.
//
// ProviderParams are members of the body as the REST reference of the API names them. Objects in
// them are merged with what is there, tools follow those of the request, all else replaces what is
// there, except for the model, the contents and the system instruction, which are the agent's. So
// one asks for thoughts, for example, or sets the safety settings:
//
//	{"generationConfig": {"thinkingConfig": {"includeThoughts": true}},
//	 "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]}
//
// Prompts are cached without being asked for. A cache that was made explicitly is named by
// {"cachedContent":"cachedContents/…"}; the API refuses a system instruction and tools beside it.
// What was read from a cache is in the usage.
//
// A schema for the output is sent as responseJsonSchema. Models before Gemini 3 refuse one beside
// tools: that is an error that wraps [message.ErrInvalidRequest].
//
// Of a reply, texts, thoughts and calls are delivered. The rest, such as images or code that Google
// ran, is left out.
//
// # Signatures
//
// Gemini signs parts of its replies and wants the signatures back; Gemini 3 refuses calls without
// theirs. The signature of a thought is that of its reasoning block. The signature of a text or a
// call is a reasoning block of its own, without text, that says where it belongs, such as
// "call:0:…" for the first call. Keep these blocks before their assistant message, as package
// react does, and the signatures go back on the parts that they came with. Thoughts without a
// signature are summaries for people, and are not sent back.
//
// The API cannot read signatures of other providers, and here they look like those of thoughts.
// Package react leaves them out where Config names the providers.
//
// # Guarantees
//
// One call of Generate is at most one HTTP request: the SDK's retries are off, because agents have
// their own. What the API cannot take is refused before anything is sent, with an error that wraps
// [message.ErrUnsupported] and names the turn and the block, or the parameter.
//
// A message.Done means that the model said why it stopped. A stream that ends before that is an
// error that wraps [message.ErrCutOff] and may be tried again, whatever was in it.
//
// Numbers keep their digits in arguments, results and schemas, in both directions. Whatever the
// server sends, there is no panic. The key is in no error, and no more of a page than its beginning.
//
// # Errors
//
// What the API answers instead of a reply, or in the middle of one, is a [message.ProviderError]
// with the API's status as its Code, marked by [message.Transient] if it may pass, with the wait
// that the API asks for. A prompt that is blocked wraps [message.ErrRefused]; a reply that is
// blocked half-way is a reply that ends with [message.FinishContentFilter]. A call that the model
// did not manage to write down (MALFORMED_FUNCTION_CALL) is a reply that was cut off. Connections
// that fail are transient errors. When the context ends, its error is returned.
package gemini
