package graph_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/graph"
)

// Most of what the contract asks of a graph without typed edges does not compile here: an edge
// of another node (Next[alpha] is no Next[beta]), a node whose Run takes another state than the
// graph's, a node that is no pointer. What is left is checked by New, or here.

func TestANodeIsTestedByCallingIt(t *testing.T) {
	t.Parallel()
	unbound := &beta{work: func(_ context.Context, d doc) (doc, error) { d.Text = "x"; return d, nil }}
	bound := &beta{}
	_, err := graph.New("chain", graph.Node("alpha", &alpha{}), graph.Node("beta", bound), graph.Node("gamma", &gamma{}))
	require.NoError(t, err)
	for name, n := range map[string]*beta{"before it is in a graph": unbound, "and in one": bound} {
		d, next, err := n.Run(t.Context(), doc{Rest: 1})
		require.NoError(t, err)
		assert.Equal(t, "b", d.Trail)
		assert.Equal(t, n.Again.Next(), next, name)
		assert.NotEqual(t, n.Gamma.Next(), next, name)
		_, next, err = n.Run(t.Context(), doc{})
		require.NoError(t, err)
		assert.Equal(t, n.Gamma.Next(), next, name)
		assert.True(t, n.Gamma.Next() == next, "they are comparable")
		assert.NotEqual(t, graph.Next[beta]{}, next, name)
	}
	end := &gamma{}
	_, next, err := end.Run(t.Context(), doc{})
	require.NoError(t, err)
	assert.Equal(t, end.Done.Next(), next)
	assert.NotEqual(t, graph.Next[gamma]{}, next)
}

func TestTwoEdgesToOneNodeAreTwo(t *testing.T) {
	t.Parallel()
	n := &fork{}
	g, err := graph.New("fork", graph.Node("fork", n), graph.Node("tip", &tip{}))
	require.NoError(t, err)
	assert.NotEqual(t, n.Left.Next(), n.Right.Next())
	assert.NotEqual(t, n.Stop.Next(), n.Halt.Next())
	assert.Equal(t, []graph.Move{
		{From: "fork", To: "tip", When: "left", Edge: "Left"},
		{From: "fork", To: "tip", Edge: "Right"},
		{From: "fork", Edge: "Stop", When: `"no" #1`},
		{From: "fork", Edge: "Halt"},
		{From: "tip", Edge: "End"},
	}, g.Moves())
	g.Moves()[0].To = "changed"
	assert.Equal(t, "tip", g.Moves()[0].To, "the caller's copy")
}

type fork struct {
	Dependency strings.Builder
	Left       graph.Edge[fork, tip] `when:"left"`
	Right      graph.Edge[fork, tip]
	Stop       graph.End[fork] `when:"\"no\" #1"`
	Halt       graph.End[fork]
	unexported int
}

func (n *fork) Run(_ context.Context, s int) (int, graph.Next[fork], error) {
	return s + n.unexported, n.Left.Next(), nil
}

type tip struct{ graph.End[tip] }

func (n *tip) Run(_ context.Context, s int) (int, graph.Next[tip], error) { return s, n.Next(), nil }

func TestAGraphKnowsItsNames(t *testing.T) {
	t.Parallel()
	g := chain(t, parts{})
	assert.Equal(t, "chain", g.Name())
	assert.Equal(t, "alpha", g.Entry())
	assert.Equal(t, []string{"alpha", "beta", "gamma"}, g.Nodes())
	g.Nodes()[0] = "changed"
	assert.Equal(t, "alpha", g.Entry())
}

func TestAFingerprintIsThatOfTheShape(t *testing.T) {
	t.Parallel()
	build := func(name string, specs ...graph.Spec[doc]) string {
		g, err := graph.New(name, specs...)
		require.NoError(t, err)
		return g.Fingerprint()
	}
	first := build("one", graph.Node("alpha", &alpha{}), graph.Node("beta", &beta{}), graph.Node("gamma", &gamma{}))
	assert.Len(t, first, 16)
	assert.Equal(t, first, build("two", graph.Node("alpha", &alpha{}), graph.Node("gamma", &gamma{work: fails(errBroken)}), graph.Node("beta", &beta{})),
		"not of the order, the work or the graph's name")
	assert.NotEqual(t, first, build("one", graph.Node("alpha", &alpha{}), graph.Node("bet", &beta{}), graph.Node("gamma", &gamma{})))
	assert.NotEqual(t, build("one", graph.Node("there", &there{}), graph.Node("back", &back{})),
		build("one", graph.Node("back", &back{}), graph.Node("there", &there{})), "but of the entry")
}

