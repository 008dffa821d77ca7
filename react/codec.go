package react

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/internal/wire"
	"github.com/everstep-go/everstep/message"
)

// codec keeps a [State]: the messages one by one, and the rest as one document, which changes
// by the operations that the state has logged.
type codec struct{ agent *Agent }

var _ checkpoint.Codec[State] = codec{}

// document is the part of a state that is not messages.
type document struct {
	Model              *ModelConfig        `json:"model,omitempty"`
	CapabilityOverride *CapabilityOverride `json:"capability_override,omitempty"`
	ContextVars        []ContextVar        `json:"context_vars,omitempty"`
	Tools              []message.ToolSpec  `json:"tools,omitempty"`
	Context            json.RawMessage     `json:"context,omitempty"`
	// Input is the update of an input that waits for its run. Its messages are kept as such.
	Input *Update `json:"input,omitempty"`
}

func (codec) Version() int { return 1 }

func (codec) Encode(_ json.RawMessage, before, after State) (checkpoint.Change, error) {
	if u := after.input; u != nil {
		rest := *u
		rest.Messages = nil
		text, err := wire.Marshal(document{Input: &rest})
		return checkpoint.Change{Document: func() (json.RawMessage, error) { return text, err }, Messages: u.Messages}, err
	}
	change := checkpoint.Change{Messages: after.Messages[len(before.Messages):]}
	patch, ok := after.changes.since(before.changes.revision())
	if ok && len(patch) == 0 {
		return change, nil
	}
	if ok {
		change.Patch = patch
	}
	change.Document = func() (json.RawMessage, error) {
		return wire.Marshal(document{
			Model: after.Model, CapabilityOverride: after.CapabilityOverride,
			ContextVars: after.ContextVars, Tools: after.Tools, Context: after.Context,
		})
	}
	return change, nil
}

func (codec) Decode(version int, text json.RawMessage, messages []message.Message) (State, error) {
	if version > (codec{}).Version() {
		return State{}, fmt.Errorf("react: state of version %d was written by a newer program; this one reads up to %d", version, (codec{}).Version())
	}
	d := document{}
	if text != nil {
		if err := json.Unmarshal(text, &d); err != nil {
			return State{}, fmt.Errorf("react: stored state: %w", err)
		}
	}
	if d.Input != nil {
		d.Input.Messages = messages
		return State{input: d.Input}, nil
	}
	s := State{
		Messages: messages, Context: d.Context, Model: d.Model, CapabilityOverride: d.CapabilityOverride,
		ContextVars: d.ContextVars, Tools: d.Tools,
	}
	if len(s.Context) == 0 {
		s.Context = emptyObject
	}
	return s, nil
}

// Merge makes the state that a run starts with. A new user message abandons the questions of
// the run before: their calls get results that say so, where results belong (contract R16).
func (c codec) Merge(from *checkpoint.Checkpoint, current, input State) (State, error) {
	s := current
	s.begun, s.made = false, nil
	s.changes = s.changes.compact()
	if len(s.Context) == 0 {
		s.Context = emptyObject
	}
	u := input.input
	if u == nil {
		return s, nil
	}
	if from != nil && from.Reason == checkpoint.Interrupt && hasRole(u.Messages, message.RoleUser) {
		s = c.abandon(s, u.Messages)
	}
	return s.Apply(*u)
}

// abandon settles the calls that wait for an answer and get none.
func (c codec) abandon(s State, input []message.Message) State {
	open, caller := s.pending()
	for _, call := range open {
		if s.isClientTool(call.Name) && !c.agent.hasTool(call.Name) {
			continue // the client may still bring its result
		}
		settled := slices.ContainsFunc(input, func(m message.Message) bool {
			t, ok := m.(*message.Tool)
			return ok && t.ToolCallID == call.ID
		})
		if settled {
			continue
		}
		result := failedResult(call, caller, "not answered")
		s = s.append(result)
		s.made = append(s.made, made{call: call, result: result, code: CodeNotAnswered})
	}
	return s
}

func hasRole(messages []message.Message, role message.Role) bool {
	return slices.ContainsFunc(messages, func(m message.Message) bool { return m.Role() == role })
}

// Result is the context: all that clients see of a state.
func (codec) Result(s State) (json.RawMessage, error) { return s.Context, nil }
