package graph_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
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
	"github.com/everstep-go/everstep/store"
	"github.com/everstep-go/everstep/store/memory"
)

// speaker is a graph whose nodes say their names and, if there is a gate, wait.
func speaker(t testing.TB, gate chan struct{}) *graph.Graph[doc] {
	t.Helper()
	says := func(text string) work {
		return func(ctx context.Context, d doc) (doc, error) {
			say(ctx, text)
			if gate == nil {
				return d, nil
			}
			return gated(gate)(ctx, d)
		}
	}
	return chain(t, parts{alpha: says("a"), beta: says("b"), gamma: says("c")})
}

func numbers(t testing.TB, run *graph.Run[doc], after int64) (seqs []int64) {
	t.Helper()
	for e, err := range run.Events(t.Context(), after) {
		require.NoError(t, err)
		seqs = append(seqs, e.Seq)
	}
	return seqs
}

func TestEventsAreNumberedFromOneAndSayWhoseTheyAre(t *testing.T) {
	t.Parallel()
	for name, open := range stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRunner(t, speaker(t, nil), open(), nil)
			run, _ := complete(t, r, graph.StartParams[doc]{Tenant: "acme", Input: &doc{Rest: 1}})
			var texts []string
			var at time.Time
			next := int64(1)
			for e, err := range run.Events(t.Context(), 0) {
				require.NoError(t, err)
				assert.Equal(t, next, e.Seq)
				assert.Equal(t, "acme", e.Tenant)
				assert.Equal(t, run.Session(), e.Session)
				assert.Equal(t, run.ID(), e.Run)
				assert.False(t, e.Time.Before(at))
				at = e.Time
				texts = append(texts, words(e))
				next++
			}
			assert.Equal(t, []string{"run_started", "a", "b", "b", "c", "finished completed"}, texts)
		})
	}
}

func TestTheLastEventHasTheResult(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		codec  resulting
		result string
	}{
		"the codec's":         {resulting{text: `{"x":1}`}, `{"x":1}`},
		"none for null":       {resulting{text: `null`}, ``},
		"none for none":       {resulting{}, ``},
		"none if it has none": {resulting{err: errBroken}, ``},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRunner(t, chain(t, parts{}), nil, &graph.RunnerOptions[doc]{Codec: c.codec})
			run, _ := complete(t, r, graph.StartParams[doc]{})
			for e, err := range run.Events(t.Context(), 1) {
				require.NoError(t, err)
				assert.Equal(t, c.result, string(e.Data.(event.RunFinished).Result))
			}
		})
	}
}

type resulting struct {
	picky
	text string
	err  error
}

func (r resulting) Result(doc) (json.RawMessage, error) { return json.RawMessage(r.text), r.err }

func TestAnObserverMayComeAtAnyTime(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		gate := make(chan struct{})
		r := newRunner(t, speaker(t, gate), memory.New(nil), nil)
		run := start(t, r, graph.StartParams[doc]{})
		all := []string{"run_started", "a", "b", "c", "finished completed"}
		early := listen(t, run, 0)
		gate <- struct{}{}
		synctest.Wait()
		late := listen(t, attach(t, r, run), 0)
		from := listen(t, run, 2)
		beyond := listen(t, run, 1000)
		assert.Equal(t, all[:3], late.heard(), "what was said before is kept")
		assert.Equal(t, all[2:3], from.heard())
		assert.Empty(t, beyond.heard())
		for e, err := range run.Events(t.Context(), 0) {
			require.NoError(t, err)
			require.Equal(t, int64(1), e.Seq)
			break // only stops watching
		}
		close(gate)
		for _, l := range []*listener{early, late} {
			assert.Equal(t, all, l.heard())
			done, err := l.ended()
			assert.True(t, done)
			assert.NoError(t, err)
		}
		assert.Equal(t, all[2:], from.heard())
		assert.Equal(t, all[3:], beyond.heard(), "a number beyond the last counts as the last")

		again := run.Events(t.Context(), 3)
		for range 2 {
			n := 0
			for _, err := range again {
				require.NoError(t, err)
				n++
			}
			assert.Equal(t, 2, n, "each loop starts anew")
		}
		assert.Empty(t, numbers(t, run, 5), "after the last event there is nothing")
	})
}

