package state

import (
	"errors"
	"fmt"
)

// ErrLimit is the error of a patch or a document that passes one of the [Limits].
var ErrLimit = errors.New("over the limit")

// ErrTest is the cause of an [Error] whose operation is a test that did not hold.
var ErrTest = errors.New("test failed")

// Error says which operation of a patch is wrong, or does not fit the document, and why.
type Error struct {
	Index  int    // position in the patch, from 0
	Op     string // as it was given, perhaps not one that exists
	Path   string
	Reason string // for a person; does not repeat the fields above
	Err    error  // the cause, or nil
}

// Error implements the error interface.
func (e *Error) Error() string {
	return fmt.Sprintf("state: operation %d (%s %s): %s", e.Index, e.Op, e.Path, e.Reason)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
