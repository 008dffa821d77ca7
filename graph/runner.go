package graph

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/store"
)

// DefaultTenant is the tenant of those who name none.
const DefaultTenant = "default"

// RunnerOptions tune a [Runner]. Zero fields mean the default.
type RunnerOptions[S any] struct {
	// Codec says how the state is kept. Default: [checkpoint.JSON].
	Codec checkpoint.Codec[S]
	// StartAt names the node at which a run starts. Default: [Origin.Default].
	StartAt func(Origin[S]) string
	// Snapshot returns the events that tell an observer who missed some where the run stands.
	// Default: one state_snapshot with the codec's Result.
	Snapshot func(S) []event.Data

	// Bus carries the events to observers. Default: a bus in memory. One that is an
	// event.Signaler also lets processes know at once what they would find out with their next
	// heartbeat: that a run is to be cancelled, or is theirs to take up, or may begin.
	Bus event.Bus
	// Observer sees operations. Default: nobody.
	Observer Observer
	// Logger gets what nobody else is told. Default: [slog.Default].
	Logger *slog.Logger

	// OnBusy says what to do with a run on a busy session when it does not say so itself.
	// Default: [Reject].
	OnBusy OnBusy
	// WaitLimit is how long a run waits for a busy session before it fails. Default: 5 minutes.
	WaitLimit time.Duration

	// MaxSteps is how many nodes a run may execute. Default: 100.
	MaxSteps int
	// MaxRuns is how many runs this process executes at once; further ones wait in Start, those
	// of the tenant that has the fewest first. Default: 10,000.
	MaxRuns int
	// AcceptOnly leaves the runs that are started here to other processes, whose runners of the
	// same graph call Serve: a run is recorded, and executed as soon as one of them has room. All
	// runs are detached then; [Run.Hold] cancels them for clients that leave, as long as this
	// process lives.
	AcceptOnly bool
	// MaxTakeovers is how often a run may change hands without getting ahead: one that kills
	// its process again and again is ended. Default: 5.
	MaxTakeovers int

	// Lease is how long a run stays this process's own without a sign of life. Default: 15 s.
	Lease time.Duration
	// Heartbeat is the time between signs of life. Default: a third of the lease.
	Heartbeat time.Duration

	// CachedSessions is how many sessions' latest states are kept in memory, so that their next
	// run reads nothing. Default: 64. Negative: none.
	CachedSessions int
}

// OnBusy says what becomes of a run whose session has an active run.
type OnBusy string

const (
	Reject OnBusy = "reject" // a store.BusyError
	Wait   OnBusy = "wait"   // it is recorded and starts when its turn comes, first in first out
	Cancel OnBusy = "cancel" // the active run is cancelled, and this one waits for its end
)

// A Runner runs a graph durably: it starts runs, keeps their steps in a store, and takes over
// runs that another process left unfinished. It is safe for concurrent use.
type Runner[S any] struct {
	graph *Graph[S]
	store store.Store
	opts  RunnerOptions[S]
	owner uuid.UUID
	heads *heads[S]
	// nowhere is where a session begins that does not exist. Nobody changes it.
	nowhere *head[S]
	slots   *slots
	signals event.Signaler // nil: nobody else would hear any

	mu       sync.Mutex // guards what follows
	local    map[runKey]*execution[S]
	turns    map[runKey]chan struct{} // by session: closed when a run of it ends here
	arrivals chan struct{}            // closed when the next run enters; nil while nobody waits
	beating  bool
	adopting int // who claims runs at the moment
	closed   bool
	idle     chan struct{} // closed when nothing runs and nobody claims any more after closed was set
	stranded map[uuid.UUID]bool
	// down tells the observers of runs that are not executed here that nothing will be heard any more.
	down givenUp
}

// runKey is a run or a session in its tenant.
type runKey struct {
	tenant string
	id     uuid.UUID
}

