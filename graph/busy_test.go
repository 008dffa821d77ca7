package graph_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// gated is work that waits for a turn, and ends with its run.
func gated(gate <-chan struct{}) work {
	return func(ctx context.Context, d doc) (doc, error) {
		select {
		case <-gate:
			return d, nil
		case <-ctx.Done():
			return d, context.Cause(ctx)
		}
	}
}

func TestABusySessionRefusesASecondRun(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		st := memory.New(nil)
		gate := make(chan struct{})
		g := chain(t, parts{beta: gated(gate)})
		r := newRunner(t, g, st, nil)
		run := start(t, r, graph.StartParams[doc]{})
		for name, by := range map[string]*graph.Runner[doc]{"here": r, "elsewhere": newRunner(t, g, st, nil)} {
			for _, resume := range []string{"", `"an answer to nothing"`} {
				id := uuid.New()
				_, err := by.Start(t.Context(), graph.StartParams[doc]{Session: run.Session(), Run: id, Resume: json.RawMessage(resume)})
				busy, ok := errors.AsType[*store.BusyError](err)
				require.True(t, ok, "%s: that it is busy comes before what is wrong with an answer: %v", name, err)
				assert.Equal(t, &store.BusyError{Session: run.Session(), Run: run.ID()}, busy)
				_, err = st.Run(t.Context(), tenant, id)
				assert.ErrorIs(t, err, store.ErrNotFound, "nothing was recorded")
			}
		}
		complete(t, newRunner(t, chain(t, parts{}), st, nil), graph.StartParams[doc]{Session: run.Session(), Tenant: "other"})
		gate <- struct{}{}
		d, err := run.Wait(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "abc", d.Trail)
		close(gate)
		_, d = complete(t, r, graph.StartParams[doc]{Session: run.Session()})
		assert.Equal(t, "abcabc", d.Trail)
	})
}

func TestThatASessionIsBusyComesBeforeWhatIsWrongWithAnInput(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		r := newRunner(t, chain(t, parts{beta: hold}), memory.New(nil), &graph.RunnerOptions[doc]{Codec: picky{}})
		held := start(t, r, graph.StartParams[doc]{})
		_, err := r.Start(t.Context(), graph.StartParams[doc]{Session: held.Session(), Input: &doc{Text: "unmergeable"}})
		assert.ErrorIs(t, err, store.ErrBusy)
		_, err = r.Start(t.Context(), graph.StartParams[doc]{Session: held.Session(), Run: held.ID(), Input: &doc{Text: "unmergeable"}})
		assert.ErrorIs(t, err, store.ErrExists, "and that its id was used before both")
		require.NoError(t, held.Cancel(t.Context()))
	})
}

