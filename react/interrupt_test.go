package react_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/react/reacttest"
	"github.com/everstep-go/everstep/store"
)

// asker is a tool that asks, and tells what it was answered.
func asker(calls *counter) react.Tool {
	return tool("ask", func(ctx context.Context) (any, error) {
		if calls != nil {
			calls.add("ask")
		}
		answer, err := graph.Interrupt[json.RawMessage](ctx, "", "may I?")
		if err != nil {
			return nil, err
		}
		return map[string]any{"told": answer}, nil
	})
}

// asking makes a session that waits for answers, with as many questions as ids.
func asking(t *testing.T, st store.Store, calls *counter, then []reacttest.Step, ids ...string) (*bundle, []event.Event) {
	t.Helper()
	var asked []message.ToolCall
	for _, id := range ids {
		asked = append(asked, call(id, "ask"))
	}
	asked = append(asked, call("put", "put"))
	b := setup(t, react.Config{Store: st, Tools: []react.Tool{asker(calls), tool("put", func(ctx context.Context) (any, error) {
		calls.add("put")
		return puts("/put", "1")(ctx)
	})}}, append([]reacttest.Step{reacttest.Call(asked...)}, then...)...)
	return b, b.ask(t, "go")
}

const askedAB = `{"interrupts":[{"id":"a","name":"ask","payload":"may I?"},{"id":"b","name":"ask","payload":"may I?"}]}`

const askedA = `{"interrupts":[{"id":"a","name":"ask","payload":"may I?"}]}`

func TestAllQuestionsOfAStepAreAskedTogetherOnceTheOtherToolsHaveSettled(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st store.Store) {
		var calls counter
		b, events := asking(t, st, &calls, nil, "a", "b")
		assert.Equal(t, []string{
			`state_delta [{"op":"add","path":"/put","value":1}]`, `tool_call_result put "put"`, "run_finished interrupted " + askedAB,
		}, tell(events)[10:])
		finished := last(events).(event.RunFinished)
		assert.JSONEq(t, `{"put":1}`, string(finished.Result))

		page, err := b.agent.Checkpoints(t.Context(), store.CheckpointQuery{Session: b.session})
		require.NoError(t, err)
		c := page.Items[0]
		assert.Equal(t, checkpoint.Interrupt, c.Reason)
		assert.Equal(t, checkpoint.Interrupted, c.Status)
		assert.Equal(t, "call_tools", c.Node)
		assert.JSONEq(t, `{"interrupt_payload":`+askedAB+`}`, string(c.Metadata), "the questions are kept")
		_, s, err := b.agent.Checkpoint(t.Context(), "", c.ID)
		require.NoError(t, err)
		assert.Equal(t, []string{`user "go"`, "assistant a:ask b:ask put:put", `tool put "put"`}, talk(s.Messages), "what has settled is kept")
		assert.JSONEq(t, `{"put":1}`, string(s.Context))
	})
}

