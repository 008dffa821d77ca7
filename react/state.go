package react

import (
	"encoding/json"
	"slices"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/state"
)

// State is the state of a session: what the agent needs between steps, and what tools may read
// (contract 4.1). Of it clients only ever see Context.
//
// Treat it as immutable: its slices and messages are shared with the run.
type State struct {
	// Messages is the conversation of this line of the session.
	Messages []message.Message
	// Context is a JSON object, shared by tools, prompt and client.
	Context json.RawMessage
	// Model is the client's choice of model, nil for the agent's.
	Model *ModelConfig
	// CapabilityOverride is the client's change to the agent's capabilities, nil for none.
	CapabilityOverride *CapabilityOverride
	// ContextVars are texts for the prompt, given by the client.
	ContextVars []ContextVar
	// Tools are those that only the client can execute.
	Tools []message.ToolSpec

	history *history            // the array behind Messages
	calls   map[string]struct{} // ids of all tool calls, nil if not known; may hold more than there are
	changes changes             // of the document: all but the messages
	fit     int                 // so many messages are known to be well formed (message.WellFormed)
	begun   bool                // the run has said what it starts with
	made    []made              // results that were made up when the run began, to be said
	input   *Update             // this is an input, not a state
}

// made is a made-up result of a tool call.
type made struct {
	call   message.ToolCall
	result *message.Tool
	code   string
}

// changes is a log of operations on the document of a state. States that follow each other
// share it, so the difference between two of them is a piece of it.
type changes struct {
	base int // how many operations came before the log
	log  state.Patch
}

func (c changes) revision() int { return c.base + len(c.log) }

// since returns the operations after a revision; ok is false if the log does not go back there.
func (c changes) since(revision int) (p state.Patch, ok bool) {
	if revision < c.base || revision > c.revision() {
		return nil, false
	}
	return c.log[revision-c.base:], true
}

// with returns the log and further operations. It never writes into a log that another state
// may have.
func (c changes) with(ops ...state.Operation) changes {
	c.log = append(slices.Clip(c.log), ops...)
	return c
}

// compact returns a log that starts here.
func (c changes) compact() changes { return changes{base: c.revision()} }

// history is an array of messages with room at its end. States that follow each other share
// it, so that appending does not copy the conversation; whoever comes second to append at the
// same place gets an array of his own. Outside only full slices of it are seen.
type history struct {
	used  atomic.Int64
	items []message.Message
}

// append returns the state with further messages.
func (s State) append(more ...message.Message) State {
	n := len(s.Messages)
	h := s.history
	mine := h != nil && n > 0 && &h.items[0] == &s.Messages[0] && n+len(more) <= len(h.items)
	if !mine || !h.used.CompareAndSwap(int64(n), int64(n+len(more))) {
		h = &history{items: make([]message.Message, n+n/2+len(more)+16)}
		h.used.Store(int64(n + len(more)))
		copy(h.items, s.Messages)
		s.history = h
	}
	copy(h.items[n:], more)
	s.Messages = h.items[: n+len(more) : n+len(more)]
	return s
}

// claims reports whether the id of a tool call is new in the conversation, and notes it. In a
// short conversation it is looked for: there the ids are not noted.
func (s *State) claims(callID string) bool {
	if s.calls == nil && len(s.Messages) < 32 {
		return !slices.ContainsFunc(s.Messages, func(m message.Message) bool { return makes(m, callID) })
	}
	if s.calls == nil {
		s.calls = make(map[string]struct{})
		for _, m := range s.Messages {
			if a, ok := m.(*message.Assistant); ok {
				for _, c := range a.ToolCalls {
					s.calls[c.ID] = struct{}{}
				}
			}
		}
	}
	_, taken := s.calls[callID]
	s.calls[callID] = struct{}{}
	return !taken
}

// Reply returns the text of the latest answer in the conversation, empty if there is none.
func (s State) Reply() string {
	for _, m := range slices.Backward(s.Messages) {
		if a, ok := m.(*message.Assistant); ok {
			return a.Content
		}
	}
	return ""
}

// Usage returns the tokens of a run's model calls, [uuid.Nil] for those of the whole conversation:
// of the calls whose replies are in it.
func (s State) Usage(run uuid.UUID) (total message.Usage) {
	for _, m := range s.Messages {
		if m.Role() == message.RoleAssistant && (run == uuid.Nil || m.Head().RunID == run) {
			total = total.Plus(message.ReplyInfoOf(m).Usage)
		}
	}
	return total
}

// last returns the last message of the conversation that is not the system's, nil if there is
// none (contract R32).
func (s *State) last() message.Message {
	for i := len(s.Messages) - 1; i >= 0; i-- {
		if m := s.Messages[i]; m.Role() != message.RoleSystem {
			return m
		}
	}
	return nil
}

// answerable reports whether it is the model's turn.
func (s *State) answerable() bool {
	m := s.last()
	return m != nil && (m.Role() == message.RoleUser || m.Role() == message.RoleTool)
}

// pending returns the calls of the latest assistant message that have no result, in the order
// of the reply, and that message (contract 3.1).
func (s *State) pending() ([]message.ToolCall, *message.Assistant) {
	answered := map[string]bool{}
	for i := len(s.Messages) - 1; i >= 0; i-- {
		switch m := s.Messages[i].(type) {
		case *message.Tool:
			answered[m.ToolCallID] = true
		case *message.Assistant:
			var open []message.ToolCall
			for _, c := range m.ToolCalls {
				if !answered[c.ID] {
					open = append(open, c)
				}
			}
			return open, m
		}
	}
	return nil, nil
}

// caller returns the id of the latest assistant message that made a tool call, in the first of
// the conversations that has one; [uuid.Nil] if none has.
func caller(callID string, conversations ...[]message.Message) uuid.UUID {
	for _, messages := range conversations {
		for _, m := range slices.Backward(messages) {
			if makes(m, callID) {
				return m.Head().ID
			}
		}
	}
	return uuid.Nil
}

// makes reports whether a message makes the tool call of that id.
func makes(m message.Message, callID string) bool {
	a, ok := m.(*message.Assistant)
	return ok && slices.ContainsFunc(a.ToolCalls, func(c message.ToolCall) bool { return c.ID == callID })
}

// isClientTool reports whether only the client can execute the tool of that name.
func (s *State) isClientTool(name string) bool {
	return slices.ContainsFunc(s.Tools, func(t message.ToolSpec) bool { return t.Name == name })
}
