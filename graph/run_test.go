package graph_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/graph/graphtest"
	"github.com/everstep-go/everstep/store"
	"github.com/everstep-go/everstep/store/memory"
)

func TestNodesRunInTheOrderOfTheEdgesTheyTake(t *testing.T) {
	t.Parallel()
	for name, open := range stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRunner(t, chain(t, parts{}), open(), nil)
			run, d := complete(t, r, graph.StartParams[doc]{Input: &doc{Trail: ">", Rest: 2}})
			assert.Equal(t, doc{Trail: ">abbbc"}, d, "on top of the input")
			requireHeard(t, run, "run_started", "finished completed")
		})
	}
}

// That a node goes to one that the graph does not have, or by an edge of another node, does not
// compile: Edge.Next returns a Next of its own node. What is left is the zero Next.
func TestANodeThatReturnsNoEdgeFailsTheRun(t *testing.T) {
	t.Parallel()
	g, err := graph.New("lost", graph.Node("astray", &astray{}))
	require.NoError(t, err)
	st := memory.New(nil)
	r := newRunner(t, g, st, nil)
	run, d, err := finish(t, r, graph.StartParams[doc]{Input: &doc{Text: "as it was"}})
	require.ErrorContains(t, err, "returned no edge of its own")
	assert.Equal(t, doc{Text: "as it was"}, d)
	assert.Equal(t, []string{"input astray", "finish astray failed"}, rows(t, st, run.Session()))
}

type astray struct{ Done graph.End[astray] }

func (n *astray) Run(_ context.Context, d doc) (doc, graph.Next[astray], error) {
	d.Text = "changed"
	return d, graph.Next[astray]{}, nil
}

func TestEachStepIsACheckpoint(t *testing.T) {
	t.Parallel()
	st := memory.New(nil)
	r := newRunner(t, chain(t, parts{}), st, nil)
	run, _ := complete(t, r, graph.StartParams[doc]{Input: &doc{Rest: 1}})
	assert.Equal(t, []string{"input alpha", "step alpha", "step beta", "step beta", "step gamma", "finish gamma completed"},
		rows(t, st, run.Session()))

	var parent uuid.UUID
	for i, trail := range []string{"", "a", "ab", "abb", "abbc", "abbc"} {
		c := checkpoints(t, st, run.Session())[i]
		assert.Equal(t, parent, c.ParentID)
		assert.Equal(t, run.ID(), c.RunID)
		assert.Equal(t, run.Session(), c.SessionID)
		assert.Nil(t, c.Metadata)
		assert.Equal(t, trail, stateAt(t, r, run.Session(), c.ID).Trail, "after %s %s", c.Reason, c.Node)
		parent = c.ID
	}
	last := checkpoints(t, st, run.Session())[5]
	assert.Equal(t, last.ID, func() uuid.UUID { c, _, _ := r.At(t.Context(), "", run.Session(), uuid.Nil); return c.ID }())
}

func TestASessionWithoutCheckpointsHasTheZeroState(t *testing.T) {
	t.Parallel()
	st := memory.New(nil)
	r := newRunner(t, chain(t, parts{}), st, nil)
	session := uuid.New()
	_, err := st.CreateSession(t.Context(), tenant, session)
	require.NoError(t, err)
	for range 2 {
		c, d, err := r.At(t.Context(), "", session, uuid.Nil)
		require.NoError(t, err)
		assert.Nil(t, c)
		assert.Equal(t, doc{}, d)
	}
	for _, nowhere := range []struct {
		tenant  string
		session uuid.UUID
	}{{"", uuid.New()}, {"other", session}} {
		c, d, err := r.At(t.Context(), nowhere.tenant, nowhere.session, uuid.Nil)
		require.NoError(t, err, "a run would begin it there")
		assert.Nil(t, c)
		assert.Equal(t, doc{}, d)
	}
}

