package graph_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/graph/graphtest"
	"github.com/everstep-go/everstep/store/memory"
)

// ask is the work of a node that asks one question, and notes the answer.
func ask(id string) work {
	return func(ctx context.Context, d doc) (doc, error) {
		reply, err := graph.Interrupt[string](ctx, id, map[string]string{"what": id})
		d.Text += reply
		return d, err
	}
}

// askEach is the work of a node that asks several questions at once, each in a task of its own,
// and notes the answers.
func askEach(ids ...string) work {
	return func(ctx context.Context, d doc) (doc, error) {
		var tasks sync.WaitGroup
		replies, errs := make([]string, len(ids)), make([]error, len(ids))
		for i, id := range ids {
			tasks.Go(func() {
				replies[i], errs[i] = graph.Task(ctx, id, func(ctx context.Context) (string, error) {
					return graph.Interrupt[string](ctx, "", "what is "+id+"?")
				})
			})
		}
		tasks.Wait()
		for _, reply := range replies {
			d.Text += reply
		}
		return d, errors.Join(errs...)
	}
}

// questions returns the ids of the questions that a run ended with.
func questions(t testing.TB, err error) []string {
	t.Helper()
	asked, ok := errors.AsType[*graph.InterruptedError](err)
	require.True(t, ok, "%v", err)
	ids := make([]string, 0)
	for _, q := range asked.Questions {
		ids = append(ids, q.ID)
	}
	return ids
}

func TestANodeThatAsksEndsTheRunAsInterrupted(t *testing.T) {
	t.Parallel()
	for name, open := range stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := open()
			passed := false
			r := newRunner(t, chain(t, parts{beta: func(ctx context.Context, d doc) (doc, error) {
				d.Text = "not kept"
				if _, err := graph.Interrupt[string](ctx, "q", map[string]any{"b": "<1>", "a": nil}); err != nil {
					return d, fmt.Errorf("wrapped: %w", err)
				}
				passed = true
				return d, nil
			}}), st, nil)
			run, d, err := finish(t, r, graph.StartParams[doc]{})
			assert.Equal(t, &graph.InterruptedError{Questions: []graph.Question{
				{ID: "q", Name: "beta", Payload: json.RawMessage(`{"a":null,"b":"<1>"}`)},
			}}, err)
			assert.ErrorIs(t, err, graph.ErrInterrupted)
			assert.ErrorContains(t, err, `"q"`)
			assert.False(t, passed)
			assert.Equal(t, doc{Trail: "a"}, d, "the state from before the node")

			var last event.RunFinished
			for e, err := range run.Events(t.Context(), 0) {
				require.NoError(t, err)
				last, _ = e.Data.(event.RunFinished)
			}
			assert.Equal(t, "interrupted", last.Status)
			payload := `{"interrupts":[{"id":"q","name":"beta","payload":{"a":null,"b":"<1>"}}]}`
			assert.Equal(t, payload, string(last.InterruptPayload))
			if st == nil {
				return
			}
			assert.Equal(t, []string{"input alpha", "step alpha", "interrupt beta interrupted"}, rows(t, st, run.Session()))
			at := checkpoints(t, st, run.Session())[2]
			assert.JSONEq(t, `{"interrupt_payload":`+payload+`}`, string(at.Metadata))
			assert.Equal(t, checkpoint.Interrupted, stored(t, st, run.ID()).Status)
			assert.Equal(t, d, stateAt(t, r, run.Session(), uuid.Nil))
		})
	}
}

