package react_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/react/reacttest"
	"github.com/everstep-go/everstep/store"
)

func deltas(list ...message.Delta) reacttest.Step { return reacttest.Step{Deltas: list} }

// Contract 3.2.
func TestHowAReplyIsToldAndKept(t *testing.T) {
	t.Parallel()
	think := func(text string) message.Delta { return message.ReasoningDelta{Text: text} }
	say := func(text string) message.Delta { return message.TextDelta{Text: text} }
	done := message.Done{FinishReason: message.FinishStop}
	for name, test := range map[string]struct {
		step  reacttest.Step
		story []string
		talk  []string
	}{
		"an empty reply": {
			step: deltas(done), story: nil, talk: []string{"assistant"},
		},
		"empty deltas": {
			step: deltas(say(""), think(""), message.ReasoningDone{}, done), talk: []string{"assistant"},
		},
		"a block with deltas and a signature": {
			step: deltas(think("a"), think("b"), message.ReasoningDone{Text: "ab", Signature: "s"}, say("hi"), done),
			story: []string{
				"reasoning_start", "reasoning_message_start", `reasoning_message_content "a"`, `reasoning_message_content "b"`,
				"reasoning_message_end", "reasoning_signature s", "reasoning_end",
				"text_message_start", `text_message_content "hi"`, "text_message_end",
			},
			talk: []string{`reasoning "ab" "s"`, `assistant "hi"`},
		},
		"a block without deltas": {
			step: deltas(message.ReasoningDone{Text: "whole", Signature: "s"}, say("hi"), done),
			story: []string{
				"reasoning_start", "reasoning_message_start", `reasoning_message_content "whole"`, "reasoning_message_end", "reasoning_signature s", "reasoning_end",
				"text_message_start", `text_message_content "hi"`, "text_message_end",
			},
			talk: []string{`reasoning "whole" "s"`, `assistant "hi"`},
		},
		"a redacted block": {
			step: deltas(message.ReasoningDone{Signature: "blob"}, say("hi"), done),
			story: []string{
				"reasoning_start", "reasoning_message_start", "reasoning_message_end", "reasoning_signature blob", "reasoning_end",
				"text_message_start", `text_message_content "hi"`, "text_message_end",
			},
			talk: []string{`reasoning "" "blob"`, `assistant "hi"`},
		},
		"a block that is not ended": {
			step: deltas(think("a"), say("hi"), done),
			story: []string{
				"reasoning_start", "reasoning_message_start", `reasoning_message_content "a"`,
				"text_message_start", `text_message_content "hi"`, "reasoning_message_end", "reasoning_end", "text_message_end",
			},
			talk: []string{`reasoning "a" ""`, `assistant "hi"`},
		},
		"several blocks, and text between them": {
			step: deltas(think("one"), message.ReasoningDone{Signature: "s1"}, say("x"), think("two"), say("y"), message.ReasoningDone{Signature: "s2"}, message.ReasoningDone{Text: "three"}, say("z"), done),
			story: []string{
				"reasoning_start", "reasoning_message_start", `reasoning_message_content "one"`, "reasoning_message_end", "reasoning_signature s1", "reasoning_end",
				"text_message_start", `text_message_content "x"`,
				"reasoning_start", "reasoning_message_start", `reasoning_message_content "two"`,
				`text_message_content "y"`,
				"reasoning_message_end", "reasoning_signature s2", "reasoning_end",
				"reasoning_start", "reasoning_message_start", `reasoning_message_content "three"`, "reasoning_message_end", "reasoning_end",
				`text_message_content "z"`, "text_message_end",
			},
			talk: []string{`reasoning "one" "s1"`, `reasoning "two" "s2"`, `reasoning "three" ""`, `assistant "xyz"`},
		},
		"only reasoning": {
			step:  deltas(think("a"), message.ReasoningDone{}, done),
			story: []string{"reasoning_start", "reasoning_message_start", `reasoning_message_content "a"`, "reasoning_message_end", "reasoning_end"},
			talk:  []string{`reasoning "a" ""`, "assistant"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachStore(t, func(t *testing.T, st store.Store) {
				b := setup(t, react.Config{Store: st, Name: "teller"}, test.step)
				events := b.ask(t, "hi")
				want := append([]string{"state_snapshot {}"}, test.story...)
				assert.Equal(t, append(want, "messages_snapshot", "run_finished completed"), tell(events))
				s := b.state(t)
				assert.Equal(t, append([]string{`user "hi"`}, test.talk...), talk(s.Messages))
				ids := map[string]bool{}
				for _, m := range s.Messages[1:] {
					assert.Equal(t, "teller", m.Head().Name)
					assert.Equal(t, events[0].Run, m.Head().RunID)
					ids[m.Head().ID.String()] = true
				}
				assert.Len(t, ids, len(test.talk), "each block is a message with an id of its own")
				for _, e := range events {
					switch d := e.Data.(type) {
					case event.TextMessageStart:
						assert.Equal(t, s.Messages[len(s.Messages)-1].Head().ID, d.MessageID)
					case event.ReasoningSignature:
						assert.Equal(t, "message", d.Subtype)
						assert.Equal(t, d.MessageID.String(), d.EntityID)
						assert.True(t, ids[d.MessageID.String()])
					}
				}
			})
		})
	}
}

