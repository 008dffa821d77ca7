// Package anthropic lets agents speak with the models of Anthropic's Messages API, on the official SDK.
//
//	model := anthropic.New(nil) // the key is in ANTHROPIC_API_KEY
//	for delta, err := range model.Generate(ctx, &message.Request{Model: "claude-sonnet-4-5", Messages: messages}) {
//
// A [Model] is a react.Model. The name of the model is message.Request.Model.
//
// # What is sent
//
// A conversation becomes strictly alternating turns: what a user says after results of tools is in their turn,
// the results first. What is blank is left out, as the API refuses it. Thinking goes back before the text and
// the calls that it led to, unchanged, with its signature; without one it is left out. Images (JPEG, PNG, GIF,
// WebP) and PDF documents may be base64 or a URL; any other block is a message.ErrUnsupported, and nothing is
// sent.
//
// Arguments of a call that are not an object, such as malformed JSON that the model wrote, go back as the
// member "arguments" of one, and characters of call IDs that the API refuses (other providers use them) as
// underscores: both come from models, and would otherwise make the conversation unusable.
//
// Of message.Params the frequency penalty, the presence penalty and the seed are a message.ErrUnsupported: the API
// has no such thing. Temperature, TopP and TopK were dropped from version 2026-10-21 of the API, so a request with
// one of them asks for version 2023-06-01, which has them; newer models may refuse them still. ProviderParams are
// members of the body and replace what else would be there, except for model, messages, system, tools and stream,
// which are refused: these are the agent's. Thinking is enabled by
// {"thinking":{"type":"enabled","budget_tokens":2048}}.
//
// Prompts are cached with [Options].CacheControl. What was read from the cache is in the usage.
//
// A request with an Output uses the API's own structured output, output_config.format, and so does not work
// with models that are older than that. The schema is sent as it is: the API wants additionalProperties false
// in its objects, and refuses some keywords.
//
// # What arrives
//
// The signature of thinking that the provider redacted begins with "redacted_thinking:", and goes back as such.
// The reply's thinking is kept in its order, and before its text. Blocks of other types, such as those of tools
// that run at the provider, are skipped, and so are unknown events.
//
// # Guarantees
//
// A message.Done was sent only if the API said that the message is complete; a stream that ends before is a
// message.ErrCutOff. An error is a *message.ProviderError, marked by message.Transient if it may pass, with the
// time after which to try again if the API named it; or it is the error of the context, which ends a call at
// once; or it says why there is no connection, without the address. A request is sent once: the SDK's own
// retries are off. The key is in no error, and no more of a page than its beginning.
//
// message.Usage counts exactly what the API says: InputTokens are all of them, also those read from the
// prompt cache (CachedInputTokens) or written to it.
package anthropic
