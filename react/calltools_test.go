package react_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/react/reacttest"
	"github.com/everstep-go/everstep/state"
	"github.com/everstep-go/everstep/store"
)

func add(path, value string) state.Operation { return state.Add(path, json.RawMessage(value)) }

// takes is a tool that needs a while and then does something.
func takes(name string, d time.Duration, do func(context.Context) (any, error), opts ...*react.ToolOptions) react.Tool {
	return tool(name, func(ctx context.Context) (any, error) {
		select {
		case <-time.After(d):
			return do(ctx)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}, opts...)
}

func puts(path, value string) func(context.Context) (any, error) {
	return func(ctx context.Context) (any, error) { return "put", react.UpdateContext(ctx, add(path, value)) }
}

func TestEventsOfAToolComeInOrder(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st store.Store) {
		b := setup(t, react.Config{Store: st, Tools: []react.Tool{tool("work", func(ctx context.Context) (any, error) {
			react.EmitActivity(ctx, "progress", state.Patch{add("/done", "1")})
			if err := react.UpdateContext(ctx, add("/a", "1")); err != nil {
				return nil, err
			}
			react.EmitActivity(ctx, "progress", state.Patch{add("/done", "2")})
			return map[string]any{"ok": true}, nil
		})}}, reacttest.Call(reacttest.ToolCall("x", "work", ` { } `)), reacttest.Say("done"))
		assert.Equal(t, []string{
			"state_snapshot {}",
			"tool_call_start x work", "tool_call_args x {}", "tool_call_end x",
			"activity_delta x progress", "activity_delta x progress",
			`state_delta [{"op":"add","path":"/a","value":1}]`,
			`tool_call_result x {"ok":true}`,
			"text_message_start", `text_message_content "done"`, "text_message_end",
			"messages_snapshot", "run_finished completed",
		}, tell(b.ask(t, "go")))
	})
}

func TestAllCallsAreAnnouncedInTheOrderOfTheReplyBeforeAnyOfThemIsHeardOf(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := setup(t, react.Config{Tools: []react.Tool{
			takes("slow", 3*time.Second, puts("/slow", "1")),
			takes("fast", time.Second, puts("/fast", "1")),
		}}, reacttest.Call(call("x", "slow"), call("y", "fast"), call("z", "none")), reacttest.Say("done"))
		began := time.Now()
		story := tell(b.ask(t, "go"))
		assert.Equal(t, []string{
			"tool_call_start x slow", "tool_call_args x {}", "tool_call_end x",
			"tool_call_start y fast", "tool_call_args y {}", "tool_call_end y",
			"tool_call_start z none", "tool_call_args z {}", "tool_call_end z",
			"tool_call_error z not_found",
			`state_delta [{"op":"add","path":"/fast","value":1}]`, `tool_call_result y "put"`,
			`state_delta [{"op":"add","path":"/slow","value":1}]`, `tool_call_result x "put"`,
		}, story[1:15])
		assert.Equal(t, 3*time.Second, time.Since(began), "the tools run in parallel")
		assert.Equal(t, []string{`user "go"`, "assistant x:slow y:fast z:none", `tool x "put"`, `tool y "put"`,
			`tool z "Tool 'none' not found" error "Tool 'none' not found"`, `assistant "done"`},
			talk(b.state(t).Messages), "tool messages are stored in the order of the reply")
	})
}

func TestToolConcurrencyBoundsHowManyToolsRunAtOnce(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{0, 1, 2, 3} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				var now, most atomic.Int64
				var order []string
				var calls []message.ToolCall
				var names []string
				for i := range 9 {
					calls = append(calls, reacttest.ToolCall(fmt.Sprint(i), "work", map[string]int{"n": i}))
					names = append(names, fmt.Sprint(i))
				}
				b := setup(t, react.Config{ToolConcurrency: limit, Tools: []react.Tool{
					react.NewTool("work", "Works.", func(_ context.Context, in struct {
						N int `json:"n"`
					}) (int, error) {
						most.Store(max(most.Load(), now.Add(1)))
						defer now.Add(-1)
						if limit == 1 {
							order = append(order, fmt.Sprint(in.N))
						}
						time.Sleep(time.Second)
						return in.N, nil
					}),
				}}, reacttest.Call(calls...), reacttest.Say("done"))
				b.ask(t, "go")
				if limit == 0 {
					limit = 8
				}
				assert.EqualValues(t, limit, most.Load())
				if limit == 1 {
					assert.Equal(t, names, order, "one after the other, in the order of the reply")
				}
			})
		})
	}
}