func TestAReplyThatBreaksFailsTheRunAndLeavesNothing(t *testing.T) {
	t.Parallel()
	half := []message.Delta{message.ReasoningDelta{Text: "hm"}, message.TextDelta{Text: "It"}, message.ToolCallDelta{ID: "a", Name: "work"}}
	for name, test := range map[string]struct {
		step reacttest.Step
		code string
	}{
		"an error in the middle":           {reacttest.Step{Deltas: half, Err: errors.New("secret: broken pipe")}, "model_error"},
		"a transient error in the middle":  {reacttest.Step{Deltas: half, Err: message.Transient(errors.New("secret"), 0)}, "model_error"},
		"a stream that ends without Done":  {reacttest.Step{Deltas: half}, "model_error"},
		"a stream that ends at once":       {reacttest.Step{}, "model_error"},
		"an error at once":                 {reacttest.Fail(errors.New("secret")), "model_error"},
		"more calls than a reply may hold": {reacttest.Call(call("a", "w"), call("b", "w"), call("c", "w"), call("d", "w")), "model_error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, react.Config{MaxToolCalls: 3, Retry: &react.RetryPolicy{MaxAttempts: 3}}, test.step, reacttest.Say("fine"))
			events := b.ask(t, "hi")
			failed := last(events).(event.RunError)
			assert.Equal(t, test.code, failed.Code)
			assert.NotContains(t, failed.Error, "secret", "what happened inside stays in the log")
			open := map[string]int{}
			for _, e := range events {
				kind := string(e.Data.Kind())
				open[strings.TrimSuffix(strings.TrimSuffix(kind, "_start"), "_end")] += strings.Count(kind, "_start") - strings.Count(kind, "_end")
			}
			for span, n := range open {
				if span != "run" && span != "run_started" {
					assert.Zero(t, n, "%s is closed", span)
				}
			}
			assert.Equal(t, []string{`user "hi"`}, talk(b.state(t).Messages), "nothing of the reply is stored")
			assert.Len(t, b.script.Requests(), 1, "a stream that began is not asked for again")
			assert.Equal(t, textAnswer, kinds(b.ask(t, "again")), "the session is usable")
			assert.Equal(t, []string{`user "hi"`, `user "again"`}, talk(b.script.Requests()[1].Messages))
		})
	}
}

func TestAModelThatPanicsFailsTheRunAndClosesWhatItOpened(t *testing.T) {
	t.Parallel()
	b := setup(t, react.Config{Model: modelFunc(func(context.Context, *message.Request) iter.Seq2[message.Delta, error] {
		return func(yield func(message.Delta, error) bool) {
			yield(message.TextDelta{Text: "It"}, nil)
			panic("secret")
		}
	})})
	events := b.ask(t, "hi")
	assert.Equal(t, []string{"state_snapshot {}", "text_message_start", `text_message_content "It"`, "text_message_end", "run_error panic"}, tell(events))
	assert.NotContains(t, last(events).(event.RunError).Error, "secret")
	assert.Equal(t, []string{`user "hi"`}, talk(b.state(t).Messages))
}

