package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/google/uuid"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/react/reacttest"
	"github.com/everstep-go/everstep/store/memory"
)

// A clerk is a server that asks before it books.
type clerk struct {
	*sdk.Server
	mu   sync.Mutex // guards keys
	keys []any      // of the calls
}

var seatSchema = json.RawMessage(`{"type":"object","properties":{"seat":{"type":"string"}},"required":["seat"]}`)

func newClerk(version string) *clerk {
	c := &clerk{Server: newServer(version)}
	addTool(c.Server, "book", func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		c.mu.Lock()
		c.keys = append(c.keys, req.Params.Meta["everstep/idempotencyKey"])
		c.mu.Unlock()
		var in struct{ What string }
		if err := json.Unmarshal(req.Params.Arguments, &in); err != nil {
			return nil, err
		}
		ask := &sdk.ElicitParams{Message: "Which seat on the " + in.What + "?", RequestedSchema: seatSchema}
		if version != legacy && req.Params.InputResponses == nil {
			return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"seat": ask}}, nil
		}
		answer, ok := req.Params.InputResponses["seat"].(*sdk.ElicitResult)
		if !ok {
			var err error
			if answer, err = req.Session.Elicit(ctx, ask); err != nil {
				return nil, err
			}
		}
		return say(fmt.Sprintf("%s: %s %v", in.What, answer.Action, answer.Content["seat"])), nil
	})
	addTool(c.Server, "wait", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return say("waited"), nil })
	return c
}

func book(id, what string) reacttest.Step {
	return reacttest.Call(reacttest.ToolCall(id, "fake__book", fmt.Sprintf(`{"what":%q}`, what)))
}

func TestWhatAServerAsksTheRunAsks(t *testing.T) {
	t.Parallel()
	for _, version := range []string{legacy, "2026-07-28"} {
		for answer, want := range map[string]string{
			`{"action":"accept","content":{"seat":"7A"}}`: `"train: accept 7A"`,
			`{"action":"decline"}`:                        `"train: decline <nil>"`,
			`{"action":"cancel"}`:                         `"train: cancel <nil>"`,
		} {
			t.Run(version+" "+answer, func(t *testing.T) {
				t.Parallel()
				server := newClerk(version)
				client, _ := connect(t, server.Server)
				st, model := memory.New(nil), reacttest.NewScript(book("c1", "train"), reacttest.Say("well"))
				session := uuid.New()
				_, questions := run(t, newAgentOn(t, st, model, client.Tools()), react.Ask(session, "go"))
				require.Len(t, questions, 1)
				assert.Equal(t, "fake__book", questions[0].Name)
				assert.Regexp(t, `^c1:[0-9a-f]{16}$`, questions[0].ID)
				assert.JSONEq(t, `{"mode":"form","message":"Which seat on the train?","requestedSchema":`+string(seatSchema)+`}`, string(questions[0].Payload))

				// Days later, on another connection.
				require.NoError(t, client.Close())
				client, _ = connect(t, server.Server)
				events, questions := run(t, newAgentOn(t, st, model, client.Tools()), react.Answer(session, json.RawMessage(answer)))
				require.Empty(t, questions)
				results := of[event.ToolCallResult](events)
				require.Len(t, results, 1)
				assert.JSONEq(t, want, string(results[0].Content))

				require.GreaterOrEqual(t, len(server.keys), 2)
				for _, key := range server.keys {
					assert.NotEmpty(t, key)
					assert.Equal(t, server.keys[0], key)
				}
			})
		}
	}
}

func TestAnswersThatAreNone(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		`{"action":"perhaps"}`: `not accept, decline or cancel`,
		`"7A"`:                 `answer to`,
		`{"action":"accept","content":{"seat":7}}`: `does not match requested schema`,
	} {
		t.Run(answer, func(t *testing.T) {
			t.Parallel()
			server := newClerk("2026-07-28")
			client, _ := connect(t, server.Server)
			agent := newAgent(t, reacttest.NewScript(book("c1", "train"), reacttest.Say("well")), client.Tools())
			session := uuid.New()
			run(t, agent, react.Ask(session, "go"))
			events, questions := run(t, agent, react.Answer(session, json.RawMessage(answer)))
			require.Empty(t, questions)
			failed := of[event.ToolCallError](events)
			require.Len(t, failed, 1)
			assert.Contains(t, failed[0].Error, want)
		})
	}
}