func TestASequentialToolNeverRunsBesideAnother(t *testing.T) {
	t.Parallel()
	var now, others atomic.Int64
	alone := func(context.Context) (any, error) {
		assert.EqualValues(t, 1, now.Add(1))
		for range 1000 {
			assert.Zero(t, others.Load())
			runtime.Gosched()
		}
		now.Add(-1)
		return nil, nil
	}
	beside := func(context.Context) (any, error) {
		others.Add(1)
		defer others.Add(-1)
		for range 1000 {
			assert.Zero(t, now.Load())
			runtime.Gosched()
		}
		return nil, nil
	}
	b := setup(t, react.Config{Tools: []react.Tool{tool("alone", alone, &react.ToolOptions{Sequential: true}), tool("beside", beside)}},
		reacttest.Call(call("a", "beside"), call("b", "alone"), call("c", "beside"), call("d", "alone"), call("e", "beside")), reacttest.Say("done"))
	b.ask(t, "go")
	assert.NotContains(t, strings.Join(talk(b.state(t).Messages), "\n"), "error")
}

func TestAToolSeesTheStateAsItIsWhenItStarts(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		seen := map[string]string{}
		look := func(name string, then func(context.Context) (any, error)) func(context.Context) (any, error) {
			return func(ctx context.Context) (any, error) {
				s, ok := react.StateFrom(ctx)
				assert.True(t, ok)
				seen[name] = string(s.Context) + " " + roles(s.Messages)
				time.Sleep(time.Second)
				s, _ = react.StateFrom(ctx)
				assert.Equal(t, seen[name], string(s.Context)+" "+roles(s.Messages), "it does not change under the tool")
				return then(ctx)
			}
		}
		b := setup(t, react.Config{ToolConcurrency: 1, Tools: []react.Tool{
			tool("one", look("one", puts("/one", "1"))), tool("two", look("two", puts("/two", "2"))),
		}}, reacttest.Call(call("a", "one"), call("b", "two")), reacttest.Say("done"))
		in := user("go")
		in.Context = json.RawMessage(`{"zero":0}`)
		b.run(t, in)
		assert.Equal(t, map[string]string{"one": `{"zero":0} user assistant`, "two": `{"zero":0,"one":1} user assistant`}, seen)

		// Side by side they see the same, and both changes apply.
		b = setup(t, react.Config{Tools: []react.Tool{
			tool("one", look("one", puts("/one", "1"))), tool("two", look("two", puts("/two", "2"))),
		}, ToolConcurrency: 1}, reacttest.Call(call("a", "one"), call("b", "two")), reacttest.Say("done"))
		b.ask(t, "go")
		assert.JSONEq(t, `{"one":1,"two":2}`, string(b.state(t).Context))
	})
}

func TestNoToolCanChangeTheConversationThatItLooksAt(t *testing.T) {
	t.Parallel()
	b := setup(t, react.Config{Tools: []react.Tool{tool("work", func(ctx context.Context) (any, error) {
		s, _ := react.StateFrom(ctx)
		_ = append(s.Messages, message.NewUser("smuggled"))
		return nil, nil
	})}}, reacttest.Call(call("a", "work"), call("b", "work")), reacttest.Say("done"))
	b.ask(t, "go")
	assert.Equal(t, "user assistant tool tool assistant", roles(b.state(t).Messages))
}

// replay applies what a client hears of the context.
func replay(t testing.TB, events []event.Event) string {
	t.Helper()
	var doc json.RawMessage
	for _, e := range events {
		switch d := e.Data.(type) {
		case event.StateSnapshot:
			doc = d.State
		case event.StateDelta:
			var err error
			doc, err = d.Delta.Apply(doc, nil)
			require.NoError(t, err)
		}
	}
	return string(doc)
}

