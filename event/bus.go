package event

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/google/uuid"
)

// Bus carries the events of runs from the process that runs them to whoever observes them. All methods
// are safe for concurrent use.
type Bus interface {
	// Publish adds the event to the log of its run. It never blocks. A number that is not above the
	// last one of the log is a repetition and ignored, and so is everything after the terminal event.
	Publish(e Event)

	// Subscribe observes a run: everything after number after that is kept, then what happens, up to
	// and with the terminal event. Zero is from the start; a number beyond the last counts as the last.
	//
	// The observer is attached by the call, not by the loop, so what is published between them is
	// seen. An error is the last thing the sequence yields, beside a zero event: [ErrNoLog], a
	// [*GapError], or the error of ctx. Breaking the loop only stops watching. Each loop over the
	// sequence starts again after the same number.
	Subscribe(ctx context.Context, tenant string, run uuid.UUID, after int64) iter.Seq2[Event, error]
}

// A Follower is a [Bus] that observes runs of other processes.
type Follower interface {
	// Follow is Subscribe for a run that has not ended, as far as the caller knows: it waits for
	// its first event rather than to end with [ErrNoLog].
	Follow(ctx context.Context, tenant string, run uuid.UUID, after int64) iter.Seq2[Event, error]
}

var (
	// ErrNoLog is the error of a subscription to a run that the bus has no log of: it has not begun,
	// ended too long ago, or belongs to another tenant.
	ErrNoLog = errors.New("event: no log of this run")
	// ErrGap is what a [*GapError] is.
	ErrGap = errors.New("event: events are gone")
	// ErrClosed is the error of a subscription to a bus that is closed.
	ErrClosed = errors.New("event: bus is closed")
)

// GapError is the error of an observer that asks for events that are gone, or was too slow for the log.
// Begin again with a snapshot and after First-1.
type GapError struct {
	First int64 // the oldest number that is kept
}

// Error implements the error interface.
func (e *GapError) Error() string {
	return fmt.Sprintf("event: events before number %d are gone", e.First)
}

// Is reports whether target is [ErrGap].
func (e *GapError) Is(target error) bool { return target == ErrGap }
