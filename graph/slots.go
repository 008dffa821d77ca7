package graph

import (
	"context"
	"sync"
)

// slots bound how many runs a process executes at once. One that becomes free goes to the
// waiting tenant that has the fewest, so that a tenant with a thousand runs does not keep the
// others waiting.
type slots struct {
	mu      sync.Mutex // guards what follows
	free    int
	used    map[string]int // by tenant
	waiting []*slotWaiter  // in the order in which they came
}

type slotWaiter struct {
	tenant string
	taken  chan struct{} // closed when the slot is the waiter's
}

func newSlots(n int) *slots { return &slots{free: n, used: make(map[string]int)} }

// take waits for a slot.
func (s *slots) take(ctx context.Context, tenant string) error {
	s.mu.Lock()
	if s.free > 0 {
		s.free--
		s.used[tenant]++
		s.mu.Unlock()
		return nil
	}
	w := &slotWaiter{tenant, make(chan struct{})}
	s.waiting = append(s.waiting, w)
	s.mu.Unlock()
	select {
	case <-w.taken:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, waiting := range s.waiting {
		if waiting == w {
			s.waiting = append(s.waiting[:i], s.waiting[i+1:]...)
			return context.Cause(ctx)
		}
	}
	s.release(tenant) // it came at the same moment
	return context.Cause(ctx)
}

// takeFree takes up to n slots that nobody waits for, and returns how many.
func (s *slots) takeFree(tenant string, n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = max(0, min(n, s.free))
	s.free -= n
	s.used[tenant] += n
	return n
}

// give returns a slot.
func (s *slots) give(tenant string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release(tenant)
}

// hand makes a slot of one tenant another one's.
func (s *slots) hand(from, to string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count(from, -1)
	s.count(to, 1)
}

// release is give for who holds mu.
func (s *slots) release(tenant string) {
	s.count(tenant, -1)
	if len(s.waiting) == 0 {
		s.free++
		return
	}
	next := 0
	for i, w := range s.waiting {
		if s.used[w.tenant] < s.used[s.waiting[next].tenant] {
			next = i
		}
	}
	w := s.waiting[next]
	s.waiting = append(s.waiting[:next], s.waiting[next+1:]...)
	s.count(w.tenant, 1)
	close(w.taken)
}

func (s *slots) count(tenant string, n int) {
	if s.used[tenant] += n; s.used[tenant] == 0 {
		delete(s.used, tenant)
	}
}