type there struct {
	Back graph.Edge[there, back]
	Done graph.End[there]
}

func (n *there) Run(_ context.Context, d doc) (doc, graph.Next[there], error) {
	return d, n.Back.Next(), nil
}

type back struct {
	There graph.Edge[back, there]
	Done  graph.End[back]
}

func (n *back) Run(_ context.Context, d doc) (doc, graph.Next[back], error) {
	return d, n.Done.Next(), nil
}

// Nodes with something wrong with them.
type (
	counting int // no struct
	hidden   struct {
		done graph.End[hidden] // not exported
		Done graph.End[hidden]
	}
	thief struct {
		Done graph.End[thief]
		Not  graph.End[back]          // another node's
		Nor  graph.Edge[alpha, thief] // another node's
	}
	wanderer struct {
		Done graph.End[wanderer]
		Off  graph.Edge[wanderer, counting] // no node of the graph
	}
	endless struct{ Again graph.Edge[endless, endless] }
	nested  struct{ inner }
	inner   struct{ Done graph.End[nested] }
)

func (n *counting) Run(_ context.Context, d doc) (doc, graph.Next[counting], error) {
	return d, graph.Next[counting]{}, nil
}
func (n *hidden) Run(_ context.Context, d doc) (doc, graph.Next[hidden], error) {
	return d, n.done.Next(), nil
}
func (n *thief) Run(_ context.Context, d doc) (doc, graph.Next[thief], error) {
	return d, n.Done.Next(), nil
}
func (n *wanderer) Run(_ context.Context, d doc) (doc, graph.Next[wanderer], error) {
	return d, n.Off.Next(), nil
}
func (n *endless) Run(_ context.Context, d doc) (doc, graph.Next[endless], error) {
	return d, n.Again.Next(), nil
}
func (n *nested) Run(_ context.Context, d doc) (doc, graph.Next[nested], error) {
	return d, n.Done.Next(), nil
}

func TestNewReportsWhatIsWrong(t *testing.T) {
	t.Parallel()
	used := &gamma{}
	_, err := graph.New("first", graph.Node("used", used))
	require.NoError(t, err)
	for name, c := range map[string]struct {
		graph string
		nodes []graph.Spec[doc]
		want  []string
	}{
		"nothing at all": {"", nil, []string{
			`graph "": has no name: runs are stored under it`,
			`graph "": has no nodes`,
		}},
		"a node without a name": {"g", []graph.Spec[doc]{graph.Node("", &gamma{})}, []string{
			`graph "g": node 0 (*graph_test.gamma) has no name: checkpoints are stored under it`,
		}},
		"two nodes of one name": {"g", []graph.Spec[doc]{graph.Node("x", &alpha{}), graph.Node("x", &beta{}), graph.Node("y", &gamma{})}, []string{
			`graph "g": nodes 0 and 1 are both named "x"`,
		}},
		"two nodes of one type": {"g", []graph.Spec[doc]{graph.Node("x", &gamma{}), graph.Node("y", &gamma{})}, []string{
			`graph "g": nodes "x" and "y" are both of type graph_test.gamma, so an edge to it is ambiguous`,
		}},
		"a nil node": {"g", []graph.Spec[doc]{graph.Node("x", (*gamma)(nil))}, []string{
			`graph "g": node "x" is nil`,
		}},
		"a zero Spec": {"g", []graph.Spec[doc]{{}}, []string{
			`graph "g": node 0 (no node) has no name: checkpoints are stored under it`,
			`graph "g": node "" is nil`,
		}},
		"a node that is no struct": {"g", []graph.Spec[doc]{graph.Node("x", new(counting))}, []string{
			`graph "g": node "x" is a graph_test.counting; it must be a struct, whose fields are its edges`,
		}},
		"an edge that is not exported": {"g", []graph.Spec[doc]{graph.Node("x", &hidden{})}, []string{
			`graph "g": node "x": edge field done must be exported`,
		}},
		"edges of other nodes": {"g", []graph.Spec[doc]{graph.Node("x", &thief{})}, []string{
			`graph "g": node "x": edge field Not leaves graph_test.back, not this node's type graph_test.thief`,
			`graph "g": node "x": edge field Nor leaves graph_test.alpha, not this node's type graph_test.thief`,
		}},
		"an edge to no node": {"g", []graph.Spec[doc]{graph.Node("x", &wanderer{})}, []string{
			`graph "g": node "x": edge Off leads to graph_test.counting, which is no node of this graph`,
		}},
		"an instance of another graph": {"g", []graph.Spec[doc]{graph.Node("x", used)}, []string{
			`graph "g": node "x": this instance is part of another graph; make one for each`,
		}},
		"a node that cannot be reached": {"g", []graph.Spec[doc]{graph.Node("x", &gamma{}), graph.Node("y", &there{}), graph.Node("z", &back{})}, []string{
			`graph "g": node "y" cannot be reached from "x"`,
			`graph "g": node "z" cannot be reached from "x"`,
		}},
		"a node that leads to no end": {"g", []graph.Spec[doc]{graph.Node("x", &endless{})}, []string{
			`graph "g": node "x" leads to no end: give it, or a node after it, a graph.End`,
		}},
		"edges of an embedded struct are not the node's": {"g", []graph.Spec[doc]{graph.Node("x", &nested{})}, []string{
			`graph "g": node "x" leads to no end: give it, or a node after it, a graph.End`,
		}},
		"everything at once": {"", []graph.Spec[doc]{
			graph.Node("", &gamma{}), graph.Node("x", (*alpha)(nil)), graph.Node("x", new(counting)), graph.Node("h", &hidden{}), graph.Node("w", &wanderer{}), graph.Node("u", used),
		}, []string{
			`graph "": has no name: runs are stored under it`,
			`graph "": node 0 (*graph_test.gamma) has no name: checkpoints are stored under it`,
			`graph "": node "x" is nil`,
			`graph "": nodes 1 and 2 are both named "x"`,
			`graph "": node "x" is a graph_test.counting; it must be a struct, whose fields are its edges`,
			`graph "": nodes "" and "u" are both of type graph_test.gamma, so an edge to it is ambiguous`,
			`graph "": node "h": edge field done must be exported`,
			`graph "": node "w": edge Off leads to graph_test.counting, which is no node of this graph`,
			`graph "": node "u": this instance is part of another graph; make one for each`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			g, err := graph.New(c.graph, c.nodes...)
			assert.Nil(t, g)
			require.Error(t, err)
			assert.Equal(t, c.want, strings.Split(err.Error(), "\n"))
			assert.PanicsWithError(t, err.Error(), func() { graph.Must(g, err) })
		})
	}
}

