package react_test

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/react/reacttest"
	"github.com/everstep-go/everstep/store"
	"github.com/everstep-go/everstep/store/memory"
)

type place struct {
	City string `json:"city" jsonschema:"city name, such as Oslo"`
}

func weather(_ context.Context, in place) (string, error) { return "9 degrees in " + in.City, nil }

func kinds(t *testing.T, agent *react.Agent, in react.Input) (out []event.Kind) {
	for e, err := range agent.Run(t.Context(), in) {
		require.NoError(t, err)
		out = append(out, e.Data.Kind())
	}
	return out
}

func TestServerTool(t *testing.T) {
	st := memory.New(nil)
	model := reacttest.NewScript(
		reacttest.Call(reacttest.ToolCall("a", "weather", place{"Oslo"})),
		reacttest.Say("It is cold."),
	)
	agent, err := react.New(react.Config{
		Name: "forecaster", Model: model, Store: st,
		Tools: []react.Tool{react.NewTool("weather", "Current weather.", weather)},
	})
	require.NoError(t, err)
	session := uuid.New()
	got := kinds(t, agent, react.Ask(session, "umbrella?"))
	require.Equal(t, []event.Kind{
		event.KindRunStarted, event.KindStateSnapshot, event.KindToolCallStart, event.KindToolCallArgs, event.KindToolCallEnd,
		event.KindToolCallResult, event.KindTextMessageStart, event.KindTextMessageContent, event.KindTextMessageContent,
		event.KindTextMessageContent, event.KindTextMessageEnd, event.KindMessagesSnapshot, event.KindRunFinished,
	}, got)
	s, err := agent.State(t.Context(), "", session)
	require.NoError(t, err)
	var roles []message.Role
	for _, m := range s.Messages {
		roles = append(roles, m.Role())
	}
	require.Equal(t, []message.Role{"user", "assistant", "tool", "assistant"}, roles)
	page, err := agent.Checkpoints(t.Context(), store.CheckpointQuery{Session: session})
	require.NoError(t, err)
	for _, c := range page.Items {
		t.Log(c.Seq, c.Reason, c.Node, c.Next, c.Status)
	}
	require.Len(t, page.Items, 7)
}

func BenchmarkTurn(b *testing.B) {
	agent, err := react.New(react.Config{
		Name: "forecaster",
		Model: react.ModelFunc(func(_ context.Context, req *message.Request) (message.Reply, error) {
			if len(req.Messages) == 1 {
				return message.Reply{ToolCalls: []message.ToolCall{reacttest.ToolCall("a", "weather", `{"city":"Oslo"}`)}, FinishReason: message.FinishToolCalls}, nil
			}
			return message.Reply{Text: "cold", FinishReason: message.FinishStop}, nil
		}),
		Tools: []react.Tool{react.NewTool("weather", "Current weather.", weather)},
	})
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		run, err := agent.Start(b.Context(), react.Ask(uuid.Nil, "umbrella?"))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := run.Wait(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
