package graph

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/store"
)

// Serve takes over runs that nobody advances any more, because their process died or gave them
// up, at once and then with every heartbeat and signal, until ctx ends. It returns nil then, and an error
// only if the runner has no store or is AcceptOnly.
//
// A detached run goes on from its last checkpoint. An attached one is ended as failed, code
// "lost": its client is gone with the process. One that changed hands too often without getting
// ahead is ended as failed, code "poisoned".
func (r *Runner[S]) Serve(ctx context.Context) error {
	if r.store == nil {
		return errors.New("graph: Serve needs a runner with a store")
	}
	if r.opts.AcceptOnly {
		return errors.New("graph: Serve needs a runner that executes runs, not one that is AcceptOnly")
	}
	if r.opts.Observer != nil {
		var reporting sync.WaitGroup
		defer reporting.Wait()
		reporting.Go(func() { r.reportBacklog(ctx) })
	}
	unclaimed := r.unclaimed(ctx)
	tick := time.NewTicker(r.opts.Heartbeat)
	defer tick.Stop()
	for {
		if err := r.adoptAll(ctx); err != nil && ctx.Err() == nil {
			r.opts.Logger.ErrorContext(ctx, "looking for runs to take over", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-unclaimed:
		}
	}
}

// claimLimit is how many runs are taken over in one go.
const claimLimit = 32

// claiming is who takes slots for runs that are yet to be claimed: no tenant.
const claiming = ""

// reportBacklog tells the observer what there is to do, with every heartbeat.
func (r *Runner[S]) reportBacklog(ctx context.Context) {
	tick := time.NewTicker(r.opts.Heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		ctx, end := r.opts.Observer.Observe(ctx, Operation{Kind: BacklogOperation, Name: r.graph.name, Graph: r.graph.name})
		o := Outcome{}
		b, err := r.store.Backlog(ctx, []string{r.graph.name})
		if o.Err = err; err == nil {
			o.Detail = *b
		}
		end(o)
	}
}

// adoptAll takes over what there is, as soon as there is room for it.
func (r *Runner[S]) adoptAll(ctx context.Context) error {
	for more := true; more; {
		err := r.slots.take(ctx, claiming)
		if err != nil {
			return err
		}
		if more, err = r.adoptSome(ctx, 1+r.slots.takeFree(claiming, claimLimit-1)); err != nil {
			return err
		}
	}
	return nil
}

// adoptSome takes over up to limit runs, for which slots are taken. It reports whether there may
// be more.
func (r *Runner[S]) adoptSome(ctx context.Context, limit int) (more bool, err error) {
	defer func() {
		for range limit {
			r.slots.give(claiming)
		}
	}()
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return false, nil
	}
	r.adopting++
	except := make([]uuid.UUID, 0, len(r.stranded)+len(r.local))
	for id := range r.stranded {
		except = append(except, id)
	}
	for key := range r.local {
		except = append(except, key.id) // a write of its own will tell it whether it is lost
	}
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.adopting--
		r.rest()
	}()
	runs, err := r.store.Claim(ctx, &store.Claim{
		Owner: r.owner, Graphs: []string{r.graph.name}, Except: except, Lease: r.opts.Lease, Limit: limit,
	})
	if err != nil {
		return false, err
	}
	more = len(runs) == limit
	for i := range runs {
		limit--
		r.slots.hand(claiming, runs[i].Tenant)
		if err := r.adopt(ctx, &runs[i]); err != nil {
			r.slots.give(runs[i].Tenant)
			leaving := ctx.Err() != nil || errors.Is(err, ErrShutdown)
			if !leaving {
				r.opts.Logger.ErrorContext(ctx, "run not taken over", "run", runs[i].ID, "error", err)
			}
			r.release(ctx, runs[i].Fence(), leaving)
			more = false // or it would be claimed again at once
		}
	}
	return more, nil
}

// release gives a run up that this process holds, also once ctx has ended: nobody else has it before its
// lease runs out.
func (r *Runner[S]) release(ctx context.Context, fence store.Fence, leaving bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	if err := r.store.Release(ctx, fence); err != nil {
		r.opts.Logger.ErrorContext(ctx, "run not released, its lease has to run out", "run", fence.Run, "error", err)
		return
	}
	if leaving { // else this process, which gives it up for a fault of its own, would be told to take it up again
		r.signal(event.RunUnclaimed, fence.Tenant, fence.Run)
	}
}

