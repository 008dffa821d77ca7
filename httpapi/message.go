package httpapi

import (
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/store"
)

func (h *handler) listMessages(r *request) (any, error) {
	session, err := r.id("session_id")
	if err != nil {
		return nil, err
	}
	q := r.query()
	return list(r.Request, q, h.agent.Messages, store.MessageQuery{
		Tenant: r.tenant, Session: session, IDs: q.ids("ids"), Runs: q.ids("run_ids"), Checkpoints: q.ids("checkpoint_ids"),
		Roles: enums[message.Role](q, messageFilters, "roles"), Created: q.times("created"), Paging: q.paging(),
	}, same)
}

func (h *handler) createMessage(r *request) (any, error) {
	session, err := r.id("session_id")
	if err != nil {
		return nil, err
	}
	o, err := r.object()
	if err != nil {
		return nil, err
	}
	m := o.Message()
	if err := o.Fault(); err != nil {
		return nil, err
	}
	id := m.Head().ID
	m, err = h.agent.PostMessage(r.Context(), r.tenant, session, m)
	if err != nil {
		return nil, exists(err, CodeMessageExists, "message %s already exists", id)
	}
	return m, nil
}

func (h *handler) getMessage(r *request) (any, error) {
	id, err := r.id("message_id")
	if err != nil {
		return nil, err
	}
	return h.agent.Message(r.Context(), r.tenant, id)
}

func (h *handler) deleteMessage(r *request) (any, error) {
	id, err := r.id("message_id")
	if err != nil {
		return nil, err
	}
	return nil, h.agent.DeleteMessage(r.Context(), r.tenant, id)
}