func TestAClientThatAppliesTheDeltasHasTheServersContext(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st store.Store) {
		type in struct {
			Op string `json:"op"`
		}
		for round := range 8 {
			b := setup(t, react.Config{Store: st, Tools: []react.Tool{
				react.NewTool("append", "Appends.", func(ctx context.Context, in in) (string, error) {
					return "appended", react.UpdateContext(ctx, add("/list/-", in.Op))
				}),
				react.NewTool("move", "Moves.", func(ctx context.Context, in in) (string, error) {
					return "moved", react.UpdateContext(ctx, state.Move("/list/0", "/first"), add("/list/-", in.Op))
				}),
			}}, reacttest.Call(
				reacttest.ToolCall("a", "append", in{"1"}), reacttest.ToolCall("b", "move", in{"2"}), reacttest.ToolCall("c", "append", in{"3"}),
				reacttest.ToolCall("d", "append", in{"4"}), reacttest.ToolCall("e", "move", in{"5"}), reacttest.ToolCall("f", "append", in{"6"}),
			), reacttest.Say("done"))
			request := user(fmt.Sprint("round ", round))
			request.Context = json.RawMessage(`{"list":["0"],"text":"<&>"}`)
			events := b.run(t, request)
			finished := last(events).(event.RunFinished)
			assert.Equal(t, string(finished.Result), replay(t, events))
			assert.Equal(t, string(finished.Result), string(b.state(t).Context), "and so has the store")
		}
	})
}

func TestContextOperationsApplyInTheOrderInWhichToolsFinish(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := setup(t, react.Config{Tools: []react.Tool{
			takes("three", 3*time.Second, puts("/list/-", "3")), takes("one", time.Second, puts("/list/-", "1")), takes("two", 2*time.Second, puts("/list/-", "2")),
		}}, reacttest.Call(call("a", "three"), call("b", "one"), call("c", "two")), reacttest.Say("done"))
		in := user("go")
		in.Context = json.RawMessage(`{"list":[]}`)
		b.run(t, in)
		assert.JSONEq(t, `{"list":[1,2,3]}`, string(b.state(t).Context))
	})
}

// updates is a tool that returns a state update.
func updates(name, output, update string) react.Tool {
	return react.NewTool(name, "Updates.", func(context.Context, nothing) (react.ToolResult, error) {
		return react.ToolResult{Output: json.RawMessage(output), StateUpdate: json.RawMessage(update)}, nil
	})
}

func TestAWrongStateUpdateIsAnErrorThatKeepsTheOutputAndHurtsNobodyElse(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		update string
		says   []string
	}{
		"outer path":           {`[{"op":"add","path":"/context/city","value":"Oslo"}]`, []string{"/context/city", `"/context/-"`, `"path":"/city"`}},
		"outer operation":      {`[{"op":"frobnicate","path":"/context/-"}]`, []string{"/context/-"}},
		"outer shape":          {`{"context":[]}`, []string{"/context/-"}},
		"no JSON":              {`[`, []string{"/context/-"}},
		"inner shape":          {`[{"op":"add","path":"/context/-","value":"Oslo"}]`, []string{"/context/-"}},
		"inner missing parent": {`[{"op":"add","path":"/context/-","value":{"op":"add","path":"/a/b","value":1}}]`, []string{"/a/b"}},
		"inner failed test":    {`[{"op":"add","path":"/context/-","value":{"op":"test","path":"/kept","value":2}}]`, []string{"/kept"}},
		"no object any more":   {`[{"op":"add","path":"/context/-","value":{"op":"add","path":"","value":[1]}}]`, []string{"object"}},
		"capabilities":         {`[{"op":"add","path":"/capability_override","value":{"strategy":"replace","capabilities":["root"]}}]`, []string{"/capability_override"}},
		"model":                {`[{"op":"add","path":"/model","value":null}]`, []string{"/model"}},
		"assistant message":    {`[{"op":"add","path":"/messages/-","value":{"role":"assistant","content":"I say"}}]`, []string{"/messages/-", "assistant"}},
		"one of two":           {`[{"op":"add","path":"/context/-","value":{"op":"add","path":"/bad","value":1}},{"op":"add","path":"/context/-","value":{"op":"remove","path":"/none"}}]`, []string{"/none"}},
		"message beside it":    {`[{"op":"add","path":"/messages/-","value":{"role":"user","content":"note"}},{"op":"add","path":"/context/-","value":{"op":"remove","path":"/none"}}]`, []string{"/none"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, react.Config{Tools: []react.Tool{updates("wrong", `{"did":"it"}`, test.update), tool("right", puts("/right", "true"))}},
				reacttest.Call(call("a", "wrong"), call("b", "right")), reacttest.Say("done"))
			in := user("go")
			in.Context = json.RawMessage(`{"kept":1}`)
			events := b.run(t, in)
			failed := find[event.ToolCallError](t, events)
			assert.Equal(t, react.CodeInvalidStateUpdate, failed.Code)
			for _, text := range test.says {
				assert.Contains(t, failed.Error, text)
			}
			assert.JSONEq(t, `{"kept":1,"right":true}`, string(b.state(t).Context))
			assert.Equal(t, string(b.state(t).Context), replay(t, events))
			s := b.state(t)
			require.Equal(t, "user assistant tool tool assistant", roles(s.Messages))
			stored := s.Messages[2].(*message.Tool)
			assert.Equal(t, `{"did":"it"}`, *stored.Content, "the output is kept")
			assert.Equal(t, failed.Error, stored.Error)
			assert.Equal(t, failed.MessageID, stored.ID, "the event names the tool message")
		})
	}
}

