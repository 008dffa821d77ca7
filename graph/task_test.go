package graph_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/graph/graphtest"
	"github.com/everstep-go/everstep/store/memory"
)

// counter counts how often something was done, by name.
type counter struct {
	mu    sync.Mutex // guards times and keys
	times map[string]int
	keys  map[string][]string // the idempotency keys, each once
}

func newCounter() *counter {
	return &counter{times: make(map[string]int), keys: make(map[string][]string)}
}

// did is the fn of a task that counts itself and returns its name.
func (c *counter) did(name string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.times[name]++
		if key := graph.IdempotencyKey(ctx); !slices.Contains(c.keys[name], key) {
			c.keys[name] = append(c.keys[name], key)
		}
		return name, nil
	}
}

func (c *counter) count(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.times[name]
}

func (c *counter) key(t testing.TB, name string) string {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	require.Len(t, c.keys[name], 1, "the idempotency key of %s", name)
	return c.keys[name][0]
}

func TestAKeptResultIsReturnedWhenTheNodeRunsAgain(t *testing.T) {
	t.Parallel()
	type result struct {
		Text  string
		Parts []int
		None  *int
	}
	for name, again := range map[string]func(t *testing.T, node func(ctx context.Context, d doc, stop func() error) (doc, error)) doc{
		"after a retry": func(t *testing.T, node func(context.Context, doc, func() error) (doc, error)) doc {
			stopped := false
			r := newRunner(t, chain(t, parts{beta: func(ctx context.Context, d doc) (doc, error) {
				return node(ctx, d, func() error {
					if !stopped {
						stopped = true
						return graph.Retry(errBroken, time.Second)
					}
					return nil
				})
			}}), memory.New(nil), nil)
			_, d := complete(t, r, graph.StartParams[doc]{})
			return d
		},
		"after a retry, without a store": func(t *testing.T, node func(context.Context, doc, func() error) (doc, error)) doc {
			stopped := false
			r := newRunner(t, chain(t, parts{beta: func(ctx context.Context, d doc) (doc, error) {
				return node(ctx, d, func() error {
					if !stopped {
						stopped = true
						return graph.Retry(errBroken, time.Second)
					}
					return nil
				})
			}}), nil, nil)
			_, d := complete(t, r, graph.StartParams[doc]{})
			return d
		},
		"after an interrupt": func(t *testing.T, node func(context.Context, doc, func() error) (doc, error)) doc {
			r := newRunner(t, chain(t, parts{beta: func(ctx context.Context, d doc) (doc, error) {
				return node(ctx, d, func() error { _, err := graph.Interrupt[bool](ctx, "go on", nil); return err })
			}}), memory.New(nil), nil)
			run, _, err := finish(t, r, graph.StartParams[doc]{})
			require.ErrorIs(t, err, graph.ErrInterrupted)
			_, d := complete(t, r, graph.StartParams[doc]{Session: run.Session(), Resume: json.RawMessage("true")})
			return d
		},
		"after two interrupts": func(t *testing.T, node func(context.Context, doc, func() error) (doc, error)) doc {
			r := newRunner(t, chain(t, parts{beta: func(ctx context.Context, d doc) (doc, error) {
				return node(ctx, d, func() error { _, err := graph.Interrupt[bool](ctx, "go on", nil); return err })
			}}), memory.New(nil), nil)
			run, _, err := finish(t, r, graph.StartParams[doc]{})
			require.ErrorIs(t, err, graph.ErrInterrupted)
			_, _, err = finish(t, r, graph.StartParams[doc]{Session: run.Session()})
			require.ErrorIs(t, err, graph.ErrInterrupted)
			_, d := complete(t, r, graph.StartParams[doc]{Session: run.Session(), Resume: json.RawMessage("true")})
			return d
		},
		"after a crash": func(t *testing.T, node func(context.Context, doc, func() error) (doc, error)) doc {
			st := memory.New(nil)
			f := graphtest.NewFaulty(st, 0, "")
			dead := newRunner(t, chain(t, parts{beta: func(ctx context.Context, d doc) (doc, error) {
				return node(ctx, d, func() error { f.Kill(); return nil })
			}}), f, nil)
			run := start(t, dead, graph.StartParams[doc]{})
			_, err := run.Wait(t.Context())
			require.ErrorIs(t, err, graphtest.ErrDead)
			r := newRunner(t, chain(t, parts{beta: func(ctx context.Context, d doc) (doc, error) {
				return node(ctx, d, func() error { return nil })
			}}), st, nil)
			serve(t, r)
			other, err := r.Attach(t.Context(), "", run.ID())
			require.NoError(t, err)
			d, err := other.Wait(t.Context())
			require.NoError(t, err)
			return d
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				c := newCounter()
				want := result{Text: "<&>", Parts: []int{1, 2}}
				d := again(t, func(ctx context.Context, d doc, stop func() error) (doc, error) {
					before := graph.TaskDone(ctx, "one")
					got, err := graph.Task(ctx, "one", func(ctx context.Context) (result, error) {
						_, _ = c.did("one")(ctx)
						return want, nil
					})
					if err != nil {
						return d, err
					}
					assert.Equal(t, want, got)
					null, err := graph.Task(ctx, "null", func(ctx context.Context) (*int, error) { _, _ = c.did("null")(ctx); return nil, nil })
					if err != nil {
						return d, err
					}
					assert.Nil(t, null)
					assert.True(t, graph.TaskDone(ctx, "one"))
					assert.False(t, graph.TaskDone(ctx, "two"))
					if err := stop(); err != nil {
						return d, err
					}
					text, err := graph.Task(ctx, "two", c.did("two"))
					d.Text += fmt.Sprint(before, text)
					return d, err
				})
				assert.Equal(t, "abc", d.Trail)
				assert.Contains(t, d.Text, "truetwo")
				assert.Equal(t, 1, c.count("one"))
				assert.Equal(t, 1, c.count("null"), "a result that prints null is one, too")
			})
		})
	}
}

