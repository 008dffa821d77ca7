package graph_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/graph/graphtest"
	"github.com/everstep-go/everstep/store"
	"github.com/everstep-go/everstep/store/memory"
)

const tenant = graph.DefaultTenant

// doc is the state of the graphs of these tests.
type doc struct {
	Trail string // the nodes that ran, one letter each
	Text  string
	Rest  int // how often beta runs again
}

// work is what a node of these tests does. A nil one does nothing.
type work func(context.Context, doc) (doc, error)

func (w work) do(ctx context.Context, d doc, letter string) (doc, error) {
	if w != nil {
		var err error
		if d, err = w(ctx, d); err != nil {
			return d, err
		}
	}
	d.Trail += letter
	return d, nil
}

// alpha, beta and gamma make up the graph of most tests: a → b → c, with b as often as d.Rest says.
type (
	alpha struct {
		work
		Beta graph.Edge[alpha, beta]
	}
	beta struct {
		work
		Again graph.Edge[beta, beta] `when:"there is a rest"`
		Gamma graph.Edge[beta, gamma]
	}
	gamma struct {
		work
		Done graph.End[gamma]
	}
)

func (n *alpha) Run(ctx context.Context, d doc) (doc, graph.Next[alpha], error) {
	d, err := n.do(ctx, d, "a")
	return d, n.Beta.Next(), err
}

func (n *beta) Run(ctx context.Context, d doc) (doc, graph.Next[beta], error) {
	d, err := n.do(ctx, d, "b")
	if d.Rest > 0 {
		d.Rest--
		return d, n.Again.Next(), err
	}
	return d, n.Gamma.Next(), err
}

func (n *gamma) Run(ctx context.Context, d doc) (doc, graph.Next[gamma], error) {
	d, err := n.do(ctx, d, "c")
	return d, n.Done.Next(), err
}

// parts say what the nodes of a chain do, and how the runner may treat them.
type parts struct {
	alpha, beta, gamma work
	options            map[string]*graph.NodeOptions
}

func chain(t testing.TB, p parts) *graph.Graph[doc] {
	t.Helper()
	g, err := graph.New("chain",
		graph.Node("alpha", &alpha{work: p.alpha}, p.options["alpha"]),
		graph.Node("beta", &beta{work: p.beta}, p.options["beta"]),
		graph.Node("gamma", &gamma{work: p.gamma}, p.options["gamma"]),
	)
	require.NoError(t, err)
	return g
}

// newRunner returns a runner that a test ends by itself.
func newRunner(t testing.TB, g *graph.Graph[doc], st store.Store, o *graph.RunnerOptions[doc]) *graph.Runner[doc] {
	t.Helper()
	var options graph.RunnerOptions[doc]
	if o != nil {
		options = *o
	}
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	r, err := graph.NewRunner(g, st, &options)
	require.NoError(t, err)
	return r
}

// inBubble runs a test with a clock of its own. What the test leaves running has an hour of that
// clock to end.
func inBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Hour) })
		test(t)
	})
}

func serve(t testing.TB, r *graph.Runner[doc]) {
	t.Helper()
	go r.Serve(t.Context())
}

func start(t testing.TB, r *graph.Runner[doc], p graph.StartParams[doc]) *graph.Run[doc] {
	t.Helper()
	run, err := r.Start(t.Context(), p)
	require.NoError(t, err)
	return run
}

// finish starts a run and waits for its end.
func finish(t testing.TB, r *graph.Runner[doc], p graph.StartParams[doc]) (*graph.Run[doc], doc, error) {
	t.Helper()
	run := start(t, r, p)
	d, err := run.Wait(t.Context())
	return run, d, err
}

// complete is finish for runs that complete.
func complete(t testing.TB, r *graph.Runner[doc], p graph.StartParams[doc]) (*graph.Run[doc], doc) {
	t.Helper()
	run, d, err := finish(t, r, p)
	require.NoError(t, err)
	return run, d
}

// checkpoints returns a session's checkpoints, oldest first.
func checkpoints(t testing.TB, st store.Store, session uuid.UUID) []checkpoint.Checkpoint {
	t.Helper()
	page, err := st.Checkpoints(t.Context(), &store.CheckpointQuery{Tenant: tenant, Session: session})
	require.NoError(t, err)
	require.Empty(t, page.Next)
	out := make([]checkpoint.Checkpoint, len(page.Items))
	for i, c := range page.Items {
		out[len(out)-1-i] = c
	}
	return out
}

// rows prints a session's checkpoints as "reason node status", oldest first.
func rows(t testing.TB, st store.Store, session uuid.UUID) []string {
	t.Helper()
	var out []string
	for _, c := range checkpoints(t, st, session) {
		row := string(c.Reason) + " " + c.Node
		if c.Status != checkpoint.Running {
			row += " " + string(c.Status)
		}
		out = append(out, row)
	}
	return out
}

// stored returns the run as the store has it.
func stored(t testing.TB, st store.Store, id uuid.UUID) *store.Run {
	t.Helper()
	run, err := st.Run(t.Context(), tenant, id)
	require.NoError(t, err)
	return run
}

// stateAt returns the state that a plain run of the session would go on from.
func stateAt(t testing.TB, r *graph.Runner[doc], session, id uuid.UUID) doc {
	t.Helper()
	_, d, err := r.At(t.Context(), tenant, session, id)
	require.NoError(t, err)
	return d
}

// say emits a text; heard returns the texts and the kinds of the other events.
func say(ctx context.Context, text string) {
	graph.Emit(ctx, event.TextMessageContent{Delta: text})
}

func words(e event.Event) string {
	switch d := e.Data.(type) {
	case event.TextMessageContent:
		return d.Delta
	case event.RunFinished:
		return "finished " + d.Status
	case event.RunError:
		return "error " + d.Code
	case event.StateSnapshot:
		return "snapshot " + string(d.State)
	}
	return string(e.Data.Kind())
}

// heard returns what an observer of the run hears after a number, and how it ends.
func heard(ctx context.Context, run *graph.Run[doc], after int64) ([]string, error) {
	var out []string
	for e, err := range run.Events(ctx, after) {
		if err != nil {
			return out, err
		}
		out = append(out, words(e))
	}
	return out, nil
}

// requireHeard is heard of a run whose events end well.
func requireHeard(t testing.TB, run *graph.Run[doc], want ...string) {
	t.Helper()
	got, err := heard(t.Context(), run, 0)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// hold is the work of a node that waits until its run is stopped.
func hold(ctx context.Context, d doc) (doc, error) {
	<-ctx.Done()
	return d, context.Cause(ctx)
}

// fails returns work that fails.
func fails(err error) work {
	return func(_ context.Context, d doc) (doc, error) { return d, err }
}

var errBroken = errors.New("broken")

// writes returns the calls of a store without those that only read.
func writes(f *graphtest.Faulty) []string {
	var out []string
	for _, call := range f.Calls() {
		switch call {
		case "Load", "Session", "Run", "Checkpoint":
		default:
			out = append(out, call)
		}
	}
	return out
}

// stores are those that a claim must hold on, by name: nothing kept, and everything.
func stores() map[string]func() store.Store {
	return map[string]func() store.Store{
		"nothing kept": func() store.Store { return nil },
		"memory":       func() store.Store { return memory.New(nil) },
	}
}