func TestOddBytesOfAModelDoNotBreakTheSession(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st store.Store) {
		b := setup(t, react.Config{Store: st, Tools: []react.Tool{returns("work", 1)}},
			deltas(message.TextDelta{Text: "a\xff"}, message.TextDelta{Text: "\x00<b>"}, message.ToolCallDelta{ID: "a\xff", Name: "work", Arguments: "{}"}, message.Done{}),
			reacttest.Say("fine"))
		events := b.ask(t, "hi")
		assert.Equal(t, "completed", last(events).(event.RunFinished).Status)
		assert.Equal(t, "user assistant tool assistant", roles(b.state(t).Messages))
		for _, e := range events {
			text, err := json.Marshal(e)
			require.NoError(t, err)
			require.True(t, json.Valid(text))
		}
	})
}

func TestMissingAndRepeatedCallIDsBecomeNewOnes(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st store.Store) {
		var keys counter
		b := setup(t, react.Config{Store: st, Tools: []react.Tool{tool("work", func(ctx context.Context) (any, error) {
			keys.add(graph.IdempotencyKey(ctx))
			return 1, nil
		})}},
			deltas(
				message.ToolCallDelta{Index: 0, Name: "work"}, message.ToolCallDelta{Index: 1, ID: "a", Name: "work"},
				message.ToolCallDelta{Index: 2, ID: "a", Name: "work"}, message.Done{},
			),
			reacttest.Call(call("a", "work")), reacttest.Say("done"))
		b.ask(t, "go")
		ids := map[string]bool{}
		for _, m := range b.state(t).Messages {
			if m, ok := m.(*message.Tool); ok {
				ids[m.ToolCallID] = true
				assert.Empty(t, m.Error)
			}
		}
		assert.Len(t, ids, 4, "each call has an id of its own, over all replies of the conversation")
		assert.True(t, ids["a"])
		assert.Len(t, keys.count, 4, "and a key")
		assert.Equal(t, "user assistant tool tool tool assistant tool assistant", roles(b.state(t).Messages))
	})
}

func TestMaxStepsEndsARunThatGoesRoundInCircles(t *testing.T) {
	t.Parallel()
	for steps, want := range map[int]struct {
		asked, worked int
		roles         string
	}{
		2: {1, 1, "user assistant tool"}, // the calls of the last reply are still settled
		3: {1, 1, "user assistant tool"},
		4: {2, 2, "user assistant tool assistant tool"},
	} {
		t.Run(fmt.Sprint(steps), func(t *testing.T) {
			t.Parallel()
			var calls counter
			circle := make([]reacttest.Step, 10)
			for i := range circle {
				circle[i] = reacttest.Call(call("a", "work"))
			}
			b := setup(t, react.Config{MaxSteps: steps, Tools: []react.Tool{tool("work", func(context.Context) (any, error) {
				calls.add("work")
				return 1, nil
			})}}, circle...)
			events := b.ask(t, "go")
			assert.Equal(t, graph.CodeMaxSteps, last(events).(event.RunError).Code)
			assert.Len(t, b.script.Requests(), want.asked)
			assert.Equal(t, want.worked, calls.of("work"))
			assert.Equal(t, want.roles, roles(b.state(t).Messages), "no call is left without a result")
		})
	}
}