func TestAResultIsKeptForItsStepOnly(t *testing.T) {
	t.Parallel()
	for name, open := range stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCounter()
			r := newRunner(t, chain(t, parts{beta: func(ctx context.Context, d doc) (doc, error) {
				_, err := graph.Task(ctx, "t", c.did("t"))
				return d, err
			}}), open(), nil)
			_, _ = complete(t, r, graph.StartParams[doc]{Input: &doc{Rest: 2}})
			assert.Equal(t, 3, c.count("t"))
			assert.Len(t, c.keys["t"], 3, "each step is another idempotency key")
		})
	}
}

func TestTasksOfANodeRunInParallel(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newCounter()
		var retried bool
		st := memory.New(nil)
		r := newRunner(t, chain(t, parts{alpha: func(ctx context.Context, d doc) (doc, error) {
			var tasks sync.WaitGroup
			errs := make([]error, 50)
			for i := range errs {
				tasks.Go(func() {
					key := fmt.Sprint("t", i)
					var got string
					got, errs[i] = graph.Task(ctx, key, func(ctx context.Context) (string, error) {
						time.Sleep(time.Second)
						if i%2 == 1 && !retried {
							return "", errBroken
						}
						return c.did(key)(ctx)
					})
					if errs[i] == nil {
						assert.Equal(t, key, got)
					}
				})
			}
			tasks.Wait()
			if err := errors.Join(errs...); err != nil {
				retried = true
				return d, graph.Retry(err, 0)
			}
			return d, nil
		}}), st, nil)
		began := time.Now()
		complete(t, r, graph.StartParams[doc]{})
		assert.Equal(t, 2*time.Second, time.Since(began))
		for i := range 50 {
			assert.Equal(t, 1, c.count(fmt.Sprint("t", i)))
		}
	})
}

