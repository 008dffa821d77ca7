package message

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/internal/wire"
)

// Role says who speaks in a message. It is data: it is stored and sent.
type Role string

// The roles; every message type has exactly one.
const (
	RoleSystem    Role = "system"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
	RoleReasoning Role = "reasoning"
)

// Message is one message of a conversation: a [*System], [*User], [*Assistant], [*Tool] or [*Reasoning]. The set
// is closed, so a type switch over these five is complete.
//
// A message that has become part of a state is immutable: it is shared with everyone who looks at that state.
type Message interface {
	// Role returns the role that belongs to the type.
	Role() Role
	// Head returns the fields that all messages have, for reading and, before the message is shared, for
	// filling in.
	Head() *Header

	encode(*object) // seals the interface and prints the fields of the role
}

// Header holds the fields that all messages have. It is embedded in each of them.
type Header struct {
	ID           uuid.UUID       // unique within the session; in literals it may be left zero
	SessionID    uuid.UUID       // zero until the message belongs to a session
	RunID        uuid.UUID       // zero, printed as null: not made by a run
	CheckpointID uuid.UUID       // zero, printed as null: posted outside of a run
	CreatedAt    time.Time       // printed in UTC
	Name         string          // of the agent or the tool; empty is printed as null
	Metadata     json.RawMessage // a JSON object; nil is printed as null
}

// Head returns h itself; it makes the header of any [Message] reachable.
func (h *Header) Head() *Header { return h }

// System instructs the model.
type System struct {
	Header
	Content string
}

// NewSystem returns a system message. Like all messages made here it has no ID until a session takes it in,
// unless you give it one.
func NewSystem(text string) *System {
	return &System{Content: text}
}

// Role returns [RoleSystem].
func (*System) Role() Role { return RoleSystem }

// User is what the person, or the calling program, says.
type User struct {
	Header
	Content []Block // in order; may be empty; nil is printed as []
}

// NewUser returns a user message of one text block.
func NewUser(text string) *User { return NewUserBlocks(Text{Value: text}) }

// NewUserBlocks returns a user message of the given blocks.
func NewUserBlocks(blocks ...Block) *User {
	return &User{Content: blocks}
}

// Role returns [RoleUser].
func (*User) Role() Role { return RoleUser }

// Text returns the message's text blocks, one a line. Other blocks are left out.
func (m *User) Text() string {
	var texts []string
	for _, b := range m.Content {
		if t, ok := b.(Text); ok {
			texts = append(texts, t.Value)
		}
	}
	return strings.Join(texts, "\n")
}

// Assistant is the visible part of a model's reply.
type Assistant struct {
	Header
	Content   string     // empty, printed as null: no text arrived
	ToolCalls []ToolCall // nil is printed as []
}

// ReplyInfo is what the metadata of a message that a model made says about how it was made. What
// is zero is not said.
type ReplyInfo struct {
	// Partial: the reply was cut off.
	Partial bool `json:"partial,omitempty"`
	// FinishReason, if it is more than the end of what the model wanted to say: FinishLength,
	// FinishContentFilter, FinishRefusal.
	FinishReason FinishReason `json:"finish_reason,omitempty"`
	// Provider whose signature a reasoning message has: nobody else takes it.
	Provider string `json:"provider,omitempty"`
	// Model that answered, as its provider names it; if it does not, the one that was asked.
	Model string `json:"model,omitempty"`
	// Usage of the call, all of it on the assistant message of the reply.
	Usage Usage `json:"usage,omitzero"`
}

// Metadata returns the info as metadata, nil if it says nothing.
func (i ReplyInfo) Metadata() json.RawMessage {
	if i == (ReplyInfo{}) {
		return nil
	}
	text, _ := wire.Marshal(i) // nothing in it can fail
	return text
}

// ReplyInfoOf returns what the metadata of a message says.
func ReplyInfoOf(m Message) (i ReplyInfo) {
	if text := m.Head().Metadata; text != nil && json.Unmarshal(text, &i) != nil {
		return ReplyInfo{} // of somebody else
	}
	return i
}

// NewAssistant returns an assistant message.
func NewAssistant(text string, calls ...ToolCall) *Assistant {
	return &Assistant{Content: text, ToolCalls: calls}
}

// Role returns [RoleAssistant].
func (*Assistant) Role() Role { return RoleAssistant }

// ToolCall is a model's wish to have a tool called.
type ToolCall struct {
	ID        string          `json:"id"` // opaque, given by the model's provider
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"` // any JSON, normally an object; nil means {}
}

// Tool is the result of one tool call.
type Tool struct {
	Header
	ToolCallID      string
	ParentMessageID uuid.UUID // the assistant message that made the call; zero, printed as null: not known
	Content         *string   // nil, printed as null: no output
	Error           string    // empty, printed as null: the call succeeded
}

// NewTool returns the result of a call that succeeded.
func NewTool(callID, content string) *Tool {
	return &Tool{ToolCallID: callID, Content: &content}
}

// NewToolError returns the result of a call that failed without output. The text is its content too, for
// clients that look only there.
func NewToolError(callID, text string) *Tool {
	return &Tool{ToolCallID: callID, Content: &text, Error: text}
}

// Role returns [RoleTool].
func (*Tool) Role() Role { return RoleTool }

// Text returns what a model is told about the result: "Error: " and the error if there is one, else the content.
func (m *Tool) Text() string {
	switch {
	case m.Error != "":
		return "Error: " + m.Error
	case m.Content != nil:
		return *m.Content
	}
	return ""
}

// Reasoning is one block of a model's reasoning. It stands before the assistant message that it led to.
type Reasoning struct {
	Header
	Content   string // empty with a signature: an opaque block, only its provider can read it
	Signature string // what the provider wants back with the block; empty is printed as null
}

// NewReasoning returns a reasoning message.
func NewReasoning(text, signature string) *Reasoning {
	return &Reasoning{Content: text, Signature: signature}
}

// Role returns [RoleReasoning].
func (*Reasoning) Role() Role { return RoleReasoning }

// List is a conversation. Unlike a plain slice of messages it can be decoded, and nil is printed as [].
type List []Message
