// Package httpapi serves an agent over HTTP: sessions, messages, runs and checkpoints under /v1, events
// as server-sent events, and an OpenAPI document.
//
//	mux.Handle("/", httpapi.New(agent, nil))
//
// It is a plain http.Handler. Authentication, CORS and rate limits are middleware around it; whose
// request it is, [Options.Tenant] decides. Behind middleware that wraps the http.ResponseWriter streams
// need its Unwrap method, as http.ResponseController does.
//
// POST /v1/runs starts a run and streams its events; the run lives as long as the connection. POST
// /v1/runs/start starts one that is finished whatever dies, and GET /v1/runs/{run_id}/events observes it,
// from now on or, with Last-Event-ID, from where the client was.
//
// # Guarantees
//
//   - Whatever is wrong with a request that starts a run is an ordinary answer before any stream, and
//     nothing was written then.
//   - A stream carries every event of the run in order, each once, and ends after the last one. What a
//     client missed it gets from the log of the run, or as a snapshot when that is gone. If the stream has
//     to end before the run does, it says so: event: error.
//   - A slow, stuck or vanished client never holds up the run. One that takes nothing for
//     [Options.WriteTimeout] counts as gone; an attached run is cancelled then.
//   - Clients only ever get the codes of contract 6.2, and no text of an internal error: that is in the log.
//
// # Testing
//
// Package httpapi/httpapitest reads streams of events.
package httpapi
