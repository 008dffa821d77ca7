package graph

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/store"
)

var nilID = uuid.Nil

// StartParams say what to run. Only what the run needs must be set.
type StartParams[S any] struct {
	// Tenant the session belongs to. Default: [DefaultTenant].
	Tenant string
	// Session to run in. One that does not exist is created; [uuid.Nil] means a new one.
	Session uuid.UUID
	// Run is the id of the run: one that was used is refused with store.ErrExists. [uuid.Nil]
	// means a new one.
	Run uuid.UUID
	// Checkpoint of the session to start from. [uuid.Nil] means to continue the session.
	Checkpoint uuid.UUID
	// Input is merged into the state by the codec: by default it becomes the state. Nil goes on
	// from the state as it is.
	Input *S
	// Resume answers the questions of an interrupted run: a JSON object keyed by their ids, or
	// if there is one question, its answer. Nil and null answer nothing.
	Resume json.RawMessage
	// Attached says that a client holds on to the run: if the process dies, the run is ended
	// rather than resumed.
	Attached bool
	// OnBusy overrides [RunnerOptions.OnBusy].
	OnBusy OnBusy
}

// An Origin is where a run starts from, for [RunnerOptions.StartAt].
type Origin[S any] struct {
	Entry      string
	Checkpoint *checkpoint.Checkpoint // nil: a new session
	Forked     bool                   // the caller chose the checkpoint
	HasInput   bool
	Answered   bool // the caller answers questions of the checkpoint
	State      S    // with the input
}

// Default starts at the node that asked if the run answers it or brings nothing new; at the
// node after a checkpoint that the caller chose; and else at the entry.
func (o Origin[S]) Default() string {
	switch {
	case o.Checkpoint == nil:
		return o.Entry
	case o.Checkpoint.Reason == checkpoint.Interrupt && (o.Answered || !o.HasInput):
		return o.Checkpoint.Node
	case o.Forked && o.Checkpoint.Next != "":
		return o.Checkpoint.Next
	}
	return o.Entry
}

// params is what a takeover needs to know of a run besides its checkpoints, as stored with it.
type params struct {
	Resume   json.RawMessage   `json:"resume,omitempty"`
	HasInput bool              `json:"has_input,omitempty"`
	Version  int               `json:"version,omitempty"`
	Document json.RawMessage   `json:"document,omitempty"`
	Messages []json.RawMessage `json:"messages,omitempty"`
}

// Start begins a run and returns when it is recorded: from then on it is finished, by this
// process or by another one. Ctx bounds that, not the life of the run; use [Run.Cancel] or
// [Runner.Cancel] to end it.
//
// Errors: store.ErrNotFound for a checkpoint that is not the session's, store.ErrExists for a
// run id that was used, a *store.BusyError, a [*ResumeError], [ErrShutdown]; in all these cases
// nothing was recorded. After any other error of the store that is not known: start the run
// again under the same id, and store.ErrExists says that it was.
func (r *Runner[S]) Start(ctx context.Context, p StartParams[S]) (*Run[S], error) {
	p.Tenant = cmp.Or(p.Tenant, DefaultTenant)
	p.OnBusy = cmp.Or(p.OnBusy, r.opts.OnBusy)
	fresh := p.Session == nilID
	if fresh {
		p.Session = newID()
	}
	if p.Run == nilID {
		p.Run = newID()
	}
	if !r.opts.AcceptOnly {
		if err := r.slots.take(ctx, p.Tenant); err != nil {
			return nil, err
		}
	}
	run, err := r.start(ctx, p, fresh)
	if err != nil {
		if !r.opts.AcceptOnly {
			r.slots.give(p.Tenant)
		}
		return nil, r.refuse(ctx, p, err)
	}
	return run, nil
}

// refuse returns why a run is refused: that its id was used comes before everything that is
// wrong with where it starts (contract R21, R48).
func (r *Runner[S]) refuse(ctx context.Context, p StartParams[S], err error) error {
	if r.store == nil || errors.Is(err, store.ErrExists) || ctx.Err() != nil {
		return err
	}
	if _, found := r.store.Run(ctx, p.Tenant, p.Run); found == nil {
		return fmt.Errorf("graph: run %s: %w", p.Run, store.ErrExists)
	}
	return err
}

