package eventtest

import (
	"context"
	"errors"
	"iter"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
)

const tenant = "acme"

// A bundle is what a case works with: two connected buses and a run that nobody has begun.
type bundle struct {
	testing.TB
	Pair
	ctx      context.Context // ends with the case
	stop     context.CancelFunc
	patience time.Duration
	session  uuid.UUID
	run      uuid.UUID
}

func newBundle(t testing.TB, h Harness, opts Options) *bundle {
	b := &bundle{TB: t, patience: h.Patience, session: uuid.New(), run: uuid.New()}
	if b.patience == 0 {
		b.patience = 10 * time.Second
	}
	b.ctx, b.stop = context.WithCancel(t.Context())
	b.Pair = h.Open(t, opts)
	b.connect(b.One, b.Other)
	b.connect(b.Other, b.One)
	return b
}

// connect waits until what one bus signals reaches the other: what is signalled before is lost.
func (b *bundle) connect(from, to event.Bus) {
	b.Helper()
	here, ok := from.(event.Signaler)
	there, _ := to.(event.Signaler)
	if !ok || b.single() {
		return
	}
	ctx, stop := context.WithCancel(b.ctx)
	defer stop()
	want := event.Signal{Kind: event.SessionIdle, ID: uuid.New()}
	signals := there.Signals(ctx)
	go func() {
		tick := time.NewTicker(poll)
		defer tick.Stop()
		for ctx.Err() == nil {
			here.Signal(want)
			<-tick.C
		}
	}()
	b.within(func() {
		for s := range signals {
			if s == want {
				return
			}
		}
	}, "a signal from one bus to the other")
}

// single reports whether there is but one bus.
func (b *bundle) single() bool { return b.One == b.Other }

// sides calls f for both buses.
func (b *bundle) sides(f func(side string, bus event.Bus)) {
	b.Helper()
	f("the bus that publishes", b.One)
	if !b.single() {
		f("the other bus", b.Other)
	}
}

// event makes one of the run.
func (b *bundle) event(seq int64, data event.Data) event.Event {
	return event.Event{Seq: seq, Time: time.Now(), Tenant: tenant, Session: b.session, Run: b.run, Data: data}
}

func (b *bundle) text(seq int64) event.Event {
	return b.event(seq, event.TextMessageContent{MessageID: b.session, Delta: strconv.FormatInt(seq, 10)})
}

// say publishes a text under each number from first to last.
func (b *bundle) say(bus event.Bus, first, last int64) {
	for n := first; n <= last; n++ {
		bus.Publish(b.text(n))
	}
}

// finish publishes the last event of the run.
func (b *bundle) finish(bus event.Bus, seq int64) {
	bus.Publish(b.event(seq, event.RunFinished{Status: "completed"}))
}

// begin begins the log of the run, without an event if the bus can do that.
func (b *bundle) begin(bus event.Bus) (ok bool) {
	opener, ok := bus.(interface{ Open(string, uuid.UUID) })
	if ok {
		opener.Open(tenant, b.run)
	}
	return ok
}

// poll is how often a case looks whether something has happened that nobody tells it of.
const poll = 5 * time.Millisecond

// eventually waits until f is true.
func (b *bundle) eventually(f func() bool, what string, args ...any) {
	b.Helper()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for end := time.Now().Add(b.patience); !f(); <-tick.C {
		if time.Now().After(end) {
			b.Fatalf("in %v never "+what, append([]any{b.patience}, args...)...)
		}
	}
}

// within requires f to return while there is patience.
func (b *bundle) within(f func(), what string) {
	b.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	b.wait(done, what)
}

func (b *bundle) wait(done <-chan struct{}, what string) {
	b.Helper()
	timeout := time.NewTimer(b.patience)
	defer timeout.Stop()
	select {
	case <-done:
	case <-timeout.C:
		b.Fatalf("%s: not in %v", what, b.patience)
	}
}

// arrived waits until a bus has the events of the run up to a number.
func (b *bundle) arrived(bus event.Bus, seq int64) {
	b.Helper()
	w := b.follow(bus, 0)
	w.until(seq)
	w.stop()
}

