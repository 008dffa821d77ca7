package react

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/everstep-go/everstep/graph"
)

// Approval is the answer to the question whether a tool with [ToolOptions.Approval] may be called. The question
// has the id of the call and an [ApprovalRequest] as its payload. An answer that does not say approved is
// a refusal.
type Approval struct {
	Approved bool   `json:"approved"`
	Reason   string `json:"reason,omitempty"` // told to the model if the call was refused
}

// ApprovalRequest is the payload of the question whether a tool may be called.
type ApprovalRequest struct {
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
}

// RejectedError says that a human refused a call. Its text is the reason, as the model hears it.
type RejectedError struct{ Reason string }

func (e *RejectedError) Error() string {
	if e.Reason == "" {
		return "the call was rejected"
	}
	return e.Reason
}

// approve asks for the approval of a call, in the task of the call. It returns the interrupt until there is an
// answer.
func approve(ctx context.Context, call ToolCall) error {
	ask := ApprovalRequest{Tool: call.Name, Arguments: call.Arguments}
	if data, err := cleanArguments(call.Arguments); err == nil {
		ask.Arguments = data
	}
	answer, err := graph.Interrupt[Approval](ctx, "", ask)
	if _, wrong := errors.AsType[*json.UnmarshalTypeError](err); wrong {
		// The question has been answered and will not be asked again: what is no approval is a refusal.
		return &RejectedError{Reason: `the call was rejected: the answer is not of the form {"approved":true}`}
	}
	if err != nil {
		return err
	}
	if !answer.Approved {
		return &RejectedError{Reason: answer.Reason}
	}
	return nil
}