// Contract 9.5 and 3.8.
func TestTimeoutsAndRetries(t *testing.T) {
	t.Parallel()
	transient := func(after time.Duration) error { return message.Transient(errors.New("overloaded"), after) }
	slow := func(after time.Duration) reacttest.Step {
		return reacttest.Step{Before: func(ctx context.Context, _ *message.Request) error {
			select {
			case <-time.After(after):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}, Deltas: reacttest.Say("late").Deltas}
	}
	policy := func(attempts int, initial, limit int64) *react.RetryPolicy {
		return &react.RetryPolicy{MaxAttempts: attempts, InitialBackoff: initial, MaxBackoff: limit}
	}
	for name, test := range map[string]struct {
		config   react.Config
		client   *react.ModelConfig
		steps    []reacttest.Step
		code     string // empty: completed
		asked    int
		from, to time.Duration // how long it takes
	}{
		"45 the client's timeout and retry win": {
			config: react.Config{ModelTimeout: time.Hour, Retry: policy(3, 0, 0)},
			client: &react.ModelConfig{Timeout: new(int64(1000)), Retry: policy(2, 0, 0)},
			steps:  []reacttest.Step{slow(time.Minute), slow(time.Minute), slow(time.Minute)},
			code:   "model_timeout", asked: 2, from: 2 * time.Second, to: 2 * time.Second,
		},
		"46 missing values fall back to the agent's": {
			config: react.Config{ModelTimeout: time.Millisecond, Retry: policy(2, 0, 0)}, client: &react.ModelConfig{},
			steps: []reacttest.Step{slow(time.Minute), slow(time.Minute), slow(time.Minute)},
			code:  "model_timeout", asked: 2, from: 2 * time.Millisecond, to: 2 * time.Millisecond,
		},
		"timeout and retry fall back each on its own": {
			config: react.Config{ModelTimeout: time.Second, Retry: policy(2, 0, 0)}, client: &react.ModelConfig{Retry: policy(3, 0, 0)},
			steps: []reacttest.Step{slow(time.Minute), slow(time.Minute), slow(time.Minute), slow(0)},
			code:  "model_timeout", asked: 3, from: 3 * time.Second, to: 3 * time.Second,
		},
		"72 a transient error, then success": {
			config: react.Config{Retry: policy(2, 100, 100)}, steps: []reacttest.Step{reacttest.Fail(transient(0)), reacttest.Say("fine")},
			asked: 2, from: 100 * time.Millisecond, to: 125 * time.Millisecond,
		},
		"73 an error that will not pass": {
			config: react.Config{Retry: policy(5, 0, 0)}, steps: []reacttest.Step{reacttest.Fail(assert.AnError), reacttest.Say("fine")},
			code: "model_error", asked: 1,
		},
		"74 a slow handshake, then success": {
			config: react.Config{ModelTimeout: time.Second, Retry: policy(2, 0, 0)}, steps: []reacttest.Step{slow(time.Minute), reacttest.Say("fine")},
			asked: 2, from: time.Second, to: time.Second,
		},
		"without a policy there is one attempt": {
			steps: []reacttest.Step{reacttest.Fail(transient(0))}, code: "model_error", asked: 1,
		},
		"a provider says how long to wait": {
			config: react.Config{Retry: policy(2, 100, 100)}, steps: []reacttest.Step{reacttest.Fail(transient(7 * time.Second)), reacttest.Say("fine")},
			asked: 2, from: 7 * time.Second, to: 7 * time.Second,
		},
		"but not as long as it likes": {
			config: react.Config{Retry: policy(2, 100, 100)}, steps: []reacttest.Step{reacttest.Fail(transient(time.Hour)), reacttest.Say("fine")},
			asked: 2, from: time.Minute, to: time.Minute,
		},
		"the wait doubles up to its limit": {
			config: react.Config{Retry: policy(5, 1000, 3000)},
			steps:  []reacttest.Step{reacttest.Fail(transient(0)), reacttest.Fail(transient(0)), reacttest.Fail(transient(0)), reacttest.Fail(transient(0)), reacttest.Say("fine")},
			asked:  5, from: 9 * time.Second, to: 11250 * time.Millisecond, // 1 + 2 + 3 + 3, and up to a quarter
		},
		"the attempts are used up": {
			config: react.Config{Retry: policy(2, 0, 0)}, steps: []reacttest.Step{reacttest.Fail(transient(0)), reacttest.Fail(transient(0)), reacttest.Say("fine")},
			code: "model_error", asked: 2,
		},
		"the timeout is over once the reply begins": {
			config: react.Config{ModelTimeout: time.Second, Model: pausing(10*time.Minute, 500*time.Millisecond)}, from: 20 * time.Minute, to: 21 * time.Minute,
		},
		"a reply that comes to a halt": {
			config: react.Config{ModelIdle: time.Second, Retry: policy(3, 0, 0), Model: pausing(10*time.Minute, 0)}, code: "model_timeout", from: time.Second, to: time.Second,
		},
		"a reply that pauses less than that": {
			config: react.Config{ModelIdle: time.Second, Model: pausing(900*time.Millisecond, 10*time.Second)}, from: 11 * time.Second, to: 12 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				b := setup(t, test.config, test.steps...)
				in := user("hi")
				if test.client != nil {
					in.Model = react.Set(test.client)
				}
				began := time.Now()
				events := b.run(t, in)
				took := time.Since(began)
				if test.code == "" {
					assert.Equal(t, event.KindRunFinished, last(events).Kind())
				} else {
					assert.Equal(t, test.code, last(events).(event.RunError).Code)
				}
				assert.Len(t, b.script.Requests(), test.asked)
				assert.GreaterOrEqual(t, took, test.from)
				assert.LessOrEqual(t, took, test.to)
			})
		})
	}
}

