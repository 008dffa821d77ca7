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
	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/graph/graphtest"
	"github.com/everstep-go/everstep/store/memory"
)

func TestTheTenantWithTheFewestRunsIsNext(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		gate := make(chan struct{})
		r := newRunner(t, chain(t, parts{beta: gated(gate)}), memory.New(nil), &graph.RunnerOptions[doc]{MaxRuns: 3})
		var mu sync.Mutex // guards started
		started := make(map[string]int)
		requireStarted := func(want map[string]int) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			require.Equal(t, want, started)
		}
		enter := func(tenant string) {
			go func() {
				start(t, r, graph.StartParams[doc]{Tenant: tenant})
				mu.Lock()
				defer mu.Unlock()
				started[tenant]++
			}()
			synctest.Wait()
		}
		for range 7 {
			enter("many")
		}
		requireStarted(map[string]int{"many": 3})
		enter("few")
		enter("one")
		gate <- struct{}{}
		requireStarted(map[string]int{"many": 3, "few": 1})
		gate <- struct{}{}
		requireStarted(map[string]int{"many": 3, "few": 1, "one": 1})
		close(gate)
		requireStarted(map[string]int{"many": 7, "few": 1, "one": 1})
	})
}

func TestOneThatGivesUpWaitingTakesNoPlace(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		gate := make(chan struct{})
		r := newRunner(t, chain(t, parts{beta: gated(gate)}), memory.New(nil), &graph.RunnerOptions[doc]{MaxRuns: 1})
		start(t, r, graph.StartParams[doc]{})
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errBroken)
		defer cancel()
		_, err := r.Start(ctx, graph.StartParams[doc]{})
		require.ErrorIs(t, err, errBroken)
		close(gate)
		synctest.Wait()
		complete(t, r, graph.StartParams[doc]{})
	})
}

func TestAProcessThatOnlyAcceptsLeavesRunsToOthers(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		st, bus := memory.New(nil), event.NewMemory(nil)
		defer bus.Close()
		front := newRunner(t, chain(t, parts{beta: func(context.Context, doc) (doc, error) { panic("executed") }}), st, &graph.RunnerOptions[doc]{AcceptOnly: true, Bus: bus})
		run := start(t, front, graph.StartParams[doc]{Attached: true, Input: &doc{Rest: 1}})
		heard := listen(t, run, 0)
		time.Sleep(time.Minute)
		record, err := st.Run(t.Context(), tenant, run.ID())
		require.NoError(t, err)
		assert.Equal(t, int64(0), record.Epoch)
		assert.False(t, record.Attached, "else whoever takes it would end it")

		serve(t, newRunner(t, chain(t, parts{}), st, &graph.RunnerOptions[doc]{Bus: bus}))
		d, err := run.Wait(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "abbc", d.Trail)
		assert.Equal(t, []string{"run_started", "finished completed"}, heard.heard())
		assert.Equal(t, []string{"input alpha", "step alpha", "step beta", "step beta", "step gamma", "finish gamma completed"}, rows(t, st, run.Session()))
	})
}

func TestAWaitingRunIsLeftToOthersToo(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		st := memory.New(nil)
		front := newRunner(t, chain(t, parts{}), st, &graph.RunnerOptions[doc]{AcceptOnly: true, OnBusy: graph.Wait})
		session := uuid.New()
		first := start(t, front, graph.StartParams[doc]{Session: session, Input: &doc{Text: "one"}})
		second := start(t, front, graph.StartParams[doc]{Session: session, Input: &doc{Text: "two"}})
		serve(t, newRunner(t, chain(t, parts{}), st, nil))
		d, err := first.Wait(t.Context())
		require.NoError(t, err)
		assert.Equal(t, doc{Trail: "abc", Text: "one"}, d)
		d, err = second.Wait(t.Context())
		require.NoError(t, err)
		assert.Equal(t, doc{Trail: "abc", Text: "two"}, d)
	})
}

func TestAnAcceptedRunCanBeCancelledBeforeAnybodyHasIt(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		st := memory.New(nil)
		front := newRunner(t, chain(t, parts{}), st, &graph.RunnerOptions[doc]{AcceptOnly: true})
		run := start(t, front, graph.StartParams[doc]{})
		require.NoError(t, run.Cancel(t.Context()))
		serve(t, newRunner(t, chain(t, parts{alpha: func(context.Context, doc) (doc, error) { panic("executed") }}), st, nil))
		_, err := run.Wait(t.Context())
		require.ErrorIs(t, err, graph.ErrCancelled)
	})
}

