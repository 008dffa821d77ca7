package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"net/http"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/internal/body"
	"github.com/everstep-go/everstep/internal/wire"
	"github.com/everstep-go/everstep/react"
)

// Options tune the handler that [New] returns. Zero fields mean the default.
type Options struct {
	// Tenant says whose request it is, or refuses it: with an [*Error] as it is, with any other
	// error as 403000. Default: HeaderTenant(graph.DefaultTenant).
	Tenant func(*http.Request) (string, error)
	// MaxBody is how many bytes a request body may have. Default: 2 MiB. Negative: no limit.
	MaxBody int64
	// KeepAlive is how long a stream may be silent before it carries a comment, so that proxies
	// do not take it for dead. Default: 15 s. Negative: it stays silent.
	KeepAlive time.Duration
	// WriteTimeout is how long a client of a stream may refuse to take what it is sent before
	// it counts as gone. Default: 30 s. Negative: for ever.
	WriteTimeout time.Duration
	// Logger gets what clients are not told. Default: slog.Default.
	Logger *slog.Logger
	// Version is the version that GET / and the OpenAPI document name. Default: that of the
	// program's main module.
	Version string
}

// TenantHeader is the header that names the tenant, unless [Options.Tenant] decides otherwise.
const TenantHeader = "X-Tenant-ID"

// HeaderTenant returns an [Options.Tenant] that believes the header X-Tenant-ID: only for
// clients that are trusted, or behind something that sets it. Without the header, and if it is
// not UTF-8, the tenant is fallback. An empty one, and two different ones, are refused.
func HeaderTenant(fallback string) func(*http.Request) (string, error) {
	return func(r *http.Request) (string, error) {
		values := r.Header.Values(TenantHeader)
		if len(values) == 0 || !utf8.ValidString(values[0]) {
			return fallback, nil
		}
		if values[0] == "" {
			return "", badRequest("the header %s is empty: leave it out or name a tenant", TenantHeader)
		}
		if slices.ContainsFunc(values, func(v string) bool { return v != values[0] }) {
			return "", badRequest("the header %s is given twice", TenantHeader)
		}
		return values[0], nil
	}
}

// New returns the handler of an agent: everything under /v1, GET / and GET /health, the OpenAPI
// document under /.well-known. Mount it at the root of a mux, or elsewhere by http.StripPrefix.
// It is safe for concurrent use and holds nothing that must be released. Shut the agent down
// before the server waits for its connections: that ends the streams.
func New(agent *react.Agent, options *Options) http.Handler {
	var o Options
	if options != nil {
		o = *options
	}
	if o.Tenant == nil {
		o.Tenant = HeaderTenant(graph.DefaultTenant)
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.MaxBody = cmp.Or(o.MaxBody, 2<<20)
	o.KeepAlive = cmp.Or(o.KeepAlive, 15*time.Second)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, 30*time.Second)
	o.Version = cmp.Or(o.Version, buildVersion())
	h := &handler{agent: agent, opts: o, mux: http.NewServeMux()}
	routes := h.routes()
	// Made once, but not by programs that never show it, such as tests.
	doc := sync.OnceValue(func() *openAPI { return newOpenAPI(agent.Name(), agent.Description(), o.Version, routes) })
	h.document = sync.OnceValue(func() []byte { return doc().print() })
	h.page = sync.OnceValue(func() page { return doc().page(routes) })
	for pattern, methods := range byPath(routes) {
		h.mux.Handle(pattern, h.dispatch(methods))
	}
	h.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		h.refuse(w, r, &Error{Code: CodeNotFound, Message: "not found"})
	})
	return h
}

func buildVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return cmp.Or(info.Main.Version, "(devel)")
	}
	return "(devel)"
}

type handler struct {
	agent    *react.Agent
	opts     Options
	mux      *http.ServeMux
	document func() []byte // OpenAPI
	page     func() page   // the document for people
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p := r.URL.Path; path.Clean("/"+p) != p {
		// A mux would redirect to the clean path, and not know under which prefix it is mounted.
		h.refuse(w, r, &Error{Code: CodeNotFound, Message: "not found"})
		return
	}
	h.mux.ServeHTTP(w, r)
}

