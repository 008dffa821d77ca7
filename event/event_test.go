package event_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/internal/wire"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/state"
)

var (
	session = uuid.MustParse("11111111-1111-4111-8111-111111111111")
	run     = uuid.MustParse("22222222-2222-4222-8222-222222222222")
	msg     = uuid.MustParse("33333333-3333-4333-8333-333333333333")
	noon    = time.Unix(1710000000, 250_000_000).UTC()
)

const (
	ids = `"session_id":"11111111-1111-4111-8111-111111111111","run_id":"22222222-2222-4222-8222-222222222222"`
	mid = `"message_id":"33333333-3333-4333-8333-333333333333"`
)

// One of each kind, and the fields that follow kind and timestamp.
var examples = []struct {
	kind event.Kind
	data event.Data
	want string
}{
	{event.KindRunStarted, event.RunStarted{}, ids},
	{event.KindRunFinished, event.RunFinished{Status: "completed", Result: json.RawMessage(`{"a":1E2}`)},
		ids + `,"status":"completed","interrupt_payload":null,"result":{"a":1E2}`},
	{event.KindRunFinished, event.RunFinished{Status: "interrupted", InterruptPayload: json.RawMessage(`{"interrupts":[]}`)},
		ids + `,"status":"interrupted","interrupt_payload":{"interrupts":[]},"result":null`},
	{event.KindRunError, event.RunError{Error: "no <model>", Code: "model_error"}, ids + `,"error":"no <model>","code":"model_error"`},
	{event.KindRunError, event.RunError{Error: "?"}, ids + `,"error":"?","code":null`},
	{event.KindTextMessageStart, event.TextMessageStart{MessageID: msg}, mid},
	{event.KindTextMessageContent, event.TextMessageContent{MessageID: msg, Delta: "a<b>&\n"}, mid + `,"delta":"a<b>&\n"`},
	{event.KindTextMessageEnd, event.TextMessageEnd{MessageID: msg}, mid},
	{event.KindReasoningStart, event.ReasoningStart{MessageID: msg}, mid},
	{event.KindReasoningEnd, event.ReasoningEnd{MessageID: msg}, mid},
	{event.KindReasoningMessageStart, event.ReasoningMessageStart{MessageID: msg}, mid},
	{event.KindReasoningMessageContent, event.ReasoningMessageContent{MessageID: msg, Delta: ""}, mid + `,"delta":""`},
	{event.KindReasoningMessageEnd, event.ReasoningMessageEnd{MessageID: msg}, mid},
	{event.KindReasoningSignature, event.ReasoningSignature{MessageID: msg, Subtype: "tool_call", EntityID: "c1", Value: "s="},
		mid + `,"subtype":"tool_call","entity_id":"c1","value":"s="`},
	{event.KindToolCallStart, event.ToolCallStart{ToolCallID: "c1", ToolName: "weather"}, `"tool_call_id":"c1","tool_name":"weather","parent_message_id":null`},
	{event.KindToolCallStart, event.ToolCallStart{ToolCallID: "c1", ToolName: "weather", ParentMessageID: msg},
		`"tool_call_id":"c1","tool_name":"weather","parent_` + mid[1:]},
	{event.KindToolCallArgs, event.ToolCallArgs{ToolCallID: "c1", Delta: `{"city":`}, `"tool_call_id":"c1","delta":"{\"city\":"`},
	{event.KindToolCallEnd, event.ToolCallEnd{ToolCallID: "c1"}, `"tool_call_id":"c1"`},
	{event.KindToolCallResult, event.ToolCallResult{ToolCallID: "c1", MessageID: msg, Content: json.RawMessage(`"9 degrees"`)},
		`"tool_call_id":"c1",` + mid + `,"content":"9 degrees"`},
	{event.KindToolCallError, event.ToolCallError{ToolCallID: "c1", MessageID: msg, Error: "no", Code: "denied"},
		`"tool_call_id":"c1",` + mid + `,"error":"no","code":"denied"`},
	{event.KindActivityDelta, event.ActivityDelta{ToolCallID: "c1", ActivityType: "search",
		Patch: state.Patch{state.Add("/hits", json.RawMessage(`3`)), state.Move("/a", "/b")}},
		`"tool_call_id":"c1","activity_type":"search","patch":[{"op":"add","path":"/hits","value":3},{"op":"move","from":"/a","path":"/b"}]`},
	{event.KindStateSnapshot, event.StateSnapshot{State: json.RawMessage(`{"n":9007199254740993}`)}, `"state":{"n":9007199254740993}`},
	{event.KindStateDelta, event.StateDelta{Delta: state.Patch{state.Remove("/a")}}, `"delta":[{"op":"remove","path":"/a"}]`},
	{event.KindMessagesSnapshot, event.MessagesSnapshot{}, `"messages":[]`},
}