func TestRunsWaitForTheirSessionInTheOrderOfTheirComing(t *testing.T) {
	t.Parallel()
	for name, elsewhere := range map[string]bool{"in one process": false, "in several": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				st := memory.New(nil)
				gate := make(chan struct{})
				g := chain(t, parts{beta: gated(gate)})
				r := newRunner(t, g, st, &graph.RunnerOptions[doc]{OnBusy: graph.Wait})
				first := start(t, r, graph.StartParams[doc]{Input: &doc{Text: "0"}})
				var waiting []*graph.Run[doc]
				var heard []*listener
				for i := 1; i <= 4; i++ {
					by := r
					if elsewhere {
						by = newRunner(t, g, st, &graph.RunnerOptions[doc]{OnBusy: graph.Wait})
					}
					p := graph.StartParams[doc]{Session: first.Session()}
					if i == 2 {
						p.Input = &doc{Text: fmt.Sprint(i)}
					}
					run := start(t, by, p)
					row := stored(t, st, run.ID())
					assert.True(t, row.Waiting)
					assert.Equal(t, checkpoint.Running, row.Status)
					assert.Zero(t, row.Last, "no checkpoint yet")
					waiting = append(waiting, run)
					heard = append(heard, listen(t, run, 0))
					time.Sleep(time.Second)
				}
				assert.Len(t, rows(t, st, first.Session()), 2)
				for _, l := range heard {
					assert.Equal(t, []string{"run_started"}, l.heard(), "a waiting run can be observed")
				}
				want := []doc{{"abcabc", "0", 0}, {"abc", "2", 0}, {"abcabc", "2", 0}, {"abcabcabc", "2", 0}}
				gate <- struct{}{}
				for i, run := range waiting {
					began := time.Now()
					time.Sleep(5 * time.Second)
					synctest.Wait()
					assert.False(t, stored(t, st, run.ID()).Waiting, "its turn has come")
					gate <- struct{}{}
					d, err := run.Wait(t.Context())
					require.NoError(t, err)
					assert.Equal(t, want[i], d)
					assert.LessOrEqual(t, time.Since(began), 10*time.Second)
					assert.Equal(t, []string{"run_started", "finished completed"}, heard[i].heard())
				}
				var order []uuid.UUID
				for _, c := range checkpoints(t, st, first.Session()) {
					if c.Reason == checkpoint.Finish {
						order = append(order, c.RunID)
					}
				}
				assert.Equal(t, []uuid.UUID{first.ID(), waiting[0].ID(), waiting[1].ID(), waiting[2].ID(), waiting[3].ID()}, order)
			})
		})
	}
}

func TestAWaitingRunStartsAtOnceIfTheOneBeforeItEndsHere(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		gate := make(chan struct{})
		r := newRunner(t, chain(t, parts{beta: gated(gate)}), memory.New(nil), nil)
		first := start(t, r, graph.StartParams[doc]{})
		run := start(t, r, graph.StartParams[doc]{Session: first.Session(), OnBusy: graph.Wait})
		time.Sleep(time.Second)
		began := time.Now()
		close(gate)
		_, err := run.Wait(t.Context())
		require.NoError(t, err)
		assert.Zero(t, time.Since(began), "it does not wait for a heartbeat")
	})
}

func TestARunMayCancelTheOneBeforeIt(t *testing.T) {
	t.Parallel()
	for name, elsewhere := range map[string]bool{"in one process": false, "in another": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				st := memory.New(nil)
				first := true
				g := chain(t, parts{beta: func(ctx context.Context, d doc) (doc, error) {
					if first {
						first = false
						return hold(ctx, d)
					}
					return d, nil
				}})
				r := newRunner(t, g, st, nil)
				by := r
				if elsewhere {
					by = newRunner(t, g, st, nil)
				}
				held := start(t, r, graph.StartParams[doc]{})
				synctest.Wait()
				_, d := complete(t, by, graph.StartParams[doc]{Session: held.Session(), OnBusy: graph.Cancel})
				assert.Equal(t, "aabc", d.Trail)
				requireCancelled(t, nil, held, "alpha")
				assert.Equal(t, []string{"input alpha", "step alpha", "finish alpha cancelled", "input alpha"}, rows(t, st, held.Session())[:4])
			})
		})
	}
	t.Run("on an idle session there is none", func(t *testing.T) {
		t.Parallel()
		st := memory.New(nil)
		r := newRunner(t, chain(t, parts{}), st, &graph.RunnerOptions[doc]{OnBusy: graph.Cancel})
		run, _ := complete(t, r, graph.StartParams[doc]{})
		complete(t, r, graph.StartParams[doc]{Session: run.Session()})
		assert.Equal(t, checkpoint.Completed, stored(t, st, run.ID()).Status)
	})
	t.Run("also with an answer to what the one before asked", func(t *testing.T) {
		t.Parallel()
		inBubble(t, func(t *testing.T) {
			st := memory.New(nil)
			r := newRunner(t, chain(t, parts{beta: func(ctx context.Context, d doc) (doc, error) {
				<-ctx.Done()
				time.Sleep(time.Second) // until then the session is busy
				return d, context.Cause(ctx)
			}}), st, nil)
			held := start(t, r, graph.StartParams[doc]{})
			synctest.Wait()
			run := start(t, r, graph.StartParams[doc]{Session: held.Session(), OnBusy: graph.Cancel, Resume: json.RawMessage(`1`)})
			_, err := run.Wait(t.Context())
			failed, ok := errors.AsType[*graph.RunError](err)
			require.True(t, ok, "%v", err)
			assert.Equal(t, graph.CodeBadResume, failed.Code)
			requireCancelled(t, st, held, "alpha")
		})
	})
}