// adopt goes on with a claimed run, which has a slot.
func (r *Runner[S]) adopt(ctx context.Context, run *store.Run) error {
	x := r.execution(ctx, run.Fence(), run.Session)
	x.branch, x.line, x.last = run.Branch, run.Line, run.Last
	x.base = -1 // not known to hold: the next run of the session loads
	if run.Epoch == 1 {
		x.emit(event.RunStarted{})
	}
	resume := func() error {
		if run.Last == 0 {
			x.failed = errWaiting // it goes on waiting for its session
			return nil
		}
		return x.restore(ctx, run)
	}
	if err := resume(); err != nil {
		return err
	}
	x.known.Store(true)
	x.accept(nil)
	switch {
	case run.CancelRequested:
		x.cancel(ErrCancelled)
	case run.Attached:
		x.cancel(Fail(CodeLost, "the process that ran it was lost", ErrProcessLost))
	case run.Takeovers > r.opts.MaxTakeovers:
		x.cancel(Fail(CodePoisoned, fmt.Sprintf("it changed hands %d times without getting ahead", run.Takeovers), ErrProcessLost))
	}
	x.openLog()
	if err := r.enter(x); err != nil {
		return err
	}
	r.opts.Logger.DebugContext(ctx, "run taken over", "run", run.ID, "session", run.Session, "takeovers", run.Takeovers)
	go x.run()
	return nil
}

// restore makes the execution go on from the run's last checkpoint.
func (x *execution[S]) restore(ctx context.Context, run *store.Run) error {
	pos, err := x.store.Load(ctx, &store.Load{Tenant: run.Tenant, Run: run.ID})
	if err != nil {
		return err
	}
	h, err := x.r.decode(pos)
	if err != nil {
		x.r.leaveAlone(run.ID) // what is stored does not get better by looking again
		return err
	}
	x.state, x.document, x.chain, x.at, x.next = h.state, h.document, h.chain, *h.checkpoint, h.checkpoint.Next
	if x.at.Reason == checkpoint.Step {
		x.ran = x.at.Node
	}
	x.setTasks(h.tasks)
	if x.at.Reason != checkpoint.Input || x.at.ParentID == nilID {
		return nil
	}
	// Nothing ran yet: what the run resumed with still counts.
	parent, err := x.store.Checkpoint(ctx, run.Tenant, x.at.ParentID)
	if err != nil {
		return err
	}
	if _, resumed := x.keptTask(scopeTask); resumed && parent.Reason == checkpoint.Interrupt && parent.Node == x.next {
		p, _, err := x.r.savedInput(run.Params)
		if err != nil {
			return err
		}
		open := Questions(parent)
		answers, err := answersTo(open, p.Resume)
		if err != nil {
			return err
		}
		x.resumed = resumption{open: open, answers: answers}
	}
	return nil
}

// await waits until the session is the run's and starts it then. It reports whether the run
// goes on; otherwise the execution has ended.
func (x *execution[S]) await() bool {
	x.reset()
	x.writeMu.Lock()
	x.failed = nil
	x.writeMu.Unlock()
	x.sayStarted()
	x.dropEvents() // the rest will be said again, of what the run then starts from
	x.accept(nil)
	limit := time.NewTimer(x.r.opts.WaitLimit)
	defer limit.Stop()
	tick := time.NewTicker(x.r.opts.Heartbeat)
	defer tick.Stop()
	for {
		turn := x.r.turn(runKey{x.fence.Tenant, x.session})
		var ours bool
		err := x.persist("Promote", func(ctx context.Context) (err error) {
			ours, err = x.store.Promote(ctx, x.fence)
			return err
		})
		if err != nil && x.ctx.Err() == nil {
			x.abandon(err)
			return false
		}
		if ours && x.ctx.Err() == nil {
			return x.begun()
		}
		select {
		case <-turn:
		case <-tick.C:
		case <-limit.C:
			x.endWaiting(outcome{checkpoint.Failed, CodeSessionBusy, fmt.Sprintf("the session was busy for %v", x.r.opts.WaitLimit)})
			return false
		case <-x.ctx.Done():
			x.stopWaiting(context.Cause(x.ctx))
			return false
		}
	}
}

