package event

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/internal/wire"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/state"
)

// encoder appends the members of one object. Written by hand because the objects are flat while the
// types are not, and because every piece of every answer goes through here.
type encoder struct {
	b    []byte
	more bool // there is a member already
	err  error
}

func (e *encoder) name(name string) {
	if e.more {
		e.b = append(e.b, ',')
	} else {
		e.b, e.more = append(e.b, '{'), true
	}
	e.b = append(append(append(e.b, '"'), name...), `":`...)
}

func (e *encoder) value(name string, v any) {
	e.name(name)
	data, err := wire.Marshal(v)
	if err != nil {
		e.fail(name, err)
	}
	e.b = append(e.b, data...)
}

func (e *encoder) fail(name string, err error) {
	if e.err == nil {
		e.err = fmt.Errorf("event: %s: %w", name, err)
	}
}

func (e *encoder) text(name, s string) {
	e.name(name)
	e.b = wire.AppendText(e.b, s)
}

// code is null when empty.
func (e *encoder) code(s string) {
	if s == "" {
		e.raw("code", nil)
	} else {
		e.text("code", s)
	}
}

func (e *encoder) id(name string, id uuid.UUID) {
	e.name(name)
	e.b = append(wire.AppendUUID(append(e.b, '"'), id), '"')
}

func (e *encoder) raw(name string, data json.RawMessage) {
	e.name(name)
	if len(data) == 0 {
		e.b = append(e.b, "null"...)
		return
	}
	// One line, whatever the document looks like: an event is one data line of a stream.
	w := bytes.NewBuffer(e.b)
	if err := json.Compact(w, data); err != nil {
		e.fail(name, err)
		return
	}
	e.b = w.Bytes()
}

// MarshalJSON prints the event as one flat object on one line.
func (e Event) MarshalJSON() ([]byte, error) { return e.AppendJSON(make([]byte, 0, 192)) }

// AppendJSON appends what MarshalJSON prints to b and returns it. With an error it returns b as
// it was.
func (e Event) AppendJSON(b []byte) ([]byte, error) {
	if e.Data == nil {
		return b, errors.New("event: no data")
	}
	enc := encoder{b: b}
	enc.text("kind", string(e.Data.Kind()))
	enc.name("timestamp")
	var err error
	if enc.b, err = appendTime(enc.b, e.Time); err != nil {
		return b, err
	}
	switch d := e.Data.(type) {
	case RunStarted:
		enc.id("session_id", e.Session)
		enc.id("run_id", e.Run)
	case RunFinished:
		enc.id("session_id", e.Session)
		enc.id("run_id", e.Run)
		enc.text("status", d.Status)
		enc.raw("interrupt_payload", d.InterruptPayload)
		enc.raw("result", d.Result)
	case RunError:
		enc.id("session_id", e.Session)
		enc.id("run_id", e.Run)
		enc.text("error", d.Error)
		enc.code(d.Code)
	case TextMessageStart:
		enc.id("message_id", d.MessageID)
	case TextMessageContent:
		enc.id("message_id", d.MessageID)
		enc.text("delta", d.Delta)
	case TextMessageEnd:
		enc.id("message_id", d.MessageID)
	case ReasoningStart:
		enc.id("message_id", d.MessageID)
	case ReasoningEnd:
		enc.id("message_id", d.MessageID)
	case ReasoningMessageStart:
		enc.id("message_id", d.MessageID)
	case ReasoningMessageContent:
		enc.id("message_id", d.MessageID)
		enc.text("delta", d.Delta)
	case ReasoningMessageEnd:
		enc.id("message_id", d.MessageID)
	case ReasoningSignature:
		enc.id("message_id", d.MessageID)
		enc.text("subtype", d.Subtype)
		enc.text("entity_id", d.EntityID)
		enc.text("value", d.Value)
	case ToolCallStart:
		enc.text("tool_call_id", d.ToolCallID)
		enc.text("tool_name", d.ToolName)
		if d.ParentMessageID == uuid.Nil {
			enc.raw("parent_message_id", nil)
		} else {
			enc.id("parent_message_id", d.ParentMessageID)
		}
	case ToolCallArgs:
		enc.text("tool_call_id", d.ToolCallID)
		enc.text("delta", d.Delta)
	case ToolCallEnd:
		enc.text("tool_call_id", d.ToolCallID)
	case ToolCallResult:
		enc.text("tool_call_id", d.ToolCallID)
		enc.id("message_id", d.MessageID)
		enc.raw("content", d.Content)
	case ToolCallError:
		enc.text("tool_call_id", d.ToolCallID)
		enc.id("message_id", d.MessageID)
		enc.text("error", d.Error)
		enc.code(d.Code)
	case ActivityDelta:
		enc.text("tool_call_id", d.ToolCallID)
		enc.text("activity_type", d.ActivityType)
		enc.value("patch", d.Patch)
	case StateSnapshot:
		enc.raw("state", d.State)
	case StateDelta:
		enc.value("delta", d.Delta)
	case MessagesSnapshot:
		enc.value("messages", message.List(d.Messages))
	default:
		// A pointer to one of the types has its methods, too.
		return b, fmt.Errorf("event: data is a value of this package's types, not %T", e.Data)
	}
	if enc.err != nil {
		return b, enc.err
	}
	return append(enc.b, '}'), nil
}

