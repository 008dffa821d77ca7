package a2a_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/httpapi/a2a"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/store/memory"
)

// Tests wait for what happens, so long at most.
const (
	testWait = 20 * time.Second
	testTick = 10 * time.Millisecond
)

var quiet = slog.New(slog.DiscardHandler)

// parrot returns an agent that says what it hears, and how many messages there are; but calls what a message
// "call NAME ARGUMENTS" says, with the text before it if there are two lines.
func parrot(t testing.TB, change func(*react.Config)) *react.Agent {
	t.Helper()
	pay := func(_ context.Context, in struct{ Amount int }) (string, error) {
		return fmt.Sprint("paid ", in.Amount), nil
	}
	ask := func(ctx context.Context, _ struct{}) (string, error) {
		return graph.Interrupt[string](ctx, "", "Which colour?")
	}
	note := func(ctx context.Context, in struct{ Text string }) (react.ToolResult, error) {
		text, _ := json.Marshal(in.Text)
		return react.ToolResult{StateUpdate: fmt.Appendf(nil, `[{"op":"add","path":"/context/-","value":{"op":"add","path":"/note","value":%s}}]`, text)}, nil
	}
	sleep := func(ctx context.Context, _ struct{}) (string, error) {
		<-ctx.Done()
		return "", context.Cause(ctx)
	}
	config := react.Config{
		Name: "parrot", Description: "Says what it hears.", Store: memory.New(nil), Logger: quiet,
		Tools: []react.Tool{
			react.NewTool("pay", "Pays.", pay, &react.ToolOptions{Approval: true}),
			react.NewTool("ask", "Asks.", ask), react.NewTool("note", "Notes.", note), react.NewTool("sleep", "Sleeps.", sleep),
		},
		Model: react.ModelFunc(say),
	}
	if change != nil {
		change(&config)
	}
	return newAgent(t, config)
}

func newAgent(t testing.TB, config react.Config) *react.Agent {
	t.Helper()
	agent, err := react.New(config)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), testTick)
		defer cancel()
		_ = agent.Shutdown(ctx) // runs that sleep are stopped
	})
	return agent
}

func say(_ context.Context, req *message.Request) (message.Reply, error) {
	switch m := req.Messages[len(req.Messages)-1].(type) {
	case *message.User:
		before, last := "", m.Text()
		if i := strings.LastIndexByte(last, '\n'); i >= 0 {
			before, last = last[:i], last[i+1:]
		}
		if words := strings.SplitN(last, " ", 3); len(words) == 3 && words[0] == "call" {
			return message.Reply{Text: before, ToolCalls: []message.ToolCall{{ID: "c1", Name: words[1], Arguments: json.RawMessage(words[2])}}, FinishReason: message.FinishToolCalls}, nil
		}
		if m.Text() == "fail" {
			return message.Reply{}, errors.New("no voice")
		}
		return message.Reply{Text: fmt.Sprintf("%s (%d)", m.Text(), len(req.Messages)), FinishReason: message.FinishStop}, nil
	case *message.Tool:
		return message.Reply{Text: m.Text(), FinishReason: message.FinishStop}, nil
	}
	return message.Reply{}, errors.New("nobody said anything")
}

// bundle is what most tests need: an agent that is served, and how to reach it.
type bundle struct {
	agent  *react.Agent
	server *a2a.Server
	web    *httptest.Server
	url    string
}

func serve(t testing.TB, agent *react.Agent, changes ...func(*a2a.ServerConfig)) *bundle {
	t.Helper()
	b := &bundle{agent: agent}
	mux := http.NewServeMux()
	b.web = httptest.NewServer(mux)
	t.Cleanup(b.web.Close)
	b.url = b.web.URL + "/agents/parrot"
	config := a2a.ServerConfig{URL: b.url, Logger: quiet}
	config.Push.AllowPrivate = true
	for _, change := range changes {
		change(&config)
	}
	var err error
	b.server, err = a2a.NewServer(agent, config)
	require.NoError(t, err)
	mux.Handle("/agents/parrot/", http.StripPrefix("/agents/parrot", b.server))
	mux.Handle(a2a.WellKnown, b.server)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = b.server.Serve(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-over
	})
	return b
}

// bindings are those that every test of an operation runs on.
var bindings = []sdk.TransportProtocol{sdk.TransportProtocolJSONRPC, sdk.TransportProtocolHTTPJSON}

// client is the SDK's client on one binding.
func (b *bundle) client(t testing.TB, binding sdk.TransportProtocol) *a2aclient.Client {
	t.Helper()
	url := b.url
	if binding == sdk.TransportProtocolJSONRPC {
		url += "/"
	}
	c, err := a2aclient.NewFromEndpoints(t.Context(), []*sdk.AgentInterface{sdk.NewAgentInterface(url, binding)},
		a2aclient.WithJSONRPCTransport(&http.Client{}), a2aclient.WithRESTTransport(&http.Client{}))
	require.NoError(t, err)
	return c
}

// eachBinding runs a test on each binding, with a parrot of its own.
func eachBinding(t *testing.T, test func(t *testing.T, b *bundle, c *a2aclient.Client), change ...func(*a2a.ServerConfig)) {
	t.Helper()
	for _, binding := range bindings {
		t.Run(string(binding), func(t *testing.T) {
			t.Parallel()
			b := serve(t, parrot(t, nil), change...)
			test(t, b, b.client(t, binding))
		})
	}
}

func ask(text string) *sdk.SendMessageRequest {
	return &sdk.SendMessageRequest{Message: sdk.NewMessage(sdk.MessageRoleUser, sdk.NewTextPart(text))}
}

// about makes a message one about a task, or with only its context one of the same conversation.
func about(req *sdk.SendMessageRequest, id sdk.TaskID, contextID string) *sdk.SendMessageRequest {
	req.Message.TaskID, req.Message.ContextID = id, contextID
	return req
}

func atOnce(req *sdk.SendMessageRequest) *sdk.SendMessageRequest {
	req.Config = &sdk.SendMessageConfig{ReturnImmediately: true}
	return req
}

// send sends a message and returns the task.
func send(t testing.TB, c *a2aclient.Client, req *sdk.SendMessageRequest) *sdk.Task {
	t.Helper()
	res, err := c.SendMessage(t.Context(), req)
	require.NoError(t, err)
	task, ok := res.(*sdk.Task)
	require.True(t, ok, "%T", res)
	return task
}

// texts returns the texts of a task's artifacts.
func texts(task *sdk.Task) (all []string) {
	for _, a := range task.Artifacts {
		text := ""
		for _, p := range a.Parts {
			text += p.Text()
		}
		if a.ID != "state" {
			all = append(all, text)
		}
	}
	return all
}

func words(m *sdk.Message) string {
	if m == nil {
		return ""
	}
	return m.Parts[0].Text()
}