// begun loads the position that a waiting run starts from, now that it may.
func (x *execution[S]) begun() bool {
	ctx := context.WithoutCancel(x.ctx)
	run, err := x.store.Run(ctx, x.fence.Tenant, x.fence.Run)
	if err != nil {
		x.abandon(err)
		return false
	}
	from, err := x.r.load(ctx, x.fence.Tenant, x.session, nilID)
	if err != nil {
		x.abandon(err)
		return false
	}
	p, input, err := x.r.savedInput(run.Params)
	if err == nil {
		x.base = from.base
		err = x.prepare(from, false, input, p.Resume)
	}
	if err != nil {
		code, text := CodeNodeError, "the run could not start"
		if errors.Is(err, ErrInvalidResume) {
			code, text = CodeBadResume, err.Error() // it speaks of what the client sent
		}
		x.log.ErrorContext(x.ctx, "waiting run could not start", "run", x.fence.Run, "error", err)
		x.endWaiting(outcome{checkpoint.Failed, code, text})
		return false
	}
	return true
}

// stopWaiting ends the wait for a cause.
func (x *execution[S]) stopWaiting(cause error) {
	switch {
	case errors.Is(cause, ErrCancelled):
		x.endWaiting(outcome{status: checkpoint.Cancelled})
	case errors.Is(cause, ErrProcessLost):
		code, text := diagnose(cause)
		x.endWaiting(outcome{checkpoint.Failed, code, text})
	default:
		x.abandon(cause)
	}
}

// endWaiting ends a run that had no checkpoint: it leaves none.
func (x *execution[S]) endWaiting(o outcome) {
	err := x.commit(o)
	if errors.Is(err, store.ErrCancelRequested) {
		o = outcome{status: checkpoint.Cancelled}
		err = x.commit(o)
	}
	// A cancel request ends a waiting run in the store itself.
	if err != nil && !(errors.Is(err, store.ErrLost) && o.status == checkpoint.Cancelled) {
		x.abandon(err)
		return
	}
	if o.status == checkpoint.Cancelled {
		x.end(event.RunFinished{Status: string(o.status)}, ErrCancelled)
	} else {
		x.end(event.RunError{Error: o.text, Code: o.code}, &RunError{Run: x.fence.Run, Code: o.code, Text: o.text})
	}
}

// beat renews the leases of this process's runs while there are any, and learns from the store
// which of them are no longer its own and which are to be cancelled. It calls end at its end.
func (r *Runner[S]) beat(end func()) {
	defer end()
	tick := time.NewTicker(r.opts.Heartbeat)
	defer tick.Stop()
	renewed := time.Now()
	safe := r.opts.Lease - r.opts.Heartbeat/2 // since renewed, with room for what still runs to stop
	for range tick.C {
		r.mu.Lock()
		if len(r.local) == 0 {
			r.beating = false
			r.mu.Unlock()
			return
		}
		var fences []store.Fence
		for _, x := range r.local {
			if x.recorded() && !x.lost {
				fences = append(fences, x.fence)
			}
		}
		r.mu.Unlock()
		if len(fences) == 0 {
			renewed = time.Now()
			continue
		}
		asked := time.Now()
		answer, err := r.renew(renewed.Add(safe), fences)
		if err != nil {
			r.opts.Logger.Error("leases not renewed", "runs", len(fences), "error", err)
			if time.Since(renewed)+r.opts.Heartbeat > safe {
				// The next heartbeat may be too late: others may have taken these runs over then.
				r.interruptLocal(fences, nil)
				renewed = time.Now() // those that begin from now on have a lease of their own
			}
			continue
		}
		renewed = asked
		lost := func(f store.Fence) bool { return slices.Contains(answer.Lost, f.Run) }
		r.interruptLocal(slices.DeleteFunc(fences, func(f store.Fence) bool { return !lost(f) }), answer.Cancels)
	}
}

// renew is one sign of life.
func (r *Runner[S]) renew(deadline time.Time, fences []store.Fence) (*store.Renewed, error) {
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	end := func(Outcome) {}
	if r.opts.Observer != nil {
		ctx, end = r.opts.Observer.Observe(ctx, Operation{Kind: RenewOperation, Name: r.graph.name, Graph: r.graph.name})
	}
	answer, err := r.store.Renew(ctx, &store.Renew{Fences: fences, Lease: r.opts.Lease})
	d := Renewal{Runs: len(fences)}
	if err == nil {
		d.Lost, d.Cancels = len(answer.Lost), len(answer.Cancels)
	}
	end(Outcome{Err: err, Detail: d})
	return answer, err
}

// interruptLocal stops runs that are lost and runs that are to be cancelled.
func (r *Runner[S]) interruptLocal(lost []store.Fence, cancels []uuid.UUID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range lost {
		if x := r.local[runKey{f.Tenant, f.Run}]; x != nil {
			x.lost = true
			x.cancel(store.ErrLost)
		}
	}
	for key, x := range r.local {
		if slices.Contains(cancels, key.id) {
			x.cancel(ErrCancelled)
		}
	}
}
