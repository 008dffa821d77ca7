package agui_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/httpapi"
	"github.com/everstep-go/everstep/httpapi/agui"
	"github.com/everstep-go/everstep/httpapi/agui/aguitest"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react/reacttest"
	"github.com/everstep-go/everstep/store"
)

func TestARunBetweenItsEnds(t *testing.T) {
	t.Parallel()
	b := newBundle(t, steps(both("I look", reacttest.ToolCall("w", "weigh", "{}"), reacttest.ToolCall("r", "refuse", "{}")), call("greet", `{"name":"x"}`), say("done")))
	events := b.run(input("t", user("m", "hello")))
	assert.Equal(t, []string{
		"RUN_STARTED", "STEP_STARTED", "STATE_SNAPSHOT", "STEP_FINISHED",
		"STEP_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "STEP_FINISHED",
		"STEP_STARTED", "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END",
		"TOOL_CALL_RESULT", "TOOL_CALL_RESULT", "STEP_FINISHED",
		"STEP_STARTED", "STEP_FINISHED", // a reply of nothing but a call
		"STEP_STARTED", "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT", "STEP_FINISHED",
		"STEP_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "STEP_FINISHED",
		"STEP_STARTED", "MESSAGES_SNAPSHOT", "STEP_FINISHED", "RUN_FINISHED",
	}, aguitest.Types(events))
	var names []string
	for _, e := range every(events, "STEP_STARTED") {
		names = append(names, e.Text("stepName"))
	}
	assert.Equal(t, []string{"entrypoint", "call_model", "call_tools", "call_model", "call_tools", "call_model", "exit"}, names)
	results := map[string]string{}
	for _, e := range every(events, "TOOL_CALL_RESULT") {
		results[e.Text("toolCallId")] = e.Text("content")
	}
	assert.Equal(t, map[string]string{"w": `{"kg":7}`, "r": "no", "greet1": "hello x"}, results)
	assert.Equal(t, "1.0", events[0]["protocolVersion"])
	var before json.Number
	for _, e := range events {
		at := e["timestamp"].(json.Number)
		assert.GreaterOrEqual(t, at, before)
		before = at
	}
}

func TestActivityIsADocumentOfItsOwn(t *testing.T) {
	t.Parallel()
	b := newBundle(t, steps(calls(reacttest.ToolCall("a", "progress", "{}"), reacttest.ToolCall("b", "progress", "{}")), say("done")))
	events := b.run(input("t", user("m", "hello")))
	ids := map[string]bool{}
	for _, e := range every(events, "ACTIVITY_SNAPSHOT") {
		ids[e.Text("messageId")] = true
		assert.Equal(t, "progress", e.Text("activityType"))
		assert.Equal(t, object{"done": json.Number("1")}, e["content"])
	}
	assert.Len(t, ids, 2, "one a call")
	for _, m := range conversation(t, events) {
		assert.NotContains(t, ids, m["id"], "clients drop a message of that id")
	}
	for _, e := range every(events, "ACTIVITY_DELTA") {
		assert.Contains(t, ids, e.Text("messageId"))
		assert.Equal(t, []any{object{"op": "replace", "path": "/done", "value": json.Number("2")}}, e["patch"])
	}
	assert.Len(t, every(events, "ACTIVITY_DELTA"), 2)
	custom := every(events, "CUSTOM") // what does not fit
	require.Len(t, custom, 2)
	assert.Equal(t, "ACTIVITY_DELTA", custom[0].Text("name"))
	assert.Equal(t, []any{object{"op": "remove", "path": "/nothing"}}, custom[0]["value"].(object)["patch"])
}