func TestTwoTasksOfOneKeyAtOnceAreAnError(t *testing.T) {
	t.Parallel()
	for name, open := range stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var twice, empty, reserved error
			c := newCounter()
			r := newRunner(t, chain(t, parts{alpha: func(ctx context.Context, d doc) (doc, error) {
				_, err := graph.Task(ctx, "t", func(inner context.Context) (string, error) {
					_, twice = graph.Task(ctx, "t", c.did("twice"))
					return "", nil
				})
				_, empty = graph.Task(ctx, "", c.did("twice"))
				_, reserved = graph.Task(ctx, "\x00scope", c.did("twice"))
				return d, err
			}}), open(), nil)
			complete(t, r, graph.StartParams[doc]{})
			assert.EqualError(t, twice, `graph: task runs already: two tasks of node "alpha" have the key "t"`)
			assert.ErrorContains(t, empty, "must not be empty")
			assert.Error(t, reserved)
			assert.Zero(t, c.count("twice"))
		})
	}
}

func TestAKeyMayBeUsedAgainOnceItsTaskIsDone(t *testing.T) {
	t.Parallel()
	for name, open := range stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCounter()
			r := newRunner(t, chain(t, parts{alpha: func(ctx context.Context, d doc) (doc, error) {
				for range 3 {
					text, err := graph.Task(ctx, "t", c.did("t"))
					if err != nil {
						return d, err
					}
					d.Text += text
				}
				return d, nil
			}}), open(), nil)
			_, d := complete(t, r, graph.StartParams[doc]{})
			assert.Equal(t, "ttt", d.Text)
			assert.Equal(t, 1, c.count("t"))
		})
	}
}

func TestAnErrorOfATaskIsNotKept(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newCounter()
		attempts := 0
		r := newRunner(t, chain(t, parts{alpha: func(ctx context.Context, d doc) (doc, error) {
			_, err := graph.Task(ctx, "t", func(ctx context.Context) (string, error) {
				_, _ = c.did("t")(ctx)
				if attempts++; attempts < 3 {
					return "lost", errBroken
				}
				return "", nil
			})
			if err != nil {
				assert.Equal(t, errBroken, err, "the error as it was")
				assert.False(t, graph.TaskDone(ctx, "t"))
				return d, graph.Retry(err, time.Second)
			}
			return d, nil
		}}), memory.New(nil), nil)
		complete(t, r, graph.StartParams[doc]{})
		assert.Equal(t, 3, c.count("t"))
		c.key(t, "t")
	})
}

func TestAPanicOfATaskIsItsError(t *testing.T) {
	t.Parallel()
	st := memory.New(nil)
	var got error
	r := newRunner(t, chain(t, parts{alpha: func(ctx context.Context, d doc) (doc, error) {
		_, got = graph.Task(ctx, "t", func(context.Context) (int, error) { panic("at the disco") })
		return d, got
	}}), st, nil)
	run, _, err := finish(t, r, graph.StartParams[doc]{})
	p, ok := errors.AsType[*graph.PanicError](got)
	require.True(t, ok)
	assert.Equal(t, "at the disco", p.Value)
	assert.Contains(t, string(p.Stack), "task_test.go")
	failed, ok := errors.AsType[*graph.RunError](err)
	require.True(t, ok)
	assert.Equal(t, graph.CodePanic, failed.Code)
	assert.Equal(t, `node "alpha" panicked`, stored(t, st, run.ID()).Error, "what it panicked with stays inside")
}

func TestAResultWithoutJSONIsAnError(t *testing.T) {
	t.Parallel()
	r := newRunner(t, chain(t, parts{alpha: func(ctx context.Context, d doc) (doc, error) {
		_, err := graph.Task(ctx, "t", func(context.Context) (func(), error) { return func() {}, nil })
		return d, err
	}}), memory.New(nil), nil)
	_, _, err := finish(t, r, graph.StartParams[doc]{})
	assert.ErrorContains(t, err, `result of task "t"`)

	t.Run("so is a kept one of another type", func(t *testing.T) {
		first := true
		r := newRunner(t, chain(t, parts{alpha: func(ctx context.Context, d doc) (doc, error) {
			if first {
				first = false
				if _, err := graph.Task(ctx, "t", func(context.Context) (string, error) { return "x", nil }); err != nil {
					return d, err
				}
				return d, graph.Retry(errBroken, 0)
			}
			_, err := graph.Task(ctx, "t", func(context.Context) (int, error) { return 1, nil })
			return d, err
		}}), memory.New(nil), nil)
		_, _, err := finish(t, r, graph.StartParams[doc]{})
		assert.ErrorContains(t, err, `kept result of task "t" is no int`)
	})
}