func TestTheNextRunOfASessionGoesOnFromItsState(t *testing.T) {
	t.Parallel()
	for name, cached := range map[string]int{"kept in memory": 1, "read again": -1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := graphtest.NewFaulty(memory.New(nil), 0, "")
			r := newRunner(t, chain(t, parts{}), f, &graph.RunnerOptions[doc]{CachedSessions: cached})
			session := uuid.New()
			complete(t, r, graph.StartParams[doc]{Session: session, Input: &doc{Trail: ">"}})
			before := len(f.Calls())
			_, d := complete(t, r, graph.StartParams[doc]{Session: session})
			assert.Equal(t, ">abcabc", d.Trail)
			want := []string{"Begin", "Commit", "Commit", "Commit"}
			if cached < 0 {
				want = append([]string{"Load"}, want...)
			}
			assert.Equal(t, want, f.Calls()[before:])
			_, d = complete(t, r, graph.StartParams[doc]{Session: session, Input: &doc{Trail: "new"}})
			assert.Equal(t, "newabc", d.Trail, "an input replaces the state, as the codec says")
			assert.Equal(t, []string{"input alpha", "step alpha", "step beta", "step gamma", "finish gamma completed"},
				rows(t, f, session)[10:])
		})
	}
}

func TestNothingIsLoadedOfASessionThatNobodyKnows(t *testing.T) {
	t.Parallel()
	f := graphtest.NewFaulty(memory.New(nil), 0, "")
	r := newRunner(t, chain(t, parts{}), f, nil)
	complete(t, r, graph.StartParams[doc]{})
	assert.Equal(t, []string{"Begin", "Commit", "Commit", "Commit"}, f.Calls())
	_, err := r.Start(t.Context(), graph.StartParams[doc]{Resume: json.RawMessage(`1`)})
	assert.ErrorIs(t, err, graph.ErrInvalidResume)
}

func TestAStateInMemoryIsNotUsedWhenTheSessionMovedOn(t *testing.T) {
	t.Parallel()
	st := memory.New(nil)
	here, there := newRunner(t, chain(t, parts{}), st, nil), newRunner(t, chain(t, parts{}), st, nil)
	session := uuid.New()
	complete(t, here, graph.StartParams[doc]{Session: session})
	complete(t, there, graph.StartParams[doc]{Session: session})
	_, d := complete(t, here, graph.StartParams[doc]{Session: session})
	assert.Equal(t, "abcabcabc", d.Trail)

	t.Run("nor when it was deleted and made again", func(t *testing.T) {
		require.NoError(t, st.DeleteSession(t.Context(), tenant, session))
		_, d := complete(t, here, graph.StartParams[doc]{Session: session})
		assert.Equal(t, "abc", d.Trail)
		require.NoError(t, here.DeleteSession(t.Context(), "", session))
		_, err := st.Session(t.Context(), tenant, session)
		require.ErrorIs(t, err, store.ErrNotFound)
		_, d = complete(t, here, graph.StartParams[doc]{Session: session})
		assert.Equal(t, "abc", d.Trail)
	})
}

func TestOnlySoManySessionsAreKeptInMemory(t *testing.T) {
	t.Parallel()
	f := graphtest.NewFaulty(memory.New(nil), 0, "")
	r := newRunner(t, chain(t, parts{}), f, &graph.RunnerOptions[doc]{CachedSessions: 2})
	loads := func(session uuid.UUID) int {
		n := len(f.Calls())
		complete(t, r, graph.StartParams[doc]{Session: session})
		count := 0
		for _, call := range f.Calls()[n:] {
			if call == "Load" {
				count++
			}
		}
		return count
	}
	a, b, c := uuid.New(), uuid.New(), uuid.New()
	assert.Equal(t, []int{1, 1, 0, 1}, []int{loads(a), loads(b), loads(a), loads(c)})
	assert.Equal(t, []int{0, 1}, []int{loads(a), loads(b)}, "the one used longest ago went")
}

func TestANodeThatFailsEndsTheRunAsFailed(t *testing.T) {
	t.Parallel()
	for name, open := range stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ran := false
			st := open()
			r := newRunner(t, chain(t, parts{
				beta:  func(_ context.Context, d doc) (doc, error) { d.Text = "half"; return d, errBroken },
				gamma: func(_ context.Context, d doc) (doc, error) { ran = true; return d, nil },
			}), st, nil)
			run, d, err := finish(t, r, graph.StartParams[doc]{})
			assert.ErrorIs(t, err, errBroken)
			failed, ok := errors.AsType[*graph.RunError](err)
			require.True(t, ok)
			assert.Equal(t, &graph.RunError{Run: run.ID(), Code: graph.CodeNodeError, Text: `node "beta" failed`, Err: failed.Err}, failed)
			node, ok := errors.AsType[*graph.NodeError](err)
			require.True(t, ok)
			assert.Equal(t, "beta", node.Node)
			assert.Equal(t, doc{Trail: "a"}, d, "the state from before the node")
			assert.False(t, ran)
			requireHeard(t, run, "run_started", "error node_error")
			if st == nil {
				return
			}
			assert.Equal(t, []string{"input alpha", "step alpha", "finish beta failed"}, rows(t, st, run.Session()))
			row := stored(t, st, run.ID())
			assert.Equal(t, checkpoint.Failed, row.Status)
			assert.Equal(t, graph.CodeNodeError, row.ErrorCode)
			assert.Equal(t, `node "beta" failed`, row.Error, "not the text of an internal error")

			t.Run("and the session goes on from there", func(t *testing.T) {
				g := chain(t, parts{})
				_, d := complete(t, newRunner(t, g, st, nil), graph.StartParams[doc]{Session: run.Session()})
				assert.Equal(t, "aabc", d.Trail)
			})
		})
	}
}