// Whatever the server makes of it that nobody has answered yet, the run does not wait for it.
func TestAServerThatGoesOnWithoutAnAnswerIsCancelled(t *testing.T) {
	t.Parallel()
	server := newServer(legacy)
	addTool(server, "tool", func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		_, _ = req.Session.Elicit(ctx, &sdk.ElicitParams{Message: "Really?"})
		<-ctx.Done()
		return nil, ctx.Err()
	})
	client, _ := connect(t, server)
	agent := newAgent(t, reacttest.NewScript(reacttest.Call(reacttest.ToolCall("c1", "fake__tool", `{}`))), client.Tools())
	_, questions := run(t, agent, react.Ask(uuid.New(), "go"))
	require.Len(t, questions, 1)
}

// Before 2026-07-28 a server does not say in which call it asks.
func TestQuestionsFindTheirCalls(t *testing.T) {
	t.Parallel()
	for _, version := range []string{legacy, "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			server := newClerk(version)
			client, _ := connect(t, server.Server)
			calls := reacttest.Call(
				reacttest.ToolCall("c1", "fake__book", `{"what":"train"}`),
				reacttest.ToolCall("c2", "fake__wait", `{}`),
				reacttest.ToolCall("c3", "fake__book", `{"what":"boat"}`),
				reacttest.ToolCall("c4", "fake__book", `{"what":"plane"}`),
			)
			agent := newAgent(t, reacttest.NewScript(calls, reacttest.Say("well")), client.Tools())
			session := uuid.New()
			events, questions := run(t, agent, react.Ask(session, "go"))
			require.Len(t, questions, 3)
			require.Len(t, of[event.ToolCallResult](events), 1)
			answers := map[string]any{}
			for i, q := range questions {
				assert.Contains(t, q.ID, []string{"c1:", "c3:", "c4:"}[i])
				assert.Contains(t, string(q.Payload), []string{"train", "boat", "plane"}[i])
				answers[q.ID] = map[string]any{"action": "accept", "content": map[string]any{"seat": fmt.Sprint(i)}}
			}
			events, questions = run(t, agent, react.Answer(session, answers))
			require.Empty(t, questions)
			got := map[string]string{}
			for _, r := range of[event.ToolCallResult](events) {
				got[r.ToolCallID] = string(r.Content)
			}
			assert.Equal(t, map[string]string{"c1": `"train: accept 0"`, "c3": `"boat: accept 1"`, "c4": `"plane: accept 2"`}, got)
		})
	}
}

// The answer to one question is not the answer to another one, also in the same call.
func TestAnotherQuestionIsAskedAnew(t *testing.T) {
	t.Parallel()
	server := newServer(legacy)
	n := 0
	addTool(server, "tool", func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		n++
		r, err := req.Session.Elicit(ctx, &sdk.ElicitParams{Message: fmt.Sprintf("Delete file %d?", min(n, 2))})
		if err != nil {
			return nil, err
		}
		again, err := req.Session.Elicit(ctx, &sdk.ElicitParams{Message: "Delete file 2?"})
		if err != nil {
			return nil, err
		}
		return say(r.Action + again.Action), nil
	})
	client, _ := connect(t, server)
	agent := newAgent(t, reacttest.NewScript(reacttest.Call(reacttest.ToolCall("c1", "fake__tool", `{}`)), reacttest.Say("well")), client.Tools())
	session := uuid.New()
	_, first := run(t, agent, react.Ask(session, "go"))
	require.Len(t, first, 1)
	_, second := run(t, agent, react.Answer(session, map[string]string{"action": "accept"}))
	require.Len(t, second, 1)
	assert.Contains(t, string(second[0].Payload), "Delete file 2?")
	_, third := run(t, agent, react.Answer(session, map[string]string{"action": "decline"}))
	require.Len(t, third, 1)
	assert.NotEqual(t, second[0].ID, third[0].ID, "asked twice, answered twice")
	events, last := run(t, agent, react.Answer(session, map[string]string{"action": "cancel"}))
	require.Empty(t, last)
	require.Len(t, of[event.ToolCallResult](events), 1)
	assert.Equal(t, `"declinecancel"`, string(of[event.ToolCallResult](events)[0].Content))
}
