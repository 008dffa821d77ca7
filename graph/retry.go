package graph

import (
	"fmt"
	"runtime/debug"
	"time"
)

// Retry makes a node error that asks the runner to run the node again, after a while, from the
// checkpoint it started from. What its tasks did is kept. Every attempt counts as a step of the
// run, which bounds their number.
func Retry(err error, after time.Duration) error { return &retry{err: err, after: after} }

type retry struct {
	err   error
	after time.Duration
}

func (r *retry) Error() string {
	return fmt.Sprintf("graph: to be retried after %v: %v", r.after, r.err)
}
func (r *retry) Unwrap() error { return r.err }

func newPanic(v any) *PanicError { return &PanicError{Value: v, Stack: debug.Stack()} }
