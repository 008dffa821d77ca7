package reflex

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// suspender takes what one turn defers: it tells a move from what people are asked by the kind of
// the call.
type suspender struct {
	t     *turnOf
	state State

	mu    sync.Mutex // guards what follows
	batch string
	calls []DeferredCall
	move  *RelocateRequest
}

var _ Suspender = (*suspender)(nil)

func (u *suspender) took() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.batch != "" || u.move != nil
}

func (u *suspender) taken() (batch string, calls []DeferredCall, move *RelocateRequest) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.batch, u.calls, u.move
}

// Suspend implements [Suspender].
func (u *suspender) Suspend(ctx context.Context, calls []DeferredCall) error {
	for _, c := range calls {
		if c.Kind != MoveCall {
			continue
		}
		if len(calls) > 1 {
			return fmt.Errorf("%w: call %q is one of %d", ErrMixedTeleport, c.ID, len(calls))
		}
		if c.Move == nil {
			return fmt.Errorf("%w: call %q does not say where to", ErrInvariant, c.ID)
		}
		move := *c.Move
		move.Call = c.ID
		u.mu.Lock()
		defer u.mu.Unlock()
		u.move = &move
		return nil
	}
	b, err := u.create(ctx, calls, Resume)
	if err != nil {
		return err
	}
	u.mu.Lock()
	u.batch, u.calls = b.ID, calls
	u.mu.Unlock()
	u.ask(b)
	return nil
}

// create keeps a batch of the calls.
func (u *suspender) create(ctx context.Context, calls []DeferredCall, mode ResponseMode) (Batch, error) {
	if err := checkCalls(calls); err != nil {
		return Batch{}, err
	}
	t := u.t
	b := Batch{
		ID: t.e.config.NewID().String(), Conversation: t.conversation.ID, Thread: t.thread.ID, Agent: t.agent.ID(),
		Mode: mode, RunName: t.name, Status: BatchPending, Source: u.state.Source, Target: u.state.Target,
		Surface: t.p.asked.Surface, Decision: u.state.Decision, Asker: u.state.Profile, Calls: calls, Kick: t.p.kick,
	}
	b.Actions = actionsOf(b.ID, calls)
	if life := t.e.config.BatchLife; life > 0 {
		b.ExpiresAt = t.e.config.Now().Add(life)
	}
	return b, t.e.books.Batches.Create(ctx, b)
}

func (u *suspender) ask(b Batch) {
	u.t.p.publish(u.t.at, BatchAsked{Batch: b.ID, Actions: b.Actions})
}

// Pause implements [Suspender]. The run waits before the question can be seen, so that an immediate
// answer reaches it.
func (u *suspender) Pause(ctx context.Context, calls []DeferredCall) (DeferredResults, error) {
	b, err := u.create(ctx, calls, Live)
	if err != nil {
		return nil, err
	}
	e := u.t.e
	waiter := e.await(b.ID)
	u.ask(b)
	var expired <-chan time.Time
	if !b.ExpiresAt.IsZero() {
		timer := time.NewTimer(b.ExpiresAt.Sub(e.config.Now()))
		defer timer.Stop()
		expired = timer.C
	}
	for waits := true; waits; {
		select {
		case b = <-waiter:
			waits = false
		case <-ctx.Done():
			return nil, u.giveUp(ctx, b.ID, context.Cause(ctx))
		case <-expired:
			expired = nil // the waiter gets the batch now; an answer that another process stored in time counts
			if err := e.deliver(ctx, b.ID); err != nil {
				return nil, u.giveUp(ctx, b.ID, err)
			}
		}
	}
	if b.Status != BatchResolved {
		return nil, u.giveUp(ctx, b.ID, fmt.Errorf("%w: %s", ErrExpired, b.ID))
	}
	responder := Profile{}
	for _, a := range b.Actions {
		responder = a.Responder
	}
	u.t.p.publish(u.t.at, BatchAnswered{Batch: b.ID, Status: b.Status, Actions: b.Actions, Responder: responder})
	return b.Results(), nil
}

// giveUp ends the wait for a batch, which nobody can answer any more.
func (u *suspender) giveUp(ctx context.Context, batch string, cause error) error {
	u.t.e.unwait(batch)
	b, expired, err := u.t.e.books.Batches.Expire(context.WithoutCancel(ctx), batch)
	if err == nil && expired {
		u.t.p.publish(u.t.at, BatchAnswered{Batch: b.ID, Status: b.Status, Actions: b.Actions})
	}
	return cause
}