// NewRunner returns a runner of the graph on a store. With a nil store nothing is kept: runs
// live as long as the process, which is enough for tests and for graphs that need no memory.
//
// Several runners may share a store, in one process or in many, also runners of other graphs.
// End a runner with [Runner.Shutdown].
func NewRunner[S any](g *Graph[S], st store.Store, options *RunnerOptions[S]) (*Runner[S], error) {
	if g == nil {
		return nil, errors.New("graph: NewRunner needs a graph")
	}
	var o RunnerOptions[S]
	if options != nil {
		o = *options
	}
	if o.Codec == nil {
		o.Codec = checkpoint.JSON[S]{}
	}
	if o.StartAt == nil {
		o.StartAt = Origin[S].Default
	}
	signals, _ := o.Bus.(event.Signaler)
	if o.Bus == nil {
		o.Bus = event.NewMemory(nil)
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.OnBusy = cmp.Or(o.OnBusy, Reject)
	o.WaitLimit = cmp.Or(o.WaitLimit, 5*time.Minute)
	o.MaxSteps = cmp.Or(o.MaxSteps, 100)
	o.MaxRuns = cmp.Or(o.MaxRuns, 10_000)
	o.MaxTakeovers = cmp.Or(o.MaxTakeovers, 5)
	o.Lease = cmp.Or(o.Lease, 15*time.Second)
	o.Heartbeat = cmp.Or(o.Heartbeat, o.Lease/3)
	o.CachedSessions = cmp.Or(o.CachedSessions, 64)
	if err := validate(o, st != nil); err != nil {
		return nil, err
	}
	return &Runner[S]{
		graph: g, store: st, opts: o, owner: newID(),
		heads: newHeads[S](o.CachedSessions), nowhere: &head[S]{},
		slots: newSlots(o.MaxRuns), signals: signals,
		local: make(map[runKey]*execution[S]), turns: make(map[runKey]chan struct{}),
		idle: make(chan struct{}), stranded: make(map[uuid.UUID]bool),
	}, nil
}

func validate[S any](o RunnerOptions[S], stored bool) error {
	switch o.OnBusy {
	case Reject, Wait, Cancel:
	default:
		return fmt.Errorf("graph: RunnerOptions.OnBusy %q: use Reject, Wait or Cancel", o.OnBusy)
	}
	for _, option := range []struct {
		name  string
		value int64
	}{
		{"WaitLimit", int64(o.WaitLimit)}, {"MaxSteps", int64(o.MaxSteps)}, {"MaxRuns", int64(o.MaxRuns)},
		{"MaxTakeovers", int64(o.MaxTakeovers)}, {"Lease", int64(o.Lease)}, {"Heartbeat", int64(o.Heartbeat)},
	} {
		if option.value < 0 {
			return fmt.Errorf("graph: RunnerOptions.%s is negative", option.name)
		}
	}
	if o.AcceptOnly && !stored {
		return errors.New("graph: RunnerOptions.AcceptOnly needs a store, by which other processes get the runs")
	}
	if o.Heartbeat >= o.Lease {
		return fmt.Errorf("graph: RunnerOptions.Heartbeat %v must be shorter than the lease %v", o.Heartbeat, o.Lease)
	}
	return nil
}

// Graph returns the runner's graph.
func (r *Runner[S]) Graph() *Graph[S] { return r.graph }

// Cancel ends a run, whichever process runs it, and returns once that is certain to happen. It
// does nothing to a run that has ended.
func (r *Runner[S]) Cancel(ctx context.Context, tenant string, run uuid.UUID) error {
	tenant = cmp.Or(tenant, DefaultTenant)
	if r.store != nil {
		if _, err := r.store.RequestCancel(ctx, tenant, run); err != nil {
			return err
		}
	}
	r.mu.Lock()
	x := r.local[runKey{tenant, run}]
	delete(r.stranded, run) // to end it needs no node
	r.mu.Unlock()
	if x != nil {
		x.cancel(ErrCancelled)
	} else if r.store != nil {
		r.signal(event.CancelRequested, tenant, run)
	} else {
		return &store.NotFoundError{Resource: store.RunResource, ID: run}
	}
	return nil
}

// DeleteSession removes a session with all that belongs to it, and ends what runs in it.
func (r *Runner[S]) DeleteSession(ctx context.Context, tenant string, session uuid.UUID) error {
	tenant = cmp.Or(tenant, DefaultTenant)
	if r.store == nil {
		return &store.NotFoundError{Resource: store.SessionResource, ID: session}
	}
	if err := r.store.DeleteSession(ctx, tenant, session); err != nil {
		return err
	}
	r.heads.drop(runKey{tenant, session})
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range r.local {
		if x.session == session && x.fence.Tenant == tenant {
			x.cancel(errDeleted)
		}
	}
	return nil
}

// At returns a checkpoint of a session with the state it holds; [uuid.Nil] asks for the one
// that a plain run would continue from. In a session without checkpoints, and in one that does
// not exist, the checkpoint is nil, and the state what messages outside runs make of the zero one.
func (r *Runner[S]) At(ctx context.Context, tenant string, session, id uuid.UUID) (*checkpoint.Checkpoint, S, error) {
	var none S
	h, err := r.load(ctx, cmp.Or(tenant, DefaultTenant), session, id)
	if err != nil {
		return nil, none, err
	}
	return h.checkpoint, h.state, nil
}

// Shutdown stops the runner: no run starts any more, and those that run may go on until ctx
// ends. What still runs then is stopped at its next safe point and given up for others to go on
// with, or for the next start of this program. It returns when nothing runs here any more: nil,
// or the cause of ctx if runs had to be stopped.
func (r *Runner[S]) Shutdown(ctx context.Context) error {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		r.rest()
	}
	r.mu.Unlock()
	select {
	case <-r.idle:
		return nil
	case <-ctx.Done():
	}
	r.mu.Lock()
	for _, x := range r.local {
		x.cancel(ErrShutdown)
	}
	r.mu.Unlock()
	<-r.idle
	return context.Cause(ctx)
}

