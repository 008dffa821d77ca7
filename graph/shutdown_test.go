package graph_test

import (
	"context"
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

func TestShutdownWaitsForWhatRuns(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		st := memory.New(nil)
		r := newRunner(t, chain(t, parts{beta: func(_ context.Context, d doc) (doc, error) { time.Sleep(time.Minute); return d, nil }}), st, nil)
		require.NoError(t, newRunner(t, chain(t, parts{}), st, nil).Shutdown(t.Context()), "without runs it returns at once")
		run := start(t, r, graph.StartParams[doc]{})
		began := time.Now()
		go func() {
			time.Sleep(time.Second)
			_, err := r.Start(t.Context(), graph.StartParams[doc]{})
			assert.ErrorIs(t, err, graph.ErrShutdown)
			_, err = r.Start(t.Context(), graph.StartParams[doc]{OnBusy: graph.Wait})
			assert.ErrorIs(t, err, graph.ErrShutdown)
		}()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		require.NoError(t, r.Shutdown(ctx))
		assert.Equal(t, time.Minute, time.Since(began))
		_, err := run.Wait(t.Context())
		require.NoError(t, err)
		require.NoError(t, r.Shutdown(ctx), "again")
	})
}

func TestShutdownGivesUpWhatRunsTooLong(t *testing.T) {
	t.Parallel()
	for name, attached := range map[string]bool{"detached": false, "attached": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				st := memory.New(nil)
				var cause error
				r := newRunner(t, chain(t, parts{beta: func(ctx context.Context, d doc) (doc, error) {
					say(ctx, "before")
					<-ctx.Done()
					cause = context.Cause(ctx)
					say(ctx, "what did not happen")
					return d, cause
				}}), st, nil)
				there := newRunner(t, chain(t, parts{}), st, nil)
				serve(t, there)
				run := start(t, r, graph.StartParams[doc]{Attached: attached})
				l := listen(t, run, 0)
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errBroken)
				defer cancel()
				assert.ErrorIs(t, r.Shutdown(ctx), errBroken)
				assert.ErrorIs(t, cause, graph.ErrShutdown)
				_, err := run.Wait(t.Context())
				assert.ErrorIs(t, err, graph.ErrShutdown)
				assert.Equal(t, []string{"run_started", "before"}, l.heard())
				_, err = l.ended()
				assert.ErrorIs(t, err, graph.ErrShutdown, "its observers are told to come back")
				began := time.Now()
				d, err := attach(t, there, run).Wait(t.Context())
				require.NoError(t, err, "it goes on elsewhere")
				assert.Equal(t, "abc", d.Trail)
				assert.LessOrEqual(t, time.Since(began), 10*time.Second)
			})
		})
	}
}

func TestShutdownBeginsNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		st := memory.New(nil)
		r := newRunner(t, chain(t, parts{
			alpha: func(ctx context.Context, d doc) (doc, error) { <-ctx.Done(); return d, nil },
			beta: func(_ context.Context, d doc) (doc, error) {
				t.Error("it settles where the run goes on")
				return d, nil
			},
			options: map[string]*graph.NodeOptions{"beta": {Settles: true}},
		}), st, nil)
		run := start(t, r, graph.StartParams[doc]{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.Error(t, r.Shutdown(ctx))
		assert.Equal(t, []string{"input alpha", "step alpha"}, rows(t, st, run.Session()))
	})
}

func TestACommitDuringAShutdownDoesNotSayWhatDidNotHappen(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		r := newRunner(t, chain(t, parts{
			beta: func(ctx context.Context, d doc) (doc, error) {
				say(ctx, "waits for the step of alpha")
				<-ctx.Done()
				say(ctx, "what did not happen")
				_, err := graph.Task(ctx, "t", func(context.Context) (int, error) { return 1, nil })
				assert.NoError(t, err)
				return d, context.Cause(ctx)
			},
			options: map[string]*graph.NodeOptions{"beta": {Repeatable: true}},
		}), memory.New(nil), nil)
		run := start(t, r, graph.StartParams[doc]{})
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.Error(t, r.Shutdown(ctx))
		got, err := heard(t.Context(), run, 0)
		assert.ErrorIs(t, err, graph.ErrShutdown)
		assert.Equal(t, []string{"run_started", "waits for the step of alpha"}, got)
	})
}

func TestShutdownKeepsWhatIsDone(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		st := memory.New(nil)
		r := newRunner(t, chain(t, parts{beta: func(ctx context.Context, d doc) (doc, error) {
			<-ctx.Done()
			say(ctx, "done")
			return d, nil
		}}), st, nil)
		run := start(t, r, graph.StartParams[doc]{})
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.Error(t, r.Shutdown(ctx))
		assert.Equal(t, []string{"input alpha", "step alpha", "step beta"}, rows(t, st, run.Session()))
		got, err := heard(t.Context(), run, 0)
		assert.ErrorIs(t, err, graph.ErrShutdown)
		assert.Equal(t, []string{"run_started", "done"}, got)
		assert.Zero(t, stored(t, st, run.ID()).Takeovers)
	})
	t.Run("also all of it", func(t *testing.T) {
		t.Parallel()
		inBubble(t, func(t *testing.T) {
			st := memory.New(nil)
			r := newRunner(t, chain(t, parts{gamma: func(ctx context.Context, d doc) (doc, error) { <-ctx.Done(); return d, nil }}), st, nil)
			run := start(t, r, graph.StartParams[doc]{})
			synctest.Wait()
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			require.Error(t, r.Shutdown(ctx))
			there := newRunner(t, chain(t, parts{alpha: fails(errBroken), beta: fails(errBroken), gamma: fails(errBroken)}), st, nil)
			serve(t, there)
			d, err := attach(t, there, run).Wait(t.Context())
			require.NoError(t, err, "what is left is to say so")
			assert.Equal(t, "abc", d.Trail)
			assert.Equal(t, []string{"input alpha", "step alpha", "step beta", "step gamma", "finish gamma completed"}, rows(t, st, run.Session()))
		})
	})
}

// slow is a store whose answers to Claim wait at a gate.
type slow struct {
	*memory.Store
	gate chan struct{}
}

func (s *slow) Claim(ctx context.Context, c *store.Claim) ([]store.Run, error) {
	runs, err := s.Store.Claim(ctx, c)
	if len(runs) > 0 {
		<-s.gate
	}
	return runs, err
}

func TestAShutdownGivesBackWhatIsBeingClaimed(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		st := &slow{memory.New(nil), make(chan struct{})}
		f := graphtest.NewFaulty(st.Store, 0, "")
		dies := newRunner(t, chain(t, parts{beta: hold}), f, nil)
		runs := []uuid.UUID{start(t, dies, graph.StartParams[doc]{}).ID(), start(t, dies, graph.StartParams[doc]{}).ID()}
		f.Kill()
		r := newRunner(t, chain(t, parts{}), st, nil)
		ctx, cancel := context.WithCancel(t.Context())
		go r.Serve(ctx)
		time.Sleep(time.Minute)
		for _, run := range runs {
			require.Equal(t, int64(2), stored(t, st, run).Epoch)
		}
		cancel()
		done := false
		go func() {
			assert.NoError(t, r.Shutdown(t.Context()))
			done = true
		}()
		synctest.Wait()
		assert.False(t, done, "nobody else would have those runs before their leases run out")
		close(st.gate)
		synctest.Wait()
		assert.True(t, done)
		for _, run := range runs {
			assert.Equal(t, uuid.Nil, stored(t, st, run).Owner)
		}
	})
}
