package graph

import (
	"errors"
	"fmt"

	"github.com/google/uuid"
)

// What callers branch on.
var (
	// ErrInterrupted: a node asked something and the run rests until it is answered. The
	// [*InterruptedError] that [Run.Wait] returns has the questions.
	ErrInterrupted = errors.New("graph: interrupted")
	// ErrCancelled: the run was cancelled. It is also the cause of the context that a node of
	// such a run sees.
	ErrCancelled = errors.New("graph: run cancelled")
	// ErrShutdown: the runner is being shut down. A run that it stops goes on elsewhere, or
	// after the restart.
	ErrShutdown = errors.New("graph: runner is shut down")
	// ErrGraphChanged: the run is to go on at a node that this graph does not have. It stays as
	// it is, until a process that has the node adopts it or it is cancelled.
	ErrGraphChanged = errors.New("graph: graph has no such node any more")
	// ErrOutcomeUnknown: a task that must not run twice was started by a process that died.
	ErrOutcomeUnknown = errors.New("graph: outcome of the task is unknown")
	// ErrInvalidResume: an answer that fits no question of the run. See [*ResumeError].
	ErrInvalidResume = errors.New("graph: invalid resume")
	// ErrProcessLost is the cause of the context in which a node settles what a dead process
	// left open. Such a run is failed, code "lost" or "poisoned".
	ErrProcessLost = errors.New("graph: process running it was lost")
)

// errDeleted is the cause of the end of a run whose session was deleted.
var errDeleted = errors.New("graph: session was deleted")

// The codes of a failed run that the runner itself gives (contract R35).
const (
	CodeNodeError   = "node_error"
	CodePanic       = "panic"
	CodeMaxSteps    = "max_steps"
	CodeSessionBusy = "session_busy"
	CodeBadResume   = "invalid_resume"
	CodeLost        = "lost"
	CodePoisoned    = "poisoned"
)

// NodeError is the error of a node, with the node's name.
type NodeError struct {
	Node string
	Err  error
}

func (e *NodeError) Error() string { return fmt.Sprintf("graph: node %q: %v", e.Node, e.Err) }
func (e *NodeError) Unwrap() error { return e.Err }

// PanicError is a panic of a node or a task, as the error it becomes. The stack goes to the log.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// RunError is how a run failed, as [Run.Wait] returns it.
type RunError struct {
	Run  uuid.UUID
	Code string // for programs: see contract R35
	Text string // what clients are told
	Err  error  // the cause; nil if the run failed in another process
}

func (e *RunError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("graph: run %s failed (%s): %v", e.Run, e.Code, e.Err)
	}
	return fmt.Sprintf("graph: run %s failed (%s): %s", e.Run, e.Code, e.Text)
}
func (e *RunError) Unwrap() error { return e.Err }

// Fail makes a node error that fails the run with a code of the node's own, and with a text
// that clients may read. Of other errors they only learn the code: err stays in the log.
func Fail(code, text string, err error) error {
	return &failure{code: code, text: text, err: err}
}

type failure struct {
	code, text string
	err        error
}

func (f *failure) Error() string {
	if f.err != nil {
		return f.err.Error()
	}
	return f.text
}
func (f *failure) Unwrap() error { return f.err }

// diagnose says with which code and public text an error fails a run.
func diagnose(err error) (code, text string) {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.code, f.text
	}
	node := ""
	if e, ok := errors.AsType[*NodeError](err); ok {
		node = fmt.Sprintf(" %q", e.Node)
	}
	if _, ok := errors.AsType[*PanicError](err); ok {
		return CodePanic, "node" + node + " panicked"
	}
	return CodeNodeError, "node" + node + " failed"
}