// A watcher is an observer in the background.
type watcher struct {
	b    *bundle
	stop context.CancelFunc
	done chan struct{}

	mu   sync.Mutex // guards what follows
	seen []event.Event
	err  error
	odd  string // what an observer must never be given
}

// watch observes the run, from the call on.
func (b *bundle) watch(bus event.Bus, after int64) *watcher {
	ctx, stop := context.WithCancel(b.ctx)
	w := b.loop(bus.Subscribe(ctx, tenant, b.run, after))
	w.stop = stop
	return w
}

// loop goes through a subscription in the background.
func (b *bundle) loop(seq iter.Seq2[event.Event, error]) *watcher {
	w := &watcher{b: b, done: make(chan struct{}), stop: func() {}}
	go func() {
		defer close(w.done)
		for e, err := range seq {
			if !w.note(e, err) {
				return
			}
		}
	}()
	return w
}

// follow observes the run as package graph does: if there is no log it asks again, and where
// events are gone it goes on with the first that is kept.
func (b *bundle) follow(bus event.Bus, after int64) *watcher {
	ctx, stop := context.WithCancel(b.ctx)
	w := &watcher{b: b, done: make(chan struct{}), stop: stop}
	run := b.run
	seq := bus.Subscribe(ctx, tenant, run, after)
	go func() {
		defer close(w.done)
		tick := time.NewTicker(poll)
		defer tick.Stop()
		for {
			var broken error
			for e, err := range seq {
				gap, isGap := errors.AsType[*event.GapError](err)
				if isGap {
					after = gap.First - 1
				}
				if broken = err; isGap || errors.Is(err, event.ErrNoLog) {
					continue
				}
				if !w.note(e, err) {
					return
				}
				after = e.Seq
			}
			if broken == nil {
				return
			}
			<-tick.C
			seq = bus.Subscribe(ctx, tenant, run, after)
		}
	}()
	return w
}

// note reports whether to go on.
func (w *watcher) note(e event.Event, err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.err != nil:
		w.odd = "something after an error"
	case err != nil && (e != event.Event{}):
		w.odd = "an event beside an error"
	case err == nil && len(w.seen) > 0 && e.Seq <= w.seen[len(w.seen)-1].Seq:
		w.odd = "number " + strconv.FormatInt(e.Seq, 10) + " after " + strconv.FormatInt(w.seen[len(w.seen)-1].Seq, 10)
	case err == nil && len(w.seen) > 0 && event.Terminal(w.seen[len(w.seen)-1].Data):
		w.odd = "an event after the terminal one"
	}
	if err != nil {
		w.err = err
	} else {
		w.seen = append(w.seen, e)
	}
	return w.odd == "" && len(w.seen) < 100_000 // a bus that repeats itself must come to an end
}

// until waits until the watcher has seen a number, or a greater one.
func (w *watcher) until(seq int64) {
	w.b.Helper()
	w.b.eventually(func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.seen) > 0 && w.seen[len(w.seen)-1].Seq >= seq || w.err != nil || w.odd != ""
	}, "saw number %d", seq)
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Empty(w.b, w.odd)
	require.NoError(w.b, w.err)
}

// end waits until the sequence is over, and returns the events and the error.
func (w *watcher) end() ([]event.Event, error) {
	w.b.Helper()
	w.b.wait(w.done, "an observer comes to its end")
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Empty(w.b, w.odd)
	return w.seen, w.err
}

// expect requires the sequence to end without error, after these numbers.
func (w *watcher) expect(want []int64, why string, args ...any) {
	w.b.Helper()
	seen, err := w.end()
	require.NoErrorf(w.b, err, why, args...)
	require.Equalf(w.b, want, numbers(seen), why, args...)
}

// fails requires the sequence to end with an error, after these numbers.
func (w *watcher) fails(target error, want []int64, why string, args ...any) {
	w.b.Helper()
	seen, err := w.end()
	require.ErrorIsf(w.b, err, target, why, args...)
	require.Equalf(w.b, want, numbers(seen), why, args...)
}

func numbers(events []event.Event) []int64 {
	var all []int64
	for i := range events {
		all = append(all, events[i].Seq)
	}
	return all
}

// count returns the numbers from first to last.
func count(first, last int64) []int64 {
	var all []int64
	for n := first; n <= last; n++ {
		all = append(all, n)
	}
	return all
}
