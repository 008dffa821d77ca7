package graph

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"math"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/store"
)

// A Run is a handle to a run, in this process or another one, under way or ended. It holds
// nothing that must be released, and is safe for concurrent use.
type Run[S any] struct {
	r           *Runner[S]
	tenant      string
	id, session uuid.UUID
	local       *execution[S] // nil if this process does not execute it
}

// Attach returns a handle to a run that was started before, here or elsewhere.
func (r *Runner[S]) Attach(ctx context.Context, tenant string, id uuid.UUID) (*Run[S], error) {
	if tenant == "" {
		tenant = DefaultTenant
	}
	if x := r.executing(tenant, id); x != nil {
		return &Run[S]{r: r, tenant: tenant, id: id, session: x.session, local: x}, nil
	}
	if r.store == nil {
		return nil, &store.NotFoundError{Resource: store.RunResource, ID: id}
	}
	run, err := r.store.Run(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	return &Run[S]{r: r, tenant: tenant, id: id, session: run.Session}, nil
}

// executing returns the execution of a run that is recorded and goes on in this process.
func (r *Runner[S]) executing(tenant string, id uuid.UUID) *execution[S] {
	r.mu.Lock()
	defer r.mu.Unlock()
	if x := r.local[runKey{tenant, id}]; x != nil && x.recorded() {
		return x
	}
	return nil
}

// ID returns the run's id.
func (r *Run[S]) ID() uuid.UUID { return r.id }

// Session returns the id of the run's session.
func (r *Run[S]) Session() uuid.UUID { return r.session }

// Cancel ends the run. It returns when that is certain to happen; Wait says when it did.
func (r *Run[S]) Cancel(ctx context.Context) error {
	err := r.r.Cancel(ctx, r.tenant, r.id)
	if r.r.store == nil && errors.Is(err, store.ErrNotFound) {
		return nil // it has ended, and nothing of it is kept
	}
	return err
}

// Wait returns the run's last state when the run has ended, or ctx's error before. The error is
// nil if the run completed, an [*InterruptedError] if it asks something, [ErrCancelled], or a
// [*RunError]. If this process could not go on with the run, the error says why, and the run is
// not over: others take it up.
func (r *Run[S]) Wait(ctx context.Context) (S, error) {
	var none S
	if x := r.local; x != nil {
		select {
		case <-x.done:
			return x.state, x.err
		case <-ctx.Done():
			return none, context.Cause(ctx)
		}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	over := make(chan struct{}) // closed when the bus says that the run has ended, if it does
	go func() {
		defer close(over)
		for range r.Events(ctx, Live) {
		}
	}()
	tick := time.NewTicker(r.r.opts.Heartbeat)
	defer tick.Stop()
	for {
		arrival := r.r.arrival()
		if x := r.r.executing(r.tenant, r.id); x != nil {
			return (&Run[S]{r: r.r, tenant: r.tenant, id: r.id, session: r.session, local: x}).Wait(ctx)
		}
		run, err := r.r.store.Run(ctx, r.tenant, r.id)
		if ctx.Err() != nil {
			return none, context.Cause(ctx)
		}
		if err != nil {
			return none, err
		}
		if run.Status.Ended() {
			return r.ended(ctx, run)
		}
		select {
		case <-arrival:
		case <-over:
			over = nil
		case <-tick.C:
		case <-ctx.Done():
			return none, context.Cause(ctx)
		}
	}
}

// ended returns the outcome of a run that the store knows has ended.
func (r *Run[S]) ended(ctx context.Context, run *store.Run) (S, error) {
	h, err := r.position(ctx)
	if err != nil {
		var none S
		return none, err
	}
	switch run.Status {
	case checkpoint.Completed:
		return h.state, nil
	case checkpoint.Cancelled:
		return h.state, ErrCancelled
	case checkpoint.Interrupted:
		return h.state, &InterruptedError{Questions: Questions(h.checkpoint)}
	}
	return h.state, &RunError{Run: r.id, Code: run.ErrorCode, Text: run.Error}
}

// position loads the last checkpoint of the run.
func (r *Run[S]) position(ctx context.Context) (*head[S], error) {
	pos, err := r.r.store.Load(ctx, &store.Load{Tenant: r.tenant, Run: r.id})
	if err != nil {
		return nil, err
	}
	return r.r.decode(pos)
}

// Live as the number of [Run.Events] leaves out what has happened before. The last event of the
// run is never left out.
const Live int64 = -1

// Events returns the events of the run after a number, zero for all: those that are kept, then
// live ones as they come, up to the last event of the run. An observer that asks for events
// that are gone gets a snapshot of where the run stands instead, under numbers before the first
// that is kept: who has seen a part of it asks for the rest and gets it whole.
//
// The sequence ends with at most one error: ctx's, or the reason why this process cannot go on
// with the run. Each loop starts anew. Breaking the loop only stops watching; see [Run.Hold].
func (r *Run[S]) Events(ctx context.Context, after int64) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		w := &watch[S]{run: r, after: after, yield: yield}
		for w.follow(ctx) {
		}
	}
}

