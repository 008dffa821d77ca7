package reflex

import (
	"context"
	"iter"
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
			s.offer(e)
		}
	}
}

// Subscribe begins to listen: what is published from now on is heard. Close the subscription in
// the end.
func (b *Bus) Subscribe(f Filter) *Subscription {
	s := &Subscription{bus: b, filter: f, more: make(chan struct{}, 1)}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.subs[s] = struct{}{}
	return s
}

// Subscription is a listener's place on a [Bus].
type Subscription struct {
	bus    *Bus
	filter Filter
	more   chan struct{} // holds one token while there may be something new

	mu     sync.Mutex // guards what follows
	queue  []Event
	missed int
	closed bool
}

// offer adds an event to the queue, or counts it as missed.
func (s *Subscription) offer(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return
	case len(s.queue) >= s.bus.room || s.missed > 0:
		s.missed++
	default:
		s.queue = append(s.queue, e)
	}
	s.wake()
}

func (s *Subscription) wake() {
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// Close ends the subscription. It may be called again.
func (s *Subscription) Close() {
	s.bus.mu.Lock()
	delete(s.bus.subs, s)
	s.bus.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.wake()
}

// Events yields what is heard until the subscription is closed, or ctx ends. After what fitted
// into the queue of a slow listener comes a [Lag], and then what is published from then on. One
// goroutine at a time may range over it.
func (s *Subscription) Events(ctx context.Context) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		for {
			e, ok, closed := s.take()
			switch {
			case ok:
				if !yield(e) {
					return
				}
			case closed:
				s.wake() // for the next loop
				return
			default:
				select {
				case <-s.more:
				case <-ctx.Done():
					return
				}
			}
		}
	}
}

func (s *Subscription) take() (e Event, ok, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case len(s.queue) > 0:
		e = s.queue[0]
		s.queue[0] = Event{}
		s.queue = s.queue[1:]
		return e, true, s.closed
	case s.missed > 0:
		e = Event{Data: Lag{Missed: s.missed}}
		s.missed = 0
		return e, true, s.closed
	}
	return Event{}, false, s.closed
}