// Contract R16, R34.
func TestWhatAResumePayloadMeans(t *testing.T) {
	t.Parallel()
	done := "text_message_start text_message_content text_message_end messages_snapshot"
	for name, test := range map[string]struct {
		ids     []string
		payload string
		refused bool
		open    string            // questions afterwards
		told    map[string]string // results by call
	}{
		"a value answers the only question":               {ids: []string{"a"}, payload: `"yes"`, told: map[string]string{"a": `{"told":"yes"}`}},
		"a number too":                                    {ids: []string{"a"}, payload: `17`, told: map[string]string{"a": `{"told":17}`}},
		"an object without ids too":                       {ids: []string{"a"}, payload: `{"ok":true}`, told: map[string]string{"a": `{"told":{"ok":true}}`}},
		"false is an answer":                              {ids: []string{"a"}, payload: `false`, told: map[string]string{"a": `{"told":false}`}},
		"an object by id":                                 {ids: []string{"a"}, payload: `{"a":null}`, told: map[string]string{"a": `{"told":null}`}},
		"an object by ids":                                {ids: []string{"a", "b"}, payload: `{"a":1,"b":2}`, told: map[string]string{"a": `{"told":1}`, "b": `{"told":2}`}},
		"only some":                                       {ids: []string{"a", "b"}, payload: `{"b":2}`, open: askedA, told: map[string]string{"b": `{"told":2}`}},
		"null answers nothing":                            {ids: []string{"a"}, payload: `null`, open: askedA},
		"nothing answers nothing":                         {ids: []string{"a", "b"}, payload: ``, open: askedAB},
		"a value cannot answer two":                       {ids: []string{"a", "b"}, payload: `"yes"`, refused: true, open: askedAB},
		"an object with an unknown id":                    {ids: []string{"a", "b"}, payload: `{"a":1,"z":2}`, refused: true, open: askedAB},
		"an object with an unknown id beside the only id": {ids: []string{"a"}, payload: `{"a":1,"z":2}`, refused: true, open: askedA},
		"an object with only unknown ids, for two":        {ids: []string{"a", "b"}, payload: `{"z":2}`, refused: true, open: askedAB},
		"a call that is settled is no question":           {ids: []string{"a", "b"}, payload: `{"put":1}`, refused: true, open: askedAB},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachStore(t, func(t *testing.T, st store.Store) {
				var calls counter
				b, _ := asking(t, st, &calls, []reacttest.Step{reacttest.Say("done")}, test.ids...)
				before := b.checkpoints(t)
				if test.refused {
					in := resume(test.payload)
					in.Session = b.session
					_, err := b.agent.Start(t.Context(), in)
					require.ErrorIs(t, err, graph.ErrInvalidResume)
					assert.Equal(t, before, b.checkpoints(t), "nothing was written")
					events := b.run(t, react.Input{})
					assert.JSONEq(t, test.open, string(last(events).(event.RunFinished).InterruptPayload))
					return
				}
				events := b.run(t, resume(test.payload))
				assert.Equal(t, `state_snapshot {"put":1}`, tell(events)[0], "no change is sent twice")
				assert.NotContains(t, kinds(events), "state_delta")
				told := map[string]string{}
				announced := map[string]bool{}
				for _, e := range events {
					switch d := e.Data.(type) {
					case event.ToolCallStart:
						announced[d.ToolCallID] = true
					case event.ToolCallResult:
						assert.True(t, announced[d.ToolCallID], "a call that is taken up is announced")
						told[d.ToolCallID] = string(d.Content)
					}
				}
				want := test.told
				if want == nil {
					want = map[string]string{}
				}
				assert.Equal(t, want, told)
				assert.Len(t, announced, len(told), "calls that stay interrupted appear only in the payload")
				assert.Equal(t, 1, calls.of("put"), "what has settled is not run again")
				finished := last(events).(event.RunFinished)
				if test.open != "" {
					assert.Equal(t, "interrupted", finished.Status)
					assert.JSONEq(t, test.open, string(finished.InterruptPayload))
					assert.Equal(t, len(test.ids)+len(told), calls.of("ask"), "a tool that nobody answered is left alone")
					return
				}
				assert.Equal(t, "completed", finished.Status)
				assert.Contains(t, kinds(events), done)
				results := talk(b.script.Requests()[1].Messages)[2:]
				assert.Len(t, results, len(test.ids)+1)
				assert.Contains(t, results[len(results)-1], "tool put", "the model has the results in the order of the reply")
			})
		})
	}
}

func TestAnAnswerWhenNothingIsAskedIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t, react.Config{}, reacttest.Say("hello"))
	in := resume(`"yes"`)
	in.Session = b.session
	_, err := b.agent.Start(t.Context(), in)
	require.ErrorIs(t, err, graph.ErrInvalidResume)
	_, err = b.agent.Session(t.Context(), "", b.session)
	require.ErrorIs(t, err, store.ErrNotFound, "nothing was written")
	b.ask(t, "hi")
	_, err = b.agent.Start(t.Context(), in)
	require.ErrorIs(t, err, graph.ErrInvalidResume)
}

