package a2a

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"runtime/debug"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/httpapi"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/store"
)

// ServerConfig says how an agent is served. URL is required; zero fields mean the default.
type ServerConfig struct {
	// URL is where clients reach the server, with the path under which it is mounted: the card names it.
	URL string

	// Card completes the agent card: skills, provider, security schemes and what else a client should
	// know. It is called once. What the server itself can do is already in it.
	Card func(*sdk.AgentCard)
	// ExtendedCard returns the card for a client that is authenticated, as the middleware around the
	// server knows; an error means that it is not. Nil: there is none.
	ExtendedCard func(*http.Request) (*sdk.AgentCard, error)
	// CardMaxAge is how long clients may keep the card. Default: an hour.
	CardMaxAge time.Duration

	// Tenant says whose request it is, or refuses it. Named is the tenant that the request names itself,
	// in its path or its body, which nobody has checked; empty for none. Default: named, else the
	// header X-Tenant-ID, else graph.DefaultTenant. That is for clients that are trusted.
	Tenant func(r *http.Request, named string) (string, error)
	// InputModes are the media types that the agent takes, such as image/png or image/*. Default:
	// text/plain and application/json, so no files.
	InputModes []string
	// OnBusy says what to do with a message to a context in which a task works. Default: graph.Wait, so
	// that its task is submitted, and works when its turn comes.
	OnBusy graph.OnBusy
	// Unversioned serves requests without an A2A-Version too. The specification says that these are of
	// version 0.3, which the server does not speak. Default: it refuses them.
	Unversioned bool

	// Push says how clients are notified.
	Push PushConfig

	// MaxBody is how many bytes a request body may have. Default: 2 MiB. Negative: no limit.
	MaxBody int64
	// KeepAlive and WriteTimeout are as in httpapi.Options. Default: 15 s and 30 s. Negative: none.
	KeepAlive, WriteTimeout time.Duration
	// Logger gets what clients are not told. Default: slog.Default.
	Logger *slog.Logger
}

// A Server serves an agent to clients of A2A: a handler of JSON-RPC at its root, of HTTP+JSON below it,
// and of the agent card. It is safe for concurrent use.
type Server struct {
	agent   *react.Agent
	records store.Records
	opts    ServerConfig
	card    card
	pusher  *pusher

	mu      sync.Mutex // guards what follows
	serving int        // how many Serve run
	fresh   map[workItem]bool
	wake    chan struct{} // holds one while fresh has something that Serve has not seen
}

// NewServer returns a server of an agent whose store is a store.Records, as all drivers of this module
// are. Mount it by http.StripPrefix under the path of its URL, and at the path of [WellKnown] as it is,
// and have [Server.Serve] run beside [react.Agent.Serve].
//
//	server, err := a2a.NewServer(agent, a2a.ServerConfig{URL: "https://agents.example.com/a2a"})
//	mux.Handle("/a2a/", http.StripPrefix("/a2a", server))
//	mux.Handle(a2a.WellKnown, server)
//	go server.Serve(ctx)
func NewServer(agent *react.Agent, config ServerConfig) (*Server, error) {
	s := &Server{agent: agent, opts: config, fresh: map[workItem]bool{}, wake: make(chan struct{}, 1)}
	u, err := url.Parse(config.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("a2a: ServerConfig.URL %q: clients need the absolute URL under which they reach the server", config.URL)
	case agent.Records() == nil:
		return nil, errors.New("a2a: the agent has no store that is a store.Records: tasks are kept there")
	}
	s.records = scoped{agent.Records(), agent.Name()}
	o := &s.opts
	o.URL = strings.TrimSuffix(o.URL, "/")
	o.CardMaxAge = cmp.Or(o.CardMaxAge, time.Hour)
	if o.Tenant == nil {
		header := httpapi.HeaderTenant(graph.DefaultTenant)
		o.Tenant = func(r *http.Request, named string) (string, error) {
			if named != "" {
				return named, nil
			}
			return header(r)
		}
	}
	if o.InputModes == nil {
		o.InputModes = []string{"text/plain", "application/json"}
	}
	o.OnBusy = cmp.Or(o.OnBusy, graph.Wait)
	o.MaxBody = cmp.Or(o.MaxBody, 2<<20)
	o.KeepAlive = cmp.Or(o.KeepAlive, 15*time.Second)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, 30*time.Second)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if s.pusher, err = newPusher(o.Push); err != nil {
		return nil, err
	}
	if s.card, err = s.newCard(); err != nil {
		return nil, err
	}
	return s, nil
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.EscapedPath()
	if strings.HasSuffix(path, WellKnown) {
		s.card.ServeHTTP(w, r)
		return
	}
	if strings.Contains(strings.Join(r.Header.Values(sdk.SvcParamExtensions), ","), ToolsExtension) {
		w.Header().Set(sdk.SvcParamExtensions, ToolsExtension) // it is active
	}
	ctx, gone := context.WithCancel(r.Context())
	defer gone()
	r = r.WithContext(ctx)
	if r.URL.Path == "" || r.URL.Path == "/" {
		s.serveRPC(w, r, gone)
		return
	}
	s.serveREST(w, r, path, gone)
}

// patched is a version with its patch number, which means nothing.
var patched = regexp.MustCompile(`^` + regexp.QuoteMeta(string(sdk.Version)) + `\.[0-9]+$`)

// version refuses requests of versions that the server does not speak (specification, section 3.6).
func (s *Server) version(r *http.Request) error {
	version := cmp.Or(r.Header.Get(sdk.SvcParamVersion), r.URL.Query().Get(sdk.SvcParamVersion))
	switch {
	case version == string(sdk.Version), patched.MatchString(version), version == "" && s.opts.Unversioned:
		return nil
	case version == "":
		return fault(sdk.ErrVersionNotSupported, "the request has no %s, which means 0.3: send %s", sdk.SvcParamVersion, sdk.Version)
	}
	return fault(sdk.ErrVersionNotSupported, "version %q of the protocol is not supported: send %s: %s", version, sdk.SvcParamVersion, sdk.Version)
}

// tenant returns whose request it is.
func (s *Server) tenant(r *http.Request, named string) (string, error) {
	tenant, err := s.opts.Tenant(r, named)
	if err == nil && (strings.ContainsRune(tenant, 0) || !utf8.ValidString(tenant) || len(tenant) > maxID) {
		return "", fault(sdk.ErrInvalidRequest, "the tenant must be UTF-8 without NUL, of at most %d bytes", maxID)
	}
	if err == nil {
		return cmp.Or(tenant, graph.DefaultTenant), nil
	}
	if e, ok := errors.AsType[*httpapi.Error](err); ok && e.Code == httpapi.CodeBadRequest {
		return "", fault(sdk.ErrInvalidRequest, "%s", e.Message)
	}
	if errors.Is(err, sdk.ErrUnauthenticated) {
		return "", fault(sdk.ErrUnauthenticated, "who sends this is not known")
	}
	s.opts.Logger.InfoContext(r.Context(), "a2a: request refused", "path", r.URL.Path, "err", err)
	return "", fault(sdk.ErrUnauthorized, "forbidden")
}

// protect makes an error of a panic.
func protect[T any](f func() (T, error)) (result T, err error) {
	defer func() {
		if v := recover(); v != nil {
			if v == http.ErrAbortHandler {
				panic(v)
			}
			err = fmt.Errorf("a2a: panic: %v\n%s", v, debug.Stack())
		}
	}()
	return f()
}
