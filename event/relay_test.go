package event_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/internal/tale"
)

// relays returns relays of two processes.
func relays(t *testing.T, o event.RelayOptions) (here, there *event.Relay, log *tale.Log) {
	t.Helper()
	o.Logger = slog.New(slog.DiscardHandler)
	log = new(tale.Log)
	here, there = event.NewRelay(log.Member(), &o), event.NewRelay(log.Member(), &o)
	t.Cleanup(func() {
		require.NoError(t, here.Close())
		require.NoError(t, there.Close())
	})
	synctest.Wait()
	return here, there, log
}

func TestARunIsObservedInAnotherProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		here, there, log := relays(t, event.RelayOptions{})
		s := tale.New()
		s.Say(here, tale.Word("a"), tale.Word("b"))
		time.Sleep(time.Second)
		began := time.Now()
		time.AfterFunc(time.Second, func() { s.Say(here, tale.Word("c"), tale.Over) })
		got, err := tale.Hear(there.Subscribe(t.Context(), "t", s.Run, 0))
		require.NoError(t, err)
		require.Equal(t, "abc.", got)
		assert.Less(t, time.Since(began), time.Second+50*time.Millisecond, "the notice comes, not the poll")
		assert.Equal(t, 2, log.Appends, "what is said at once goes at once")

		for after, want := range map[int64]string{0: "abc.", 1: "bc.", 3: ".", 4: "", math.MaxInt64: ""} {
			got, err := tale.Hear(there.Subscribe(t.Context(), "t", s.Run, after))
			require.NoError(t, err)
			assert.Equal(t, want, got, "after %d", after)
		}
		_, err = tale.Hear(there.Subscribe(t.Context(), "other", s.Run, 0))
		require.ErrorIs(t, err, event.ErrNoLog)
		got, err = tale.Hear(here.Subscribe(t.Context(), "t", s.Run, 2))
		require.NoError(t, err)
		assert.Equal(t, "c.", got)
	})
}

func TestAnObserverElsewhereIsServedWithoutNoticesToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		here, there, log := relays(t, event.RelayOptions{})
		log.Set(func(l *tale.Log) { l.Silent = true })
		s := tale.New()
		s.Say(here, tale.Word("a"))
		time.Sleep(time.Second)
		began := time.Now()
		time.AfterFunc(100*time.Millisecond, func() { s.Say(here, tale.Over) })
		got, err := tale.Hear(there.Subscribe(t.Context(), "t", s.Run, 0))
		require.NoError(t, err)
		require.Equal(t, "a.", got)
		assert.LessOrEqual(t, time.Since(began), 1500*time.Millisecond)
	})
}

func TestFollowingWaitsForTheFirstEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		here, there, _ := relays(t, event.RelayOptions{})
		s := tale.New()
		_, err := tale.Hear(there.Subscribe(t.Context(), "t", s.Run, 0))
		require.ErrorIs(t, err, event.ErrNoLog)
		time.AfterFunc(time.Minute, func() { s.Say(here, tale.Word("a"), tale.Over) })
		got, err := tale.Hear(there.Follow(t.Context(), "t", s.Run, math.MaxInt64))
		require.NoError(t, err)
		require.Equal(t, "a.", got)
	})
}

func TestALogThatIsAwayLosesNothingThatFitsIntoTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		here, there, log := relays(t, event.RelayOptions{})
		s := tale.New()
		s.Say(here, tale.Word("a"))
		time.Sleep(time.Second)
		seq := there.Subscribe(t.Context(), "t", s.Run, 0)
		log.Set(func(l *tale.Log) { l.Away = true })
		began := time.Now()
		s.Say(here, tale.Word("b"))
		require.Zero(t, time.Since(began))
		time.Sleep(time.Minute)
		s.Say(here, tale.Word("c"), tale.Over)
		time.AfterFunc(time.Minute, func() { log.Set(func(l *tale.Log) { l.Away = false }) })
		got, err := tale.Hear(seq)
		require.NoError(t, err)
		require.Equal(t, "abc.", got)
	})
}

func TestWhatDoesNotFitIntoTheQueueIsAGapElsewhere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		here, there, log := relays(t, event.RelayOptions{QueueBytes: 300})
		s := tale.New()
		s.Say(here, tale.Word("a"))
		time.Sleep(time.Second)
		seq := there.Subscribe(t.Context(), "t", s.Run, 0)
		log.Set(func(l *tale.Log) { l.Away = true })
		s.Say(here, tale.Word("b"), tale.Word("c"), tale.Word("d"), tale.Word("e"), tale.Word("f"), tale.Over)
		log.Set(func(l *tale.Log) { l.Away = false })
		got, err := tale.Hear(seq)
		gap, ok := errors.AsType[*event.GapError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, int64(7), gap.First)
		require.Equal(t, "abcde", got+"", "what came before the gap is whole")
		got, err = tale.Hear(there.Subscribe(t.Context(), "t", s.Run, gap.First-1))
		require.NoError(t, err)
		require.Equal(t, ".", got)
	})
}

