package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os/signal"
	"syscall"
	"time"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/httpapi"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/store/postgres"
)

// replica serves an agent until it is told to end. Nothing in it knows of other replicas, but for the store and the bus.
func replica(ctx context.Context, name, dsn string) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	st, err := postgres.Open(ctx, dsn, &postgres.Options{Logger: quiet})
	if err != nil {
		return err
	}
	defer st.Close()
	bus, err := postgres.NewBus(ctx, dsn, nil)
	if err != nil {
		return err
	}
	defer bus.Close()
	work := react.NewTool("work", "Works for a while, and says where.", func(ctx context.Context, _ struct{}) (string, error) {
		select {
		case <-time.After(400 * time.Millisecond):
			return name, nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	})
	agent, err := react.New(react.Config{
		Name: "worker", Model: react.ModelFunc(model), Tools: []react.Tool{work},
		Store: st, Bus: bus, Lease: lease, Logger: quiet,
	})
	if err != nil {
		return err
	}
	l := listen()
	server := &http.Server{Handler: httpapi.New(agent, nil), ReadHeaderTimeout: time.Minute}
	go server.Serve(l)
	fmt.Println("http://" + l.Addr().String())
	err = agent.Serve(ctx) // takes over what others leave unfinished
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	return errors.Join(err, agent.Shutdown(ctx), server.Close())
}

// steps are those of a run.
const steps = 8

// model stands for a real one: it works until it has worked enough.
func model(_ context.Context, req *message.Request) (message.Reply, error) {
	n := 0
	for _, m := range req.Messages {
		if m.Role() == message.RoleTool {
			n++
		}
	}
	if n == steps {
		return message.Reply{Text: "Done.", FinishReason: message.FinishStop}, nil
	}
	call := message.ToolCall{ID: fmt.Sprint("step", n+1), Name: "work", Arguments: json.RawMessage(`{}`)}
	return message.Reply{ToolCalls: []message.ToolCall{call}, FinishReason: message.FinishToolCalls}, nil
}

// done returns where the steps were done that a conversation knows of.
func done(d event.MessagesSnapshot) (where []string) {
	for _, m := range d.Messages {
		if m, ok := m.(*message.Tool); ok {
			where = append(where, m.Text())
		}
	}
	return where
}

// quiet is for what this example brings about on purpose: lost leases, and a database that does not flush.
var quiet = slog.New(slog.DiscardHandler)
