package eventtest

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/event"
)

// openMemory opens the bus that is known to be sound.
func openMemory(t testing.TB, opts Options) Pair {
	m := event.NewMemory(&event.MemoryOptions{Bytes: opts.Bytes})
	t.Cleanup(func() { _ = m.Close() })
	return Pair{One: m, Other: m}
}

func TestABusOfOneProcessPasses(t *testing.T) {
	t.Parallel()
	Run(t, Harness{Open: openMemory})
}

func TestABusBetweenProcessesPasses(t *testing.T) {
	t.Parallel()
	Run(t, Harness{Open: func(t testing.TB, opts Options) Pair { return openTwins(t, opts, nil) }})
}

// A twin is one of two buses of which each tells the other everything. Its methods can be replaced.
type twin struct {
	first bool // the one that most cases publish on
	own   *event.Memory
	peer  *event.Memory
	link  *link

	publish   func(event.Event)
	subscribe func(context.Context, string, uuid.UUID, int64) iter.Seq2[event.Event, error]
	follow    func(context.Context, string, uuid.UUID, int64) iter.Seq2[event.Event, error]
	signal    func(event.Signal)
	signals   func(context.Context) iter.Seq[event.Signal]
	open      func(string, uuid.UUID)
	drop      func(string, uuid.UUID)
	close     func() error
}

func openTwins(t testing.TB, opts Options, install func(*twin)) Pair {
	l := &link{}
	one, other := event.NewMemory(&event.MemoryOptions{Bytes: opts.Bytes}), event.NewMemory(&event.MemoryOptions{Bytes: opts.Bytes})
	t.Cleanup(func() {
		_ = one.Close()
		_ = other.Close()
	})
	a, b := newTwin(one, other, l), newTwin(other, one, l)
	a.first = true
	if install != nil {
		install(a)
		install(b)
	}
	return Pair{One: a, Other: b, Pause: l.pause, Resume: l.resume}
}

func newTwin(own, peer *event.Memory, l *link) *twin {
	var closed atomic.Bool
	return &twin{
		own: own, peer: peer, link: l, subscribe: own.Subscribe, signals: own.Signals,
		close: func() error {
			closed.Store(true)
			return own.Close()
		},
		follow: func(ctx context.Context, tenant string, run uuid.UUID, after int64) iter.Seq2[event.Event, error] {
			own.Open(tenant, run)
			return own.Subscribe(ctx, tenant, run, after)
		},
		publish: func(e event.Event) {
			if closed.Load() {
				return
			}
			own.Publish(e)
			l.send(func() { peer.Publish(e) })
		},
		signal: func(s event.Signal) {
			own.Signal(s)
			l.send(func() { peer.Signal(s) })
		},
		open: func(tenant string, run uuid.UUID) {
			own.Open(tenant, run)
			l.send(func() { peer.Open(tenant, run) })
		},
		drop: func(string, uuid.UUID) {}, // what the peer says comes here anyway
	}
}

func (w *twin) Publish(e event.Event)             { w.publish(e) }
func (w *twin) Signal(s event.Signal)             { w.signal(s) }
func (w *twin) Open(tenant string, run uuid.UUID) { w.open(tenant, run) }
func (w *twin) Drop(tenant string, run uuid.UUID) { w.drop(tenant, run) }
func (w *twin) Close() error                      { return w.close() }

func (w *twin) Subscribe(ctx context.Context, tenant string, run uuid.UUID, after int64) iter.Seq2[event.Event, error] {
	return w.subscribe(ctx, tenant, run, after)
}

func (w *twin) Follow(ctx context.Context, tenant string, run uuid.UUID, after int64) iter.Seq2[event.Event, error] {
	return w.follow(ctx, tenant, run, after)
}

func (w *twin) Signals(ctx context.Context) iter.Seq[event.Signal] { return w.signals(ctx) }

// A link carries calls from one twin to the other, unless it is paused.
type link struct {
	mu     sync.Mutex // guards what follows
	paused bool
	queue  []func()
}

func (l *link) send(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.paused {
		l.queue = append(l.queue, f)
		return
	}
	f()
}

func (l *link) pause() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.paused = true
}

func (l *link) resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.queue {
		f()
	}
	l.paused, l.queue = false, nil
}
