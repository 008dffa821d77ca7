package graph_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/store/memory"
)

func TestARunThatTakesTooManyStepsFails(t *testing.T) {
	t.Parallel()
	for name, open := range stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := open()
			r := newRunner(t, chain(t, parts{}), st, &graph.RunnerOptions[doc]{MaxSteps: 5})
			_, d := complete(t, r, graph.StartParams[doc]{Input: &doc{Rest: 2}})
			assert.Equal(t, "abbbc", d.Trail, "five are allowed")
			run, d, err := finish(t, r, graph.StartParams[doc]{Input: &doc{Rest: 3}})
			failed, ok := errors.AsType[*graph.RunError](err)
			require.True(t, ok)
			assert.Equal(t, graph.CodeMaxSteps, failed.Code)
			assert.Equal(t, "the run took more than 5 steps", failed.Text)
			assert.Equal(t, "abbbb", d.Trail, "the next node does not start")
			requireHeard(t, run, "run_started", "error max_steps")
			if st != nil {
				line := rows(t, st, run.Session())
				assert.Equal(t, "finish beta failed", line[len(line)-1], "the last node that ran")
			}
		})
	}
	t.Run("the default is a hundred", func(t *testing.T) {
		t.Parallel()
		r := newRunner(t, chain(t, parts{}), nil, nil)
		complete(t, r, graph.StartParams[doc]{Input: &doc{Rest: 97}})
		_, _, err := finish(t, r, graph.StartParams[doc]{Input: &doc{Rest: 98}})
		assert.ErrorContains(t, err, graph.CodeMaxSteps)
	})
	t.Run("one more node may settle what is open", func(t *testing.T) {
		t.Parallel()
		r := newRunner(t, chain(t, parts{options: map[string]*graph.NodeOptions{"beta": {Settles: true}}}), nil, &graph.RunnerOptions[doc]{MaxSteps: 1})
		_, d, err := finish(t, r, graph.StartParams[doc]{Input: &doc{}})
		assert.ErrorContains(t, err, graph.CodeMaxSteps)
		assert.Equal(t, "ab", d.Trail)
	})
	t.Run("but only one", func(t *testing.T) {
		t.Parallel()
		inBubble(t, func(t *testing.T) {
			r := newRunner(t, chain(t, parts{options: map[string]*graph.NodeOptions{"beta": {Settles: true}}}), nil, &graph.RunnerOptions[doc]{MaxSteps: 1})
			_, d, err := finish(t, r, graph.StartParams[doc]{Input: &doc{Rest: 1000}})
			assert.ErrorContains(t, err, graph.CodeMaxSteps)
			assert.Equal(t, "ab", d.Trail)
			tries := 0
			r = newRunner(t, chain(t, parts{
				options: map[string]*graph.NodeOptions{"beta": {Settles: true}},
				beta: func(_ context.Context, d doc) (doc, error) {
					if tries++; tries > 1000 {
						return d, errBroken
					}
					return d, graph.Retry(errBroken, 0)
				},
			}), nil, &graph.RunnerOptions[doc]{MaxSteps: 3})
			_, _, err = finish(t, r, graph.StartParams[doc]{})
			assert.ErrorContains(t, err, graph.CodeMaxSteps)
			assert.Equal(t, 3, tries)
		})
	})
	t.Run("the steps of the run that asked do not count", func(t *testing.T) {
		t.Parallel()
		r := newRunner(t, chain(t, parts{beta: ask("q")}), memory.New(nil), &graph.RunnerOptions[doc]{MaxSteps: 2})
		run, _, err := finish(t, r, graph.StartParams[doc]{})
		require.ErrorIs(t, err, graph.ErrInterrupted)
		complete(t, r, graph.StartParams[doc]{Session: run.Session(), Resume: json.RawMessage(`"yes"`)})
	})
}

func TestARetryIsAStepAndWaits(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		st := memory.New(nil)
		tries := 0
		r := newRunner(t, chain(t, parts{beta: func(ctx context.Context, d doc) (doc, error) {
			tries++
			d.Text += "lost"
			graph.Keep(ctx, d)
			if tries < 4 {
				return d, graph.Retry(errBroken, time.Minute)
			}
			return d, nil
		}}), st, &graph.RunnerOptions[doc]{MaxSteps: 6})
		began := time.Now()
		run, d := complete(t, r, graph.StartParams[doc]{})
		assert.Equal(t, doc{Trail: "abc", Text: "lost"}, d, "each try begins with the state before the node")
		assert.Equal(t, 3*time.Minute, time.Since(began))
		assert.Equal(t, []string{"input alpha", "step alpha", "step beta", "step gamma", "finish gamma completed"}, rows(t, st, run.Session()))
		tries = -100
		_, _, err := finish(t, r, graph.StartParams[doc]{})
		assert.ErrorContains(t, err, graph.CodeMaxSteps)
		assert.Equal(t, -95, tries, "alpha and five tries")
	})
	retry := graph.Retry(errBroken, time.Second)
	assert.ErrorIs(t, retry, errBroken)
	assert.ErrorContains(t, retry, "retried after 1s: broken")
}