// endGrace is how long a client that lets go of a run waits for its end.
const endGrace = 5 * time.Second

// Hold returns the events of an attached run, all of them, for the client that it lives for:
// letting go, by breaking the loop or by the end of ctx, cancels the run. The loop is left when
// the run has ended, or a few seconds later. Any error but ctx's means that the run goes on
// elsewhere, and cancels nothing. The sequence can be used once.
func (r *Run[S]) Hold(ctx context.Context) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		over := false
		defer func() {
			if over {
				return
			}
			// The session should be free again when the loop is left, if that can be.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endGrace)
			defer cancel()
			if r.Cancel(ctx) == nil {
				_, _ = r.Wait(ctx)
			}
		}()
		for e, err := range r.Events(ctx, 0) {
			over = err != nil && ctx.Err() == nil || err == nil && event.Terminal(e.Data)
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// watch is one loop over the events of a run.
type watch[S any] struct {
	run   *Run[S]
	after int64
	yield func(event.Event, error) bool
	// late: the run had ended before the observer came, who only hears how.
	late bool
	// ended: what is heard is what is kept.
	ended bool
	// awaited: there is no log of the run, but it has not ended.
	awaited bool
	// arrival is closed when a run is taken up after the last look at it.
	arrival <-chan struct{}
}

// follow yields events until something gets in the way, and reports whether to try again.
func (w *watch[S]) follow(ctx context.Context) bool {
	if ctx.Err() != nil {
		w.yield(event.Event{}, context.Cause(ctx))
		return false
	}
	r := w.run
	w.arrival = r.r.arrival()
	x := r.local
	if x == nil {
		x = r.r.executing(r.tenant, r.id)
	}
	// An execution that is given up says nothing more: what it has said is all there is.
	last := int64(-1)
	live, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if x != nil {
		select {
		case <-x.done:
			last = x.givenUpAfter()
		default:
			if w.overtaken(ctx, x) {
				select {
				case <-x.done:
				case <-ctx.Done():
				}
				return true
			}
			defer x.over.then(func() { stop(errGivenUp) })()
		}
		if last >= 0 && (w.after >= last || w.after == Live) {
			w.yield(event.Event{}, x.err)
			return false
		}
	} else if !w.ended {
		defer r.r.down.then(func() { stop(ErrShutdown) })()
		if r.r.store != nil {
			go w.lookOut(live, stop)
		}
	}
	subscribe := r.r.opts.Bus.Subscribe
	if bus, ok := r.r.opts.Bus.(event.Follower); ok && w.awaited {
		subscribe = bus.Follow
	}
	after := w.after
	if after == Live {
		after = math.MaxInt64 // which counts as the last
	}
	for e, err := range subscribe(live, r.tenant, r.id, after) {
		if err != nil {
			return w.recover(ctx, live, err)
		}
		if x == nil && after != math.MaxInt64 && e.Seq <= after && !event.Terminal(e.Data) {
			continue // the observer comes from a process that knows more, which this one hears of yet
		}
		w.after = e.Seq
		if w.late && !event.Terminal(e.Data) {
			continue
		}
		if !w.yield(e, nil) || event.Terminal(e.Data) {
			return false
		}
		if e.Seq == last {
			return true
		}
	}
	if w.after == Live {
		w.after, w.late = 0, true
		return true
	}
	return false
}

// overtaken reports whether another process has taken the run over from an execution that does not know it
// yet, because this process was frozen, say. An observer who comes from there knows of later numbers.
func (w *watch[S]) overtaken(ctx context.Context, x *execution[S]) bool {
	if x.store == nil || w.after <= x.fence.Epoch*epochNumbers {
		return false
	}
	run, err := w.record(ctx)
	if err != nil || run.Epoch <= x.fence.Epoch {
		return false
	}
	w.run.r.interruptLocal([]store.Fence{x.fence}, nil)
	return true
}

// recover deals with the end of a subscription that is not the end of the run.
func (w *watch[S]) recover(ctx, live context.Context, err error) bool {
	r := w.run
	if ctx.Err() != nil {
		w.yield(event.Event{}, context.Cause(ctx))
		return false
	}
	cause := context.Cause(live)
	switch cause {
	case errGivenUp:
		return true
	case ErrShutdown:
		// What a run that has ended said can be heard even now.
		run, err := w.record(ctx)
		if err != nil || !run.Status.Ended() {
			w.yield(event.Event{}, cause)
			return false
		}
		w.ended = true
		return true
	}
	if gap, ok := errors.AsType[*event.GapError](err); ok && r.r.store != nil {
		if w.late {
			w.after = gap.First - 1
			return true
		}
		return w.snapshot(ctx, gap.First-1)
	}
	if cause != errUnsaid && (!errors.Is(err, event.ErrNoLog) || r.r.store == nil) {
		w.yield(event.Event{}, err)
		return false
	}
	if x := r.local; x != nil && x.givenUpAfter() >= 0 {
		select {
		case <-x.done:
			w.yield(event.Event{}, x.err)
			return false
		default:
		}
	}
	run, err := w.record(ctx)
	if err != nil {
		w.yield(event.Event{}, err)
		return false
	}
	// Whoever comes before a log begins is there in time for all of it.
	w.after = max(w.after, 0)
	if run.Status.Ended() {
		// Above all that an owner before the last one may still say: it may not know that it is none.
		w.after = max(w.after, (run.Epoch-1)*epochNumbers)
		if w.late || w.snapshot(ctx, w.after+1) {
			w.last(ctx, run)
		}
		return false
	}
	// It runs elsewhere, or waits to be taken up: its events will come by the bus.
	if _, ok := r.r.opts.Bus.(event.Follower); ok && !w.awaited {
		w.awaited = true
		return true
	}
	timer := time.NewTimer(r.r.opts.Heartbeat)
	defer timer.Stop()
	var over <-chan struct{}
	if r.local != nil {
		over = r.local.done
	}
	select {
	case <-w.arrival:
	case <-timer.C:
	case <-over:
	case <-live.Done():
	}
	return true
}

// lookOut ends the wait for the last event of a run that has ended without one: whoever would have
// said it died at the wrong moment.
func (w *watch[S]) lookOut(live context.Context, stop context.CancelCauseFunc) {
	tick := time.NewTicker(w.run.r.opts.Heartbeat)
	defer tick.Stop()
	ended := false
	for {
		select {
		case <-tick.C:
		case <-live.Done():
			return
		}
		switch run, err := w.record(live); {
		case err != nil || !run.Status.Ended():
		case ended: // and its last event had the time of a heartbeat to come
			stop(errUnsaid)
			return
		default:
			ended = true
		}
	}
}

// record returns what is kept of the run. One that is not executed here and not kept has ended.
func (w *watch[S]) record(ctx context.Context) (*store.Run, error) {
	r := w.run
	if r.r.store == nil {
		return &store.Run{Status: checkpoint.Completed}, nil
	}
	return r.r.store.Run(ctx, r.tenant, r.id)
}

// snapshot yields where the run stands, under a number. It reports whether the loop goes on.
func (w *watch[S]) snapshot(ctx context.Context, number int64) bool {
	h, err := w.run.position(ctx)
	if err != nil {
		w.yield(event.Event{}, err)
		return false
	}
	parts := w.run.r.snapshot(h.state)
	for i, data := range parts {
		// A number of its own for each, for who asks for what follows a part of it.
		n := max(number-int64(len(parts)-1-i), w.after)
		if !w.yield(w.event(n, data), nil) {
			return false
		}
	}
	w.after = number
	return true
}

// last yields the last event of a run, as the store knows it.
func (w *watch[S]) last(ctx context.Context, run *store.Run) {
	if run.Status == checkpoint.Failed {
		w.yield(w.event(w.after+1, event.RunError{Error: run.Error, Code: run.ErrorCode}), nil)
		return
	}
	finished := event.RunFinished{Status: string(run.Status)}
	h, err := w.run.position(ctx)
	if err == nil && run.Last > 0 {
		finished.Result, err = w.run.r.opts.Codec.Result(h.state)
		if run.Status == checkpoint.Interrupted {
			finished.InterruptPayload, _ = json.Marshal(interruptPayload{Questions(h.checkpoint)})
		}
	}
	if err != nil {
		w.yield(event.Event{}, err)
		return
	}
	w.yield(w.event(w.after+1, finished), nil)
}

func (w *watch[S]) event(number int64, data event.Data) event.Event {
	return event.Event{Seq: number, Time: time.Now(), Tenant: w.run.tenant, Session: w.run.session, Run: w.run.id, Data: data}
}

func (r *Runner[S]) snapshot(s S) []event.Data {
	if r.opts.Snapshot != nil {
		return r.opts.Snapshot(s)
	}
	result, err := r.opts.Codec.Result(s)
	if err != nil {
		return nil
	}
	return []event.Data{event.StateSnapshot{State: result}}
}

var (
	// errGivenUp ends the wait for events of an execution that is over.
	errGivenUp = errors.New("graph: execution is over")
	// errUnsaid ends the wait for the last event of a run, which nobody will say.
	errUnsaid = errors.New("graph: run has ended unheard")
)

// givenUpAfter returns the number of the last event that an execution published if it is over
// without the run having ended, else -1.
func (x *execution[S]) givenUpAfter() int64 {
	x.eventMu.Lock()
	defer x.eventMu.Unlock()
	if x.ended {
		return -1
	}
	return x.number
}

// givenUp tells observers that an execution is over although the run is not. The zero value is
// ready; it costs nothing while nobody observes.
type givenUp struct {
	mu    sync.Mutex // guards what follows
	ended bool
	calls map[int]func()
	next  int
}

// then has f called at the end, or now if that was before. The func it returns takes that back.
func (g *givenUp) then(f func()) (stop func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		f()
		return func() {}
	}
	if g.calls == nil {
		g.calls = make(map[int]func())
	}
	g.next++
	n := g.next
	g.calls[n] = f
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.calls, n)
	}
}

func (g *givenUp) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = true
	for _, f := range g.calls {
		f()
	}
	g.calls = nil
}
