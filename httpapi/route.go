package httpapi

import "net/http"

// routes is the one table of endpoints (contract 6.4): the handler serves it and the OpenAPI
// document describes it.
func (h *handler) routes() []*route {
	const (
		sessions    = "/v1/sessions"
		session     = "/v1/sessions/{session_id}"
		messages    = "/v1/sessions/{session_id}/messages"
		message     = "/v1/messages/{message_id}"
		runs        = "/v1/sessions/{session_id}/runs"
		run         = "/v1/runs/{run_id}"
		checkpoints = "/v1/sessions/{session_id}/checkpoints"
	)
	start := []int{CodeRunExists, CodeCheckpointNotFound, CodeSessionBusy, CodeInvalid}
	return []*route{
		{
			method: http.MethodGet, path: sessions, name: "listSessions", summary: "List sessions, newest first",
			answer: h.listSessions, status: http.StatusOK, filters: sessionFilters, result: "SessionPage",
		}, {
			method: http.MethodPost, path: sessions, name: "createSession", summary: "Create a session",
			answer: h.createSession, status: http.StatusCreated, body: "CreateSession", result: "Session", errors: []int{CodeSessionExists},
		}, {
			method: http.MethodGet, path: session, name: "getSession", summary: "Read a session",
			answer: h.getSession, status: http.StatusOK, result: "Session", errors: []int{CodeSessionNotFound},
		}, {
			method: http.MethodDelete, path: session, name: "deleteSession",
			summary: "Delete a session with all that belongs to it, and end what runs in it",
			answer:  h.deleteSession, status: http.StatusNoContent, errors: []int{CodeSessionNotFound},
		}, {
			method: http.MethodGet, path: messages, name: "listMessages", summary: "List the messages of a session, of all its branches, newest first",
			answer: h.listMessages, status: http.StatusOK, filters: messageFilters, result: "MessagePage", errors: []int{CodeSessionNotFound},
		}, {
			method: http.MethodPost, path: messages, name: "createMessage", summary: "Add a message outside of a run",
			answer: h.createMessage, status: http.StatusCreated, body: "CreateMessage", result: "Message",
			errors: []int{CodeSessionNotFound, CodeMessageExists, CodeInvalid},
		}, {
			method: http.MethodGet, path: message, name: "getMessage", summary: "Read a message",
			answer: h.getMessage, status: http.StatusOK, result: "Message", errors: []int{CodeMessageNotFound},
		}, {
			method: http.MethodDelete, path: message, name: "deleteMessage", summary: "Remove a message from every history",
			answer: h.deleteMessage, status: http.StatusNoContent, errors: []int{CodeMessageNotFound},
		}, {
			method: http.MethodGet, path: runs, name: "listRuns", summary: "List the runs of a session, newest first",
			answer: h.listRuns, status: http.StatusOK, filters: runFilters, result: "RunPage", errors: []int{CodeSessionNotFound},
		}, {
			method: http.MethodPost, path: "/v1/runs", name: "run",
			summary: "Start a run and stream its events; the run lives as long as the connection",
			answer:  h.run, status: http.StatusOK, body: "StartRun", result: eventStream, errors: start,
		}, {
			method: http.MethodPost, path: "/v1/runs/start", name: "startRun",
			summary: "Start a run that is finished whatever becomes of this client or this server",
			answer:  h.startRun, status: http.StatusAccepted, body: "StartRun", result: "StartedRun", errors: start,
		}, {
			method: http.MethodGet, path: run, name: "getRun", summary: "Read a run",
			answer: h.getRun, status: http.StatusOK, result: "Run", errors: []int{CodeRunNotFound},
		}, {
			method: http.MethodPut, path: run + "/cancel", name: "cancelRun", summary: "End a run; does nothing to one that has ended",
			answer: h.cancelRun, status: http.StatusNoContent, errors: []int{CodeRunNotFound},
		}, {
			method: http.MethodGet, path: run + "/events", name: "observeRun",
			summary: "Stream the events of a run from now on, or after the one that Last-Event-ID names",
			answer:  h.observeRun, status: http.StatusOK, result: eventStream, errors: []int{CodeRunNotFound, CodeRunNotActive},
		}, {
			method: http.MethodGet, path: checkpoints, name: "listCheckpoints", summary: "List the checkpoints of a session, of all its branches, newest first",
			answer: h.listCheckpoints, status: http.StatusOK, filters: checkpointFilters, result: "CheckpointPage", errors: []int{CodeSessionNotFound},
		}, {
			method: http.MethodGet, path: "/v1/checkpoints/{checkpoint_id}", name: "getCheckpoint",
			summary: "Read a checkpoint with the context and the messages that it holds",
			answer:  h.getCheckpoint, status: http.StatusOK, result: "CheckpointState", errors: []int{CodeCheckpointNotFound},
		}, {
			method: http.MethodGet, path: "/{$}", public: true, name: "about", summary: "Name and version",
			answer: h.about, status: http.StatusOK, result: "About",
		}, {
			method: http.MethodGet, path: "/health", public: true, name: "health", summary: "Whether the store answers",
			answer: h.health, status: http.StatusOK, result: "Health", errors: []int{CodeUnavailable},
		}, {
			method: http.MethodGet, path: "/.well-known/openapi.json", public: true, name: "openAPI", summary: "This document",
			answer: h.openAPI, status: http.StatusOK, result: "OpenAPI",
		}, {
			method: http.MethodGet, path: "/.well-known/docs", public: true, name: "docs", summary: "This document as a page",
			answer: h.docs, status: http.StatusOK, result: htmlPage,
		},
	}
}

// The results that are not JSON.
const (
	eventStream = "text/event-stream"
	htmlPage    = "text/html"
)

// byPath sorts routes by path and method: a mux of its own for the methods would answer what
// is not allowed in plain text.
func byPath(routes []*route) map[string]map[string]*route {
	paths := map[string]map[string]*route{}
	for _, rt := range routes {
		if paths[rt.path] == nil {
			paths[rt.path] = map[string]*route{}
		}
		paths[rt.path][rt.method] = rt
	}
	return paths
}
