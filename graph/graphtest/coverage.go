package graphtest

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/everstep-go/everstep/graph"
)

// Coverage counts which edges runs have taken. It is a graph.Observer: give it to the runners
// of the tests, and ask at the end.
//
// The zero value is ready for use, by any number of runners.
type Coverage struct {
	mu    sync.Mutex // guards taken
	taken map[graph.Move]int
}

var _ graph.Observer = (*Coverage)(nil)

// Observe notes the edge that a node takes.
func (c *Coverage) Observe(ctx context.Context, op graph.Operation) (context.Context, func(graph.Outcome)) {
	return ctx, func(o graph.Outcome) {
		if o.Move == nil {
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.taken == nil {
			c.taken = make(map[graph.Move]int)
		}
		c.taken[*o.Move]++
	}
}

// Taken returns how often an edge was taken.
func (c *Coverage) Taken(m graph.Move) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.taken[m]
}

// Missing returns the edges of a graph that no run has taken.
func (c *Coverage) Missing(g interface{ Moves() []graph.Move }) []graph.Move {
	var missing []graph.Move
	for _, m := range g.Moves() {
		if c.Taken(m) == 0 {
			missing = append(missing, m)
		}
	}
	return missing
}

// RequireAll fails the test for each edge of the graph that no run has taken.
func (c *Coverage) RequireAll(t testing.TB, g interface{ Moves() []graph.Move }) {
	t.Helper()
	for _, m := range c.Missing(g) {
		to := m.To
		if to == "" {
			to = "the end"
		}
		when := ""
		if m.When != "" {
			when = fmt.Sprintf(", when %q", m.When)
		}
		t.Errorf("no run went from %s to %s%s (edge %s)", m.From, to, when, m.Edge)
	}
}