func TestANodeMayFailWithACodeOfItsOwn(t *testing.T) {
	t.Parallel()
	st := memory.New(nil)
	r := newRunner(t, chain(t, parts{alpha: fails(graph.Fail("too_hot", "it is too hot", errBroken))}), st, nil)
	run, _, err := finish(t, r, graph.StartParams[doc]{})
	assert.ErrorIs(t, err, errBroken)
	row := stored(t, st, run.ID())
	assert.Equal(t, "too_hot", row.ErrorCode)
	assert.Equal(t, "it is too hot", row.Error)

	t.Run("without an error beneath it", func(t *testing.T) {
		r := newRunner(t, chain(t, parts{alpha: fails(graph.Fail("too_cold", "it is too cold", nil))}), st, nil)
		_, _, err := finish(t, r, graph.StartParams[doc]{})
		assert.ErrorContains(t, err, "it is too cold")
	})
}

func TestWhatANodeKeepsIsTheStateOfItsFailure(t *testing.T) {
	t.Parallel()
	st := memory.New(nil)
	r := newRunner(t, chain(t, parts{beta: func(ctx context.Context, d doc) (doc, error) {
		graph.Keep(ctx, doc{Text: "forgotten"})
		graph.Keep(ctx, doc{Trail: d.Trail, Text: "half"})
		return doc{Text: "ignored"}, errBroken
	}}), st, nil)
	run, d, err := finish(t, r, graph.StartParams[doc]{})
	require.ErrorIs(t, err, errBroken)
	assert.Equal(t, doc{Trail: "a", Text: "half"}, d)
	assert.Equal(t, d, stateAt(t, r, run.Session(), uuid.Nil))

	t.Run("but not of its success", func(t *testing.T) {
		r := newRunner(t, chain(t, parts{beta: func(ctx context.Context, d doc) (doc, error) {
			graph.Keep(ctx, doc{Text: "forgotten"})
			return d, nil
		}}), st, nil)
		_, d := complete(t, r, graph.StartParams[doc]{})
		assert.Equal(t, doc{Trail: "abc"}, d)
	})
	t.Run("outside a run it does nothing", func(t *testing.T) {
		graph.Keep(t.Context(), doc{})
	})
}

func TestAStateThatChangesInPlaceIsKept(t *testing.T) {
	t.Parallel()
	st := memory.New(nil)
	g, err := graph.New("place", graph.Node("writer", &writer{}))
	require.NoError(t, err)
	r, err := graph.NewRunner(g, st, &graph.RunnerOptions[map[string]int]{CachedSessions: -1})
	require.NoError(t, err)
	session := uuid.New()
	run, err := r.Start(t.Context(), graph.StartParams[map[string]int]{Session: session, Input: &map[string]int{"n": 1}})
	require.NoError(t, err)
	m, err := run.Wait(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]int{"n": 2}, m)
	_, m, err = r.At(t.Context(), "", session, uuid.Nil)
	require.NoError(t, err)
	assert.Equal(t, map[string]int{"n": 2}, m, "what the store has")
}

type writer struct{ Done graph.End[writer] }

func (n *writer) Run(_ context.Context, m map[string]int) (map[string]int, graph.Next[writer], error) {
	m["n"]++
	return m, n.Done.Next(), nil
}

