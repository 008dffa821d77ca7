package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
)

// The kinds of events that runs begin with, and what they end with.
var (
	begins = []event.Kind{"run_started", "state_snapshot"}
	text   = []event.Kind{"text_message_start", "text_message_content", "text_message_end"}
	called = []event.Kind{"tool_call_start", "tool_call_args", "tool_call_end"}
	ends   = []event.Kind{"messages_snapshot", "run_finished"}
)

func join(parts ...[]event.Kind) (all []event.Kind) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

func one(kinds ...event.Kind) []event.Kind { return kinds }

func TestEveryKindOfRunHasItsSequenceOfEvents(t *testing.T) {
	t.Parallel()
	look := object{"tools": []any{object{"name": "look", "description": "", "parameters": object{"type": "object"}}}}
	for name, c := range map[string]struct {
		text   string
		more   object
		want   []event.Kind
		status string
	}{
		"a text":             {"hi", nil, join(begins, text, ends), "completed"},
		"reasoning":          {"think hm\nhi", nil, join(begins, one("reasoning_start", "reasoning_message_start", "reasoning_message_content", "reasoning_message_end", "reasoning_signature", "reasoning_end"), text, ends), "completed"},
		"a tool":             {`call greet {"name":"x"}`, nil, join(begins, called, one("tool_call_result"), text, ends), "completed"},
		"a text and a tool":  {"hi\n" + `call greet {"name":"x"}`, nil, join(begins, text, called, one("tool_call_result"), text, ends), "completed"},
		"a tool that fails":  {"call refuse {}", nil, join(begins, called, one("tool_call_error"), text, ends), "completed"},
		"a tool that panics": {"call explode {}", nil, join(begins, called, one("tool_call_error"), text, ends), "completed"},
		"an unknown tool":    {"call nothing {}", nil, join(begins, called, one("tool_call_error"), text, ends), "completed"},
		"a tool that changes the context": {`call remember {"name":"x"}`, nil,
			join(begins, called, one("state_delta", "tool_call_result"), text, ends), "completed"},
		"a tool with progress": {"call progress {}", nil, join(begins, called, one("activity_delta", "tool_call_result"), text, ends), "completed"},
		"a client's tool":      {"call look {}", look, join(begins, called, ends), "completed"},
		"a client's tool beside another": {"call look {}\n" + `call greet {"name":"x"}`, look,
			join(begins, called, called, one("tool_call_result"), ends), "completed"},
		"a question": {`call ask {"name":"x"}`, nil, join(begins, called, one("run_finished")), "interrupted"},
		"a failure":  {"fail", nil, join(begins, one("run_error")), "failed"},
		"a failure in the middle of a text": {"hi\nfail", nil,
			join(begins, text, one("run_error")), "failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			run := uuid.New()
			events := b.attached(says(c.text, object{"run_id": run}, c.more))
			assert.Equal(t, c.want, kinds(events), "attached")
			assert.Equal(t, c.status, b.status(run))
			for i, e := range events {
				assert.EqualValues(t, i+1, e.Seq, "ids are contiguous from 1")
			}
			again := b.watch(run, "0")
			assert.Equal(t, len(events), len(again))
			for i := range events {
				assert.JSONEq(t, mustJSON(t, events[i]), mustJSON(t, again[i]), "who comes later gets the same")
			}
			second := b.detached(says(c.text, c.more))
			b.status(second.Run)
			assert.Equal(t, c.want, kinds(b.watch(second.Run, "0")), "detached")
		})
	}
}

func TestAClientsToolIsAnsweredByTheNextRun(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	session := uuid.New()
	tools := object{"session_id": session, "tools": []any{object{"name": "look", "description": "", "parameters": object{}}}}
	events := b.attached(says("call look {\"at\":1}\ncall look {\"at\":2}\ncall greet {\"name\":\"x\"}", tools))
	assert.Equal(t, join(begins, called, called, called, one("tool_call_result"), ends), kinds(events))
	var calls []string
	for _, e := range events {
		if d, ok := e.Data.(event.ToolCallStart); ok && d.ToolName == "look" {
			calls = append(calls, d.ToolCallID)
		}
	}
	require.Len(t, calls, 2)
	result := func(call string) object {
		return object{"session_id": session, "messages": []any{object{"role": "tool", "tool_call_id": call, "content": "seen"}}}
	}
	announced := func(events []event.Event) (ids []string) {
		for _, e := range events {
			if d, ok := e.Data.(event.ToolCallStart); ok {
				ids = append(ids, d.ToolCallID)
			}
		}
		return ids
	}
	run := b.detached(result(calls[0]))
	b.status(run.Run)
	events = b.watch(run.Run, "0")
	assert.Equal(t, join(begins, called, ends), kinds(events))
	assert.Equal(t, calls[1:], announced(events), "only what is still open")
	events = b.attached(result(calls[1]))
	assert.Equal(t, join(begins, text, ends), kinds(events), "now the model is asked")
	assert.Equal(t, "done", textOf(events))
}

