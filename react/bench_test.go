package react_test

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/react/reacttest"
)

func BenchmarkTurn(b *testing.B) {
	agent := newAgent(b, react.Config{
		Model: react.ModelFunc(func(_ context.Context, req *message.Request) (message.Reply, error) {
			if len(req.Messages) == 1 {
				return message.Reply{ToolCalls: []message.ToolCall{reacttest.ToolCall("a", "weather", `{}`)}, FinishReason: message.FinishToolCalls}, nil
			}
			return message.Reply{Text: "cold", FinishReason: message.FinishStop}, nil
		}),
		Tools: []react.Tool{returns("weather", "9 degrees")},
	})
	b.ReportAllocs()
	for b.Loop() {
		run, err := agent.Start(b.Context(), react.Ask(uuid.Nil, "umbrella?"))
		require.NoError(b, err)
		_, err = run.Wait(b.Context())
		require.NoError(b, err)
	}
}