func TestARunIDIsUsedOnce(t *testing.T) {
	t.Parallel()
	st := memory.New(nil)
	r := newRunner(t, chain(t, parts{}), st, nil)
	id := uuid.New()
	run, _ := complete(t, r, graph.StartParams[doc]{Run: id})
	_, err := r.Start(t.Context(), graph.StartParams[doc]{Run: id})
	assert.ErrorIs(t, err, store.ErrExists)
	_, err = r.Start(t.Context(), graph.StartParams[doc]{Run: id, Session: run.Session()})
	assert.ErrorIs(t, err, store.ErrExists)
	assert.Len(t, rows(t, st, run.Session()), 5, "nothing was recorded")
	complete(t, r, graph.StartParams[doc]{Run: id, Tenant: "another"})

	t.Run("also while it runs here", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			for _, st := range []store.Store{nil, memory.New(nil)} {
				r := newRunner(t, chain(t, parts{alpha: hold}), st, nil)
				run := start(t, r, graph.StartParams[doc]{})
				_, err := r.Start(t.Context(), graph.StartParams[doc]{Run: run.ID()})
				assert.ErrorIs(t, err, store.ErrExists)
				require.NoError(t, run.Cancel(t.Context()))
				_, err = run.Wait(t.Context())
				assert.ErrorIs(t, err, graph.ErrCancelled)
			}
		})
	})
}

func TestAnUnknownCheckpointIsNotFound(t *testing.T) {
	t.Parallel()
	st := memory.New(nil)
	r := newRunner(t, chain(t, parts{}), st, nil)
	run, _ := complete(t, r, graph.StartParams[doc]{})
	other, _ := complete(t, r, graph.StartParams[doc]{})
	at := checkpoints(t, st, other.Session())[1].ID
	nobody := uuid.New()
	for name, p := range map[string]graph.StartParams[doc]{
		"unknown":              {Session: run.Session(), Checkpoint: uuid.New()},
		"of another session":   {Session: run.Session(), Checkpoint: at},
		"of another tenant":    {Session: other.Session(), Checkpoint: at, Tenant: "another"},
		"of no session":        {Session: nobody, Checkpoint: at},
		"of a session unnamed": {Checkpoint: at},
	} {
		t.Run(name, func(t *testing.T) {
			p.Run = uuid.New()
			_, err := r.Start(t.Context(), p)
			missing, ok := errors.AsType[*store.NotFoundError](err)
			require.True(t, ok, "%v", err)
			assert.Equal(t, &store.NotFoundError{Resource: store.CheckpointResource, ID: p.Checkpoint}, missing)
			_, err = st.Run(t.Context(), tenant, p.Run)
			assert.ErrorIs(t, err, store.ErrNotFound, "nothing was written")
		})
	}
	_, err := st.Session(t.Context(), tenant, nobody)
	assert.ErrorIs(t, err, store.ErrNotFound)

	t.Run("without a store there are none", func(t *testing.T) {
		r := newRunner(t, chain(t, parts{}), nil, nil)
		_, err := r.Start(t.Context(), graph.StartParams[doc]{Checkpoint: at})
		assert.ErrorIs(t, err, store.ErrNotFound)
		_, _, err = r.At(t.Context(), "", run.Session(), at)
		assert.ErrorIs(t, err, store.ErrNotFound)
		_, err = r.Attach(t.Context(), "", run.ID())
		assert.ErrorIs(t, err, store.ErrNotFound)
		assert.ErrorIs(t, r.DeleteSession(t.Context(), "", run.Session()), store.ErrNotFound)
		assert.ErrorIs(t, r.Cancel(t.Context(), "", run.ID()), store.ErrNotFound)
	})
}

func TestAForkGoesOnAfterItsCheckpoint(t *testing.T) {
	t.Parallel()
	st := memory.New(nil)
	r := newRunner(t, chain(t, parts{}), st, nil)
	run, _ := complete(t, r, graph.StartParams[doc]{Input: &doc{Trail: ">"}})
	line := checkpoints(t, st, run.Session())
	for at, want := range []string{">abc", ">abc", ">abc", ">abcabc", ">abcabc"} {
		t.Run(string(line[at].Reason)+" "+line[at].Node, func(t *testing.T) {
			forked, d := complete(t, r, graph.StartParams[doc]{Session: run.Session(), Checkpoint: line[at].ID})
			assert.Equal(t, want, d.Trail)
			for _, c := range checkpoints(t, st, run.Session()) {
				if c.RunID == forked.ID() && c.Reason == checkpoint.Input {
					assert.Equal(t, line[at].ID, c.ParentID)
				}
			}
			assert.Equal(t, line, checkpoints(t, st, run.Session())[:len(line)], "the old line is untouched")
			assert.Equal(t, want, stateAt(t, r, run.Session(), uuid.Nil).Trail, "the run that ended last is the head")
		})
	}
}