func TestNodesOfAGraphWithFaultsCanBeUsedAgain(t *testing.T) {
	t.Parallel()
	a, b, c := &alpha{}, &beta{}, &gamma{}
	_, err := graph.New("g", graph.Node("a", a), graph.Node("b", b))
	require.ErrorContains(t, err, "no node of this graph")
	g := graph.Must(graph.New("g", graph.Node("a", a), graph.Node("b", b), graph.Node("c", c)))
	_, d := complete(t, newRunner(t, g, nil, nil), graph.StartParams[doc]{})
	assert.Equal(t, "abc", d.Trail)
}

func TestAGraphIsDrawnAsMermaid(t *testing.T) {
	t.Parallel()
	g := graph.Must(graph.New("odd \"names\"\\\n",
		graph.Node(`say "hi" #1`, &fork{}),
		graph.Node("two\nlines\\ ]-->", &tip{}),
	))
	assert.Equal(t, `flowchart TD
  start([start]) --> n0
  n0["say #quot;hi#quot; #35;1"]
  n1["two lines\ ]-->"]
  n0 -->|"left"| n1
  n0 --> n1
  n0 -->|"#quot;no#quot; #35;1"| finish([end])
  n0 --> finish([end])
  n1 --> finish([end])
`, g.Mermaid())
	assert.Equal(t, `digraph "odd \"names\"\\\n" {
  start [shape=circle label=""]
  end [shape=doublecircle label=""]
  n0 [shape=box label="say \"hi\" #1"]
  n1 [shape=box label="two\nlines\\ ]-->"]
  start -> n0
  n0 -> n1 [label="left"]
  n0 -> n1
  n0 -> end [label="\"no\" #1"]
  n0 -> end
  n1 -> end
}
`, g.DOT())
}

func TestAGraphWithALoopIsDrawn(t *testing.T) {
	t.Parallel()
	assert.Equal(t, `flowchart TD
  start([start]) --> n0
  n0["alpha"]
  n1["beta"]
  n2["gamma"]
  n0 --> n1
  n1 -->|"there is a rest"| n1
  n1 --> n2
  n2 --> finish([end])
`, chain(t, parts{}).Mermaid())
}
