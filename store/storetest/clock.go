package storetest

import (
	"sync"
	"time"
)

// A clock stands still until a case moves it, in whole milliseconds.
type clock struct {
	mu  sync.Mutex // guards now
	now time.Time
}

func newClock() *clock {
	return &clock{now: time.Date(2026, 3, 4, 5, 6, 7, 8_000_000, time.UTC)}
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// move moves the clock, back if d is negative, and returns its new time.
func (c *clock) move(d time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	return c.now
}