func TestAnAnswerIsReturnedToTheNodeThatAsked(t *testing.T) {
	t.Parallel()
	st := memory.New(nil)
	c := newCounter()
	var second error
	r := newRunner(t, chain(t, parts{
		alpha: func(_ context.Context, d doc) (doc, error) { _, _ = c.did("alpha")(t.Context()); return d, nil },
		beta:  ask("q"),
		gamma: func(ctx context.Context, d doc) (doc, error) {
			_, second = graph.Interrupt[string](ctx, "q", "again?")
			return d, nil
		},
	}), st, nil)
	run, _, err := finish(t, r, graph.StartParams[doc]{})
	require.ErrorIs(t, err, graph.ErrInterrupted)
	_, d := complete(t, r, graph.StartParams[doc]{Session: run.Session(), Resume: json.RawMessage(`"yes"`)})
	assert.Equal(t, doc{Trail: "abc", Text: "yes"}, d)
	assert.Equal(t, 1, c.count("alpha"), "nodes before it do not run again")
	assert.ErrorIs(t, second, graph.ErrInterrupted, "the answer is gone for the second node, also to a question of the same id")
	assert.Equal(t, []string{
		"input alpha", "step alpha", "interrupt beta interrupted",
		"input beta", "step beta", "step gamma", "finish gamma completed",
	}, rows(t, st, run.Session()))
	line := checkpoints(t, st, run.Session())
	assert.Equal(t, line[2].ID, line[3].ParentID)
	assert.Nil(t, line[3].Metadata)
}

func TestAnswersAreReadByTheRules(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		asked  []string
		resume string
		text   string   // after the run
		left   []string // the questions it ends with
		wrong  string   // why the answer is refused
	}{
		{"no answer asks again", []string{"a"}, ``, "", []string{"a"}, ""},
		{"null is no answer", []string{"a"}, `null`, "", []string{"a"}, ""},
		{"nor is it among spaces", []string{"a"}, " null\n", "", []string{"a"}, ""},
		{"a plain value answers the only question", []string{"a"}, `"yes"`, "yes", nil, ""},
		{"an object keyed by the id answers it", []string{"a"}, `{"a":"yes"}`, "yes", nil, ""},
		{"the rest of an object must be ids, too", []string{"a"}, `{"a":"yes","z":"no"}`, "", nil, `no open question has the id "z"`},
		{"several answers at once", []string{"a", "b"}, `{"b":"2","a":"1"}`, "12", nil, ""},
		{"some of the answers", []string{"a", "b", "c"}, ` {"b":"2"}`, "", []string{"a", "c"}, ""},
		{"none of several", []string{"a", "b"}, `null`, "", []string{"a", "b"}, ""},
		{"a plain value for several", []string{"a", "b"}, `"yes"`, "", nil, "2 questions are open: answer with an object keyed by their ids"},
		{"an object of unknown ids for several", []string{"a", "b"}, `{"y":1,"z":2}`, "", nil, "2 questions are open"},
		{"an empty object for several", []string{"a", "b"}, `{}`, "", nil, "2 questions are open"},
		{"a list for several", []string{"a", "b"}, `["1","2"]`, "", nil, "2 questions are open"},
		{"what is no JSON", []string{"a"}, `{"a":`, "", nil, "JSON"},
		{"two values", []string{"a"}, `"a" "b"`, "", nil, "JSON"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			st := memory.New(nil)
			r := newRunner(t, chain(t, parts{beta: askEach(c.asked...)}), st, nil)
			run, _, err := finish(t, r, graph.StartParams[doc]{})
			require.Equal(t, c.asked, questions(t, err))
			before := len(rows(t, st, run.Session()))
			id := uuid.New()
			p := graph.StartParams[doc]{Session: run.Session(), Run: id, Resume: json.RawMessage(c.resume)}
			if c.wrong != "" {
				_, err := r.Start(t.Context(), p)
				assert.ErrorIs(t, err, graph.ErrInvalidResume)
				refused, ok := errors.AsType[*graph.ResumeError](err)
				require.True(t, ok)
				assert.Contains(t, refused.Reason, c.wrong)
				assert.Len(t, rows(t, st, run.Session()), before, "nothing was recorded")
				_, err = r.Attach(t.Context(), "", id)
				assert.Error(t, err)
				return
			}
			_, d, err := finish(t, r, p)
			if c.left != nil {
				assert.Equal(t, c.left, questions(t, err))
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.text, d.Text)
		})
	}
	t.Run("an object with other keys is the whole answer to the only question", func(t *testing.T) {
		t.Parallel()
		var got map[string]int
		r := newRunner(t, chain(t, parts{beta: func(ctx context.Context, d doc) (_ doc, err error) {
			got, err = graph.Interrupt[map[string]int](ctx, "a", nil)
			return d, err
		}}), memory.New(nil), nil)
		run, _, err := finish(t, r, graph.StartParams[doc]{})
		require.ErrorIs(t, err, graph.ErrInterrupted)
		complete(t, r, graph.StartParams[doc]{Session: run.Session(), Resume: json.RawMessage(`{"y":1,"z":2}`)})
		assert.Equal(t, map[string]int{"y": 1, "z": 2}, got)
	})
	t.Run("an answer where nothing was asked", func(t *testing.T) {
		t.Parallel()
		for name, open := range stores() {
			r := newRunner(t, chain(t, parts{}), open(), nil)
			_, err := r.Start(t.Context(), graph.StartParams[doc]{Resume: json.RawMessage(`"yes"`)})
			assert.ErrorIs(t, err, graph.ErrInvalidResume, name)
			run, _ := complete(t, r, graph.StartParams[doc]{Resume: json.RawMessage(`null`)})
			_, err = r.Start(t.Context(), graph.StartParams[doc]{Session: run.Session(), Resume: json.RawMessage(`{}`)})
			assert.ErrorIs(t, err, graph.ErrInvalidResume, name)
			assert.ErrorContains(t, err, "nothing is interrupted")
		}
	})
	t.Run("an answer that does not fit what the node wants fails the node", func(t *testing.T) {
		t.Parallel()
		r := newRunner(t, chain(t, parts{beta: ask("a")}), memory.New(nil), nil)
		run, _, err := finish(t, r, graph.StartParams[doc]{})
		require.ErrorIs(t, err, graph.ErrInterrupted)
		_, _, err = finish(t, r, graph.StartParams[doc]{Session: run.Session(), Resume: json.RawMessage(`{"a":7}`)})
		assert.ErrorContains(t, err, `answer to "a" is no string`)
	})
}

