package graph_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/graph/graphtest"
	"github.com/everstep-go/everstep/store"
	"github.com/everstep-go/everstep/store/memory"
)

// requireCancelled checks that run row, checkpoint and event say the same of a cancelled run.
func requireCancelled(t testing.TB, st store.Store, run *graph.Run[doc], node string) {
	t.Helper()
	_, err := run.Wait(t.Context())
	require.ErrorIs(t, err, graph.ErrCancelled)
	words, err := heard(t.Context(), run, 0)
	require.NoError(t, err)
	require.Equal(t, "finished cancelled", words[len(words)-1])
	if st == nil {
		return
	}
	require.Equal(t, checkpoint.Cancelled, stored(t, st, run.ID()).Status)
	line := rows(t, st, run.Session())
	require.Equal(t, "finish "+node+" cancelled", line[len(line)-1])
}

func TestACancelDuringANodePreventsTheNext(t *testing.T) {
	t.Parallel()
	for name, open := range stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				st := open()
				inside, ran := make(chan struct{}), false
				r := newRunner(t, chain(t, parts{
					beta: func(ctx context.Context, d doc) (doc, error) {
						close(inside)
						<-ctx.Done()
						assert.ErrorIs(t, context.Cause(ctx), graph.ErrCancelled)
						say(ctx, "waits for the end")
						return d, nil // it finishes what it does all the same
					},
					gamma: func(_ context.Context, d doc) (doc, error) { ran = true; return d, nil },
				}), st, nil)
				run := start(t, r, graph.StartParams[doc]{})
				<-inside
				require.NoError(t, run.Cancel(t.Context()))
				d, err := run.Wait(t.Context())
				assert.ErrorIs(t, err, graph.ErrCancelled)
				assert.Equal(t, doc{Trail: "ab"}, d, "what the node did is in the state")
				assert.False(t, ran)
				requireCancelled(t, st, run, "beta")
				requireHeard(t, run, "run_started", "waits for the end", "finished cancelled")
				if st != nil {
					assert.Equal(t, []string{"input alpha", "step alpha", "step beta", "finish beta cancelled"}, rows(t, st, run.Session()))
					assert.Equal(t, d, stateAt(t, r, run.Session(), uuid.Nil))
				}
			})
		})
	}
}

func TestACancelledNodeThatGivesUpLeavesTheStateBefore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		parts parts
		node  string // the last checkpoint's
		state doc
	}{
		"in the first node":     {parts{alpha: hold}, "alpha", doc{}},
		"in a later node":       {parts{beta: hold}, "alpha", doc{Trail: "a"}},
		"in the last node":      {parts{gamma: hold}, "beta", doc{Trail: "ab"}},
		"with another error":    {parts{beta: func(ctx context.Context, d doc) (doc, error) { <-ctx.Done(); return d, errBroken }}, "alpha", doc{Trail: "a"}},
		"with a panic":          {parts{beta: func(ctx context.Context, d doc) (doc, error) { <-ctx.Done(); panic("ouch") }}, "alpha", doc{Trail: "a"}},
		"with a question":       {parts{beta: func(ctx context.Context, d doc) (doc, error) { <-ctx.Done(); return ask("q")(ctx, d) }}, "alpha", doc{Trail: "a"}},
		"while it is retried":   {parts{beta: fails(graph.Retry(errBroken, time.Hour))}, "alpha", doc{Trail: "a"}},
		"but for what it keeps": {parts{beta: func(ctx context.Context, d doc) (doc, error) { graph.Keep(ctx, doc{Text: "kept"}); return hold(ctx, d) }}, "alpha", doc{Text: "kept"}},
		"in a task": {parts{beta: func(ctx context.Context, d doc) (doc, error) {
			return graph.Task(ctx, "t", func(ctx context.Context) (doc, error) { return hold(ctx, d) })
		}}, "alpha", doc{Trail: "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				st := memory.New(nil)
				r := newRunner(t, chain(t, c.parts), st, nil)
				run := start(t, r, graph.StartParams[doc]{})
				synctest.Wait()
				require.NoError(t, run.Cancel(t.Context()))
				d, err := run.Wait(t.Context())
				assert.Equal(t, graph.ErrCancelled, err)
				assert.Equal(t, c.state, d)
				requireCancelled(t, st, run, c.node)
				assert.Equal(t, c.state, stateAt(t, r, run.Session(), uuid.Nil))
				_, d = complete(t, newRunner(t, chain(t, parts{}), st, nil), graph.StartParams[doc]{Session: run.Session()})
				assert.Equal(t, c.state.Trail+"abc", d.Trail, "the session is usable")
			})
		})
	}
}