// A route is an endpoint: what serves it, and what is said about it in the OpenAPI document.
type route struct {
	method, path string
	name         string // operationId
	summary      string
	// answer decodes, calls the agent and returns what is sent: a value to be printed as JSON,
	// a sequence of events, or nil.
	answer func(*request) (any, error)
	status int  // of the answer
	public bool // for everybody: no tenant is asked for

	filters []filter // of the query string
	body    string   // the schema of the body, empty for none
	result  string   // the schema of the answer, empty for none
	errors  []int    // the codes that are its own, besides those of every endpoint
}

// request is one request on its way through a route.
type request struct {
	*http.Request
	w      http.ResponseWriter
	limit  int64
	tenant string
}

// dispatch serves the routes of one path by method.
func (h *handler) dispatch(methods map[string]*route) http.Handler {
	allow := slices.Sorted(maps.Keys(methods))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		method := r.Method
		if method == http.MethodHead {
			method = http.MethodGet
		}
		rt := methods[method]
		if rt == nil {
			w.Header().Set("Allow", strings.Join(allow, ", "))
			h.refuse(w, r, &Error{Code: CodeMethodNotAllowed, Message: "method not allowed; use " + strings.Join(allow, " or ")})
			return
		}
		h.serve(w, r, rt)
	})
}

func (h *handler) serve(w http.ResponseWriter, r *http.Request, rt *route) {
	ctx, gone := context.WithCancel(r.Context())
	defer gone()
	r = r.WithContext(ctx)
	tenant, err := h.tenant(r, rt)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	answer, err := rt.call(&request{Request: r, w: w, limit: h.opts.MaxBody, tenant: tenant})
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	switch answer := answer.(type) {
	case nil:
		w.WriteHeader(rt.status)
	case iter.Seq2[event.Event, error]:
		h.stream(w, r, answer, gone)
	case page:
		answer.serve(w)
	default:
		h.write(w, r, rt.status, answer)
	}
}

// tenant returns whose request it is.
func (h *handler) tenant(r *http.Request, rt *route) (string, error) {
	if rt.public {
		return "", nil
	}
	tenant, err := h.opts.Tenant(r)
	if _, ok := errors.AsType[*Error](err); err != nil && !ok {
		h.opts.Logger.InfoContext(r.Context(), "httpapi: request refused", "path", r.URL.Path, "err", err)
		err = &Error{Code: CodeForbidden, Message: "forbidden"}
	}
	return tenant, err
}

// call runs the route's answer, and makes an error of a panic.
func (rt *route) call(r *request) (answer any, err error) {
	defer func() {
		if v := recover(); v != nil {
			if v == http.ErrAbortHandler {
				panic(v)
			}
			err = fmt.Errorf("httpapi: panic: %v\n%s", v, debug.Stack())
		}
	}()
	return rt.answer(r)
}

func (h *handler) write(w http.ResponseWriter, r *http.Request, status int, answer any) {
	text, err := wire.Marshal(answer)
	if err != nil {
		h.opts.Logger.ErrorContext(r.Context(), "httpapi: answer cannot be printed", "path", r.URL.Path, "err", err)
		status, text = http.StatusInternalServerError, []byte(`{"code":500000,"message":"unexpected error"}`)
	}
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(text) // the client may be gone
}

// refuse answers with an error.
func (h *handler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if gone := r.Context().Err(); gone != nil && errors.Is(err, gone) {
		err = badRequest("the client went away") // and is no reason to wake anybody
	}
	e := h.explain(r.Context(), err)
	h.write(w, r, e.Status(), e)
}

// explain makes what a client is told of an error, and logs what it is not told.
func (h *handler) explain(ctx context.Context, err error) *Error {
	e := ErrorOf(err)
	if e.Code == CodeUnexpected {
		h.opts.Logger.ErrorContext(ctx, "httpapi: unexpected error", "err", err)
	}
	return e
}

// id returns a UUID of the path.
func (r *request) id(name string) (uuid.UUID, error) {
	id, ok := wire.ParseUUID(r.PathValue(name))
	if !ok {
		return id, badRequest("%s: %q is not a UUID", name, r.PathValue(name))
	}
	return id, nil
}

// object reads the body, which must be a JSON object (contract R21: its type, its size, its text,
// its shape).
func (r *request) object() (*body.Object, error) {
	text, err := body.Read(r.w, r.Request, r.limit)
	if err != nil {
		return nil, err
	}
	return body.Parse(text)
}