func TestAnswersMayComeOneByOne(t *testing.T) {
	t.Parallel()
	for name, asks := range map[string]work{
		"to tasks": askEach("a", "b", "c"),
		"to a node that asks one after the other": func(ctx context.Context, d doc) (doc, error) {
			for _, id := range []string{"a", "b", "c"} {
				var err error
				if d, err = ask(id)(ctx, d); err != nil {
					return d, err
				}
			}
			return d, nil
		},
		"to a node that asks all at once": func(ctx context.Context, d doc) (doc, error) {
			var errs []error
			for _, id := range []string{"a", "b", "c"} {
				var err error
				d, err = ask(id)(ctx, d)
				errs = append(errs, err)
			}
			return d, errors.Join(errs...)
		},
		"to a node that keeps the state besides": func(ctx context.Context, d doc) (doc, error) {
			graph.Keep(ctx, doc{Trail: d.Trail})
			var errs []error
			for _, id := range []string{"a", "b", "c"} {
				var err error
				d, err = ask(id)(ctx, d)
				errs = append(errs, err)
			}
			return d, errors.Join(errs...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := memory.New(nil)
			session := uuid.New()
			p := graph.StartParams[doc]{Session: session}
			for _, answer := range []string{"", `{"a":"1"}`, `{"b":"2"}`} {
				p.Resume = json.RawMessage(answer)
				_, _, err := finish(t, newRunner(t, chain(t, parts{beta: asks}), st, nil), p)
				require.ErrorIs(t, err, graph.ErrInterrupted)
				assert.NotContains(t, questions(t, err), map[string]string{`{"a":"1"}`: "a", `{"b":"2"}`: "b"}[answer])
			}
			p.Resume = json.RawMessage(`{"c":"3"}`)
			_, d := complete(t, newRunner(t, chain(t, parts{beta: asks}), st, nil), p)
			assert.Equal(t, doc{Trail: "abc", Text: "123"}, d)
		})
	}
}

