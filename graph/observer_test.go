package graph_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/graph/graphtest"
	"github.com/everstep-go/everstep/store"
	"github.com/everstep-go/everstep/store/memory"
)

// ledger notes what an observer sees.
type ledger struct {
	mu    sync.Mutex // guards what follows
	lines []string
	ops   []graph.Operation
	open  int
	twice bool
}

type parentKey struct{}

func (l *ledger) Observe(ctx context.Context, op graph.Operation) (context.Context, func(graph.Outcome)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	parent, _ := ctx.Value(parentKey{}).(string)
	name := string(op.Kind) + " " + op.Name
	l.ops = append(l.ops, op)
	l.open++
	done := false
	return context.WithValue(ctx, parentKey{}, name), func(o graph.Outcome) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.open--
		l.twice = l.twice || done
		done = true
		line := name
		if parent != "" {
			line += " in " + parent
		}
		if o.Move != nil {
			line += " to " + o.Move.Edge
		}
		if o.Detail != nil {
			line += " with detail"
		}
		if o.Err != nil {
			line += ": " + o.Err.Error()
		}
		l.lines = append(l.lines, line)
	}
}

func TestAnObserverSeesEveryOperation(t *testing.T) {
	t.Parallel()
	l := &ledger{}
	st := memory.New(nil)
	r := newRunner(t, chain(t, parts{
		alpha: func(ctx context.Context, d doc) (doc, error) {
			_, end := graph.Observe(ctx, graph.ModelOperation, "gpt")
			end(graph.Outcome{Detail: 7})
			_, _ = graph.Task(ctx, "t1", func(context.Context) (int, error) { return 0, errBroken })
			_, err := graph.Task(ctx, "t2", func(ctx context.Context) (int, error) {
				_, end := graph.Observe(ctx, graph.ModelOperation, "inner")
				end(graph.Outcome{})
				return 1, nil
			}, &graph.TaskOptions{Name: "named"})
			return d, err
		},
		gamma: func(_ context.Context, d doc) (doc, error) {
			if d.Text == "panic" {
				panic("ouch")
			}
			return d, nil
		},
	}), st, &graph.RunnerOptions[doc]{Observer: l})
	run, _ := complete(t, r, graph.StartParams[doc]{Tenant: "acme", Input: &doc{Rest: 1}})
	assert.Equal(t, []string{
		"store Begin in run chain",
		"model gpt in node alpha with detail",
		"task t1 in node alpha: broken",
		"model inner in task named",
		"store SaveTask in run chain",
		"task named in node alpha",
		"node alpha in run chain to Beta",
		"store Commit in run chain",
		"node beta in run chain to Again",
		"store Commit in run chain",
		"node beta in run chain to Gamma",
		"store Commit in run chain",
		"node gamma in run chain to Done",
		"store Commit in run chain",
		"run chain",
	}, l.lines)
	for _, op := range l.ops {
		assert.Equal(t, graph.Operation{Kind: op.Kind, Name: op.Name, Graph: "chain", Tenant: "acme", Session: run.Session(), Run: run.ID()}, op)
	}

	t.Run("and how it ended", func(t *testing.T) {
		l.lines = nil
		_, _, err := finish(t, r, graph.StartParams[doc]{Input: &doc{Text: "panic"}})
		require.Error(t, err)
		assert.Contains(t, l.lines, "node gamma in run chain: panic: ouch")
		assert.Equal(t, "run chain: "+err.Error(), l.lines[len(l.lines)-1])
		assert.Zero(t, l.open)
		assert.False(t, l.twice)
	})
	t.Run("a store call that is repeated is one operation", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			l := &ledger{}
			f := graphtest.NewFaulty(memory.New(nil), 2, graphtest.ErrorBefore)
			complete(t, newRunner(t, chain(t, parts{}), f, &graph.RunnerOptions[doc]{Observer: l}), graph.StartParams[doc]{})
			assert.Equal(t, "store Commit in run chain: graphtest: injected error", l.lines[2])
			assert.Zero(t, l.open)
			assert.False(t, l.twice)
		})
	})
	t.Run("without one nothing is observed", func(t *testing.T) {
		ctx, end := graph.Observe(t.Context(), graph.ModelOperation, "x")
		end(graph.Outcome{})
		assert.Equal(t, t.Context(), ctx)
		complete(t, newRunner(t, chain(t, parts{beta: func(ctx context.Context, d doc) (doc, error) {
			same, end := graph.Observe(ctx, graph.ModelOperation, "x")
			end(graph.Outcome{})
			assert.Equal(t, ctx, same)
			return d, nil
		}}), nil, nil), graph.StartParams[doc]{})
	})
	t.Run("a func is one, too", func(t *testing.T) {
		runs := 0
		complete(t, newRunner(t, chain(t, parts{}), nil, &graph.RunnerOptions[doc]{Observer: graph.ObserverFunc(
			func(ctx context.Context, op graph.Operation) (context.Context, func(graph.Outcome)) {
				return ctx, func(graph.Outcome) {
					if op.Kind == graph.RunOperation {
						runs++
					}
				}
			})}), graph.StartParams[doc]{})
		assert.Equal(t, 1, runs)
	})
}

// failures is a testing.TB that notes what fails.
type failures struct {
	testing.TB
	texts []string
}

func (f *failures) Helper() {}
func (f *failures) Errorf(format string, args ...any) {
	f.texts = append(f.texts, strings.TrimSpace(errorf(format, args...)))
}

func errorf(format string, args ...any) string {
	for _, a := range args {
		format = strings.Replace(strings.Replace(format, "%q", `"%s"`, 1), "%s", a.(string), 1)
	}
	return format
}

