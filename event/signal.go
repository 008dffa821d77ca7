package event

import (
	"context"
	"iter"
	"sync"

	"github.com/google/uuid"
)

// A Signaler is a [Bus] that also carries signals between processes: hints that something has
// changed in the store, so that others look at it now and not at their next heartbeat. Signals
// may get lost and may come twice; nothing may depend on them but how soon it happens.
type Signaler interface {
	// Signal tells everybody who listens, also in this process. It never blocks.
	Signal(s Signal)

	// Signals listens until ctx ends or the bus is closed. Who listens is known from the call on,
	// not from the loop. A listener that does not keep up misses some.
	Signals(ctx context.Context) iter.Seq[Signal]
}

// SignalKind says what changed.
type SignalKind string

const (
	// CancelRequested: the end of a run is asked for. ID is the run's.
	CancelRequested SignalKind = "cancel_requested"
	// RunUnclaimed: a run waits for a process to go on with it. ID is the run's.
	RunUnclaimed SignalKind = "run_unclaimed"
	// SessionIdle: a run of a session has ended, so one that waits for it may begin. ID is the
	// session's.
	SessionIdle SignalKind = "session_idle"
)

// Signal is a hint for other processes. See [Signaler].
type Signal struct {
	Kind   SignalKind `json:"kind"`
	Tenant string     `json:"tenant"`
	ID     uuid.UUID  `json:"id"`
}

// listeners are those of the signals of a process.
type listeners struct {
	mu     sync.Mutex // guards what follows
	all    map[chan Signal]struct{}
	closed bool
}

// backlog is how many signals a listener may be behind.
const backlog = 64

func (l *listeners) tell(s Signal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.all {
		select {
		case c <- s:
		default:
		}
	}
}

func (l *listeners) listen(ctx context.Context) iter.Seq[Signal] {
	c := make(chan Signal, backlog)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return func(func(Signal) bool) {}
	}
	if l.all == nil {
		l.all = make(map[chan Signal]struct{})
	}
	l.all[c] = struct{}{}
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if _, in := l.all[c]; in {
			delete(l.all, c)
			close(c)
		}
	}
	stop := context.AfterFunc(ctx, leave)
	return func(yield func(Signal) bool) {
		defer stop()
		defer leave()
		for s := range c {
			if ctx.Err() != nil || !yield(s) {
				return
			}
		}
	}
}

func (l *listeners) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for c := range l.all {
		close(c)
	}
	l.all = nil
}