// flat has the fields of all kinds. Delta is text or a patch, by kind.
type flat struct {
	Kind             Kind            `json:"kind"`
	Timestamp        json.Number     `json:"timestamp"`
	SessionID        uuid.UUID       `json:"session_id"`
	RunID            uuid.UUID       `json:"run_id"`
	Status           string          `json:"status"`
	InterruptPayload json.RawMessage `json:"interrupt_payload"`
	Result           json.RawMessage `json:"result"`
	Error            string          `json:"error"`
	Code             string          `json:"code"`
	MessageID        uuid.UUID       `json:"message_id"`
	Delta            json.RawMessage `json:"delta"`
	Subtype          string          `json:"subtype"`
	EntityID         string          `json:"entity_id"`
	Value            string          `json:"value"`
	ToolCallID       string          `json:"tool_call_id"`
	ToolName         string          `json:"tool_name"`
	ParentMessageID  uuid.UUID       `json:"parent_message_id"`
	Content          json.RawMessage `json:"content"`
	ActivityType     string          `json:"activity_type"`
	Patch            state.Patch     `json:"patch"`
	State            json.RawMessage `json:"state"`
	Messages         message.List    `json:"messages"`
}

// Unmarshal reads what json.Marshal printed. Fields that the kind does not have are ignored; a kind
// that this package does not have is an error. Seq and Tenant do not travel, Session and Run only with
// three kinds: set them from what came beside the event.
func Unmarshal(data []byte) (Event, error) {
	var f flat
	if err := json.Unmarshal(data, &f); err != nil {
		return Event{}, fmt.Errorf("event: %w", err)
	}
	d, err := f.data()
	if err != nil {
		return Event{}, err
	}
	at, err := parseTime(string(f.Timestamp))
	if err != nil {
		return Event{}, err
	}
	e := Event{Time: at, Data: d}
	switch d.(type) {
	case RunStarted, RunFinished, RunError:
		e.Session, e.Run = f.SessionID, f.RunID
	}
	return e, nil
}

// UnmarshalJSON is [Unmarshal] for encoding/json.
func (e *Event) UnmarshalJSON(data []byte) error {
	got, err := Unmarshal(data)
	if err != nil {
		return err
	}
	*e = got
	return nil
}