func TestALiveObserverHearsWhatIsNewAndAlwaysTheEnd(t *testing.T) {
	t.Parallel()
	all := []string{"run_started", "a", "b", "c", "finished completed"}
	for name, open := range stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				gate := make(chan struct{})
				bus := event.NewMemory(&event.MemoryOptions{Keep: time.Minute})
				r := newRunner(t, speaker(t, gate), open(), &graph.RunnerOptions[doc]{Bus: bus})
				run := start(t, r, graph.StartParams[doc]{})
				first := listen(t, run, graph.Live)
				assert.Empty(t, first.heard())
				gate <- struct{}{}
				synctest.Wait()
				second := listen(t, run, graph.Live)
				assert.Empty(t, second.heard())
				close(gate)
				assert.Equal(t, all[2:], first.heard())
				assert.Equal(t, all[3:], second.heard())
				assert.Equal(t, all[4:], listen(t, run, graph.Live).heard(), "also one who comes too late")
			})
		})
	}
	t.Run("when the log is full", func(t *testing.T) {
		t.Parallel()
		inBubble(t, func(t *testing.T) {
			bus := event.NewMemory(&event.MemoryOptions{Bytes: 300, Keep: time.Minute})
			r := newRunner(t, speaker(t, nil), memory.New(nil), &graph.RunnerOptions[doc]{Bus: bus})
			run, _ := complete(t, r, graph.StartParams[doc]{})
			assert.Equal(t, all[4:], listen(t, run, graph.Live).heard())
		})
	})
	t.Run("when the log is gone", func(t *testing.T) {
		t.Parallel()
		inBubble(t, func(t *testing.T) {
			r := newRunner(t, speaker(t, nil), memory.New(nil), nil)
			run, _ := complete(t, r, graph.StartParams[doc]{})
			time.Sleep(time.Hour)
			got := listen(t, run, graph.Live).heard()
			assert.Equal(t, "finished completed", got[len(got)-1])
		})
	})
}

func TestAfterAShutdownObserversHearOnlyWhatIsKept(t *testing.T) {
	t.Parallel()
	for name, bus := range map[string]func() event.Bus{
		"one bus": func() event.Bus { return event.NewMemory(&event.MemoryOptions{Keep: time.Minute}) },
		"no bus":  func() event.Bus { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				st, shared, gate := memory.New(nil), bus(), make(chan struct{})
				here := newRunner(t, speaker(t, nil), st, &graph.RunnerOptions[doc]{Bus: shared})
				there := newRunner(t, speaker(t, gate), st, &graph.RunnerOptions[doc]{Bus: shared})
				over, _ := complete(t, here, graph.StartParams[doc]{})
				remote := attach(t, here, start(t, there, graph.StartParams[doc]{}))
				l := listen(t, remote, 0)
				done, _ := l.ended()
				require.False(t, done)
				require.NoError(t, here.Shutdown(t.Context()))
				for _, l := range []*listener{l, listen(t, remote, 0)} {
					done, err := l.ended()
					assert.True(t, done, "nobody waits for a server that is down")
					assert.ErrorIs(t, err, graph.ErrShutdown)
				}
				heard := listen(t, over, 0).heard()
				assert.Equal(t, []string{"run_started", "a", "b", "c", "finished completed"}, heard)
				close(gate)
				_, err := remote.Wait(t.Context())
				require.NoError(t, err)
				replay := listen(t, remote, 0)
				heard = replay.heard()
				assert.Equal(t, "finished completed", heard[len(heard)-1])
				_, err = replay.ended()
				assert.NoError(t, err)
			})
		})
	}
}