func TestEachKindPrintsItsFieldsFlat(t *testing.T) {
	t.Parallel()
	seen := map[event.Kind]bool{}
	for _, c := range examples {
		e := event.Event{Seq: 7, Time: noon, Tenant: "secret", Session: session, Run: run, Data: c.data}
		assert.Equal(t, c.kind, c.data.Kind())
		seen[c.kind] = true

		got, err := wire.Marshal(e)
		require.NoError(t, err)
		assert.Equal(t, `{"kind":"`+string(c.kind)+`","timestamp":1710000000.25,`+c.want+`}`, string(got))

		back, err := event.Unmarshal(got)
		require.NoError(t, err)
		want := event.Event{Time: noon, Data: c.data}
		if c.kind == event.KindRunStarted || event.Terminal(c.data) {
			want.Session, want.Run = session, run
		}
		assert.Equal(t, want, back)
	}
	assert.Len(t, seen, 21)
	assert.Len(t, event.Kinds(), 21)
	for _, k := range event.Kinds() {
		assert.True(t, seen[k], k)
	}
}

func TestMessagesTravelInASnapshot(t *testing.T) {
	t.Parallel()
	e := event.Event{Time: noon, Data: event.MessagesSnapshot{Messages: []message.Message{
		message.NewUser("Umbrella in Oslo?"), message.NewAssistant("Yes."),
	}}}
	data, err := json.Marshal(e)
	require.NoError(t, err)
	var back event.Event
	require.NoError(t, json.Unmarshal(data, &back))
	again, err := json.Marshal(back)
	require.NoError(t, err)
	assert.Equal(t, string(data), string(again))
	require.Len(t, back.Data.(event.MessagesSnapshot).Messages, 2)

	data, err = json.Marshal(event.Event{Data: event.MessagesSnapshot{}, Time: noon})
	require.NoError(t, err)
	assert.JSONEq(t, `{"kind":"messages_snapshot","timestamp":1710000000.25,"messages":[]}`, string(data))
}

func TestOnlyFinishedAndErrorAreTerminal(t *testing.T) {
	t.Parallel()
	for _, c := range examples {
		want := c.kind == event.KindRunFinished || c.kind == event.KindRunError
		assert.Equal(t, want, event.Terminal(c.data), c.kind)
	}
	assert.False(t, event.Terminal(nil))
}

func TestTimestampsAreSecondsToTheMicrosecond(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		at   time.Time
		want string
	}{
		{time.Unix(0, 0), `0`},
		{time.Unix(1710000000, 0), `1710000000`},
		{time.Unix(1710000000, 1_999), `1710000000.000001`},
		{time.Unix(1710000000, 999_999_999), `1710000000.999999`},
		{time.Unix(-1, 500_000_000), `-0.5`},
		{time.Unix(-10, 0), `-10`},
		{time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC), `253402300799.999999`},
		{time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), `-62135596800`},
	} {
		data, err := json.Marshal(event.Event{Time: c.at, Data: event.ToolCallEnd{}})
		require.NoError(t, err)
		assert.Equal(t, `{"kind":"tool_call_end","timestamp":`+c.want+`,"tool_call_id":""}`, string(data))
		back, err := event.Unmarshal(data)
		require.NoError(t, err)
		assert.Equal(t, c.at.UnixMicro(), back.Time.UnixMicro())
	}
	_, err := json.Marshal(event.Event{Time: time.Unix(math.MaxInt64/1000, 0), Data: event.ToolCallEnd{}})
	assert.Error(t, err)

	back, err := event.Unmarshal([]byte(`{"kind":"tool_call_end","timestamp":1.71E9}`))
	require.NoError(t, err)
	assert.Equal(t, int64(1710000000), back.Time.Unix())
}

