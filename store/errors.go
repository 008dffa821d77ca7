package store

import (
	"errors"
	"fmt"

	"github.com/google/uuid"
)

// What callers branch on.
var (
	// ErrNotFound: there is no such thing in the tenant. A [*NotFoundError] says which.
	ErrNotFound = errors.New("store: not found")
	// ErrExists: the id is taken.
	ErrExists = errors.New("store: already exists")
	// ErrLost: the run belongs to another owner by now, or has ended. Write nothing more.
	ErrLost = errors.New("store: the run is no longer this owner's")
	// ErrBusy: the session has an active run. A [*BusyError] says which.
	ErrBusy = errors.New("store: session is busy")
	// ErrConflict: the write was built on a position that is no longer the last one.
	ErrConflict = errors.New("store: position has moved on")
	// ErrCancelRequested: the run is to be ended as cancelled.
	ErrCancelRequested = errors.New("store: run is to be cancelled")
	// ErrBadCursor: a page cursor that no list call returned, or one of another query.
	ErrBadCursor = errors.New("store: bad page cursor")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("store: closed")
	// ErrLocked: another process has the store open, and it is one for a single process.
	ErrLocked = errors.New("store: in use by another process")
)

// Resource names what a [NotFoundError] missed.
type Resource string

const (
	SessionResource    Resource = "session"
	RunResource        Resource = "run"
	CheckpointResource Resource = "checkpoint"
	MessageResource    Resource = "message"
)

// NotFoundError is an [ErrNotFound] that names the thing.
type NotFoundError struct {
	Resource Resource
	ID       uuid.UUID
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("store: %s %s not found", e.Resource, e.ID)
}

// Is reports whether target is [ErrNotFound].
func (e *NotFoundError) Is(target error) bool { return target == ErrNotFound }

// BusyError is an [ErrBusy] that names the session and its active run.
type BusyError struct {
	Session, Run uuid.UUID
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("store: session %s is busy with run %s", e.Session, e.Run)
}

// Is reports whether target is [ErrBusy].
func (e *BusyError) Is(target error) bool { return target == ErrBusy }