func TestAProcessExecutesOnlySoManyRuns(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		for name, open := range stores() {
			gate := make(chan struct{})
			r := newRunner(t, chain(t, parts{beta: gated(gate)}), open(), &graph.RunnerOptions[doc]{MaxRuns: 2})
			first := start(t, r, graph.StartParams[doc]{})
			second := start(t, r, graph.StartParams[doc]{})
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errBroken)
			_, err := r.Start(ctx, graph.StartParams[doc]{})
			cancel()
			assert.ErrorIs(t, err, errBroken, name)
			var third *graph.Run[doc]
			go func() { third = start(t, r, graph.StartParams[doc]{}) }()
			synctest.Wait()
			assert.Nil(t, third)
			gate <- struct{}{}
			synctest.Wait()
			require.NotNil(t, third, "its turn comes when a run ends")
			close(gate)
			for _, run := range []*graph.Run[doc]{first, second, third} {
				_, err := run.Wait(t.Context())
				require.NoError(t, err)
			}
			for range 5 { // also runs that are refused give their place back
				_, err := r.Start(t.Context(), graph.StartParams[doc]{Checkpoint: uuid.New()})
				require.Error(t, err)
			}
			complete(t, r, graph.StartParams[doc]{})
		}
	})
}

func TestAPanicOfANodeFailsTheRun(t *testing.T) {
	t.Parallel()
	for name, open := range stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			st := open()
			r := newRunner(t, chain(t, parts{beta: func(context.Context, doc) (doc, error) { panic("secret") }}), st,
				&graph.RunnerOptions[doc]{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			run, d, err := finish(t, r, graph.StartParams[doc]{})
			failed, ok := errors.AsType[*graph.RunError](err)
			require.True(t, ok)
			assert.Equal(t, graph.CodePanic, failed.Code)
			assert.Equal(t, `node "beta" panicked`, failed.Text)
			assert.Equal(t, "a", d.Trail)
			p, ok := errors.AsType[*graph.PanicError](err)
			require.True(t, ok)
			assert.Equal(t, "secret", p.Value)
			assert.EqualError(t, p, "panic: secret")
			assert.Contains(t, log.String(), "limit_test.go", "the stack is in the log")
			requireHeard(t, run, "run_started", "error panic")
			for e, err := range run.Events(t.Context(), 0) {
				require.NoError(t, err)
				text, err := json.Marshal(e)
				require.NoError(t, err)
				assert.NotContains(t, string(text), "secret")
			}
			complete(t, newRunner(t, chain(t, parts{}), st, nil), graph.StartParams[doc]{Session: run.Session()})
		})
	}
}

// picky is a codec that refuses some states.
type picky struct{ checkpoint.JSON[doc] }

func (p picky) Encode(document json.RawMessage, before, after doc) (checkpoint.Change, error) {
	if after.Text == "bad" {
		return checkpoint.Change{}, errBroken
	}
	return p.JSON.Encode(document, before, after)
}

func (p picky) Merge(from *checkpoint.Checkpoint, current, input doc) (doc, error) {
	if input.Text == "unmergeable" {
		return doc{}, errBroken
	}
	return p.JSON.Merge(from, current, input)
}

// unsteady is a codec that fails once, at a state that did not change.
type unsteady struct {
	picky
	failed bool
}

func (u *unsteady) Encode(document json.RawMessage, before, after doc) (checkpoint.Change, error) {
	if before == after && after.Trail != "" && !u.failed {
		u.failed = true
		return checkpoint.Change{}, errBroken
	}
	return u.picky.Encode(document, before, after)
}

