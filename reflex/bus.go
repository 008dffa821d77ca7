package reflex

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
)

// Filter says what a listener hears. Of its members any that fits is enough, and an event that
// fits several is heard once.
type Filter struct {
	// Channel hears what happens at a channel, and nothing that only was asked on it.
	Channel string
	// Threads are ids of threads or surfaces: heard is what happens there, and what was asked on
	// them and is not private.
	Threads []string
	// All hears everything: for logs.
	All bool
}

func (f Filter) hears(e Event) bool {
	if f.All || f.Channel != "" && e.At.Channel == f.Channel {
		return true
	}
	for _, t := range f.Threads {
		if t == e.At.Surface || t == e.At.Thread || !e.Private && (t == e.AskedOn.Surface || t == e.AskedOn.Thread) {
			return true
		}
	}
	return false
}

// Bus carries the events of passes to listeners: the nerve. Publishing never waits. Make one
// with NewBus; it is safe for concurrent use.
type Bus struct {
	room int

	mu   sync.Mutex // guards subs, and that all listeners hear in the same order
	subs map[*Subscription]struct{}
	draw []*drawer   // of the channels that draw
	tap  func(Event) // for tests: sees each event before anybody hears it
}

// NewBus returns a bus whose listeners may be that many events behind before they miss some. Zero
// means 1024.
func NewBus(room int) *Bus {
	if room <= 0 {
		room = 1024
	}
	return &Bus{room: room, subs: make(map[*Subscription]struct{})}
}

// Publish tells everybody who hears the event.
func (b *Bus) Publish(e Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tap != nil {
		b.tap(e)
	}
	for s := range b.subs {
		if s.filter.hears(e) {
			s.queue.offer(e)
		}
	}
	for _, d := range b.draw {
		if d.channel == e.At.Channel {
			d.offer(e)
		}
	}
}

// Subscribe begins to listen: what is published from now on is heard. Close the subscription in
// the end.
func (b *Bus) Subscribe(f Filter) *Subscription {
	s := &Subscription{bus: b, filter: f, queue: newQueue(b.room)}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.subs[s] = struct{}{}
	return s
}

// Subscription is a listener's place on a [Bus].
type Subscription struct {
	bus    *Bus
	filter Filter
	queue  *queue
}

// Close ends the subscription. It may be called again.
func (s *Subscription) Close() {
	s.bus.mu.Lock()
	delete(s.bus.subs, s)
	s.bus.mu.Unlock()
	s.queue.close()
}

// Events yields what is heard until the subscription is closed, or ctx ends. After what fitted
// into the queue of a slow listener comes a [Lag], and then what is published from then on. One
// goroutine at a time may range over it.
func (s *Subscription) Events(ctx context.Context) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		for {
			e, ok, closed := s.queue.take()
			switch {
			case ok:
				if !yield(e) {
					return
				}
			case closed:
				s.queue.wake() // for the next loop
				return
			default:
				select {
				case <-s.queue.more:
				case <-ctx.Done():
					return
				}
			}
		}
	}
}

// queue keeps events for one who takes them, up to a number.
type queue struct {
	room int
	more chan struct{} // holds one token while there may be something new

	mu     sync.Mutex // guards what follows
	events []Event
	missed int
	rows   map[string]int64 // the first row that was missed of each surface
	closed bool
}

func newQueue(room int) *queue { return &queue{room: room, more: make(chan struct{}, 1)} }

// offer adds an event to the queue, or notes that it is missed.
func (q *queue) offer(e Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return
	case len(q.events) >= q.room || q.missed > 0:
		q.miss(e)
	default:
		q.events = append(q.events, e)
	}
	q.wake()
}

func (q *queue) miss(e Event) {
	q.missed++
	row, ok := rowOf(e.Data)
	if first, known := q.rows[row.Surface]; !ok || known && first <= row.Seq {
		return
	}
	if q.rows == nil {
		q.rows = make(map[string]int64)
	}
	q.rows[row.Surface] = row.Seq
}

func (q *queue) wake() {
	select {
	case q.more <- struct{}{}:
	default:
	}
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.wake()
}

func (q *queue) take() (e Event, ok, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case len(q.events) > 0:
		e = q.events[0]
		q.events[0] = Event{}
		q.events = q.events[1:]
		return e, true, q.closed
	case q.missed > 0:
		lag := Lag{Missed: q.missed}
		for _, surface := range slices.Sorted(maps.Keys(q.rows)) {
			lag.Rows = append(lag.Rows, RowID{surface, q.rows[surface]})
		}
		q.missed, q.rows = 0, nil
		return Event{Data: lag}, true, q.closed
	}
	return Event{}, false, q.closed
}