func TestTheRestCanBeAnsweredLater(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st store.Store) {
		var calls counter
		b, _ := asking(t, st, &calls, []reacttest.Step{reacttest.Say("done")}, "a", "b")
		b.run(t, resume(`{"b":2}`))
		b.run(t, resume(`{"a":1}`))
		assert.Equal(t, []string{
			`user "go"`, "assistant a:ask b:ask put:put", `tool put "put"`, `tool b "{\"told\":2}"`, `tool a "{\"told\":1}"`, `assistant "done"`,
		}, talk(b.state(t).Messages), "in the order in which they settled")
		assert.Equal(t, []string{
			`user "go"`, "assistant a:ask b:ask put:put", `tool a "{\"told\":1}"`, `tool b "{\"told\":2}"`, `tool put "put"`,
		}, talk(b.script.Requests()[1].Messages), "the model has them in the order of the reply")
	})
}

func TestANewUserMessageAbandonsTheQuestions(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st store.Store) {
		var calls counter
		b, _ := asking(t, st, &calls, []reacttest.Step{reacttest.Say("fine")}, "a", "b")
		events := b.ask(t, "forget it")
		assert.Equal(t, []string{
			`state_snapshot {"put":1}`,
			"tool_call_start a ask", "tool_call_args a {}", "tool_call_end a", "tool_call_error a not_answered",
			"tool_call_start b ask", "tool_call_args b {}", "tool_call_end b", "tool_call_error b not_answered",
			"text_message_start", `text_message_content "fine"`, "text_message_end", "messages_snapshot", "run_finished completed",
		}, tell(events))
		s := b.state(t)
		assert.Equal(t, []string{
			`user "go"`, "assistant a:ask b:ask put:put", `tool put "put"`,
			`tool a "not answered" error "not answered"`, `tool b "not answered" error "not answered"`, `user "forget it"`, `assistant "fine"`,
		}, talk(s.Messages))
		for _, e := range events {
			if d, ok := e.Data.(event.ToolCallError); ok && d.ToolCallID == "a" {
				assert.Equal(t, s.Messages[3].Head().ID, d.MessageID)
			}
		}
		in := resume(`{"a":1}`)
		in.Session = b.session
		_, err := b.agent.Start(t.Context(), in)
		require.ErrorIs(t, err, graph.ErrInvalidResume, "the questions are gone")
	})
}

func TestAToolMessageSettlesTheQuestionOfItsCall(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st store.Store) {
		var calls counter
		b, _ := asking(t, st, &calls, []reacttest.Step{reacttest.Say("done")}, "a", "b")
		events := b.run(t, with(message.NewTool("b", "by hand")))
		assert.JSONEq(t, askedA, string(last(events).(event.RunFinished).InterruptPayload), "the other question stays")
		b.run(t, with(message.NewTool("a", "by hand too")))
		assert.Equal(t, []string{
			`user "go"`, "assistant a:ask b:ask put:put", `tool put "put"`, `tool b "by hand"`, `tool a "by hand too"`, `assistant "done"`,
		}, talk(b.state(t).Messages))
		assert.Equal(t, 2, calls.of("ask"), "once for each call")
	})
}

func TestAToolMessageAndAUserMessageSettleSomeQuestionsAndAbandonTheOthers(t *testing.T) {
	t.Parallel()
	var calls counter
	b, _ := asking(t, nil, &calls, []reacttest.Step{reacttest.Say("done")}, "a", "b")
	b.run(t, with(message.NewTool("b", "by hand"), message.NewUser("go on")))
	assert.Equal(t, []string{
		`user "go"`, "assistant a:ask b:ask put:put", `tool put "put"`, `tool a "not answered" error "not answered"`,
		`tool b "by hand"`, `user "go on"`, `assistant "done"`,
	}, talk(b.state(t).Messages))
}