func TestATaskThatMustRunAtMostOnceDoes(t *testing.T) {
	t.Parallel()
	once := &graph.TaskOptions{AtMostOnce: true}
	// dies is a session whose process died at a place in the life of the task.
	// The error is that of the task in the process that came next.
	dies := func(t *testing.T, at string, opts *graph.TaskOptions) (c *counter, d doc, failed error) {
		st := memory.New(nil)
		f := graphtest.NewFaulty(st, 0, "")
		c = newCounter()
		node := func(kill func(at string)) work {
			return func(ctx context.Context, d doc) (doc, error) {
				kill("before")
				text, err := graph.Task(ctx, "pay", func(ctx context.Context) (string, error) {
					_, _ = c.did("pay")(ctx)
					kill("within")
					return "paid", nil
				}, opts)
				kill("after")
				d.Text += text
				failed = err
				return d, err
			}
		}
		dead := newRunner(t, chain(t, parts{beta: node(func(now string) {
			if now == at {
				f.Kill()
			}
		})}), f, nil)
		run := start(t, dead, graph.StartParams[doc]{})
		_, err := run.Wait(t.Context())
		require.ErrorIs(t, err, graphtest.ErrDead)
		r := newRunner(t, chain(t, parts{beta: node(func(string) {})}), st, nil)
		serve(t, r)
		other, err := r.Attach(t.Context(), "", run.ID())
		require.NoError(t, err)
		d, err = other.Wait(t.Context())
		assert.Equal(t, failed == nil, err == nil)
		return c, d, failed
	}
	t.Run("it runs if the process died before its start was recorded", func(t *testing.T) {
		t.Parallel()
		inBubble(t, func(t *testing.T) {
			c, d, err := dies(t, "before", once)
			require.NoError(t, err)
			assert.Equal(t, "paid", d.Text)
			assert.Equal(t, 1, c.count("pay"))
		})
	})
	t.Run("its outcome is unknown if the process died within", func(t *testing.T) {
		t.Parallel()
		inBubble(t, func(t *testing.T) {
			c, _, err := dies(t, "within", once)
			assert.ErrorIs(t, err, graph.ErrOutcomeUnknown)
			assert.Equal(t, 1, c.count("pay"))
		})
	})
	t.Run("its result is kept", func(t *testing.T) {
		t.Parallel()
		inBubble(t, func(t *testing.T) {
			c, d, err := dies(t, "after", once)
			require.NoError(t, err)
			assert.Equal(t, "paid", d.Text)
			assert.Equal(t, 1, c.count("pay"))
		})
	})
	t.Run("Reconcile finds out what became of it", func(t *testing.T) {
		t.Parallel()
		inBubble(t, func(t *testing.T) {
			var asked []string
			c, d, err := dies(t, "within", &graph.TaskOptions{AtMostOnce: true, Reconcile: func(_ context.Context, key string) (any, error) {
				asked = append(asked, key)
				return "paid, it seems", nil
			}})
			require.NoError(t, err)
			assert.Equal(t, "paid, it seems", d.Text)
			assert.Equal(t, 1, c.count("pay"))
			assert.Equal(t, []string{c.key(t, "pay")}, asked)
		})
	})
	t.Run("Reconcile may not know either", func(t *testing.T) {
		t.Parallel()
		inBubble(t, func(t *testing.T) {
			_, _, err := dies(t, "within", &graph.TaskOptions{AtMostOnce: true, Reconcile: func(context.Context, string) (any, error) {
				return nil, errBroken
			}})
			assert.ErrorIs(t, err, graph.ErrOutcomeUnknown)
			assert.ErrorIs(t, err, errBroken)
		})
	})
	t.Run("Reconcile may return something else", func(t *testing.T) {
		t.Parallel()
		inBubble(t, func(t *testing.T) {
			_, _, err := dies(t, "within", &graph.TaskOptions{AtMostOnce: true, Reconcile: func(context.Context, string) (any, error) { return 7, nil }})
			assert.ErrorContains(t, err, "returned a int, not a string")
		})
	})
	t.Run("Reconcile may panic", func(t *testing.T) {
		t.Parallel()
		inBubble(t, func(t *testing.T) {
			_, _, err := dies(t, "within", &graph.TaskOptions{AtMostOnce: true, Reconcile: func(context.Context, string) (any, error) { panic("no") }})
			assert.ErrorIs(t, err, graph.ErrOutcomeUnknown)
			_, ok := errors.AsType[*graph.PanicError](err)
			assert.True(t, ok)
		})
	})
	for name, open := range stores() {
		t.Run("once it has run a retry finds its result, "+name, func(t *testing.T) {
			t.Parallel()
			c := newCounter()
			again := false
			r := newRunner(t, chain(t, parts{alpha: func(ctx context.Context, d doc) (doc, error) {
				assert.Equal(t, again, graph.TaskStarted(ctx, "pay"))
				text, err := graph.Task(ctx, "pay", c.did("pay"), once)
				if err == nil && !again {
					again = true
					return d, graph.Retry(errBroken, 0)
				}
				d.Text = text
				return d, err
			}}), open(), nil)
			_, d := complete(t, r, graph.StartParams[doc]{})
			assert.Equal(t, "pay", d.Text)
			assert.Equal(t, 1, c.count("pay"))
		})
		t.Run("after an error it does not run again, "+name, func(t *testing.T) {
			t.Parallel()
			c := newCounter()
			r := newRunner(t, chain(t, parts{alpha: func(ctx context.Context, d doc) (doc, error) {
				_, err := graph.Task(ctx, "pay", func(ctx context.Context) (string, error) {
					_, _ = c.did("pay")(ctx)
					return "", errBroken
				}, once)
				if errors.Is(err, errBroken) {
					return d, graph.Retry(err, 0)
				}
				return d, err
			}}), open(), nil)
			_, _, err := finish(t, r, graph.StartParams[doc]{})
			assert.ErrorIs(t, err, graph.ErrOutcomeUnknown)
			assert.Equal(t, 1, c.count("pay"))
		})
	}
	t.Run("it does not run if its start cannot be recorded", func(t *testing.T) {
		t.Parallel()
		inBubble(t, func(t *testing.T) {
			c := newCounter()
			f := graphtest.NewFaulty(memory.New(nil), 2, graphtest.DeathBefore)
			r := newRunner(t, chain(t, parts{alpha: func(ctx context.Context, d doc) (doc, error) {
				_, err := graph.Task(ctx, "pay", c.did("pay"), once)
				return d, err
			}}), f, nil)
			_, _, err := finish(t, r, graph.StartParams[doc]{})
			assert.ErrorIs(t, err, graphtest.ErrDead)
			assert.Zero(t, c.count("pay"))
		})
	})
}

