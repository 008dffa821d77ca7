package event

import (
	"context"
	"iter"
	"sort"
	"sync"
	"time"

	"github.com/google/uuid"
)

// MemoryOptions are the options of [NewMemory].
type MemoryOptions struct {
	// Bytes bounds the log of one run, as [Size] counts. Past it the oldest events go, but never the
	// newest. Zero means 4 MiB.
	Bytes int
	// Keep is how long the log of a run that has ended is kept. Zero means a minute; a negative time
	// drops it at once, except for those who observe it already.
	Keep time.Duration
	// KeepBytes bounds the logs of all runs that have ended, together: past it those go first that
	// ended first. Zero means 16 MiB.
	KeepBytes int
}

// Memory is a [Bus] within one process: one log per run, read by each observer at its own pace.
type Memory struct {
	bytes     int
	keep      time.Duration
	keepBytes int

	mu     sync.RWMutex // guards what follows; never held together with the mutex of a log
	logs   map[runKey]*log
	closed bool
	first  *log        // of those that have ended, the first
	last   *log        // and the last
	total  int         // bytes of those
	timer  *time.Timer // sweeps when the first is due; nil if there is none

	listeners listeners
}

type runKey struct {
	tenant string
	run    uuid.UUID
}

var (
	_ Bus      = (*Memory)(nil)
	_ Signaler = (*Memory)(nil)
)

// NewMemory returns an empty bus. Close it to release the timer of ended runs.
func NewMemory(opts *MemoryOptions) *Memory {
	m := &Memory{bytes: 4 << 20, keep: time.Minute, keepBytes: 16 << 20, logs: map[runKey]*log{}}
	if opts != nil {
		if opts.Bytes > 0 {
			m.bytes = opts.Bytes
		}
		if opts.Keep != 0 {
			m.keep = opts.Keep
		}
		if opts.KeepBytes > 0 {
			m.keepBytes = opts.KeepBytes
		}
	}
	return m
}

// Open begins the log of a run before its first event, so that it can be observed while it waits for
// its turn. If there is one, Open does nothing.
func (m *Memory) Open(tenant string, run uuid.UUID) { m.open(runKey{tenant, run}) }

// open returns nil if the bus is closed.
func (m *Memory) open(key runKey) *log {
	if l, _ := m.find(key); l != nil {
		return l
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	l := m.logs[key]
	if l == nil {
		l = &log{key: key, entries: make([]entry, 0, 16)} // a short run fits without growing
		m.logs[key] = l
	}
	return l
}

func (m *Memory) find(key runKey) (l *log, closed bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.logs[key], m.closed
}

// Publish implements [Bus]. The first event of a run begins its log.
func (m *Memory) Publish(e Event) { m.publish(e) }

// publish reports whether the event was taken.
func (m *Memory) publish(e Event) (taken bool) {
	key := runKey{e.Tenant, e.Run}
	l := m.open(key)
	if l == nil {
		return false
	}
	taken, ended := l.append(e, m.bytes)
	if !ended {
		return taken
	}
	// Here e was the terminal event.
	l.mu.Lock()
	bytes := l.bytes
	l.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	l.final, l.until = bytes, time.Now().Add(m.keep)
	if m.first == nil {
		m.first = l
	} else {
		m.last.next = l
	}
	m.last = l
	m.total += bytes
	m.sweep()
	return true
}

// sweep drops the logs of ended runs that are due or too many. The caller holds mu.
func (m *Memory) sweep() {
	now := time.Now()
	for m.first != nil && (m.total > m.keepBytes || !m.first.until.After(now)) {
		l := m.first
		m.first, l.next = l.next, nil
		m.total -= l.final
		m.forget(l)
	}
	if m.first == nil || m.closed {
		m.first, m.last = nil, nil
		return
	}
	if m.timer == nil {
		m.timer = time.AfterFunc(m.first.until.Sub(now), func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.timer = nil
			m.sweep()
		})
	}
}

// forget removes a log. The caller holds mu.
func (m *Memory) forget(l *log) {
	if m.logs[l.key] == l {
		delete(m.logs, l.key)
	}
}

// Drop forgets the log of a run whose terminal event will not be published here, because another
// process runs it now. Its observers see what is kept and end with [ErrNoLog].
func (m *Memory) Drop(tenant string, run uuid.UUID) {
	key := runKey{tenant, run}
	if l, _ := m.find(key); l != nil {
		m.mu.Lock()
		m.forget(l)
		m.mu.Unlock()
		l.end(ErrNoLog)
	}
}

// Close forgets all logs. Observers see what is kept and end with [ErrClosed], except of runs that
// have ended; what is published from now on is ignored.
func (m *Memory) Close() error {
	m.mu.Lock()
	logs := m.logs
	m.logs, m.first, m.last, m.closed = nil, nil, nil, true
	if m.timer != nil {
		m.timer.Stop()
	}
	m.mu.Unlock()
	for _, l := range logs {
		l.end(ErrClosed)
	}
	m.listeners.close()
	return nil
}