func TestAToolMayAppendMessagesWhichStandAfterTheResultsOfTheStep(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st store.Store) {
		b := setup(t, react.Config{Store: st, Tools: []react.Tool{
			updates("note", `"noted"`, `[{"op":"add","path":"/messages/-","value":{"role":"user","content":"look"}},{"op":"add","path":"/messages/-","value":{"role":"system","content":"mind"}}]`),
			returns("work", 1),
		}}, reacttest.Call(call("a", "note"), call("b", "work")), reacttest.Say("done"))
		events := b.ask(t, "go")
		assert.NotContains(t, kinds(events), "state_delta", "an update of messages alone changes no context")
		want := []string{`user "go"`, "assistant a:note b:work", `tool a "noted"`, `tool b "1"`, `user "look"`, `system "mind"`, `assistant "done"`}
		assert.Equal(t, want, talk(b.state(t).Messages))
		request := b.script.Requests()[1]
		assert.Equal(t, want[:5], talk(request.Messages))
		assert.Equal(t, "mind", request.System)
	})
}

func TestOutputsAreKeptAndSentAsWhatTheyAre(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 100)
	for name, test := range map[string]struct {
		output  string // raw
		event   string
		content string
	}{
		"nothing":          {"", "null", "null"},
		"null":             {"null", "null", "null"},
		"a string":         {`"text"`, `"text"`, "text"},
		"the string null":  {`"null"`, `"null"`, "null"},
		"an empty string":  {`""`, `""`, ""},
		"a number":         {"1.50", "1.50", "1.50"},
		"an object":        {` {"a": [1, 2]} `, `{"a":[1,2]}`, `{"a":[1,2]}`},
		"HTML":             {`"<b>&amp;"`, `"<b>&amp;"`, "<b>&amp;"},
		"HTML in objects":  {`{"a":"<&>"}`, `{"a":"<&>"}`, `{"a":"<&>"}`},
		"NUL":              {`"a\u0000b"`, `"a\u0000b"`, "a\x00b"},
		"invalid UTF-8":    {"\"a\xffb\"", `"\"a�b\""`, "\"a�b\""},
		"not JSON":         {`hello {`, `"hello {"`, "hello {"},
		"a lone surrogate": {`"\ud800"`, `"\ufffd"`, "�"},
		"too long": {`"` + long + `"`, `"` + long[:50] + `\n[cut: the output has 202 bytes]"`,
			long[:50] + "\n[cut: the output has 202 bytes]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachStore(t, func(t *testing.T, st store.Store) {
				b := setup(t, react.Config{Store: st, MaxToolOutput: 51, Tools: []react.Tool{updates("work", test.output, "")}},
					reacttest.Call(call("a", "work")), reacttest.Say("done"))
				events := b.ask(t, "go")
				result := find[event.ToolCallResult](t, events)
				assert.Equal(t, test.event, string(result.Content))
				stored := b.state(t).Messages[2].(*message.Tool)
				assert.Equal(t, test.content, *stored.Content)
				assert.Empty(t, stored.Error)
				assert.Equal(t, result.MessageID, stored.ID)
				assert.Equal(t, b.state(t).Messages[1].Head().ID, stored.ParentMessageID)
				assert.Equal(t, "work", stored.Name)
			})
		})
	}
}

