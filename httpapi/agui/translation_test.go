package agui

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/httpapi/agui/aguitest"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/state"
)

// benched is a translation in the middle of a run, with a buffer that is reused as that of a stream is.
func benched(ctx context.Context) (*translation, *frames) {
	h := &handler{opts: Options{MaxSnapshot: -1, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}}
	t := newTranslation(ctx, &request{input: &input{thread: "t", run: "r", v1: true}, h: h})
	t.begun = true
	return t, &frames{b: make([]byte, 0, 1<<20)}
}

func say(t *translation, f *frames, e event.Event) int {
	f.b = f.b[:0]
	t.add(f, e)
	return len(f.b)
}

func TestAPieceOfTextCostsNoAllocation(t *testing.T) {
	tr, f := benched(t.Context())
	id := uuid.New()
	start := event.Event{Time: time.Now(), Data: event.TextMessageStart{MessageID: id}}
	piece := event.Event{Time: time.Now(), Data: event.TextMessageContent{MessageID: id, Delta: " word"}}
	say(tr, f, start)
	if n := testing.AllocsPerRun(1000, func() { say(tr, f, piece) }); n > 0 {
		t.Errorf("a piece of text costs %v allocations", n)
	}
}

func TestTimeNeverGoesBack(t *testing.T) {
	tr, f := benched(t.Context())
	at := time.UnixMilli(1000)
	say(tr, f, event.Event{Time: at, Data: event.TextMessageStart{MessageID: uuid.New()}})
	say(tr, f, event.Event{Time: at.Add(-time.Second), Data: event.StateSnapshot{State: json.RawMessage("{}")}}) // of another process
	if !bytes.Contains(f.b, []byte(`"timestamp":1000`)) || bytes.Contains(f.b, []byte(`"timestamp":0`)) {
		t.Errorf("what was said later is said to be earlier: %s", f.b)
	}
}

// heard translates events, and returns what a client hears: it keeps the rules.
func heard(t *testing.T, events ...event.Data) []aguitest.Event {
	t.Helper()
	tr, f := benched(t.Context())
	tr.begun = false
	tr.begin(f)
	for _, d := range events {
		tr.add(f, event.Event{Time: time.Now(), Data: d})
	}
	tr.fail(f, "the end", "")
	require.NoError(t, f.err)
	list, err := aguitest.Read(bytes.NewReader(f.b), aguitest.V1)
	require.NoError(t, err, "%s", f.b)
	return list
}

// What another process says that takes a run over: some of it was said before, some never ended.
func TestATakeoverLeavesNothingOpenAndSaysNothingTwice(t *testing.T) {
	t.Parallel()
	a, b, c := uuid.New(), uuid.New(), uuid.New()
	call := func(parent uuid.UUID) []event.Data {
		return []event.Data{
			event.ToolCallStart{ToolCallID: "c", ToolName: "n", ParentMessageID: parent}, event.ToolCallArgs{ToolCallID: "c", Delta: "{}"}, event.ToolCallEnd{ToolCallID: "c"},
		}
	}
	context := event.StateSnapshot{State: json.RawMessage("{}")}
	events := slices.Concat(
		[]event.Data{context}, call(a),
		[]event.Data{
			event.ReasoningStart{MessageID: b}, event.ReasoningMessageStart{MessageID: b}, event.TextMessageStart{MessageID: c},
			context, event.MessagesSnapshot{}, // it died, and the observer was late
		}, call(a),
		[]event.Data{
			event.ToolCallResult{ToolCallID: "c", MessageID: b}, event.TextMessageContent{MessageID: a, Delta: "x"}, event.TextMessageEnd{MessageID: c},
			event.ReasoningSignature{MessageID: b, Subtype: "tool_call", EntityID: "c", Value: "v"},
		},
	)
	var story []string
	for _, e := range heard(t, events...) {
		if kind := e.Type(); !strings.HasPrefix(kind, "STEP_") {
			story = append(story, kind)
		}
		if e.Type() == "REASONING_ENCRYPTED_VALUE" {
			assert.Equal(t, "tool-call", e.Text("subtype"))
		}
	}
	assert.Equal(t, []string{
		"RUN_STARTED", "STATE_SNAPSHOT", "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END",
		"REASONING_START", "REASONING_MESSAGE_START", "TEXT_MESSAGE_START", "TEXT_MESSAGE_END", "REASONING_MESSAGE_END", "REASONING_END",
		"STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "TOOL_CALL_RESULT", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT",
		"REASONING_ENCRYPTED_VALUE", "TEXT_MESSAGE_END", "RUN_ERROR",
	}, story)
}

