package event

import (
	"encoding/json"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/state"
)

// Data is what an event says. Its types are the ones in this package; a type switch over them by value
// is complete with its 21 cases.
type Data interface {
	// Kind is the name of the type on the wire.
	Kind() Kind
	sealed()
}

// RunStarted is the first event of every run.
type RunStarted struct{}

// RunFinished is the last event of a run that did not fail.
type RunFinished struct {
	Status           string          // completed, interrupted or cancelled
	InterruptPayload json.RawMessage // what the run asks, if interrupted; nil prints null
	Result           json.RawMessage // the context at the end; nil prints null
}

// RunError is the last event of a run that failed.
type RunError struct {
	Error string // for a person
	Code  string // stable, for a program; empty prints null
}

// TextMessageStart begins an assistant message.
type TextMessageStart struct{ MessageID uuid.UUID }

// TextMessageContent is a piece of an assistant message.
type TextMessageContent struct {
	MessageID uuid.UUID
	Delta     string
}

// TextMessageEnd ends an assistant message.
type TextMessageEnd struct{ MessageID uuid.UUID }

// ReasoningStart begins a span of reasoning.
type ReasoningStart struct{ MessageID uuid.UUID }

// ReasoningEnd ends a span of reasoning.
type ReasoningEnd struct{ MessageID uuid.UUID }

// ReasoningMessageStart begins the text of a span of reasoning.
type ReasoningMessageStart struct{ MessageID uuid.UUID }

// ReasoningMessageContent is a piece of the text of a span of reasoning.
type ReasoningMessageContent struct {
	MessageID uuid.UUID
	Delta     string
}

// ReasoningMessageEnd ends the text of a span of reasoning.
type ReasoningMessageEnd struct{ MessageID uuid.UUID }

// ReasoningSignature carries what a provider wants back with the reasoning, or with a tool call.
type ReasoningSignature struct {
	MessageID uuid.UUID
	Subtype   string // message or tool_call
	EntityID  string // what is signed: the id of the message or of the tool call
	Value     string
}

// ToolCallStart announces a tool call.
type ToolCallStart struct {
	ToolCallID      string
	ToolName        string
	ParentMessageID uuid.UUID // the assistant message that makes the call; zero, printed as null: not known
}

// ToolCallArgs is a piece of the arguments of an announced call, as JSON text.
type ToolCallArgs struct {
	ToolCallID string
	Delta      string
}

// ToolCallEnd says that the arguments of a call are complete.
type ToolCallEnd struct{ ToolCallID string }

// ToolCallResult settles a call. It is sent after the result is durable.
type ToolCallResult struct {
	ToolCallID string
	MessageID  uuid.UUID       // the tool message with the result
	Content    json.RawMessage // nil prints null
}

// ToolCallError settles a call that has no result.
type ToolCallError struct {
	ToolCallID string
	MessageID  uuid.UUID // the tool message with the error
	Error      string    // for a person
	Code       string    // stable, for a program; empty prints null
}

// ActivityDelta is what a tool says while it runs, as a patch of a document of its own.
type ActivityDelta struct {
	ToolCallID   string
	ActivityType string
	Patch        state.Patch
}

// StateSnapshot is the whole context.
type StateSnapshot struct{ State json.RawMessage }

// StateDelta changes the context that the client has.
type StateDelta struct{ Delta state.Patch }

// MessagesSnapshot is the whole conversation.
type MessagesSnapshot struct{ Messages []message.Message }

