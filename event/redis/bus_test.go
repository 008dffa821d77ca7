package redis_test

import (
	"context"
	"errors"
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

// tale is a run whose events a test publishes.
type tale struct {
	run, session uuid.UUID
	next         int64
}

func newTale() *tale { return &tale{uuid.New(), uuid.New(), 1} }

func (s *tale) say(bus event.Bus, data ...event.Data) {
	for _, d := range data {
		bus.Publish(event.Event{Seq: s.next, Time: time.Now(), Tenant: "t", Session: s.session, Run: s.run, Data: d})
		s.next++
	}
}

func word(s string) event.Data { return event.TextMessageContent{Delta: s} }

var over event.Data = event.RunFinished{Status: "completed"}

// hear is what an observer hears until it ends.
func hear(seq func(func(event.Event, error) bool)) (string, error) {
	var out strings.Builder
	for e, err := range seq {
		if err != nil {
			return out.String(), err
		}
		switch d := e.Data.(type) {
		case event.TextMessageContent:
			out.WriteString(d.Delta)
		case event.RunFinished:
			out.WriteString(".")
		}
	}
	return out.String(), nil
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	t.Cleanup(cancel)
	return ctx
}

func TestARunIsObservedInAnotherProcess(t *testing.T) {
	t.Parallel()
	here, there := pair(t, redistest.Start(t), event.MemoryOptions{})
	s := newTale()
	heard := make(chan string)
	seq := there.Follow(within(t), "t", s.run, 0)
	go func() {
		got, err := hear(seq)
		assert.NoError(t, err)
		heard <- got
	}()
	s.say(here, word("a"), word("b"))
	s.say(here, word("\x00ü"), word(strings.Repeat("x", 1<<20)), over)
	require.Equal(t, "ab\x00ü"+strings.Repeat("x", 1<<20)+".", <-heard)
	got, err := hear(there.Subscribe(within(t), "t", s.run, 4))
	require.NoError(t, err)
	require.Equal(t, ".", got)
	_, err = hear(there.Subscribe(within(t), "other", s.run, 0))
	require.ErrorIs(t, err, event.ErrNoLog)
}

func TestSignalsReachAnotherProcess(t *testing.T) {
	t.Parallel()
	here, there := pair(t, redistest.Start(t), event.MemoryOptions{})
	signals := there.Signals(within(t))
	want := event.Signal{Kind: event.CancelRequested, Tenant: "t", ID: uuid.New()}
	go func() { // until the other one listens, signals are lost
		for t.Context().Err() == nil {
			here.Signal(want)
			select {
			case <-time.After(10 * time.Millisecond):
			case <-t.Context().Done():
			}
		}
	}()
	for s := range signals {
		require.Equal(t, want, s)
		return
	}
	t.Fatal("no signal came")
}

func TestObserversOutliveTheServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	here, there := pair(t, s, event.MemoryOptions{})
	one := newTale()
	one.say(here, word("a"))
	seq := there.Follow(within(t), "t", one.run, 0)
	s.Kill()
	began := time.Now()
	one.say(here, word("b"), word("c"))
	assert.Less(t, time.Since(began), time.Second, "who publishes does not wait for the server")
	require.NoError(t, s.Resume(t.Context()))
	one.say(here, word("d"), over)
	got, err := hear(seq)
	if gap, ok := errors.AsType[*event.GapError](err); ok { // what was in the server is gone with it
		var rest string
		rest, err = hear(there.Follow(within(t), "t", one.run, gap.First-1))
		got += rest
	}
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(got, "."), got)

	two := newTale()
	two.say(here, word("a"), over)
	got, err = hear(there.Follow(within(t), "t", two.run, 0))
	require.NoError(t, err)
	require.Equal(t, "a.", got)
}

func TestChunksThatAreSentTwiceAreThereOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	here, _ := pair(t, s, event.MemoryOptions{})
	_, there := pair(t, s, event.MemoryOptions{})
	run := newTale()
	run.say(here, word("a"))
	first := hearOne(t, there, run)
	require.Equal(t, "a", first)
	run.next = 1
	run.say(there, word("not this"), word("b"), over) // of one who has lost the run, or begins anew
	got, err := hear(there.Subscribe(within(t), "t", run.run, 0))
	require.NoError(t, err)
	require.Equal(t, "not thisb.", got, "in its own process it is all there is")
}

// hearOne is the first thing that an observer of the run hears.
func hearOne(t *testing.T, b *redis.Bus, s *tale) string {
	t.Helper()
	for e, err := range b.Follow(within(t), "t", s.run, 0) {
		require.NoError(t, err)
		return e.Data.(event.TextMessageContent).Delta
	}
	return ""
}
