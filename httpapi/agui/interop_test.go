package agui_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/httpapi/agui/aguitest"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react/reacttest"
	"github.com/everstep-go/everstep/store/sqlite"
)

// What went wrong between others, and must not here: the numbers are those of the table of interoperability bugs
// (protocols 5.3).

func TestInterop01AnOpenBodyIsNeverTorn(t *testing.T) {
	t.Parallel()
	for name, steps := range map[string][]reacttest.Step{
		"in the middle of a tool": {both("I wait", reacttest.ToolCall("w", "wait", "{}"))},
		"in the middle of a reply": {{
			Deltas: append(reacttest.Words("one two"), nil), // which panics
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t, func(s *setup) { s.steps = steps })
			s := b.open(input("t", user("m", "hello")))
			s.until("TEXT_MESSAGE_CONTENT")
			if strings.Contains(name, "tool") {
				s.until("TOOL_CALL_END")
				b.shutdown()
			}
			events := s.rest()
			require.Equal(t, "RUN_ERROR", last(events).Type())
			if strings.Contains(name, "tool") {
				assert.Equal(t, "503000", last(events).Text("code"))
			}
		})
	}
}

func TestInterop02TextEndsBeforeToolCalls(t *testing.T) {
	t.Parallel()
	b := newBundle(t, steps(both("I greet", reacttest.ToolCall("g", "greet", `{"name":"x"}`)), say("done")))
	assert.Equal(t, []string{
		"RUN_STARTED", "STATE_SNAPSHOT", "TEXT_MESSAGE_START", "TEXT_MESSAGE_END",
		"TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT",
		"TEXT_MESSAGE_START", "TEXT_MESSAGE_END", "MESSAGES_SNAPSHOT", "RUN_FINISHED",
	}, brief(b.run(input("t", user("m", "hello")))))
}

func TestInterop03EachCallIsAnnouncedWholeBeforeTheNext(t *testing.T) {
	t.Parallel()
	b := newBundle(t, steps(calls(
		reacttest.ToolCall("a", "greet", `{"name":"a"}`), reacttest.ToolCall("b", "greet", `{"name":"b"}`),
		reacttest.ToolCall("a", "greet", `{"name":"c"}`), // an id is there already
	), say("done")))
	events := b.run(input("t", user("m", "hello")))
	var story []string
	ids := map[string]bool{}
	for _, e := range events {
		if strings.HasPrefix(e.Type(), "TOOL_CALL_") && e.Type() != "TOOL_CALL_RESULT" {
			story = append(story, strings.TrimPrefix(e.Type(), "TOOL_CALL_"))
			ids[e.Text("toolCallId")] = true
		}
	}
	assert.Equal(t, []string{"START", "ARGS", "END", "START", "ARGS", "END", "START", "ARGS", "END"}, story)
	assert.Len(t, ids, 3)
}

func TestInterop04TheParentOfACallIsNeverNull(t *testing.T) {
	t.Parallel()
	b := newBundle(t, steps(call("greet", `{"name":"x"}`), both("again", reacttest.ToolCall("g2", "greet", `{"name":"y"}`)), say("done")))
	events := b.run(input("t", user("m", "hello")))
	starts := every(events, "TOOL_CALL_START")
	require.Len(t, starts, 2)
	owner := map[any]any{}
	for _, m := range conversation(t, events) {
		list, _ := m["toolCalls"].([]any)
		for _, c := range list {
			owner[c.(object)["id"]] = m["id"]
		}
	}
	for _, s := range starts {
		assert.Equal(t, owner[s["toolCallId"]], s["parentMessageId"], "the message that makes the call")
	}
}

