package graph_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
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

const lease = 15 * time.Second // the default

func attach(t testing.TB, r *graph.Runner[doc], run *graph.Run[doc]) *graph.Run[doc] {
	t.Helper()
	out, err := r.Attach(t.Context(), "", run.ID())
	require.NoError(t, err)
	return out
}

func TestARunWhoseProcessDiesIsTakenOverAfterItsLease(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		st := memory.New(nil)
		f := graphtest.NewFaulty(st, 0, "")
		dead := newRunner(t, chain(t, parts{beta: hold}), f, nil)
		there := newRunner(t, chain(t, parts{}), st, nil)
		serve(t, there)
		run := start(t, dead, graph.StartParams[doc]{Input: &doc{Rest: 1}})
		time.Sleep(time.Minute)
		row := stored(t, st, run.ID())
		assert.Equal(t, int64(1), row.Epoch, "heartbeats keep the lease of a node that takes its time")
		assert.GreaterOrEqual(t, time.Until(row.LeaseUntil), lease-5*time.Second)
		f.Kill()
		began := time.Now()
		elsewhere := attach(t, there, run)
		d, err := elsewhere.Wait(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "abbc", d.Trail)
		assert.GreaterOrEqual(t, time.Since(began), lease-5*time.Second)
		assert.LessOrEqual(t, time.Since(began), lease+10*time.Second)
		assert.Equal(t, []string{"input alpha", "step alpha", "step beta", "step beta", "step gamma", "finish gamma completed"}, rows(t, st, run.Session()))
		_, err = run.Wait(t.Context())
		assert.Error(t, err, "the handle of the dead process")
		_, d = complete(t, there, graph.StartParams[doc]{Session: run.Session()})
		assert.Equal(t, "abbcabc", d.Trail)
	})
}

func TestHeartbeatsBeginAgainAfterARest(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		st := memory.New(nil)
		r := newRunner(t, chain(t, parts{beta: func(ctx context.Context, d doc) (doc, error) {
			if d.Text == "hold" {
				return hold(ctx, d)
			}
			return d, nil
		}}), st, nil)
		complete(t, r, graph.StartParams[doc]{})
		time.Sleep(time.Minute)
		run := start(t, r, graph.StartParams[doc]{Input: &doc{Text: "hold"}})
		time.Sleep(time.Minute)
		assert.Positive(t, time.Until(stored(t, st, run.ID()).LeaseUntil))
		require.NoError(t, run.Cancel(t.Context()))
	})
}

func TestAnAttachedRunWhoseProcessDiesIsLost(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		st := memory.New(nil)
		f := graphtest.NewFaulty(st, 0, "")
		run := start(t, newRunner(t, chain(t, parts{beta: hold}), f, nil), graph.StartParams[doc]{Attached: true})
		synctest.Wait()
		f.Kill()
		var causes []error
		there := newRunner(t, chain(t, parts{
			beta: func(ctx context.Context, d doc) (doc, error) {
				causes = append(causes, context.Cause(ctx))
				d.Text = "settled"
				return d, nil
			},
			options: map[string]*graph.NodeOptions{"beta": {Settles: true}},
		}), st, nil)
		serve(t, there)
		elsewhere := attach(t, there, run)
		_, err := elsewhere.Wait(t.Context())
		failed, ok := errors.AsType[*graph.RunError](err)
		require.True(t, ok)
		assert.Equal(t, graph.CodeLost, failed.Code)
		assert.Equal(t, graph.CodeLost, stored(t, st, run.ID()).ErrorCode)
		assert.Equal(t, []string{"input alpha", "step alpha", "finish alpha failed"}, rows(t, st, run.Session()))
		require.Len(t, causes, 1)
		assert.ErrorIs(t, causes[0], graph.ErrProcessLost)
		assert.Equal(t, doc{Trail: "ab", Text: "settled"}, stateAt(t, there, run.Session(), uuid.Nil))
		words, err := heard(t.Context(), elsewhere, 0)
		require.NoError(t, err)
		assert.Equal(t, "error lost", words[len(words)-1])
	})
}

func TestACancelOfALostRunSettlesItOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		st := memory.New(nil)
		f := graphtest.NewFaulty(st, 0, "")
		run := start(t, newRunner(t, chain(t, parts{beta: hold}), f, nil), graph.StartParams[doc]{Attached: true})
		synctest.Wait()
		f.Kill()
		calls := 0
		there := newRunner(t, chain(t, parts{
			beta:    func(ctx context.Context, d doc) (doc, error) { calls++; return d, nil },
			options: map[string]*graph.NodeOptions{"beta": {Settles: true}},
		}), &cancelling{Store: st, at: "finish"}, nil)
		serve(t, there)
		_, err := attach(t, there, run).Wait(t.Context())
		assert.ErrorIs(t, err, graph.ErrCancelled)
		assert.Equal(t, 1, calls)
	})
}

func TestARunThatKillsItsProcessAgainAndAgainIsPoisoned(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		st := memory.New(nil)
		var poisoned []error
		var mu sync.Mutex
		calls := 0
		process := func() (*graph.Runner[doc], *graphtest.Faulty) {
			f := graphtest.NewFaulty(st, 0, "")
			return newRunner(t, chain(t, parts{beta: func(ctx context.Context, d doc) (doc, error) {
				mu.Lock()
				defer mu.Unlock()
				calls++
				poisoned = append(poisoned, context.Cause(ctx))
				f.Kill()
				return d, nil
			}}), f, nil), f
		}
		first, _ := process()
		run := start(t, first, graph.StartParams[doc]{})
		_, err := run.Wait(t.Context())
		require.ErrorIs(t, err, graphtest.ErrDead)
		for i := range 6 {
			time.Sleep(lease)
			require.Equal(t, checkpoint.Running, stored(t, st, run.ID()).Status, "takeover %d", i)
			next, f := process()
			ctx, stop := context.WithCancel(t.Context())
			go next.Serve(ctx)
			time.Sleep(time.Second)
			stop()
			f.Kill()
		}
		row := stored(t, st, run.ID())
		assert.Equal(t, checkpoint.Failed, row.Status)
		assert.Equal(t, graph.CodePoisoned, row.ErrorCode)
		assert.Equal(t, 6, calls, "the first time and five takeovers")
		assert.Equal(t, []string{"input alpha", "step alpha", "finish alpha failed"}, rows(t, st, run.Session()))
	})
}

func TestARunThatGetsAheadIsNotPoisoned(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		st := memory.New(nil)
		var run *graph.Run[doc]
		for i := range 20 {
			f := graphtest.NewFaulty(st, 0, "")
			times := 0
			r := newRunner(t, chain(t, parts{beta: func(_ context.Context, d doc) (doc, error) {
				if times++; times == 2 {
					f.Kill() // after the step before it is written
				}
				return d, nil
			}}), f, nil)
			if i == 0 {
				run = start(t, r, graph.StartParams[doc]{Input: &doc{Rest: 30}})
			} else {
				serve(t, r)
			}
			time.Sleep(2 * lease)
		}
		row := stored(t, st, run.ID())
		assert.Equal(t, checkpoint.Running, row.Status)
		assert.Equal(t, int64(20), row.Epoch)
	})
}

// frozen is a store whose process stands still for a while: its calls wait.
type frozen struct {
	*memory.Store
	mu   sync.Mutex // guards thaw
	thaw chan struct{}
}

func (f *frozen) freeze() (thaw func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.thaw = make(chan struct{})
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		close(f.thaw)
		f.thaw = nil
	}
}

func (f *frozen) wait() {
	f.mu.Lock()
	thaw := f.thaw
	f.mu.Unlock()
	if thaw != nil {
		<-thaw
	}
}

func (f *frozen) Commit(ctx context.Context, c *store.Commit) (*store.Committed, error) {
	f.wait()
	return f.Store.Commit(context.WithoutCancel(ctx), c)
}

func (f *frozen) SaveTask(ctx context.Context, s *store.SaveTask) error {
	f.wait()
	return f.Store.SaveTask(context.WithoutCancel(ctx), s)
}

func (f *frozen) Renew(ctx context.Context, n *store.Renew) (*store.Renewed, error) {
	f.wait()
	return f.Store.Renew(context.WithoutCancel(ctx), n)
}