func TestAQuestionIsAnsweredByTheNextRun(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	session := uuid.New()
	ask := says("call ask {\"name\":\"a\"}\ncall ask {\"name\":\"b\"}\ncall greet {\"name\":\"x\"}", object{"session_id": session})
	events := b.attached(ask)
	end := events[len(events)-1].Data.(event.RunFinished)
	assert.Equal(t, "interrupted", end.Status)
	var payload struct {
		Interrupts []struct {
			ID, Name string
			Payload  json.RawMessage
		}
	}
	require.NoError(t, json.Unmarshal(end.InterruptPayload, &payload))
	require.Len(t, payload.Interrupts, 2)
	assert.Equal(t, "ask", payload.Interrupts[0].Name)
	assert.JSONEq(t, `{"question":"a"}`, string(payload.Interrupts[0].Payload))
	again := b.attached(object{"session_id": session, "checkpoint_id": b.list("/v1/sessions/" + session.String() + "/checkpoints").ids()[0]})
	assert.JSONEq(t, string(end.InterruptPayload), string(again[len(again)-1].Data.(event.RunFinished).InterruptPayload), "asked again on a branch")

	events = b.attached(object{"session_id": session, "resume_payload": object{payload.Interrupts[0].ID: "yes"}})
	assert.Equal(t, join(begins, called, one("tool_call_result", "run_finished")), kinds(events), "only the answered one goes on")
	assert.Equal(t, "interrupted", events[len(events)-1].Data.(event.RunFinished).Status)
	events = b.attached(object{"session_id": session, "resume_payload": "no"})
	assert.Equal(t, join(begins, called, one("tool_call_result"), text, ends), kinds(events))
	checkpoints := b.list("/v1/sessions/" + session.String() + "/checkpoints?reasons[]=interrupt")
	assert.NotNil(t, checkpoints.Items[0]["metadata"].(object)["interrupt_payload"])
}

func TestAForkLeavesTheOriginalAsItWas(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	session := uuid.New()
	b.attached(says("one", object{"session_id": session}))
	fork := b.list("/v1/sessions/" + session.String() + "/checkpoints").ids()[0]
	b.attached(says("two", object{"session_id": session}))
	head := b.list("/v1/sessions/" + session.String() + "/checkpoints").ids()[0]
	events := b.attached(says("three", object{"session_id": session, "checkpoint_id": fork}))
	texts := func(messages any) (out []string) {
		for _, m := range messages.([]any) {
			switch content := m.(object)["content"].(type) {
			case string:
				out = append(out, content)
			case []any:
				out = append(out, content[0].(object)["value"].(string))
			}
		}
		return out
	}
	var snapshot object
	require.NoError(t, json.Unmarshal([]byte(mustJSON(t, events[len(events)-2])), &snapshot))
	assert.Equal(t, []string{"one", "one", "three", "three"}, texts(snapshot["messages"]))
	assert.Equal(t, []string{"one", "one", "two", "two"}, texts(decode[object](t, b.get("/v1/checkpoints/"+head))["messages"]))
	assert.Equal(t, 6, b.list("/v1/sessions/"+session.String()+"/messages").Count)
}

func TestAnObserverComesWhenItLikes(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	run := b.detached(says("hold a b c"))
	path := "/v1/runs/" + run.Run.String() + "/events"
	streams := map[string]*http.Response{}
	for _, last := range []string{"", "0", "2", "4", "99999999999999999"} {
		var headers []string
		if last != "" {
			headers = append(headers, "Last-Event-ID: "+last)
		}
		res, err := b.open(t.Context(), "GET", path, nil, headers...)
		require.NoError(t, err)
		streams[last] = res
	}
	b.gate <- struct{}{}
	all := b.events(streams["0"])
	require.Equal(t, join(begins, one("text_message_start", "text_message_content", "text_message_content", "text_message_content", "text_message_end"), ends), kinds(all))
	for last, after := range map[string]int{"2": 2, "4": 4} {
		assert.Equal(t, kinds(all[after:]), kinds(b.events(streams[last])), last)
	}
	for _, last := range []string{"", "99999999999999999"} {
		live := b.events(streams[last])
		require.NotEmpty(t, live)
		assert.Equal(t, all[len(all)-1].Seq, live[len(live)-1].Seq, "up to the end")
		assert.Greater(t, live[0].Seq, int64(2), "not what was before")
	}
	for last, n := range map[string]int{"0": len(all), "3": len(all) - 3, strconv.Itoa(len(all)): 0, "1000": 0, "99999999999999999999": 0} {
		assert.Len(t, b.watch(run.Run, last), n, "after the end, Last-Event-ID %s", last)
	}
}

