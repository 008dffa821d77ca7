package reflex

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/store"
)

// Receive stores what a person said at an address, without anything else coming of it: the next
// kick there has it in its prompt. A delivery is stored once.
func (e *Engine) Receive(ctx context.Context, at Address, in Inbound) (Row, error) {
	if _, err := e.channel(at.Channel); err != nil {
		return Row{}, err
	}
	t, err := e.books.Threads.Ensure(ctx, threadAt(at))
	if err != nil {
		return Row{}, err
	}
	author, err := e.config.Users.Profile(ctx, at.Channel, in.User)
	if err != nil {
		return Row{}, err
	}
	r := Row{ID: RowID{Surface: t.Surface()}, Kind: InboundRow, Thread: t.ID, Author: author, Segments: in.Segments, Handle: in.Delivery, At: in.At}
	if in.Delivery != "" {
		r.Delivery = "in:" + in.Delivery
	}
	return e.books.Ledger.Append(ctx, r)
}

// BusyPolicy says what becomes of a message for a surface that has a pass under way.
type BusyPolicy string

const (
	// Refuse returns ErrBusy. The message is stored, and part of the next prompt there.
	Refuse BusyPolicy = "refuse"
	// FollowUp makes one pass more when the one under way is over, for all that came meanwhile. If
	// that one is another process's, the message is refused.
	FollowUp BusyPolicy = "follow_up"
)

// Say is Receive and Kick in one: what a channel does with a message that is for an agent. If the
// surface is busy, [Config.OnBusy] says what becomes of it.
func (e *Engine) Say(ctx context.Context, at Address, in Inbound) (Outcome, error) {
	row, err := e.Receive(ctx, at, in)
	if err != nil {
		return Outcome{}, err
	}
	signal := MessageSignal{Address: at, Messages: []Inbound{in}, Trigger: row.ID}
	o, err := e.Kick(ctx, signal)
	if errors.Is(err, ErrBusy) && e.config.OnBusy == FollowUp && e.queue(signal) {
		return Outcome{Kind: OutcomeQueued, Target: Place{Address: at, Mode: Main}}, nil
	}
	return o, err
}

// queue notes that a surface wants a pass when the one under way here is over, and reports whether
// there is one. The last message counts: its pass takes up those before it.
func (e *Engine) queue(signal MessageSignal) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	surface := signal.Trigger.Surface
	if _, ok := e.awake[surface]; !ok {
		return false
	}
	if waiting, ok := e.queued[surface]; !ok || waiting.Trigger.Seq < signal.Trigger.Seq {
		e.queued[surface] = signal
	}
	return true
}

// followUp makes the pass that a surface wants, if it wants one.
func (e *Engine) followUp(surface string) {
	e.mu.Lock()
	signal, ok := e.queued[surface]
	delete(e.queued, surface)
	e.mu.Unlock()
	if !ok {
		return
	}
	e.kicks.Go(func() {
		ctx := context.Background()
		_, err := e.Kick(ctx, signal)
		if errors.Is(err, ErrBusy) && e.queue(signal) {
			return // somebody else was faster
		}
		if err != nil {
			e.config.Logger.ErrorContext(ctx, "pass failed", "surface", surface, "error", err)
		}
	})
}

// Kick makes one pass for a signal and returns what became of it. The end of ctx cancels the pass;
// Kick returns once it is asleep.
//
// Answers to a live batch go to the run that waits for them, and make no pass.
func (e *Engine) Kick(ctx context.Context, signal Signal) (Outcome, error) {
	run, outcome, release, err := e.start(ctx, signal)
	if err != nil || run == nil {
		return outcome, err
	}
	defer release()
	return e.wait(ctx, run)
}

// KickAsync begins a pass that goes on whatever becomes of the caller, and returns its id. Refusals
// are those of [Engine.Kick]. Done, if it is not nil, is called with what became of it.
func (e *Engine) KickAsync(ctx context.Context, signal Signal, done func(Outcome, error)) (uuid.UUID, error) {
	ctx = context.WithoutCancel(ctx)
	run, outcome, release, err := e.start(ctx, signal)
	if err != nil || run == nil {
		if err == nil && done != nil {
			done(outcome, nil)
		}
		return uuid.Nil, err
	}
	e.kicks.Go(func() {
		defer release()
		outcome, err := e.wait(ctx, run)
		if done != nil {
			done(outcome, err)
		} else if err != nil {
			e.config.Logger.ErrorContext(ctx, "pass failed", "kick", run.ID(), "error", err)
		}
	})
	return run.ID(), nil
}

// Cancel ends a pass, whichever process works on it.
func (e *Engine) Cancel(ctx context.Context, kick uuid.UUID) error {
	return e.runner.Cancel(ctx, e.config.Tenant, kick)
}

