package a2a

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"strings"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/errordetails"

	"github.com/everstep-go/everstep/internal/wire"
)

// rpcRequest is a request of JSON-RPC 2.0.
type rpcRequest struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
}

type rpcResponse struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  any             `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

type rpcError struct {
	Code    int                   `json:"code"`
	Message string                `json:"message"`
	Data    []*errordetails.Typed `json:"data"`
}

func (f *failure) rpcError() *rpcError { return &rpcError{f.rpc, f.message, f.details()} }

// nothing is the answer of an operation without one.
type nothing struct{}

// serveRPC is the JSON-RPC binding (specification, section 9). Whatever goes wrong, the answer is 200.
func (s *Server) serveRPC(w http.ResponseWriter, r *http.Request, gone context.CancelFunc) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	null := json.RawMessage("null")
	req, err := s.rpcRequest(w, r)
	if req == nil {
		req = &rpcRequest{ID: null}
	}
	streams := req.Method == "SendStreamingMessage" || req.Method == "SubscribeToTask"
	var result any
	if err == nil {
		err = s.version(r)
	}
	if err == nil {
		result, err = protect(func() (any, error) { return s.callRPC(r, req) })
	}
	events, ok := result.(iter.Seq2[sdk.Event, error])
	switch {
	case err != nil && streams:
		// There are clients that look for an error of a stream only in a stream.
		events = func(yield func(sdk.Event, error) bool) { yield(nil, err) }
		fallthrough
	case ok:
		s.sendEvents(w, r, gone, events, func(e sdk.Event) any {
			return rpcResponse{JSONRPC: "2.0", ID: req.ID, Result: sdk.StreamResponse{Event: e}}
		}, func(f *failure) (string, any) {
			return "", rpcResponse{JSONRPC: "2.0", ID: req.ID, Error: f.rpcError()}
		})
	case err != nil:
		s.writeJSON(w, r, http.StatusOK, jsonType, rpcResponse{JSONRPC: "2.0", ID: req.ID, Error: s.refuse(r, err).rpcError()})
	default:
		s.writeJSON(w, r, http.StatusOK, jsonType, rpcResponse{JSONRPC: "2.0", ID: req.ID, Result: result})
	}
}

// rpcRequest reads a request. It is returned with an error too, as far as it is known.
func (s *Server) rpcRequest(w http.ResponseWriter, r *http.Request) (*rpcRequest, error) {
	text, err := s.body(w, r)
	if err != nil {
		return nil, err
	}
	if len(text) > 0 && text[0] == '[' {
		return nil, fault(sdk.ErrInvalidRequest, "a request is one object: there are no batches in A2A")
	}
	req := &rpcRequest{}
	if err := json.Unmarshal(text, req); err != nil {
		return nil, fault(sdk.ErrInvalidRequest, "the body is no request of JSON-RPC: %v", err)
	}
	switch id := req.ID; {
	case len(id) == 0 || bytes.Equal(id, []byte("null")):
		return nil, fault(sdk.ErrInvalidRequest, "id is missing")
	case id[0] == '{' || id[0] == '[' || id[0] == 't' || id[0] == 'f':
		return nil, fault(sdk.ErrInvalidRequest, "id must be a string or a number")
	case req.JSONRPC != "2.0":
		return req, fault(sdk.ErrInvalidRequest, `jsonrpc must be "2.0"`)
	case req.Method == "":
		return req, fault(sdk.ErrInvalidRequest, "method is missing")
	}
	return req, nil
}

// callRPC calls the method of a request.
func (s *Server) callRPC(r *http.Request, req *rpcRequest) (any, error) {
	ctx := r.Context()
	switch req.Method {
	case "SendMessage":
		return rpc(s, r, req, func(p *sendRequest) string { return p.Tenant }, func(tenant string, p *sendRequest) (any, error) {
			return wrapped(s.send(ctx, tenant, p))
		})
	case "SendStreamingMessage":
		return rpc(s, r, req, func(p *sendRequest) string { return p.Tenant }, func(tenant string, p *sendRequest) (any, error) {
			return s.streaming(func() (iter.Seq2[sdk.Event, error], error) { return s.stream(ctx, tenant, p) })
		})
	case "GetTask":
		return rpc(s, r, req, func(p *sdk.GetTaskRequest) string { return p.Tenant }, func(tenant string, p *sdk.GetTaskRequest) (any, error) {
			return s.get(ctx, tenant, p)
		})
	case "ListTasks":
		return rpc(s, r, req, func(p *sdk.ListTasksRequest) string { return p.Tenant }, func(tenant string, p *sdk.ListTasksRequest) (any, error) {
			return s.list(ctx, tenant, p)
		})
	case "CancelTask":
		return rpc(s, r, req, func(p *sdk.CancelTaskRequest) string { return p.Tenant }, func(tenant string, p *sdk.CancelTaskRequest) (any, error) {
			return s.cancel(ctx, tenant, p.ID)
		})
	case "SubscribeToTask":
		return rpc(s, r, req, func(p *sdk.SubscribeToTaskRequest) string { return p.Tenant }, func(tenant string, p *sdk.SubscribeToTaskRequest) (any, error) {
			return s.streaming(func() (iter.Seq2[sdk.Event, error], error) { return s.subscribe(ctx, tenant, p.ID) })
		})
	case "CreateTaskPushNotificationConfig":
		return rpc(s, r, req, func(p *sdk.PushConfig) string { return p.Tenant }, func(tenant string, p *sdk.PushConfig) (any, error) {
			return s.createPush(ctx, tenant, p)
		})
	case "GetTaskPushNotificationConfig":
		return rpc(s, r, req, func(p *sdk.GetTaskPushConfigRequest) string { return p.Tenant }, func(tenant string, p *sdk.GetTaskPushConfigRequest) (any, error) {
			return s.getPush(ctx, tenant, p)
		})
	case "ListTaskPushNotificationConfigs":
		return rpc(s, r, req, func(p *sdk.ListTaskPushConfigRequest) string { return p.Tenant }, func(tenant string, p *sdk.ListTaskPushConfigRequest) (any, error) {
			return s.listPushes(ctx, tenant, p)
		})
	case "DeleteTaskPushNotificationConfig":
		return rpc(s, r, req, func(p *sdk.DeleteTaskPushConfigRequest) string { return p.Tenant }, func(tenant string, p *sdk.DeleteTaskPushConfigRequest) (any, error) {
			return nothing{}, s.deletePush(ctx, tenant, p)
		})
	case "GetExtendedAgentCard":
		return s.extendedCard(r)
	}
	return nil, fault(sdk.ErrMethodNotFound, "there is no method %q", req.Method)
}

// rpc reads the parameters of a method, finds out whose request it is, and calls it.
func rpc[P any](s *Server, r *http.Request, req *rpcRequest, named func(*P) string, call func(tenant string, p *P) (any, error)) (any, error) {
	p := new(P)
	if err := decode(req.Params, p); err != nil {
		return nil, err
	}
	tenant, err := s.tenant(r, named(p))
	if err != nil {
		return nil, err
	}
	return call(tenant, p)
}

// decode reads parameters, which wire.Clean has let through.
func decode(text json.RawMessage, p any) error {
	if len(text) == 0 || text[0] != '{' {
		return fault(sdk.ErrInvalidParams, "the parameters must be an object")
	}
	err := json.Unmarshal(text, p)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fault(sdk.ErrInvalidParams, "%s: a %s is no %s", wrong.Field, wrong.Value, wrong.Type)
	}
	if err != nil {
		return fault(sdk.ErrInvalidParams, "%v", err)
	}
	return nil
}

// wrapped makes the response of a message of a task.
func wrapped(t *sdk.Task, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return sdk.StreamResponse{Event: t}, nil
}

// streaming refuses streams that the card does not promise.
func (s *Server) streaming(open func() (iter.Seq2[sdk.Event, error], error)) (any, error) {
	if !s.card.streams {
		return nil, fault(sdk.ErrUnsupportedOperation, "the agent does not stream")
	}
	return open()
}

// body reads the body of a request, which must be JSON.
func (s *Server) body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	isJSON := kind == jsonType || strings.HasSuffix(kind, "+json")
	if charset := params["charset"]; err != nil || !isJSON || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return nil, fault(sdk.ErrInvalidRequest, "the body must be JSON: send Content-Type: %s", jsonType)
	}
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return nil, fault(sdk.ErrInvalidRequest, "the body must not be encoded as %q", encoding)
	}
	body := io.Reader(r.Body)
	if s.opts.MaxBody >= 0 {
		body = http.MaxBytesReader(w, r.Body, s.opts.MaxBody)
	}
	text, err := io.ReadAll(body)
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return nil, err
	} else if err != nil {
		return nil, fault(sdk.ErrInvalidRequest, "the body could not be read to its end")
	}
	if text, err = wire.Clean(text); err != nil {
		return nil, fault(sdk.ErrParseError, "the body is not valid JSON: %v", err)
	}
	return text, nil
}

const jsonType = "application/json"

// refuse makes what a client is told of an error.
func (s *Server) refuse(r *http.Request, err error) *failure {
	if gone := r.Context().Err(); gone != nil && errors.Is(err, gone) {
		err = fault(sdk.ErrInvalidRequest, "the client went away") // and is no reason to wake anybody
	}
	return s.explain(r.Context(), err)
}

func (s *Server) writeJSON(w http.ResponseWriter, r *http.Request, status int, kind string, answer any) {
	text, err := wire.Marshal(answer)
	if err != nil {
		f := s.explain(r.Context(), fmt.Errorf("a2a: answer cannot be printed: %w", err))
		status, kind = f.status, jsonType
		text, _ = wire.Marshal(f.httpError()) // which is made of texts
	}
	header := w.Header()
	header.Set("Content-Type", kind)
	header.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(text) // the client may be gone
}