func TestInterop05AStreamedIDIsThatOfItsMessageForLife(t *testing.T) {
	t.Parallel()
	b := newBundle(t, steps(both("I greet", reacttest.ToolCall("g", "greet", `{"name":"x"}`)), say("all done")))
	events := b.run(input("t", user("m", "hello")))
	heard := map[string]string{}
	for _, e := range events {
		switch e.Type() {
		case "TEXT_MESSAGE_CONTENT":
			heard[e.Text("messageId")] += e.Text("delta")
		case "TOOL_CALL_RESULT":
			heard[e.Text("messageId")] = e.Text("content")
		}
	}
	kept := map[string]string{}
	for _, m := range conversation(t, events)[1:] {
		kept[m["id"].(string)], _ = m["content"].(string)
	}
	assert.Equal(t, heard, kept)
	stored := map[string]string{}
	for _, m := range b.state("t").Messages[1:] {
		_, text, _ := strings.Cut(line(m), " ")
		stored[m.Head().ID.String()] = text
	}
	assert.Len(t, stored, 3)
	for id := range kept {
		assert.Contains(t, stored, id)
	}
}

func TestInterop06IDsAreTheSameInEveryRun(t *testing.T) {
	t.Parallel()
	b := newBundle(t, steps(call("greet", `{"name":"x"}`), say("one"), say("two")))
	first := conversation(t, b.run(input("t", user("m", "hello"))))
	second := conversation(t, b.run(input("t", user("m", "hello"), user("m2", "again"))))
	assert.Equal(t, first, second[:len(first)])
	assert.Equal(t, "m", first[0]["id"])
	assert.Equal(t, "m2", second[len(first)]["id"])
}

func TestInterop07ReasoningIsStreamedUnderTheIDThatIsStored(t *testing.T) {
	t.Parallel()
	think := say("hi")
	think.Deltas = append([]message.Delta{message.ReasoningDelta{Text: "hm"}, message.ReasoningDelta{Text: "m"}, message.ReasoningDone{Signature: "sig"}}, think.Deltas...)
	b := newBundle(t, steps(think))
	events := b.run(input("t", user("m", "hello")))
	assert.Equal(t, []string{
		"RUN_STARTED", "STATE_SNAPSHOT", "REASONING_START", "REASONING_MESSAGE_START", "REASONING_MESSAGE_END", "REASONING_ENCRYPTED_VALUE",
		"REASONING_END", "TEXT_MESSAGE_START", "TEXT_MESSAGE_END", "MESSAGES_SNAPSHOT", "RUN_FINISHED",
	}, brief(events))
	m := conversation(t, events)[1]
	id := every(events, "REASONING_START")[0]["messageId"]
	assert.Equal(t, object{"id": id, "role": "reasoning", "content": "hmm", "encryptedValue": "sig"}, m)
	encrypted := every(events, "REASONING_ENCRYPTED_VALUE")[0]
	assert.Equal(t, []any{"message", id, "sig"}, []any{encrypted["subtype"], encrypted["entityId"], encrypted["encryptedValue"]})
}

func TestInterop08AClientThatForgotToolResultsLosesNothing(t *testing.T) {
	t.Parallel()
	b := newBundle(t, steps(call("greet", `{"name":"x"}`), say("one"), say("two")))
	first := b.run(input("t", user("m", "hello")))
	copied := conversation(t, first)
	require.Equal(t, "tool", copied[2]["role"])
	b.run(input("t", copied[0], copied[1], copied[3], user("m2", "again")))
	assert.Equal(t, []string{"user hello", "assistant greet1", "tool greet1 hello x", "assistant one", "user again"}, b.asked())
}

func TestInterop09ACallThatNobodyAnsweredGetsAResultBeforeTheModelIsAsked(t *testing.T) {
	t.Parallel()
	b := newBundle(t, steps(call("look", "{}"), say("never mind")))
	b.run(with(input("t", user("m", "hello")), "tools", look))
	b.run(with(input("t", user("m", "hello"), user("m2", "forget it")), "tools", look))
	asked := b.asked()
	require.Len(t, asked, 4)
	assert.Contains(t, asked[2], "tool look1 Error: no result")
	assert.Equal(t, "user forget it", asked[3])
}

func TestInterop10AResultThatComesTwiceCountsOnce(t *testing.T) {
	t.Parallel()
	b := newBundle(t, steps(call("look", "{}"), say("a cat"), say("yes")))
	copied := conversation(t, b.run(with(input("t", user("m", "hello")), "tools", look)))
	b.run(with(input("t", copied[0], copied[1], toolResult("r1", "look1", "cat"), toolResult("r2", "look1", "dog")), "tools", look))
	b.run(with(input("t", copied[0], copied[1], toolResult("r3", "look1", "cow"), user("m2", "sure?")), "tools", look))
	assert.Equal(t, []string{"user hello", "assistant look1", "tool look1 cat", "assistant a cat", "user sure?", "assistant yes"}, b.said("t"))
}