func TestAQuestionIsAskedAgainAsItWas(t *testing.T) {
	t.Parallel()
	st := memory.New(nil)
	asked := 0
	r := newRunner(t, chain(t, parts{beta: func(ctx context.Context, d doc) (doc, error) {
		asked++
		_, err := graph.Interrupt[string](ctx, "q", map[string]int{"times": asked})
		return d, err
	}}), st, nil)
	run, _, first := finish(t, r, graph.StartParams[doc]{})
	require.ErrorIs(t, first, graph.ErrInterrupted)
	_, d, second := finish(t, r, graph.StartParams[doc]{Session: run.Session()})
	assert.Equal(t, first, second)
	assert.Equal(t, 2, asked)
	assert.Equal(t, doc{Trail: "a"}, d)
	line := checkpoints(t, st, run.Session())
	assert.Equal(t, []string{"input beta", "interrupt beta interrupted"}, rows(t, st, run.Session())[3:])
	assert.Equal(t, line[2].Metadata, line[4].Metadata)
}

func TestAnInputWithoutAnAnswerBeginsAnew(t *testing.T) {
	t.Parallel()
	c := newCounter()
	asks := true
	r := newRunner(t, chain(t, parts{beta: func(ctx context.Context, d doc) (doc, error) {
		if _, err := graph.Task(ctx, "t", c.did("t")); err != nil {
			return d, err
		}
		if asks {
			return ask("q")(ctx, d)
		}
		return d, nil
	}}), memory.New(nil), nil)
	run, _, err := finish(t, r, graph.StartParams[doc]{})
	require.ErrorIs(t, err, graph.ErrInterrupted)
	asks = false
	_, d := complete(t, r, graph.StartParams[doc]{Session: run.Session(), Input: &doc{Trail: "new "}})
	assert.Equal(t, "new abc", d.Trail, "at the entry")
	assert.Equal(t, 2, c.count("t"), "what the abandoned node did is not taken for the new one's")

	t.Run("also where the entry asked", func(t *testing.T) {
		t.Parallel()
		inBubble(t, func(t *testing.T) {
			st := memory.New(nil)
			c := newCounter()
			work := func(ctx context.Context, d doc) (doc, error) {
				text, err := graph.Task(ctx, "t", func(ctx context.Context) (string, error) { _, _ = c.did("t")(ctx); return d.Trail, nil })
				if err != nil {
					return d, err
				}
				_, err = graph.Interrupt[string](ctx, "q", "is it "+text)
				return d, err
			}
			r := newRunner(t, chain(t, parts{alpha: work}), st, nil)
			run, _, err := finish(t, r, graph.StartParams[doc]{Input: &doc{Trail: "old"}})
			require.ErrorIs(t, err, graph.ErrInterrupted)
			_, _, err = finish(t, r, graph.StartParams[doc]{Session: run.Session(), Input: &doc{Trail: "new"}})
			asked, ok := errors.AsType[*graph.InterruptedError](err)
			require.True(t, ok)
			assert.JSONEq(t, `"is it new"`, string(asked.Questions[0].Payload))

			// The process dies before the node is through.
			f := graphtest.NewFaulty(st, 3, graphtest.DeathBefore)
			dead, _, err := finish(t, newRunner(t, chain(t, parts{alpha: work}), f, nil), graph.StartParams[doc]{Session: run.Session(), Input: &doc{Trail: "newer"}})
			require.ErrorIs(t, err, graphtest.ErrDead)
			serve(t, r)
			other, err := r.Attach(t.Context(), "", dead.ID())
			require.NoError(t, err)
			_, err = other.Wait(t.Context())
			asked, ok = errors.AsType[*graph.InterruptedError](err)
			require.True(t, ok)
			assert.JSONEq(t, `"is it newer"`, string(asked.Questions[0].Payload))
		})
	})
	t.Run("with an answer it goes on where it was asked", func(t *testing.T) {
		asks = true
		_, _, err := finish(t, r, graph.StartParams[doc]{Session: run.Session()})
		require.ErrorIs(t, err, graph.ErrInterrupted)
		_, d := complete(t, r, graph.StartParams[doc]{Session: run.Session(), Input: &doc{Trail: "new "}, Resume: json.RawMessage(`"yes"`)})
		assert.Equal(t, doc{Trail: "new bc", Text: "yes"}, d)
	})
}

