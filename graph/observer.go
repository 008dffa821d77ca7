package graph

import (
	"context"

	"github.com/google/uuid"
)

// An Observer sees what a runner does: the one seam for tracing and metrics. It is called when
// an operation starts, by the goroutine that runs it, and returns the context that the
// operation runs in and a func that is called once when it ends. Both must not block.
type Observer interface {
	Observe(ctx context.Context, op Operation) (context.Context, func(Outcome))
}

// ObserverFunc is a func as an [Observer].
type ObserverFunc func(ctx context.Context, op Operation) (context.Context, func(Outcome))

// Observe calls f.
func (f ObserverFunc) Observe(ctx context.Context, op Operation) (context.Context, func(Outcome)) {
	return f(ctx, op)
}

// OperationKind is what kind of thing happens.
type OperationKind string

const (
	RunOperation   OperationKind = "run"   // Name: the graph
	NodeOperation  OperationKind = "node"  // Name: the node
	TaskOperation  OperationKind = "task"  // Name: the task's name or key
	ModelOperation OperationKind = "model" // Name: the model, if known
	StoreOperation OperationKind = "store" // Name: the method

	// RenewOperation is a sign of life for the runs of this process; BacklogOperation counts, with
	// every heartbeat of [Runner.Serve], the runs of all processes. Both are of no run and no
	// session. Name: the graph.
	RenewOperation   OperationKind = "renew"
	BacklogOperation OperationKind = "backlog"
)

// Operation is something that starts.
type Operation struct {
	Kind    OperationKind
	Name    string
	Graph   string
	Tenant  string
	Session uuid.UUID
	Run     uuid.UUID
}

// Outcome is how an operation ended.
type Outcome struct {
	Err error
	// Move is the edge a node took, nil for other operations and for nodes that took none.
	Move *Move
	// Detail is what the operation itself reports: a model call its message.Usage, a
	// RenewOperation a Renewal, a BacklogOperation a store.Backlog. Nil if there is nothing.
	Detail any
}

// Renewal is the outcome of a [RenewOperation].
type Renewal struct {
	Runs    int // that this process executes
	Lost    int // of them, those that are others' by now
	Cancels int // of them, those that are to be cancelled
}

// Observe reports an operation of a node's own to the runner's [Observer]. Outside a run, and
// without an observer, it does nothing.
func Observe(ctx context.Context, kind OperationKind, name string) (context.Context, func(Outcome)) {
	if sc := scopeOf(ctx); sc != nil && sc.claim.observer != nil {
		return sc.claim.observe(ctx, kind, name)
	}
	return ctx, func(Outcome) {}
}
