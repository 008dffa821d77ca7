package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/internal/body"
	"github.com/everstep-go/everstep/internal/wire"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/store"
)

// The codes of an [Error] (contract 6.2). The HTTP status is the code divided by 1000.
const (
	CodeBadRequest         = 400000 // a path parameter, query string or header that cannot be read
	CodeContentType        = 400001 // the body is not said to be JSON
	CodeInvalidJSON        = 400002 // it is not JSON
	CodeSessionExists      = 400010
	CodeRunExists          = 400011
	CodeMessageExists      = 400012
	CodeForbidden          = 403000 // Options.Tenant said so
	CodeNotFound           = 404000 // no such route
	CodeSessionNotFound    = 404010
	CodeRunNotFound        = 404011
	CodeMessageNotFound    = 404012
	CodeCheckpointNotFound = 404013
	CodeMethodNotAllowed   = 405000
	CodeSessionBusy        = 409010 // the session has an active run
	CodeRunNotActive       = 409013 // the run has ended
	CodeBodyTooLarge       = 413000
	CodeWrongShape         = 422000 // a wrong type, a missing field, an unknown enum value
	CodeInvalid            = 422001 // Error.Fields says what breaks which rule
	CodeUnexpected         = 500000 // the log says more
	CodeUnavailable        = 503000 // shutting down: come back
)

// Error is the body of an answer that is an error. It is also what [Options.Tenant] refuses a
// request with.
type Error struct {
	Code    int
	Message string
	// Fields say what is wrong with which field of the request; with them there is no message.
	Fields []react.FieldError
}

// Status returns the HTTP status.
func (e *Error) Status() int { return e.Code / 1000 }

func (e *Error) Error() string {
	if e.Fields != nil {
		return fmt.Sprintf("httpapi: %d: %v", e.Code, (&react.InputError{Fields: e.Fields}).Error())
	}
	return fmt.Sprintf("httpapi: %d: %s", e.Code, e.Message)
}

// errorBody and what it holds are the two shapes of contract 6.2.
type errorBody struct {
	Code    int         `json:"code"`
	Message *string     `json:"message,omitempty"`
	Fields  []fieldBody `json:"fields,omitempty"`
}

type fieldBody struct {
	Field  string       `json:"field"`
	Errors []fieldFault `json:"errors"`
}

type fieldFault struct {
	Code    string         `json:"code"`
	Message *string        `json:"message"`
	Params  map[string]any `json:"params,omitempty"`
}

// MarshalJSON prints one of the two shapes of contract 6.2.
func (e *Error) MarshalJSON() ([]byte, error) {
	b := errorBody{Code: e.Code}
	if e.Fields == nil {
		b.Message = &e.Message
	}
	place := map[string]int{}
	for _, f := range e.Fields {
		i, ok := place[f.Field]
		if !ok {
			i = len(b.Fields)
			place[f.Field] = i
			b.Fields = append(b.Fields, fieldBody{Field: f.Field})
		}
		b.Fields[i].Errors = append(b.Fields[i].Errors, fieldFault{f.Code, &f.Message, f.Params})
	}
	return wire.Marshal(b)
}

// UnmarshalJSON reads what MarshalJSON printed.
func (e *Error) UnmarshalJSON(data []byte) error {
	var b errorBody
	if err := json.Unmarshal(data, &b); err != nil {
		return err
	}
	*e = Error{Code: b.Code}
	if b.Message != nil {
		e.Message = *b.Message
	}
	for _, f := range b.Fields {
		for _, fault := range f.Errors {
			field := react.FieldError{Field: f.Field, Code: fault.Code, Params: fault.Params}
			if fault.Message != nil {
				field.Message = *fault.Message
			}
			e.Fields = append(e.Fields, field)
		}
	}
	return nil
}

func badRequest(format string, args ...any) *Error {
	return &Error{Code: CodeBadRequest, Message: fmt.Sprintf(format, args...)}
}

func invalid(fields ...react.FieldError) *Error { return &Error{Code: CodeInvalid, Fields: fields} }

// ErrorOf returns what a client is told of an error of an agent: it is the one table from errors to codes,
// also for handlers of other protocols. Of an error that it does not know it tells nothing: the code is then
// [CodeUnexpected], and the error belongs into a log.
func ErrorOf(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if e, ok := errors.AsType[*react.InputError](err); ok {
		return invalid(e.Fields...)
	}
	if e, ok := errors.AsType[*graph.ResumeError](err); ok {
		return invalid(react.FieldError{Field: "resume_payload", Code: "conflict", Message: e.Reason})
	}
	if e, ok := errors.AsType[*store.NotFoundError](err); ok {
		code := map[store.Resource]int{
			store.SessionResource: CodeSessionNotFound, store.RunResource: CodeRunNotFound,
			store.MessageResource: CodeMessageNotFound, store.CheckpointResource: CodeCheckpointNotFound,
		}[e.Resource]
		return &Error{Code: code, Message: fmt.Sprintf("%s %s not found", e.Resource, e.ID)}
	}
	if e, ok := errors.AsType[*store.BusyError](err); ok {
		return &Error{Code: CodeSessionBusy, Message: fmt.Sprintf("session %s is busy with run %s: wait for its end, cancel it, or set on_busy", e.Session, e.Run)}
	}
	if e, ok := errors.AsType[*body.Error](err); ok {
		code := map[body.Kind]int{
			body.WrongType: CodeContentType, body.Unreadable: CodeBadRequest, body.NoJSON: CodeInvalidJSON, body.WrongShape: CodeWrongShape,
		}[e.Kind]
		return &Error{Code: code, Message: e.Reason}
	}
	if e, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return &Error{Code: CodeBodyTooLarge, Message: fmt.Sprintf("the body has more than %d bytes", e.Limit)}
	}
	switch {
	case errors.Is(err, store.ErrBadCursor):
		return badRequest("page: no cursor of this list with these filters")
	case errors.Is(err, graph.ErrShutdown), errors.Is(err, store.ErrClosed):
		return &Error{Code: CodeUnavailable, Message: "the server is shutting down: come back to where it runs next"}
	}
	return &Error{Code: CodeUnexpected, Message: "unexpected error"}
}

// exists turns an id that is taken into the code for it.
func exists(err error, code int, format string, args ...any) error {
	if errors.Is(err, store.ErrExists) {
		return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
	}
	return err
}
