package httpapi

import (
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/store"
)

// session is the resource of contract 1.2.
type session struct {
	ID        uuid.UUID `json:"id"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at" jsonschema:"when a run last started in it"`
}

func newSession(s store.Session) session {
	return session{s.ID, s.CreatedAt.UTC(), s.UpdatedAt.UTC()}
}

func (h *handler) listSessions(r *request) (any, error) {
	q := r.query()
	return list(r.Request, q, h.agent.Sessions, store.SessionQuery{
		Tenant: r.tenant, IDs: q.ids("ids"), Created: q.times("created"), Updated: q.times("updated"), Paging: q.paging(),
	}, newSession)
}

func (h *handler) createSession(r *request) (any, error) {
	o, err := r.object()
	if err != nil {
		return nil, err
	}
	id := o.ID("id")
	if err := o.Fault(); err != nil {
		return nil, err
	}
	s, err := h.agent.CreateSession(r.Context(), r.tenant, id)
	if err != nil {
		return nil, exists(err, CodeSessionExists, "session %s already exists", id)
	}
	return newSession(*s), nil
}

func (h *handler) getSession(r *request) (any, error) {
	id, err := r.id("session_id")
	if err != nil {
		return nil, err
	}
	s, err := h.agent.Session(r.Context(), r.tenant, id)
	if err != nil {
		return nil, err
	}
	return newSession(*s), nil
}

func (h *handler) deleteSession(r *request) (any, error) {
	id, err := r.id("session_id")
	if err != nil {
		return nil, err
	}
	return nil, h.agent.DeleteSession(r.Context(), r.tenant, id)
}