func TestLettingGoOfAnAttachedRunCancelsIt(t *testing.T) {
	t.Parallel()
	for name, hold := range map[string]func(ctx context.Context, cancel func(), run *graph.Run[doc]){
		"by breaking the loop": func(ctx context.Context, _ func(), run *graph.Run[doc]) {
			for range run.Hold(ctx) {
				break
			}
		},
		"by the end of the context": func(ctx context.Context, cancel func(), run *graph.Run[doc]) {
			for _, err := range run.Hold(ctx) {
				if cancel(); err != nil {
					break
				}
			}
		},
		"by a panic": func(ctx context.Context, _ func(), run *graph.Run[doc]) {
			defer func() { _ = recover() }()
			for range run.Hold(ctx) {
				panic("out of the loop")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				r := newRunner(t, speaker(t, make(chan struct{})), memory.New(nil), nil)
				run := start(t, r, graph.StartParams[doc]{Attached: true})
				ctx, cancel := context.WithCancel(t.Context())
				hold(ctx, cancel, run)
				ended, err := run.Wait(t.Context())
				assert.ErrorIs(t, err, graph.ErrCancelled, "%v", ended)
			})
		})
	}
	t.Run("but not one that has ended", func(t *testing.T) {
		t.Parallel()
		r := newRunner(t, speaker(t, nil), memory.New(nil), nil)
		run := start(t, r, graph.StartParams[doc]{Attached: true})
		n := 0
		for _, err := range run.Hold(t.Context()) {
			require.NoError(t, err)
			n++
		}
		assert.Equal(t, 5, n)
		_, err := run.Wait(t.Context())
		assert.NoError(t, err)
	})
	t.Run("and not one that goes on elsewhere", func(t *testing.T) {
		t.Parallel()
		inBubble(t, func(t *testing.T) {
			st := memory.New(nil)
			r := newRunner(t, speaker(t, make(chan struct{})), st, nil)
			run := start(t, r, graph.StartParams[doc]{Attached: true})
			var last error
			go func() {
				for _, err := range run.Hold(t.Context()) {
					last = err
				}
			}()
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_ = r.Shutdown(ctx)
			synctest.Wait()
			assert.ErrorIs(t, last, graph.ErrShutdown)
			kept, err := st.Run(t.Context(), tenant, run.ID())
			require.NoError(t, err)
			assert.Equal(t, checkpoint.Running, kept.Status)
			assert.False(t, kept.CancelRequested)
		})
	})
}

func TestAnObserverWhoMissedEventsGetsASnapshot(t *testing.T) {
	t.Parallel()
	for name, snapshot := range map[string]func(doc) []event.Data{
		"the default": nil,
		"its own": func(d doc) []event.Data {
			return []event.Data{event.TextMessageContent{Delta: "one " + d.Trail}, event.TextMessageContent{Delta: "two"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				gate := make(chan struct{})
				bus := event.NewMemory(&event.MemoryOptions{Bytes: 1000})
				g := chain(t, parts{beta: func(ctx context.Context, d doc) (doc, error) {
					for i := range 100 {
						say(ctx, fmt.Sprint(i))
					}
					return gated(gate)(ctx, d)
				}})
				r := newRunner(t, g, memory.New(nil), &graph.RunnerOptions[doc]{Bus: bus, Snapshot: snapshot})
				run := start(t, r, graph.StartParams[doc]{})
				synctest.Wait()
				l := listen(t, run, 0)
				got := l.heard()
				want := []string{`snapshot {"Trail":"a","Text":"","Rest":0}`}
				if snapshot != nil {
					want = []string{"one a", "two"}
				}
				assert.Equal(t, want, got[:len(want)])
				assert.Equal(t, "99", got[len(got)-1], "then what is kept")
				close(gate)
				got = l.heard()
				assert.Equal(t, "finished completed", got[len(got)-1])
				last := int64(0)
				for e, err := range run.Events(t.Context(), 0) {
					require.NoError(t, err)
					if e.Data.Kind() != event.KindStateSnapshot {
						assert.GreaterOrEqual(t, e.Seq, last)
					}
					last = e.Seq
				}
			})
		})
	}
	t.Run("the rest of it if it has a part", func(t *testing.T) {
		t.Parallel()
		for name, keep := range map[string]time.Duration{"of a full log": time.Minute, "of a log that is gone": -1} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				bus := event.NewMemory(&event.MemoryOptions{Bytes: 300, Keep: keep})
				t.Cleanup(func() { _ = bus.Close() })
				parts := func(d doc) []event.Data {
					return []event.Data{event.StateSnapshot{}, event.MessagesSnapshot{}, event.TextMessageContent{Delta: "and more"}}
				}
				r := newRunner(t, speaker(t, nil), memory.New(nil), &graph.RunnerOptions[doc]{Bus: bus, Snapshot: parts})
				run, _ := complete(t, r, graph.StartParams[doc]{})
				all := func(after int64) (kinds []event.Kind, seqs []int64) {
					for e, err := range run.Events(t.Context(), after) {
						require.NoError(t, err)
						kinds, seqs = append(kinds, e.Data.Kind()), append(seqs, e.Seq)
					}
					return kinds, seqs
				}
				want, seqs := all(0)
				require.Equal(t, event.KindStateSnapshot, want[0])
				require.True(t, slices.IsSorted(seqs))
				for cut := range want {
					got, _ := all(seqs[cut])
					for _, kind := range want[cut+1:] {
						assert.Contains(t, got, kind, "cut off after %d of %v", cut+1, want)
					}
				}
			})
		}
	})
	t.Run("one that is too slow, too", func(t *testing.T) {
		t.Parallel()
		inBubble(t, func(t *testing.T) {
			bus := event.NewMemory(&event.MemoryOptions{Bytes: 1000})
			told := make(chan struct{})
			g := chain(t, parts{beta: func(ctx context.Context, d doc) (doc, error) {
				<-told
				for i := range 100 {
					say(ctx, fmt.Sprint(i))
				}
				return d, nil
			}})
			r := newRunner(t, g, memory.New(nil), &graph.RunnerOptions[doc]{Bus: bus})
			run := start(t, r, graph.StartParams[doc]{})
			var got []string
			for e, err := range run.Events(t.Context(), 0) {
				require.NoError(t, err)
				if len(got) == 0 {
					close(told)
					_, err := run.Wait(t.Context())
					require.NoError(t, err, "it never slows the run")
				}
				got = append(got, words(e))
			}
			require.Equal(t, "run_started", got[0])
			assert.Equal(t, `snapshot {"Trail":"abc","Text":"","Rest":0}`, got[1])
			assert.Equal(t, "finished completed", got[len(got)-1])
		})
	})
	t.Run("without a store there is none", func(t *testing.T) {
		t.Parallel()
		bus := event.NewMemory(&event.MemoryOptions{Bytes: 1})
		r := newRunner(t, speaker(t, nil), nil, &graph.RunnerOptions[doc]{Bus: bus})
		run, _ := complete(t, r, graph.StartParams[doc]{})
		_, err := heard(t.Context(), run, 0)
		assert.ErrorIs(t, err, event.ErrGap)
	})
}