func TestUsageIsThatOfTheRun(t *testing.T) {
	t.Parallel()
	used := func(s reacttest.Step, model string, in, out int64) reacttest.Step {
		for i, d := range s.Deltas {
			if done, ok := d.(message.Done); ok {
				done.Usage, done.Model = message.Usage{InputTokens: in, OutputTokens: out, CachedInputTokens: 1, ReasoningTokens: 2}, model
				s.Deltas[i] = done
			}
		}
		return s
	}
	failing := used(say("three"), "big", 9, 9)
	b := newBundle(t, steps(
		used(say("zero"), "big", 100, 100), used(call("greet", `{"name":"x"}`), "big", 10, 5), used(call("refuse", "{}"), "big", 20, 6), used(say("one"), "small", 1, 2),
		used(call("ask", `{"name":"who?"}`), "big", 7, 3), used(say("two"), "big", 1, 1), used(call("greet", `{"name":"x"}`), "big", 4, 4), reacttest.Fail(errors.New("down")), failing,
	))
	b.run(input("t", user("m0", "hello")))
	n := func(text string) json.Number { return json.Number(text) }
	entry := func(model, in, out, total, cached, reasoning string) object {
		return object{"model": model, "inputTokens": n(in), "outputTokens": n(out), "totalTokens": n(total), "cachedInputTokens": n(cached), "reasoningTokens": n(reasoning)}
	}
	events := b.run(input("t", user("m", "hello")))
	assert.Equal(t, []any{entry("big", "30", "11", "41", "2", "4"), entry("small", "1", "2", "3", "1", "2")}, last(events)["usage"])
	events = b.run(input("t", user("m2", "ask")))
	assert.Equal(t, []any{entry("big", "7", "3", "10", "1", "2")}, last(events)["usage"], "interrupted")
	events = b.run(with(input("t"), "resume", []object{{"interruptId": "ask1", "status": "resolved", "payload": "me"}}))
	assert.Equal(t, []any{entry("big", "1", "1", "2", "1", "2")}, last(events)["usage"], "without that of the run before")
	events = b.run(input("t", user("m3", "fail")))
	assert.Equal(t, "RUN_ERROR", last(events).Type())
	assert.Equal(t, []any{entry("big", "4", "4", "8", "1", "2")}, last(events)["usage"], "failed")
}

func TestBothDialectsEndInTheirWay(t *testing.T) {
	t.Parallel()
	for _, d := range []aguitest.Dialect{aguitest.V0, aguitest.V1} {
		b := newBundle(t, steps(call("wait", "{}"), call("ask", `{"name":"who?"}`)))
		speaks := func(o object) object {
			if d == aguitest.V0 {
				return without(o, "protocolVersion", "tools", "context", "state", "forwardedProps")
			}
			return o
		}
		s := b.open(speaks(with(input("t", user("m", "hello")), "runId", "r")))
		s.until("TOOL_CALL_END")
		require.Equal(t, 204, b.v1("PUT", "/v1/runs/"+agui.RunID("t", "r").String()+"/cancel", nil, nil))
		end := last(s.rest())
		assert.Equal(t, "RUN_FINISHED", end.Type())
		assert.False(t, end.Has("result"))
		if d == aguitest.V1 {
			assert.Equal(t, object{"type": "cancelled"}, end["outcome"])
		} else {
			assert.False(t, end.Has("outcome"), "0.0.59 breaks off at cancelled")
		}
		events := b.run(speaks(input("t", user("m2", "ask"))))
		assert.Equal(t, "interrupt", outcome(events), "both know that")
		assert.Equal(t, d == aguitest.V1, events[0].Has("protocolVersion"))
	}
}

