package httpapi

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/store"
)

// about is the answer of GET / (contract R40).
type about struct {
	Name    string `json:"name" jsonschema:"of the agent"`
	Version string `json:"version" jsonschema:"of the program"`
}

func (h *handler) about(*request) (any, error) {
	return about{h.agent.Name(), h.opts.Version}, nil
}

// health is the answer of GET /health.
type health struct {
	Status string `json:"status"`
}

// health asks the store for something that does not exist: what counts is that it answers.
func (h *handler) health(r *request) (any, error) {
	_, err := h.agent.Session(r.Context(), "", uuid.Nil)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		h.opts.Logger.ErrorContext(r.Context(), "httpapi: store does not answer", "err", err)
		return nil, &Error{Code: CodeUnavailable, Message: "the store does not answer"}
	}
	return health{"ok"}, nil
}

func (h *handler) openAPI(*request) (any, error) { return json.RawMessage(h.document()), nil }

func (h *handler) docs(*request) (any, error) { return h.page(), nil }

// page is an HTML page.
type page string

func (p page) serve(w http.ResponseWriter) {
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	_, _ = w.Write([]byte(p)) // the client may be gone
}