func TestTheOtherTasksSettleBeforeTheRunEnds(t *testing.T) {
	t.Parallel()
	c := newCounter()
	r := newRunner(t, chain(t, parts{beta: func(ctx context.Context, d doc) (doc, error) {
		var tasks sync.WaitGroup
		asked := make(chan struct{})
		var err, other error
		tasks.Go(func() {
			_, err = graph.Task(ctx, "asks", func(ctx context.Context) (string, error) {
				defer close(asked)
				return graph.Interrupt[string](ctx, "", nil)
			}, &graph.TaskOptions{Name: "the one that asks"})
		})
		tasks.Go(func() {
			<-asked
			_, other = graph.Task(ctx, "works", c.did("works"))
		})
		tasks.Wait()
		return d, errors.Join(err, other)
	}}), memory.New(nil), nil)
	run, _, err := finish(t, r, graph.StartParams[doc]{})
	asked, ok := errors.AsType[*graph.InterruptedError](err)
	require.True(t, ok)
	assert.Equal(t, []graph.Question{{ID: "asks", Name: "the one that asks", Payload: json.RawMessage("null")}}, asked.Questions)
	complete(t, r, graph.StartParams[doc]{Session: run.Session(), Resume: json.RawMessage(`"yes"`)})
	assert.Equal(t, 1, c.count("works"))
}

func TestQuestionsFollowEachOtherAsTheErrorsOfTheNodeDo(t *testing.T) {
	t.Parallel()
	r := newRunner(t, chain(t, parts{beta: func(ctx context.Context, d doc) (doc, error) {
		errs := make(map[string]error)
		for _, id := range []string{"a", "b", "c", "d", "e"} {
			_, errs[id] = graph.Interrupt[string](ctx, id, nil)
		}
		return d, fmt.Errorf("wrapped: %w", errors.Join(errs["d"], fmt.Errorf("again: %w", errs["b"]), errs["d"], errs["a"]))
	}}), memory.New(nil), nil)
	_, _, err := finish(t, r, graph.StartParams[doc]{})
	assert.Equal(t, []string{"d", "b", "a", "c", "e"}, questions(t, err), "then those that it does not name, as they came")
}

func TestAQuestionInATaskHasTheTasksKeyBeforeItsID(t *testing.T) {
	t.Parallel()
	r := newRunner(t, chain(t, parts{beta: func(ctx context.Context, d doc) (doc, error) {
		_, one := graph.Task(ctx, "pay", func(ctx context.Context) (string, error) { return graph.Interrupt[string](ctx, "sure", 1) })
		_, two := graph.Task(ctx, "go", func(ctx context.Context) (string, error) { return graph.Interrupt[string](ctx, "", 2) })
		_, three := graph.Interrupt[string](ctx, "sure", 3)
		_, again := graph.Interrupt[string](ctx, "sure", 4)
		return d, errors.Join(one, two, three, again)
	}}), memory.New(nil), nil)
	_, _, err := finish(t, r, graph.StartParams[doc]{})
	assert.Equal(t, []string{"pay:sure", "go", "sure"}, questions(t, err), "each once")
}