func TestTheEndOfARunIsKnownAfterItsLogIsGone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		parts parts
		want  []string
	}{
		"completed":   {parts{}, []string{`snapshot {"Trail":"abc","Text":"","Rest":0}`, "finished completed"}},
		"failed":      {parts{beta: fails(errBroken)}, []string{`snapshot {"Trail":"a","Text":"","Rest":0}`, "error node_error"}},
		"interrupted": {parts{beta: ask("q")}, []string{`snapshot {"Trail":"a","Text":"","Rest":0}`, "finished interrupted"}},
		"cancelled":   {parts{beta: hold}, []string{`snapshot {"Trail":"a","Text":"","Rest":0}`, "finished cancelled"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				st := memory.New(nil)
				g := chain(t, c.parts)
				r, other := newRunner(t, g, st, nil), newRunner(t, g, st, nil)
				run := start(t, r, graph.StartParams[doc]{})
				synctest.Wait()
				if name == "cancelled" {
					require.NoError(t, run.Cancel(t.Context()))
				}
				state, end := run.Wait(t.Context())
				var terminal event.Data
				for e, err := range run.Events(t.Context(), 1) {
					require.NoError(t, err)
					terminal = e.Data
				}
				time.Sleep(2 * time.Minute)
				for _, by := range []*graph.Run[doc]{run, attach(t, r, run), attach(t, other, run)} {
					for _, after := range []int64{0, 1, 40} {
						got, err := heard(t.Context(), by, after)
						require.NoError(t, err)
						assert.Equal(t, c.want, got)
					}
					var last event.Event
					for e, err := range by.Events(t.Context(), 0) {
						require.NoError(t, err)
						last = e
					}
					assert.Equal(t, terminal, last.Data, "as it was said")
					assert.Equal(t, run.ID(), last.Run)
					assert.Equal(t, run.Session(), last.Session)
					d, err := by.Wait(t.Context())
					assert.Equal(t, state, d)
					switch end := end.(type) {
					case *graph.RunError:
						assert.Equal(t, graph.CodeNodeError, err.(*graph.RunError).Code)
						assert.Equal(t, end.Text, err.(*graph.RunError).Text)
					default:
						assert.Equal(t, end, err)
					}
				}
			})
		})
	}
}