// Attach waits for a pass that was begun before, here or elsewhere.
func (e *Engine) Attach(ctx context.Context, kick uuid.UUID) (Outcome, error) {
	run, err := e.runner.Attach(ctx, e.config.Tenant, kick)
	if err != nil {
		return Outcome{}, err
	}
	s, err := run.Wait(ctx)
	return outcomeOf(kick, s, err)
}

// start decides what a signal is for and begins the pass. Without a run and an error nothing is
// left to do.
func (e *Engine) start(ctx context.Context, signal Signal) (*graph.Run[State], Outcome, func(), error) {
	none := func() {}
	signal, err := plain(signal)
	if err != nil {
		return nil, Outcome{}, none, err
	}
	asked, outcome, err := e.asked(ctx, signal)
	if err != nil || outcome != nil {
		if outcome == nil {
			outcome = &Outcome{}
		}
		return nil, *outcome, none, err
	}
	envelope, err := seal(signal)
	if err != nil {
		return nil, Outcome{}, none, err
	}
	kick := e.config.NewID()
	if !e.take(asked.Surface, kick) {
		return nil, Outcome{}, none, fmt.Errorf("%w: %s", ErrBusy, asked.Surface)
	}
	release := func() { e.free(asked.Surface, kick) }
	ours, err := e.books.Surfaces.Claim(ctx, asked.Surface, kick)
	if err == nil && !ours {
		err = fmt.Errorf("%w: %s", ErrBusy, asked.Surface)
	}
	if err != nil {
		release()
		return nil, Outcome{}, none, err
	}
	run, err := e.runner.Start(ctx, graph.StartParams[State]{
		Tenant: e.config.Tenant, Session: idOf("surface", e.config.Tenant, asked.Surface), Run: kick,
		Input: &State{Signal: envelope, Kind: envelope.Kind, Asked: asked},
	})
	if err != nil {
		release()
		if errors.Is(err, store.ErrBusy) {
			err = fmt.Errorf("%w: %s: %w", ErrBusy, asked.Surface, err)
		}
		return nil, Outcome{}, none, errors.Join(err, e.books.Surfaces.Release(context.WithoutCancel(ctx), asked.Surface, kick))
	}
	return run, Outcome{}, release, nil
}

// plain returns a signal as the value that it is, also if it came by a pointer.
func plain(signal Signal) (Signal, error) {
	switch s := signal.(type) {
	case nil:
		return nil, fmt.Errorf("%w: nil", ErrInvalidSignal)
	case *MessageSignal:
		return *s, nil
	case *BatchSignal:
		return *s, nil
	case *NativeSignal:
		return *s, nil
	case *ThreadSignal:
		return *s, nil
	case *CommandSignal:
		return *s, nil
	}
	return signal, nil
}

// take makes a surface one with a pass in this process, which its books say for all of them. It keeps
// the next kick out until reflex_asleep was said, and knows what may be queued here.
func (e *Engine) take(surface string, kick uuid.UUID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ok := e.awake[surface]; ok {
		return false
	}
	e.awake[surface] = kick
	return true
}

func (e *Engine) free(surface string, kick uuid.UUID) {
	e.mu.Lock()
	if e.awake[surface] == kick {
		delete(e.awake, surface)
	}
	wanted := false
	if _, busy := e.awake[surface]; !busy {
		_, wanted = e.queued[surface]
	}
	e.mu.Unlock()
	if wanted {
		e.followUp(surface)
	}
}

// wait waits for the end of a pass, and takes it along if the caller gives up.
func (e *Engine) wait(ctx context.Context, run *graph.Run[State]) (Outcome, error) {
	s, err := run.Wait(ctx)
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		settle := context.WithoutCancel(ctx)
		if err := run.Cancel(settle); err != nil {
			return Outcome{}, err
		}
		s, err = run.Wait(settle)
		if errors.Is(err, graph.ErrCancelled) {
			err = errors.Join(err, context.Cause(ctx))
		}
	}
	return outcomeOf(run.ID(), s, err)
}

func outcomeOf(kick uuid.UUID, s State, err error) (Outcome, error) {
	o := Outcome{Kind: OutcomeError}
	if err == nil && s.Outcome != nil {
		o = *s.Outcome
	} else if err == nil {
		err = fmt.Errorf("%w: a pass without an outcome", ErrInvariant)
	}
	o.Kick, o.Path = kick, s.Path
	return o, decoded(err)
}