func TestATaskAtMostOnceMayAskBeforeItDoesAnything(t *testing.T) {
	t.Parallel()
	for _, kept := range []bool{false, true} {
		c := newCounter()
		r := newRunner(t, chain(t, parts{beta: func(ctx context.Context, d doc) (doc, error) {
			if kept {
				graph.Keep(ctx, d)
			}
			text, err := graph.Task(ctx, "pay", func(ctx context.Context) (string, error) {
				if _, err := graph.Interrupt[bool](ctx, "sure", nil); err != nil {
					return "", err
				}
				return c.did("pay")(ctx)
			}, &graph.TaskOptions{AtMostOnce: true})
			d.Text += text
			return d, err
		}}), memory.New(nil), nil)
		run, _, err := finish(t, r, graph.StartParams[doc]{})
		require.ErrorIs(t, err, graph.ErrInterrupted)
		_, d := complete(t, r, graph.StartParams[doc]{Session: run.Session(), Resume: json.RawMessage("true")})
		assert.Equal(t, "pay", d.Text)
		assert.Equal(t, 1, c.count("pay"))
	}
}

func TestWhatATaskThatAsksHasFinishedIsNotDoneAgain(t *testing.T) {
	t.Parallel()
	for name, kept := range map[string]bool{"of a node that keeps its part": true, "of one that does not": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCounter()
			var mu sync.Mutex
			keys := map[string]bool{}
			r := newRunner(t, chain(t, parts{beta: func(ctx context.Context, d doc) (doc, error) {
				if kept {
					graph.Keep(ctx, d)
				}
				var errs []error
				for _, key := range []string{"one", "two"} {
					text, err := graph.Task(ctx, key, func(ctx context.Context) (string, error) {
						before, err := graph.Task(ctx, "before", func(ctx context.Context) (string, error) {
							mu.Lock()
							defer mu.Unlock()
							keys[graph.IdempotencyKey(ctx)] = true
							return c.did("before " + key)(ctx)
						})
						if err != nil {
							return "", err
						}
						_, sure := graph.Task(ctx, "ask", func(ctx context.Context) (bool, error) {
							return graph.Interrupt[bool](ctx, "sure", nil)
						}, &graph.TaskOptions{AtMostOnce: true})
						return before, sure
					})
					d.Text += text + "."
					errs = append(errs, err)
				}
				return d, errors.Join(errs...)
			}}), memory.New(nil), nil)
			run, _, err := finish(t, r, graph.StartParams[doc]{})
			assert.Equal(t, []string{"one:ask:sure", "two:ask:sure"}, questions(t, err))
			_, d := complete(t, r, graph.StartParams[doc]{Session: run.Session(), Resume: json.RawMessage(`{"one:ask:sure":true,"two:ask:sure":true}`)})
			assert.Equal(t, "before one.before two.", d.Text)
			assert.Equal(t, []int{1, 1}, []int{c.count("before one"), c.count("before two")})
			assert.Len(t, keys, 2, "each has its own idempotency key")
		})
	}
}

func TestWhatANodeKeepsIsTheStateOfItsQuestion(t *testing.T) {
	t.Parallel()
	c := newCounter()
	st := memory.New(nil)
	r := newRunner(t, chain(t, parts{beta: func(ctx context.Context, d doc) (doc, error) {
		if d.Text == "" {
			text, err := graph.Task(ctx, "t", c.did("t"))
			if err != nil {
				return d, err
			}
			d.Text = text
		}
		graph.Keep(ctx, d)
		_, err := graph.Interrupt[bool](ctx, "q", nil)
		return d, err
	}}), st, nil)
	run, d, err := finish(t, r, graph.StartParams[doc]{})
	require.ErrorIs(t, err, graph.ErrInterrupted)
	assert.Equal(t, doc{Trail: "a", Text: "t"}, d)
	assert.Equal(t, d, stateAt(t, r, run.Session(), uuid.Nil))
	_, d = complete(t, r, graph.StartParams[doc]{Session: run.Session(), Resume: json.RawMessage("true")})
	assert.Equal(t, doc{Trail: "abc", Text: "t"}, d)
	assert.Equal(t, 1, c.count("t"))
}