func TestInterruptsAreAnsweredCancelledOrStay(t *testing.T) {
	t.Parallel()
	three := calls(
		reacttest.ToolCall("a", "ask", `{"name":"a?"}`), reacttest.ToolCall("b", "ask", `{"name":"b?"}`), reacttest.ToolCall("c", "launch", `{"name":"it"}`),
	)
	resolved := func(id string, payload any) object {
		return object{"interruptId": id, "status": "resolved", "payload": payload}
	}
	cancelled := func(id string) object { return object{"interruptId": id, "status": "cancelled"} }
	yes := object{"approved": true}
	for name, c := range map[string]struct {
		messages []object
		resume   []object
		want     []string // results; nil: it asks again
		refused  string
	}{
		"all are answered":                {resume: []object{resolved("c", yes), resolved("a", "x"), resolved("b", "y")}, want: []string{"tool a x", "tool b y", "tool c launched it"}},
		"one is cancelled":                {resume: []object{resolved("a", "x"), cancelled("b"), resolved("c", yes)}, want: []string{"tool a x", "tool b Error: cancelled by the user", "tool c launched it"}},
		"all are cancelled":               {resume: []object{cancelled("a"), cancelled("b"), cancelled("c")}, want: []string{"tool a Error: cancelled by the user", "tool b Error: cancelled by the user", "tool c Error: cancelled by the user"}},
		"one is answered by its result":   {messages: []object{toolResult("r", "b", "z")}, resume: []object{resolved("a", "x"), resolved("c", yes)}, want: []string{"tool a x", "tool b z", "tool c launched it"}},
		"an answer that refuses":          {resume: []object{resolved("a", "x"), resolved("b", "y"), resolved("c", object{"approved": false, "reason": "too early"})}, want: []string{"tool a x", "tool b y", "tool c Error: too early"}},
		"an answer without payload":       {resume: []object{resolved("a", "x"), resolved("b", "y"), {"interruptId": "c", "status": "resolved"}}, want: []string{"tool a x", "tool b y", "tool c Error: the call was rejected"}},
		"one that nobody asked":           {resume: []object{resolved("zzz", "?"), resolved("a", "x"), resolved("b", "y"), resolved("c", yes)}, want: []string{"tool a x", "tool b y", "tool c launched it"}},
		"one is forgotten":                {resume: []object{resolved("a", "x"), resolved("c", yes)}, refused: `[\"b\"]`},
		"one is cancelled, one forgotten": {resume: []object{resolved("a", "x"), cancelled("c")}, refused: `[\"b\"]`},
		"a message instead":               {messages: []object{user("m2", "never mind")}, refused: `[\"a\" \"b\" \"c\"]`},
		"an answer and a message":         {messages: []object{user("m2", "hurry")}, resume: []object{resolved("a", "x"), resolved("b", "y"), resolved("c", yes)}, refused: `"field":"messages"`},
		"other arguments":                 {resume: []object{resolved("a", "x"), resolved("b", "y"), resolved("c", object{"approved": true, "editedArgs": object{"name": "that"}})}, refused: "resume[2].payload.editedArgs"},
		"nothing":                         {},
		"only what nobody asked":          {resume: []object{resolved("zzz", "?")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t, steps(three, say("done")))
			first := b.run(input("t", user("m", "hello")))
			require.Len(t, interrupts(first), 3)
			approval := interrupts(first)[2]
			assert.Equal(t, []any{"tool_call", "c", []any{"approved"}}, []any{approval["reason"], approval["toolCallId"], approval["responseSchema"].(object)["required"]})
			body := with(input("t", append(conversation(t, first), c.messages...)...), "resume", c.resume)
			before := b.said("t")
			if c.refused != "" {
				e := b.refused(body)
				assert.Equal(t, httpapi.CodeInvalid, e.Code)
				assert.Contains(t, mustJSON(t, &e), c.refused)
				assert.Equal(t, before, b.said("t"), "nothing was written")
				assert.Len(t, interrupts(b.run(input("t"))), 3, "and they are still open")
				return
			}
			events := b.run(body)
			if c.want == nil {
				assert.Equal(t, interrupts(first), interrupts(events))
				assert.Empty(t, every(events, "TOOL_CALL_START"))
				return
			}
			assert.Equal(t, "done", textOf(events))
			assert.Empty(t, every(events, "TOOL_CALL_START"), "the client knows the calls")
			assert.Equal(t, c.want, b.asked()[2:])

			// The same once more, under another run: it is answered already.
			again := b.run(with(body, "runId", uuid.NewString()))
			assert.Equal(t, "success", outcome(again))
			assert.Len(t, b.script.Requests(), 2)
		})
	}
}