// Whatever order events come in, and whichever are missing, what is said keeps the rules.
func FuzzTranslation(f *testing.F) {
	f.Add([]byte("abcdefghijklmnopqrstuvwxyz"))
	f.Add([]byte("\x00\x01\x02\x00\x07\x08\x0b\x00\x40\x80\xff"))
	ids := []uuid.UUID{uuid.New(), uuid.New(), uuid.New()}
	f.Fuzz(func(t *testing.T, script []byte) {
		var events []event.Data
		for _, op := range script {
			id, call := ids[op>>6%3], string("abc"[op>>5%3])
			list := []event.Data{
				event.TextMessageStart{MessageID: id}, event.TextMessageContent{MessageID: id, Delta: "x"}, event.TextMessageEnd{MessageID: id},
				event.ReasoningStart{MessageID: id}, event.ReasoningMessageStart{MessageID: id}, event.ReasoningMessageContent{MessageID: id},
				event.ReasoningMessageEnd{MessageID: id}, event.ReasoningEnd{MessageID: id}, event.ReasoningSignature{MessageID: id, Subtype: "message"},
				event.ToolCallStart{ToolCallID: call, ToolName: "n", ParentMessageID: id}, event.ToolCallArgs{ToolCallID: call}, event.ToolCallEnd{ToolCallID: call},
				event.ToolCallResult{ToolCallID: call, MessageID: id}, event.ToolCallError{ToolCallID: call, MessageID: id},
				event.ActivityDelta{ToolCallID: call, ActivityType: "x", Patch: state.Patch{state.Replace("/a", json.RawMessage("1"))}},
				event.StateSnapshot{State: json.RawMessage("{}")}, event.StateDelta{Delta: state.Patch{state.Remove("/a")}}, event.MessagesSnapshot{},
				event.RunStarted{}, event.RunFinished{Status: "completed"},
			}
			events = append(events, list[int(op)%len(list)])
		}
		heard(t, events...)
	})
}

func BenchmarkTranslation(b *testing.B) {
	id := uuid.New()
	for name, e := range map[string]event.Data{
		"text":      event.TextMessageContent{MessageID: id, Delta: " word"},
		"unicode":   event.TextMessageContent{MessageID: id, Delta: " Grüße"},
		"result":    event.ToolCallResult{ToolCallID: "call_1", MessageID: id, Content: json.RawMessage(`{"city":"Oslo","celsius":7}`)},
		"snapshot":  event.StateSnapshot{State: json.RawMessage(`{"city":"Oslo","celsius":7}`)},
		"messages":  event.MessagesSnapshot{Messages: conversation(1000)},
		"reasoning": event.ReasoningMessageContent{MessageID: id, Delta: " word"},
	} {
		b.Run(name, func(b *testing.B) {
			tr, f := benched(b.Context())
			b.ReportAllocs()
			size := 0
			for b.Loop() {
				size = say(tr, f, event.Event{Data: e})
			}
			b.SetBytes(int64(size))
		})
	}
}

// conversation is one of n messages.
func conversation(n int) (all []message.Message) {
	for i := range n {
		if i%2 == 0 {
			m := message.NewUser("What is the weather like in Oslo today, and what shall I wear?")
			m.ID = uuid.New()
			all = append(all, m)
		} else {
			m := message.NewAssistant("It is seven degrees and it rains: take a coat and an umbrella with you.")
			m.ID = uuid.New()
			all = append(all, m)
		}
	}
	return all
}
