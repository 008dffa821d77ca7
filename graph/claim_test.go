package graph_test

import (
	"context"
	"fmt"
	"sync"
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

// task is the work of a node that has one task.
func task(key string) work {
	return func(ctx context.Context, d doc) (doc, error) {
		text, err := graph.Task(ctx, key, func(context.Context) (string, error) { return key, nil })
		d.Text += text
		return d, err
	}
}

func TestOnlyWhatMustBeDurableIsWrittenOnItsOwn(t *testing.T) {
	t.Parallel()
	repeatable := &graph.NodeOptions{Repeatable: true}
	for _, c := range []struct {
		name  string
		parts parts
		rest  int
		calls []string
	}{
		{"every node may do something outside", parts{}, 0,
			[]string{"Begin", "Commit", "Commit", "Commit"}},
		{"no node does anything outside", parts{options: map[string]*graph.NodeOptions{"alpha": repeatable, "beta": repeatable, "gamma": repeatable}}, 5,
			[]string{"Begin"}},
		{"the first node only routes", parts{options: map[string]*graph.NodeOptions{"alpha": repeatable}}, 0,
			[]string{"Begin", "Commit", "Commit"}},
		{"the node in the middle only routes", parts{options: map[string]*graph.NodeOptions{"beta": repeatable}}, 5,
			[]string{"Begin", "Commit", "Commit"}},
		{"the last node only routes", parts{options: map[string]*graph.NodeOptions{"gamma": repeatable}}, 0,
			[]string{"Begin", "Commit", "Commit"}},
		{"a task is kept when it is done", parts{alpha: task("t")}, 0,
			[]string{"Begin", "SaveTask", "Commit", "Commit", "Commit"}},
		{"a task needs its checkpoint, also in a node that only routes", parts{beta: task("t"), options: map[string]*graph.NodeOptions{"beta": repeatable}}, 1,
			[]string{"Begin", "Commit", "SaveTask", "Commit", "SaveTask", "Commit"}},
		{"a task in the first node, which only routes", parts{alpha: task("t"), options: map[string]*graph.NodeOptions{"alpha": repeatable, "beta": repeatable, "gamma": repeatable}}, 0,
			[]string{"Begin", "SaveTask", "Commit"}},
		{"a node that fails", parts{beta: fails(errBroken)}, 0,
			[]string{"Begin", "Commit", "Commit"}},
		{"a node that asks", parts{alpha: ask("q")}, 0,
			[]string{"Begin", "Commit"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := graphtest.NewFaulty(memory.New(nil), 0, "")
			r := newRunner(t, chain(t, c.parts), f, nil)
			_, _, err := finish(t, r, graph.StartParams[doc]{Input: &doc{Rest: c.rest}})
			if err != nil {
				require.False(t, assert.ObjectsAreEqual(store.ErrLost, err))
			}
			assert.Equal(t, c.calls, writes(f))
		})
	}
}

func TestStepsThatAreWrittenTogetherAreStillCheckpointsEach(t *testing.T) {
	t.Parallel()
	repeatable := &graph.NodeOptions{Repeatable: true}
	st := memory.New(nil)
	r := newRunner(t, chain(t, parts{options: map[string]*graph.NodeOptions{"alpha": repeatable, "beta": repeatable, "gamma": repeatable}}), st, nil)
	run, _ := complete(t, r, graph.StartParams[doc]{})
	assert.Equal(t, []string{"input alpha", "step alpha", "step beta", "step gamma", "finish gamma completed"}, rows(t, st, run.Session()))
	for i, trail := range []string{"", "a", "ab", "abc", "abc"} {
		assert.Equal(t, trail, stateAt(t, r, run.Session(), checkpoints(t, st, run.Session())[i].ID).Trail)
	}
}

// watched is a store that tells what is written when, and may refuse it.
type watched struct {
	*memory.Store
	mu     sync.Mutex // guards what follows
	refuse func(method string) error
	writes int
}

func (w *watched) write(method string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuse != nil {
		if err := w.refuse(method); err != nil {
			return err
		}
	}
	w.writes++
	return nil
}

func (w *watched) setRefuse(refuse func(method string) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuse = refuse
}

func (w *watched) Begin(ctx context.Context, b *store.Begin) (*store.Begun, error) {
	if err := w.write("Begin"); err != nil {
		return nil, err
	}
	return w.Store.Begin(ctx, b)
}

func (w *watched) Commit(ctx context.Context, c *store.Commit) (*store.Committed, error) {
	if err := w.write("Commit"); err != nil {
		return nil, err
	}
	return w.Store.Commit(ctx, c)
}

func (w *watched) SaveTask(ctx context.Context, s *store.SaveTask) error {
	if err := w.write("SaveTask"); err != nil {
		return err
	}
	return w.Store.SaveTask(ctx, s)
}

func (w *watched) Renew(ctx context.Context, n *store.Renew) (*store.Renewed, error) {
	if err := w.write("Renew"); err != nil {
		return nil, err
	}
	return w.Store.Renew(ctx, n)
}

// listen collects what observers of a run hear, until it or the test ends.
type listener struct {
	mu    sync.Mutex // guards what follows
	words []string
	err   error
	done  bool
}

func listen(t testing.TB, run *graph.Run[doc], after int64) *listener {
	t.Helper()
	l := &listener{}
	go func() {
		for e, err := range run.Events(t.Context(), after) {
			l.mu.Lock()
			if err != nil {
				l.err = err
			} else {
				l.words = append(l.words, words(e))
			}
			l.mu.Unlock()
		}
		l.mu.Lock()
		l.done = true
		l.mu.Unlock()
	}()
	return l
}

func (l *listener) heard() []string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.words...)
}

