package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/store"
	"github.com/everstep-go/everstep/store/memory"
	"github.com/everstep-go/everstep/tool/mcp"
)

// parrot returns an agent that says what it hears, and how many messages there are; but calls what a message
// "call NAME ARGUMENTS" says.
func parrot(change func(*react.Config)) *react.Agent {
	pay := func(_ context.Context, in struct{ Amount int }) (string, error) {
		return fmt.Sprint("paid ", in.Amount), nil
	}
	ask := func(ctx context.Context, _ struct{}) (string, error) {
		return graph.Interrupt[string](ctx, "", "Which colour?")
	}
	config := react.Config{
		Name: "parrot", Description: "Says what it hears.", Store: memory.New(nil), Logger: slog.New(slog.DiscardHandler),
		Tools: []react.Tool{
			react.NewTool("pay", "Pays.", pay, &react.ToolOptions{Approval: true}),
			react.NewTool("ask", "Asks.", ask),
		},
		Model: react.ModelFunc(func(_ context.Context, req *message.Request) (message.Reply, error) {
			switch m := req.Messages[len(req.Messages)-1].(type) {
			case *message.User:
				if words := strings.SplitN(m.Text(), " ", 3); len(words) == 3 && words[0] == "call" {
					return message.Reply{ToolCalls: []message.ToolCall{{ID: "c1", Name: words[1], Arguments: json.RawMessage(words[2])}}, FinishReason: message.FinishToolCalls}, nil
				}
				if m.Text() == "fail" {
					return message.Reply{}, errors.New("no voice")
				}
				return message.Reply{Text: fmt.Sprintf("%s (%d)", m.Text(), len(req.Messages)), FinishReason: message.FinishStop}, nil
			case *message.Tool:
				return message.Reply{Text: m.Text(), FinishReason: message.FinishStop}, nil
			}
			return message.Reply{}, errors.New("nobody said anything")
		}),
	}
	if change != nil {
		change(&config)
	}
	agent, err := react.New(config)
	if err != nil {
		panic(err)
	}
	return agent
}

// A peer is a client of a server of ours.
type peer struct {
	*sdk.ClientSession
	mu   sync.Mutex // guards told
	told []string
}

func dialPeer(t testing.TB, server *sdk.Server, version string, answer func(*sdk.ElicitParams) *sdk.ElicitResult) *peer {
	t.Helper()
	p := &peer{}
	opts := &sdk.ClientOptions{ProgressNotificationHandler: func(_ context.Context, req *sdk.ProgressNotificationClientRequest) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.told = append(p.told, fmt.Sprint(req.Params.Progress, " ", req.Params.Message))
	}}
	if answer != nil {
		opts.ElicitationHandler = func(_ context.Context, req *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			return answer(req.Params), nil
		}
	}
	ours, theirs := sdk.NewInMemoryTransports()
	_, err := server.Connect(context.WithoutCancel(t.Context()), ours, nil)
	require.NoError(t, err)
	p.ClientSession, err = sdk.NewClient(&sdk.Implementation{Name: "peer"}, opts).Connect(t.Context(), theirs, &sdk.ClientSessionOptions{ProtocolVersion: version})
	require.NoError(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}

type report struct {
	SessionID string           `json:"session_id"`
	Answer    any              `json:"answer"`
	Questions []graph.Question `json:"questions"`
}

// say calls the agent and returns the text and the structured content of the result.
func (p *peer) say(t testing.TB, arguments any) (text string, r report, isError bool) {
	t.Helper()
	res, err := p.CallTool(t.Context(), &sdk.CallToolParams{Name: "parrot", Arguments: arguments, Meta: sdk.Meta{"progressToken": "p"}})
	require.NoError(t, err)
	require.Len(t, res.Content, 1)
	data, err := json.Marshal(res.StructuredContent)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &r))
	return res.Content[0].(*sdk.TextContent).Text, r, res.IsError
}

type args = map[string]any

func serveParrot(t testing.TB, change func(*react.Config), opts *mcp.ServerOptions) *sdk.Server {
	t.Helper()
	agent := parrot(change)
	t.Cleanup(func() { require.NoError(t, agent.Shutdown(context.WithoutCancel(t.Context()))) })
	return mcp.NewServer(agent, opts)
}

