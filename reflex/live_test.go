package reflex_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/graph/graphtest"
	"github.com/everstep-go/everstep/reflex"
	"github.com/everstep-go/everstep/store/memory"
)

// live begins a pass whose run waits for answers, and returns the batches that it asked.
func live(t *testing.T, b *bundle, at reflex.Address, n int) (batches []reflex.Batch, done chan reflex.Outcome) {
	t.Helper()
	done = make(chan reflex.Outcome, 1)
	_, err := b.engine.KickAsync(t.Context(), reflex.MessageSignal{Address: at, Messages: []reflex.Inbound{inbound(at.User, "go")}},
		func(o reflex.Outcome, _ error) { done <- o })
	require.NoError(t, err)
	for e := range b.sub.Events(t.Context()) {
		if asked, ok := e.Data.(reflex.BatchAsked); ok {
			if batches = append(batches, b.batch(asked.Batch)); len(batches) == n {
				return batches, done
			}
		}
	}
	return nil, nil
}

// Invariant 11.
func TestALiveAnswerReachesTheRunAndNeverStartsOne(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	at := dm("lobby", "ada")
	b.clerk.then(pauses(approval, question))
	batches, done := live(t, b, at, 1)
	batch := batches[0]
	require.True(t, b.engine.Waits(batch.ID))
	part := reflex.BatchSignal{BatchAnswer: reflex.BatchAnswer{Batch: batch.ID, Responder: ada, Answers: map[string]string{batch.Actions[1].ID: "red"}}}
	o, err := b.kick(part)
	require.NoError(t, err)
	require.Equal(t, reflex.OutcomeSuspended, o.Kind, "a part does not wake the run")
	require.True(t, b.engine.Waits(batch.ID))
	o, err = b.kick(answer(batch, ada)) // the surface is awake, and waits for just this
	require.NoError(t, err)
	require.Equal(t, reflex.OutcomeAnswered, o.Kind)
	require.Equal(t, "pay: approved\nRed or blue?\nred\nWhy?\nanswer 2\n", (<-done).Text())
	require.Equal(t, reflex.BatchResolved, b.batch(batch.ID).Status)
	require.False(t, b.engine.Waits(batch.ID))
	require.Equal(t, "action_batch_answered run_result run_ended reflex_asleep", kinds(b.heard()))
	require.Len(t, b.clerk.requests(), 1)
	_, err = b.kick(answer(batch, ada))
	require.ErrorIs(t, err, reflex.ErrNotWaiting)
}

func TestSeveralLiveBatchesAreAnsweredInAnyOrder(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.clerk.then(func(ctx context.Context, r *reflex.RunRequest, yield func(reflex.Progress)) (reflex.RunResult, error) {
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				_, err := r.Suspender.Pause(ctx, []reflex.DeferredCall{approval})
				require.NoError(t, err)
			})
		}
		all.Wait()
		return reflex.RunResult{}, nil
	})
	batches, done := live(t, b, dm("lobby", "ada"), 2)
	for i := range batches {
		_, err := b.kick(answer(batches[len(batches)-1-i], ada))
		require.NoError(t, err)
	}
	require.Equal(t, reflex.OutcomeResult, (<-done).Kind)
}

func TestALiveBatchEndsWithItsRun(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.clerk.then(pauses(approval))
	batches, done := live(t, b, dm("lobby", "ada"), 1)
	require.NoError(t, b.engine.Cancel(t.Context(), batches[0].Kick))
	<-done
	require.Equal(t, reflex.BatchExpired, b.batch(batches[0].ID).Status)
	require.False(t, b.engine.Waits(batches[0].ID))
	_, err := b.kick(answer(batches[0], ada))
	require.ErrorIs(t, err, reflex.ErrNotWaiting)
}

func TestAnAnswerGivenTheMomentItIsAskedReachesTheRun(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.clerk.then(pauses(approval))
	b.engine.Bus().Tap(func(e reflex.Event) {
		asked, ok := e.Data.(reflex.BatchAsked)
		if !ok {
			return
		}
		o, err := b.kick(answer(b.batch(asked.Batch), ada))
		assert.NoError(t, err)
		assert.Equal(t, reflex.OutcomeAnswered, o.Kind)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	o, err := b.engine.Say(ctx, dm("lobby", "ada"), inbound("ada", "pay"))
	require.NoError(t, err)
	require.Equal(t, "pay: approved\n", o.Text())
}

func TestALiveAnswerReachesTheRunInWhateverProcessItWaits(t *testing.T) {
	t.Parallel()
	for name, signals := range map[string]bool{"at once, by a signal": true, "by a look at the store": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				signalled := func(*reflex.Config) {}
				if signals {
					bus := event.NewMemory(nil)
					t.Cleanup(func() { _ = bus.Close() })
					signalled = func(c *reflex.Config) { c.Signals = bus }
				}
				b := newBundle(t, signalled)
				b.clerk.then(pauses(approval, question))
				batches, done := live(t, b, dm("lobby", "ada"), 1)
				batch := batches[0]
				other := b.other(signalled)
				require.NoError(t, other.engine.Recover(t.Context()))
				require.Equal(t, reflex.BatchPending, b.batch(batch.ID).Status, "its pass is alive in the other process")

				part := reflex.BatchSignal{BatchAnswer: reflex.BatchAnswer{Batch: batch.ID, Responder: ada, Answers: map[string]string{batch.Actions[1].ID: "red"}}}
				o, err := other.kick(part)
				require.NoError(t, err)
				require.Equal(t, reflex.OutcomeSuspended, o.Kind, "a part does not wake the run")
				<-time.After(time.Minute + time.Millisecond) // the next look is seconds away
				require.True(t, b.engine.Waits(batch.ID))

				began := time.Now()
				o, err = other.kick(answer(batch, ada))
				require.NoError(t, err)
				require.Equal(t, reflex.OutcomeAnswered, o.Kind)
				require.Equal(t, "pay: approved\nRed or blue?\nred\nWhy?\nanswer 2\n", (<-done).Text())
				if signals {
					require.Less(t, time.Since(began), 200*time.Millisecond)
				} else {
					require.Less(t, time.Since(began), 2*time.Second)
				}
				require.Equal(t, "action_batch_answered run_result run_ended reflex_asleep", kinds(b.heard()))
				require.Empty(t, other.clerk.requests(), "it started no run")
				require.Empty(t, open(t, b))
				_, err = other.kick(answer(batch, ada))
				require.ErrorIs(t, err, reflex.ErrNotWaiting)
			})
		})
	}
}