func (l *listener) ended() (bool, error) {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.done, l.err
}

func TestEventsWaitForTheCommitThatMakesThemTrue(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		repeatable := &graph.NodeOptions{Repeatable: true}
		gate := make(chan struct{})
		step := func(before, after string) work {
			return func(ctx context.Context, d doc) (doc, error) {
				say(ctx, before)
				<-gate
				say(ctx, after)
				<-gate
				return d, nil
			}
		}
		r := newRunner(t, chain(t, parts{
			alpha: step("a live", "a live too"),
			beta: func(ctx context.Context, d doc) (doc, error) {
				say(ctx, "b held")
				<-gate
				if _, err := task("t")(ctx, d); err != nil {
					return d, err
				}
				say(ctx, "b live")
				<-gate
				return d, nil
			},
			gamma:   step("c live", "c live too"),
			options: map[string]*graph.NodeOptions{"beta": repeatable},
		}), memory.New(nil), nil)
		l := listen(t, start(t, r, graph.StartParams[doc]{}), 0)
		want := []string{"run_started", "a live"}
		assert.Equal(t, want, l.heard(), "what a node says of itself is live")
		gate <- struct{}{}
		want = append(want, "a live too")
		assert.Equal(t, want, l.heard())
		gate <- struct{}{}
		assert.Equal(t, want, l.heard(), "the step of alpha is not written yet, and beta builds on it")
		gate <- struct{}{}
		want = append(want, "b held", "b live")
		assert.Equal(t, want, l.heard(), "the task wrote it")
		gate <- struct{}{}
		want = append(want, "c live")
		assert.Equal(t, want, l.heard(), "of a repeatable step nothing has to wait")
		gate <- struct{}{}
		gate <- struct{}{}
		assert.Equal(t, append(want, "c live too", "finished completed"), l.heard())
	})
}

func TestNothingIsHeardOfARunThatIsNotRecorded(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		w := &watched{Store: memory.New(nil)}
		w.setRefuse(func(method string) error { return store.ErrClosed })
		id := uuid.New()
		r := newRunner(t, chain(t, parts{
			alpha:   func(ctx context.Context, d doc) (doc, error) { say(ctx, "never"); return d, nil },
			options: map[string]*graph.NodeOptions{"alpha": {Repeatable: true}},
		}), w, nil)
		_, err := r.Start(t.Context(), graph.StartParams[doc]{Run: id})
		require.ErrorIs(t, err, store.ErrClosed)
		_, err = r.Attach(t.Context(), "", id)
		assert.ErrorIs(t, err, store.ErrNotFound)

		w.setRefuse(nil)
		run, _ := complete(t, r, graph.StartParams[doc]{Run: id})
		requireHeard(t, run, "run_started", "never", "finished completed")
	})
}