func TestWhenTheLogIsGoneAnObserverGetsASnapshot(t *testing.T) {
	t.Parallel()
	b := newBundle(t, func(s *setup) { s.Bus = event.NewMemory(&event.MemoryOptions{Keep: -1}) })
	run := uuid.New()
	b.attached(says("hi", object{"run_id": run, "context": object{"a": 1}}))
	events := b.watch(run, "0")
	require.Equal(t, one("state_snapshot", "messages_snapshot", "run_finished"), kinds(events))
	assert.JSONEq(t, `{"a":1}`, string(events[0].Data.(event.StateSnapshot).State))
	assert.Len(t, events[1].Data.(event.MessagesSnapshot).Messages, 2)
	assert.Equal(t, "completed", events[2].Data.(event.RunFinished).Status)

	failed := b.detached(says("fail"))
	b.status(failed.Run)
	events = b.watch(failed.Run, "1")
	assert.Equal(t, "model_error", events[len(events)-1].Data.(event.RunError).Code)
	assert.NotContains(t, mustJSON(t, events[len(events)-1]), "secret")
}

func TestCancellingStopsARunWhereverItIs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want []event.Kind
	}{
		"in the middle of a reply": {"hold a b", join(begins, text, one("run_finished"))},
		"in the middle of a tool":  {"call wait {}", join(begins, called, one("tool_call_error", "run_finished"))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			run := b.detached(says(c.text))
			stream, err := b.open(t.Context(), "GET", "/v1/runs/"+run.Run.String()+"/events", nil, "Last-Event-ID: 0")
			require.NoError(t, err)
			for range 2 {
				assert.Equal(t, http.StatusNoContent, b.do("PUT", "/v1/runs/"+run.Run.String()+"/cancel", nil).status)
			}
			events := b.events(stream)
			last := events[len(events)-1].Data.(event.RunFinished)
			assert.Equal(t, "cancelled", last.Status)
			assert.Subset(t, c.want, kinds(events))
			assert.Equal(t, "cancelled", b.status(run.Run))
			assert.Equal(t, http.StatusNoContent, b.do("PUT", "/v1/runs/"+run.Run.String()+"/cancel", nil).status, "it has ended already")
			more := b.attached(says("hi", object{"session_id": run.Session}))
			assert.Equal(t, "hi", textOf(more), "the session can be used")
		})
	}
}

func TestABusySessionCanBeWaitedForOrFreed(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	first := b.detached(says("hold a b"))
	waiting := b.detached(says("second", object{"session_id": first.Session, "on_busy": "wait"}))
	kept := decode[object](t, b.get("/v1/runs/"+waiting.Run.String()))
	assert.Equal(t, "running", kept["status"])
	stream, err := b.open(t.Context(), "GET", "/v1/runs/"+waiting.Run.String()+"/events", nil, "Last-Event-ID: 0")
	require.NoError(t, err)
	b.gate <- struct{}{}
	assert.Equal(t, "second", textOf(b.events(stream)))
	assert.Equal(t, "completed", b.status(first.Run))

	held := b.detached(says("hold a b", object{"session_id": first.Session}))
	events := b.attached(says("third", object{"session_id": first.Session, "on_busy": "cancel"}))
	assert.Equal(t, "third", textOf(events))
	assert.Equal(t, "cancelled", b.status(held.Run))

	held = b.detached(says("hold a b", object{"session_id": first.Session}))
	waiting = b.detached(says("never", object{"session_id": first.Session, "on_busy": "wait"}))
	require.Equal(t, http.StatusNoContent, b.do("PUT", "/v1/runs/"+waiting.Run.String()+"/cancel", nil).status)
	assert.Equal(t, "cancelled", b.status(waiting.Run))
	b.gate <- struct{}{}
	assert.Equal(t, "completed", b.status(held.Run))
	assert.NotContains(t, string(b.get("/v1/sessions/"+first.Session.String()+"/messages").body), "never")
}

func TestADetachedRunIsRecordedBeforeItIsAnswered(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	for i := range 20 {
		run := b.detached(says(fmt.Sprint("hold ", i)))
		kept := decode[object](t, b.get("/v1/runs/"+run.Run.String()))
		assert.Equal(t, run.Session.String(), kept["session_id"])
		assert.Equal(t, 1, b.list("/v1/sessions/"+run.Session.String()+"/messages").Count)
	}
}

func TestTimestampsAreSecondsAndNeverGoBack(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	before := time.Now().Add(-time.Millisecond)
	last := before
	for _, e := range b.attached(says("a b c d")) {
		assert.False(t, e.Time.Before(last))
		last = e.Time
	}
	assert.True(t, last.After(before) && last.Before(time.Now().Add(time.Millisecond)))
}
