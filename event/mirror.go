package event

import (
	"context"
	"encoding/json"
	"math"
	"sync"
	"time"
)

// A mirror is the log of a run that another process executes, read for those who observe it here.
type mirror struct {
	key    runKey
	log    *log // another one after a gap
	last   int64
	users  int
	woken  bool
	loaded chan struct{} // closed when it was read once
	err    error         // why not, valid once loaded is closed
}

// load notes that the mirror was read for the first time, or could not be. The caller holds the
// relay's mu.
func (m *mirror) load(err error) {
	select {
	case <-m.loaded:
	default:
		m.err = err
		close(m.loaded)
	}
}

// A watcher is somebody who observes a mirror.
type watcher struct {
	relay *Relay
	m     *mirror
	log   *log
	after int64
	stop  func() bool // ends the wait for the end of the context

	mu          sync.Mutex // guards what follows
	taken, left bool
}

// take returns the watcher to the first one who asks.
func (w *watcher) take() *watcher {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.taken || w.left {
		return nil
	}
	w.taken = true
	return w
}

// leave gives the mirror up.
func (w *watcher) leave() {
	w.stop()
	w.mu.Lock()
	left := w.left
	w.left = true
	w.mu.Unlock()
	if !left {
		w.relay.leave(w.m)
	}
}

// attach returns a watcher of a run, once its log was read. It leaves when ctx ends, if it is not
// taken until then. Without wait a run that has no log is an error.
func (r *Relay) attach(ctx context.Context, key runKey, after int64, wait bool) (*watcher, error) {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil, ErrClosed
	}
	m := r.mirrors[key]
	if m == nil {
		m = &mirror{key: key, log: &log{key: key}, loaded: make(chan struct{})}
		r.mirrors[key] = m
		r.wake(m)
	}
	m.users++
	r.mu.Unlock()

	timer := time.NewTimer(callTimeout)
	defer timer.Stop()
	var err error
	select {
	case <-m.loaded:
		err = m.err
	case <-timer.C:
		err = errLoad
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	r.mu.Lock()
	log, last := m.log, m.last
	r.mu.Unlock()
	if err == nil && last == 0 && !wait {
		err = ErrNoLog
	}
	if err != nil {
		r.leave(m)
		return nil, err
	}
	w := &watcher{relay: r, m: m, log: log, after: log.clamp(after)}
	w.stop = context.AfterFunc(ctx, func() {
		if w.take() != nil {
			w.leave()
		}
	})
	return w, nil
}

func (r *Relay) leave(m *mirror) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m.users--; m.users == 0 && r.mirrors[m.key] == m {
		delete(r.mirrors, m.key)
	}
}

// wake has a mirror read soon. The caller holds mu.
func (r *Relay) wake(m *mirror) {
	m.woken = true
	select {
	case r.look <- struct{}{}:
	default:
	}
}

// wakeAll is wake for all mirrors. The caller holds mu.
func (r *Relay) wakeAll() {
	for _, m := range r.mirrors {
		r.wake(m)
	}
}

// read fills the mirrors from the log: those of which it was told, and from time to time all.
func (r *Relay) read(ctx context.Context) {
	poll := time.NewTicker(r.opts.Poll)
	defer poll.Stop()
	var pause time.Duration
	for {
		select {
		case <-r.look:
		case <-poll.C:
			r.mu.Lock()
			r.wakeAll()
			r.mu.Unlock()
		case <-ctx.Done():
			return
		}
		mirrors, positions := r.woken()
		if len(positions) == 0 {
			continue
		}
		call, cancel := context.WithTimeout(ctx, callTimeout)
		chunks, err := r.log.Read(call, positions)
		cancel()
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			r.opts.Logger.Warn("events of other processes not read", "runs", len(positions), "error", err)
			pause = longer(pause)
			wait(ctx, pause)
			r.again(mirrors)
			continue
		}
		pause = 0
		r.fill(mirrors, chunks)
	}
}

// woken returns the woken mirrors and how far they are.
func (r *Relay) woken() (mirrors map[runKey]*mirror, positions []Position) {
	r.mu.Lock()
	defer r.mu.Unlock()
	mirrors = make(map[runKey]*mirror)
	for key, m := range r.mirrors {
		if m.woken {
			m.woken = false
			mirrors[key] = m
			positions = append(positions, Position{key.tenant, key.run, m.last})
		}
	}
	return mirrors, positions
}

// again wakes mirrors that could not be read.
func (r *Relay) again(mirrors map[runKey]*mirror) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range mirrors {
		r.wake(m)
	}
}

// fill adds chunks to the mirrors for which they were read: there may be another one of the same
// run by now, of which nothing is known yet.
func (r *Relay) fill(mirrors map[runKey]*mirror, chunks []Chunk) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range chunks {
		c := &chunks[i]
		m := mirrors[runKey{c.Tenant, c.Run}]
		if m == nil || c.First <= m.last {
			continue
		}
		events, err := c.events()
		if err != nil {
			r.opts.Logger.Error("chunk of events cannot be read", "run", c.Run, "first", c.First, "error", err)
			continue // the next one shows that something is missing
		}
		if m.last != 0 && c.First != m.last+1 {
			m.log.end(&GapError{First: c.First})
			m.log = &log{key: m.key}
		}
		for _, e := range events {
			m.log.append(e, r.local.bytes)
		}
		m.last = c.Last
	}
	for _, m := range mirrors {
		m.load(nil)
	}
}

// events decodes the chunk.
func (c *Chunk) events() ([]Event, error) {
	var events []Event
	if err := json.Unmarshal(c.Body, &events); err != nil {
		return nil, err
	}
	if n := int64(len(events)); n == 0 || c.First < 1 || c.First > math.MaxInt64-n || c.Last != c.First+n-1 {
		return nil, errChunk
	}
	for i := range events {
		e := &events[i]
		e.Seq, e.Tenant, e.Session, e.Run = c.First+int64(i), c.Tenant, c.Session, c.Run
	}
	return events, nil
}