func TestAFailedCallIsAResultWithACode(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		call   message.ToolCall
		result error // of the tool
		panics any
		code   string
		text   string
	}{
		"unknown tool":         {call: call("a", "none"), code: "not_found", text: "Tool 'none' not found"},
		"denied":               {call: call("a", "root"), code: "denied", text: "Tool 'root' is not allowed"},
		"not an object":        {call: reacttest.ToolCall("a", "work", `[1]`), code: "invalid_arguments", text: "invalid arguments: "},
		"not JSON":             {call: reacttest.ToolCall("a", "work", `{"n":`), code: "invalid_arguments", text: "invalid arguments: "},
		"wrong type":           {call: reacttest.ToolCall("a", "work", `{"n":"x"}`), code: "invalid_arguments", text: "invalid arguments: "},
		"missing member":       {call: reacttest.ToolCall("a", "work", `{}`), code: "invalid_arguments", text: "invalid arguments: "},
		"refused by the tool":  {result: &react.ArgumentError{Reason: "n is odd"}, code: "invalid_arguments", text: "invalid arguments: n is odd"},
		"error":                {result: errors.New("no luck"), code: "execution", text: "no luck"},
		"error without a text": {result: errors.New(""), code: "execution", text: "the tool failed"},
		"error of odd bytes":   {result: errors.New("a\xff<b>\x00"), code: "execution", text: "a�<b>\x00"},
		"wrapped deadline":     {result: fmt.Errorf("db: %w", context.DeadlineExceeded), code: "execution", text: "db: context deadline exceeded"},
		"panic":                {panics: "oops", code: "panic", text: "panic: oops"},
		"panic with an error":  {panics: errors.New("oops"), code: "panic", text: "panic: oops"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachStore(t, func(t *testing.T, st store.Store) {
				made := test.call
				if made.ID == "" {
					made = reacttest.ToolCall("a", "work", `{"n":1}`)
				}
				b := setup(t, react.Config{Store: st, Tools: []react.Tool{
					react.NewTool("work", "Works.", func(ctx context.Context, in struct {
						N int `json:"n"`
					}) (int, error) {
						assert.NoError(t, react.UpdateContext(ctx, add("/a", "1")))
						if test.panics != nil {
							panic(test.panics)
						}
						return in.N, test.result
					}),
					tool("root", func(context.Context) (any, error) { t.Error("a denied tool ran"); return nil, nil }, &react.ToolOptions{Capabilities: []string{"root"}}),
				}}, reacttest.Call(made, call("other", "none")), reacttest.Say("done"))
				events := b.ask(t, "go")
				var failed event.ToolCallError
				for _, e := range events {
					if d, ok := e.Data.(event.ToolCallError); ok && d.ToolCallID == "a" {
						failed = d
					}
				}
				assert.Equal(t, test.code, failed.Code)
				assert.True(t, strings.HasPrefix(failed.Error, test.text), failed.Error)
				assert.Equal(t, "completed", last(events).(event.RunFinished).Status, "a failed call does not fail the run")
				assert.Equal(t, "{}", string(b.state(t).Context), "a failed tool changes nothing")
				stored := b.state(t).Messages[2].(*message.Tool)
				assert.Equal(t, failed.MessageID, stored.ID)
				assert.Equal(t, failed.Error, stored.Error)
				assert.Equal(t, failed.Error, *stored.Content, "the text is the content too")
				told := b.script.Requests()[1].Messages[2].(*message.Tool)
				assert.Equal(t, "Error: "+failed.Error, told.Text())
			})
		})
	}
}

func TestAToolThatIsTooSlowIsStoppedAndTheOthersGoOn(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := setup(t, react.Config{Tools: []react.Tool{
			tool("slow", func(ctx context.Context) (any, error) {
				<-ctx.Done()
				return nil, fmt.Errorf("stopped: %w", ctx.Err())
			}, &react.ToolOptions{Timeout: time.Second}),
			takes("slower", 5*time.Second, func(context.Context) (any, error) { return "there", nil }),
		}}, reacttest.Call(call("a", "slow"), call("b", "slower")), reacttest.Say("done"))
		events := b.ask(t, "go")
		failed := find[event.ToolCallError](t, events)
		assert.Equal(t, "timeout", failed.Code)
		assert.Contains(t, failed.Error, "1s")
		assert.JSONEq(t, `"there"`, string(find[event.ToolCallResult](t, events).Content))
	})
}