func TestACancelBeforeTheFirstNodePreventsIt(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		st := memory.New(nil)
		ran := false
		r := newRunner(t, chain(t, parts{alpha: func(_ context.Context, d doc) (doc, error) { ran = true; return d, nil }}), &cancelling{Store: st, at: "Begin"}, nil)
		run := start(t, r, graph.StartParams[doc]{})
		_, err := run.Wait(t.Context())
		assert.ErrorIs(t, err, graph.ErrCancelled)
		_ = ran // the request came by the store, which the runner asks at its next heartbeat or end
		assert.Equal(t, checkpoint.Cancelled, stored(t, st, run.ID()).Status)
	})
}

// cancelling is a store in which a run is cancelled by another process right after a call, or,
// for the last commit, right before.
type cancelling struct {
	*memory.Store
	at string
}

func (c *cancelling) Begin(ctx context.Context, b *store.Begin) (*store.Begun, error) {
	out, err := c.Store.Begin(ctx, b)
	if err == nil && c.at == "Begin" {
		_, err = c.Store.RequestCancel(ctx, b.Tenant, b.Run)
	}
	return out, err
}

func (c *cancelling) Commit(ctx context.Context, m *store.Commit) (*store.Committed, error) {
	if c.at == "finish" && m.Status.Ended() {
		if _, err := c.Store.RequestCancel(ctx, m.Tenant, m.Run); err != nil {
			return nil, err
		}
	}
	return c.Store.Commit(ctx, m)
}

func TestACancelThatCameBeforeTheLastCommitWins(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		parts parts
		want  []string
		state doc
	}{
		"over the completion": {parts{}, []string{"input alpha", "step alpha", "step beta", "step gamma", "finish gamma cancelled"}, doc{Trail: "abc"}},
		"over a failure":      {parts{beta: fails(errBroken)}, []string{"input alpha", "step alpha", "finish alpha cancelled"}, doc{Trail: "a"}},
		"over a question":     {parts{beta: ask("q")}, []string{"input alpha", "step alpha", "finish alpha cancelled"}, doc{Trail: "a"}},
		"over a failure that kept something": {parts{beta: func(ctx context.Context, d doc) (doc, error) {
			graph.Keep(ctx, doc{Text: "half"})
			return d, errBroken
		}}, []string{"input alpha", "step alpha", "finish alpha cancelled"}, doc{Trail: "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := memory.New(nil)
			r := newRunner(t, chain(t, c.parts), &cancelling{Store: st, at: "finish"}, nil)
			run, d, err := finish(t, r, graph.StartParams[doc]{})
			assert.Equal(t, graph.ErrCancelled, err)
			assert.Equal(t, c.want, rows(t, st, run.Session()))
			assert.Equal(t, c.state, d)
			assert.Equal(t, c.state, stateAt(t, r, run.Session(), uuid.Nil))
			requireHeard(t, run, "run_started", "finished cancelled")
			row := stored(t, st, run.ID())
			assert.Equal(t, checkpoint.Cancelled, row.Status)
			assert.Empty(t, row.ErrorCode)
			_, d = complete(t, newRunner(t, chain(t, parts{}), st, nil), graph.StartParams[doc]{Session: run.Session()})
			assert.Equal(t, c.state.Trail+"abc", d.Trail)
		})
	}
}

func TestACancelAfterTheEndDoesNothing(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]parts{"completed": {}, "interrupted": {beta: ask("q")}, "failed": {beta: fails(errBroken)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for store, open := range stores() {
				st := open()
				r := newRunner(t, chain(t, p), st, nil)
				run, d, err := finish(t, r, graph.StartParams[doc]{})
				require.NoError(t, run.Cancel(t.Context()), store)
				again, after := run.Wait(t.Context())
				assert.Equal(t, d, again)
				assert.Equal(t, err, after)
				if st == nil {
					continue
				}
				require.NoError(t, r.Cancel(t.Context(), "", run.ID()))
				row := stored(t, st, run.ID())
				assert.Equal(t, name, string(row.Status))
				assert.False(t, row.CancelRequested)
				if name == "interrupted" {
					_, _, err := finish(t, r, graph.StartParams[doc]{Session: run.Session(), Resume: json.RawMessage(`"yes"`)})
					assert.NoError(t, err, "it still can be answered")
				}
			}
		})
	}
	t.Run("a run that never was is not found", func(t *testing.T) {
		t.Parallel()
		st := memory.New(nil)
		r := newRunner(t, chain(t, parts{}), st, nil)
		assert.ErrorIs(t, r.Cancel(t.Context(), "", uuid.New()), store.ErrNotFound)
		run, _ := complete(t, r, graph.StartParams[doc]{})
		assert.ErrorIs(t, r.Cancel(t.Context(), "other", run.ID()), store.ErrNotFound, "nor is one of another tenant")
	})
}

