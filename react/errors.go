package react

import (
	"fmt"
	"strings"
)

// The codes of a tool_call_error event (contract R35).
const (
	CodeNotFound           = "not_found"
	CodeDenied             = "denied"
	CodeInvalidArguments   = "invalid_arguments"
	CodeExecution          = "execution"
	CodePanic              = "panic"
	CodeTimeout            = "timeout"
	CodeInvalidStateUpdate = "invalid_state_update"
	CodeCancelled          = "cancelled"
	CodeNotAnswered        = "not_answered"
	CodeOutcomeUnknown     = "outcome_unknown"
	CodeRejected           = "rejected"
)

// The codes of a failed run that the agent gives besides those of package graph.
const (
	CodeModelError   = "model_error"
	CodeModelTimeout = "model_timeout"
	CodeAborted      = "aborted"
)

// InputError says what is wrong with an [Input]: all of it.
type InputError struct{ Fields []FieldError }

// FieldError is what is wrong with one field of an input.
type FieldError struct {
	// Field is a path such as messages[0].id.
	Field string
	// Code is one of range, length, unique, pattern, unknown, conflict (contract R22).
	Code    string
	Message string
	// Params are the bounds that were passed, if Code has some.
	Params map[string]any
}

func (e *InputError) Error() string {
	texts := make([]string, len(e.Fields))
	for i, f := range e.Fields {
		texts[i] = fmt.Sprintf("%s: %s", f.Field, f.Message)
	}
	return "react: invalid input: " + strings.Join(texts, "; ")
}
