package eventtest

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/state"
)

var valueScenarios = []scenario{
	{
		name:    "all_kinds",
		defends: "Every kind of event arrives as it was published.",
		run: func(b *bundle) {
			for _, last := range []event.Data{
				event.RunFinished{Status: "completed", Result: json.RawMessage(`{"a":1E2}`)},
				event.RunFinished{Status: "interrupted", InterruptPayload: json.RawMessage(`{"interrupts":[]}`)},
				event.RunError{Error: "no <model>", Code: "model_error"},
			} {
				b.run = uuid.New()
				var sent []event.Event
				for i, data := range append(samples(), last) {
					e := b.event(int64(i+1), data)
					e.Time = time.Unix(1710000000+int64(i), 250_001_000).UTC()
					sent = append(sent, e)
					b.One.Publish(e)
				}
				b.sides(func(side string, bus event.Bus) {
					seen, err := b.follow(bus, 0).end()
					require.NoError(b, err)
					require.Len(b, seen, len(sent), "on %s", side)
					for i := range sent {
						b.same(&sent[i], &seen[i])
					}
				})
			}
		},
	},
	{
		name:    "big_events",
		defends: "An event may be large.",
		run: func(b *bundle) {
			big := strings.Repeat("0123456789abcde\n", 1<<16) // 1 MiB
			document, err := json.Marshal(map[string]string{"text": big})
			require.NoError(b, err)
			sent := []event.Event{
				b.event(1, event.TextMessageContent{MessageID: b.session, Delta: big}),
				b.text(2),
				b.event(3, event.StateSnapshot{State: document}),
				b.event(4, event.RunFinished{Status: "completed"}),
			}
			for _, e := range sent {
				b.One.Publish(e)
			}
			b.sides(func(side string, bus event.Bus) {
				seen, err := b.follow(bus, 0).end()
				require.NoError(b, err)
				require.Len(b, seen, len(sent), "on %s", side)
				for i := range sent {
					b.same(&sent[i], &seen[i])
				}
			})
		},
	},
}

// samples are events of every kind but the terminal ones.
func samples() []event.Data {
	id := uuid.New()
	return []event.Data{
		event.RunStarted{},
		event.TextMessageStart{MessageID: id},
		event.TextMessageContent{MessageID: id, Delta: "a<b>&\n\x00\u2028 \U0001F327 \"quoted\" \\"},
		event.TextMessageContent{MessageID: id},
		event.TextMessageEnd{MessageID: id},
		event.ReasoningStart{MessageID: id},
		event.ReasoningMessageStart{MessageID: id},
		event.ReasoningMessageContent{MessageID: id, Delta: "hm"},
		event.ReasoningMessageEnd{MessageID: id},
		event.ReasoningSignature{MessageID: id, Subtype: "tool_call", EntityID: "c1", Value: "s="},
		event.ReasoningEnd{MessageID: id},
		event.ToolCallStart{ToolCallID: "c1", ToolName: "weather"},
		event.ToolCallArgs{ToolCallID: "c1", Delta: `{"city":`},
		event.ToolCallEnd{ToolCallID: "c1"},
		event.ToolCallResult{ToolCallID: "c1", MessageID: id, Content: json.RawMessage(`"9 degrees"`)},
		event.ToolCallResult{ToolCallID: "c1", MessageID: id},
		event.ToolCallError{ToolCallID: "c1", MessageID: id, Error: "no", Code: "denied"},
		event.ActivityDelta{ToolCallID: "c1", ActivityType: "search", Patch: state.Patch{
			state.Add("/hits", json.RawMessage(`3`)), state.Move("/a", "/b"), state.Remove("/c"),
		}},
		event.StateSnapshot{State: json.RawMessage(`{"n":9007199254740993}`)},
		event.StateDelta{Delta: state.Patch{state.Replace("/a", json.RawMessage(`null`))}},
		event.MessagesSnapshot{},
		event.MessagesSnapshot{Messages: []message.Message{message.NewUser("Umbrella in Oslo?"), message.NewAssistant("Yes.")}},
	}
}

// same requires two events to say the same: also what is not on the wire.
func (b *bundle) same(want, got *event.Event) {
	b.Helper()
	require.Equal(b, want.Seq, got.Seq)
	require.Equal(b, want.Tenant, got.Tenant, "the tenant of number %d", want.Seq)
	require.Equal(b, want.Session, got.Session, "the session of number %d", want.Seq)
	require.Equal(b, want.Run, got.Run, "the run of number %d", want.Seq)
	require.Equal(b, want.Time.UnixMicro(), got.Time.UnixMicro(), "the time of number %d", want.Seq)
	text := func(e *event.Event) string {
		data, err := e.MarshalJSON() // json.Marshal would look at it all once more
		require.NoError(b, err)
		return string(data)
	}
	w, g := text(want), text(got)
	if len(w) > 1<<10 {
		require.True(b, w == g, "number %d has %d bytes, but others than the %d published", want.Seq, len(g), len(w))
		return
	}
	require.Equal(b, w, g)
}