func TestAZombieWritesNothingAndIsTold(t *testing.T) {
	t.Parallel()
	for name, wakes := range map[string]func(ctx context.Context) error{
		"by a task that it finishes": func(ctx context.Context) error {
			_, err := graph.Task(ctx, "late", func(context.Context) (int, error) { return 1, nil })
			return err
		},
		"by its next heartbeat": func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		},
		"by its commit": func(context.Context) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				st := &frozen{Store: memory.New(nil)}
				awake := make(chan struct{})
				var cause error
				zombie := newRunner(t, chain(t, parts{beta: func(ctx context.Context, d doc) (doc, error) {
					if d.Text == "" {
						<-awake
						err := wakes(ctx)
						say(ctx, "not to be heard")
						if name != "by its commit" {
							cause = context.Cause(ctx)
						}
						return d, err
					}
					return d, nil
				}, gamma: func(ctx context.Context, d doc) (doc, error) {
					t.Error("a zombie has no side effects")
					return d, nil
				}}), st, nil)
				there := newRunner(t, chain(t, parts{beta: task("new owner")}), st.Store, nil)
				serve(t, there)
				run := start(t, zombie, graph.StartParams[doc]{})
				synctest.Wait()
				thaw := st.freeze()
				time.Sleep(time.Minute)
				d, err := attach(t, there, run).Wait(t.Context())
				require.NoError(t, err)
				want := rows(t, st, run.Session())
				thaw()
				close(awake)
				_, err = run.Wait(t.Context())
				assert.ErrorIs(t, err, store.ErrLost)
				if name != "by its commit" {
					assert.ErrorIs(t, cause, store.ErrLost)
				}
				assert.Equal(t, want, rows(t, st, run.Session()))
				assert.Equal(t, d, stateAt(t, there, run.Session(), uuid.Nil))
				words, err := heard(t.Context(), run, 0)
				assert.ErrorIs(t, err, store.ErrLost)
				assert.NotContains(t, words, "not to be heard")
				assert.Equal(t, checkpoint.Completed, stored(t, st, run.ID()).Status)
			})
		})
	}
}

func TestARunnerThatCannotRenewStopsBeforeOthersMayTakeOver(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(ctx context.Context) error{
		"when the store refuses":         func(context.Context) error { return errBroken },
		"when the store does not answer": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				st := &unrenewable{Store: memory.New(nil), fail: fail}
				var stopped time.Time
				var cause error
				r := newRunner(t, chain(t, parts{beta: func(ctx context.Context, d doc) (doc, error) {
					<-ctx.Done()
					stopped, cause = time.Now(), context.Cause(ctx)
					return d, cause
				}}), st, nil)
				run := start(t, r, graph.StartParams[doc]{})
				_, err := run.Wait(t.Context())
				assert.ErrorIs(t, err, store.ErrLost)
				assert.ErrorIs(t, cause, store.ErrLost)
				assert.True(t, stopped.Before(stored(t, st, run.ID()).LeaseUntil), "%v after its lease", stopped.Sub(stored(t, st, run.ID()).LeaseUntil))
				assert.Equal(t, checkpoint.Running, stored(t, st, run.ID()).Status)
			})
		})
	}
	t.Run("but not for one heartbeat that failed", func(t *testing.T) {
		t.Parallel()
		inBubble(t, func(t *testing.T) {
			calls := 0
			st := &unrenewable{Store: memory.New(nil), fail: func(context.Context) error {
				if calls++; calls%2 == 0 {
					return errBroken
				}
				return nil
			}}
			r := newRunner(t, chain(t, parts{beta: func(ctx context.Context, d doc) (doc, error) {
				select {
				case <-time.After(time.Hour / 2):
					return d, nil
				case <-ctx.Done():
					return d, context.Cause(ctx)
				}
			}}), st, nil)
			complete(t, r, graph.StartParams[doc]{})
		})
	})
}