// rest ends the shutdown when nothing runs any more. The caller holds mu.
func (r *Runner[S]) rest() {
	if r.closed && len(r.local) == 0 && r.adopting == 0 {
		close(r.idle)
		r.down.end()
	}
}

// enter makes an execution one of this process's runs.
func (r *Runner[S]) enter(x *execution[S]) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return ErrShutdown
	}
	key := runKey{x.fence.Tenant, x.fence.Run}
	if _, ok := r.local[key]; ok {
		return fmt.Errorf("graph: run %s: %w", x.fence.Run, store.ErrExists)
	}
	r.local[key] = x
	if r.arrivals != nil {
		close(r.arrivals)
		r.arrivals = nil
	}
	if !r.beating && r.store != nil {
		r.beating = true
		ctx, cancel := context.WithCancel(context.Background())
		if r.signals != nil {
			go r.listen(r.signals.Signals(ctx))
		}
		go r.beat(cancel)
	}
	return nil
}

// leave is the last thing an execution does.
func (r *Runner[S]) leave(x *execution[S]) {
	r.signal(event.SessionIdle, x.fence.Tenant, x.session)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.local, runKey{x.fence.Tenant, x.fence.Run})
	r.endTurn(runKey{x.fence.Tenant, x.session})
	r.rest()
}

// endTurn has those who wait for a session look at it. The caller holds mu.
func (r *Runner[S]) endTurn(session runKey) {
	if turn, ok := r.turns[session]; ok {
		close(turn)
		delete(r.turns, session)
	}
}

// leaveAlone keeps this process from claiming a run again: it cannot go on with it.
func (r *Runner[S]) leaveAlone(run uuid.UUID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stranded[run] = true
}

// arrival returns a channel that is closed when a run is taken up in this process.
func (r *Runner[S]) arrival() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.arrivals == nil {
		r.arrivals = make(chan struct{})
	}
	return r.arrivals
}

// turn returns a channel that is closed when a run of the session ends, in this process or in
// one that signals it.
func (r *Runner[S]) turn(session runKey) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.turns[session]
	if !ok {
		c = make(chan struct{})
		r.turns[session] = c
	}
	return c
}