func TestAWorkerTakesTheNextRunWhenOneEnds(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		st := memory.New(nil)
		front := newRunner(t, chain(t, parts{}), st, &graph.RunnerOptions[doc]{AcceptOnly: true})
		var runs []*graph.Run[doc]
		for i := range 10 {
			runs = append(runs, start(t, front, graph.StartParams[doc]{Tenant: fmt.Sprint(i % 3)}))
		}
		serve(t, newRunner(t, chain(t, parts{beta: func(ctx context.Context, d doc) (doc, error) {
			time.Sleep(time.Second)
			return d, nil
		}}), st, &graph.RunnerOptions[doc]{MaxRuns: 2}))
		time.Sleep(5*time.Second + time.Millisecond) // two at a time, and no heartbeat in between
		for i, run := range runs {
			record, err := st.Run(t.Context(), fmt.Sprint(i%3), run.ID())
			require.NoError(t, err)
			assert.Equal(t, checkpoint.Completed, record.Status)
		}
	})
}

func TestAFullProcessStillTakesOverRuns(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		st := memory.New(nil)
		gate := make(chan struct{})
		r := newRunner(t, chain(t, parts{beta: gated(gate)}), st, &graph.RunnerOptions[doc]{MaxRuns: 1})
		start(t, r, graph.StartParams[doc]{})
		left := start(t, newRunner(t, chain(t, parts{}), st, &graph.RunnerOptions[doc]{AcceptOnly: true}), graph.StartParams[doc]{})
		serve(t, r)
		synctest.Wait()
		for range 3 { // there is always somebody who waits
			go start(t, r, graph.StartParams[doc]{})
		}
		synctest.Wait()
		gate <- struct{}{}
		gate <- struct{}{}
		synctest.Wait()
		record, err := st.Run(t.Context(), tenant, left.ID())
		require.NoError(t, err)
		assert.Equal(t, checkpoint.Completed, record.Status)
		close(gate)
		synctest.Wait()
	})
}

func TestWhoWaitsForASessionTakesNoPlace(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		st := memory.New(nil)
		f := graphtest.NewFaulty(st, 0, "")
		session := uuid.New()
		dead := start(t, newRunner(t, chain(t, parts{beta: hold}), f, nil), graph.StartParams[doc]{Session: session})
		f.Kill()
		running := 0
		r := newRunner(t, chain(t, parts{beta: func(_ context.Context, d doc) (doc, error) {
			running++
			assert.Equal(t, 1, running)
			time.Sleep(time.Second)
			running--
			return d, nil
		}}), st, &graph.RunnerOptions[doc]{MaxRuns: 1})
		var runs []*graph.Run[doc]
		for range 3 {
			runs = append(runs, start(t, r, graph.StartParams[doc]{Session: session, OnBusy: graph.Wait}))
		}
		serve(t, r)
		_, err := attach(t, r, dead).Wait(t.Context())
		require.NoError(t, err, "what they wait for has room")
		cancelled := start(t, r, graph.StartParams[doc]{Session: session, OnBusy: graph.Wait})
		require.NoError(t, cancelled.Cancel(t.Context()))
		for _, run := range runs {
			_, err := run.Wait(t.Context())
			require.NoError(t, err)
		}
		_, err = cancelled.Wait(t.Context())
		require.ErrorIs(t, err, graph.ErrCancelled)
		began := time.Now()
		for range 2 { // one at a time, still: no place got lost or was given back twice
			runs = append(runs, start(t, r, graph.StartParams[doc]{}))
		}
		for _, run := range runs {
			_, err := run.Wait(t.Context())
			require.NoError(t, err)
		}
		assert.Equal(t, 2*time.Second, time.Since(began))
	})
}

func TestAcceptOnlyNeedsAStoreAndDoesNotServe(t *testing.T) {
	t.Parallel()
	_, err := graph.NewRunner(chain(t, parts{}), nil, &graph.RunnerOptions[doc]{AcceptOnly: true})
	require.ErrorContains(t, err, "AcceptOnly needs a store")
	r := newRunner(t, chain(t, parts{}), memory.New(nil), &graph.RunnerOptions[doc]{AcceptOnly: true})
	require.ErrorContains(t, r.Serve(t.Context()), "AcceptOnly")
	require.NoError(t, r.Shutdown(t.Context()))
	_, err = r.Start(t.Context(), graph.StartParams[doc]{})
	require.ErrorIs(t, err, graph.ErrShutdown)
}

func TestWhoWaitsElsewhereHearsOfTheEndFromTheBus(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		st, bus := memory.New(nil), event.NewMemory(nil)
		defer bus.Close()
		gate := make(chan struct{})
		run := start(t, newRunner(t, chain(t, parts{beta: gated(gate)}), st, &graph.RunnerOptions[doc]{Bus: bus}), graph.StartParams[doc]{})
		elsewhere, err := newRunner(t, chain(t, parts{}), st, &graph.RunnerOptions[doc]{Bus: bus}).Attach(t.Context(), tenant, run.ID())
		require.NoError(t, err)
		time.AfterFunc(time.Second, func() { close(gate) })
		began := time.Now()
		d, err := elsewhere.Wait(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "abc", d.Trail)
		assert.Equal(t, time.Second, time.Since(began), "not at the next look at the store")
	})
}