func TestAnAgentIsATool(t *testing.T) {
	t.Parallel()
	for _, version := range sdk.SupportedProtocolVersions() {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			p := dialPeer(t, serveParrot(t, nil, nil), version, nil)
			list, err := p.ListTools(t.Context(), nil)
			require.NoError(t, err)
			require.Len(t, list.Tools, 1)
			assert.Equal(t, "parrot", list.Tools[0].Name)
			assert.Equal(t, "Says what it hears.", list.Tools[0].Description)

			text, first, isError := p.say(t, args{"message": "hello"})
			assert.False(t, isError)
			assert.Equal(t, "hello (1)", text)
			assert.Equal(t, "hello (1)", first.Answer)
			text, second, _ := p.say(t, args{"message": "again", "session_id": first.SessionID})
			assert.Equal(t, "again (3)", text)
			assert.Equal(t, first.SessionID, second.SessionID)

			text, _, isError = p.say(t, args{"message": "fail", "session_id": first.SessionID})
			assert.True(t, isError)
			assert.Contains(t, text, "the agent failed (model_error): ")
			assert.Contains(t, text, first.SessionID)
			for wrong, args := range map[string]args{
				"session_id: ":                           {"message": "x", "session_id": "x"},
				"either a message or answers are needed": {},
				"nothing is interrupted":                 {"answers": args{"c1": true}, "session_id": first.SessionID},
				`validating "arguments"`:                 {"message": 7},
			} {
				text, _, isError := p.say(t, args)
				assert.True(t, isError)
				assert.Contains(t, text, wrong)
			}
		})
	}
}

func TestAnAnswerInJSONIsStructured(t *testing.T) {
	t.Parallel()
	type place struct {
		City string `json:"city"`
	}
	p := dialPeer(t, serveParrot(t, func(c *react.Config) {
		c.Output = react.OutputOf[place]()
		c.Model = react.ModelFunc(func(context.Context, *message.Request) (message.Reply, error) {
			return message.Reply{Text: `{"city":"Oslo"}`, FinishReason: message.FinishStop}, nil
		})
	}, nil), "", nil)
	text, r, _ := p.say(t, args{"message": "where?"})
	assert.Equal(t, `{"city":"Oslo"}`, text)
	assert.Equal(t, args{"city": "Oslo"}, r.Answer)
}

func TestAClientHearsWhatTheAgentDoes(t *testing.T) {
	t.Parallel()
	p := dialPeer(t, serveParrot(t, nil, nil), "", func(*sdk.ElicitParams) *sdk.ElicitResult {
		return &sdk.ElicitResult{Action: "accept", Content: args{"answer": "red"}}
	})
	text, _, _ := p.say(t, args{"message": "call ask {}"})
	assert.Equal(t, "red", text)
	require.Eventually(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.told) >= 2 && strings.HasSuffix(p.told[0], "calling ask")
	}, testWait, testTick)
}

func TestClientsThatCanBeAskedAre(t *testing.T) {
	t.Parallel()
	accept := func(content args) func(*sdk.ElicitParams) *sdk.ElicitResult {
		return func(*sdk.ElicitParams) *sdk.ElicitResult {
			return &sdk.ElicitResult{Action: "accept", Content: content}
		}
	}
	decline := func(*sdk.ElicitParams) *sdk.ElicitResult { return &sdk.ElicitResult{Action: "decline"} }
	for _, version := range []string{legacy, "2026-07-28"} {
		for name, c := range map[string]struct {
			message string
			answer  func(*sdk.ElicitParams) *sdk.ElicitResult
			asked   string
			want    string
		}{
			"a text":             {"call ask {}", accept(args{"answer": "red"}), "Which colour?", "red"},
			"no text":            {"call ask {}", decline, "Which colour?", "The agent has to be told something"},
			"agreement":          {`call pay {"Amount":7}`, accept(args{"approved": true}), `May the agent call pay with {"Amount":7}?`, "paid 7"},
			"no agreement":       {`call pay {"Amount":7}`, accept(args{"approved": false, "reason": "too much"}), "May the agent", "too much"},
			"declined agreement": {`call pay {"Amount":7}`, decline, "May the agent", "the call was rejected"},
		} {
			t.Run(version+" "+name, func(t *testing.T) {
				t.Parallel()
				var asked []string
				p := dialPeer(t, serveParrot(t, nil, nil), version, func(p *sdk.ElicitParams) *sdk.ElicitResult {
					asked = append(asked, p.Message)
					return c.answer(p)
				})
				text, r, isError := p.say(t, args{"message": c.message})
				assert.False(t, isError)
				assert.Contains(t, text, c.want)
				assert.NotEmpty(t, r.SessionID)
				require.Len(t, asked, 1)
				assert.Contains(t, asked[0], c.asked)
			})
		}
	}
}

