// Copilotkit is an agent behind a page of CopilotKit: it takes notes that the page shows, orders things once a
// human agrees, and calls a tool that the page runs. The offline model does what the lines with a slash say.
//
//	go run ./examples/copilotkit
//	cd examples/copilotkit && npm run setup && npm start
//
// Then open the address that the second one prints. Reload the page in the middle of an answer, kill either
// program and start it again: the answer goes on.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/everstep-go/everstep/examples/internal/offline"
	"github.com/everstep-go/everstep/httpapi"
	"github.com/everstep-go/everstep/httpapi/agui"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/state"
	"github.com/everstep-go/everstep/store/sqlite"
)

var (
	addr = flag.String("addr", "127.0.0.1:8080", "`HOST:PORT` to listen on; port 0 is any free one")
	db   = flag.String("db", "copilotkit.db", "`file` that keeps the conversations")
)

type note struct {
	Text string `json:"text"`
}

// take appends a note to those of the conversation. The page shows them, and may change them too.
func take(ctx context.Context, in note) (string, error) {
	s, _ := react.StateFrom(ctx)
	var shared struct{ Notes []string }
	if err := json.Unmarshal(s.Context, &shared); err != nil {
		return "", err
	}
	notes, err := json.Marshal(append(shared.Notes, in.Text))
	if err != nil {
		return "", err
	}
	return "noted", react.UpdateContext(ctx, state.Add("/notes", notes))
}

type wish struct {
	What string `json:"what"`
}

func order(_ context.Context, in wish) (string, error) { return in.What + " is on its way", nil }

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

// run serves the agent until ctx ends.
func run(ctx context.Context) error {
	st, err := sqlite.Open(*db, nil)
	if err != nil {
		return err
	}
	defer st.Close()
	agent, err := react.New(react.Config{
		Name: "assistant", Model: offline.New(), Store: st,
		Tools: []react.Tool{
			react.NewTool("note", "Takes a note.", take, &react.ToolOptions{Sequential: true}),
			react.NewTool("order", "Orders something.", order, &react.ToolOptions{Approval: true}),
		},
	})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/", httpapi.New(agent, nil))
	// Stop is a request of its own here, so a connection that ends does not mean that nobody wants the answer.
	mux.Handle("/ag-ui", agui.New(agent, &agui.Options{OnDisconnect: agui.Keep}))
	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		return err
	}
	fmt.Printf("listening on http://%s\n", listener.Addr())

	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	ctx, fail := context.WithCancelCause(ctx)
	var both sync.WaitGroup
	both.Go(func() { fail(server.Serve(listener)) })
	both.Go(func() { fail(agent.Serve(ctx)) }) // goes on with what a killed process left unfinished
	<-ctx.Done()
	wait, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = agent.Shutdown(wait) // ends the streams; what is not finished goes on at the next start
	_ = server.Shutdown(wait)
	both.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
