package graphtest_test

import (
	"context"
	"fmt"

	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/graph/graphtest"
)

type ask struct {
	Yes graph.End[ask] `when:"yes"`
	No  graph.End[ask] `when:"no"`
}

func (n *ask) Run(_ context.Context, yes bool) (bool, graph.Next[ask], error) {
	if yes {
		return yes, n.Yes.Next(), nil
	}
	return yes, n.No.Next(), nil
}

// The edges that no test has taken are found by an observer of all runs.
func ExampleCoverage() {
	var coverage graphtest.Coverage
	g := graph.Must(graph.New("ask", graph.Node("ask", &ask{})))
	runner, err := graph.NewRunner(g, nil, &graph.RunnerOptions[bool]{Observer: &coverage})
	if err != nil {
		fmt.Println(err)
		return
	}
	yes := true
	run, err := runner.Start(context.Background(), graph.StartParams[bool]{Input: &yes})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, _ = run.Wait(context.Background())
	for _, m := range coverage.Missing(g) {
		fmt.Printf("no run took %s of %s (%s)\n", m.Edge, m.From, m.When)
	}
	// Output: no run took No of ask (no)
}
