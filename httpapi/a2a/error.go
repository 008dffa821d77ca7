package a2a

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/errordetails"

	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/store"
)

// fault is an error of the specification with a text that says what is wrong and what to do.
func fault(kind error, format string, args ...any) error {
	return sdk.NewError(kind, fmt.Sprintf(format, args...))
}

// errUnavailable is for what another server, or this one later, can do.
var errUnavailable = errors.New("unavailable")

// errMethod is for a path that has other methods.
var errMethod = errors.New("method not allowed")

// codes is the table of the specification (sections 5.4 and 9.5), with what JSON-RPC has of its own.
var codes = []struct {
	kind   error
	rpc    int
	status int
	name   string // of google.rpc.Code
}{
	{sdk.ErrParseError, -32700, http.StatusBadRequest, "INVALID_ARGUMENT"},
	{sdk.ErrInvalidRequest, -32600, http.StatusBadRequest, "INVALID_ARGUMENT"},
	{sdk.ErrMethodNotFound, -32601, http.StatusNotFound, "UNIMPLEMENTED"},
	{sdk.ErrInvalidParams, -32602, http.StatusBadRequest, "INVALID_ARGUMENT"},
	{sdk.ErrTaskNotFound, -32001, http.StatusNotFound, "NOT_FOUND"},
	{sdk.ErrTaskNotCancelable, -32002, http.StatusBadRequest, "FAILED_PRECONDITION"},
	{sdk.ErrPushNotificationNotSupported, -32003, http.StatusBadRequest, "FAILED_PRECONDITION"},
	{sdk.ErrUnsupportedOperation, -32004, http.StatusBadRequest, "FAILED_PRECONDITION"},
	{sdk.ErrUnsupportedContentType, -32005, http.StatusBadRequest, "INVALID_ARGUMENT"},
	{sdk.ErrExtendedCardNotConfigured, -32007, http.StatusBadRequest, "FAILED_PRECONDITION"},
	{sdk.ErrVersionNotSupported, -32009, http.StatusBadRequest, "FAILED_PRECONDITION"},
	{sdk.ErrUnauthenticated, -31401, http.StatusUnauthorized, "UNAUTHENTICATED"},
	{sdk.ErrUnauthorized, -31403, http.StatusForbidden, "PERMISSION_DENIED"},
	{errUnavailable, -32000, http.StatusServiceUnavailable, "UNAVAILABLE"},
	{sdk.ErrInternalError, -32603, http.StatusInternalServerError, "INTERNAL"},
}

// failure is an error as clients are told it, in either binding.
type failure struct {
	rpc, status  int
	name, reason string
	message      string
}

// explain is the one table from errors to what clients are told. Texts of errors that it does not know
// are for the log.
func (s *Server) explain(ctx context.Context, err error) *failure {
	err = known(err)
	for _, c := range codes {
		if !errors.Is(err, c.kind) {
			continue
		}
		f := &failure{c.rpc, c.status, c.name, sdk.ErrorReason(c.kind), c.kind.Error()}
		if e, ok := errors.AsType[*sdk.Error](err); ok {
			f.message = e.Error()
		}
		if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
			f.status = http.StatusRequestEntityTooLarge
		}
		if errors.Is(err, errMethod) {
			f.status = http.StatusMethodNotAllowed
		}
		if c.kind == errUnavailable {
			f.reason = "UNAVAILABLE"
		}
		if c.kind != sdk.ErrInternalError {
			return f
		}
	}
	s.opts.Logger.ErrorContext(ctx, "a2a: unexpected error", "err", err)
	return &failure{-32603, http.StatusInternalServerError, "INTERNAL", "INTERNAL_ERROR", "unexpected error"}
}

// known turns errors of the library into those of the specification.
func known(err error) error {
	switch {
	case errors.Is(err, graph.ErrShutdown), errors.Is(err, store.ErrClosed):
		return fault(errUnavailable, "the server is shutting down: come back to where the agent runs next")
	case errors.Is(err, store.ErrBadCursor):
		return fault(sdk.ErrInvalidParams, "pageToken: no token of this list with these filters")
	}
	if e, ok := errors.AsType[*react.InputError](err); ok {
		return fault(sdk.ErrInvalidParams, "%v", e)
	}
	if e, ok := errors.AsType[*graph.ResumeError](err); ok {
		return fault(sdk.ErrInvalidParams, "the answer does not fit what was asked: %s", e.Reason)
	}
	if e, ok := errors.AsType[*store.BusyError](err); ok {
		return fault(sdk.ErrUnsupportedOperation, "the context is busy with task %s: wait for its end, or cancel it", e.Run)
	}
	if e, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return fmt.Errorf("%w: %w", fault(sdk.ErrInvalidRequest, "the body has more than %d bytes", e.Limit), err)
	}
	return err
}

// details are those that both bindings add to an error.
func (f *failure) details() []*errordetails.Typed {
	return []*errordetails.Typed{errordetails.NewErrorInfo(f.reason, sdk.ProtocolDomain, map[string]string{
		"timestamp": time.Now().UTC().Format(time.RFC3339),
	})}
}