func TestNothingIsHeardAfterAFailedCommit(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		w := &watched{Store: memory.New(nil)}
		commits := 0
		w.setRefuse(func(method string) error {
			if method == "Commit" {
				if commits++; commits > 1 {
					return store.ErrClosed
				}
			}
			return nil
		})
		ran := false
		r := newRunner(t, chain(t, parts{
			beta: func(ctx context.Context, d doc) (doc, error) { say(ctx, "live"); return d, nil },
			gamma: func(ctx context.Context, d doc) (doc, error) {
				ran = true
				return d, nil
			},
		}), w, nil)
		run := start(t, r, graph.StartParams[doc]{})
		d, err := run.Wait(t.Context())
		assert.ErrorIs(t, err, store.ErrClosed)
		assert.Equal(t, "ab", d.Trail)
		assert.False(t, ran, "no side effect follows a write that failed")
		got, err := heard(t.Context(), run, 0)
		assert.ErrorIs(t, err, store.ErrClosed, "an observer learns why this process stopped")
		assert.Equal(t, []string{"run_started", "live"}, got)
		assert.Equal(t, checkpoint.Running, stored(t, w, run.ID()).Status, "a store error fails no run")
		assert.Equal(t, []string{"input alpha", "step alpha"}, rows(t, w, run.Session()))
	})
}

func TestATaskThatCouldNotBeKeptStopsTheRun(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		w := &watched{Store: memory.New(nil)}
		w.setRefuse(func(method string) error {
			if method == "SaveTask" {
				return store.ErrClosed
			}
			return nil
		})
		var after []string
		r := newRunner(t, chain(t, parts{alpha: func(ctx context.Context, d doc) (doc, error) {
			_, err := graph.Task(ctx, "one", func(context.Context) (int, error) { return 1, nil })
			after = append(after, fmt.Sprint(err))
			say(ctx, "not to be heard")
			_, err = graph.Task(ctx, "two", func(context.Context) (int, error) { after = append(after, "ran"); return 2, nil })
			after = append(after, fmt.Sprint(err))
			assert.ErrorIs(t, context.Cause(ctx), store.ErrClosed, "the node is told to stop")
			return d, nil
		}}), w, nil)
		run := start(t, r, graph.StartParams[doc]{})
		_, err := run.Wait(t.Context())
		assert.ErrorIs(t, err, store.ErrClosed)
		assert.Equal(t, []string{store.ErrClosed.Error(), store.ErrClosed.Error()}, after)
		got, err := heard(t.Context(), run, 0)
		assert.ErrorIs(t, err, store.ErrClosed)
		assert.Equal(t, []string{"run_started"}, got)
		assert.Equal(t, []string{"input alpha"}, rows(t, w, run.Session()))
	})
}

