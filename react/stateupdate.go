package react

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/internal/wire"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/state"
)

// StateUpdateError says that the state update of a tool is wrong. None of it applies.
type StateUpdateError struct {
	Path   string // in the update document, or of the operation on the context; may be empty
	Reason string
}

// Error names the path and shows how to write an update, for whoever writes the tool.
func (e *StateUpdateError) Error() string {
	where := ""
	if e.Path != "" {
		where = brief(e.Path) + ": "
	}
	inner := "/last_city"
	if rest, ok := strings.CutPrefix(e.Path, "/context/"); ok && rest != "-" && rest != "" && len(rest) < 100 {
		inner = "/" + rest
	}
	path, _ := wire.Marshal(inner) // a string always has JSON
	return fmt.Sprintf(`invalid state update: %s%s; the context is changed by {"op":"add","path":"/context/-",`+
		`"value":{"op":"add","path":%s,"value":...}}`, where, brief(e.Reason), path)
}

// The only places of the update document that a tool may touch.
const (
	contextEnd  = "/context/-"
	messagesEnd = "/messages/-"
)

// parseStateUpdate reads [ToolResult.StateUpdate] (contract 4.4): the operations on the context and the messages
// to append. The operations are valid in themselves; whether they fit the context shows when they are applied.
// Messages without an id have a new one, each time. The error is a [*StateUpdateError].
func parseStateUpdate(raw json.RawMessage) (ops state.Patch, messages []message.Message, err error) {
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || string(raw) == "null" {
		return nil, nil, nil
	}
	outer, err := state.ParsePatch(raw)
	if err != nil {
		return nil, nil, updateError("", err)
	}
	for _, op := range outer {
		if op.Op != "add" || op.Path != contextEnd && op.Path != messagesEnd {
			return nil, nil, &StateUpdateError{Path: op.Path, Reason: "a tool may only add, at " + contextEnd + " and " + messagesEnd}
		}
	}
	doc, err := outer.Apply(json.RawMessage(`{"messages":[],"context":[]}`), nil)
	if err != nil {
		return nil, nil, updateError("", err)
	}
	var update struct {
		Messages []json.RawMessage `json:"messages"`
		Context  json.RawMessage   `json:"context"`
	}
	if err := json.Unmarshal(doc, &update); err != nil {
		return nil, nil, updateError("", err)
	}
	if ops, err = state.ParsePatch(update.Context); err != nil {
		return nil, nil, updateError(contextEnd, err)
	}
	for _, data := range update.Messages {
		m, err := parseToolMessage(data)
		if err != nil {
			return nil, nil, &StateUpdateError{Path: messagesEnd, Reason: strings.TrimPrefix(err.Error(), "message: ")}
		}
		messages = append(messages, m)
	}
	if len(ops) == 0 {
		ops = nil
	}
	return ops, messages, nil
}

// updateError translates an error about a patch; place is where the patch stands in the update document.
func updateError(place string, err error) error {
	e, ok := errors.AsType[*state.Error](err)
	if !ok {
		return &StateUpdateError{Path: place, Reason: strings.TrimPrefix(err.Error(), "state: ")}
	}
	if place != "" {
		return &StateUpdateError{Path: place, Reason: fmt.Sprintf("operation %d on the context (%s %s): %s", e.Index, brief(e.Op), brief(e.Path), e.Reason)}
	}
	return &StateUpdateError{Path: e.Path, Reason: fmt.Sprintf("operation %d (%s): %s", e.Index, brief(e.Op), e.Reason)}
}

// parseToolMessage reads a message that a tool appends (R32). Where and when it is stored is not for the tool to
// say.
func parseToolMessage(data json.RawMessage) (message.Message, error) {
	m, err := message.Unmarshal(data)
	if err != nil {
		return nil, err
	}
	if r := m.Role(); r != message.RoleUser && r != message.RoleSystem {
		return nil, fmt.Errorf("a tool may append messages of role user and system, not %s", r)
	}
	h := m.Head()
	*h = message.Header{ID: h.ID, Name: h.Name, Metadata: h.Metadata}
	if h.ID == uuid.Nil {
		h.ID = uuid.New()
	}
	return m, nil
}