func TestAnIdempotencyKeyIsTheSameAsLongAsTheTaskIs(t *testing.T) {
	t.Parallel()
	// The task fails in the first run, interrupted, retried or dead, and works in the last.
	for _, unique := range []bool{false, true} {
		opts := &graph.TaskOptions{Unique: unique}
		pay := func(c *counter, fail func(ctx context.Context) error) work {
			return func(ctx context.Context, d doc) (doc, error) {
				_, err := graph.Task(ctx, "pay", func(ctx context.Context) (string, error) {
					_, _ = c.did("pay")(ctx)
					return "", fail(ctx)
				}, opts)
				return d, err
			}
		}
		t.Run(fmt.Sprintf("over a retry, unique=%v", unique), func(t *testing.T) {
			t.Parallel()
			c := newCounter()
			r := newRunner(t, chain(t, parts{beta: pay(c, func(context.Context) error {
				if c.times["pay"] == 1 {
					return graph.Retry(errBroken, 0)
				}
				return nil
			})}), memory.New(nil), nil)
			complete(t, r, graph.StartParams[doc]{})
			assert.Equal(t, 2, c.count("pay"))
			c.key(t, "pay")
		})
		t.Run(fmt.Sprintf("over a crash, unique=%v", unique), func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				st := memory.New(nil)
				f := graphtest.NewFaulty(st, 0, "")
				c := newCounter()
				run := start(t, newRunner(t, chain(t, parts{beta: pay(c, func(context.Context) error { f.Kill(); return nil })}), f, nil), graph.StartParams[doc]{})
				_, err := run.Wait(t.Context())
				require.ErrorIs(t, err, graphtest.ErrDead)
				r := newRunner(t, chain(t, parts{beta: pay(c, func(context.Context) error { return nil })}), st, nil)
				serve(t, r)
				other, err := r.Attach(t.Context(), "", run.ID())
				require.NoError(t, err)
				_, err = other.Wait(t.Context())
				require.NoError(t, err)
				assert.Equal(t, 2, c.count("pay"))
				c.key(t, "pay")
			})
		})
		for _, kept := range []bool{false, true} {
			t.Run(fmt.Sprintf("over its own question, unique=%v, other work kept=%v", unique, kept), func(t *testing.T) {
				t.Parallel()
				st := memory.New(nil)
				c := newCounter()
				does := pay(c, func(ctx context.Context) error { _, err := graph.Interrupt[bool](ctx, "", "sure?"); return err })
				g := chain(t, parts{beta: func(ctx context.Context, d doc) (doc, error) {
					if kept {
						graph.Keep(ctx, d)
					}
					return does(ctx, d)
				}})
				r := newRunner(t, g, st, nil)
				run, _, err := finish(t, r, graph.StartParams[doc]{})
				require.ErrorIs(t, err, graph.ErrInterrupted)
				_, _, err = finish(t, r, graph.StartParams[doc]{Session: run.Session()})
				require.ErrorIs(t, err, graph.ErrInterrupted)
				complete(t, r, graph.StartParams[doc]{Session: run.Session(), Resume: json.RawMessage("true")})
				assert.Equal(t, 3, c.count("pay"))
				key := c.key(t, "pay")
				assert.Len(t, key, 32)

				// A fork from the question is another matter.
				var at uuid.UUID
				for _, cp := range checkpoints(t, st, run.Session()) {
					if cp.Reason == checkpoint.Interrupt {
						at = cp.ID
					}
				}
				complete(t, r, graph.StartParams[doc]{Session: run.Session(), Checkpoint: at, Resume: json.RawMessage("true")})
				require.Len(t, c.keys["pay"], 2)
				assert.NotEqual(t, key, c.keys["pay"][1])
			})
		}
		for name, open := range stores() {
			t.Run(fmt.Sprintf("until the next run, unique=%v, %s", unique, name), func(t *testing.T) {
				t.Parallel()
				c := newCounter()
				r := newRunner(t, chain(t, parts{beta: pay(c, func(context.Context) error { return nil })}), open(), nil)
				run, _ := complete(t, r, graph.StartParams[doc]{})
				complete(t, r, graph.StartParams[doc]{Session: run.Session()})
				if unique {
					c.key(t, "pay")
				} else {
					assert.Len(t, c.keys["pay"], 2)
				}
			})
		}
	}
}

