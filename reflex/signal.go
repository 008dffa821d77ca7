package reflex

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Signal is what a kick carries: a [MessageSignal], [BatchSignal], [NativeSignal], [ThreadSignal]
// or [CommandSignal].
type Signal interface {
	kind() string
}

// MessageSignal is what people said in a chat. The channel has stored it before, see
// [Engine.Receive].
type MessageSignal struct {
	Address  Address   `json:"address"`
	Messages []Inbound `json:"messages"`
	// Trigger is the row that the kick is for. If it has been part of a prompt, there is no pass: a
	// delivery that comes again is not answered again.
	Trigger RowID `json:"trigger,omitzero"`
}

// Inbound is one message of a person.
type Inbound struct {
	User     string    `json:"user"` // the person's id on the channel
	Segments []Segment `json:"segments"`
	// Delivery is the platform's id of the message, which is stored once.
	Delivery string `json:"delivery,omitempty"`
	// At is when it was said. Default: now.
	At time.Time `json:"at,omitzero"`
}

// BatchSignal brings answers to a batch. One without answers goes on with a batch that is
// answered already.
type BatchSignal struct{ BatchAnswer }

// NativeSignal is what a session in an agent's own client asked for: one of both decisions.
type NativeSignal struct {
	Source   Address                 `json:"source"` // on the NativeChannel
	Agent    string                  `json:"agent"`
	Profile  *Profile                `json:"profile,omitempty"`
	Scheme   *PrivateHandoffDecision `json:"scheme,omitempty"`
	Teleport *RelocateRequest        `json:"teleport,omitempty"`
}

// ThreadSignal is what a person asked for in a console: one of both decisions about a thread.
type ThreadSignal struct {
	Thread   string           `json:"thread"`
	Agent    string           `json:"agent"` // that is expected to own it
	Profile  Profile          `json:"profile"`
	Summon   *HandoffDecision `json:"summon,omitempty"`
	Teleport *RelocateRequest `json:"teleport,omitempty"`
}

// CommandSignal is an explicit command on a conversation.
type CommandSignal struct {
	Conversation string  `json:"conversation"`
	Agent        string  `json:"agent"`
	Profile      Profile `json:"profile"`
	Address      Address `json:"address"`
	// What the conversation was like when the command was given: if it has changed, the command is
	// stale. Zero members are not compared, except for the mode.
	Session  uuid.UUID      `json:"session,omitzero"`
	Dir      string         `json:"dir,omitempty"`
	Model    string         `json:"model,omitempty"`
	Mode     PermissionMode `json:"mode,omitempty"`
	Command  Command        `json:"command"`
	Delivery string         `json:"delivery"`
}

func (MessageSignal) kind() string { return "message" }
func (BatchSignal) kind() string   { return "batch" }
func (NativeSignal) kind() string  { return "native" }
func (ThreadSignal) kind() string  { return "thread" }
func (CommandSignal) kind() string { return "command" }

// Envelope is a signal as it is kept until the pass has taken it up.
type Envelope struct {
	Kind string          `json:"kind"`
	Body json.RawMessage `json:"body"`
}

func seal(s Signal) (*Envelope, error) {
	body, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidSignal, err)
	}
	return &Envelope{Kind: s.kind(), Body: body}, nil
}

func (e *Envelope) open() (Signal, error) {
	switch e.Kind {
	case "message":
		return unseal[MessageSignal](e)
	case "batch":
		return unseal[BatchSignal](e)
	case "native":
		return unseal[NativeSignal](e)
	case "thread":
		return unseal[ThreadSignal](e)
	case "command":
		return unseal[CommandSignal](e)
	}
	return nil, fmt.Errorf("%w: kind %q", ErrInvalidSignal, e.Kind)
}

func unseal[S Signal](e *Envelope) (Signal, error) {
	var s S
	if err := json.Unmarshal(e.Body, &s); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidSignal, err)
	}
	return s, nil
}

// Decision says which agent runs next, and with what.
type Decision struct {
	Agent  string `json:"agent"`
	Model  string `json:"model,omitempty"`
	Effort string `json:"effort,omitempty"`
	Brief  string `json:"brief,omitempty"` // the prompt, instead of what was said
	Hint   string `json:"hint,omitempty"`
}

// HandoffDecision hands the conversation, in place, to another agent: a summon.
type HandoffDecision struct {
	Agent  string `json:"agent"`
	Model  string `json:"model,omitempty"`
	Effort string `json:"effort,omitempty"`
	Brief  string `json:"brief"`
	// Destination is where the receiver is to run, which must be here. Nil: here.
	Destination *Address `json:"destination,omitempty"`
}

// PrivateHandoffDecision takes the work into the asker's direct messages: a scheme.
type PrivateHandoffDecision struct {
	Channel string `json:"channel,omitempty"` // empty: the one where the turn is
	Brief   string `json:"brief"`             // for the receiver alone
	Hint    string `json:"hint"`              // written to be read by the person
}

// RelocateRequest carries the same agent to another thread: a teleport.
type RelocateRequest struct {
	Channel string `json:"channel,omitempty"` // empty: the one where the turn is
	Chat    string `json:"chat,omitempty"`    // the chat to open a thread in; empty: the channel decides
	Hint    string `json:"hint"`
	// InPlace stays in the thread and only goes to a project.
	InPlace bool   `json:"in_place,omitempty"`
	Project string `json:"project,omitempty"`
	Ref     string `json:"ref,omitempty"`
	// Resume goes on at the destination.
	Resume bool `json:"resume,omitempty"`
	// Prompt is what the person of a console says there.
	Prompt []Segment `json:"prompt,omitempty"`
	// Call is the tool call that asks, which is answered at the destination; empty for a person's request.
	Call string `json:"call,omitempty"`
}
