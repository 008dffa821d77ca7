// Package offline is a language model without a network: it does what the conversation says. Examples, guides
// and tests use it where a real one would need a key.
//
//	agent, err := react.New(react.Config{Name: "demo", Model: offline.New()})
//
// The newest user message is its script. A line /then divides the script into stages: the first stage answers
// the message, each further one a round of tool results.
//
//	/think TEXT      a block of reasoning, streamed by word
//	/say TEXT        text, streamed by word; several lines are joined by a newline
//	/call NAME JSON  a tool call; several lines are several calls of one reply
//	/loop NAME JSON  a tool call in this round and in every later one
//	/slow MS         so long a pause before each word and each call that follows
//	/error TEXT      the reply breaks here with that error
//	/flaky N         the first N attempts to open this reply fail with an error that may pass
//
// Other lines of a script are ignored, and a stage without lines is an empty reply. When the stages are used up,
// results are answered by listing them. To a message without a command it answers too: "what is 2 plus 3" calls
// the tool add, "weather in Oslo" the tool weather, and anything else is said again. If the request wants
// structured output, the reply is the smallest value that its schema allows, whatever the script says.
//
// # Guarantees
//
// The reply follows from the conversation alone, with the ids of its calls, so another process gives the same
// one. Only /flaky counts: per process, session and user message. Usage counts words.
package offline