func TestAnAnswerThatAProcessStoredBeforeItDiedReachesTheLiveRun(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBundle(t)
		b.clerk.then(pauses(approval))
		batches, done := live(t, b, dm("lobby", "ada"), 1)
		_, err := b.engine.Books().Batches.Answer(t.Context(), answer(batches[0], ada).BatchAnswer)
		require.NoError(t, err)
		require.Equal(t, "pay: approved\n", (<-done).Text())
	})
}

// A live batch whose process is gone is nobody's: the answer is an error, whether the lease of the
// process still runs or not, and never starts another run.
func TestALiveAnswerForAProcessThatDiedIsRefusedAndNeverStartsARun(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		after time.Duration // its death
		want  reflex.BatchStatus
		takes time.Duration
	}{
		"its lease has run out":   {time.Minute, reflex.BatchPending, 0},
		"its lease has yet to do": {time.Second, reflex.BatchExpired, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				st := memory.New(nil)
				dying := graphtest.NewFaulty(st, 0, "")
				b := newBundle(t, func(c *reflex.Config) { c.Store = dying })
				b.clerk.then(pauses(approval))
				batches, _ := live(t, b, dm("lobby", "ada"), 1)
				dying.Kill()
				<-time.After(tt.after)
				other := newBundle(t, func(c *reflex.Config) { c.Store = st })
				began := time.Now()
				_, err := other.kick(answer(batches[0], ada))
				require.ErrorIs(t, err, reflex.ErrNotWaiting)
				require.LessOrEqual(t, time.Since(began), tt.takes)
				batch := other.batch(batches[0].ID)
				require.Equal(t, tt.want, batch.Status)
				require.Empty(t, other.clerk.requests())
				require.NoError(t, other.engine.Recover(t.Context()))
			})
		})
	}
}

func TestALiveBatchOfAPassThatIsOverIsAnsweredToNobodyAlthoughARunCouldBeStarted(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.clerk.then(suspends(approval), replies("ok"))
	batch := b.batch(b.said(dm("lobby", "ada"), "pay").Batch)
	batch.ID, batch.Mode = "0199d8a4-0000-7000-8000-000000000001", reflex.Live
	require.NoError(t, b.engine.Books().Batches.Create(t.Context(), batch))
	_, err := b.kick(answer(batch, ada))
	require.ErrorIs(t, err, reflex.ErrNotWaiting)
	require.Equal(t, reflex.ActionPending, b.batch(batch.ID).Actions[0].Status, "nothing was stored")
	require.Len(t, b.clerk.requests(), 1)
}

func TestAnAnswerInTheLastMomentCounts(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBundle(t, func(c *reflex.Config) { c.BatchLife = time.Hour })
		b.clerk.then(pauses(approval))
		batches, done := live(t, b, dm("lobby", "ada"), 1)
		<-time.After(time.Hour - time.Millisecond)
		_, err := b.engine.Books().Batches.Answer(t.Context(), answer(batches[0], ada).BatchAnswer)
		require.NoError(t, err)
		require.Equal(t, "pay: approved\n", (<-done).Text())
	})
}

func TestALiveBatchThatNobodyAnswersInTimeEndsItsWait(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBundle(t, func(c *reflex.Config) { c.BatchLife = time.Hour })
		b.clerk.then(pauses(approval))
		batches, done := live(t, b, dm("lobby", "ada"), 1)
		require.Equal(t, reflex.OutcomeError, (<-done).Kind)
		require.Equal(t, reflex.BatchExpired, b.batch(batches[0].ID).Status)
		failed, _ := find[reflex.RunFailed](t, b.heard())
		require.Equal(t, reflex.ErrExpired.Error(), failed.Message)
	})
}

// failing is batches that cannot be kept.
type failing struct{ reflex.Batches }

func (failing) Create(context.Context, reflex.Batch) error { return context.DeadlineExceeded }

func TestABatchThatCannotBeKeptLeavesNoRunWaiting(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.config.Books.Batches = failing{b.engine.Books().Batches}
	b.open()
	for _, do := range []turn{pauses(approval), suspends(approval)} {
		b.clerk.then(do)
		_, err := b.say(dm("lobby", "ada"), "pay")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotContains(t, kinds(b.heard()), "action_batch")
	}
}