func TestCoverageKnowsTheEdgesThatNoRunTook(t *testing.T) {
	t.Parallel()
	var c graphtest.Coverage
	g := chain(t, parts{gamma: func(_ context.Context, d doc) (doc, error) {
		if d.Text == "fail" {
			return d, errBroken
		}
		return d, nil
	}})
	assert.Equal(t, g.Moves(), c.Missing(g))
	r := newRunner(t, g, nil, &graph.RunnerOptions[doc]{Observer: &c})
	_, _, err := finish(t, r, graph.StartParams[doc]{Input: &doc{Text: "fail"}})
	require.Error(t, err)
	moves := g.Moves()
	assert.Equal(t, []graph.Move{moves[1], moves[3]}, c.Missing(g))
	f := &failures{TB: t}
	c.RequireAll(f, g)
	assert.Equal(t, []string{
		`no run went from beta to beta, when "there is a rest" (edge Again)`,
		`no run went from gamma to the end (edge Done)`,
	}, f.texts)
	complete(t, r, graph.StartParams[doc]{Input: &doc{Rest: 3}})
	assert.Empty(t, c.Missing(g))
	assert.Equal(t, []int{2, 3, 2, 1}, []int{c.Taken(moves[0]), c.Taken(moves[1]), c.Taken(moves[2]), c.Taken(moves[3])})
	c.RequireAll(t, g)
}

func TestAFaultyStoreFailsWhereItIsTold(t *testing.T) {
	t.Parallel()
	for _, fault := range graphtest.Faults() {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			st := memory.New(nil)
			f := graphtest.NewFaulty(st, 2, fault)
			session := uuid.New()
			_, err := st.CreateSession(t.Context(), tenant, session)
			require.NoError(t, err)
			begin := func(run uuid.UUID) error {
				s, err := st.Session(t.Context(), tenant, session)
				require.NoError(t, err)
				_, err = f.Begin(t.Context(), &store.Begin{
					Fence: store.Fence{Tenant: tenant, Run: run, Owner: uuid.New(), Epoch: 1}, Session: session, Graph: "g",
					From: store.From{Base: s.Base}, WriteID: uuid.New(), Status: "completed",
				})
				return err
			}
			one, two, three := uuid.New(), uuid.New(), uuid.New()
			require.NoError(t, begin(one))
			err = begin(two)
			_, happened := st.Run(t.Context(), tenant, two)
			last := begin(three)
			switch fault {
			case graphtest.ErrorBefore, graphtest.ErrorAfter:
				assert.ErrorIs(t, err, graphtest.ErrInjected)
				assert.NoError(t, last)
			case graphtest.DeathBefore, graphtest.DeathAfter:
				assert.ErrorIs(t, err, graphtest.ErrDead)
				assert.ErrorIs(t, last, graphtest.ErrDead)
			case graphtest.LeaseLost:
				assert.NoError(t, err, "there was no lease to lose yet")
			}
			died := fault == graphtest.DeathBefore || fault == graphtest.DeathAfter
			assert.Equal(t, died, f.Dead())
			after := fault == graphtest.ErrorAfter || fault == graphtest.DeathAfter || fault == graphtest.LeaseLost
			assert.Equal(t, after, happened == nil)
			want := 3
			if died {
				want = 2
			}
			assert.Equal(t, slices.Repeat([]string{"Begin"}, want), f.Calls())
		})
	}
	assert.True(t, errors.Is(graphtest.ErrDead, store.ErrClosed), "nobody tries again")
}

func TestAnObserverSeesWhatIsLostAndWhatIsLeftOver(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		var mu sync.Mutex // guards details
		var details []any
		observer := graph.ObserverFunc(func(ctx context.Context, op graph.Operation) (context.Context, func(graph.Outcome)) {
			return ctx, func(o graph.Outcome) {
				if op.Kind != graph.BacklogOperation && op.Kind != graph.RenewOperation {
					return
				}
				assert.Equal(t, graph.Operation{Kind: op.Kind, Name: "chain", Graph: "chain"}, op)
				mu.Lock()
				defer mu.Unlock()
				details = append(details, o.Detail)
			}
		})
		seen := func() []any {
			time.Sleep(lease / 3)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			out := details
			details = nil
			return out
		}
		st := memory.New(nil)
		r := newRunner(t, chain(t, parts{beta: hold}), st, &graph.RunnerOptions[doc]{Observer: observer, MaxRuns: 2})
		kept, lost := start(t, r, graph.StartParams[doc]{}), start(t, r, graph.StartParams[doc]{})
		require.Equal(t, []any{graph.Renewal{Runs: 2}}, seen())
		record, err := st.Run(t.Context(), tenant, lost.ID())
		require.NoError(t, err)
		require.NoError(t, st.Release(t.Context(), record.Fence()))
		_, err = st.RequestCancel(t.Context(), tenant, kept.ID())
		require.NoError(t, err)
		require.Equal(t, []any{graph.Renewal{Runs: 2, Lost: 1, Cancels: 1}}, seen())

		front := newRunner(t, chain(t, parts{}), st, &graph.RunnerOptions[doc]{AcceptOnly: true})
		for range 2 {
			start(t, front, graph.StartParams[doc]{})
		}
		r = newRunner(t, chain(t, parts{beta: hold}), st, &graph.RunnerOptions[doc]{Observer: observer, MaxRuns: 2})
		serve(t, r)
		since := time.Now()
		require.ElementsMatch(t, []any{graph.Renewal{Runs: 2}, store.Backlog{Running: 3, Unclaimed: 1, Since: since}}, seen(), "it has room for two")
		require.NoError(t, r.Cancel(t.Context(), tenant, lost.ID()))
		require.ElementsMatch(t, []any{graph.Renewal{Runs: 2}, store.Backlog{Running: 2}}, seen())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, r.Shutdown(ctx), context.Canceled)
	})
}
