// Server is an agent over HTTP, with a tool for everything that the library can do. No key and no network are
// needed: the offline model does what the lines with a slash in a message say. With -model it is a real one.
//
//	go run ./examples/server
//	curl -N http://127.0.0.1:8080/v1/runs -H 'Content-Type: application/json' \
//		-d '{"messages":[{"role":"user","content":"What is 2 plus 3?"}]}'
//
// Kill it in the middle of a run and start it again: a run of POST /v1/runs/start is finished then. With
// -store postgres://... several of them serve the same sessions, and another one finishes it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/examples/internal/offline"
	"github.com/everstep-go/everstep/httpapi"
	"github.com/everstep-go/everstep/httpapi/a2a"
	"github.com/everstep-go/everstep/httpapi/agui"
	"github.com/everstep-go/everstep/model/anthropic"
	"github.com/everstep-go/everstep/model/gemini"
	"github.com/everstep-go/everstep/model/openai"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/store"
	"github.com/everstep-go/everstep/store/memory"
	"github.com/everstep-go/everstep/store/postgres"
	"github.com/everstep-go/everstep/store/sqlite"
)

var (
	addr          = flag.String("addr", "127.0.0.1:8080", "`HOST:PORT` to listen on; port 0 is any free one")
	storeURL      = flag.String("store", "sqlite:everstep.db", "where sessions are kept: memory:, sqlite:`PATH` or postgres://...")
	model         = flag.String("model", "offline", "offline, or `PROVIDER:NAME` of openai, anthropic or gemini")
	ledgerFile    = flag.String("ledger", "", "`file` that the ledger tools append to")
	lease         = flag.Duration("lease", 15*time.Second, "how long a run stays ours without a sign of life")
	tenantDefault = flag.String("tenant-default", "default", "`tenant` of requests without the header "+httpapi.TenantHeader)
	maxSteps      = flag.Int("max-steps", 100, "how many steps a run may take")
	onDisconnect  = flag.String("on-disconnect", string(agui.Cancel), "what becomes of a run over AG-UI whose client goes away: cancel or keep")
	pushPrivate   = flag.Bool("push-private", false, "whether clients of A2A may be notified at addresses that are not public")
)

// grace is how long runs may go on after SIGTERM before they are left to the next start.
const grace = 10 * time.Second

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal does not wait
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context) error {
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	if d := agui.Disconnect(*onDisconnect); d != agui.Cancel && d != agui.Keep {
		return fmt.Errorf("-on-disconnect %s: it is %s or %s", d, agui.Cancel, agui.Keep)
	}
	provider, m, name, err := openModel(ctx, *model)
	if err != nil {
		return err
	}
	st, bus, err := openStore(ctx, *storeURL)
	if err != nil {
		return err
	}
	defer st.Close()
	if closer, ok := bus.(io.Closer); ok {
		defer closer.Close()
	}
	agent, err := react.New(react.Config{
		Name: "demo", Model: m, ModelName: name, Provider: provider, Prompt: react.TextPrompt(prompt), Store: st,
		Tools: tools(*ledgerFile), Capabilities: []string{"math"}, CapabilityPolicy: react.PolicyExtensible,
		Bus: bus, Lease: *lease, MaxSteps: *maxSteps,
	})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		return err
	}
	url := "http://" + listener.Addr().String()
	tasks, err := a2a.NewServer(agent, a2a.ServerConfig{URL: url + "/a2a", Tenant: taskTenant, Push: a2a.PushConfig{AllowPrivate: *pushPrivate}})
	if err != nil {
		return err
	}
	fmt.Println("listening on", url)
	return serve(ctx, listener, agent, tasks)
}

const prompt = `You are {{.AgentName}}.
{{- range .ContextVars}}
{{.Description}}: {{.Value}}
{{- end}}`

// serve serves the agent until ctx ends, and then lets what is under way come to its end.
func serve(ctx context.Context, listener net.Listener, agent *react.Agent, tasks *a2a.Server) error {
	server := &http.Server{
		// No other limits of time: a stream lasts as long as its run.
		ReadHeaderTimeout: 10 * time.Second,
		Handler:           handler(agent, tasks),
	}
	ctx, stop := context.WithCancelCause(ctx)
	var all sync.WaitGroup
	all.Go(func() { stop(server.Serve(listener)) })
	all.Go(func() { stop(agent.Serve(ctx)) }) // takes over what a dead process left unfinished
	all.Go(func() { stop(tasks.Serve(ctx)) })
	<-ctx.Done()

	// The runs first: that ends the streams, which the server waits for.
	wait, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	if err := agent.Shutdown(wait); err != nil {
		slog.Info("runs are left to the next start", "cause", err)
	}
	wait, cancel = context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if server.Shutdown(wait) != nil {
		_ = server.Close() // clients that hold on to a connection
	}
	all.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// taskTenant is whose a request over A2A is: of the tenant that it names, or of the header's.
func taskTenant(r *http.Request, named string) (string, error) {
	if named != "" {
		return named, nil
	}
	return httpapi.HeaderTenant(*tenantDefault)(r)
}

// handler serves the agent: /v1 for programs, /ag-ui for frontends, /a2a for other agents.
func handler(agent *react.Agent, tasks *a2a.Server) http.Handler {
	tenant := httpapi.HeaderTenant(*tenantDefault)
	frontends := agui.New(agent, &agui.Options{Tenant: tenant, OnDisconnect: agui.Disconnect(*onDisconnect)})
	mux := http.NewServeMux()
	mux.Handle("/", httpapi.New(agent, &httpapi.Options{Tenant: tenant}))
	mux.Handle("/ag-ui", frontends)
	mux.Handle("/ag-ui/run", frontends)
	mux.Handle("/a2a", http.StripPrefix("/a2a", tasks))
	mux.Handle("/a2a/", http.StripPrefix("/a2a", tasks))
	mux.Handle(a2a.WellKnown, tasks)
	return mux
}

// openModel returns the model that is named, and what its provider calls it. Keys are in the environment variables
// that each provider's clients look into.
func openModel(ctx context.Context, name string) (provider string, m react.Model, model string, err error) {
	provider, model, _ = strings.Cut(name, ":")
	switch {
	case name == "offline":
		m = offline.New()
	case model == "":
		err = errors.New("it is offline or PROVIDER:NAME")
	case provider == "openai":
		m = openai.New(nil)
	case provider == "anthropic":
		m = anthropic.New(nil)
	case provider == "gemini":
		m, err = gemini.New(ctx, nil)
	default:
		err = errors.New("no such provider; there are openai, anthropic and gemini")
	}
	if err != nil {
		err = fmt.Errorf("-model %s: %w", name, err)
	}
	return provider, m, model, err
}

// openStore returns the store that is named and, if other processes may use it too, a bus between them.
func openStore(ctx context.Context, url string) (st store.Store, bus event.Bus, err error) {
	switch kind, path, _ := strings.Cut(url, ":"); {
	case url == "memory:":
		st = memory.New(nil)
	case kind == "sqlite" && path != "":
		st, err = sqlite.Open(path, nil)
	case kind == "postgres", kind == "postgresql":
		if st, err = postgres.Open(ctx, url, nil); err == nil {
			if bus, err = postgres.NewBus(ctx, url, nil); err != nil {
				_ = st.Close()
			}
		}
		url = kind + "://..." // there may be a password in it
	default:
		err = errors.New("no such store; use memory:, sqlite:PATH or postgres://URL")
	}
	if err != nil {
		return nil, nil, fmt.Errorf("-store %s: %w", url, err)
	}
	return st, bus, nil
}
