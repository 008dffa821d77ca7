package graph

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// A Graph is a set of nodes over a state S and the moves between them. It is immutable and may
// be used by any number of runners and goroutines.
type Graph[S any] struct {
	name  string
	nodes []Spec[S]
	index map[string]int
	moves []Move
}

// A Move is an edge of a graph, for those who look at its shape.
type Move struct {
	From string
	To   string // empty: the run ends
	When string // the edge's label
	Edge string // the field that declares it
}

// New builds a graph from its nodes, the entry first, and binds their edges. It reports
// everything that is wrong at once.
//
// The name is data: it is stored with every run, and a run is only taken over by a process that
// has a graph of that name.
func New[S any](name string, nodes ...Spec[S]) (*Graph[S], error) {
	g := &Graph[S]{name: name, nodes: slices.Clone(nodes), index: make(map[string]int, len(nodes))}
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("graph %q: "+format, append([]any{name}, args...)...))
	}
	if name == "" {
		fault("has no name: runs are stored under it")
	}
	if len(nodes) == 0 {
		fault("has no nodes")
	}
	types := make(map[reflect.Type]int, len(nodes))
	for i, n := range nodes {
		if n.name == "" {
			fault("node %d (%s) has no name: checkpoints are stored under it", i, typeName(n))
		} else if j, ok := g.index[n.name]; ok {
			fault("nodes %d and %d are both named %q", j, i, n.name)
		} else {
			g.index[n.name] = i
		}
		if n.run == nil || n.node.IsNil() {
			fault("node %q is nil", n.name)
			continue
		}
		t := n.node.Type().Elem()
		if t.Kind() != reflect.Struct {
			fault("node %q is a %s; it must be a struct, whose fields are its edges", n.name, t)
			continue
		}
		if j, ok := types[t]; ok {
			fault("nodes %q and %q are both of type %s, so an edge to it is ambiguous", nodes[j].name, n.name, t)
			continue
		}
		types[t] = i
	}
	var bind []func()
	for i, n := range nodes {
		if n.run == nil || n.node.IsNil() || n.node.Type().Elem().Kind() != reflect.Struct {
			continue
		}
		b, errs := g.declared(i, n, types)
		bind = append(bind, b...)
		for _, err := range errs {
			fault("%w", err)
		}
	}
	if len(faults) == 0 {
		for _, err := range g.unconnected() {
			fault("%w", err)
		}
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	// Only a graph without fault binds its nodes: they can be mended and used again.
	for _, f := range bind {
		f()
	}
	return g, nil
}

// Must returns the graph, or panics with the error. For graphs that are package-level variables.
func Must[S any](g *Graph[S], err error) *Graph[S] {
	if err != nil {
		panic(err)
	}
	return g
}

// declared reads the edges off the fields of a node. It returns what binds them.
func (g *Graph[S]) declared(i int, n Spec[S], types map[reflect.Type]int) (bind []func(), faults []error) {
	v := n.node.Elem()
	for _, f := range reflect.VisibleFields(v.Type()) {
		field := v.FieldByIndex(f.Index[:1])
		if len(f.Index) > 1 {
			continue // of an embedded struct: not this node's own edge
		}
		d, ok := reflect.New(f.Type).Interface().(declared)
		if !ok {
			continue
		}
		if !f.IsExported() {
			faults = append(faults, fmt.Errorf("node %q: edge field %s must be exported", n.name, f.Name))
			continue
		}
		d = field.Addr().Interface().(declared)
		from, to := d.ends()
		if from != v.Type() {
			faults = append(faults, fmt.Errorf("node %q: edge field %s leaves %s, not this node's type %s", n.name, f.Name, from, v.Type()))
			continue
		}
		if d.bound().bound {
			faults = append(faults, fmt.Errorf("node %q: this instance is part of another graph; make one for each", n.name))
			return nil, faults
		}
		move := Move{From: n.name, When: f.Tag.Get("when"), Edge: f.Name}
		x := exit{bound: true, end: to == nil, edge: len(g.moves)}
		if to != nil {
			target, ok := types[to]
			if !ok {
				faults = append(faults, fmt.Errorf("node %q: edge %s leads to %s, which is no node of this graph", n.name, f.Name, to))
				continue
			}
			x.node, move.To = target, g.nodes[target].name
		}
		g.moves = append(g.moves, move)
		bind = append(bind, func() { *d.bound() = x })
	}
	return bind, faults
}

// unconnected reports nodes that no run can get to and nodes that no run can end from.
func (g *Graph[S]) unconnected() (faults []error) {
	reached := g.spread([]string{g.nodes[0].name}, func(m Move) (string, string) { return m.From, m.To })
	var last []string
	for _, m := range g.moves {
		if m.To == "" {
			last = append(last, m.From)
		}
	}
	ending := g.spread(last, func(m Move) (string, string) { return m.To, m.From })
	for _, n := range g.nodes {
		if !reached[n.name] {
			faults = append(faults, fmt.Errorf("node %q cannot be reached from %q", n.name, g.nodes[0].name))
		}
		if !ending[n.name] {
			faults = append(faults, fmt.Errorf("node %q leads to no end: give it, or a node after it, a graph.End", n.name))
		}
	}
	return faults
}

// spread returns the names that can be got to from some, along moves in a direction.
func (g *Graph[S]) spread(from []string, along func(Move) (string, string)) map[string]bool {
	seen := make(map[string]bool)
	for len(from) > 0 {
		name := from[0]
		from = from[1:]
		if name == "" || seen[name] {
			continue
		}
		seen[name] = true
		for _, m := range g.moves {
			if a, b := along(m); a == name {
				from = append(from, b)
			}
		}
	}
	return seen
}

// Name returns the graph's name.
func (g *Graph[S]) Name() string { return g.name }

// Entry returns the name of the node where runs begin.
func (g *Graph[S]) Entry() string { return g.nodes[0].name }

// Nodes returns the names of the nodes, the entry first.
func (g *Graph[S]) Nodes() []string {
	names := make([]string, len(g.nodes))
	for i, n := range g.nodes {
		names[i] = n.name
	}
	return names
}

// Moves returns the edges, in the order of the nodes and of their fields.
func (g *Graph[S]) Moves() []Move { return slices.Clone(g.moves) }

// Fingerprint identifies the shape of the graph: its nodes and edges, in whatever order they
// were given. Labels do not count.
func (g *Graph[S]) Fingerprint() string {
	lines := []string{"entry " + g.Entry()}
	for _, m := range g.moves {
		lines = append(lines, fmt.Sprintf("%q -> %q", m.From, m.To))
	}
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(slices.Compact(lines), "\n")))
	return hex.EncodeToString(sum[:8])
}

func typeName[S any](n Spec[S]) string {
	if !n.node.IsValid() {
		return "no node"
	}
	return n.node.Type().String()
}