func TestCopilotKitAnswersUnderTheIDOfTheRunThatAsked(t *testing.T) {
	t.Parallel()
	b := newBundle(t, steps(call("launch", `{"name":"it"}`), call("ask", `{"name":"who?"}`), say("done")))
	first := b.run(with(input("t", user("m", "hello")), "runId", "r"))
	yes := object{"approved": true}
	// It says the answer as the result of the call, too.
	body := with(input("t", append(conversation(t, first), toolResult("x", "launch1", `{"approved":true}`))...), "runId", "r")
	body["resume"] = []object{{"interruptId": "launch1", "status": "resolved", "payload": yes}}
	for range 2 { // the request may come twice
		events := b.run(body)
		assert.Equal(t, "r", events[0].Text("runId"))
		assert.Equal(t, "ask1", interrupts(events)[0]["id"])
	}
	assert.Contains(t, b.said("t"), "tool launch1 launched it")

	body["resume"] = []object{{"interruptId": "ask1", "status": "resolved", "payload": "me"}}
	assert.Equal(t, "done", textOf(b.run(body)))
	again := b.run(body)
	assert.Equal(t, "success", outcome(again), "nothing is asked any more")
	assert.Equal(t, []string{"RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "RUN_FINISHED"}, brief(again))
}

func TestWhatAClientOfV1DoesIsThere(t *testing.T) {
	t.Parallel()
	b := newBundle(t, steps(say("one"), call("greet", `{"name":"x"}`), say("two"), say("three")))
	first := b.run(with(input("t", user("m", "hello")), "runId", "r"))
	session := agui.SessionID("t").String()

	// What was said over AG-UI is on /v1, under the ids of AG-UI.
	var list struct{ Items []object }
	require.Equal(t, 200, b.v1("GET", "/v1/sessions/"+session+"/messages", nil, &list))
	require.Len(t, list.Items, 2)
	copied := conversation(t, first)
	assert.Equal(t, []any{copied[1]["id"], agui.MessageID("m").String()}, []any{list.Items[0]["id"], list.Items[1]["id"]})
	assert.Equal(t, []any{"one", "assistant"}, []any{list.Items[0]["content"], list.Items[0]["role"]})
	var run object
	require.Equal(t, 200, b.v1("GET", "/v1/runs/"+agui.RunID("t", "r").String(), nil, &run))
	assert.Equal(t, []any{"completed", session}, []any{run["status"], run["session_id"]})

	// And the other way round.
	message := uuid.NewString()
	require.Equal(t, 202, b.v1("POST", "/v1/runs/start", object{
		"session_id": session, "messages": []object{{"id": message, "role": "user", "content": "from /v1"}}, "context": object{"seen": true},
	}, &run))
	b.status("t", run["run_id"].(string))
	events := b.run(input("t", append(copied, user("m3", "and now"))...))
	said := conversation(t, events)
	require.Len(t, said, 8)
	assert.Equal(t, []any{message, "from /v1"}, []any{said[2]["id"], said[2]["content"]})
	assert.Equal(t, object{"seen": true}, last(events)["result"])
	assert.Equal(t, "three", textOf(events))
	assert.Len(t, every(events, "MESSAGES_SNAPSHOT"), 3, "the client's copy misses the middle: it forgets it, and gets it whole")
	require.Equal(t, 200, b.v1("GET", "/v1/sessions/"+session+"/messages", nil, &list))
	for i, m := range said {
		kept := list.Items[len(said)-1-i]
		assert.Equal(t, kept["role"], m["role"])
		if i == 0 || i == 6 {
			continue // labelled
		}
		assert.Equal(t, kept["id"], m["id"])
	}

	// A run of AG-UI can be watched on /v1 while it goes on: see TestARunIsKept.
}

func TestAClientThatGoesCancelsItsRunOrKeepsIt(t *testing.T) {
	t.Parallel()
	for policy, want := range map[agui.Disconnect]string{"": "cancelled", agui.Cancel: "cancelled", agui.Keep: "completed"} {
		t.Run("policy "+string(policy), func(t *testing.T) {
			t.Parallel()
			b := newBundle(t, steps(call("wait", "{}"), say("done")), func(s *setup) { s.OnDisconnect = policy })
			s := b.open(with(input("t", user("m", "hello")), "runId", "r"))
			s.until("TOOL_CALL_END")
			kept, err := b.agent.RunRecord(t.Context(), "", agui.RunID("t", "r"))
			require.NoError(t, err)
			assert.Equal(t, want == "cancelled", kept.Attached, "if this process dies, the run ends with it")
			s.leave()
			if want == "completed" {
				b.gate <- struct{}{}
			}
			assert.Equal(t, want, b.status("t", "r"))
		})
	}
}

func TestARunIsKept(t *testing.T) {
	t.Parallel()
	b := newBundle(t, steps(both("I wait", reacttest.ToolCall("w", "wait", "{}")), say("all done")), func(s *setup) { s.OnDisconnect = agui.Keep })
	body := with(input("t", user("m", "hello")), "runId", "r")
	s := b.open(body)
	s.until("TOOL_CALL_END")
	s.leave()
	// It asks again, and has a part of the answer: it gets the run from its start, and not the text twice.
	var partial object
	for _, m := range b.state("t").Messages {
		if m.Role() == message.RoleAssistant {
			partial = object{"id": m.Head().ID.String(), "role": "assistant", "content": "I wa"}
		}
	}
	again := b.open(with(body, "messages", []object{user("m", "hello"), partial}))
	first := again.until("MESSAGES_SNAPSHOT")
	assert.Len(t, first["messages"], 1, "it forgets that part")
	again.until("TOOL_CALL_END")
	b.gate <- struct{}{}
	events := again.rest()
	assert.Equal(t, "all done", textOf(events))
	assert.Len(t, conversation(t, events), 4)
	assert.Len(t, b.script.Requests(), 2)
}

func TestTheSameRequestAtOnceIsOneRun(t *testing.T) {
	t.Parallel()
	b := newBundle(t, steps(call("wait", "{}"), say("done")))
	body := with(input("t", user("m", "hello")), "runId", "r")
	var wg sync.WaitGroup
	ends := make(chan []aguitest.Event, 8)
	for range cap(ends) {
		wg.Go(func() {
			text, _ := json.Marshal(body)
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url+"/ag-ui", strings.NewReader(string(text)))
			req.Header.Set("Content-Type", "application/json")
			res, err := http.DefaultClient.Do(req)
			if !assert.NoError(t, err) {
				return
			}
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			assert.NoError(t, err)
			events, err := aguitest.Read(bytes.NewReader(body), aguitest.V1)
			if assert.NoError(t, err, "%d %s", res.StatusCode, body) {
				ends <- events
			}
		})
	}
	b.gate <- struct{}{}
	wg.Wait()
	close(ends)
	for events := range ends {
		assert.Equal(t, "success", outcome(events))
		assert.Len(t, conversation(t, events), 4)
	}
	assert.Empty(t, b.log.String())
	assert.Equal(t, []string{"user hello", "assistant wait1", "tool wait1 waited", "assistant done"}, b.said("t"))
}

func TestARunOfAnotherThreadIsNotThisOne(t *testing.T) {
	t.Parallel()
	b := newBundle(t, steps(say("one"), say("two")))
	run := uuid.NewString()
	b.run(with(input("t", user("m", "hello")), "runId", run))
	e := b.refused(with(input("u", user("m", "hello")), "runId", run))
	assert.Equal(t, httpapi.CodeRunExists, e.Code)
	// One that is no UUID is the thread's own.
	b.run(with(input("u", user("m", "hello")), "runId", "r"))
}

func TestABusyThread(t *testing.T) {
	t.Parallel()
	for policy, want := range map[graph.OnBusy]string{"": "waits", graph.Wait: "waits", graph.Reject: "is refused", graph.Cancel: "takes over"} {
		t.Run("policy "+string(policy), func(t *testing.T) {
			t.Parallel()
			b := newBundle(t, steps(call("wait", "{}"), say("done"), say("second")), func(s *setup) { s.Options.OnBusy = policy })
			first := b.open(with(input("t", user("m", "hello")), "runId", "first"))
			first.until("TOOL_CALL_END")
			body := with(input("t", user("m2", "hurry")), "runId", "second")
			switch want {
			case "is refused":
				e := b.refused(body)
				assert.Equal(t, httpapi.CodeSessionBusy, e.Code)
				b.gate <- struct{}{}
				first.rest()
			case "waits":
				second := b.open(body)
				second.until("RUN_STARTED") // which says that the request was taken
				b.gate <- struct{}{}
				assert.Equal(t, "done", textOf(first.rest()))
				events := second.rest()
				assert.Equal(t, "second", textOf(events))
				assert.Len(t, every(events, "MESSAGES_SNAPSHOT")[1]["messages"], 5, "what it began with, with what it waited for")
			case "takes over":
				events := b.run(body)
				assert.Equal(t, "done", textOf(events), "which the first would have heard")
				assert.Equal(t, "cancelled", outcome(first.rest()))
			}
		})
	}
}

func TestAWaitingRequestThatGoesLeavesNothing(t *testing.T) {
	t.Parallel()
	b := newBundle(t, steps(call("wait", "{}"), say("done")))
	first := b.open(with(input("t", user("m", "hello")), "runId", "first"))
	first.until("TOOL_CALL_END")
	second := b.open(with(input("t", user("m2", "hurry")), "runId", "second"))
	second.until("RUN_STARTED")
	second.leave()
	assert.Equal(t, "cancelled", b.status("t", "second"))
	b.gate <- struct{}{}
	first.rest()
	assert.Len(t, b.said("t"), 4)
}

func TestASnapshotThatIsTooLongIsLeftOut(t *testing.T) {
	t.Parallel()
	b := newBundle(t, steps(say("hi"), say("hi")), func(s *setup) { s.MaxSnapshot = 300 })
	assert.Len(t, every(b.run(input("t", user("m", "hello"))), "MESSAGES_SNAPSHOT"), 1)
	assert.Empty(t, every(b.run(input("t", user("m2", strings.Repeat("x", 300)))), "MESSAGES_SNAPSHOT"), "not even the one that says to forget")
	assert.Contains(t, b.log.String(), "snapshot of the messages left out")
}

// panicking is a log that breaks.
type panicking struct{ slog.Handler }

func (panicking) Enabled(context.Context, slog.Level) bool { return true }
func (panicking) Handle(_ context.Context, r slog.Record) error {
	if r.Level == slog.LevelWarn {
		panic("a secret of the log")
	}
	return nil
}

func TestAPanicIsTheEndOfTheStreamAndNotOfTheBody(t *testing.T) {
	t.Parallel()
	b := newBundle(t, steps(say("hi")), func(s *setup) {
		s.MaxSnapshot, s.Options.Logger = 1, slog.New(panicking{slog.DiscardHandler})
	})
	events := b.run(input("t", user("m", "hello")))
	assert.Equal(t, []string{"RUN_ERROR", "unexpected error"}, []string{last(events).Type(), last(events).Text("message")})
}

func TestADeletedThreadEndsItsRun(t *testing.T) {
	t.Parallel()
	b := newBundle(t, steps(call("wait", "{}")))
	s := b.open(input("t", user("m", "hello")))
	s.until("TOOL_CALL_END")
	require.Equal(t, 204, b.v1("DELETE", "/v1/sessions/"+agui.SessionID("t").String(), nil, nil))
	assert.Equal(t, "cancelled", outcome(s.rest()))
	assert.NotContains(t, b.log.String(), "level=ERROR")
}

// failing is a store that fails when it is told to.
type failing struct {
	store.Store
	mu  sync.Mutex // guards err
	err error
}

func (f *failing) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *failing) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