func TestAnIdempotencyKeyBelongsToOneTask(t *testing.T) {
	t.Parallel()
	st := memory.New(nil)
	c := newCounter()
	does := func(key string, unique bool) work {
		return func(ctx context.Context, d doc) (doc, error) {
			_, err := graph.Task(ctx, key, c.did("all"), &graph.TaskOptions{Unique: unique})
			return d, err
		}
	}
	t.Run("also in a session of the same id in another tenant", func(t *testing.T) {
		t.Parallel()
		st, c := memory.New(nil), newCounter()
		for _, unique := range []bool{false, true} {
			r := newRunner(t, chain(t, parts{beta: func(ctx context.Context, d doc) (doc, error) {
				_, err := graph.Task(ctx, "t", c.did("t"), &graph.TaskOptions{Unique: unique})
				return d, err
			}}), st, nil)
			session := uuid.New()
			for _, tenant := range []string{"one", "two"} {
				complete(t, r, graph.StartParams[doc]{Session: session, Tenant: tenant})
			}
		}
		assert.Len(t, c.keys["t"], 4)
	})
	for _, unique := range []bool{false, true} {
		r := newRunner(t, chain(t, parts{alpha: does("x", unique), beta: does("y", unique)}), st, nil)
		for _, tenant := range []string{"", "other"} {
			run, _ := complete(t, r, graph.StartParams[doc]{Tenant: tenant})
			if unique && tenant == "" {
				at := checkpoints(t, st, run.Session())[0].ID
				complete(t, r, graph.StartParams[doc]{Session: run.Session(), Checkpoint: at})
			}
			complete(t, r, graph.StartParams[doc]{Tenant: tenant})
		}
	}
	assert.Len(t, c.keys["all"], 18)
	assert.Equal(t, 18, c.count("all"))
}

