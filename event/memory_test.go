package event_test

import (
	"context"
	"errors"
	"iter"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/event/eventtest"
)

func text(seq int64) event.Event {
	return event.Event{Seq: seq, Tenant: "acme", Run: run, Data: event.TextMessageContent{MessageID: msg, Delta: strconv.FormatInt(seq, 10)}}
}

func finished(seq int64) event.Event {
	return event.Event{Seq: seq, Tenant: "acme", Run: run, Data: event.RunFinished{Status: "completed"}}
}

func publish(b event.Bus, seqs ...int64) {
	for _, n := range seqs {
		b.Publish(text(n))
	}
}

// collect returns the numbers and the error that ends the sequence.
func collect(seq iter.Seq2[event.Event, error]) (got []int64, err error) {
	for e, err := range seq {
		if err != nil {
			return got, err
		}
		got = append(got, e.Seq)
	}
	return got, nil
}

func newMemory(t testing.TB, opts *event.MemoryOptions) *event.Memory {
	m := event.NewMemory(opts)
	t.Cleanup(func() { assert.NoError(t, m.Close()) })
	return m
}

func TestConformance(t *testing.T) {
	t.Parallel()
	eventtest.Run(t, eventtest.Harness{Open: func(t testing.TB, opts eventtest.Options) eventtest.Pair {
		m := newMemory(t, &event.MemoryOptions{Bytes: opts.Bytes})
		return eventtest.Pair{One: m, Other: m}
	}})
}

func TestNumbersMayJumpWithoutAGap(t *testing.T) {
	t.Parallel()
	m := newMemory(t, nil)
	publish(m, 1, 2, 1000, 1001)
	m.Publish(finished(5000))
	for after, want := range map[int64][]int64{1: {2, 1000, 1001, 5000}, 2: {1000, 1001, 5000}, 500: {1000, 1001, 5000}, 1000: {1001, 5000}, 1001: {5000}} {
		got, err := collect(m.Subscribe(t.Context(), "acme", run, after))
		assert.NoError(t, err)
		assert.Equal(t, want, got, "after %d", after)
	}
}

func TestASlowObserverIsToldOfTheGap(t *testing.T) {
	t.Parallel()
	m := newMemory(t, &event.MemoryOptions{Bytes: 10 * (96 + event.Size(text(1).Data))})
	publish(m, 1)
	var got []int64
	var failed error
	for e, err := range m.Subscribe(t.Context(), "acme", run, 0) {
		if err != nil {
			assert.Equal(t, event.Event{}, e)
			failed = err
			continue // and nothing comes after it
		}
		got = append(got, e.Seq)
		if e.Seq == 1 {
			for n := int64(2); n <= 500; n++ {
				publish(m, n)
			}
		}
	}
	assert.Equal(t, []int64{1}, got)
	require.ErrorIs(t, failed, event.ErrGap)
	var gap *event.GapError
	require.ErrorAs(t, failed, &gap)
	assert.EqualError(t, failed, "event: events before number "+strconv.FormatInt(gap.First, 10)+" are gone")
	assert.Greater(t, gap.First, int64(485))

	m.Publish(finished(501))
	got, err := collect(m.Subscribe(t.Context(), "acme", run, gap.First))
	assert.NoError(t, err)
	for i, n := range got {
		assert.Equal(t, gap.First+1+int64(i), n)
	}
	assert.Equal(t, int64(501), got[len(got)-1])
	_, err = collect(m.Subscribe(t.Context(), "acme", run, 1))
	assert.ErrorIs(t, err, event.ErrGap)
}

// Not parallel: it measures the memory of the whole process.
func TestALongRunStaysWithinItsBytes(t *testing.T) {
	m := newMemory(t, &event.MemoryOptions{Bytes: 64 << 10})
	delta := strings.Repeat("x", 1000)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for n := int64(1); n <= 50_000; n++ {
		m.Publish(event.Event{Seq: n, Tenant: "acme", Run: run, Data: event.TextMessageContent{Delta: strings.Clone(delta)}})
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	assert.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(1<<20), "of 50 MB published")
	runtime.KeepAlive(m)
}

func TestAnEndedLogIsKeptForAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t, nil)
		publish(m, 1)
		m.Publish(finished(2))
		attached := m.Subscribe(t.Context(), "acme", run, 0)

		time.Sleep(time.Minute - time.Nanosecond)
		got, err := collect(m.Subscribe(t.Context(), "acme", run, 0))
		assert.NoError(t, err)
		assert.Equal(t, []int64{1, 2}, got)

		time.Sleep(time.Nanosecond)
		synctest.Wait()
		_, err = collect(m.Subscribe(t.Context(), "acme", run, 0))
		assert.ErrorIs(t, err, event.ErrNoLog)

		got, err = collect(attached)
		assert.NoError(t, err, "who was attached in time sees it all")
		assert.Equal(t, []int64{1, 2}, got)
	})
}

