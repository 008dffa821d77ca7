package eventtest

import (
	"context"
	"io"
	"iter"
	"sync"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
)

// signalers returns both buses as what they are if they carry signals.
func (b *bundle) signalers() (one, other event.Signaler, ok bool) {
	one, ok = b.One.(event.Signaler)
	if !ok {
		return nil, nil, false
	}
	other, ok = b.Other.(event.Signaler)
	require.True(b, ok, "one bus carries signals, the other does not")
	return one, other, true
}

// A listener notes in the background which signals it hears.
type listener struct {
	b    *bundle
	done chan struct{}

	mu    sync.Mutex // guards heard
	heard []event.Signal
}

func (b *bundle) hear(signals iter.Seq[event.Signal]) *listener {
	l := &listener{b: b, done: make(chan struct{})}
	go func() {
		defer close(l.done)
		for s := range signals {
			l.mu.Lock()
			l.heard = append(l.heard, s)
			l.mu.Unlock()
		}
	}()
	return l
}

func (l *listener) all() []event.Signal {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.heard
}

// reaches waits until the listener has heard each signal; it may hear one twice.
func (l *listener) reaches(signals ...event.Signal) {
	l.b.Helper()
	l.b.eventually(func() bool {
		heard := map[event.Signal]bool{}
		for _, s := range l.all() {
			heard[s] = true
		}
		for _, s := range signals {
			if !heard[s] {
				return false
			}
		}
		return true
	}, "heard %v", signals)
}

func newSignal(kind event.SignalKind) event.Signal {
	return event.Signal{Kind: kind, Tenant: tenant, ID: uuid.New()}
}

var signalScenarios = []scenario{
	{
		name:    "signals",
		defends: "A signal reaches everybody who listens, in this process and in others, from the call on.",
		run: func(b *bundle) {
			one, other, ok := b.signalers()
			if !ok {
				return
			}
			early := newSignal(event.SessionIdle)
			one.Signal(early)
			calls := []iter.Seq[event.Signal]{one.Signals(b.ctx), one.Signals(b.ctx), other.Signals(b.ctx), other.Signals(b.ctx)}
			sent := []event.Signal{newSignal(event.CancelRequested), newSignal(event.RunUnclaimed), newSignal(event.SessionIdle)}
			for i, s := range sent {
				[]event.Signaler{one, other, one}[i].Signal(s)
			}
			for _, signals := range calls {
				l := b.hear(signals)
				l.reaches(sent...)
				for _, s := range l.all() {
					if s.Tenant == tenant { // the harness may have said something, to see that the buses are connected
						require.Contains(b, append(sent, early), s, "nobody said that")
					}
				}
			}
		},
	},
	{
		name:    "signals_end",
		defends: "Who listens does so until the context ends, the loop is left or the bus is closed.",
		run: func(b *bundle) {
			one, other, ok := b.signalers()
			if !ok {
				return
			}
			ctx, stop := context.WithCancel(b.ctx)
			ends, stays := b.hear(other.Signals(ctx)), b.hear(other.Signals(b.ctx))
			stop()
			b.wait(ends.done, "listening ends with its context")
			left := other.Signals(b.ctx)
			s := newSignal(event.SessionIdle)
			one.Signal(s)
			b.within(func() {
				for range left {
					break
				}
			}, "leaving the loop")
			stays.reaches(s)
			closer, ok := b.Other.(io.Closer)
			if !ok {
				return
			}
			require.NoError(b, closer.Close())
			b.wait(stays.done, "listening ends with the bus")
			b.wait(b.hear(other.Signals(b.ctx)).done, "a closed bus has no signals")
			b.within(func() { other.Signal(s) }, "a signal on a closed bus")
		},
	},
	{
		name:    "signals_never_block",
		defends: "Signal never blocks; a listener that does not keep up misses some.",
		run: func(b *bundle) {
			one, other, ok := b.signalers()
			if !ok {
				return
			}
			_, _ = one.Signals(b.ctx), other.Signals(b.ctx) // who listens, but never reads
			quick := b.hear(other.Signals(b.ctx))
			if b.Pause != nil {
				b.Pause()
			}
			b.within(func() {
				for range 1000 {
					one.Signal(newSignal(event.SessionIdle))
				}
			}, "a thousand signals")
			if b.Resume != nil {
				b.Resume()
			}
			// Some are lost on the way, too, but not for ever.
			b.eventually(func() bool {
				s := newSignal(event.RunUnclaimed)
				one.Signal(s)
				for _, got := range quick.all() {
					if got.Kind == s.Kind {
						return true
					}
				}
				return false
			}, "heard a signal beside those that do not read")
		},
	},
}
