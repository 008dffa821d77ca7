package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/store"
	"github.com/everstep-go/everstep/store/memory"
	"github.com/everstep-go/everstep/tool/mcp"
)

// programEnv makes the test binary one of the programs, to be started by the tests.
const programEnv = "EVERSTEP_MCP_PROGRAM"

var programs = map[string]func(){
	"echo": func() { _ = echoServer().Run(context.Background(), &sdk.StdioTransport{}) },
	"flood": func() {
		server := echoServer()
		addTool(server, "flood", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return say(strings.Repeat("x", sdk.DefaultMaxLineLength)), nil
		})
		_ = server.Run(context.Background(), &sdk.StdioTransport{})
	},
	"agent": func() {
		_ = mcp.NewServer(parrot(nil), nil).Run(context.Background(), &sdk.StdioTransport{})
	},
	"garbage": func() {
		fmt.Println(`{"jsonrpc": "2.0", "no": `)
		fmt.Println("\x00\xff no JSON at all")
		_, _ = io.Copy(io.Discard, os.Stdin)
	},
	"silent": func() { // and does not end either
		signal.Ignore(syscall.SIGTERM)
		select {}
	},
	"exit": func() { os.Exit(3) },
	// stubborn serves, and then ends neither when its input does nor when it is asked to.
	"stubborn": func() {
		signal.Ignore(syscall.SIGTERM)
		_ = echoServer().Run(context.Background(), &sdk.StdioTransport{})
		select {}
	},
}

// TestMain runs the tests and finds out what they left running.
func TestMain(m *testing.M) {
	if program, ok := programs[os.Getenv(programEnv)]; ok {
		program()
		return
	}
	code := m.Run()
	for end := time.Now().Add(10 * time.Second); code == 0; runtime.Gosched() {
		left := goroutines("modelcontextprotocol/go-sdk", "everstep/tool/mcp.", "os/exec.(*Cmd)")
		if len(left) == 0 {
			break
		}
		if time.Now().After(end) {
			fmt.Printf("goroutines are left:\n\n%s\n", strings.Join(left, "\n\n"))
			code = 1
		}
	}
	os.Exit(code)
}

// goroutines returns the stacks that hold one of the texts.
func goroutines(texts ...string) (found []string) {
	buf := make([]byte, 16<<20)
	for stack := range bytes.SplitSeq(buf[:runtime.Stack(buf, true)], []byte("\n\n")) {
		for _, text := range texts {
			if bytes.Contains(stack, []byte(text)) && !bytes.Contains(stack, []byte("TestMain")) {
				found = append(found, string(stack))
				break
			}
		}
	}
	return found
}

// program is the configuration of a server that is one of the programs.
func program(t *testing.T, name string) mcp.Config {
	t.Helper()
	binary, err := os.Executable()
	require.NoError(t, err)
	return mcp.Config{Name: name, Command: binary, Env: []string{programEnv + "=" + name, "GORACE=atexit_sleep_ms=0"}}
}

type text struct {
	Text string `json:"text"`
}

// echoServer has a tool that says what it is told.
func echoServer() *sdk.Server {
	server := newServer()
	sdk.AddTool(server, &sdk.Tool{Name: "echo", Description: "Says it again."}, func(_ context.Context, _ *sdk.CallToolRequest, in text) (*sdk.CallToolResult, any, error) {
		return say(in.Text), nil, nil
	})
	return server
}

// legacy is the version before servers asked by results.
const legacy = "2025-11-25"

func newServer(versions ...string) *sdk.Server {
	return sdk.NewServer(&sdk.Implementation{Name: "fake", Version: "1"}, &sdk.ServerOptions{SupportedProtocolVersions: versions})
}

func say(texts ...string) *sdk.CallToolResult {
	res := &sdk.CallToolResult{}
	for _, t := range texts {
		res.Content = append(res.Content, &sdk.TextContent{Text: t})
	}
	return res
}

// addTool adds a tool that takes anything.
func addTool(server *sdk.Server, name string, handler sdk.ToolHandler) {
	server.AddTool(&sdk.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, handler)
}

// A host keeps a server in this process and can break its connections.
type host struct {
	t      testing.TB
	server *sdk.Server

	mu    sync.Mutex // guards what follows
	conns []net.Conn
	fail  int // so many connections fail
	dials int
}

// transport is a Config.Transport.
func (h *host) transport() (sdk.Transport, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dials++
	if h.fail > 0 {
		h.fail--
		return nil, fmt.Errorf("nobody is there")
	}
	ours, theirs := net.Pipe()
	_, err := h.server.Connect(context.Background(), &sdk.IOTransport{Reader: ours, Writer: ours}, nil)
	h.conns = append(h.conns, ours)
	return &sdk.IOTransport{Reader: theirs, Writer: theirs}, err
}

// cut ends all connections; of the next ones so many fail.
func (h *host) cut(fail int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fail = fail
	for _, c := range h.conns {
		c.Close()
	}
	h.conns = nil
}

func (h *host) dialled() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.dials
}

// connect returns a client of a server in this process. Changes are made to its configuration.
func connect(t testing.TB, server *sdk.Server, changes ...func(*mcp.Config)) (*mcp.Client, *host) {
	t.Helper()
	h := &host{t: t, server: server}
	config := mcp.Config{Name: "fake", Transport: h.transport}
	for _, change := range changes {
		change(&config)
	}
	client, err := mcp.Connect(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client, h
}

// call calls a tool of a client outside of an agent.
func call(ctx context.Context, client *mcp.Client, name, arguments string) (string, error) {
	for _, tool := range client.Tools() {
		if tool.Spec().Name == name {
			r, err := tool.Call(ctx, react.ToolCall{ID: "c1", Name: name, Arguments: json.RawMessage(arguments), IdempotencyKey: "key"})
			return string(r.Output), err
		}
	}
	return "", fmt.Errorf("no tool %q", name)
}

func toolNames(client *mcp.Client) (names []string) {
	for _, tool := range client.Tools() {
		names = append(names, tool.Spec().Name)
	}
	return names
}

// newAgent returns an agent with the tools of a client.
func newAgent(t testing.TB, model react.Model, tools []react.Tool) *react.Agent {
	t.Helper()
	return newAgentOn(t, memory.New(nil), model, tools)
}

func newAgentOn(t testing.TB, st store.Store, model react.Model, tools []react.Tool) *react.Agent {
	t.Helper()
	agent, err := react.New(react.Config{Name: "agent", Model: model, Tools: tools, Store: st})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, agent.Shutdown(context.WithoutCancel(t.Context()))) })
	return agent
}

// run runs an agent to its end.
func run(t testing.TB, agent *react.Agent, in react.Input) (events []event.Data, questions []graph.Question) {
	t.Helper()
	for e, err := range agent.Run(t.Context(), in) {
		require.NoError(t, err)
		events = append(events, e.Data)
	}
	if in.Session != uuid.Nil {
		var err error
		questions, err = agent.Questions(t.Context(), "", in.Session)
		require.NoError(t, err)
	}
	return events, questions
}

// of returns the events of a type.
func of[D event.Data](events []event.Data) (found []D) {
	for _, e := range events {
		if d, ok := e.(D); ok {
			found = append(found, d)
		}
	}
	return found
}
