package graph_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/store"
	"github.com/everstep-go/everstep/store/memory"
)

type doc struct {
	Text   string
	Drafts int
}

type draft struct {
	Review graph.Edge[draft, review]
}

func (n *draft) Run(ctx context.Context, d doc) (doc, graph.Next[draft], error) {
	word, err := graph.Task(ctx, "write", func(context.Context) (string, error) { return "word", nil })
	if err != nil {
		return d, graph.Next[draft]{}, err
	}
	d.Text = strings.TrimSpace(d.Text + " " + word)
	d.Drafts++
	return d, n.Review.Next(), nil
}

type review struct {
	Draft graph.Edge[review, draft] `when:"needs work"`
	Done  graph.End[review]         `when:"good"`
}

func (n *review) Run(_ context.Context, d doc) (doc, graph.Next[review], error) {
	if d.Drafts < 3 {
		return d, n.Draft.Next(), nil
	}
	return d, n.Done.Next(), nil
}

func essay(t testing.TB) *graph.Graph[doc] {
	g, err := graph.New("essay", graph.Node("draft", &draft{}), graph.Node("review", &review{}))
	require.NoError(t, err)
	return g
}

func TestSmoke(t *testing.T) {
	for _, st := range []store.Store{nil, memory.New(nil)} {
		r, err := graph.NewRunner(essay(t), st, nil)
		require.NoError(t, err)
		session := uuid.New()
		run, err := r.Start(t.Context(), graph.StartParams[doc]{Session: session, Input: &doc{Text: "a"}})
		require.NoError(t, err)
		d, err := run.Wait(t.Context())
		require.NoError(t, err)
		require.Equal(t, "a word word word", d.Text)
		var kinds []event.Kind
		for e, err := range run.Events(t.Context(), 0) {
			require.NoError(t, err)
			kinds = append(kinds, e.Data.Kind())
		}
		require.Equal(t, []event.Kind{event.KindRunStarted, event.KindRunFinished}, kinds)
		if st != nil {
			page, err := st.Checkpoints(t.Context(), &store.CheckpointQuery{Tenant: "default", Session: session})
			require.NoError(t, err)
			for _, c := range page.Items {
				t.Log(c.Seq, c.Line, c.Reason, c.Node, c.Next, c.Status, c.Document)
			}
		}
	}
	t.Log(essay(t).Mermaid())
}

func BenchmarkStep(b *testing.B) {
	r, err := graph.NewRunner(essay(b), nil, nil)
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		run, err := r.Start(b.Context(), graph.StartParams[doc]{Input: &doc{}})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := run.Wait(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
