package a2a

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/errordetails"
)

// mediaType is that of answers of the HTTP+JSON binding. Errors are plain JSON: there are clients that
// read no others.
const mediaType = "application/a2a+json"

// serveREST is the HTTP+JSON binding (specification, section 11).
func (s *Server) serveREST(w http.ResponseWriter, r *http.Request, path string, gone context.CancelFunc) {
	result, err := protect(func() (any, error) { return s.callREST(w, r, path) })
	if err != nil {
		f := s.refuse(r, err)
		if f.status == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", "1")
		}
		s.writeJSON(w, r, f.status, jsonType, f.httpError())
		return
	}
	if events, ok := result.(iter.Seq2[sdk.Event, error]); ok {
		s.sendEvents(w, r, gone, events, func(e sdk.Event) any { return sdk.StreamResponse{Event: e} }, func(f *failure) (string, any) { return "error", f.httpError() })
		return
	}
	s.writeJSON(w, r, http.StatusOK, mediaType, result)
}

// restError is google.rpc.Status as the binding prints it.
type restError struct {
	Error struct {
		Code    int                   `json:"code"`
		Status  string                `json:"status"`
		Message string                `json:"message"`
		Details []*errordetails.Typed `json:"details"`
	} `json:"error"`
}

func (f *failure) httpError() (e restError) {
	e.Error.Code, e.Error.Status, e.Error.Message, e.Error.Details = f.status, f.name, f.message, f.details()
	return e
}

// callREST finds the operation of a path, which may have the tenant before it, and calls it.
func (s *Server) callREST(w http.ResponseWriter, r *http.Request, path string) (any, error) {
	segments := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i := range segments {
		var err error
		if segments[i], err = url.PathUnescape(segments[i]); err != nil {
			return nil, fault(sdk.ErrInvalidRequest, "the path is not well formed")
		}
	}
	op, named := findOperation(segments), ""
	if op == nil && len(segments) > 1 {
		op, named = findOperation(segments[1:]), segments[0]
	}
	if op == nil {
		return nil, fault(sdk.ErrMethodNotFound, "there is no %s", r.URL.Path)
	}
	if !slices.Contains(op.methods, r.Method) {
		w.Header().Set("Allow", strings.Join(op.methods, ", "))
		return nil, fmt.Errorf("%w: %w", fault(sdk.ErrMethodNotFound, "%s is not allowed here; use %s", r.Method, strings.Join(op.methods, " or ")), errMethod)
	}
	if err := s.version(r); err != nil {
		return nil, err
	}
	req := &restRequest{Request: r, server: s, w: w, named: named, operation: op}
	return op.call(req, r.Context())
}

// operation is what a path means.
type operation struct {
	methods []string
	task    sdk.TaskID
	config  string
	call    func(r *restRequest, ctx context.Context) (any, error)
}

var (
	get  = []string{http.MethodGet}
	post = []string{http.MethodPost}
)

func findOperation(path []string) *operation {
	switch {
	case len(path) == 1 && path[0] == "message:send":
		return &operation{methods: post, call: (*restRequest).send}
	case len(path) == 1 && path[0] == "message:stream":
		return &operation{methods: post, call: (*restRequest).stream}
	case len(path) == 1 && path[0] == "extendedAgentCard":
		return &operation{methods: get, call: (*restRequest).extendedCard}
	case path[0] != "tasks":
		return nil
	case len(path) == 1:
		return &operation{methods: get, call: (*restRequest).list}
	case len(path) == 2:
		// The verb is behind the last colon: whatever is before it is the id.
		id, verb := path[1], ""
		if i := strings.LastIndexByte(id, ':'); i >= 0 {
			id, verb = id[:i], id[i+1:]
		}
		switch verb {
		case "cancel":
			return &operation{methods: post, task: sdk.TaskID(id), call: (*restRequest).cancel}
		case "subscribe": // the text of the specification says POST, its interface GET
			return &operation{methods: []string{http.MethodPost, http.MethodGet}, task: sdk.TaskID(id), call: (*restRequest).subscribe}
		case "":
			return &operation{methods: get, task: sdk.TaskID(id), call: (*restRequest).get}
		}
	case len(path) == 3 && path[2] == "pushNotificationConfigs":
		return &operation{methods: []string{http.MethodGet, http.MethodPost}, task: sdk.TaskID(path[1]), call: (*restRequest).pushes}
	case len(path) == 4 && path[2] == "pushNotificationConfigs":
		return &operation{methods: []string{http.MethodGet, http.MethodDelete}, task: sdk.TaskID(path[1]), config: path[3], call: (*restRequest).push}
	}
	return nil
}

// restRequest is one request on its way through an operation.
type restRequest struct {
	*http.Request
	*operation
	server *Server
	w      http.ResponseWriter
	named  string // the tenant in the path
}

// decode reads the body, and finds out whose request it is: what the path says comes before the body.
func (r *restRequest) decode(p any, named *string) (tenant string, err error) {
	text, err := r.server.body(r.w, r.Request)
	if err != nil {
		return "", err
	}
	if err := decode(json.RawMessage(text), p); err != nil {
		return "", err
	}
	if r.named != "" {
		*named = r.named
	}
	return r.server.tenant(r.Request, *named)
}