func TestALogMayGoAsSoonAsItsRunEnds(t *testing.T) {
	t.Parallel()
	m := newMemory(t, &event.MemoryOptions{Keep: -1})
	publish(m, 1)
	attached := m.Subscribe(t.Context(), "acme", run, 0)
	m.Publish(finished(2))
	_, err := collect(m.Subscribe(t.Context(), "acme", run, 0))
	assert.ErrorIs(t, err, event.ErrNoLog)
	got, err := collect(attached)
	assert.NoError(t, err)
	assert.Equal(t, []int64{1, 2}, got)
}

func TestADroppedLogEndsItsObservers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t, nil)
		publish(m, 1)
		var wg sync.WaitGroup
		wg.Go(func() {
			got, err := collect(m.Subscribe(t.Context(), "acme", run, 0))
			assert.ErrorIs(t, err, event.ErrNoLog)
			assert.Equal(t, []int64{1}, got)
		})
		synctest.Wait()
		m.Drop("acme", run)
		m.Drop("acme", run)
		wg.Wait()
	})
}

func TestAClosedBusEndsItsObservers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := event.NewMemory(nil)
		publish(m, 1)
		ended := finished(1)
		ended.Run = msg
		m.Publish(ended)
		complete := m.Subscribe(t.Context(), "acme", msg, 0)
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := collect(m.Subscribe(t.Context(), "acme", run, 0))
			assert.ErrorIs(t, err, event.ErrClosed)
		})
		synctest.Wait()
		require.NoError(t, m.Close())
		require.NoError(t, m.Close())
		wg.Wait()
		publish(m, 2)
		m.Open("acme", run)
		m.Drop("acme", run)
		_, err := collect(m.Subscribe(t.Context(), "acme", run, 0))
		assert.ErrorIs(t, err, event.ErrClosed)
		got, err := collect(complete)
		assert.NoError(t, err)
		assert.Equal(t, []int64{1}, got)
	})
}

// Not parallel: it measures the memory of the whole process.
func TestIdleObserversAreCheap(t *testing.T) {
	const observers = 2000
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t, nil)
		publish(m, 1)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for range observers {
			wg.Go(func() {
				for e, err := range m.Subscribe(ctx, "acme", run, 0) {
					if err != nil {
						assert.True(t, errors.Is(err, context.Canceled) && e.Data == nil)
					}
				}
			})
		}
		synctest.Wait()
		runtime.ReadMemStats(&after)
		heap := (after.TotalAlloc - before.TotalAlloc) / observers
		stack := (int64(after.StackInuse) - int64(before.StackInuse)) / observers
		t.Logf("%d bytes of heap and %d of stack for each observer", heap, stack)
		assert.Less(t, int64(heap)+stack, int64(8<<10))
		cancel()
		wg.Wait()
	})
}

func BenchmarkPublish(b *testing.B) {
	for _, observers := range []int{0, 1, 100} {
		b.Run("observers="+strconv.Itoa(observers), func(b *testing.B) {
			m := newMemory(b, nil)
			m.Open("acme", run)
			ctx, cancel := context.WithCancel(b.Context())
			var wg sync.WaitGroup
			for range observers {
				wg.Go(func() {
					after := int64(0)
					for { // an observer that is too slow begins again at the end
						_, err := collect(m.Subscribe(ctx, "acme", run, after))
						if !errors.Is(err, event.ErrGap) {
							return
						}
						after = 1 << 62
					}
				})
			}
			data := event.TextMessageContent{MessageID: msg, Delta: "a few words"}
			b.ReportAllocs()
			seq := int64(0)
			for b.Loop() {
				seq++
				m.Publish(event.Event{Seq: seq, Tenant: "acme", Session: session, Run: run, Data: data})
			}
			cancel()
			wg.Wait()
		})
	}
}

func BenchmarkObserve(b *testing.B) {
	m := newMemory(b, nil)
	for n := int64(1); n < 1000; n++ {
		publish(m, n)
	}
	m.Publish(finished(1000))
	b.ReportAllocs()
	for b.Loop() {
		for _, err := range m.Subscribe(b.Context(), "acme", run, 0) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/event")
}

func TestLogsOfEndedRunsAreKeptWithinTheirBytesTheLatestOnes(t *testing.T) {
	t.Parallel()
	m := event.NewMemory(&event.MemoryOptions{KeepBytes: 10_000})
	t.Cleanup(func() { _ = m.Close() })
	runs := make([]uuid.UUID, 100)
	for i := range runs {
		runs[i] = uuid.New()
		m.Publish(event.Event{Seq: 1, Run: runs[i], Data: event.TextMessageContent{Delta: strings.Repeat("x", 1000)}})
		m.Publish(event.Event{Seq: 2, Run: runs[i], Data: event.RunFinished{Status: "completed"}})
	}
	kept := 0
	for i, run := range runs {
		for _, err := range m.Subscribe(t.Context(), "", run, 0) {
			if err == nil {
				kept++
				require.Greater(t, i, 80, "the first to end go first")
			} else {
				require.ErrorIs(t, err, event.ErrNoLog)
			}
		}
	}
	require.NotZero(t, kept)
	require.Less(t, kept/2*1000, 10_000)
}
