package graph_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/graph"
)

// spin goes round until it has counted down.
type spin struct {
	Again graph.Edge[spin, spin]
	Done  graph.End[spin]
}

func (n *spin) Run(_ context.Context, left int) (int, graph.Next[spin], error) {
	if left == 0 {
		return 0, n.Done.Next(), nil
	}
	return left - 1, n.Again.Next(), nil
}

// One iteration is one step of a graph without a store.
func BenchmarkStepInMemory(b *testing.B) {
	g, err := graph.New("spin", graph.Node("spin", &spin{}))
	require.NoError(b, err)
	r, err := graph.NewRunner(g, nil, &graph.RunnerOptions[int]{MaxSteps: b.N + 10})
	require.NoError(b, err)
	b.ReportAllocs()
	left := b.N
	b.ResetTimer()
	run, err := r.Start(b.Context(), graph.StartParams[int]{Input: &left})
	require.NoError(b, err)
	_, err = run.Wait(b.Context())
	require.NoError(b, err)
}