func TestARunnerMaySayWhereRunsStart(t *testing.T) {
	t.Parallel()
	st := memory.New(nil)
	var origins []graph.Origin[doc]
	r := newRunner(t, chain(t, parts{}), st, &graph.RunnerOptions[doc]{StartAt: func(o graph.Origin[doc]) string {
		origins = append(origins, o)
		if o.HasInput {
			return o.State.Text
		}
		return o.Default()
	}})
	run, d := complete(t, r, graph.StartParams[doc]{Input: &doc{Text: "beta"}})
	assert.Equal(t, "bc", d.Trail)
	assert.Equal(t, "input beta", rows(t, st, run.Session())[0])
	complete(t, r, graph.StartParams[doc]{Session: run.Session()})
	_, err := r.Start(t.Context(), graph.StartParams[doc]{Session: run.Session(), Input: &doc{Text: "delta"}})
	assert.ErrorIs(t, err, graph.ErrGraphChanged, "delta is no node")
	assert.Len(t, origins, 4, "the session in memory and the one in the store")
	assert.Nil(t, origins[0].Checkpoint)
	assert.Equal(t, checkpoint.Finish, origins[1].Checkpoint.Reason)
	assert.False(t, origins[1].Forked)
}

func TestStartOnlyWaitsUntilTheRunIsRecorded(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		for name, open := range stores() {
			release := make(chan struct{})
			r := newRunner(t, chain(t, parts{alpha: func(ctx context.Context, d doc) (doc, error) {
				<-release
				return d, ctx.Err()
			}}), open(), nil)
			ctx, cancel := context.WithCancel(t.Context())
			run, err := r.Start(ctx, graph.StartParams[doc]{})
			require.NoError(t, err, name)
			cancel()
			time.Sleep(time.Minute)
			close(release)
			_, err = run.Wait(t.Context())
			require.NoError(t, err, "the end of Start's context is not that of the run")
		}
	})
}

func TestWaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		st := memory.New(nil)
		r := newRunner(t, chain(t, parts{alpha: hold}), st, nil)
		run := start(t, r, graph.StartParams[doc]{})
		elsewhere, err := newRunner(t, chain(t, parts{}), st, nil).Attach(t.Context(), "", run.ID())
		require.NoError(t, err)
		for _, run := range []*graph.Run[doc]{run, elsewhere} {
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errBroken)
			defer cancel()
			_, err := run.Wait(ctx)
			assert.ErrorIs(t, err, errBroken)
			_, err = heard(ctx, run, 0)
			assert.ErrorIs(t, err, errBroken)
		}
		require.NoError(t, run.Cancel(t.Context()))
	})
}

// behind is a bus that has heard less of a run than the observer, and clamps the number that it is asked
// to go on after.
type behind struct {
	*event.Memory
	events []event.Event
}

func (b *behind) Subscribe(context.Context, string, uuid.UUID, int64) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) { yield(event.Event{}, event.ErrNoLog) }
}

func (b *behind) Follow(context.Context, string, uuid.UUID, int64) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for _, e := range b.events {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func TestAnObserverWhoComesFromAProcessThatKnewMoreHearsNothingTwice(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		st := memory.New(nil)
		run := start(t, newRunner(t, chain(t, parts{beta: hold}), st, nil), graph.StartParams[doc]{})
		bus := &behind{Memory: event.NewMemory(nil)}
		defer bus.Close()
		for i, d := range []event.Data{event.ToolCallEnd{}, event.ToolCallEnd{}, event.ToolCallEnd{}, event.RunFinished{Status: "completed"}} {
			bus.events = append(bus.events, event.Event{Seq: int64(i + 2), Data: d})
		}
		there := newRunner(t, chain(t, parts{}), st, &graph.RunnerOptions[doc]{Bus: bus})
		var got []int64
		for e, err := range attach(t, there, run).Events(t.Context(), 3) {
			require.NoError(t, err)
			got = append(got, e.Seq)
		}
		assert.Equal(t, []int64{4, 5}, got, "2 and 3 it has")
		require.NoError(t, run.Cancel(t.Context()))
	})
}
