package event

import (
	"log/slog"
	"sync"
)

const (
	// chunkBytes is about how much of a run goes into one chunk.
	chunkBytes = 256 << 10
	// maxSignals is how many signals may wait. Beyond it they are lost, as signals may be.
	maxSignals = 1024
)

// queue holds what a relay has yet to append to its log.
type queue struct {
	limit int           // of bytes
	more  chan struct{} // capacity 1: something came

	mu      sync.Mutex // guards what follows
	chunks  []*pending // in the order in which they began
	latest  map[runKey]*pending
	bytes   int
	signals []Signal
}

// pending is a chunk in the making.
type pending struct {
	chunk  Chunk // its Body once it is encoded
	events []Event
	bytes  int
}

func (q *queue) add(e Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	size := Size(e.Data)
	if q.bytes+size > q.limit {
		// Whoever observes the run elsewhere sees by the numbers that some are missing.
		if !Terminal(e.Data) {
			return
		}
	}
	key := runKey{e.Tenant, e.Run}
	p := q.latest[key]
	if p == nil || p.chunk.Last+1 != e.Seq || p.bytes > chunkBytes {
		p = &pending{chunk: Chunk{Tenant: e.Tenant, Session: e.Session, Run: e.Run, First: e.Seq}}
		q.chunks = append(q.chunks, p)
		if q.latest == nil {
			q.latest = make(map[runKey]*pending)
		}
		q.latest[key] = p
	}
	p.events = append(p.events, e)
	p.chunk.Last, p.chunk.Ended = e.Seq, Terminal(e.Data)
	p.bytes += size
	q.bytes += size
	q.tell()
}

func (q *queue) addSignal(s Signal) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.signals) < maxSignals {
		q.signals = append(q.signals, s)
		q.tell()
	}
}

func (q *queue) tell() {
	select {
	case q.more <- struct{}{}:
	default:
	}
}

// take returns what waits. The chunks count as waiting until they are sent or given back.
func (q *queue) take() ([]*pending, []Signal) {
	q.mu.Lock()
	defer q.mu.Unlock()
	chunks, signals := q.chunks, q.signals
	q.chunks, q.signals = nil, nil
	clear(q.latest)
	return chunks, signals
}

// sent forgets chunks that are in the log.
func (q *queue) sent(chunks []*pending) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, p := range chunks {
		q.bytes -= p.bytes
	}
}

// giveBack puts chunks back that could not be appended, before those that came meanwhile.
func (q *queue) giveBack(chunks []*pending) {
	if len(chunks) == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.chunks = append(chunks, q.chunks...)
	q.tell()
}

// encode makes the chunk's body. An event that has no JSON ends the chunk before it: it cannot be
// told elsewhere, and nor can what follows it in the chunk.
func (p *pending) encode(log *slog.Logger) {
	b := make([]byte, 0, p.bytes+64*len(p.events))
	for i, e := range p.events {
		sep := byte(',')
		if i == 0 {
			sep = '['
		}
		var err error
		if b, err = e.AppendJSON(append(b, sep)); err != nil {
			log.Error("event not sent to other processes", "run", e.Run, "number", e.Seq, "error", err)
			b = b[:len(b)-1]
			p.chunk.Last, p.chunk.Ended = e.Seq-1, false
			break
		}
	}
	p.chunk.Body, p.events = append(b, ']'), nil
}
