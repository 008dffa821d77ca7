package agui

import (
	"encoding/json"

	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/react"
)

// interrupt is a question as clients see it.
type interrupt struct {
	ID             string          `json:"id"`
	Reason         string          `json:"reason"`
	Message        string          `json:"message,omitempty"`
	ToolCallID     string          `json:"toolCallId,omitempty"`
	ResponseSchema json.RawMessage `json:"responseSchema,omitempty"`
	Metadata       asked           `json:"metadata"`
}

// asked is what was asked, as it stands on /v1.
type asked struct {
	Name    string          `json:"name"`
	Payload json.RawMessage `json:"payload"`
}

// approvalSchema is the form of a [react.Approval].
const approvalSchema = `{"type":"object","properties":{"approved":{"type":"boolean"},"reason":{"type":"string"}},"required":["approved"]}`

// newInterrupt describes a question; call is the tool call that asks it.
func newInterrupt(q graph.Question, call string) interrupt {
	i := interrupt{ID: q.ID, Reason: "input_required", ToolCallID: call, Metadata: asked{q.Name, q.Payload}}
	if q.Payload == nil {
		i.Metadata.Payload = json.RawMessage("null")
	}
	if a, ok := approvalOf(q); ok {
		i.Reason, i.ResponseSchema = "tool_call", json.RawMessage(approvalSchema)
		i.Message = "May " + a.Tool + " be called?"
		return i
	}
	var text string
	var said struct{ Message, Question string }
	switch {
	case json.Unmarshal(q.Payload, &text) == nil:
		i.Message = text
	case json.Unmarshal(q.Payload, &said) == nil && said.Message != "":
		i.Message = said.Message
	default:
		i.Message = said.Question
	}
	return i
}

// approvalOf reports whether a question is whether a tool may be called, and for what.
func approvalOf(q graph.Question) (react.ApprovalRequest, bool) {
	var members map[string]json.RawMessage
	var a react.ApprovalRequest
	ok := json.Unmarshal(q.Payload, &members) == nil && len(members) == 2 && members["arguments"] != nil &&
		json.Unmarshal(q.Payload, &a) == nil && a.Tool == q.Name
	return a, ok
}
