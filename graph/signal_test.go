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
	"github.com/everstep-go/everstep/internal/tale"
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

func TestWhoAsksAProcessThatGaveARunUpHearsItGoOnElsewhere(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		var log tale.Log
		st := memory.New(nil)
		broken := &watched{Store: st}
		gate := make(chan struct{})
		var runners []*graph.Runner[doc]
		for _, s := range []store.Store{broken, st} {
			bus := event.NewRelay(log.Member(), nil)
			t.Cleanup(func() { bus.Close() })
			runners = append(runners, newRunner(t, speaker(t, gate), s, &graph.RunnerOptions[doc]{Bus: bus}))
		}
		here, there := runners[0], runners[1]
		run := start(t, here, graph.StartParams[doc]{})
		gate <- struct{}{}
		synctest.Wait()
		broken.setRefuse(func(method string) error {
			if method == "Commit" {
				return errBroken
			}
			return nil
		})
		gate <- struct{}{}
		_, err := run.Wait(t.Context())
		require.ErrorIs(t, err, errBroken)
		l := listen(t, attach(t, here, run), 3)
		serve(t, there)
		time.Sleep(time.Minute)
		assert.Contains(t, l.heard(), "b", "while it goes on, not when it has ended")
		close(gate)
		time.Sleep(time.Second)
		assert.Contains(t, l.heard(), "finished completed")
	})
}

// denial is the store of a process that does not know what it has lost.
type denial struct{ *memory.Store }

func (denial) Renew(context.Context, *store.Renew) (*store.Renewed, error) {
	return new(store.Renewed), nil
}

func TestWhoComesFromTheNewOwnerDoesNotHearTheOldOne(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		var log tale.Log
		st := memory.New(nil)
		var runners []*graph.Runner[doc]
		gates := []chan struct{}{make(chan struct{}), make(chan struct{})}
		for i, s := range []store.Store{denial{st}, st} {
			bus := event.NewRelay(log.Member(), nil)
			t.Cleanup(func() { bus.Close() })
			says := parts{alpha: func(ctx context.Context, d doc) (doc, error) {
				say(ctx, "begins")
				d, err := gated(gates[i])(ctx, d)
				say(ctx, "goes on")
				<-gates[i]
				return d, err
			}}
			runners = append(runners, newRunner(t, chain(t, says), s, &graph.RunnerOptions[doc]{Bus: bus}))
		}
		old, owner := runners[0], runners[1]
		run := start(t, old, graph.StartParams[doc]{})
		synctest.Wait()
		serve(t, owner)
		time.Sleep(time.Minute)
		gates[1] <- struct{}{}
		synctest.Wait()
		seen := numbersSoFar(attach(t, owner, run))
		l := listen(t, attach(t, old, run), seen[len(seen)-1])
		synctest.Wait()
		gates[0] <- struct{}{}
		time.Sleep(time.Second)
		close(gates[0])
		_, err := l.ended()
		assert.ErrorIs(t, err, store.ErrLost)
		assert.Empty(t, l.heard(), "what the old one says is of another time")

		l = listen(t, attach(t, old, run), seen[len(seen)-1])
		close(gates[1])
		time.Sleep(time.Second)
		assert.Equal(t, []string{"finished completed"}, l.heard())
	})
}
