package react

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/store"
)

// An Agent is a model with tools that converses in durable sessions. It is safe for concurrent
// use.
//
// Besides running, it has the operations over sessions, messages, runs and checkpoints that the
// HTTP surface offers, so that a Go program can do all that a client can. Where they take a
// tenant, the empty one is graph.DefaultTenant; what belongs to another tenant looks like what
// does not exist: a store.NotFoundError.
type Agent struct {
	config Config
	tools  map[string]*registered
	order  []*registered // as they were given: the order in which models see them
	output *validator    // of answers; nil for free text
	runner *graph.Runner[State]
}

// Name returns the agent's name.
func (a *Agent) Name() string { return a.config.Name }

// Description returns the agent's description.
func (a *Agent) Description() string { return a.config.Description }

// Graph returns the agent's graph, to be drawn.
func (a *Agent) Graph() *graph.Graph[State] { return a.runner.Graph() }

// Start begins a run: when it returns, the run is recorded and will be finished, whatever dies,
// unless the input says that it is [Input.Attached]. See graph.Runner.Start for the errors; an
// [*InputError] says what is wrong with the input.
func (a *Agent) Start(ctx context.Context, in Input) (*graph.Run[State], error) {
	u, err := a.update(in)
	if err != nil {
		return nil, err
	}
	return a.runner.Start(ctx, graph.StartParams[State]{
		Tenant: in.Tenant, Session: in.Session, Run: in.Run, Checkpoint: in.Checkpoint,
		Input: &State{input: u}, Resume: in.Resume, Attached: in.Attached, OnBusy: in.OnBusy,
	})
}

// Run begins an attached run, one that lives as long as somebody looks: it returns the run's
// events as they come. Breaking the loop, or the end of ctx, cancels the run. How the run ended
// is its last event; an error is the last thing the sequence yields, and says why the run could
// not begin or be followed. The sequence can be used once.
func (a *Agent) Run(ctx context.Context, in Input) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		in.Attached = true
		run, err := a.Start(ctx, in)
		if err != nil {
			yield(event.Event{}, err)
			return
		}
		run.Hold(ctx)(yield)
	}
}

// Serve takes over runs that another process, or this program before its last restart, left
// unfinished, until ctx ends. See graph.Runner.Serve.
func (a *Agent) Serve(ctx context.Context) error { return a.runner.Serve(ctx) }

// Shutdown lets the runs that are under way go on until ctx ends, then stops them for others to
// go on with. See graph.Runner.Shutdown.
func (a *Agent) Shutdown(ctx context.Context) error { return a.runner.Shutdown(ctx) }

// Attach returns a handle to a run, to wait for it or to watch its events.
func (a *Agent) Attach(ctx context.Context, tenant string, run uuid.UUID) (*graph.Run[State], error) {
	return a.runner.Attach(ctx, tenant, run)
}

// Active returns the run that continues a session now, nil if there is none: also one that a
// dead process left unfinished, and that [Agent.Serve] takes over.
func (a *Agent) Active(ctx context.Context, tenant string, session uuid.UUID) (*graph.Run[State], error) {
	s, err := a.kept().Session(ctx, tenantOr(tenant), session)
	if err != nil || s.Active == uuid.Nil {
		if errors.Is(err, store.ErrNotFound) {
			err = nil
		}
		return nil, err
	}
	return a.Attach(ctx, tenant, s.Active)
}

// Questions returns what the last run of a session asked and nobody has answered yet.
func (a *Agent) Questions(ctx context.Context, tenant string, session uuid.UUID) ([]graph.Question, error) {
	c, _, err := a.Head(ctx, tenant, session)
	return graph.Questions(c), err
}

// Cancel ends a run; it does nothing to one that has ended.
func (a *Agent) Cancel(ctx context.Context, tenant string, run uuid.UUID) error {
	return a.runner.Cancel(ctx, tenant, run)
}

// CreateSession makes a session; [uuid.Nil] gives it a new id. store.ErrExists if there is one.
func (a *Agent) CreateSession(ctx context.Context, tenant string, id uuid.UUID) (*store.Session, error) {
	if id == uuid.Nil {
		id = uuid.New()
	}
	return a.kept().CreateSession(ctx, tenantOr(tenant), id)
}

// Session returns a session.
func (a *Agent) Session(ctx context.Context, tenant string, id uuid.UUID) (*store.Session, error) {
	return a.kept().Session(ctx, tenantOr(tenant), id)
}

// Sessions lists sessions, newest first.
func (a *Agent) Sessions(ctx context.Context, q store.SessionQuery) (*store.Page[store.Session], error) {
	q.Tenant = tenantOr(q.Tenant)
	return a.kept().Sessions(ctx, &q)
}

// DeleteSession removes a session with all that belongs to it, and ends what runs in it.
func (a *Agent) DeleteSession(ctx context.Context, tenant string, id uuid.UUID) error {
	return a.runner.DeleteSession(ctx, tenant, id)
}

// PostMessage adds a message outside any run. It stands where its sequence puts it, on every
// branch of the session. store.ErrExists if the session has a message of its id.
func (a *Agent) PostMessage(ctx context.Context, tenant string, session uuid.UUID, m message.Message) (message.Message, error) {
	if _, err := a.update(Input{Messages: []message.Message{m}}); err != nil {
		return nil, err
	}
	m = clone(m)
	h := m.Head()
	h.SessionID, h.RunID, h.CheckpointID = session, uuid.Nil, uuid.Nil
	if h.ID == uuid.Nil {
		h.ID = uuid.New()
	}
	record, err := store.EncodeMessage(m)
	if err != nil {
		return nil, err
	}
	kept, err := a.kept().CreateMessage(ctx, tenantOr(tenant), &record)
	if err != nil {
		return nil, err
	}
	return kept.Decode()
}

