package httpapi

import (
	"encoding/json"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/internal/wire"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/store"
)

func (h *handler) listCheckpoints(r *request) (any, error) {
	session, err := r.id("session_id")
	if err != nil {
		return nil, err
	}
	q := r.query()
	return list(r.Request, q, h.agent.Checkpoints, store.CheckpointQuery{
		Tenant: r.tenant, Session: session, IDs: q.ids("ids"), Runs: q.ids("run_ids"),
		Reasons:  enums[checkpoint.Reason](q, checkpointFilters, "reasons"),
		Statuses: enums[checkpoint.Status](q, checkpointFilters, "statuses"),
		Created:  q.times("created"), Paging: q.paging(),
	}, same)
}

// checkpointState is a checkpoint with what it holds (contract R40): one flat object.
type checkpointState struct {
	checkpoint checkpoint.Checkpoint
	held       held
}

type held struct {
	Context  json.RawMessage `json:"context"`
	Messages message.List    `json:"messages"`
}

func (c checkpointState) MarshalJSON() ([]byte, error) {
	fields, err := wire.Marshal(c.checkpoint)
	if err != nil {
		return nil, err
	}
	more, err := wire.Marshal(c.held)
	if err != nil {
		return nil, err
	}
	return append(append(fields[:len(fields)-1], ','), more[1:]...), nil
}

func (h *handler) getCheckpoint(r *request) (any, error) {
	id, err := r.id("checkpoint_id")
	if err != nil {
		return nil, err
	}
	c, s, err := h.agent.Checkpoint(r.Context(), r.tenant, id)
	if err != nil {
		return nil, err
	}
	return checkpointState{*c, held{s.Context, s.Messages}}, nil
}