// pausing is a model that begins after a while, and pauses between its words.
func pausing(pause, first time.Duration) react.Model {
	return modelFunc(func(ctx context.Context, _ *message.Request) iter.Seq2[message.Delta, error] {
		return func(yield func(message.Delta, error) bool) {
			wait := first
			for _, d := range append(reacttest.Words("a b"), message.Done{}) {
				select {
				case <-time.After(wait):
				case <-ctx.Done():
					yield(nil, ctx.Err())
					return
				}
				if wait = pause; !yield(d, nil) {
					return
				}
			}
		}
	})
}

func TestCancellingEndsTheWaitForTheNextAttempt(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := setup(t, react.Config{Retry: &react.RetryPolicy{MaxAttempts: 9}}, reacttest.Fail(message.Transient(assert.AnError, time.Minute)))
		run := b.start(t, user("hi"))
		synctest.Wait()
		began := time.Now()
		cancelWhenIdle(t, run)
		assert.Zero(t, time.Since(began))
		assert.Equal(t, []string{"state_snapshot {}", "run_finished cancelled"}, tell(watch(t, run)))
	})
}

func ptr[T any](v T) *T { return &v }

func TestWhichModelIsAskedAndHow(t *testing.T) {
	t.Parallel()
	var asked []string
	named := func(name string) react.Model {
		return react.ModelFunc(func(_ context.Context, req *message.Request) (message.Reply, error) {
			params, err := json.Marshal(req.Params)
			asked = append(asked, fmt.Sprintf("%s/%s %s", name, req.Model, params))
			return message.Reply{Text: "hi"}, err
		})
	}
	b := setup(t, react.Config{
		Model: named("main"), ModelName: "big", Provider: "home", Providers: map[string]react.Model{"other": named("other")},
		Params:     message.Params{MaxTokens: ptr[uint64](10), Temperature: ptr(0.5), ProviderParams: json.RawMessage(`{"a":1,"b":2}`)},
		AllowModel: func(provider, model string) bool { return model != "bad" && provider != "" },
	})
	override := func(o *react.ModelOverride) react.Input {
		in := user("hi")
		in.Model = react.Set(&react.ModelConfig{Override: o})
		return in
	}
	base := `{"max_tokens":10,"temperature":0.5,"provider_params":{"a":1,"b":2}}`
	for _, test := range []struct {
		in   react.Input
		want string
	}{
		{user("hi"), "main/big " + base},
		{override(&react.ModelOverride{Model: "small"}), "main/small " + base},
		{user("it stays"), "main/small " + base},
		{override(&react.ModelOverride{Provider: "other"}), "other/big " + base},
		{override(&react.ModelOverride{Provider: "home"}), "main/big " + base},
		{override(&react.ModelOverride{Provider: "other", Model: "small"}), "other/small " + base},
		{override(&react.ModelOverride{InferenceParams: &message.Params{Temperature: ptr(0.0), TopK: ptr[uint32](3), ProviderParams: json.RawMessage(`{"c":3}`)}}),
			`main/big {"max_tokens":10,"temperature":0,"top_k":3,"provider_params":{"c":3}}`},
		{react.Input{Messages: user("cleared").Messages, Model: react.Set[*react.ModelConfig](nil)}, "main/big " + base},
	} {
		asked = nil
		b.run(t, test.in)
		assert.Equal(t, []string{test.want}, asked)
	}
	for field, o := range map[string]*react.ModelOverride{
		"model.override.provider": {Provider: "nobody"}, "model.override.model": {Model: "bad"},
	} {
		in := override(o)
		in.Session = b.session
		_, err := b.agent.Start(t.Context(), in)
		assert.Equal(t, map[string]string{field: "unknown"}, codes(t, err))
	}
}

// A deploy can take away what a session chose.
func TestAProviderThatIsGoneFailsTheRun(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st store.Store) {
		b := setup(t, react.Config{Store: st, Providers: map[string]react.Model{"other": reacttest.NewScript(reacttest.Say("hi"))}})
		in := user("hi")
		in.Model = react.Set(&react.ModelConfig{Override: &react.ModelOverride{Provider: "other", Model: "old"}})
		b.run(t, in)
		later := setup(t, react.Config{Store: st}, reacttest.Say("fine"))
		later.session = b.session
		assert.Equal(t, []string{"state_snapshot {}", "run_error model_error"}, tell(later.ask(t, "hi")))
		later = setup(t, react.Config{Store: st, Providers: map[string]react.Model{"other": later.script}, AllowModel: func(string, string) bool { return false }})
		later.session = b.session
		assert.Equal(t, react.CodeModelError, last(later.ask(t, "hi")).(event.RunError).Code)
	})
}

