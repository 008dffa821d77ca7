// Package agui serves an agent to frontends that speak AG-UI: CopilotKit, assistant-ui, or the HttpAgent of
// @ag-ui/client.
//
//	mux.Handle("/", httpapi.New(agent, nil))
//	mux.Handle("/ag-ui", agui.New(agent, nil))
//
// A thread is a session and a run is a run: what is said over AG-UI is there on /v1, and the other way round.
// [SessionID], [RunID] and [MessageID] say under which ids; clients see their own.
//
// Two dialects are spoken: 1.0 if the request has a protocolVersion, and what was before it, up to 0.0.59, which
// the clients of CopilotKit expect.
//
// # What a request means
//
//   - The store has the history. Of the messages that the client sends, those are taken into the conversation that
//     stand behind all that is known, and results of calls that wait for one: the rest is its copy. If that is not
//     the conversation, the client gets the conversation.
//   - state is merged into the context; tools and context replace what the thread has, also when they are left out;
//     forwardedProps.model and forwardedProps.capability_override replace it when they are given, and null
//     clears them.
//   - resume answers all questions that are open, or is refused; a question that is cancelled is a tool call that
//     failed. A message instead of an answer is refused, too.
//   - A request for a run that was started before starts nothing: it hears that run, or how it ended.
//
// # Guarantees
//
//   - What is wrong with a request is an answer of 4xx before any stream, and nothing was written then. Its body is
//     that of package httpapi.
//   - A stream keeps the order and the shapes that clients enforce, whatever happens: what is opened is closed, and
//     the last event is RUN_FINISHED or RUN_ERROR. A body is never torn down by this package, not even by a
//     shutdown or a panic.
//   - A message has one id for life, in the stream, in snapshots and on /v1. What is heard of a tool is stored
//     before; text that is heard is stored when the reply is whole, or its run is cancelled.
//   - A client that goes away cancels its run, or leaves it to its end: [Options.OnDisconnect].
//   - Threads of other tenants look like none.
//
// # Testing
//
// Package httpapi/agui/aguitest reads streams, and holds them against the rules of the clients.
package agui