func TestARunnerThatCouldNotRenewHoldsTheRunsThatBeginLater(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		var mended atomic.Bool
		st := &unrenewable{Store: memory.New(nil), fail: func(context.Context) error {
			if !mended.Load() {
				return errBroken
			}
			return nil
		}}
		deaf := make(chan struct{})
		r := newRunner(t, chain(t, parts{beta: func(ctx context.Context, d doc) (doc, error) {
			if d.Text == "deaf" {
				<-deaf
				return d, context.Cause(ctx)
			}
			select {
			case <-time.After(4 * lease):
				return d, nil
			case <-ctx.Done():
				return d, context.Cause(ctx)
			}
		}}), st, nil)
		early := start(t, r, graph.StartParams[doc]{Input: &doc{Text: "deaf"}})
		time.Sleep(lease)
		mended.Store(true)
		_, d := complete(t, r, graph.StartParams[doc]{}) // there is always a run to renew
		assert.Equal(t, "abc", d.Trail)
		assert.Negative(t, time.Until(stored(t, st, early.ID()).LeaseUntil), "what was given up is there for others")
		close(deaf)
		_, err := early.Wait(t.Context())
		assert.ErrorIs(t, err, store.ErrLost)
	})
}

type unrenewable struct {
	*memory.Store
	fail func(ctx context.Context) error
}

func (u *unrenewable) Renew(ctx context.Context, n *store.Renew) (*store.Renewed, error) {
	if err := u.fail(ctx); err != nil {
		return nil, err
	}
	return u.Store.Renew(ctx, n)
}

func TestARunThatTheGraphCannotGoOnWithStaysAsItIs(t *testing.T) {
	t.Parallel()
	// older is the graph without beta.
	older := func(t *testing.T) *graph.Graph[doc] {
		g, err := graph.New("chain", graph.Node("solo", &solo{}))
		require.NoError(t, err)
		return g
	}
	type bundle struct {
		st      *memory.Store
		run     *graph.Run[doc]
		changed *graph.Runner[doc]
	}
	setup := func(t *testing.T) bundle {
		st := memory.New(nil)
		f := graphtest.NewFaulty(st, 0, "")
		run := start(t, newRunner(t, chain(t, parts{beta: hold}), f, nil), graph.StartParams[doc]{})
		synctest.Wait()
		f.Kill()
		changed := newRunner(t, older(t), st, nil)
		serve(t, changed)
		time.Sleep(10 * time.Minute)
		row := stored(t, st, run.ID())
		assert.Equal(t, checkpoint.Running, row.Status)
		assert.Zero(t, row.Takeovers, "it is not poisoned for that")
		assert.Equal(t, int64(2), row.Epoch, "one look is enough")
		assert.Equal(t, []string{"input alpha", "step alpha"}, rows(t, st, run.Session()))
		return bundle{st, run, changed}
	}
	t.Run("until somebody has the node", func(t *testing.T) {
		t.Parallel()
		inBubble(t, func(t *testing.T) {
			b := setup(t)
			there := newRunner(t, chain(t, parts{}), b.st, nil)
			serve(t, there)
			d, err := attach(t, there, b.run).Wait(t.Context())
			require.NoError(t, err)
			assert.Equal(t, "abc", d.Trail)
		})
	})
	t.Run("until it is cancelled", func(t *testing.T) {
		t.Parallel()
		inBubble(t, func(t *testing.T) {
			b := setup(t)
			require.NoError(t, b.changed.Cancel(t.Context(), "", b.run.ID()))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := attach(t, b.changed, b.run).Wait(ctx)
			assert.ErrorIs(t, err, graph.ErrCancelled)
			assert.Equal(t, []string{"input alpha", "step alpha", "finish alpha cancelled"}, rows(t, b.st, b.run.Session()))
		})
	})
	t.Run("a new run from such a place is refused", func(t *testing.T) {
		t.Parallel()
		inBubble(t, func(t *testing.T) {
			b := setup(t)
			at := checkpoints(t, b.st, b.run.Session())[1]
			_, err := b.changed.Start(t.Context(), graph.StartParams[doc]{Session: b.run.Session(), Checkpoint: at.ID})
			assert.ErrorIs(t, err, graph.ErrGraphChanged)
			assert.Len(t, rows(t, b.st, b.run.Session()), 2)
		})
	})
}

// solo is a graph of one node.
type solo struct {
	work
	Again graph.Edge[solo, solo]
	Done  graph.End[solo]
}