func (f *failing) Run(ctx context.Context, tenant string, id uuid.UUID) (*store.Run, error) {
	if err := f.failure(); err != nil {
		return nil, err
	}
	return f.Store.Run(ctx, tenant, id)
}

func (f *failing) Checkpoints(ctx context.Context, q *store.CheckpointQuery) (*store.Page[checkpoint.Checkpoint], error) {
	if err := f.failure(); err != nil {
		return nil, err
	}
	return f.Store.Checkpoints(ctx, q)
}

func TestAStoreThatFailsIsTheServersAffair(t *testing.T) {
	t.Parallel()
	secret := errors.New("a secret of the store")
	var st *failing
	b := newBundle(t, steps(call("ask", `{"name":"who?"}`)), func(s *setup) {
		st = &failing{Store: s.Store}
		s.Store = st
	})
	st.fail(secret)
	e := b.refused(input("t", user("m", "hello")))
	assert.Equal(t, httpapi.CodeUnexpected, e.Code)
	assert.NotContains(t, e.Message, "secret")
	assert.Contains(t, b.log.String(), "a secret of the store")
	st.fail(nil)

	// What is only nice to know is left out.
	s := b.open(input("t", user("m", "hello")))
	s.until("RUN_STARTED")
	st.fail(secret)
	events := s.rest()
	assert.Equal(t, "interrupt", outcome(events))
}