func TestARunIsObservedFromAnotherProcessOnceItIsTakenOverThere(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		st := memory.New(nil)
		f := graphtest.NewFaulty(st, 0, "")
		gate := make(chan struct{})
		dies := newRunner(t, speaker(t, gate), f, nil)
		there := newRunner(t, speaker(t, gate), st, nil)
		run := start(t, dies, graph.StartParams[doc]{})
		gate <- struct{}{}
		synctest.Wait()
		seen := numbersSoFar(run)
		assert.Equal(t, []int64{1, 2, 3}, seen)
		old := listen(t, run, 0)
		waiting := listen(t, attach(t, there, run), 3)
		f.Kill()
		serve(t, there)
		time.Sleep(time.Minute)
		done, err := old.ended()
		assert.True(t, done)
		assert.Error(t, err, "whoever listens here learns that it is not over")
		close(gate)
		_, err = attach(t, there, run).Wait(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []string{`snapshot {"Trail":"a","Text":"","Rest":0}`, "b", "c", "finished completed"}, waiting.heard())
		var last int64 = 3
		for e, err := range attach(t, there, run).Events(t.Context(), 3) {
			require.NoError(t, err)
			assert.GreaterOrEqual(t, e.Seq, last)
			assert.Less(t, e.Seq, int64(1)<<53, "a number that JSON can hold")
			if e.Data.Kind() != event.KindStateSnapshot {
				assert.Greater(t, e.Seq, int64(1)<<32, "above everything that the first process may have sent")
			}
			last = e.Seq
		}
	})
}

// numbersSoFar returns the numbers of what was said already.
func numbersSoFar(run *graph.Run[doc]) (seqs []int64) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for e, err := range run.Events(ctx, 0) {
		if err == nil {
			seqs = append(seqs, e.Seq)
		}
	}
	return seqs
}

func TestRunnersMayShareABus(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		st, bus := memory.New(nil), event.NewMemory(nil)
		gate := make(chan struct{})
		here := newRunner(t, speaker(t, gate), st, &graph.RunnerOptions[doc]{Bus: bus})
		there := newRunner(t, speaker(t, gate), st, &graph.RunnerOptions[doc]{Bus: bus})
		run := start(t, here, graph.StartParams[doc]{})
		l := listen(t, attach(t, there, run), 0)
		close(gate)
		assert.Equal(t, []string{"run_started", "a", "b", "c", "finished completed"}, l.heard())
		d, err := attach(t, there, run).Wait(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "abc", d.Trail)
	})
}

func TestWaitSeesTheEndOfARunInAnotherProcess(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		st := memory.New(nil)
		gate := make(chan struct{})
		here, there := newRunner(t, speaker(t, gate), st, nil), newRunner(t, speaker(t, nil), st, nil)
		run := start(t, here, graph.StartParams[doc]{})
		elsewhere := attach(t, there, run)
		assert.Equal(t, run.ID(), elsewhere.ID())
		assert.Equal(t, run.Session(), elsewhere.Session())
		go func() { time.Sleep(time.Minute); close(gate) }()
		began := time.Now()
		d, err := elsewhere.Wait(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "abc", d.Trail)
		assert.LessOrEqual(t, time.Since(began), time.Minute+5*time.Second)
		_, err = there.Attach(t.Context(), "other", run.ID())
		assert.ErrorIs(t, err, store.ErrNotFound)
		_, err = there.Attach(t.Context(), "", uuid.New())
		assert.ErrorIs(t, err, store.ErrNotFound)
		require.NoError(t, st.DeleteSession(t.Context(), tenant, run.Session()))
		_, err = elsewhere.Wait(t.Context())
		assert.ErrorIs(t, err, store.ErrNotFound)
		_, err = heard(t.Context(), elsewhere, 0)
		assert.ErrorIs(t, err, store.ErrNotFound)
	})
}

func TestManyEmittersLoseNothing(t *testing.T) {
	t.Parallel()
	r := newRunner(t, chain(t, parts{beta: func(ctx context.Context, d doc) (doc, error) {
		errs := make(chan error, 20)
		for i := range 20 {
			go func() {
				_, err := graph.Task(ctx, fmt.Sprint(i), func(ctx context.Context) (int, error) {
					for j := range 20 {
						say(ctx, fmt.Sprint(i, ".", j))
					}
					return 0, nil
				})
				errs <- err
			}()
		}
		for range 20 {
			if err := <-errs; err != nil {
				return d, err
			}
		}
		return d, nil
	}}), memory.New(nil), nil)
	run, _ := complete(t, r, graph.StartParams[doc]{})
	got, err := heard(t.Context(), run, 0)
	require.NoError(t, err)
	assert.Len(t, got, 402)
	last := make(map[string]int)
	for _, text := range got[1:401] {
		who, what, _ := strings.Cut(text, ".")
		assert.Equal(t, fmt.Sprint(last[who]), what, "those of one stay in order")
		last[who]++
	}
}