func (r *restRequest) tenant() (string, error) { return r.server.tenant(r.Request, r.named) }

func (r *restRequest) send(ctx context.Context) (any, error) {
	p := &sendRequest{}
	tenant, err := r.decode(p, &p.Tenant)
	if err != nil {
		return nil, err
	}
	return wrapped(r.server.send(ctx, tenant, p))
}

func (r *restRequest) stream(ctx context.Context) (any, error) {
	p := &sendRequest{}
	tenant, err := r.decode(p, &p.Tenant)
	if err != nil {
		return nil, err
	}
	return r.server.streaming(func() (iter.Seq2[sdk.Event, error], error) { return r.server.stream(ctx, tenant, p) })
}

func (r *restRequest) get(ctx context.Context) (any, error) {
	tenant, err := r.tenant()
	if err != nil {
		return nil, err
	}
	q := &query{values: r.URL.Query()}
	p := &sdk.GetTaskRequest{ID: r.task, HistoryLength: q.number("historyLength")}
	if q.err != nil {
		return nil, q.err
	}
	return r.server.get(ctx, tenant, p)
}

func (r *restRequest) list(ctx context.Context) (any, error) {
	tenant, err := r.tenant()
	if err != nil {
		return nil, err
	}
	q := &query{values: r.URL.Query()}
	p := &sdk.ListTasksRequest{
		ContextID: q.text("contextId"), Status: sdk.TaskState(q.text("status")),
		PageToken: q.text("pageToken"), HistoryLength: q.number("historyLength"),
		// The second is what the SDK for Go sends.
		StatusTimestampAfter: q.time("statusTimestampAfter", "lastUpdatedAfter"), IncludeArtifacts: q.yes("includeArtifacts"),
	}
	if n := q.number("pageSize"); n != nil {
		if p.PageSize = *n; *n == 0 {
			return nil, fault(sdk.ErrInvalidParams, "pageSize must be 1 to %d, not 0", maxPage)
		}
	}
	if q.err != nil {
		return nil, q.err
	}
	return r.server.list(ctx, tenant, p)
}

func (r *restRequest) cancel(ctx context.Context) (any, error) {
	tenant, err := r.tenant()
	if err != nil {
		return nil, err
	}
	return r.server.cancel(ctx, tenant, r.task)
}

func (r *restRequest) subscribe(ctx context.Context) (any, error) {
	tenant, err := r.tenant()
	if err != nil {
		return nil, err
	}
	return r.server.streaming(func() (iter.Seq2[sdk.Event, error], error) { return r.server.subscribe(ctx, tenant, r.task) })
}

func (r *restRequest) pushes(ctx context.Context) (any, error) {
	if r.Method == http.MethodPost {
		p := &sdk.PushConfig{}
		tenant, err := r.decode(p, &p.Tenant)
		if err != nil {
			return nil, err
		}
		p.TaskID = r.task
		return r.server.createPush(ctx, tenant, p)
	}
	tenant, err := r.tenant()
	if err != nil {
		return nil, err
	}
	q := &query{values: r.URL.Query()}
	p := &sdk.ListTaskPushConfigRequest{TaskID: r.task, PageToken: q.text("pageToken")}
	if n := q.number("pageSize"); n != nil {
		p.PageSize = *n
	}
	if q.err != nil {
		return nil, q.err
	}
	return r.server.listPushes(ctx, tenant, p)
}

func (r *restRequest) push(ctx context.Context) (any, error) {
	tenant, err := r.tenant()
	if err != nil {
		return nil, err
	}
	if r.Method == http.MethodDelete {
		return nothing{}, r.server.deletePush(ctx, tenant, &sdk.DeleteTaskPushConfigRequest{TaskID: r.task, ID: r.config})
	}
	return r.server.getPush(ctx, tenant, &sdk.GetTaskPushConfigRequest{TaskID: r.task, ID: r.config})
}

func (r *restRequest) extendedCard(context.Context) (any, error) {
	return r.server.extendedCard(r.Request)
}

// query reads a query string. The first thing that is wrong with it is its err.
type query struct {
	values url.Values
	err    error
}

func (q *query) text(name string) string { return q.values.Get(name) }

func (q *query) wrong(name, what string) {
	if q.err == nil {
		q.err = fault(sdk.ErrInvalidParams, "%s must be %s, not %q", name, what, q.values.Get(name))
	}
}

func (q *query) number(name string) *int {
	if q.text(name) == "" {
		return nil
	}
	n, err := strconv.Atoi(q.text(name))
	if err != nil {
		q.wrong(name, "a number")
	}
	return &n
}

func (q *query) yes(name string) bool {
	if q.text(name) == "" {
		return false
	}
	yes, err := strconv.ParseBool(q.text(name))
	if err != nil {
		q.wrong(name, "true or false")
	}
	return yes
}

func (q *query) time(names ...string) *time.Time {
	for _, name := range names {
		if q.text(name) == "" {
			continue
		}
		t, err := time.Parse(time.RFC3339, q.text(name))
		if err != nil {
			q.wrong(name, "a time of RFC 3339")
		}
		return &t
	}
	return nil
}
