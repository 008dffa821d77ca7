package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/internal/pgserver"
	"github.com/everstep-go/everstep/internal/pgserver/pgtest"
	"github.com/everstep-go/everstep/internal/tale"
)

// wait bounds what a test waits for.
const wait = 30 * time.Second

func openBus(t testing.TB, dsn string, o BusOptions) *Bus {
	t.Helper()
	o.Logger = quiet
	b, err := NewBus(t.Context(), dsn, &o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, b.Close()) })
	return b
}

// pair are the buses of two processes.
func pair(t testing.TB, dsn string, o BusOptions) (here, there *Bus) {
	return openBus(t, dsn, o), openBus(t, dsn, o)
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	t.Cleanup(cancel)
	return ctx
}

func TestARunIsObservedInAnotherProcess(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) (here, there *Bus){
		"direct":         func(t *testing.T) (_, _ *Bus) { return pair(t, pgtest.New(t), BusOptions{}) },
		"another schema": func(t *testing.T) (_, _ *Bus) { return pair(t, pgtest.New(t), BusOptions{Schema: `Say "hi"`}) },
		"through a pooler": func(t *testing.T) (_, _ *Bus) {
			pooled, direct := bouncer(t, pgtest.Server(t))
			return pair(t, pooled, BusOptions{Pooler: true, ListenDSN: direct})
		},
	} {
		t.Run(name, func(t *testing.T) {
			here, there := open(t)
			s := tale.New()
			heard := make(chan string)
			seq := there.Follow(within(t), "t", s.Run, 0)
			go func() {
				got, err := tale.Hear(seq)
				assert.NoError(t, err)
				heard <- got
			}()
			s.Say(here, tale.Word("a"), tale.Word("b"))
			s.Say(here, tale.Word("\x00ü"), tale.Word(strings.Repeat("x", 1<<20)), tale.Over)
			require.Equal(t, "ab\x00ü"+strings.Repeat("x", 1<<20)+".", <-heard)
			got, err := tale.Hear(there.Subscribe(within(t), "t", s.Run, 4))
			require.NoError(t, err)
			require.Equal(t, ".", got)
			_, err = tale.Hear(there.Subscribe(within(t), "other", s.Run, 0))
			require.ErrorIs(t, err, event.ErrNoLog)
		})
	}
}