func TestWhatIsNotAnEventIsAnError(t *testing.T) {
	t.Parallel()
	_, err := event.Unmarshal([]byte(`{"kind":"run_paused","timestamp":1}`))
	assert.EqualError(t, err, `event: unknown kind "run_paused"`)
	for _, data := range []string{
		``, `null`, `[]`, `{}`, `{"kind":"run_started"}`, `{"kind":"run_started","timestamp":"now"}`,
		`{"kind":"run_started","timestamp":1e300}`, `{"kind":"run_started","timestamp":1,"run_id":"x"}`,
		`{"kind":"text_message_content","timestamp":1,"delta":[]}`,
		`{"kind":"state_delta","timestamp":1,"delta":[{"op":"set"}]}`,
		`{"kind":"state_delta","timestamp":1,"delta":"x"}`,
	} {
		_, err := event.Unmarshal([]byte(data))
		assert.Error(t, err, data)
	}
	for _, data := range []event.Data{
		nil, &event.ToolCallEnd{}, event.StateSnapshot{State: json.RawMessage(`{`)},
	} {
		_, err := json.Marshal(event.Event{Time: noon, Data: data})
		assert.Error(t, err)
	}
}

func TestUnknownFieldsAreIgnored(t *testing.T) {
	t.Parallel()
	e, err := event.Unmarshal([]byte(`{"new":{},"kind":"tool_call_end","timestamp":1,"tool_call_id":"c","session_id":"11111111-1111-4111-8111-111111111111"}`))
	require.NoError(t, err)
	assert.Equal(t, event.Event{Time: time.Unix(1, 0).UTC(), Data: event.ToolCallEnd{ToolCallID: "c"}}, e)
}

func TestDocumentsAreOnOneLine(t *testing.T) {
	t.Parallel()
	data, err := event.Event{Time: noon, Data: event.StateSnapshot{State: json.RawMessage("{\n\t\"a\": \"<\"\r\n}")}}.MarshalJSON()
	require.NoError(t, err)
	assert.Equal(t, `{"kind":"state_snapshot","timestamp":1710000000.25,"state":{"a":"<"}}`, string(data))
}

func TestSizeGrowsWithTheDataButNotWithSharedMessages(t *testing.T) {
	t.Parallel()
	text := string(make([]byte, 10_000))
	raw := json.RawMessage(`"` + text + `"`)
	patch := state.Patch{state.Add("/a", raw)}
	for _, d := range []event.Data{
		event.RunFinished{Result: raw}, event.RunFinished{InterruptPayload: raw}, event.RunError{Error: text},
		event.TextMessageContent{Delta: text}, event.ReasoningMessageContent{Delta: text},
		event.ReasoningSignature{Value: text}, event.ToolCallStart{ToolName: text}, event.ToolCallArgs{Delta: text},
		event.ToolCallEnd{ToolCallID: text}, event.ToolCallResult{Content: raw}, event.ToolCallError{Error: text},
		event.ActivityDelta{Patch: patch}, event.StateSnapshot{State: raw}, event.StateDelta{Delta: patch},
	} {
		assert.InDelta(t, 10_000, event.Size(d), 300, "%T", d)
	}
	for _, d := range []event.Data{event.RunStarted{}, event.TextMessageStart{}, event.TextMessageEnd{}, event.ReasoningStart{}} {
		assert.InDelta(t, 0, event.Size(d), 300, "%T", d)
	}
	long := event.MessagesSnapshot{Messages: []message.Message{message.NewUser(text), message.NewUser(text)}}
	assert.Equal(t, 32, event.Size(long)-event.Size(event.MessagesSnapshot{}))
}

func FuzzWhatIsReadPrintsAsItWasRead(f *testing.F) {
	for _, c := range examples {
		data, err := json.Marshal(event.Event{Time: noon, Session: session, Run: run, Data: c.data})
		require.NoError(f, err)
		f.Add(data)
	}
	f.Add([]byte(`{"kind":"tool_call_result","timestamp":-0.000001e0,"content":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := event.Unmarshal(data)
		if err != nil {
			return
		}
		require.Positive(t, event.Size(e.Data))
		first, err := wire.Marshal(e)
		require.NoError(t, err)
		back, err := event.Unmarshal(first)
		require.NoError(t, err)
		second, err := wire.Marshal(back)
		require.NoError(t, err)
		require.Equal(t, string(first), string(second))
		require.Equal(t, e.Time, back.Time)
		require.NotContains(t, string(first), "\n")
	})
}

func BenchmarkMarshal(b *testing.B) {
	e := event.Event{Time: noon, Data: event.TextMessageContent{MessageID: msg, Delta: "a few words"}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.MarshalJSON(); err != nil {
			b.Fatal(err)
		}
	}
}
