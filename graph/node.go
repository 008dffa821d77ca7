package graph

import (
	"context"
	"reflect"
)

// A Spec is a node as [New] takes it: see [Node].
type Spec[S any] struct {
	name    string
	node    reflect.Value // pointer to the node's struct
	run     func(context.Context, S) (S, exit, error)
	options NodeOptions
}

// NodeOptions say what the runner may know of a node. The zero value is always safe.
type NodeOptions struct {
	// Repeatable: outside of its tasks the node touches nothing but the state, so that running
	// it again from the same checkpoint leads to the same. The runner then need not write the
	// node's checkpoint before the next node starts, and writes it together with a later one.
	Repeatable bool

	// Settles: the node settles what the node before it began, and the state is not fit to be
	// left before it did. It still runs when the run has reached its step limit, and before
	// a cancelled run ends; then with a context that is already cancelled, to bring the
	// state in order without doing anything more, and to [Keep] it.
	Settles bool
}

// Node makes a node of a graph from a struct whose fields are what it needs and its edges. The
// first node of a graph is its entry.
//
//	graph.Node("draft", &draft{Writer: w})
//
// Run gets the state and returns the next one and the edge to take; with an error the edge is not
// looked at: return d, graph.Next[draft]{}, err. What a state refers to, a map or a slice, is the
// run's own: a node that changes it in place and then fails has changed it. Run may be called by many
// runs at once, on the one instance. It may be called again for the same step, after a crash or
// an interrupt: what must happen once goes into a [Task].
//
// The name is data: it is stored with every checkpoint and outlives the code. Renaming a node
// strands the runs that were to go on there.
func Node[S, N any, P interface {
	*N
	Run(context.Context, S) (S, Next[N], error)
}](name string, node P, options ...*NodeOptions) Spec[S] {
	spec := Spec[S]{
		name: name,
		node: reflect.ValueOf((*N)(node)),
		run: func(ctx context.Context, s S) (S, exit, error) {
			s, next, err := node.Run(ctx, s)
			return s, next.exit, err
		},
	}
	for _, o := range options {
		if o != nil {
			spec.options = *o
		}
	}
	return spec
}
