package graphtest

import (
	"sync"
	"time"
)

// A Clock stands still until it is moved. Give its Now to a store, to let leases run out. It is
// safe for concurrent use. For everything that waits, testing/synctest is the better clock.
type Clock struct {
	mu  sync.Mutex // guards now
	now time.Time
}

// NewClock returns a clock that shows a time.
func NewClock(now time.Time) *Clock { return &Clock{now: now} }

// Now returns the time that the clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Add moves the clock; a negative d moves it back, as clocks of machines sometimes do.
func (c *Clock) Add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}
