package graph_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/store"
	"github.com/everstep-go/everstep/store/memory"
)

// neighbours are two runners on one store and one bus, as of two processes.
func neighbours(t *testing.T, p parts) (here, there *graph.Runner[doc], st store.Store) {
	t.Helper()
	bus := event.NewMemory(nil)
	t.Cleanup(func() { bus.Close() })
	st = memory.New(nil)
	o := &graph.RunnerOptions[doc]{Bus: bus}
	return newRunner(t, chain(t, p), st, o), newRunner(t, chain(t, p), st, o), st
}

func TestACancelReachesAnotherProcessAtOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		here, there, _ := neighbours(t, parts{beta: hold})
		run := start(t, here, graph.StartParams[doc]{})
		time.Sleep(time.Second)
		require.NoError(t, there.Cancel(t.Context(), tenant, run.ID()))
		began := time.Now()
		_, err := run.Wait(t.Context())
		require.ErrorIs(t, err, graph.ErrCancelled)
		assert.Zero(t, time.Since(began))
	})
}

func TestARunThatIsGivenUpIsTakenOverAtOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		here, there, st := neighbours(t, parts{beta: hold})
		serve(t, there)
		run := start(t, here, graph.StartParams[doc]{})
		time.Sleep(time.Second)
		before, err := st.Run(t.Context(), tenant, run.ID())
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, here.Shutdown(ctx), context.Canceled)
		synctest.Wait()
		after, err := st.Run(t.Context(), tenant, run.ID())
		require.NoError(t, err)
		assert.NotEqual(t, uuid.Nil, after.Owner)
		assert.NotEqual(t, before.Owner, after.Owner)
		require.NoError(t, there.Cancel(t.Context(), tenant, run.ID()))
	})
}

func TestAnAcceptedRunIsTakenUpAtOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		bus := event.NewMemory(nil)
		defer bus.Close()
		st := memory.New(nil)
		serve(t, newRunner(t, chain(t, parts{}), st, &graph.RunnerOptions[doc]{Bus: bus}))
		front := newRunner(t, chain(t, parts{}), st, &graph.RunnerOptions[doc]{Bus: bus, AcceptOnly: true})
		time.Sleep(time.Second)
		run := start(t, front, graph.StartParams[doc]{})
		synctest.Wait()
		record, err := st.Run(t.Context(), tenant, run.ID())
		require.NoError(t, err)
		assert.True(t, record.Status.Ended())
	})
}

func TestAWaitingRunBeginsWhenTheSessionIsLeftElsewhere(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		gate := make(chan struct{})
		here, there, _ := neighbours(t, parts{beta: gated(gate)})
		session := uuid.New()
		start(t, here, graph.StartParams[doc]{Session: session})
		waiting := start(t, there, graph.StartParams[doc]{Session: session, OnBusy: graph.Wait})
		time.Sleep(time.Second)
		began := time.Now()
		close(gate)
		_, err := waiting.Wait(t.Context())
		require.NoError(t, err)
		assert.Zero(t, time.Since(began))
	})
}

func TestARunGivenUpForAFaultIsNotSignalled(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		bus := event.NewMemory(nil)
		defer bus.Close()
		st := &watched{Store: memory.New(nil), refuse: func(method string) error {
			if method == "Commit" {
				return errBroken
			}
			return nil
		}}
		r := newRunner(t, chain(t, parts{}), st, &graph.RunnerOptions[doc]{Bus: bus})
		heard := 0
		go func() {
			for s := range bus.Signals(t.Context()) {
				if s.Kind == event.RunUnclaimed {
					heard++
				}
			}
		}()
		synctest.Wait()
		_, _, err := finish(t, r, graph.StartParams[doc]{})
		require.ErrorIs(t, err, errBroken)
		synctest.Wait()
		assert.Zero(t, heard, "or this process would take it up again and again")
	})
}
