package graph

import "reflect"

// An Edge is an exit of node type From that leads to node type To. It is a field of the node:
//
//	type review struct {
//		Draft graph.Edge[review, draft] `when:"needs work"`
//		Done  graph.End[review]         `when:"good"`
//	}
//
// The field must be exported. [New] binds it to the graph's node of type To. The when tag, if
// there is one, labels the edge in drawings.
type Edge[From, To any] struct{ exit exit }

// Next takes the edge: a node returns it from Run.
//
// On an edge that no graph has bound yet it works too, so that a node is tested by calling it.
func (e Edge[From, To]) Next() Next[From] {
	if !e.exit.bound {
		return Next[From]{exit{to: reflect.TypeFor[To]()}}
	}
	return Next[From](e)
}

func (e *Edge[From, To]) ends() (from, to reflect.Type) {
	return reflect.TypeFor[From](), reflect.TypeFor[To]()
}
func (e *Edge[From, To]) bound() *exit { return &e.exit }

// An End is an exit of node type From that ends the run.
type End[From any] struct{ exit exit }

// Next ends the run: a node returns it from Run.
func (e End[From]) Next() Next[From] {
	if !e.exit.bound {
		return Next[From]{exit{end: true}}
	}
	return Next[From](e)
}

func (e *End[From]) ends() (from, to reflect.Type) { return reflect.TypeFor[From](), nil }
func (e *End[From]) bound() *exit                  { return &e.exit }

// Next is where a run goes from a node of type From. Only the edges of that node produce one,
// so an undeclared move does not compile. Two that take the same edge are equal.
type Next[From any] struct{ exit exit }

// exit is an edge as it is taken.
type exit struct {
	bound bool
	end   bool
	node  int          // index of the target in its graph, once bound
	edge  int          // index of the edge in its graph, once bound
	to    reflect.Type // target type, on an edge that is not bound
}

// declared is what New sees of an Edge or End field.
type declared interface {
	ends() (from, to reflect.Type)
	bound() *exit
}