// Signal implements [Signaler].
func (m *Memory) Signal(s Signal) { m.listeners.tell(s) }

// Signals implements [Signaler].
func (m *Memory) Signals(ctx context.Context) iter.Seq[Signal] { return m.listeners.listen(ctx) }

// Subscribe implements [Bus].
func (m *Memory) Subscribe(ctx context.Context, tenant string, run uuid.UUID, after int64) iter.Seq2[Event, error] {
	l, closed := m.find(runKey{tenant, run})
	switch {
	case closed:
		return func(yield func(Event, error) bool) { yield(Event{}, ErrClosed) }
	case l == nil:
		return func(yield func(Event, error) bool) { yield(Event{}, ErrNoLog) }
	}
	after = l.clamp(after)
	return func(yield func(Event, error) bool) { l.observe(ctx, after, yield) }
}

// entrySize is what an entry takes of the log, with as much room to grow.
const entrySize = 96

// log holds the events of one run. Observers hold positions, not copies, so a slow one costs nothing.
type log struct {
	key runKey

	// Of a log that has ended, guarded by the bus.
	final int       // bytes
	until time.Time // when it goes at the latest
	next  *log      // the one that ended after it

	mu      sync.Mutex // guards what follows
	session uuid.UUID  // of the run, as its first event says
	entries []entry    // those kept are entries[head:], by number
	head    int
	bytes   int
	last    int64         // newest number
	gone    int64         // newest number that is not kept
	ended   bool          // the terminal event is in
	err     error         // how observers end who have seen everything, if not by the terminal event
	wake    chan struct{} // closed at the next change; nil while nobody waits
}

// entry is what the events of one run differ in. The rest is kept once: logs make up most of the
// memory of a process that has many short runs.
type entry struct {
	seq  int64
	time time.Time
	data Data
}

// event returns an entry as it was published. The caller holds mu.
func (l *log) event(e entry) Event {
	return Event{Seq: e.seq, Time: e.time, Tenant: l.key.tenant, Session: l.session, Run: l.key.run, Data: e.data}
}

// append reports whether e was taken, and whether it is the terminal event.
func (l *log) append(e Event, limit int) (taken, ended bool) {
	size := entrySize + Size(e.Data)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || l.err != nil || e.Seq <= l.last {
		return false, false
	}
	if l.last == 0 {
		// A log that begins in the middle belongs to a run that was taken over.
		l.gone = e.Seq - 1
		l.session = e.Session
	}
	l.entries = append(l.entries, entry{e.Seq, e.Time, e.Data})
	l.bytes += size
	l.last = e.Seq
	for l.bytes > limit && l.head < len(l.entries)-1 {
		old := &l.entries[l.head]
		l.bytes -= entrySize + Size(old.data)
		l.gone = old.seq
		*old = entry{}
		l.head++
	}
	if l.head > 64 && l.head > len(l.entries)/2 {
		n := copy(l.entries, l.entries[l.head:])
		clear(l.entries[n:])
		l.entries, l.head = l.entries[:n], 0
	}
	l.ended = Terminal(e.Data)
	l.broadcast()
	return true, l.ended
}

func (l *log) broadcast() {
	if l.wake != nil {
		close(l.wake)
		l.wake = nil
	}
}

func (l *log) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
	l.broadcast()
}

func (l *log) clamp(after int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return min(max(after, 0), l.last)
}

// read copies events after pos. Without one it returns a channel to wait on, or that it is over: with
// the terminal event when err is nil.
func (l *log) read(pos int64, into []Event) (n int, wake <-chan struct{}, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := l.entries[l.head:]
	if pos < l.gone {
		return 0, nil, &GapError{First: kept[0].seq}
	}
	// Numbers jump at a takeover, so the place is searched, not computed.
	i := sort.Search(len(kept), func(i int) bool { return kept[i].seq > pos })
	for n < len(into) && i+n < len(kept) {
		into[n] = l.event(kept[i+n])
		n++
	}
	if n > 0 {
		return n, nil, nil
	}
	if l.ended {
		return 0, nil, nil
	}
	if l.err != nil {
		return 0, nil, l.err
	}
	if l.wake == nil {
		l.wake = make(chan struct{})
	}
	return 0, l.wake, nil
}

func (l *log) observe(ctx context.Context, pos int64, yield func(Event, error) bool) {
	var batch [8]Event // saves locking for each; small, because there are thousands of observers
	for {
		n, wake, err := l.read(pos, batch[:])
		if err != nil {
			yield(Event{}, err)
			return
		}
		for _, e := range batch[:n] {
			if err := ctx.Err(); err != nil {
				yield(Event{}, err)
				return
			}
			if !yield(e, nil) {
				return
			}
			pos = e.Seq
		}
		if n > 0 {
			continue
		}
		if wake == nil {
			return
		}
		clear(batch[:]) // an idle observer must not keep events alive that the log has dropped
		select {
		case <-wake:
		case <-ctx.Done():
			yield(Event{}, ctx.Err())
			return
		}
	}
}