// Message returns the most recently created message of that id.
func (a *Agent) Message(ctx context.Context, tenant string, id uuid.UUID) (message.Message, error) {
	record, err := a.kept().Message(ctx, tenantOr(tenant), id)
	if err != nil {
		return nil, err
	}
	return record.Decode()
}

// Messages lists the messages of a session, of all its branches, newest first.
func (a *Agent) Messages(ctx context.Context, q store.MessageQuery) (*store.Page[message.Message], error) {
	q.Tenant = tenantOr(q.Tenant)
	records, err := a.kept().Messages(ctx, &q)
	if err != nil {
		return nil, err
	}
	page := &store.Page[message.Message]{Items: make([]message.Message, len(records.Items)), Count: records.Count, Next: records.Next}
	for i := range records.Items {
		if page.Items[i], err = records.Items[i].Decode(); err != nil {
			return nil, err
		}
	}
	return page, nil
}

// DeleteMessage removes a message from every history that holds it.
func (a *Agent) DeleteMessage(ctx context.Context, tenant string, id uuid.UUID) error {
	return a.kept().DeleteMessage(ctx, tenantOr(tenant), id)
}

// RunRecord returns what is kept of a run.
func (a *Agent) RunRecord(ctx context.Context, tenant string, id uuid.UUID) (*store.Run, error) {
	return a.kept().Run(ctx, tenantOr(tenant), id)
}

// Runs lists the runs of a session, newest first.
func (a *Agent) Runs(ctx context.Context, q store.RunQuery) (*store.Page[store.Run], error) {
	q.Tenant = tenantOr(q.Tenant)
	return a.kept().Runs(ctx, &q)
}

// Checkpoint returns a checkpoint with the state that it holds.
func (a *Agent) Checkpoint(ctx context.Context, tenant string, id uuid.UUID) (*checkpoint.Checkpoint, State, error) {
	c, err := a.kept().Checkpoint(ctx, tenantOr(tenant), id)
	if err != nil {
		return nil, State{}, err
	}
	return a.runner.At(ctx, tenant, c.SessionID, id)
}

// Checkpoints lists the checkpoints of a session, of all its branches, newest first.
func (a *Agent) Checkpoints(ctx context.Context, q store.CheckpointQuery) (*store.Page[checkpoint.Checkpoint], error) {
	q.Tenant = tenantOr(q.Tenant)
	return a.kept().Checkpoints(ctx, &q)
}

// State returns the state that a plain run of the session would start from: that of a session
// that does not exist is empty.
func (a *Agent) State(ctx context.Context, tenant string, session uuid.UUID) (State, error) {
	_, s, err := a.Head(ctx, tenant, session)
	return s, err
}

// Head returns the checkpoint that a plain run of the session would start from, nil if there is none
// yet, with the state that it would start with.
func (a *Agent) Head(ctx context.Context, tenant string, session uuid.UUID) (*checkpoint.Checkpoint, State, error) {
	return a.runner.At(ctx, tenant, session, uuid.Nil)
}

// Records returns the place for small records beside the sessions, for what is built on the agent; nil
// if its store has none. Unlike the other methods they take no empty tenant.
func (a *Agent) Records() store.Records {
	records, _ := a.kept().(store.Records)
	return records
}

func tenantOr(tenant string) string { return cmp.Or(tenant, graph.DefaultTenant) }

// kept returns the store, or one that has nothing.
func (a *Agent) kept() store.Store {
	if a.config.Store == nil {
		return nothing{}
	}
	return a.config.Store
}

// hasTool reports whether the agent executes a tool of that name itself.
func (a *Agent) hasTool(name string) bool {
	_, ok := a.tools[name]
	return ok
}

// modelFor returns the model and its name for a client's override, nil for an unknown provider.
func (a *Agent) modelFor(o *ModelOverride) (Model, string) {
	if o == nil {
		return a.config.Model, a.config.ModelName
	}
	name := cmp.Or(o.Model, a.config.ModelName)
	if o.Provider == "" || o.Provider == a.config.Provider {
		return a.config.Model, name
	}
	return a.config.Providers[o.Provider], name
}

// startAt names the node that a run starts at (contract 2.4, 2.6, R10): the checkpoint's own
// where the run goes on from a question or from a checkpoint that the client chose, unless the
// conversation does not fit it.
func (a *Agent) startAt(o graph.Origin[State]) string {
	if c := o.Checkpoint; c != nil && (o.Forked || c.Reason == checkpoint.Interrupt) {
		switch c.Node {
		case "call_model":
			if o.State.answerable() {
				return c.Node
			}
		case "call_tools":
			open, _ := o.State.pending()
			if c.Reason == checkpoint.Interrupt {
				// A user message of the input has settled what was asked: one behind open
				// questions is the note of a tool.
				open = slices.DeleteFunc(open, func(c message.ToolCall) bool { return o.State.isClientTool(c.Name) && !a.hasTool(c.Name) })
			} else if len(open) > 0 && hasRole(o.State.Messages[len(o.State.Messages)-1:], message.RoleUser) {
				open = nil
			}
			if len(open) > 0 {
				return c.Node
			}
		}
	}
	return o.Entry
}

// snapshot is what tells a client that missed events where the run stands.
func snapshot(s State) []event.Data {
	return []event.Data{event.StateSnapshot{State: s.Context}, event.MessagesSnapshot{Messages: s.Messages}}
}