func (RunStarted) Kind() Kind              { return KindRunStarted }
func (RunFinished) Kind() Kind             { return KindRunFinished }
func (RunError) Kind() Kind                { return KindRunError }
func (TextMessageStart) Kind() Kind        { return KindTextMessageStart }
func (TextMessageContent) Kind() Kind      { return KindTextMessageContent }
func (TextMessageEnd) Kind() Kind          { return KindTextMessageEnd }
func (ReasoningStart) Kind() Kind          { return KindReasoningStart }
func (ReasoningEnd) Kind() Kind            { return KindReasoningEnd }
func (ReasoningMessageStart) Kind() Kind   { return KindReasoningMessageStart }
func (ReasoningMessageContent) Kind() Kind { return KindReasoningMessageContent }
func (ReasoningMessageEnd) Kind() Kind     { return KindReasoningMessageEnd }
func (ReasoningSignature) Kind() Kind      { return KindReasoningSignature }
func (ToolCallStart) Kind() Kind           { return KindToolCallStart }
func (ToolCallArgs) Kind() Kind            { return KindToolCallArgs }
func (ToolCallEnd) Kind() Kind             { return KindToolCallEnd }
func (ToolCallResult) Kind() Kind          { return KindToolCallResult }
func (ToolCallError) Kind() Kind           { return KindToolCallError }
func (ActivityDelta) Kind() Kind           { return KindActivityDelta }
func (StateSnapshot) Kind() Kind           { return KindStateSnapshot }
func (StateDelta) Kind() Kind              { return KindStateDelta }
func (MessagesSnapshot) Kind() Kind        { return KindMessagesSnapshot }

func (RunStarted) sealed()              {}
func (RunFinished) sealed()             {}
func (RunError) sealed()                {}
func (TextMessageStart) sealed()        {}
func (TextMessageContent) sealed()      {}
func (TextMessageEnd) sealed()          {}
func (ReasoningStart) sealed()          {}
func (ReasoningEnd) sealed()            {}
func (ReasoningMessageStart) sealed()   {}
func (ReasoningMessageContent) sealed() {}
func (ReasoningMessageEnd) sealed()     {}
func (ReasoningSignature) sealed()      {}
func (ToolCallStart) sealed()           {}
func (ToolCallArgs) sealed()            {}
func (ToolCallEnd) sealed()             {}
func (ToolCallResult) sealed()          {}
func (ToolCallError) sealed()           {}
func (ActivityDelta) sealed()           {}
func (StateSnapshot) sealed()           {}
func (StateDelta) sealed()              {}
func (MessagesSnapshot) sealed()        {}

// Terminal reports whether d is the last event of its run.
func Terminal(d Data) bool {
	switch d.(type) {
	case RunFinished, RunError:
		return true
	}
	return false
}

const (
	dataSize      = 64 // the struct and its box, about
	operationSize = 72
	// A snapshot shares its messages with the state of the run: only the references are its own.
	messageSize = 16
)

// Size estimates how many bytes d holds in memory, without encoding it. It is what bounds a log.
func Size(d Data) int {
	n := dataSize
	switch d := d.(type) {
	case RunFinished:
		n += len(d.Status) + len(d.InterruptPayload) + len(d.Result)
	case RunError:
		n += len(d.Error) + len(d.Code)
	case TextMessageContent:
		n += len(d.Delta)
	case ReasoningMessageContent:
		n += len(d.Delta)
	case ReasoningSignature:
		n += len(d.Subtype) + len(d.EntityID) + len(d.Value)
	case ToolCallStart:
		n += len(d.ToolCallID) + len(d.ToolName)
	case ToolCallArgs:
		n += len(d.ToolCallID) + len(d.Delta)
	case ToolCallEnd:
		n += len(d.ToolCallID)
	case ToolCallResult:
		n += len(d.ToolCallID) + len(d.Content)
	case ToolCallError:
		n += len(d.ToolCallID) + len(d.Error) + len(d.Code)
	case ActivityDelta:
		n += len(d.ToolCallID) + len(d.ActivityType) + patchSize(d.Patch)
	case StateSnapshot:
		n += len(d.State)
	case StateDelta:
		n += patchSize(d.Delta)
	case MessagesSnapshot:
		n += messageSize * len(d.Messages)
	}
	return n
}

func patchSize(p state.Patch) int {
	n := 0
	for i := range p {
		n += operationSize + len(p[i].Path) + len(p[i].From) + len(p[i].Value)
	}
	return n
}