func TestAResultThatComesAfterTheTimeoutCounts(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := setup(t, react.Config{Tools: []react.Tool{tool("slow", func(context.Context) (any, error) {
			time.Sleep(2 * time.Second)
			return "late", nil
		}, &react.ToolOptions{Timeout: time.Second})}}, reacttest.Call(call("a", "slow")), reacttest.Say("done"))
		assert.JSONEq(t, `"late"`, string(find[event.ToolCallResult](t, b.ask(t, "go")).Content))
	})
}

func TestAbortFailsTheRunAndKeepsTheOtherResults(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := setup(t, react.Config{Tools: []react.Tool{
			takes("abort", 2*time.Second, func(context.Context) (any, error) { return nil, react.Abort(errors.New("no money")) }),
			takes("fast", time.Second, puts("/fast", "1")),
			takes("slow", time.Hour, puts("/slow", "1")),
		}}, reacttest.Call(call("a", "abort"), call("b", "fast"), call("c", "slow")), reacttest.Say("hello"))
		events := b.ask(t, "go")
		assert.Equal(t, []string{
			`state_delta [{"op":"add","path":"/fast","value":1}]`, `tool_call_result b "put"`,
			"tool_call_error a cancelled", "tool_call_error c cancelled", "run_error aborted",
		}, tell(events)[10:])
		assert.Equal(t, []string{
			`user "go"`, "assistant a:abort b:fast c:slow", `tool a "cancelled" error "cancelled"`, `tool b "put"`, `tool c "cancelled" error "cancelled"`,
		}, talk(b.state(t).Messages))
		assert.JSONEq(t, `{"fast":1}`, string(b.state(t).Context))
		assert.Equal(t, "state_snapshot text_message_start text_message_content text_message_end messages_snapshot", kinds(b.ask(t, "hi")), "the session is usable")
	})
}

func TestAToolFindsItsRunAndItsKeyInItsContext(t *testing.T) {
	t.Parallel()
	keys := map[string]bool{}
	b := setup(t, react.Config{ToolConcurrency: 1, Tools: []react.Tool{keyTool(keys)}},
		reacttest.Call(call("a", "key"), call("b", "key")), reacttest.Say("done"))
	b.ask(t, "go")
	assert.Len(t, keys, 2, "each call has a key of its own")
	assert.NotContains(t, keys, "")
	require.Error(t, react.UpdateContext(t.Context(), add("/a", "1")), "there is no tool around")
	_, ok := react.StateFrom(t.Context())
	assert.False(t, ok)
	react.EmitActivity(t.Context(), "progress", nil) // does nothing
}

// rawTool is a tool that notes the idempotency keys it is given.
type rawTool struct{ keys map[string]bool }

func keyTool(keys map[string]bool) react.Tool { return rawTool{keys} }

func (rawTool) Spec() react.ToolSpec {
	return react.ToolSpec{ToolSpec: message.ToolSpec{Name: "key", Parameters: json.RawMessage(`{"type":"object"}`)}}
}

func (r rawTool) Call(_ context.Context, c react.ToolCall) (react.ToolResult, error) {
	r.keys[c.IdempotencyKey] = true
	return react.ToolResult{}, nil
}

func TestEventsOfManyToolsAreNeverReorderedWithinACall(t *testing.T) {
	t.Parallel()
	var calls []message.ToolCall
	for i := range 40 {
		calls = append(calls, call(fmt.Sprint("c", i), "work"))
	}
	b := setup(t, react.Config{Tools: []react.Tool{tool("work", func(ctx context.Context) (any, error) {
		react.EmitActivity(ctx, "progress", state.Patch{add("/a", "1")})
		return nil, react.UpdateContext(ctx, add("/n", "1"))
	})}}, reacttest.Call(calls...), reacttest.Say("done"))
	phase := map[string][]string{}
	order := []string{"tool_call_start", "tool_call_args", "tool_call_end", "activity_delta", "tool_call_result"}
	for _, line := range tell(b.ask(t, "go")) {
		kind, rest, _ := strings.Cut(line, " ")
		id, _, _ := strings.Cut(rest, " ")
		if slices.Contains(order, kind) {
			phase[id] = append(phase[id], kind)
		}
	}
	require.Len(t, phase, 40)
	for id, got := range phase {
		assert.Equal(t, order, got, id)
	}
}
