package reflex_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/reflex"
	"github.com/everstep-go/everstep/store/memory"
)

// The golden file is the drawing that the package was designed from. One edge was added to it.
func TestTheDrawingIsTheDesignsWithOneEdgeMore(t *testing.T) {
	t.Parallel()
	golden, err := os.ReadFile("testdata/reflex.mmd")
	require.NoError(t, err)
	want := strings.Split(string(golden), "\n")
	after := slices.Index(want, "  Scheme --> React")
	require.Positive(t, after)
	want = slices.Insert(want, after+1, "  Scheme -->|direct messages not opened| Done")
	require.Equal(t, strings.Join(want, "\n"), newBundle(t).engine.Mermaid())
}

// What all tests of the package took is looked at when all of them ran.
func TestMain(m *testing.M) {
	code := m.Run()
	if all := flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.skip").Value.String() == ""; all && code == 0 {
		for _, move := range coverage.Missing(theGraph()) {
			fmt.Printf("no test went from %s to %q (edge %s)\n", move.From, move.To, move.Edge)
			code = 1
		}
	}
	os.Exit(code)
}

// theGraph is the graph that all engines of the tests have.
func theGraph() *graph.Graph[reflex.State] {
	e, err := reflex.New(reflex.Config{
		Store: memory.New(nil), Channels: []reflex.Channel{newChat("c", "a")}, Agents: []reflex.Agent{newFake("a")},
	})
	if err != nil {
		panic(err)
	}
	defer e.Shutdown(context.Background())
	return e.Graph()
}