func TestASystemMessageNeitherAnswersNorAbandons(t *testing.T) {
	t.Parallel()
	var calls counter
	b, _ := asking(t, nil, &calls, []reacttest.Step{reacttest.Say("done")}, "a")
	events := b.run(t, with(message.NewSystem("be quick")))
	assert.JSONEq(t, askedA, string(last(events).(event.RunFinished).InterruptPayload))
	in := resume(`"yes"`)
	in.Messages = []message.Message{message.NewSystem("please")}
	assert.Equal(t, "completed", last(b.run(t, in)).(event.RunFinished).Status)
}

// A note that a tool appended for the model stands after the open calls.
func TestANoteOfAnotherToolDoesNotGetInTheWayOfAnAnswer(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st store.Store) {
		b := setup(t, react.Config{Store: st, Tools: []react.Tool{
			asker(nil), updates("note", `"noted"`, `[{"op":"add","path":"/messages/-","value":{"role":"user","content":"look"}}]`),
		}}, reacttest.Call(call("a", "ask"), call("n", "note")), reacttest.Say("done"))
		b.ask(t, "go")
		events := b.run(t, react.Input{})
		require.JSONEq(t, askedA, string(last(events).(event.RunFinished).InterruptPayload), "without an answer it asks again")
		events = b.run(t, resume(`"yes"`))
		assert.JSONEq(t, `{"told":"yes"}`, string(find[event.ToolCallResult](t, events).Content))
		assert.Equal(t, []string{`user "go"`, "assistant a:ask n:note", `tool a "{\"told\":\"yes\"}"`, `tool n "noted"`, `user "look"`},
			talk(b.script.Requests()[1].Messages))
	})
}

func TestAClientCallBesideAQuestionIsAnnouncedAndWaitsForItsClient(t *testing.T) {
	t.Parallel()
	b := setup(t, react.Config{Tools: []react.Tool{asker(nil)}}, reacttest.Call(call("a", "ask"), call("c", "pick")), reacttest.Say("fine"))
	in := user("go")
	in.Tools = clientTool("pick")
	events := b.run(t, in)
	assert.Contains(t, tell(events), "tool_call_start c pick")
	assert.JSONEq(t, askedA, string(last(events).(event.RunFinished).InterruptPayload))
	events = b.ask(t, "forget it")
	assert.Equal(t, "a", find[event.ToolCallError](t, events).ToolCallID, "only the question is abandoned")
	assert.Contains(t, tell(events), `text_message_content "fine"`, "the conversation goes on")
	assert.Equal(t, "user assistant tool user assistant", roles(b.state(t).Messages))
}

func TestATooLateAnswerOfAWaitingRunFailsIt(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		gate := make(chan struct{})
		b := setup(t, react.Config{Tools: []react.Tool{asker(nil)}}, reacttest.Call(call("a", "ask")), reacttest.Step{
			Before: func(context.Context, *message.Request) error { <-gate; return nil }, Deltas: reacttest.Say("done").Deltas,
		})
		b.ask(t, "go")
		first := b.start(t, resume(`"yes"`))
		in := resume(`"yes again"`)
		in.OnBusy = graph.Wait
		second := b.start(t, in)
		close(gate)
		_, err := first.Wait(t.Context())
		require.NoError(t, err)
		_, err = second.Wait(t.Context())
		failed := &graph.RunError{}
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, graph.CodeBadResume, failed.Code)
	})
}

func TestAnAnswerFromAForkGoesToTheForksOwnCall(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st store.Store) {
		keys := map[string]bool{}
		var checkpointID uuid.UUID
		b := setup(t, react.Config{Store: st, Tools: []react.Tool{tool("ask", func(ctx context.Context) (any, error) {
			answer, err := graph.Interrupt[string](ctx, "", "may I?")
			if err == nil {
				keys[graph.IdempotencyKey(ctx)] = true
			}
			return answer, err
		})}}, reacttest.Call(call("a", "ask")), reacttest.Say("one"), reacttest.Say("two"))
		b.ask(t, "go")
		page, err := b.agent.Checkpoints(t.Context(), store.CheckpointQuery{Session: b.session})
		require.NoError(t, err)
		checkpointID = page.Items[0].ID
		b.run(t, resume(`"yes"`))
		again := resume(`"no"`)
		again.Checkpoint = checkpointID
		b.run(t, again)
		assert.Equal(t, []string{`user "go"`, "assistant a:ask", `tool a "no"`, `assistant "two"`}, talk(b.state(t).Messages))
		assert.Len(t, keys, 2, "the call of a branch has a key of its own")
	})
}