func TestARunCanBeCancelledFromAnotherRunner(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		st := memory.New(nil)
		g := chain(t, parts{beta: hold})
		here, there := newRunner(t, g, st, nil), newRunner(t, g, st, nil)
		run := start(t, here, graph.StartParams[doc]{})
		time.Sleep(time.Minute)
		elsewhere, err := there.Attach(t.Context(), "", run.ID())
		require.NoError(t, err)
		began := time.Now()
		require.NoError(t, elsewhere.Cancel(t.Context()))
		assert.Zero(t, time.Since(began), "it is certain at once")
		_, err = run.Wait(t.Context())
		assert.ErrorIs(t, err, graph.ErrCancelled)
		assert.LessOrEqual(t, time.Since(began), 5*time.Second, "the heartbeat brings it")
		d, err := elsewhere.Wait(t.Context())
		assert.ErrorIs(t, err, graph.ErrCancelled)
		assert.Equal(t, doc{Trail: "a"}, d)
		requireCancelled(t, st, run, "alpha")
	})
}

func TestACancelOfARunWhoseProcessDiedIsCompletedElsewhere(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		st := memory.New(nil)
		f := graphtest.NewFaulty(st, 0, "")
		run := start(t, newRunner(t, chain(t, parts{beta: hold}), f, nil), graph.StartParams[doc]{})
		f.Kill()
		there := newRunner(t, chain(t, parts{beta: hold}), st, nil)
		require.NoError(t, there.Cancel(t.Context(), "", run.ID()))
		serve(t, there)
		elsewhere, err := there.Attach(t.Context(), "", run.ID())
		require.NoError(t, err)
		requireCancelled(t, st, elsewhere, "alpha")
	})
}

func TestANodeThatSettlesDoesSoBeforeACancelledRunEnds(t *testing.T) {
	t.Parallel()
	settles := map[string]*graph.NodeOptions{"beta": {Settles: true}}
	for name, c := range map[string]struct {
		parts parts
		state doc
		calls int
	}{
		"with the state it returns": {parts{
			alpha: func(ctx context.Context, d doc) (doc, error) { <-ctx.Done(); return d, nil },
			beta: func(ctx context.Context, d doc) (doc, error) {
				d.Text = "settled, " + context.Cause(ctx).Error()
				return d, nil
			}}, doc{Trail: "ab", Text: "settled, graph: run cancelled"}, 1},
		"with the state it keeps": {parts{
			alpha: func(ctx context.Context, d doc) (doc, error) { <-ctx.Done(); return d, nil },
			beta: func(ctx context.Context, d doc) (doc, error) {
				graph.Keep(ctx, doc{Text: "kept"})
				return d, context.Cause(ctx)
			}}, doc{Text: "kept"}, 1},
		"unless it fails": {parts{
			alpha: func(ctx context.Context, d doc) (doc, error) { <-ctx.Done(); return d, nil },
			beta:  fails(errBroken)}, doc{Trail: "a"}, 1},
		"once, if it was running": {parts{
			beta: func(ctx context.Context, d doc) (doc, error) {
				<-ctx.Done()
				graph.Keep(ctx, doc{Text: "kept"})
				return d, context.Cause(ctx)
			}}, doc{Text: "kept"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				st := memory.New(nil)
				p, calls := c.parts, 0
				beta := p.beta
				p.options = settles
				p.beta = func(ctx context.Context, d doc) (doc, error) { calls++; return beta(ctx, d) }
				r := newRunner(t, chain(t, p), st, nil)
				run := start(t, r, graph.StartParams[doc]{})
				synctest.Wait()
				require.NoError(t, run.Cancel(t.Context()))
				d, err := run.Wait(t.Context())
				assert.ErrorIs(t, err, graph.ErrCancelled)
				assert.Equal(t, c.state, d)
				assert.Equal(t, c.calls, calls)
				requireCancelled(t, st, run, "alpha")
				assert.Equal(t, c.state, stateAt(t, r, run.Session(), uuid.Nil))
			})
		})
	}
	t.Run("also when the cancel wins over its failure", func(t *testing.T) {
		t.Parallel()
		var causes []error
		r := newRunner(t, chain(t, parts{options: settles, beta: func(ctx context.Context, d doc) (doc, error) {
			causes = append(causes, context.Cause(ctx))
			graph.Keep(ctx, doc{Text: "settled"})
			return d, errBroken
		}}), &cancelling{Store: memory.New(nil), at: "finish"}, nil)
		_, d, err := finish(t, r, graph.StartParams[doc]{})
		assert.ErrorIs(t, err, graph.ErrCancelled)
		assert.Equal(t, doc{Text: "settled"}, d)
		assert.Equal(t, []error{nil, graph.ErrCancelled}, causes)
	})
}