func TestInterop11NobodyAnswersForTheFrontend(t *testing.T) {
	t.Parallel()
	b := newBundle(t, steps(calls(reacttest.ToolCall("l", "look", "{}"), reacttest.ToolCall("g", "greet", `{"name":"x"}`)), say("done")))
	events := b.run(with(input("t", user("m", "hello")), "tools", look))
	results := every(events, "TOOL_CALL_RESULT")
	require.Len(t, results, 1)
	assert.Equal(t, "g", results[0].Text("toolCallId"))
	assert.Equal(t, "success", outcome(events))
	assert.Len(t, b.script.Requests(), 1, "the model waits for the frontend")
	assert.Len(t, conversation(t, events), 3)
}

func TestInterop12AResultGoesOnWithTheRunAndIsNoQuestion(t *testing.T) {
	t.Parallel()
	b := newBundle(t, steps(call("look", "{}"), say("a cat")))
	copied := conversation(t, b.run(with(input("t", user("m", "hello")), "tools", look)))
	// Where clients put it: right behind the call.
	again := input("t", copied[0], copied[1], toolResult("r", "look1", "cat"))
	events := b.run(with(again, "tools", look))
	assert.Equal(t, "a cat", textOf(events))
	assert.Equal(t, []string{"user hello", "assistant look1", "tool look1 cat"}, b.asked())
	// The same once more, as a new run: there is nothing to do.
	events = b.run(with(with(again, "tools", look), "runId", "another"))
	assert.Equal(t, []string{"RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "MESSAGES_SNAPSHOT", "RUN_FINISHED"}, brief(events))
	assert.Len(t, b.script.Requests(), 2)
}

func TestInterop13AFailureAfterAResultDoesNotRepeatTheTool(t *testing.T) {
	t.Parallel()
	b := newBundle(t, steps(call("look", "{}"), reacttest.Fail(errors.New("down")), reacttest.Fail(errors.New("down")), say("a cat")))
	copied := conversation(t, b.run(with(input("t", user("m", "hello")), "tools", look)))
	again := with(input("t", copied[0], copied[1], toolResult("r", "look1", "cat")), "tools", look)
	for range 2 {
		events := b.run(with(again, "runId", uuid.NewString()))
		assert.Equal(t, "RUN_ERROR", last(events).Type())
		assert.Empty(t, every(events, "TOOL_CALL_START"), "the frontend is not asked again")
	}
	assert.Equal(t, "a cat", textOf(b.run(with(again, "runId", uuid.NewString()))))
	assert.Equal(t, []string{"user hello", "assistant look1", "tool look1 cat", "assistant a cat"}, b.said("t"))
}

func TestInterop14OnResumeOnlyTheResultOfACallIsSaid(t *testing.T) {
	t.Parallel()
	b := newBundle(t, steps(call("launch", `{"name":"it"}`), say("done")))
	first := b.run(input("t", user("m", "hello")))
	events := b.run(with(input("t", conversation(t, first)...), "resume", []object{
		{"interruptId": "launch1", "status": "resolved", "payload": object{"approved": true}},
	}))
	assert.Equal(t, []string{
		"RUN_STARTED", "STATE_SNAPSHOT", "TOOL_CALL_RESULT", "TEXT_MESSAGE_START", "TEXT_MESSAGE_END", "MESSAGES_SNAPSHOT", "RUN_FINISHED",
	}, brief(events))
	assert.Equal(t, "launched it", every(events, "TOOL_CALL_RESULT")[0].Text("content"))
}

func TestInterop15ACallEndsBeforeItsInterrupt(t *testing.T) {
	t.Parallel()
	b := newBundle(t, steps(call("ask", `{"name":"who?"}`)))
	events := b.run(input("t", user("m", "hello")))
	assert.Equal(t, []string{
		"RUN_STARTED", "STATE_SNAPSHOT", "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END",
		"STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "RUN_FINISHED",
	}, brief(events))
	assert.Equal(t, "interrupt", outcome(events))
}

func TestInterop16FrontendsThatDoNotKnowInterruptsHaveTheirOwnWay(t *testing.T) {
	t.Parallel()
	b := newBundle(t, steps(call("ask", `{"name":"who?"}`), say("done"), call("ask", `{"name":"why?"}`), say("no")), func(s *setup) { s.LegacyInterrupts = true })
	events := b.run(without(input("t", user("m", "hello")), "protocolVersion"))
	custom := every(events, "CUSTOM")
	require.Len(t, custom, 1)
	assert.Equal(t, "on_interrupt", custom[0].Text("name"))
	assert.Equal(t, object{"question": "who?"}, custom[0]["value"])
	assert.Empty(t, outcome(events))

	b.run(with(input("t"), "forwardedProps", object{"command": object{"resume": "me"}}))
	assert.Equal(t, []string{"user hello", "assistant ask1", "tool ask1 me", "assistant done"}, b.said("t"))
	assert.Equal(t, "assistant ask1", b.said("t")[1])

	// They have no way to cancel: a message abandons the question.
	b.run(input("t", user("m2", "again")))
	events = b.run(input("t", user("m3", "forget it")))
	assert.Equal(t, "no", textOf(events))
	assert.Contains(t, strings.Join(b.said("t"), "\n"), "not answered")
}

func TestInterop17AnAnswerComesUnderAnotherRun(t *testing.T) {
	t.Parallel()
	b := newBundle(t, steps(call("ask", `{"name":"who?"}`), say("done")))
	asked := interrupts(b.run(with(input("t", user("m", "hello")), "runId", "one")))
	require.Len(t, asked, 1)
	assert.Equal(t, object{
		"id": "ask1", "reason": "input_required", "message": "who?", "toolCallId": "ask1",
		"metadata": object{"name": "ask", "payload": object{"question": "who?"}},
	}, asked[0])
	answer := with(with(input("t"), "runId", "two"), "parentRunId", "one")
	events := b.run(with(answer, "resume", []object{{"interruptId": "ask1", "status": "resolved", "payload": "me"}}))
	assert.Equal(t, []any{"two", "one"}, []any{events[0]["runId"], events[0]["parentRunId"]})
	assert.Equal(t, "done", textOf(events))
	assert.Equal(t, "tool ask1 me", b.said("t")[2])
}

func TestInterop18ARunThatHasEndedIsReplayedAsSnapshots(t *testing.T) {
	t.Parallel()
	b := newBundle(t, steps(reacttest.Fail(errors.New("down")), say("one"), call("ask", `{"name":"who?"}`)))
	failed := with(input("t", user("m", "hello")), "runId", "failed")
	b.run(failed)
	b.run(input("t", user("m", "hello"), user("m2", "again")))
	asks := with(input("t", user("m3", "ask me")), "runId", "asks")
	b.run(asks)

	events := b.run(failed)
	assert.Equal(t, []string{"RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "RUN_ERROR"}, aguitest.Types(events))
	assert.Len(t, conversation(t, events), 5, "where the thread is now")
	events = b.run(asks)
	assert.Equal(t, []string{"RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "RUN_FINISHED"}, aguitest.Types(events))
	assert.Len(t, interrupts(events), 1)
	assert.Len(t, b.script.Requests(), 3, "nothing runs again")
}

func TestInterop19AThreadIsThereAfterARestart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "threads.db")
	var before []object
	for i := range 2 {
		st, err := sqlite.Open(path, nil)
		require.NoError(t, err)
		b := newBundle(t, steps(call("remember", `{"name":"x"}`), say("done")), func(s *setup) { s.Store = st })
		if i == 0 {
			before = conversation(t, b.run(input("t", user("m", "hello"))))
		} else {
			events := b.run(input("t")) // a client that was loaded anew
			assert.Equal(t, []string{"RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "MESSAGES_SNAPSHOT", "RUN_FINISHED"}, brief(events))
			assert.Equal(t, before, conversation(t, events))
			assert.Equal(t, object{"name": "x"}, every(events, "STATE_SNAPSHOT")[0]["snapshot"])
			assert.Empty(t, b.script.Requests())
		}
		b.shutdown()
		require.NoError(t, st.Close())
	}
}

func TestInterop20APendingCallDoesNotHoldUpTheThread(t *testing.T) {
	t.Parallel()
	b := newBundle(t, steps(call("look", "{}"), call("look", "{}"), say("then not")))
	b.run(with(input("t", user("m", "hello")), "tools", look))
	// The page is loaded anew: it knows nothing of the call. What it is sent names it.
	events := b.run(with(input("t"), "tools", look))
	assert.Equal(t, []any{"look1"}, last(events)["outcome"].(object)["pendingToolCallIds"])
	assert.Len(t, conversation(t, events), 2)
	assert.Len(t, b.script.Requests(), 1, "the model is not asked meanwhile")
	// A new message goes on without it.
	events = b.run(input("t", user("m2", "forget it")))
	assert.Equal(t, "success", outcome(events))
}

func TestInterop21AClientThatAbortsReachesTheAgent(t *testing.T) {
	t.Parallel()
	b := newBundle(t, steps(call("wait", "{}"), say("hello again")))
	s := b.open(with(input("t", user("m", "hello")), "runId", "r"))
	s.until("TOOL_CALL_END")
	s.leave()
	assert.Equal(t, "cancelled", b.status("t", "r"))
	assert.Equal(t, "hello again", textOf(b.run(input("t", user("m", "hello"), user("m2", "again")))))
}

func TestInterop22DeltasFollowASnapshotOfTheSameState(t *testing.T) {
	t.Parallel()
	b := newBundle(t, steps(call("remember", `{"name":"x"}`), say("one"), say("two"), say("three")))
	events := b.run(with(input("t", user("m", "hello")), "state", object{"color": "red"}))
	assert.Equal(t, object{"color": "red"}, every(events, "STATE_SNAPSHOT")[0]["snapshot"])
	deltas := every(events, "STATE_DELTA")
	require.Len(t, deltas, 1)
	assert.Equal(t, []any{object{"op": "add", "path": "/name", "value": "x"}}, deltas[0]["delta"])
	assert.Equal(t, object{"color": "red", "name": "x"}, last(events)["result"])
	// What the client leaves out stays, what it changes is changed.
	events = b.run(with(input("t", user("m2", "again")), "state", object{"color": "blue"}))
	assert.Equal(t, object{"color": "blue", "name": "x"}, every(events, "STATE_SNAPSHOT")[0]["snapshot"])
	b.run(with(input("t", user("m3", "again")), "state", nil))
	assert.JSONEq(t, `{"color":"blue","name":"x"}`, string(b.state("t").Context), "null is no change")
}

func TestInterop23TheIDsOfTheRequestAreEchoed(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"thread-1", "EE84050B-1B17-5FE8-9F71-0983F1FCECCC", "{0199d8a4-0000-4000-8000-000000000001}", uuid.Nil.String(), "é\n\"\x00", " "} {
		b := newBundle(t, steps(say("hi")))
		events := b.run(with(input(id, user(id, "hello")), "runId", id))
		for _, e := range []aguitest.Event{events[0], last(events)} {
			assert.Equal(t, id, e.Text("threadId"))
			assert.Equal(t, id, e.Text("runId"))
		}
		assert.Equal(t, id, conversation(t, events)[0]["id"])
	}
}

func TestInterop24PendingCallsAreNamedToThoseWhoUnderstand(t *testing.T) {
	t.Parallel()
	for _, d := range []aguitest.Dialect{aguitest.V0, aguitest.V1} {
		b := newBundle(t, steps(calls(reacttest.ToolCall("l", "look", "{}"), reacttest.ToolCall("g", "greet", `{"name":"x"}`))))
		body := with(input("t", user("m", "hello")), "tools", look)
		want := object{"type": "success", "pendingToolCallIds": []any{"l"}}
		if d == aguitest.V0 {
			body, want = without(body, "protocolVersion"), object{"type": "success"}
		}
		assert.Equal(t, want, last(b.run(body))["outcome"])
	}
}