func TestApproval(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer string
		result string // empty: refused
		text   string
	}{
		"approved":                   {answer: `{"approved":true}`, result: `"paid"`},
		"refused with a reason":      {answer: `{"approved":false,"reason":"too much"}`, text: "too much"},
		"refused without a reason":   {answer: `{"approved":false}`, text: "the call was rejected"},
		"an object of another kind":  {answer: `{"ok":true}`, text: "the call was rejected"},
		"what is no approval at all": {answer: `"sure"`, text: "the call was rejected: the answer is not of the form"},
		"approved by id":             {answer: `{"a":{"approved":true}}`, result: `"paid"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachStore(t, func(t *testing.T, st store.Store) {
				var calls counter
				b := setup(t, react.Config{Store: st, Tools: []react.Tool{tool("pay", func(context.Context) (any, error) {
					calls.add("pay")
					return "paid", nil
				}, &react.ToolOptions{Approval: true, AtMostOnce: true})}}, reacttest.Call(call("a", "pay")), reacttest.Say("done"))
				asked := last(b.ask(t, "go")).(event.RunFinished)
				assert.JSONEq(t, `{"interrupts":[{"id":"a","name":"pay","payload":{"tool":"pay","arguments":{}}}]}`, string(asked.InterruptPayload))
				assert.Zero(t, calls.of("pay"))
				events := b.run(t, resume(test.answer))
				assert.Equal(t, "completed", last(events).(event.RunFinished).Status)
				if test.result != "" {
					assert.Equal(t, test.result, string(find[event.ToolCallResult](t, events).Content))
					assert.Equal(t, 1, calls.of("pay"))
					return
				}
				refused := find[event.ToolCallError](t, events)
				assert.Equal(t, react.CodeRejected, refused.Code)
				assert.Contains(t, refused.Error, test.text)
				assert.Zero(t, calls.of("pay"))
				assert.Equal(t, "Error: "+refused.Error, b.script.Requests()[1].Messages[2].(*message.Tool).Text(), "the model hears the reason")
			})
		})
	}
}

func TestACancelledAnswerSettlesTheRest(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := setup(t, react.Config{Tools: []react.Tool{tool("ask", func(ctx context.Context) (any, error) {
			if _, err := graph.Interrupt[string](ctx, "", "may I?"); err != nil {
				return nil, err
			}
			<-ctx.Done()
			return nil, ctx.Err()
		})}}, reacttest.Call(call("a", "ask"), call("b", "ask")), reacttest.Say("fine"))
		b.ask(t, "go")
		cancelWhenIdle(t, b.start(t, resume(`{"a":"yes"}`)))
		assert.Equal(t, []string{
			`user "go"`, "assistant a:ask b:ask", `tool a "cancelled" error "cancelled"`, `tool b "cancelled" error "cancelled"`,
		}, talk(b.state(t).Messages))
		assert.Equal(t, textAnswer, kinds(b.ask(t, "and now?")))
	})
}

func TestAToolThatPassesOnAQuestionThatItDidNotAskFailsTheRun(t *testing.T) {
	t.Parallel()
	b := setup(t, react.Config{Tools: []react.Tool{
		tool("odd", func(context.Context) (any, error) { return nil, &graph.InterruptError{} }), returns("work", 1),
	}}, reacttest.Call(call("a", "odd"), call("b", "work")), reacttest.Say("fine"))
	events := b.ask(t, "go")
	assert.Equal(t, graph.CodeNodeError, last(events).(event.RunError).Code)
	assert.Equal(t, []string{`user "go"`, "assistant a:odd b:work", `tool b "1"`}, talk(b.state(t).Messages), "what has settled is kept")
	assert.Equal(t, textAnswer, kinds(b.ask(t, "go on")))
}
