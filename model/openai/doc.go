// Package openai asks models of OpenAI, and of the many servers that speak its dialect: Ollama,
// vLLM, LM Studio, OpenRouter, Groq, Azure and others. It stands on OpenAI's official client.
//
//	agent, err := react.New(react.Config{
//		Model:     openai.New(nil), // the key is that of OPENAI_API_KEY
//		ModelName: "gpt-5.2",
//	})
//
// A [Model] speaks one of two dialects. [Responses] is OpenAI's own: a model that reasons gets its
// reasoning back with the next request, encrypted, though nothing is stored at the provider.
// [ChatCompletions] is what the others speak.
//
//	openai.New(&openai.Options{BaseURL: "http://localhost:11434/v1"})
//
// Parameters that only some models have, such as reasoning with its effort and summary, go into
// message.Params.ProviderParams; they become members of the request and win over all others, but
// for the model, the conversation, the tools and stream, which are the agent's.
//
// Prompts are cached without being asked for; {"prompt_cache_key":"…"} among ProviderParams keeps
// requests that begin alike together. What was read from the cache is in the usage.
//
// # Guarantees
//
//   - A message.Done comes only after the server has said that the reply is complete: [DONE], or
//     response.completed or response.incomplete. All else is an error, message.ErrCutOff if nothing
//     said why.
//   - Nothing is tried again here; agents do that. Errors that may pass are marked by
//     message.Transient with the time that the server asks for: limits, overload, faults of the
//     server, broken connections.
//   - What the server answers instead of a reply, or in the middle of one, is a
//     *message.ProviderError with its code, its text, its request id and the kind of error.
//   - What an API has no place for is an error that wraps message.ErrUnsupported and names it, before
//     anything is sent. In Responses: top_k, stop_sequences, penalties, seed; audio, video. In Chat
//     Completions: video, and audio and documents by URL. There, top_k is sent, because other
//     servers know it; OpenAI refuses it.
//   - When the context ends, its error is the error, at once.
//   - The key is in no error, and no more of a page than its beginning.
//   - Schemas are sent as they were written, in their order. Output is strict where strict mode can
//     express it.
//
// # Limits
//
// Arguments of a call that are not an object, such as malformed JSON that the model wrote, go back as
// the member "arguments" of one: some servers refuse a conversation with anything else.
//
// The text of several blocks is one text, that of several parts of a reasoning summary has an empty
// line between them. Reasoning that stood between calls goes back before them. Reasoning with the
// signature of another provider would be sent to Responses like OpenAI's own, which refuses it: package
// react leaves it out where Config names the providers.
package openai