func (f *flat) data() (Data, error) {
	var err error
	text := func() (s string) {
		if len(f.Delta) > 0 {
			err = json.Unmarshal(f.Delta, &s)
		}
		return s
	}
	var d Data
	switch f.Kind {
	case KindRunStarted:
		d = RunStarted{}
	case KindRunFinished:
		d = RunFinished{f.Status, orNil(f.InterruptPayload), orNil(f.Result)}
	case KindRunError:
		d = RunError{f.Error, f.Code}
	case KindTextMessageStart:
		d = TextMessageStart{f.MessageID}
	case KindTextMessageContent:
		d = TextMessageContent{f.MessageID, text()}
	case KindTextMessageEnd:
		d = TextMessageEnd{f.MessageID}
	case KindReasoningStart:
		d = ReasoningStart{f.MessageID}
	case KindReasoningEnd:
		d = ReasoningEnd{f.MessageID}
	case KindReasoningMessageStart:
		d = ReasoningMessageStart{f.MessageID}
	case KindReasoningMessageContent:
		d = ReasoningMessageContent{f.MessageID, text()}
	case KindReasoningMessageEnd:
		d = ReasoningMessageEnd{f.MessageID}
	case KindReasoningSignature:
		d = ReasoningSignature{f.MessageID, f.Subtype, f.EntityID, f.Value}
	case KindToolCallStart:
		d = ToolCallStart{f.ToolCallID, f.ToolName, f.ParentMessageID}
	case KindToolCallArgs:
		d = ToolCallArgs{f.ToolCallID, text()}
	case KindToolCallEnd:
		d = ToolCallEnd{f.ToolCallID}
	case KindToolCallResult:
		d = ToolCallResult{f.ToolCallID, f.MessageID, orNil(f.Content)}
	case KindToolCallError:
		d = ToolCallError{f.ToolCallID, f.MessageID, f.Error, f.Code}
	case KindActivityDelta:
		d = ActivityDelta{f.ToolCallID, f.ActivityType, f.Patch}
	case KindStateSnapshot:
		d = StateSnapshot{orNil(f.State)}
	case KindStateDelta:
		var p state.Patch
		if len(f.Delta) > 0 {
			err = json.Unmarshal(f.Delta, &p)
		}
		d = StateDelta{p}
	case KindMessagesSnapshot:
		d = MessagesSnapshot{f.Messages}
	default:
		return nil, fmt.Errorf("event: unknown kind %q", f.Kind)
	}
	if err != nil {
		return nil, fmt.Errorf("event: delta of %s: %w", f.Kind, err)
	}
	return d, nil
}

// orNil is nil for null, so that what is read equals what was printed.
func orNil(data json.RawMessage) json.RawMessage {
	if string(data) == "null" {
		return nil
	}
	return data
}

// appendTime prints seconds since the epoch, exactly, to the microsecond: a float64 would do for a
// century or two, but its shortest form need not have the digits that were meant.
func appendTime(b []byte, t time.Time) ([]byte, error) {
	if y := t.UTC().Year(); y < 1 || y > 9999 { // past which UnixMicro is not defined, in the end
		return nil, fmt.Errorf("event: time of the year %d", y)
	}
	micros := t.UnixMicro()
	if micros < 0 {
		b = append(b, '-')
		micros = -micros
	}
	b = strconv.AppendInt(b, micros/1e6, 10)
	if fraction := micros % 1e6; fraction != 0 {
		b = append(b, '.')
		for digit := int64(1e5); fraction > 0; digit /= 10 {
			b = append(b, '0'+byte(fraction/digit))
			fraction %= digit
		}
	}
	return b, nil
}

// The first and last microsecond that appendTime prints.
var (
	minMicros = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	maxMicros = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro() - 1
)

func parseTime(s string) (time.Time, error) {
	whole, fraction, _ := strings.Cut(s, ".")
	micros, err := strconv.ParseInt(whole+(fraction + "000000")[:6], 10, 64)
	if strings.ContainsAny(s, "eE") {
		var seconds float64
		if seconds, err = strconv.ParseFloat(s, 64); err == nil {
			micros = int64(min(max(seconds, -1e12), 1e12) * 1e6)
		}
	}
	if s == "" || err != nil || micros < minMicros || micros > maxMicros {
		return time.Time{}, fmt.Errorf("event: timestamp %q is not seconds since the epoch", s)
	}
	return time.UnixMicro(micros).UTC(), nil
}