func TestObserversOutliveTheListeningConnectionAndTheServer(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, &pgserver.Options{TCP: true})
	dsn := pgtest.Database(t, s)
	here, there := pair(t, dsn, BusOptions{})
	one := tale.New()
	one.Say(here, tale.Word("a"))
	seq := there.Follow(within(t), "t", one.Run, 0)
	admin := connect(t, dsn)
	execute(t, admin, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()`)
	one.Say(here, tale.Word("b"), tale.Over)
	got, err := tale.Hear(seq)
	require.NoError(t, err)
	require.Equal(t, "ab.", got, "the poll serves while nobody listens")

	two := tale.New()
	two.Say(here, tale.Word("a"))
	require.Eventually(t, func() bool {
		_, err := tale.Hear(there.Subscribe(shortly(t), "t", two.Run, 0))
		return !errors.Is(err, event.ErrNoLog)
	}, wait, 10*time.Millisecond)
	seq = there.Follow(within(t), "t", two.Run, 0)
	require.NoError(t, s.Restart(t.Context(), true))
	began := time.Now()
	two.Say(here, tale.Word("b"), tale.Word("c"))
	assert.Less(t, time.Since(began), time.Second, "who publishes does not wait for the server")
	two.Say(here, tale.Over)
	got, err = tale.Hear(seq)
	if gap, ok := errors.AsType[*event.GapError](err); ok { // what was in the table is gone with the crash
		var rest string
		rest, err = tale.Hear(there.Follow(within(t), "t", two.Run, gap.First-1))
		got += rest
	}
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(got, "."), got)

	three := tale.New()
	three.Say(here, tale.Word("a"), tale.Over)
	got, err = tale.Hear(there.Follow(within(t), "t", three.Run, 0))
	require.NoError(t, err)
	require.Equal(t, "a.", got)
}

func shortly(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

func TestOldEventsAreRemoved(t *testing.T) {
	t.Parallel()
	dsn := pgtest.New(t)
	b := openBus(t, dsn, BusOptions{Keep: time.Hour, Bytes: 4000})
	now := time.Now()
	b.log.store.now = func() time.Time { return now }
	count := func() (n int) {
		require.NoError(t, connect(t, dsn).QueryRow(t.Context(), `SELECT count(*) FROM everstep.events`).Scan(&n))
		return n
	}
	add := func(run uuid.UUID, first int64, ended bool, size int) {
		require.NoError(t, b.log.Append(t.Context(), []event.Chunk{{Tenant: "t", Run: run, First: first, Last: first, Ended: ended, Body: make([]byte, size)}}, nil))
	}
	long, quiet, finished := uuid.New(), uuid.New(), uuid.New()
	for i := range 10 {
		add(long, int64(i+1), false, 1000)
	}
	add(quiet, 1, false, 1)
	add(finished, 1, false, 1)
	add(finished, 2, true, 1)
	add(finished, 2, true, 1) // again, because the answer got lost
	require.Equal(t, 13, count())
	require.NoError(t, b.log.sweep(t.Context()))
	require.Equal(t, 7, count(), "a run has so many bytes")
	now = now.Add(30 * time.Minute)
	add(long, 11, false, 1000)
	now = now.Add(31 * time.Minute)
	require.NoError(t, b.log.sweep(t.Context()))
	require.Equal(t, 4, count(), "what is tale.Over, and what nothing happened in, goes")
}

func TestNoticesFitIntoTheServersLimit(t *testing.T) {
	t.Parallel()
	var runs []uuid.UUID
	for range 1000 {
		runs = append(runs, uuid.New())
	}
	var signals []event.Signal
	for i := range 100 {
		signals = append(signals, event.Signal{Kind: event.SessionIdle, Tenant: strings.Repeat("\x00", i), ID: uuid.New()})
	}
	signals = append(signals, event.Signal{Kind: event.SessionIdle, Tenant: strings.Repeat("x", 10_000)})
	payloads, err := notices(uuid.New(), runs, signals)
	require.NoError(t, err)
	text := strings.Join(payloads, " ")
	for _, p := range payloads {
		require.Less(t, len(p), 8000)
	}
	require.Less(t, len(payloads), 20)
	for _, run := range runs {
		require.Contains(t, text, run.String())
	}
	for _, s := range signals[:100] {
		require.Contains(t, text, s.ID.String())
	}
}

// BenchmarkLiveEvent prints how long an event takes to an observer in another process, while runs
// stream a hundred pieces per second each.
func BenchmarkLiveEvent(b *testing.B) {
	for _, runs := range []int{1, 32} {
		b.Run(fmt.Sprintf("runs=%d", runs), func(b *testing.B) {
			here, there := pair(b, pgtest.Database(b, pgtest.Start(b, &pgserver.Options{Fsync: true})), BusOptions{})
			times := make(chan time.Duration, runs*b.N)
			for range runs {
				s := tale.New()
				seq := there.Follow(b.Context(), "t", s.Run, 0)
				go func() {
					for e, err := range seq {
						if err == nil && !event.Terminal(e.Data) {
							times <- time.Since(e.Time)
						}
					}
				}()
				go func() {
					tick := time.NewTicker(10 * time.Millisecond)
					defer tick.Stop()
					for range b.N {
						<-tick.C
						s.Say(here, tale.Word("piece "))
					}
					s.Say(here, tale.Over)
				}()
			}
			var all []time.Duration
			for range runs * b.N {
				all = append(all, <-times)
			}
			slices.Sort(all)
			b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}