func TestAPanicWhileSettlingEndsTheRunAllTheSame(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		st := memory.New(nil)
		r := newRunner(t, chain(t, parts{
			alpha:   func(ctx context.Context, d doc) (doc, error) { <-ctx.Done(); return d, nil },
			beta:    func(context.Context, doc) (doc, error) { panic("ouch") },
			options: map[string]*graph.NodeOptions{"beta": {Settles: true}},
		}), st, nil)
		run := start(t, r, graph.StartParams[doc]{})
		require.NoError(t, run.Cancel(t.Context()))
		requireCancelled(t, st, run, "alpha")
	})
}

func TestADeletedSessionEndsItsRuns(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		elsewhere bool // deleted by another runner
		waiting   bool // the run waits for the session
		deaf      bool // its node does not look at its context
	}{
		"that run here":                        {},
		"that run here and do not listen":      {deaf: true},
		"that run elsewhere":                   {elsewhere: true},
		"that run elsewhere and do not listen": {elsewhere: true, deaf: true},
		"that wait here":                       {waiting: true},
		"that wait elsewhere":                  {elsewhere: true, waiting: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				st := memory.New(nil)
				work := hold
				if c.deaf {
					work = func(ctx context.Context, d doc) (doc, error) {
						time.Sleep(time.Minute)
						say(ctx, "late")
						return d, nil
					}
				}
				g := chain(t, parts{beta: work})
				here := newRunner(t, g, st, nil)
				by := here
				if c.elsewhere {
					by = newRunner(t, g, st, nil)
				}
				run := start(t, here, graph.StartParams[doc]{})
				first := run
				if c.waiting {
					run = start(t, here, graph.StartParams[doc]{Session: run.Session(), OnBusy: graph.Wait})
				}
				l := listen(t, run, 0)
				time.Sleep(time.Second)
				require.NoError(t, by.DeleteSession(t.Context(), "", run.Session()))
				_, err := run.Wait(t.Context())
				assert.Equal(t, graph.ErrCancelled, err)
				assert.Equal(t, []string{"run_started", "finished cancelled"}, l.heard())
				done, err := l.ended()
				assert.True(t, done)
				assert.NoError(t, err)
				_, _ = first.Wait(t.Context())
				_, err = st.Session(t.Context(), tenant, run.Session())
				assert.ErrorIs(t, err, store.ErrNotFound, "nothing made it again")
				_, d := complete(t, newRunner(t, chain(t, parts{}), st, nil), graph.StartParams[doc]{Session: run.Session()})
				assert.Equal(t, "abc", d.Trail)
			})
		})
	}
	t.Run("but not those of others", func(t *testing.T) {
		t.Parallel()
		inBubble(t, func(t *testing.T) {
			st := memory.New(nil)
			r := newRunner(t, chain(t, parts{beta: hold}), st, nil)
			session := uuid.New()
			mine := start(t, r, graph.StartParams[doc]{Session: session})
			theirs := start(t, r, graph.StartParams[doc]{Session: session, Tenant: "other"})
			require.NoError(t, r.DeleteSession(t.Context(), "", session))
			_, err := mine.Wait(t.Context())
			assert.ErrorIs(t, err, graph.ErrCancelled)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err = theirs.Wait(ctx)
			assert.True(t, errors.Is(err, context.DeadlineExceeded))
			require.NoError(t, theirs.Cancel(t.Context()))
			assert.ErrorIs(t, r.DeleteSession(t.Context(), "", session), store.ErrNotFound)
		})
	})
}