func TestATakeoverIsAGapElsewhere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		here, there, _ := relays(t, event.RelayOptions{})
		s := tale.New()
		s.Say(here, tale.Word("a"))
		time.Sleep(time.Second)
		third := there.Subscribe(t.Context(), "t", s.Run, 0)
		s.Next += 1 << 32
		first := s.Next
		there.Open("t", s.Run)
		s.Say(there, tale.Word("b"), tale.Over)
		got, err := tale.Hear(third)
		gap, ok := errors.AsType[*event.GapError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, first, gap.First)
		require.Equal(t, "a", got)

		// The old owner's process finds out, and follows the new one.
		_, err = tale.Hear(here.Subscribe(cancelled(t), "t", s.Run, 0))
		require.ErrorIs(t, err, context.Canceled)
		here.Drop("t", s.Run)
		time.Sleep(time.Second)
		got, err = tale.Hear(here.Subscribe(t.Context(), "t", s.Run, first-1))
		require.NoError(t, err)
		require.Equal(t, "b.", got)
	})
}

func cancelled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(time.Second, cancel)
	return ctx
}

func TestASilentLogEndsASubscription(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, there, log := relays(t, event.RelayOptions{})
		log.Set(func(l *tale.Log) { l.Away = true })
		_, err := tale.Hear(there.Subscribe(t.Context(), "t", uuid.New(), 0))
		require.ErrorContains(t, err, "does not answer")
	})
}

func TestEachLoopOfASubscriptionElsewhereStartsAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		here, there, _ := relays(t, event.RelayOptions{})
		s := tale.New()
		s.Say(here, tale.Word("a"), tale.Word("b"), tale.Over)
		time.Sleep(time.Second)
		seq := there.Subscribe(t.Context(), "t", s.Run, 1)
		for range 3 {
			got, err := tale.Hear(seq)
			require.NoError(t, err)
			require.Equal(t, "b.", got)
		}
	})
}

func TestNothingIsReadForWhoHasGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		here, there, log := relays(t, event.RelayOptions{})
		s := tale.New()
		s.Say(here, tale.Word("a"))
		time.Sleep(time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		_ = there.Subscribe(ctx, "t", s.Run, 0) // who never loops
		for range there.Subscribe(t.Context(), "t", s.Run, 0) {
			break
		}
		cancel()
		synctest.Wait()
		reads := log.Reads
		time.Sleep(time.Minute)
		require.Equal(t, reads, log.Reads)
	})
}

func TestSignalsReachOtherProcesses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		here, there, _ := relays(t, event.RelayOptions{})
		signals := there.Signals(t.Context())
		own := here.Signals(t.Context())
		want := signal(event.CancelRequested)
		here.Signal(want)
		for s := range signals {
			require.Equal(t, want, s)
			break
		}
		for s := range own {
			require.Equal(t, want, s)
			break
		}
	})
}

func TestCloseSendsWhatWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		here, there, _ := relays(t, event.RelayOptions{})
		s := tale.New()
		s.Say(here, tale.Word("a"), tale.Over)
		require.NoError(t, here.Close())
		got, err := tale.Hear(there.Subscribe(t.Context(), "t", s.Run, 0))
		require.NoError(t, err)
		require.Equal(t, "a.", got)
		_, err = tale.Hear(here.Subscribe(t.Context(), "t", s.Run, 0))
		require.ErrorIs(t, err, event.ErrClosed)
	})
}

// gated is a log whose reading waits at a gate, until that stays open.
type gated struct {
	event.SharedLog
	begun, gate, open chan struct{}
}

func (g *gated) Read(ctx context.Context, after []event.Position) ([]event.Chunk, error) {
	chunks, err := g.SharedLog.Read(ctx, after)
	select {
	case <-g.open:
	case g.begun <- struct{}{}:
		select {
		case <-g.gate:
		case <-g.open:
		}
	}
	return chunks, err
}

func TestWhatWasReadForAnObserverThatIsGoneIsNotTheNextOnes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := new(tale.Log)
		here := event.NewRelay(log.Member(), nil)
		defer here.Close()
		slow := &gated{log.Member(), make(chan struct{}), make(chan struct{}), make(chan struct{})}
		there := event.NewRelay(slow, nil)
		defer there.Close()
		publish(here, 1, 2)
		time.Sleep(time.Second)

		ctx, leave := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() {
			_, err := collect(there.Follow(ctx, "acme", run, 0))
			gone <- err
		}()
		<-slow.begun
		slow.gate <- struct{}{} // the first reading, of everything
		<-slow.begun            // the next one, of what comes after that
		leave()
		require.ErrorIs(t, <-gone, context.Canceled)

		next := make(chan []int64)
		go func() {
			got, err := collect(there.Subscribe(t.Context(), "acme", run, 0))
			assert.NoError(t, err)
			next <- got
		}()
		synctest.Wait()
		slow.gate <- struct{}{}
		synctest.Wait() // what was read for the other one is there, the next reading waits
		close(slow.open)
		here.Publish(finished(3))
		require.Equal(t, []int64{1, 2, 3}, <-next)
	})
}

func TestAProcessThatTakesARunOverTellsThoseWhoFollowItThere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		here, there, _ := relays(t, event.RelayOptions{Poll: time.Hour})
		publish(here, 1, 2)
		time.Sleep(time.Second)
		followed := there.Follow(t.Context(), "acme", run, 0)
		began := time.Now()
		there.Open("acme", run)
		there.Publish(text(1 << 32))
		got, err := collect(followed)
		require.Equal(t, &event.GapError{First: 1 << 32}, err)
		require.Equal(t, []int64{1, 2}, got)
		require.Less(t, time.Since(began), time.Second)
	})
}

func signal(kind event.SignalKind) event.Signal {
	return event.Signal{Kind: kind, Tenant: "t", ID: uuid.New()}
}