func TestAStateThatCannotBeEncodedFailsTheRun(t *testing.T) {
	t.Parallel()
	makes := func(when string) work {
		return func(_ context.Context, d doc) (doc, error) {
			if d.Text == when {
				d.Text = "bad"
			}
			return d, nil
		}
	}
	st := memory.New(nil)
	for node, p := range map[string]parts{"alpha": {alpha: makes("")}, "beta": {beta: makes("")}, "gamma": {gamma: makes("")}} {
		t.Run("of "+node, func(t *testing.T) {
			t.Parallel()
			r := newRunner(t, chain(t, p), st, &graph.RunnerOptions[doc]{Codec: picky{}})
			run, d, err := finish(t, r, graph.StartParams[doc]{})
			assert.ErrorIs(t, err, errBroken)
			failed, ok := errors.AsType[*graph.RunError](err)
			require.True(t, ok)
			assert.Equal(t, graph.CodeNodeError, failed.Code)
			assert.Empty(t, d.Text, "the last state that could be kept")
			line := rows(t, st, run.Session())
			assert.Equal(t, "finish "+node+" failed", line[len(line)-1])
		})
	}
	t.Run("that a failing node keeps", func(t *testing.T) {
		t.Parallel()
		r := newRunner(t, chain(t, parts{beta: func(ctx context.Context, d doc) (doc, error) {
			graph.Keep(ctx, doc{Text: "bad"})
			return d, graph.Fail("mine", "mine", nil)
		}}), st, &graph.RunnerOptions[doc]{Codec: picky{}})
		run, d, err := finish(t, r, graph.StartParams[doc]{})
		assert.Error(t, err)
		assert.Equal(t, doc{Trail: "a"}, d)
		assert.Equal(t, "mine", stored(t, st, run.ID()).ErrorCode)
	})
	t.Run("when it is over", func(t *testing.T) {
		t.Parallel()
		r := newRunner(t, chain(t, parts{}), st, &graph.RunnerOptions[doc]{Codec: &unsteady{}})
		run, d, err := finish(t, r, graph.StartParams[doc]{})
		assert.ErrorIs(t, err, errBroken)
		assert.Equal(t, "abc", d.Trail)
		assert.Equal(t, graph.CodeNodeError, stored(t, st, run.ID()).ErrorCode)
		assert.Equal(t, "finish gamma failed", rows(t, st, run.Session())[4])
	})
	t.Run("that a node keeps with its question", func(t *testing.T) {
		t.Parallel()
		r := newRunner(t, chain(t, parts{beta: func(ctx context.Context, d doc) (doc, error) {
			graph.Keep(ctx, doc{Text: "bad"})
			return ask("q")(ctx, d)
		}}), st, &graph.RunnerOptions[doc]{Codec: picky{}})
		_, _, err := finish(t, r, graph.StartParams[doc]{})
		assert.ErrorIs(t, err, errBroken)
	})
	t.Run("an input is refused", func(t *testing.T) {
		t.Parallel()
		r := newRunner(t, chain(t, parts{}), st, &graph.RunnerOptions[doc]{Codec: picky{}})
		for _, text := range []string{"bad", "unmergeable"} {
			for _, busy := range []graph.OnBusy{graph.Reject, graph.Wait} {
				id := uuid.New()
				_, err := r.Start(t.Context(), graph.StartParams[doc]{Run: id, Input: &doc{Text: text}, OnBusy: busy})
				assert.ErrorIs(t, err, errBroken)
				_, err = r.Attach(t.Context(), "", id)
				assert.Error(t, err, "nothing was recorded")
			}
		}
	})
}

func TestOptionsOfARunnerAreChecked(t *testing.T) {
	t.Parallel()
	g := chain(t, parts{})
	_, err := graph.NewRunner[doc](nil, nil, nil)
	assert.EqualError(t, err, "graph: NewRunner needs a graph")
	for want, o := range map[string]graph.RunnerOptions[doc]{
		`OnBusy "queue": use Reject, Wait or Cancel`:         {OnBusy: "queue"},
		"WaitLimit is negative":                              {WaitLimit: -1},
		"MaxSteps is negative":                               {MaxSteps: -1},
		"MaxRuns is negative":                                {MaxRuns: -1},
		"MaxTakeovers is negative":                           {MaxTakeovers: -1},
		"Lease is negative":                                  {Lease: -1}, // not the heartbeat that follows from it
		"Heartbeat is negative":                              {Heartbeat: -1},
		"Heartbeat 1m0s must be shorter than the lease 1m0s": {Heartbeat: time.Minute, Lease: time.Minute},
		"Heartbeat 15s must be shorter than the lease 15s":   {Heartbeat: 15 * time.Second},
		"Heartbeat 1m0s must be shorter than the lease 15s":  {Heartbeat: time.Minute},
	} {
		_, err := graph.NewRunner(g, nil, &o)
		assert.ErrorContains(t, err, "graph: RunnerOptions."+want)
	}
	r, err := graph.NewRunner(g, nil, nil)
	require.NoError(t, err)
	assert.Same(t, g, r.Graph())
}

func TestManySessionsRunSideBySide(t *testing.T) {
	t.Parallel()
	st := memory.New(nil)
	r := newRunner(t, chain(t, parts{alpha: task("t")}), st, nil)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			session := uuid.New()
			for i := range 5 {
				_, d, err := finish(t, r, graph.StartParams[doc]{Session: session})
				assert.NoError(t, err)
				assert.Len(t, d.Trail, 3*(i+1))
			}
		})
	}
	all.Wait()
}

func TestOfManyStartsOnOneSessionOneIsFirst(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		st := memory.New(nil)
		runners := []*graph.Runner[doc]{newRunner(t, chain(t, parts{}), st, nil), newRunner(t, chain(t, parts{}), st, nil)}
		session := uuid.New()
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				run, err := runners[i%2].Start(t.Context(), graph.StartParams[doc]{Session: session, OnBusy: graph.Wait})
				if assert.NoError(t, err) {
					_, err = run.Wait(t.Context())
					assert.NoError(t, err)
				}
			})
		}
		all.Wait()
		assert.Len(t, stateAt(t, runners[0], session, uuid.Nil).Trail, 60, "nobody overwrote anybody")
	})
}
