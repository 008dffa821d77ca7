package httpapi

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/internal/body"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/store"
)

// run is the resource of contract 1.3.
type run struct {
	ID        uuid.UUID         `json:"id"`
	SessionID uuid.UUID         `json:"session_id"`
	Status    checkpoint.Status `json:"status"`
	CreatedAt time.Time         `json:"created_at"`
	UpdatedAt time.Time         `json:"updated_at" jsonschema:"when its status last changed"`
}

func newRun(r store.Run) run {
	return run{r.ID, r.Session, r.Status, r.CreatedAt.UTC(), r.UpdatedAt.UTC()}
}

// startedRun is the answer to a detached start.
type startedRun struct {
	RunID     uuid.UUID `json:"run_id"`
	SessionID uuid.UUID `json:"session_id"`
}

// input reads the body of both start endpoints (contract 6.5).
func (r *request) input() (react.Input, error) {
	o, err := r.object()
	if err != nil {
		return react.Input{}, err
	}
	in := react.Input{
		Tenant: r.tenant, Session: o.ID("session_id"), Run: o.ID("run_id"), Checkpoint: o.ID("checkpoint_id"),
		Resume: o.Raw("resume_payload"), Context: o.Document("context"),
		Model:              o.Model("model"),
		CapabilityOverride: body.Optional[*react.CapabilityOverride](o, "capability_override"),
		OnBusy:             body.Enum(o, "on_busy", graph.Reject, graph.Wait, graph.Cancel),
	}
	o.Each("messages", func(item *body.Object) { in.Messages = append(in.Messages, item.Message()) })
	var vars []react.ContextVar
	if o.Each("context_vars", func(item *body.Object) {
		vars = append(vars, react.ContextVar{Description: item.Text("description"), Value: item.Text("value")})
	}) {
		in.ContextVars = react.Set(vars)
	}
	var tools []message.ToolSpec
	if o.Each("tools", func(item *body.Object) {
		t := message.ToolSpec{Name: item.Text("name"), Description: item.Text("description"), Parameters: item.Document("parameters")}
		if t.Parameters == nil {
			item.Wrong("parameters", "must be a JSON schema, an object")
		}
		tools = append(tools, t)
	}) {
		in.Tools = react.Set(tools)
	}
	if err := o.Fault(); err != nil {
		return in, err
	}
	if len(in.Messages) == 0 && in.Resume == nil && in.Checkpoint == uuid.Nil {
		return in, invalid(react.FieldError{
			Field: "messages", Code: "length", Message: "must have at least one message, unless there is a resume_payload or a checkpoint_id",
			Params: map[string]any{"min": 1, "value": 0},
		})
	}
	return in, nil
}

func (r *request) start(h *handler, attached bool) (*graph.Run[react.State], error) {
	in, err := r.input()
	if err != nil {
		return nil, err
	}
	in.Attached = attached
	run, err := h.agent.Start(r.Context(), in)
	return run, exists(err, CodeRunExists, "run %s already exists", in.Run)
}

func (h *handler) run(r *request) (any, error) {
	run, err := r.start(h, true)
	if err != nil {
		return nil, err
	}
	return run.Hold(r.Context()), nil
}

func (h *handler) startRun(r *request) (any, error) {
	run, err := r.start(h, false)
	if err != nil {
		return nil, err
	}
	return startedRun{run.ID(), run.Session()}, nil
}

// observeRun streams a run from now on, or after the event that the client saw last. One that
// has ended can only be looked at by who says what it saw (contract R18, R37, R46).
func (h *handler) observeRun(r *request) (any, error) {
	id, err := r.id("run_id")
	if err != nil {
		return nil, err
	}
	after := graph.Live
	last := r.Header.Get("Last-Event-ID")
	if last != "" {
		n, err := strconv.ParseUint(last, 10, 63)
		if err != nil && !errors.Is(err, strconv.ErrRange) { // beyond the last is the last
			return nil, badRequest("Last-Event-ID: %q is not the id of an event", last)
		}
		after = int64(min(n, math.MaxInt64-1))
	}
	run, err := h.agent.Attach(r.Context(), r.tenant, id)
	if err != nil {
		return nil, err
	}
	if last == "" {
		kept, err := h.agent.RunRecord(r.Context(), r.tenant, id)
		if err != nil {
			return nil, err
		}
		if kept.Status.Ended() {
			return nil, &Error{Code: CodeRunNotActive, Message: "run " + id.String() + " has ended: send Last-Event-ID: 0 to see what is kept of its events"}
		}
	}
	return run.Events(r.Context(), after), nil
}

func (h *handler) getRun(r *request) (any, error) {
	id, err := r.id("run_id")
	if err != nil {
		return nil, err
	}
	kept, err := h.agent.RunRecord(r.Context(), r.tenant, id)
	if err != nil {
		return nil, err
	}
	return newRun(*kept), nil
}

func (h *handler) cancelRun(r *request) (any, error) {
	id, err := r.id("run_id")
	if err != nil {
		return nil, err
	}
	return nil, h.agent.Cancel(r.Context(), r.tenant, id)
}

func (h *handler) listRuns(r *request) (any, error) {
	session, err := r.id("session_id")
	if err != nil {
		return nil, err
	}
	q := r.query()
	query := store.RunQuery{
		Tenant: r.tenant, Session: session, IDs: q.ids("ids"), Statuses: enums[checkpoint.Status](q, runFilters, "statuses"),
		Created: q.times("created"), Updated: q.times("updated"), Paging: q.paging(),
	}
	if others := q.ids("session_ids"); len(others) > 0 && !slices.Contains(others, session) {
		query.IDs = []uuid.UUID{uuid.Nil} // which no run has
	}
	return list(r.Request, q, h.agent.Runs, query, newRun)
}
