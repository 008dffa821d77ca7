// Package mcp connects agents with the Model Context Protocol, in both directions: tools of an MCP server become
// tools of an agent, and an agent becomes an MCP server.
//
//	files, err := mcp.Connect(ctx, mcp.Config{Name: "files", Command: "mcp-files", Args: []string{"/tmp"}})
//	if err != nil {
//		return err
//	}
//	defer files.Close()
//	agent, err := react.New(react.Config{Name: "clerk", Model: model, Tools: files.Tools()})
//
// A server is a process that speaks over its standard input and output, or speaks streamable HTTP ([Config]). Its
// tools have its name before theirs, as in files__read. [NewServer] is the other direction.
//
// The result of a call is the structured content if the server gives some, else the text, or the list of content as
// JSON if not all of it is text; images are in it as base64. An error that the server reports is for the model, in
// the server's words. What a server says about progress is an activity of the type mcp_progress, with the members
// progress, total and message.
//
// What a server asks in a call (elicitation), the run asks: the payload of the question is the request, and the answer
// is {"action":"accept","content":{…}} or has the action decline or cancel. Connections do not last as long as
// people take to answer. So the call is given up, and made again, with the same arguments and the same idempotency
// key, when there is an answer; the server asks again and is answered at once. The answer belongs to the words of
// the question: if the server asks something else the second time, that is asked anew.
//
// # Guarantees
//
//   - Each call has the idempotency key of the tool call in its _meta, as everstep/idempotencyKey. It is the same
//     however often the call is made: after a crash, a lost connection or an answer.
//   - A call that loses its connection is made once more, on a new one, unless the tool is AtMostOnce: then the
//     error says that the outcome is unknown. Connecting again is tried three times, after pauses of 0.5 s and 1 s.
//   - The end of a call's context cancels it on the server, and nothing is waited for.
//   - Whatever a server does or does not do, it is an error of the call or of Connect: nothing panics, nothing waits
//     longer than the timeouts, and after [Client.Close] nothing is left running.
//   - One tool that an agent cannot have does not cost the others: see [Client.Refused].
//
// Names, descriptions and schemas are texts of the server, which the model reads: connect to servers that you trust.
//
// # Errors
//
// Calls of a client that is closed fail with [ErrClosed]. All errors of connections name the server.
package mcp