func TestOtherClientsAnswerInAnotherCall(t *testing.T) {
	t.Parallel()
	p := dialPeer(t, serveParrot(t, nil, nil), "", nil)
	text, r, isError := p.say(t, args{"message": "call ask {}"})
	assert.False(t, isError)
	assert.Contains(t, text, "Call again with session_id "+r.SessionID)
	assert.Contains(t, text, `"c1", asked by ask: "Which colour?"`)
	require.Len(t, r.Questions, 1)
	assert.Equal(t, graph.Question{ID: "c1", Name: "ask", Payload: json.RawMessage(`"Which colour?"`)}, r.Questions[0])
	text, r, _ = p.say(t, args{"session_id": r.SessionID, "answers": args{"c1": "blue"}})
	assert.Equal(t, "blue", text)
	assert.Empty(t, r.Questions)
}

func TestTenantsHaveTheirOwnSessions(t *testing.T) {
	t.Parallel()
	tenant := "a"
	p := dialPeer(t, serveParrot(t, nil, &mcp.ServerOptions{Tenant: func(context.Context, *sdk.CallToolRequest) (string, error) {
		if tenant == "" {
			return "", errors.New("who are you?")
		}
		return tenant, nil
	}}), "", nil)
	session := uuid.NewString()
	for _, c := range []struct{ tenant, want string }{{"a", "hi (1)"}, {"a", "hi (3)"}, {"b", "hi (1)"}, {"", "who are you?"}} {
		tenant = c.tenant
		text, _, _ := p.say(t, args{"message": "hi", "session_id": session})
		assert.Equal(t, c.want, text)
	}
}

func TestARunEndsWithItsRequest(t *testing.T) {
	t.Parallel()
	started, ended := make(chan struct{}), make(chan struct{})
	st := memory.New(nil)
	p := dialPeer(t, serveParrot(t, func(c *react.Config) {
		c.Store = st
		c.Model = react.ModelFunc(func(ctx context.Context, _ *message.Request) (message.Reply, error) {
			close(started)
			<-ctx.Done()
			close(ended)
			return message.Reply{}, ctx.Err()
		})
	}, nil), "", nil)
	ctx, cancel := context.WithCancel(t.Context())
	session := uuid.New()
	var run *store.Run
	go func() {
		defer cancel()
		<-started
		if s, err := st.Session(ctx, graph.DefaultTenant, session); assert.NoError(t, err) {
			run, err = st.Run(ctx, graph.DefaultTenant, s.Active)
			assert.NoError(t, err)
		}
	}()
	_, err := p.CallTool(ctx, &sdk.CallToolParams{Name: "parrot", Arguments: args{"message": "hi", "session_id": session}})
	require.ErrorIs(t, err, context.Canceled)
	<-ended
	require.NotNil(t, run)
	require.True(t, run.Attached, "or another process would go on with it, for nobody")
}

// What an MCP server asks an agent's tool, the agent's own client is asked in the same words.
func TestQuestionsPassThroughAnAgent(t *testing.T) {
	t.Parallel()
	client, _ := connect(t, newClerk(legacy).Server)
	for _, version := range []string{legacy, "2026-07-28"} {
		var asked *sdk.ElicitParams
		p := dialPeer(t, serveParrot(t, func(c *react.Config) { c.Tools = client.Tools() }, nil), version, func(p *sdk.ElicitParams) *sdk.ElicitResult {
			asked = p
			return &sdk.ElicitResult{Action: "accept", Content: args{"seat": "7A"}}
		})
		text, _, _ := p.say(t, args{"message": `call fake__book {"what":"train"}`})
		assert.Equal(t, "train: accept 7A", text)
		require.NotNil(t, asked)
		assert.Equal(t, "Which seat on the train?", asked.Message)
		schema, err := json.Marshal(asked.RequestedSchema)
		require.NoError(t, err)
		assert.JSONEq(t, string(seatSchema), string(schema))
	}
}