// maxConflicts bounds how often a start is prepared anew because the session moved on meanwhile.
const maxConflicts = 16

// start prepares a run and records it. A session that is fresh is one of which nobody else knows the id.
func (r *Runner[S]) start(ctx context.Context, p StartParams[S], fresh bool) (*Run[S], error) {
	session := runKey{p.Tenant, p.Session}
	wait := p.OnBusy == Wait
	for range maxConflicts {
		var known *head[S]
		switch {
		case p.Checkpoint != nilID:
		case fresh:
			known, fresh = r.nowhere, false // there is nothing to load
		default:
			known = r.heads.take(session)
		}
		loaded := known == nil
		if loaded {
			var err error
			if known, err = r.load(ctx, p.Tenant, p.Session, p.Checkpoint); err != nil {
				return nil, err
			}
		}
		x := r.newExecution(ctx, p, known)
		if wait {
			if err := x.recordInput(p); err != nil {
				return nil, err
			}
		}
		if err := x.prepare(known, p.Checkpoint != nilID, p.Input, p.Resume); err != nil {
			// Whether the session is busy comes before what is wrong with an answer (R48); and
			// a head from memory may be behind.
			if !loaded {
				continue
			}
			if known.active && p.Checkpoint == nilID && !wait {
				if p.OnBusy == Cancel {
					wait = true
					if err := r.cancelActive(ctx, p); err != nil {
						return nil, err
					}
					continue
				}
				return nil, r.busy(ctx, p)
			}
			if !known.active || p.Checkpoint != nilID || !errors.Is(err, ErrInvalidResume) {
				return nil, err
			}
			// It waits; its answer is checked when its turn comes (R43).
			x.reset()
			x.unready = true
		}
		run, err := r.launch(x)
		switch {
		case err == nil:
			return run, nil
		case errors.Is(err, store.ErrConflict):
			continue
		case errors.Is(err, store.ErrBusy) && p.OnBusy == Cancel:
			if err := r.cancelActive(ctx, p); err != nil {
				return nil, err
			}
			wait = true
		default:
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	return nil, fmt.Errorf("graph: session %s: %w: it changes faster than a run can begin on it", p.Session, store.ErrConflict)
}

// load reads a position to start from. A session that does not exist is an empty one, unless a
// checkpoint of it is asked for.
func (r *Runner[S]) load(ctx context.Context, tenant string, session, checkpoint uuid.UUID) (*head[S], error) {
	if r.store == nil {
		if checkpoint != nilID {
			return nil, &store.NotFoundError{Resource: store.CheckpointResource, ID: checkpoint}
		}
		return r.nowhere, nil
	}
	pos, err := r.store.Load(ctx, &store.Load{Tenant: tenant, Session: session, Checkpoint: checkpoint})
	if missing, ok := errors.AsType[*store.NotFoundError](err); ok && missing.Resource == store.SessionResource {
		if checkpoint != nilID {
			return nil, &store.NotFoundError{Resource: store.CheckpointResource, ID: checkpoint}
		}
		return r.nowhere, nil
	}
	if err != nil {
		return nil, err
	}
	return r.decode(pos)
}

// busy returns the error for a run on a busy session.
func (r *Runner[S]) busy(ctx context.Context, p StartParams[S]) error {
	s, err := r.store.Session(ctx, p.Tenant, p.Session)
	if err != nil {
		return err
	}
	return &store.BusyError{Session: p.Session, Run: s.Active}
}

// cancelActive asks for the end of a session's active run.
func (r *Runner[S]) cancelActive(ctx context.Context, p StartParams[S]) error {
	s, err := r.store.Session(ctx, p.Tenant, p.Session)
	if err != nil || s.Active == nilID {
		return err
	}
	err = r.Cancel(ctx, p.Tenant, s.Active)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// newExecution returns the execution of a new run, not recorded yet.
func (r *Runner[S]) newExecution(ctx context.Context, p StartParams[S], from *head[S]) *execution[S] {
	x := r.execution(ctx, store.Fence{Tenant: p.Tenant, Run: p.Run, Owner: r.owner, Epoch: 1}, p.Session)
	x.begin = &store.Begin{
		Fence: x.fence, Session: p.Session, Graph: r.graph.name, Attached: p.Attached && !r.opts.AcceptOnly,
		From: store.From{Checkpoint: p.Checkpoint, Head: from.seq(), Base: from.base},
	}
	if len(p.Resume) > 0 {
		x.begin.Params, _ = json.Marshal(params{Resume: p.Resume})
	}
	x.holding, x.held = true, make([]said, 0, 4) // until the run is recorded
	x.emit(event.RunStarted{})
	return x
}

// recordInput makes the run one that may wait for its session: its input goes with it.
func (x *execution[S]) recordInput(p StartParams[S]) error {
	saved := params{Resume: p.Resume, HasInput: p.Input != nil, Version: x.r.opts.Codec.Version()}
	if p.Input != nil {
		var zero S
		change, err := x.r.opts.Codec.Encode(nil, zero, *p.Input)
		if err != nil {
			return err
		}
		if change.Document != nil {
			if saved.Document, err = change.Document(); err != nil {
				return err
			}
		}
		for _, m := range change.Messages {
			text, err := json.Marshal(m)
			if err != nil {
				return err
			}
			saved.Messages = append(saved.Messages, text)
		}
	}
	text, err := json.Marshal(saved)
	if err != nil {
		return err
	}
	x.begin.Wait, x.begin.Params = true, text
	return nil
}

// savedInput reads back what recordInput wrote.
func (r *Runner[S]) savedInput(text []byte) (p params, input *S, err error) {
	if len(text) == 0 {
		return p, nil, nil
	}
	if err := json.Unmarshal(text, &p); err != nil {
		return p, nil, fmt.Errorf("graph: parameters of a waiting run: %w", err)
	}
	if !p.HasInput {
		return p, nil, nil
	}
	messages := make([]message.Message, len(p.Messages))
	for i, text := range p.Messages {
		if messages[i], err = message.Unmarshal(text); err != nil {
			return p, nil, fmt.Errorf("graph: input of a waiting run: %w", err)
		}
	}
	s, err := r.opts.Codec.Decode(p.Version, p.Document, messages)
	if err != nil {
		return p, nil, fmt.Errorf("graph: input of a waiting run: %w", err)
	}
	return p, &s, nil
}

// launch runs the execution and returns when the run is recorded, or could not be.
func (r *Runner[S]) launch(x *execution[S]) (*Run[S], error) {
	if r.opts.AcceptOnly {
		return r.record(x)
	}
	if err := r.enter(x); err != nil {
		return nil, err
	}
	run := &Run[S]{r: r, tenant: x.fence.Tenant, id: x.fence.Run, session: x.session, local: x}
	go x.run()
	if err := <-x.accepted; err != nil {
		<-x.done
		return nil, err
	}
	return run, nil
}

// record records a run for other processes to execute.
func (r *Runner[S]) record(x *execution[S]) (*Run[S], error) {
	defer x.cancel(nil)
	r.mu.Lock()
	closed := r.closed
	r.mu.Unlock()
	if closed {
		return nil, ErrShutdown
	}
	// Nobody has it, so who claims it first gets epoch 1 and says that it started.
	x.begin.Owner, x.begin.Epoch, x.lease = nilID, 0, 0
	x.dropEvents()
	if err := x.durable(); err != nil && !errors.Is(err, errWaiting) {
		return nil, err
	}
	if r.signals != nil {
		x.openLog()
	}
	r.signal(event.RunUnclaimed, x.fence.Tenant, x.fence.Run)
	return &Run[S]{r: r, tenant: x.fence.Tenant, id: x.fence.Run, session: x.session}, nil
}
