package redis

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/event/eventtest"
	"github.com/everstep-go/everstep/internal/redisserver"
	"github.com/everstep-go/everstep/internal/redisserver/redistest"
)

// patience bounds what a test waits for.
const patience = 30 * time.Second

func connect(t testing.TB, s *redisserver.Server) goredis.UniversalClient {
	c := goredis.NewClient(&goredis.Options{Addr: s.Addr()})
	t.Cleanup(func() { c.Close() })
	return c
}

func openBus(t testing.TB, client goredis.UniversalClient, o BusOptions) *Bus {
	o.Logger = slog.New(slog.DiscardHandler)
	b := NewBus(client, &o)
	t.Cleanup(func() { assert.NoError(t, b.Close()) })
	return b
}

// pair returns the buses of two processes, which hear each other.
func pair(t testing.TB, client func() goredis.UniversalClient, o BusOptions) (one, other *Bus) {
	one, other = openBus(t, client(), o), openBus(t, client(), o)
	hears(t, one, other)
	hears(t, other, one)
	return one, other
}

// hears waits until signals get from one bus to another.
func hears(t testing.TB, from, to *Bus) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	signals := to.Signals(ctx)
	want := event.Signal{Kind: event.SessionIdle, ID: uuid.New()}
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			from.Signal(want)
			select {
			case <-tick.C:
			case <-stop:
				return
			}
		}
	}()
	for s := range signals {
		if s == want {
			return
		}
	}
	t.Fatal("the buses do not hear each other")
}

func TestConformance(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(testing.TB) *redisserver.Server{
		"server": redistest.Start, "cluster": redistest.StartCluster,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eventtest.Run(t, eventtest.Harness{
				Patience: patience,
				Open: func(t testing.TB, opts eventtest.Options) eventtest.Pair {
					s := start(t)
					o := BusOptions{Bytes: opts.Bytes, Relay: event.RelayOptions{Memory: event.MemoryOptions{Bytes: opts.Bytes}}}
					one, other := pair(t, func() goredis.UniversalClient {
						if name == "server" {
							return connect(t, s)
						}
						c := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: []string{s.Addr()}})
						t.Cleanup(func() { c.Close() })
						return c
					}, o)
					return eventtest.Pair{
						One: one, Other: other,
						Pause:  func() { assert.NoError(t, s.Pause()) },
						Resume: func() { assert.NoError(t, s.Resume()) },
					}
				},
			})
		})
	}
}

// A tale is a run whose events a test publishes.
type tale struct {
	bus          *Bus
	run, session uuid.UUID
	next         int64
}

func newTale(bus *Bus) *tale { return &tale{bus, uuid.New(), uuid.New(), 1} }

func (s *tale) say(data ...event.Data) {
	for _, d := range data {
		s.bus.Publish(event.Event{Seq: s.next, Time: time.Now(), Tenant: "t", Session: s.session, Run: s.run, Data: d})
		s.next++
	}
}

var (
	word event.Data = event.TextMessageContent{Delta: "word"}
	over event.Data = event.RunFinished{Status: "completed"}
)

// follow observes a run on another bus in the background, as package graph does, and closes the
// channel at its end. What it has missed it may skip.
func (s *tale) follow(t *testing.T, bus *Bus) (ended <-chan []int64, seen func() int64) {
	var mu sync.Mutex
	var last int64
	done := make(chan []int64, 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	attached := bus.Follow(ctx, "t", s.run, 0)
	go func() {
		var all []int64
		for {
			var failed error
			for e, err := range attached {
				if failed = err; err != nil {
					break
				}
				all = append(all, e.Seq)
				mu.Lock()
				last = e.Seq
				mu.Unlock()
			}
			if failed == nil || ctx.Err() != nil {
				done <- all
				return
			}
			after := int64(0)
			if len(all) > 0 {
				after = all[len(all)-1]
			}
			if gap, ok := errors.AsType[*event.GapError](failed); ok {
				after = gap.First - 1
			}
			attached = bus.Follow(ctx, "t", s.run, after)
		}
	}()
	return done, func() int64 {
		mu.Lock()
		defer mu.Unlock()
		return last
	}
}

func TestObserversAndSignalsOutliveTheServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	here, there := pair(t, func() goredis.UniversalClient { return connect(t, s) }, BusOptions{})
	one, two := newTale(here), newTale(here)
	one.say(word)
	ended, seen := one.follow(t, there)
	endedHere, _ := one.follow(t, here)
	require.Eventually(t, func() bool { return seen() == 1 }, patience, time.Millisecond)

	require.NoError(t, s.Kill())
	began := time.Now()
	for range 1000 {
		one.say(word)
		here.Signal(event.Signal{Kind: event.SessionIdle})
	}
	two.say(word, over)
	assert.Less(t, time.Since(began), time.Second, "who publishes does not wait for the server")
	require.NoError(t, s.Restart(t.Context()))

	one.say(word, over)
	got := <-ended
	require.NotEmpty(t, got)
	require.Equal(t, int64(1003), got[len(got)-1])
	require.True(t, slices.IsSorted(got))
	got = <-endedHere
	require.Len(t, got, 1003, "who observes in the same process misses nothing")
	ended, _ = two.follow(t, there)
	require.Equal(t, []int64{1, 2}, <-ended)
	hears(t, here, there)
	hears(t, there, here)
}

func TestWhatIsLostIsAGap(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	here, there := pair(t, func() goredis.UniversalClient { return connect(t, s) }, BusOptions{Relay: event.RelayOptions{QueueBytes: 10_000}})
	one := newTale(here)
	one.say(word)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	next, stop := iter.Pull2(there.Follow(ctx, "t", one.run, 0))
	defer stop()
	e, err, _ := next()
	require.NoError(t, err)
	require.Equal(t, int64(1), e.Seq)

	require.NoError(t, s.Kill())
	for range 1000 {
		one.say(word)
	}
	require.NoError(t, s.Restart(t.Context()))
	one.say(over)
	last := int64(1)
	for {
		e, err, _ := next()
		if gap, ok := errors.AsType[*event.GapError](err); ok {
			require.Greater(t, gap.First, last+1)
			return
		}
		require.NoError(t, err)
		require.Equal(t, last+1, e.Seq, "nothing is missed without a word")
		last = e.Seq
	}
}

func TestCloseDoesNotWaitForAServerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := connect(t, s)
	b := NewBus(c, &BusOptions{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, s.Kill())
	one := newTale(b)
	one.say(word)
	began := time.Now()
	require.NoError(t, b.Close())
	require.Less(t, time.Since(began), patience)
	for _, err := range b.Subscribe(t.Context(), "t", one.run, 0) {
		require.ErrorIs(t, err, event.ErrClosed)
	}
}
