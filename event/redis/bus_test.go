package redis_test

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/event/redis"
	"github.com/everstep-go/everstep/internal/redisserver"
	"github.com/everstep-go/everstep/internal/redisserver/redistest"
	"github.com/everstep-go/everstep/internal/tale"
)

// wait bounds what a test waits for.
const wait = 30 * time.Second

// pair are the buses of two processes.
func pair(t testing.TB, s *redisserver.Server, memory event.MemoryOptions) (here, there *redis.Bus) {
	t.Helper()
	for _, b := range []**redis.Bus{&here, &there} {
		var err error
		*b, err = redis.Open(t.Context(), "redis://"+s.Addr(), &redis.Options{Prefix: t.Name() + ":", Relay: event.RelayOptions{Memory: memory, Logger: slog.New(slog.DiscardHandler)}})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, (*b).Close()) })
	}
	return here, there
}

// hears waits until signals get from one bus to another.
func hears(t testing.TB, from, to *redis.Bus) {
	ctx, stop := context.WithTimeout(t.Context(), wait)
	defer stop()
	signals := to.Signals(ctx)
	want := event.Signal{Kind: event.SessionIdle, ID: uuid.New()}
	go func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			from.Signal(want)
			<-tick.C
		}
	}()
	for s := range signals {
		if s == want {
			return
		}
	}
	t.Fatal("the buses do not hear each other")
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	t.Cleanup(cancel)
	return ctx
}

func TestObserversOutliveTheServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	here, there := pair(t, s, event.MemoryOptions{})
	one := tale.New()
	one.Say(here, tale.Word("a"))
	seq := there.Follow(within(t), "t", one.Run, 0)
	s.Kill()
	began := time.Now()
	one.Say(here, tale.Word("b"), tale.Word("c"))
	assert.Less(t, time.Since(began), time.Second, "who publishes does not wait for the server")
	require.NoError(t, s.Resume(t.Context()))
	one.Say(here, tale.Word("d"), tale.Over)
	got, err := tale.Hear(seq)
	if gap, ok := errors.AsType[*event.GapError](err); ok { // what was in the server is gone with it
		var rest string
		rest, err = tale.Hear(there.Follow(within(t), "t", one.Run, gap.First-1))
		got += rest
	}
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(got, "."), got)

	two := tale.New()
	two.Say(here, tale.Word("a"), tale.Over)
	got, err = tale.Hear(there.Follow(within(t), "t", two.Run, 0))
	require.NoError(t, err)
	require.Equal(t, "a.", got)
}

func TestChunksThatAreSentTwiceAreThereOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	here, _ := pair(t, s, event.MemoryOptions{})
	_, there := pair(t, s, event.MemoryOptions{})
	run := tale.New()
	run.Say(here, tale.Word("a"))
	first := hearOne(t, there, run)
	require.Equal(t, "a", first)
	run.Next = 1
	run.Say(there, tale.Word("not this"), tale.Word("b"), tale.Over) // of one who has lost the run, or begins anew
	got, err := tale.Hear(there.Subscribe(within(t), "t", run.Run, 0))
	require.NoError(t, err)
	require.Equal(t, "not thisb.", got, "in its own process it is all there is")
}

// hearOne is the first thing that an observer of the run hears.
func hearOne(t *testing.T, b *redis.Bus, s *tale.Tale) string {
	t.Helper()
	for e, err := range b.Follow(within(t), "t", s.Run, 0) {
		require.NoError(t, err)
		return e.Data.(event.TextMessageContent).Delta
	}
	return ""
}

func TestWhatTheServerNeverGotIsAGap(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	small := event.RelayOptions{QueueBytes: 10_000, Logger: slog.New(slog.DiscardHandler)}
	here, err := redis.Open(t.Context(), "redis://"+s.Addr(), &redis.Options{Prefix: t.Name() + ":", Relay: small})
	require.NoError(t, err)
	defer here.Close()
	_, there := pair(t, s, event.MemoryOptions{})
	one := tale.New()
	one.Say(here, tale.Word("a"))
	next, stop := iter.Pull2(there.Follow(within(t), "t", one.Run, 0))
	defer stop()
	e, err, _ := next()
	require.NoError(t, err)
	require.Equal(t, int64(1), e.Seq)

	s.Kill()
	for range 1000 {
		one.Say(here, tale.Word("b"))
	}
	require.NoError(t, s.Resume(t.Context()))
	one.Say(here, tale.Over)
	for last := e.Seq; ; last = e.Seq {
		e, err, _ = next()
		if gap, ok := errors.AsType[*event.GapError](err); ok {
			require.Greater(t, gap.First, last+1)
			return
		}
		require.NoError(t, err)
		require.Equal(t, last+1, e.Seq, "nothing is missed without a word")
	}
}

func TestSignalsOutliveTheServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	here, there := pair(t, s, event.MemoryOptions{})
	hears(t, here, there)
	s.Kill()
	for range 2000 { // more than may wait
		here.Signal(event.Signal{Kind: event.SessionIdle})
	}
	require.NoError(t, s.Resume(t.Context()))
	hears(t, here, there)
	hears(t, there, here)
}
