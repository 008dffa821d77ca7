package reflex

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/everstep-go/everstep/event"
)

// answeredSignal is the kind of the signal that a live batch has its answers. Its id is the pass's.
const answeredSignal event.SignalKind = "reflex_batch_answered"

const (
	// answersEvery is how often this process looks for answers that others stored. With signals that
	// happens at once, and the look is for those that got lost.
	answersEvery       = time.Second
	answersWithSignals = 5 * time.Second
	// takenEvery is how often one looks whether the run in another process has taken an answer, and
	// aliveEvery at which of these looks also whether it still could.
	takenEvery = 100 * time.Millisecond
	aliveEvery = 10
)

// await notes that a run of this process waits for a batch, and has this process look for answers that
// others store, as long as any run waits.
func (e *Engine) await(batch string) <-chan Batch {
	waiter := make(chan Batch, 1)
	e.awaitBy(batch, waiter)
	return waiter
}

func (e *Engine) awaitBy(batch string, waiter chan Batch) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waiters[batch] = waiter
	if e.looking == nil {
		none := make(chan struct{})
		e.looking = none
		e.kicks.Go(func() { e.look(none) })
	}
}

// unwait takes the waiter of a batch out of the registry; nil if there is none.
func (e *Engine) unwait(batch string) chan Batch {
	e.mu.Lock()
	defer e.mu.Unlock()
	waiter := e.waiters[batch]
	delete(e.waiters, batch)
	if len(e.waiters) == 0 && e.looking != nil {
		close(e.looking)
		e.looking = nil
	}
	return waiter
}

// waits reports whether a run of this process waits for a batch.
func (e *Engine) waits(batch string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.waiters[batch] != nil
}

// look delivers answers that other processes stored, until no run waits any more.
func (e *Engine) look(none <-chan struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	every, now := answersEvery, make(chan struct{}, 1)
	if signals := e.config.Signals; signals != nil {
		every = answersWithSignals
		heard := signals.Signals(ctx)
		e.kicks.Go(func() {
			for s := range heard {
				if s.Kind != answeredSignal || s.Tenant != e.config.Tenant {
					continue
				}
				select {
				case now <- struct{}{}:
				default: // it is about to look
				}
			}
		})
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-none:
			return
		case <-tick.C:
		case <-now:
		}
		answered, err := e.books.Batches.Answered(ctx)
		for _, id := range answered {
			err = errors.Join(err, e.deliver(ctx, id))
		}
		if err != nil {
			e.config.Logger.ErrorContext(ctx, "answers not looked for", "error", err)
		}
	}
}

// deliver gives the answers of a batch to the run of this process that waits for them, if one does.
func (e *Engine) deliver(ctx context.Context, batch string) error {
	waiter := e.unwait(batch)
	if waiter == nil {
		return nil
	}
	b, _, err := e.books.Batches.Deliver(ctx, batch)
	if err != nil {
		e.awaitBy(batch, waiter) // the next look delivers it
		return err
	}
	waiter <- b // also if there is nothing to deliver: it has expired then
	return nil
}

// answerLive hands an answer to the run that waits for it, once all is answered: here, or in another
// process, which finds it in the store. It never starts a run.
func (e *Engine) answerLive(ctx context.Context, b Batch, a BatchAnswer) (*Outcome, error) {
	if !b.undelivered() && b.Status != BatchPending {
		return nil, fmt.Errorf("%w %s", ErrNotWaiting, b.ID)
	}
	here := e.waits(b.ID)
	if !here {
		life, err := e.life(ctx, b.Kick)
		if err != nil {
			return nil, err
		}
		if life != PassRunning {
			return nil, fmt.Errorf("%w %s", ErrNotWaiting, b.ID)
		}
	}
	b, err := e.books.Batches.Answer(ctx, a)
	if errors.Is(err, ErrExpired) && !b.expiredAt(e.config.Now()) {
		err = fmt.Errorf("%w %s: %w", ErrNotWaiting, b.ID, err) // it ended with its run
	}
	if err != nil {
		return nil, err
	}
	if b.Status == BatchPending {
		return &Outcome{Kind: OutcomeSuspended, Kick: b.Kick, Target: b.Target, Batch: b.ID, Requests: b.Calls}, nil
	}
	if here {
		err = e.deliver(ctx, b.ID)
	} else if e.config.Signals != nil {
		e.config.Signals.Signal(event.Signal{Kind: answeredSignal, Tenant: e.config.Tenant, ID: b.Kick})
	}
	if err = errors.Join(err, e.delivered(ctx, b.ID)); err != nil {
		return nil, err
	}
	return &Outcome{Kind: OutcomeAnswered, Kick: b.Kick, Target: b.Target, Batch: b.ID}, nil
}

// delivered returns once the run that waits has taken the answers. If its process dies before, they are
// nobody's.
func (e *Engine) delivered(ctx context.Context, batch string) error {
	for n := 1; ; n++ {
		b, err := e.books.Batches.Batch(ctx, batch)
		if err == nil && b.undelivered() && n%aliveEvery == 0 {
			var life PassLife
			if life, err = e.life(ctx, b.Kick); err == nil && life != PassRunning {
				b, _, err = e.books.Batches.Expire(ctx, batch)
			}
		}
		switch {
		case err != nil:
			return err
		case b.Status == BatchExpired:
			return fmt.Errorf("%w %s", ErrNotWaiting, batch)
		case !b.undelivered():
			return nil
		}
		select {
		case <-time.After(takenEvery):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
