package react

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/internal/wire"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/state"
)

// Update is a change of a [State] (contract 4.2). What it leaves out stays as it is.
type Update struct {
	// Messages are appended. One whose id the state has already is skipped.
	Messages message.List `json:"messages"`
	// Context are operations on the context.
	Context state.Patch `json:"context"`

	Model              Optional[*ModelConfig]        `json:"model,omitzero"`
	CapabilityOverride Optional[*CapabilityOverride] `json:"capability_override,omitzero"`
	ContextVars        Optional[[]ContextVar]        `json:"context_vars,omitzero"`
	Tools              Optional[[]message.ToolSpec]  `json:"tools,omitzero"`
}

// MarshalJSON prints empty lists as [], so that nothing but what is left out is missing.
func (u Update) MarshalJSON() ([]byte, error) {
	type plain Update
	if v, given := u.ContextVars.Get(); given && v == nil {
		u.ContextVars = Set([]ContextVar{})
	}
	if v, given := u.Tools.Get(); given && v == nil {
		u.Tools = Set([]message.ToolSpec{})
	}
	return wire.Marshal(plain(u))
}

// Merge returns the update that does u and then v.
func (u Update) Merge(v Update) Update {
	u.Messages = slices.Concat(u.Messages, v.Messages)
	u.Context = slices.Concat(u.Context, v.Context)
	if !v.Model.IsZero() {
		u.Model = v.Model
	}
	if !v.CapabilityOverride.IsZero() {
		u.CapabilityOverride = v.CapabilityOverride
	}
	if !v.ContextVars.IsZero() {
		u.ContextVars = v.ContextVars
	}
	if !v.Tools.IsZero() {
		u.Tools = v.Tools
	}
	return u
}

// Apply returns the state that the update makes of s, all of it or, with an error, nothing.
func (s State) Apply(u Update) (State, error) {
	var fresh []message.Message
	for _, m := range u.Messages {
		id := m.Head().ID
		same := func(o message.Message) bool { return o.Head().ID == id }
		if id != uuid.Nil && (slices.ContainsFunc(fresh, same) || slices.ContainsFunc(s.Messages, same)) {
			continue
		}
		m = clone(m)
		if id == uuid.Nil {
			m.Head().ID = uuid.New()
		}
		if t, ok := m.(*message.Tool); ok && t.ParentMessageID == uuid.Nil {
			t.ParentMessageID = caller(t.ToolCallID, fresh, s.Messages)
		}
		fresh = append(fresh, m)
	}
	s = s.append(fresh...)
	s, err := s.applyContext(u.Context)
	if err != nil {
		return State{}, err
	}
	s.Model = u.Model.or(s.Model)
	s.CapabilityOverride = u.CapabilityOverride.or(s.CapabilityOverride)
	s.ContextVars = u.ContextVars.or(s.ContextVars)
	s.Tools = u.Tools.or(s.Tools)
	return s.logged(u)
}

// maxContext is the size a context may grow to.
const maxContext = 4 << 20

// errNotObject: the context is shared as an object and has to stay one.
var errNotObject = errors.New("react: the context must stay a JSON object")

// applyContext returns the state with operations applied to its context.
func (s State) applyContext(ops state.Patch) (State, error) {
	if len(ops) == 0 {
		return s, nil
	}
	changed, err := ops.Apply(s.Context, &state.Limits{Bytes: maxContext})
	if err != nil {
		return State{}, fmt.Errorf("react: context: %w", err)
	}
	if len(changed) == 0 || changed[0] != '{' {
		return State{}, errNotObject
	}
	s.Context = changed
	s.changes = s.changes.with(ops.Under("/context")...)
	return s, nil
}

// logged notes what the update replaced as operations on the document.
func (s State) logged(u Update) (State, error) {
	var ops state.Patch
	note := func(path string, given bool, value any) error {
		if !given {
			return nil
		}
		text, err := wire.Marshal(value)
		if err == nil {
			ops = append(ops, state.Add(path, text))
		}
		return err
	}
	err := errors.Join(
		note("/model", !u.Model.IsZero(), s.Model),
		note("/capability_override", !u.CapabilityOverride.IsZero(), s.CapabilityOverride),
		note("/context_vars", !u.ContextVars.IsZero(), s.ContextVars),
		note("/tools", !u.Tools.IsZero(), s.Tools),
	)
	if err != nil {
		return State{}, err
	}
	if len(ops) > 0 {
		s.changes = s.changes.with(ops...)
	}
	return s, nil
}

// clone returns a copy of a message that may be stamped.
func clone(m message.Message) message.Message {
	switch m := m.(type) {
	case *message.System:
		c := *m
		return &c
	case *message.User:
		c := *m
		return &c
	case *message.Assistant:
		c := *m
		return &c
	case *message.Tool:
		c := *m
		return &c
	case *message.Reasoning:
		c := *m
		return &c
	}
	return m
}

var emptyObject = json.RawMessage("{}")