func TestUnansweredLeavesAQuestionAlone(t *testing.T) {
	t.Parallel()
	c := newCounter()
	r := newRunner(t, chain(t, parts{beta: func(ctx context.Context, d doc) (doc, error) {
		var errs []error
		for _, key := range []string{"a", "ab"} {
			if err := graph.Unanswered(ctx, key); err != nil {
				errs = append(errs, err)
				continue
			}
			_, err := graph.Task(ctx, key, func(ctx context.Context) (string, error) {
				_, _ = c.did(key)(ctx)
				return graph.Interrupt[string](ctx, "sure", key)
			})
			errs = append(errs, err)
		}
		return d, errors.Join(errs...)
	}}), memory.New(nil), nil)
	run, _, first := finish(t, r, graph.StartParams[doc]{})
	require.Equal(t, []string{"a:sure", "ab:sure"}, questions(t, first))
	_, _, err := finish(t, r, graph.StartParams[doc]{Session: run.Session()})
	assert.Equal(t, first, err, "with the payloads they had")
	_, _, err = finish(t, r, graph.StartParams[doc]{Session: run.Session(), Resume: json.RawMessage(`{"ab:sure":"yes"}`)})
	assert.Equal(t, []string{"a:sure"}, questions(t, err))
	assert.Equal(t, []int{1, 2}, []int{c.count("a"), c.count("ab")})
	complete(t, r, graph.StartParams[doc]{Session: run.Session(), Resume: json.RawMessage(`{"a:sure":"yes"}`)})
	assert.Equal(t, []int{2, 2}, []int{c.count("a"), c.count("ab")})
	assert.NoError(t, graph.Unanswered(t.Context(), "a"), "outside a run")
}

func TestAnAnswerSurvivesTheProcessThatTookIt(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		for n := 1; n <= 5; n++ {
			for _, fault := range []graphtest.Fault{graphtest.DeathBefore, graphtest.DeathAfter, graphtest.LeaseLost} {
				st := memory.New(nil)
				g := chain(t, parts{beta: askEach("a", "b")})
				run, _, err := finish(t, newRunner(t, g, st, nil), graph.StartParams[doc]{})
				require.ErrorIs(t, err, graph.ErrInterrupted)
				p := graph.StartParams[doc]{Session: run.Session(), Run: uuid.New(), Resume: json.RawMessage(`{"a":"1","b":"2"}`)}
				if resumed, err := newRunner(t, g, graphtest.NewFaulty(st, n, fault), nil).Start(t.Context(), p); err == nil {
					_, _ = resumed.Wait(t.Context())
				}
				ctx, stop := context.WithCancel(t.Context())
				next := newRunner(t, g, st, nil)
				go next.Serve(ctx)
				other, err := next.Attach(t.Context(), "", p.Run)
				if err != nil {
					other = start(t, next, p)
				}
				d, err := other.Wait(t.Context())
				require.NoError(t, err, "call %d, %s", n, fault)
				assert.Equal(t, doc{Trail: "abc", Text: "12"}, d)
				stop()
			}
		}
	})
}

func TestAForkMayAnswerDifferently(t *testing.T) {
	t.Parallel()
	st := memory.New(nil)
	c := newCounter()
	r := newRunner(t, chain(t, parts{beta: func(ctx context.Context, d doc) (doc, error) {
		if _, err := graph.Task(ctx, "t", c.did("t")); err != nil {
			return d, err
		}
		return ask("q")(ctx, d)
	}}), st, nil)
	run, _, err := finish(t, r, graph.StartParams[doc]{})
	require.ErrorIs(t, err, graph.ErrInterrupted)
	at := checkpoints(t, st, run.Session())[2]
	for _, answer := range []string{"yes", "no"} {
		_, d := complete(t, r, graph.StartParams[doc]{Session: run.Session(), Checkpoint: at.ID, Resume: json.RawMessage(`"` + answer + `"`)})
		assert.Equal(t, doc{Trail: "abc", Text: answer}, d)
	}
	assert.Equal(t, 1, c.count("t"), "its finished tasks belong to the checkpoint")
	_, _, err = finish(t, r, graph.StartParams[doc]{Session: run.Session(), Checkpoint: at.ID})
	assert.Equal(t, []string{"q"}, questions(t, err))
	_, err = r.Start(t.Context(), graph.StartParams[doc]{Session: run.Session(), Checkpoint: checkpoints(t, st, run.Session())[1].ID, Resume: json.RawMessage(`1`)})
	assert.ErrorIs(t, err, graph.ErrInvalidResume, "nothing was asked there")
}