func TestThePromptIsRenderedBeforeEveryModelCall(t *testing.T) {
	t.Parallel()
	b := setup(t, react.Config{
		Name: "forecaster", Tools: []react.Tool{tool("work", puts("/n", "2")), tool("root", nil, &react.ToolOptions{Capabilities: []string{"root"}})},
		Prompt: react.TextPrompt(`You are {{.AgentName}}. n is {{.State.n}}. {{len .Skills}} {{len .Messages}} {{range .Tools}}{{.Name}} {{end}}{{range .ContextVars}}{{.Description}}={{.Value}}{{end}}`),
	}, reacttest.Call(call("a", "work")), reacttest.Say("done"))
	in := with(message.NewSystem("be brief"), message.NewUser("go"))
	in.Context, in.Tools = json.RawMessage(`{"n":1}`), clientTool("work", "pick")
	in.ContextVars = react.Set([]react.ContextVar{{Description: "city", Value: "Oslo"}})
	b.run(t, in)
	requests := b.script.Requests()
	assert.Equal(t, "You are forecaster. n is 1. 0 2 pick work city=Oslo\nbe brief", requests[0].System)
	assert.Equal(t, "You are forecaster. n is 2. 0 4 pick work city=Oslo\nbe brief", requests[1].System)
	assert.Equal(t, "system user assistant tool assistant", roles(b.state(t).Messages), "the prompt is not stored")

	b = setup(t, react.Config{Prompt: react.TextPrompt(`{{.State.none}}`)})
	assert.Equal(t, []string{"state_snapshot {}", "run_error model_error"}, tell(b.ask(t, "hi")))
}

// Contract R15, R24.
func TestRequestsAreWellFormedWhateverTheHistory(t *testing.T) {
	t.Parallel()
	const none = `"no result: the call was interrupted" error "no result: the call was interrupted"`
	for name, test := range map[string]struct {
		calls  []message.ToolCall
		inputs []react.Input
		want   []string
	}{
		"results out of order": {
			calls: []message.ToolCall{call("a", "pick"), call("b", "pick")}, inputs: []react.Input{with(message.NewTool("b", "2"), message.NewTool("a", "1"))},
			want: []string{`tool a "1"`, `tool b "2"`},
		},
		"a result twice": {
			calls: []message.ToolCall{call("a", "pick")}, inputs: []react.Input{with(message.NewTool("a", "1"), message.NewTool("a", "2"))},
			want: []string{`tool a "1"`},
		},
		"a result of no call": {
			calls: []message.ToolCall{call("a", "pick")}, inputs: []react.Input{with(message.NewTool("z", "0"), message.NewTool("a", "1"))},
			want: []string{`tool a "1"`},
		},
		"a result after a user message": {
			calls: []message.ToolCall{call("a", "pick")}, inputs: []react.Input{with(message.NewUser("wait"), message.NewTool("a", "1"))},
			want: []string{`tool a "1"`, `user "wait"`},
		},
		"a result that never comes": {
			calls: []message.ToolCall{call("a", "pick"), call("b", "work")}, inputs: []react.Input{user("never mind")},
			want: []string{"tool a " + none, `tool b "1"`, `user "never mind"`},
		},
		"a system message between call and result": {
			calls: []message.ToolCall{call("a", "pick")}, inputs: []react.Input{with(message.NewSystem("mind"), message.NewTool("a", "1"))},
			want: []string{`tool a "1"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachStore(t, func(t *testing.T, st store.Store) {
				b := setup(t, react.Config{Store: st, Tools: []react.Tool{returns("work", 1)}}, reacttest.Call(test.calls...), reacttest.Say("fine"))
				in := user("go")
				in.Tools = clientTool("pick")
				b.run(t, in)
				for _, in := range test.inputs {
					b.run(t, in)
				}
				requests := b.script.Requests()
				require.Len(t, requests, 2)
				require.NoError(t, requests[1].Validate())
				assert.Equal(t, test.want, talk(requests[1].Messages)[2:])
			})
		})
	}
}