// asked returns the surface that a signal is asked on, or the outcome if there is nothing to pass.
func (e *Engine) asked(ctx context.Context, signal Signal) (Spot, *Outcome, error) {
	switch s := signal.(type) {
	case MessageSignal:
		return e.askedMessage(ctx, s)
	case BatchSignal:
		return e.askedBatch(ctx, s)
	case NativeSignal:
		if s.Source.Channel != NativeChannel || s.Source.Thread == "" {
			return Spot{}, nil, fmt.Errorf("%w: a native signal needs its source", ErrInvalidSignal)
		}
		if (s.Scheme == nil) == (s.Teleport == nil) {
			return Spot{}, nil, fmt.Errorf("%w: a native signal carries a scheme or a teleport", ErrInvalidSignal)
		}
		if s.Teleport != nil && (s.Profile == nil || s.Profile.User == "") {
			return Spot{}, nil, fmt.Errorf("%w: a native teleport needs the profile of its owner", ErrInvalidSignal)
		}
		if s.Scheme != nil {
			if err := e.checkBrief(s.Scheme.Brief); err != nil {
				return Spot{}, nil, fmt.Errorf("%w: %w", ErrInvalidSignal, err)
			}
		}
		t := threadAt(s.Source)
		return Spot{Channel: NativeChannel, Surface: t.ID, Thread: t.ID, Address: s.Source}, nil, nil
	case ThreadSignal:
		if (s.Summon == nil) == (s.Teleport == nil) {
			return Spot{}, nil, fmt.Errorf("%w: a thread operation is a summon or a teleport", ErrInvalidSignal)
		}
		if s.Summon != nil {
			if err := e.checkBrief(s.Summon.Brief); err != nil {
				return Spot{}, nil, fmt.Errorf("%w: %w", ErrInvalidSignal, err)
			}
		}
		t, err := e.books.Threads.Thread(ctx, s.Thread)
		return spotOf(t), nil, err
	case CommandSignal:
		if s.Delivery == "" {
			return Spot{}, nil, fmt.Errorf("%w: a command needs a delivery id", ErrInvalidSignal)
		}
		if s.Command.Name == "" {
			return Spot{}, nil, fmt.Errorf("%w: a command needs a name", ErrInvalidSignal)
		}
		return spotOf(threadAt(s.Address)), nil, nil
	}
	return Spot{}, nil, fmt.Errorf("%w: %T", ErrInvalidSignal, signal)
}

func (e *Engine) askedMessage(ctx context.Context, s MessageSignal) (Spot, *Outcome, error) {
	if len(s.Messages) == 0 {
		return Spot{}, &Outcome{Kind: OutcomeResult}, nil
	}
	said := false
	for _, m := range s.Messages {
		said = said || !blank(m.Segments)
	}
	if !said && s.Trigger.IsZero() {
		return Spot{}, &Outcome{Kind: OutcomeResult, Target: Place{Address: s.Address, Mode: Main}}, nil
	}
	t := threadAt(s.Address)
	if !s.Trigger.IsZero() && s.Trigger.Surface != t.Surface() {
		return Spot{}, nil, fmt.Errorf("%w: the trigger is on %s, the address on %s", ErrInvalidSignal, s.Trigger.Surface, t.Surface())
	}
	if !s.Trigger.IsZero() {
		cursor, err := e.books.Ledger.Cursor(ctx, t.Surface())
		if err != nil {
			return Spot{}, nil, err
		}
		if s.Trigger.Seq <= cursor { // the same delivery again: an agent has it
			return Spot{}, &Outcome{Kind: OutcomeResult, Target: Place{Address: s.Address, Mode: Main}}, nil
		}
	}
	return spotOf(t), nil, nil
}

// askedBatch routes an answer by the mode that its batch was stored with, whoever waits.
func (e *Engine) askedBatch(ctx context.Context, s BatchSignal) (Spot, *Outcome, error) {
	b, err := e.books.Batches.Batch(ctx, s.Batch)
	if err != nil {
		return Spot{}, nil, err
	}
	if err := b.check(s.BatchAnswer); err != nil {
		return Spot{}, nil, err
	}
	if len(s.Answers)+len(s.Verdicts) > 0 && !e.config.MayAnswer(ctx, b, s.Responder) {
		return Spot{}, nil, fmt.Errorf("%w: %s on batch %s", ErrNotAllowed, s.Responder.ID, b.ID)
	}
	if b.Mode == Live {
		outcome, err := e.answerLive(ctx, b, s.BatchAnswer)
		return Spot{}, outcome, err
	}
	switch {
	case b.Status == BatchExpired:
		return Spot{}, nil, fmt.Errorf("%w: %s", ErrExpired, b.ID)
	case b.Status == BatchPending && b.expiredAt(e.config.Now()):
		return Spot{}, nil, errors.Join(fmt.Errorf("%w: %s", ErrExpired, b.ID), e.expire(ctx, b.ID))
	}
	return Spot{Channel: b.Source.Address.Channel, Surface: b.Surface, Thread: b.Thread, Address: b.Source.Address}, nil, nil
}