func TestAnErrorBesidesAQuestionFailsTheRun(t *testing.T) {
	t.Parallel()
	r := newRunner(t, chain(t, parts{beta: func(ctx context.Context, d doc) (doc, error) {
		_, _ = graph.Interrupt[string](ctx, "q", nil)
		return d, errBroken
	}}), memory.New(nil), nil)
	_, _, err := finish(t, r, graph.StartParams[doc]{})
	assert.ErrorIs(t, err, errBroken)

	t.Run("a question that the node forgets is none", func(t *testing.T) {
		r := newRunner(t, chain(t, parts{beta: func(ctx context.Context, d doc) (doc, error) {
			_, _ = graph.Interrupt[string](ctx, "q", nil)
			return d, nil
		}}), memory.New(nil), nil)
		_, d := complete(t, r, graph.StartParams[doc]{})
		assert.Equal(t, "abc", d.Trail)
	})
	t.Run("the question of another run is an error", func(t *testing.T) {
		r := newRunner(t, chain(t, parts{beta: fails(&graph.InterruptError{})}), memory.New(nil), nil)
		_, _, err := finish(t, r, graph.StartParams[doc]{})
		failed, ok := errors.AsType[*graph.RunError](err)
		require.True(t, ok)
		assert.Equal(t, graph.CodeNodeError, failed.Code)
	})
	t.Run("a question without JSON is one, too", func(t *testing.T) {
		r := newRunner(t, chain(t, parts{beta: func(ctx context.Context, d doc) (doc, error) {
			_, err := graph.Interrupt[string](ctx, "q", func() {})
			return d, err
		}}), memory.New(nil), nil)
		_, _, err := finish(t, r, graph.StartParams[doc]{})
		assert.ErrorContains(t, err, `question "q"`)
	})
}

func TestOutsideARunAQuestionIsAnsweredByItsContext(t *testing.T) {
	t.Parallel()
	n := &beta{work: ask("q")}
	_, _, err := n.Run(t.Context(), doc{})
	asked, ok := errors.AsType[*graph.InterruptError](err)
	require.True(t, ok)
	assert.Equal(t, graph.Question{ID: "q", Payload: json.RawMessage(`{"what":"q"}`)}, asked.Question)
	assert.ErrorIs(t, err, graph.ErrInterrupted)

	ctx := graph.WithReply(graph.WithReply(t.Context(), "q", "no"), "other", 7)
	d, next, err := n.Run(graph.WithReply(ctx, "q", "yes"), doc{})
	require.NoError(t, err)
	assert.Equal(t, doc{Trail: "b", Text: "yes"}, d)
	assert.Equal(t, n.Gamma.Next(), next)
	d, _, _ = n.Run(ctx, doc{})
	assert.Equal(t, "no", d.Text)

	got, err := graph.Task(graph.WithReply(t.Context(), "pay:sure", true), "pay", func(ctx context.Context) (bool, error) {
		return graph.Interrupt[bool](ctx, "sure", nil)
	})
	assert.NoError(t, err)
	assert.True(t, got)
	_, err = graph.Interrupt[string](graph.WithReply(t.Context(), "q", 7), "q", nil)
	assert.ErrorContains(t, err, `answer to "q" is no string`)
	assert.Panics(t, func() { graph.WithReply(t.Context(), "q", func() {}) })
}
