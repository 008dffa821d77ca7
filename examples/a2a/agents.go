package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/httpapi/a2a"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/store"
	"github.com/everstep-go/everstep/store/sqlite"
)

// steps are those of the work.
const steps = 4

// worker serves an agent until it is killed.
func worker(ctx context.Context, addr string) error {
	st, err := sqlite.Open("worker.db", nil)
	if err != nil {
		return err
	}
	agent, err := react.New(react.Config{
		Name: "worker", Description: "Digs.", Model: react.ModelFunc(dig), Store: st, Logger: quiet,
		Tools: []react.Tool{react.NewTool("dig", "Digs one step.", step)},
	})
	if err != nil {
		return err
	}
	server, err := a2a.NewServer(agent, a2a.ServerConfig{URL: "http://" + addr, Logger: quiet})
	if err != nil {
		return err
	}
	go agent.Serve(ctx)  // goes on with what was under way when the process died
	go server.Serve(ctx) // and sees to the tasks
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	return http.Serve(l, server)
}

type depth struct {
	Step int `json:"step"`
}

// step takes its time, and leaves a line in a file. It may be called again after a crash; the key of the call says
// whether it was done.
func step(ctx context.Context, in depth) (string, error) {
	select {
	case <-time.After(300 * time.Millisecond):
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	name, line := fmt.Sprintf("step %d", in.Step), graph.IdempotencyKey(ctx)+"\n"
	if text, err := os.ReadFile(name); err == nil && string(text) == line {
		return name + " was done", nil
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(line)
	return name + " is done", errors.Join(err, f.Close())
}

// dig stands for a model: it digs until it has dug enough.
func dig(_ context.Context, req *message.Request) (message.Reply, error) {
	n := results(req)
	if n == steps {
		return message.Reply{Text: fmt.Sprintf("dug %d steps deep", n), FinishReason: message.FinishStop}, nil
	}
	call := message.ToolCall{ID: fmt.Sprint("dig", n+1), Name: "dig", Arguments: fmt.Appendf(nil, `{"step":%d}`, n+1)}
	return message.Reply{ToolCalls: []message.ToolCall{call}, FinishReason: message.FinishToolCalls}, nil
}

// boss has the work done, or goes on with having it done, and prints what comes of it.
func boss(ctx context.Context, url string) error {
	st, err := sqlite.Open("boss.db", nil)
	if err != nil {
		return err
	}
	client, err := a2a.Connect(ctx, a2a.Config{Name: "worker", URL: url})
	if err != nil {
		return err
	}
	agent, err := react.New(react.Config{Name: "boss", Model: react.ModelFunc(order), Tools: client.Tools(), Store: st, Logger: quiet})
	if err != nil {
		return err
	}
	go agent.Serve(ctx)
	in := react.Ask(uuid.Max, "Have a hole dug.")
	in.Run = uuid.Max // it is the same run in every life of this process
	run, err := agent.Start(ctx, in)
	if errors.Is(err, store.ErrExists) {
		run, err = agent.Attach(ctx, "", in.Run)
	}
	if err != nil {
		return err
	}
	fmt.Println("ready")
	state, err := run.Wait(ctx)
	if err != nil {
		return err
	}
	fmt.Println("the boss says:", state.Reply())
	return nil
}

// order stands for a model: it tells the worker what to do, and says what it hears.
func order(_ context.Context, req *message.Request) (message.Reply, error) {
	if results(req) == 0 {
		call := message.ToolCall{ID: "order", Name: "a2a_worker_send", Arguments: json.RawMessage(`{"message":"Dig!"}`)}
		return message.Reply{ToolCalls: []message.ToolCall{call}, FinishReason: message.FinishToolCalls}, nil
	}
	var report struct{ State, Text string }
	last := req.Messages[len(req.Messages)-1].(*message.Tool)
	if json.Unmarshal([]byte(last.Text()), &report) != nil {
		report.Text = last.Text()
	}
	return message.Reply{Text: fmt.Sprintf("the worker has %s", report.Text), FinishReason: message.FinishStop}, nil
}

func results(req *message.Request) (n int) {
	for _, m := range req.Messages {
		if m.Role() == message.RoleTool {
			n++
		}
	}
	return n
}

// quiet is for what this example brings about on purpose.
var quiet = slog.New(slog.DiscardHandler)
