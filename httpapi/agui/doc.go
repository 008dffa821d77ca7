// Package agui serves an agent to frontends that speak AG-UI: CopilotKit, assistant-ui, or the HttpAgent of
// @ag-ui/client.
//
//	mux.Handle("/", httpapi.New(agent, nil))
//	mux.Handle("/ag-ui", agui.New(agent, nil))
//
// A thread is a session and a run is a run: what is said over AG-UI is there on /v1, and the other way round.
// [SessionID], [RunID] and [MessageID] say under which ids.
package agui