func TestOutsideARunATaskIsACall(t *testing.T) {
	t.Parallel()
	for range 2 {
		got, err := graph.Task(t.Context(), "t", func(ctx context.Context) (string, error) {
			return "key " + graph.IdempotencyKey(ctx), errBroken
		}, &graph.TaskOptions{AtMostOnce: true})
		assert.Equal(t, "key ", got)
		assert.Equal(t, errBroken, err)
	}
	assert.False(t, graph.TaskDone(t.Context(), "t"))
	assert.False(t, graph.TaskStarted(t.Context(), "t"))
	assert.Empty(t, graph.IdempotencyKey(t.Context()))
	say(t.Context(), "to nobody")
	_, ok := graph.InfoFrom(t.Context())
	assert.False(t, ok)
}

func TestANodeKnowsItsRun(t *testing.T) {
	t.Parallel()
	var info graph.Info
	r := newRunner(t, chain(t, parts{beta: func(ctx context.Context, d doc) (doc, error) {
		var ok bool
		info, ok = graph.InfoFrom(ctx)
		assert.True(t, ok)
		assert.Empty(t, graph.IdempotencyKey(ctx), "a node is no task")
		return d, nil
	}}), memory.New(nil), nil)
	run, _ := complete(t, r, graph.StartParams[doc]{Tenant: "acme"})
	assert.Equal(t, graph.Info{Graph: "chain", Tenant: "acme", Session: run.Session(), Run: run.ID(), Node: "beta"}, info)
}

// awaited is a result whose decoding tells when it begins and waits until it may go on.
type awaited struct{}

var decoding, decode chan struct{}

func (awaited) MarshalJSON() ([]byte, error) { return []byte("{}"), nil }

func (*awaited) UnmarshalJSON([]byte) error {
	close(decoding)
	<-decode
	return nil
}

func TestATaskThatOutlivesItsNodeHarmsNobody(t *testing.T) {
	t.Parallel()
	decoding, decode = make(chan struct{}), make(chan struct{})
	var stray sync.WaitGroup
	task := func(ctx context.Context) (awaited, error) {
		return graph.Task(ctx, "k", func(context.Context) (awaited, error) { return awaited{}, nil })
	}
	r := newRunner(t, chain(t, parts{
		alpha: func(ctx context.Context, d doc) (doc, error) {
			if _, err := task(ctx); err != nil {
				return d, err
			}
			stray.Go(func() { _, _ = task(ctx) })
			<-decoding // it has found the kept result
			return d, nil
		},
		beta: func(_ context.Context, d doc) (doc, error) {
			close(decode)
			stray.Wait()
			return d, nil
		},
	}), nil, nil)
	_, d := complete(t, r, graph.StartParams[doc]{Input: &doc{}})
	require.Equal(t, "abc", d.Trail)
}