func (n *solo) Run(ctx context.Context, d doc) (doc, graph.Next[solo], error) {
	d, err := n.do(ctx, d, "s")
	if d.Rest > 0 {
		d.Rest--
		return d, n.Again.Next(), err
	}
	return d, n.Done.Next(), err
}

func TestOnlyRunsOfTheSameGraphAreTakenOver(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		st := memory.New(nil)
		f := graphtest.NewFaulty(st, 0, "")
		run := start(t, newRunner(t, chain(t, parts{beta: hold}), f, nil), graph.StartParams[doc]{})
		f.Kill()
		g, err := graph.New("another", graph.Node("alpha", &solo{}))
		require.NoError(t, err)
		serve(t, newRunner(t, g, st, nil))
		time.Sleep(10 * time.Minute)
		assert.Equal(t, int64(1), stored(t, st, run.ID()).Epoch)
	})
}

func TestServeEndsWithItsContext(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		require.Error(t, newRunner(t, chain(t, parts{}), nil, nil).Serve(t.Context()), "without a store there is nothing to take over")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		f := graphtest.NewFaulty(memory.New(nil), 2, graphtest.ErrorBefore)
		require.NoError(t, newRunner(t, chain(t, parts{}), f, nil).Serve(ctx), "an error of the store does not end it")
		assert.GreaterOrEqual(t, len(f.Calls()), 12, "at once and with every heartbeat")
	})
}

func TestServeTakesOverManyRunsAtOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		st := memory.New(nil)
		f := graphtest.NewFaulty(st, 0, "")
		dead := newRunner(t, chain(t, parts{beta: hold}), f, nil)
		var runs []*graph.Run[doc]
		for i := range 100 {
			runs = append(runs, start(t, dead, graph.StartParams[doc]{Input: &doc{Text: fmt.Sprint(i)}}))
		}
		synctest.Wait()
		f.Kill()
		time.Sleep(lease)
		there := newRunner(t, chain(t, parts{}), st, &graph.RunnerOptions[doc]{MaxRuns: 50})
		serve(t, there)
		for i, run := range runs {
			d, err := attach(t, there, run).Wait(t.Context())
			require.NoError(t, err)
			assert.Equal(t, doc{"abc", fmt.Sprint(i), 0}, d)
			assert.Equal(t, int64(2), stored(t, st, run.ID()).Epoch)
		}
	})
}

func TestARunnerWithoutRunsHasNoGoroutines(t *testing.T) {
	t.Parallel()
	for name, open := range stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// No hour to end: a bubble in which something still runs fails.
			synctest.Test(t, func(t *testing.T) {
				r := newRunner(t, chain(t, parts{}), open(), nil)
				complete(t, r, graph.StartParams[doc]{})
				complete(t, r, graph.StartParams[doc]{})
				time.Sleep(5 * time.Second) // the heartbeat stops by itself
				synctest.Wait()
			})
		})
	}
}

// damaged is a store that has lost what a document said.
type damaged struct{ store.Store }

func (d damaged) Load(ctx context.Context, l *store.Load) (*store.Position, error) {
	p, err := d.Store.Load(ctx, l)
	if err == nil {
		p.Documents = []store.Document{{Body: []byte("{")}}
	}
	return p, err
}

func TestARunThatCannotBeReadIsLeftAloneAndStaysVisible(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		st := memory.New(nil)
		f := graphtest.NewFaulty(st, 0, "")
		run := start(t, newRunner(t, chain(t, parts{beta: hold}), f, nil), graph.StartParams[doc]{})
		synctest.Wait()
		f.Kill()
		serve(t, newRunner(t, chain(t, parts{}), damaged{st}, nil))
		time.Sleep(10 * time.Minute)
		row := stored(t, st, run.ID())
		assert.Equal(t, checkpoint.Running, row.Status)
		assert.Equal(t, int64(2), row.Epoch, "one look is enough")
		serve(t, newRunner(t, chain(t, parts{}), st, nil))
		time.Sleep(time.Minute)
		assert.Equal(t, checkpoint.Completed, stored(t, st, run.ID()).Status, "whoever can read it goes on")
	})
}