// The whole life of a run, with every store call going wrong in every way: whoever takes up
// the run ends it as if nothing had happened, and no task whose result was kept runs again.
func TestWhateverGoesWrongAtAStoreCallTheRunEndsAsItShould(t *testing.T) {
	t.Parallel()
	effects := func(done map[string]int, mu *sync.Mutex, f *graphtest.Faulty) func(key string) work {
		return func(key string) work {
			return func(ctx context.Context, d doc) (doc, error) {
				text, err := graph.Task(ctx, key, func(ctx context.Context) (string, error) {
					if !f.Dead() {
						mu.Lock()
						defer mu.Unlock()
						done[key+graph.IdempotencyKey(ctx)]++
					}
					return key, nil
				})
				d.Text += text
				return d, err
			}
		}
	}
	// scenario returns what became of a run whose n-th store call has a fault.
	scenario := func(t *testing.T, n int, fault graphtest.Fault) (calls []string, history []string, last doc, done map[string]int) {
		st := memory.New(nil)
		f := graphtest.NewFaulty(st, n, fault)
		done = make(map[string]int)
		var mu sync.Mutex
		does := effects(done, &mu, f)
		r := newRunner(t, chain(t, parts{alpha: does("x"), beta: does("y"), options: map[string]*graph.NodeOptions{"gamma": {Repeatable: true}}}), f, nil)
		session, id := uuid.New(), uuid.New()
		p := graph.StartParams[doc]{Session: session, Run: id, Input: &doc{Rest: 1}}
		run, err := r.Start(t.Context(), p)
		if err == nil {
			_, _ = run.Wait(t.Context())
		}
		calls = f.Calls()
		// The process that comes next.
		next := graphtest.NewFaulty(st, 0, "")
		does = effects(done, &mu, next)
		second := newRunner(t, chain(t, parts{alpha: does("x"), beta: does("y"), options: map[string]*graph.NodeOptions{"gamma": {Repeatable: true}}}), next, nil)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go second.Serve(ctx)
		if run, err = second.Attach(t.Context(), "", id); err != nil {
			require.ErrorIs(t, err, store.ErrNotFound)
			run = start(t, second, p) // the caller heard of no run
		}
		last, err = run.Wait(t.Context())
		require.NoError(t, err)
		return calls, rows(t, st, session), last, done
	}
	inBubble(t, func(t *testing.T) {
		calls, history, last, done := scenario(t, 0, "")
		require.Equal(t, []string{"Load", "Begin", "SaveTask", "Commit", "SaveTask", "Commit", "SaveTask", "Commit"}, calls)
		require.Equal(t, doc{Trail: "abbc", Text: "xyy"}, last)
		require.Len(t, done, 1+2)
		for n := range calls {
			for _, fault := range graphtest.Faults() {
				at := fmt.Sprintf("%s at call %d, %s", fault, n+1, calls[n])
				_, h, l, d := scenario(t, n+1, fault)
				assert.Equal(t, history, h, at)
				assert.Equal(t, last, l, at)
				assert.Len(t, d, len(done), "%s: a task that runs again has the same key", at)
				for key, times := range d {
					if calls[n] != "SaveTask" || fault == graphtest.ErrorBefore || fault == graphtest.ErrorAfter {
						assert.Equal(t, 1, times, "%s: task %s", at, key)
					}
				}
			}
		}
	})
}

func TestALostAcknowledgementIsASuccess(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		for n := 2; n <= 6; n++ {
			st := memory.New(nil)
			f := graphtest.NewFaulty(st, n, graphtest.ErrorAfter)
			ran := 0
			r := newRunner(t, chain(t, parts{alpha: task("t"), gamma: func(_ context.Context, d doc) (doc, error) { ran++; return d, nil }}), f, nil)
			run, d := complete(t, r, graph.StartParams[doc]{})
			assert.Equal(t, doc{Trail: "abc", Text: "t"}, d)
			assert.Equal(t, 1, ran)
			assert.Equal(t, []string{"input alpha", "step alpha", "step beta", "step gamma", "finish gamma completed"}, rows(t, st, run.Session()))
			assert.Equal(t, int64(1), stored(t, st, run.ID()).Epoch, "nobody had to take over")
			requireHeard(t, run, "run_started", "finished completed")
		}
	})
}

func TestAStoreThatStaysBrokenGivesTheRunToAnotherRunner(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		st := memory.New(nil)
		w := &watched{Store: st}
		here := newRunner(t, chain(t, parts{}), w, nil)
		there := newRunner(t, chain(t, parts{}), st, nil)
		serve(t, there)
		w.setRefuse(func(method string) error {
			if method == "Commit" {
				return errBroken
			}
			return nil
		})
		began := time.Now()
		run := start(t, here, graph.StartParams[doc]{})
		_, err := run.Wait(t.Context())
		require.ErrorIs(t, err, errBroken)
		assert.Less(t, time.Since(began), 5*time.Second, "it gave up soon")
		elsewhere, err := there.Attach(t.Context(), "", run.ID())
		require.NoError(t, err)
		d, err := elsewhere.Wait(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "abc", d.Trail)
		assert.Less(t, time.Since(began), 12*time.Second, "the run was released, nobody waited for its lease")
		assert.Equal(t, checkpoint.Completed, stored(t, st, run.ID()).Status)
	})
}
