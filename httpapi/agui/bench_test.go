package agui

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/message"
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
			bytes := 0
			for b.Loop() {
				bytes = say(tr, f, event.Event{Data: e})
			}
			b.SetBytes(int64(bytes))
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