func TestARunWaitsOnlySoLong(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		st := memory.New(nil)
		r := newRunner(t, chain(t, parts{beta: hold}), st, nil)
		held := start(t, r, graph.StartParams[doc]{})
		began := time.Now()
		run := start(t, r, graph.StartParams[doc]{Session: held.Session(), OnBusy: graph.Wait, Input: &doc{Text: "x"}})
		_, err := run.Wait(t.Context())
		failed, ok := errors.AsType[*graph.RunError](err)
		require.True(t, ok)
		assert.Equal(t, graph.CodeSessionBusy, failed.Code)
		assert.Equal(t, 5*time.Minute, time.Since(began))
		requireHeard(t, run, "run_started", "error session_busy")
		row := stored(t, st, run.ID())
		assert.Equal(t, checkpoint.Failed, row.Status)
		assert.Equal(t, graph.CodeSessionBusy, row.ErrorCode)
		assert.Zero(t, row.Last)
		assert.Equal(t, []string{"input alpha", "step alpha"}, rows(t, st, held.Session()))
		require.NoError(t, held.Cancel(t.Context()))
	})
}

func TestAWaitingRunsAnswerIsCheckedWhenItsTurnComes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer string
		text   string
	}{
		"a right one": {`{"q":"yes"}`, "yes"},
		"a wrong one": {`{"q":"yes","z":"no"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				st := memory.New(nil)
				gate := make(chan struct{})
				r := newRunner(t, chain(t, parts{alpha: gated(gate), beta: ask("q")}), st, nil)
				asks := start(t, r, graph.StartParams[doc]{})
				run := start(t, r, graph.StartParams[doc]{Session: asks.Session(), OnBusy: graph.Wait, Resume: json.RawMessage(c.answer)})
				synctest.Wait()
				close(gate)
				_, err := asks.Wait(t.Context())
				require.ErrorIs(t, err, graph.ErrInterrupted)
				d, err := run.Wait(t.Context())
				if c.text != "" {
					require.NoError(t, err)
					assert.Equal(t, doc{Trail: "abc", Text: c.text}, d)
					return
				}
				failed, ok := errors.AsType[*graph.RunError](err)
				require.True(t, ok)
				assert.Equal(t, graph.CodeBadResume, failed.Code)
				assert.Contains(t, failed.Text, `no open question has the id "z"`)
				requireHeard(t, run, "run_started", "error invalid_resume")
				assert.Equal(t, graph.CodeBadResume, stored(t, st, run.ID()).ErrorCode)
				assert.Equal(t, []string{"input alpha", "step alpha", "interrupt beta interrupted"}, rows(t, st, run.Session()), "it left none")
				_, _, err = finish(t, r, graph.StartParams[doc]{Session: run.Session(), Resume: json.RawMessage(`"yes"`)})
				assert.NoError(t, err, "the question is still open")
			})
		})
	}
}

func TestARunThatIsCancelledWhileItWaitsLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]string{"by its handle": "handle", "by its runner": "runner", "by another runner": "elsewhere"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				st := memory.New(nil)
				gate := make(chan struct{})
				g := chain(t, parts{beta: gated(gate)})
				r := newRunner(t, g, st, nil)
				first := start(t, r, graph.StartParams[doc]{})
				run := start(t, r, graph.StartParams[doc]{Session: first.Session(), OnBusy: graph.Wait, Input: &doc{Text: "x"}})
				after := start(t, r, graph.StartParams[doc]{Session: first.Session(), OnBusy: graph.Wait})
				l := listen(t, run, 0)
				synctest.Wait()
				switch by {
				case "handle":
					require.NoError(t, run.Cancel(t.Context()))
				case "runner":
					require.NoError(t, r.Cancel(t.Context(), "", run.ID()))
				default:
					require.NoError(t, newRunner(t, g, st, nil).Cancel(t.Context(), "", run.ID()))
				}
				_, err := run.Wait(t.Context())
				assert.Equal(t, graph.ErrCancelled, err)
				assert.Equal(t, []string{"run_started", "finished cancelled"}, l.heard())
				row := stored(t, st, run.ID())
				assert.Equal(t, checkpoint.Cancelled, row.Status)
				assert.Zero(t, row.Last)
				close(gate)
				_, err = first.Wait(t.Context())
				require.NoError(t, err)
				d, err := after.Wait(t.Context())
				require.NoError(t, err)
				assert.Equal(t, doc{Trail: "abcabc"}, d, "the one behind it moved up")
				assert.Len(t, rows(t, st, run.Session()), 10)
			})
		})
	}
}

func TestAWaitingRunIsTakenOver(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		st := memory.New(nil)
		f := graphtest.NewFaulty(st, 0, "")
		gate := make(chan struct{})
		g := chain(t, parts{beta: gated(gate)})
		here, dies := newRunner(t, g, st, nil), newRunner(t, g, f, nil)
		first := start(t, here, graph.StartParams[doc]{})
		run := start(t, dies, graph.StartParams[doc]{Session: first.Session(), OnBusy: graph.Wait, Input: &doc{Text: "input"}})
		attached := start(t, dies, graph.StartParams[doc]{Session: first.Session(), OnBusy: graph.Wait, Attached: true})
		synctest.Wait()
		f.Kill()
		serve(t, here)
		time.Sleep(time.Minute)
		elsewhere, err := here.Attach(t.Context(), "", run.ID())
		require.NoError(t, err)
		gone, err := here.Attach(t.Context(), "", attached.ID())
		require.NoError(t, err)
		_, err = gone.Wait(t.Context())
		lost, ok := errors.AsType[*graph.RunError](err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, graph.CodeLost, lost.Code, "its client is gone")
		assert.Zero(t, stored(t, st, attached.ID()).Last)
		close(gate)
		d, err := elsewhere.Wait(t.Context())
		require.NoError(t, err)
		assert.Equal(t, doc{Trail: "abc", Text: "input"}, d, "with its input")
	})
}

func TestAShutdownLeavesWaitingRunsToOthers(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		st := memory.New(nil)
		gate := make(chan struct{})
		g := chain(t, parts{beta: gated(gate)})
		here, there := newRunner(t, g, st, nil), newRunner(t, g, st, nil)
		first := start(t, there, graph.StartParams[doc]{})
		run := start(t, here, graph.StartParams[doc]{Session: first.Session(), OnBusy: graph.Wait, Input: &doc{Text: "input"}})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, here.Shutdown(ctx), context.Canceled)
		_, err := run.Wait(t.Context())
		assert.ErrorIs(t, err, graph.ErrShutdown)
		assert.Equal(t, checkpoint.Running, stored(t, st, run.ID()).Status)
		serve(t, there)
		close(gate)
		elsewhere, err := there.Attach(t.Context(), "", run.ID())
		require.NoError(t, err)
		d, err := elsewhere.Wait(t.Context())
		require.NoError(t, err)
		assert.Equal(t, doc{Trail: "abc", Text: "input"}, d)
	})
}

func TestForksRunBesideTheActiveRun(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		st := memory.New(nil)
		gate := make(chan struct{})
		r := newRunner(t, chain(t, parts{beta: gated(gate)}), st, nil)
		session := uuid.New()
		head := func() checkpoint.Checkpoint {
			c, _, err := r.At(t.Context(), "", session, uuid.Nil)
			require.NoError(t, err)
			return *c
		}
		active := start(t, r, graph.StartParams[doc]{Session: session, Input: &doc{Text: "active"}})
		synctest.Wait()
		step := checkpoints(t, st, session)[1]
		assert.Equal(t, step, head(), "the last checkpoint of the active run")
		fork := start(t, r, graph.StartParams[doc]{Session: session, Checkpoint: step.ID, Input: &doc{Text: "fork"}})
		second := start(t, r, graph.StartParams[doc]{Session: session, Checkpoint: step.ID})
		synctest.Wait()
		assert.Equal(t, step, head(), "not that of a branch")
		for _, branch := range []*graph.Run[doc]{fork, second} {
			assert.True(t, stored(t, st, branch.ID()).Branch, "on a busy session the head makes a branch, too")
			gate <- struct{}{}
		}
		close(gate)
		for run, want := range map[*graph.Run[doc]]doc{active: {"abc", "active", 0}, fork: {"bc", "fork", 0}, second: {"abc", "active", 0}} {
			d, err := run.Wait(t.Context())
			require.NoError(t, err)
			assert.Equal(t, want, d)
		}
		lines := map[int64]bool{}
		for _, run := range []*graph.Run[doc]{active, fork, second} {
			lines[stored(t, st, run.ID()).Line] = true
		}
		assert.Len(t, lines, 3, "each on a line of its own")
	})
}

func TestAnActiveBranchDoesNotMakeTheSessionBusy(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		st := memory.New(nil)
		var gate chan struct{}
		r := newRunner(t, chain(t, parts{beta: func(ctx context.Context, d doc) (doc, error) {
			if gate == nil || d.Text != "branch" {
				return d, nil
			}
			return gated(gate)(ctx, d)
		}}), st, nil)
		run, _ := complete(t, r, graph.StartParams[doc]{})
		gate = make(chan struct{})
		first := checkpoints(t, st, run.Session())[0]
		branch := start(t, r, graph.StartParams[doc]{Session: run.Session(), Checkpoint: first.ID, Input: &doc{Text: "branch"}})
		synctest.Wait()
		_, d := complete(t, r, graph.StartParams[doc]{Session: run.Session()})
		assert.Equal(t, "abcabc", d.Trail, "from the head, which is not the branch's")
		close(gate)
		_, err := branch.Wait(t.Context())
		require.NoError(t, err)
		_, d = complete(t, r, graph.StartParams[doc]{Session: run.Session()})
		assert.Equal(t, doc{Trail: "abcabc", Text: "branch"}, d, "a plain run goes on from the run that ended last")
	})
}

func TestARunFromTheHeadOfAnIdleSessionContinuesIt(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		st := memory.New(nil)
		var gate chan struct{}
		r := newRunner(t, chain(t, parts{beta: func(ctx context.Context, d doc) (doc, error) {
			if gate == nil {
				return d, nil
			}
			return gated(gate)(ctx, d)
		}}), st, nil)
		run, _ := complete(t, r, graph.StartParams[doc]{})
		gate = make(chan struct{})
		line := checkpoints(t, st, run.Session())
		next := start(t, r, graph.StartParams[doc]{Session: run.Session(), Checkpoint: line[4].ID})
		synctest.Wait()
		row := stored(t, st, next.ID())
		assert.False(t, row.Branch)
		assert.Equal(t, stored(t, st, run.ID()).Line, row.Line)
		_, err := r.Start(t.Context(), graph.StartParams[doc]{Session: run.Session()})
		assert.ErrorIs(t, err, store.ErrBusy)
		close(gate)
		_, err = next.Wait(t.Context())
		require.NoError(t, err)
		other, _ := complete(t, r, graph.StartParams[doc]{Session: run.Session(), Checkpoint: line[4].ID})
		assert.True(t, stored(t, st, other.ID()).Branch, "it is not the head any more")
	})
}

func TestAWaitingRunDoesNothingBeforeItsTurn(t *testing.T) {
	t.Parallel()
	// No node of this graph needs a commit before it.
	repeatable := map[string]*graph.NodeOptions{"alpha": {Repeatable: true}, "beta": {Repeatable: true}, "gamma": {Repeatable: true}}
	for name, beta := range map[string]work{"completes": nil, "fails": fails(errBroken), "asks": ask("q")} {
		t.Run("and then "+name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				st := memory.New(nil)
				gate := make(chan struct{})
				first := start(t, newRunner(t, chain(t, parts{beta: gated(gate)}), st, nil), graph.StartParams[doc]{})
				ran := 0
				g := chain(t, parts{options: repeatable, beta: beta, alpha: func(_ context.Context, d doc) (doc, error) { ran++; return d, nil }})
				run := start(t, newRunner(t, g, st, nil), graph.StartParams[doc]{Session: first.Session(), OnBusy: graph.Wait, Input: &doc{Text: "x"}})
				synctest.Wait()
				assert.Zero(t, ran)
				assert.True(t, stored(t, st, run.ID()).Waiting)
				close(gate)
				d, err := run.Wait(t.Context())
				assert.Equal(t, name == "completes", err == nil)
				assert.Equal(t, "x", d.Text)
				assert.Equal(t, 1, ran)
			})
		})
	}
}

// lookingBusy is a store whose sessions look busy to those who load them.
type lookingBusy struct{ *memory.Store }

func (s lookingBusy) Load(ctx context.Context, l *store.Load) (*store.Position, error) {
	pos, err := s.Store.Load(ctx, l)
	if err == nil && l.Run == uuid.Nil {
		pos.Session.Active = uuid.New()
	}
	return pos, err
}

func TestAnAnswerIsCheckedAlsoIfTheSessionBecomesIdleMeanwhile(t *testing.T) {
	t.Parallel()
	st := lookingBusy{memory.New(nil)}
	r := newRunner(t, chain(t, parts{}), st, &graph.RunnerOptions[doc]{CachedSessions: -1})
	run, _ := complete(t, r, graph.StartParams[doc]{})
	run, _, err := finish(t, r, graph.StartParams[doc]{Session: run.Session(), OnBusy: graph.Wait, Resume: json.RawMessage(`1`)})
	failed, ok := errors.AsType[*graph.RunError](err)
	require.True(t, ok, "%v", err)
	assert.Equal(t, graph.CodeBadResume, failed.Code)
	assert.Len(t, rows(t, st, run.Session()), 5)
	requireHeard(t, run, "run_started", "error invalid_resume")
}

// moody is a codec that refuses the third input that it merges.
type moody struct {
	checkpoint.JSON[doc]
	merged *atomic.Int32
}

func (m moody) Merge(from *checkpoint.Checkpoint, current, input doc) (doc, error) {
	if m.merged.Add(1) == 3 {
		return doc{}, errors.New("dial tcp 10.0.0.1: secret")
	}
	return m.JSON.Merge(from, current, input)
}

func TestWhyAWaitingRunCouldNotStartStaysInTheLog(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		st := memory.New(nil)
		r := newRunner(t, chain(t, parts{alpha: hold}), st, &graph.RunnerOptions[doc]{Codec: moody{merged: new(atomic.Int32)}})
		active := start(t, r, graph.StartParams[doc]{Input: &doc{}})
		waiting := start(t, r, graph.StartParams[doc]{Session: active.Session(), Input: &doc{Text: "next"}, OnBusy: graph.Wait})
		require.NoError(t, active.Cancel(t.Context()))
		_, err := waiting.Wait(t.Context())
		failed, ok := errors.AsType[*graph.RunError](err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, graph.CodeNodeError, failed.Code)
		assert.NotContains(t, failed.Text, "secret")
		assert.NotContains(t, stored(t, st, waiting.ID()).Error, "secret")
	})
}
