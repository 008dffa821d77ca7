package modeltest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
)

// RunFaults checks that an adapter takes the faults of a mock for what they are, and that it asks
// once. The model's name is one that the mock knows.
func RunFaults(t *testing.T, mock *Mock, m react.Model, name string) {
	reply := message.Reply{Text: "It rains in Oslo today.", FinishReason: message.FinishStop}
	ask := func(ctx context.Context) (message.Reply, error) {
		req := hello()
		req.Model = name
		return message.Collect(m.Generate(ctx, req))
	}
	t.Run("limits, overload, then a reply", func(t *testing.T) {
		mock.Answer(t,
			Answer{Status: 429, Code: "rate_limit_exceeded", Message: "Slow down.", RetryAfter: 7},
			Answer{Status: 529}, Answer{Status: 503}, Answer{Reply: reply})
		for _, want := range []struct {
			status int
			kind   error
			after  time.Duration
		}{{429, message.ErrRateLimited, 7 * time.Second}, {529, message.ErrOverloaded, 0}, {503, message.ErrOverloaded, 0}} {
			_, err := ask(t.Context())
			require.ErrorIs(t, err, want.kind)
			said, ok := errors.AsType[*message.ProviderError](err)
			require.True(t, ok)
			require.Equal(t, want.status, said.Status)
			require.NotEmpty(t, said.Message)
			passing, ok := errors.AsType[*message.TransientError](err)
			require.True(t, ok)
			require.Equal(t, want.after, passing.RetryAfter)
		}
		got, err := ask(t.Context())
		require.NoError(t, err)
		require.Equal(t, reply.Text, got.Text)
		require.Len(t, mock.Requests(t), 4, "nothing was tried again")
	})
	t.Run("a reply that is cut", func(t *testing.T) {
		mock.Answer(t, Answer{Reply: reply, CutAfter: 6, ChunkSize: 2})
		got, err := ask(t.Context())
		require.ErrorIs(t, err, message.ErrCutOff)
		require.NotEmpty(t, got.Text)
		_, passes := errors.AsType[*message.TransientError](err)
		require.True(t, passes)
	})
	t.Run("a slow first byte", func(t *testing.T) {
		mock.Answer(t, Answer{Reply: reply, Delay: 100 * time.Millisecond})
		got, err := ask(t.Context())
		require.NoError(t, err)
		require.Equal(t, reply.Text, got.Text)
	})
	t.Run("a first byte that does not come", func(t *testing.T) {
		mock.Answer(t, Answer{Reply: reply, Delay: time.Hour})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := ask(ctx)
		require.Equal(t, context.DeadlineExceeded, err)
	})
}

// RunLive asks a real provider, as its adapter does when its key is set: for a tool twice at once,
// and for an answer from the results, with the reasoning that led to the calls.
func RunLive(t *testing.T, m react.Model, req *message.Request) {
	req.System = "Answer with the tool's results, in one line."
	req.Messages = []message.Message{message.NewUser("What is the weather in Oslo, and in Bergen? Call the tool for both at once.")}
	req.Tools = []message.ToolSpec{{
		Name: "weather", Description: "Current weather in a city.",
		Parameters: []byte(`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`),
	}}
	reply, err := message.Collect(m.Generate(t.Context(), req))
	require.NoError(t, err)
	require.NotEmpty(t, reply.ToolCalls)
	require.Equal(t, message.FinishToolCalls, reply.FinishReason)
	require.Positive(t, reply.Usage.InputTokens)
	require.Positive(t, reply.Usage.OutputTokens)
	require.NotEmpty(t, reply.Model)
	for _, r := range reply.Reasoning {
		req.Messages = append(req.Messages, message.NewReasoning(r.Text, r.Signature))
	}
	req.Messages = append(req.Messages, message.NewAssistant(reply.Text, reply.ToolCalls...))
	for _, c := range reply.ToolCalls {
		req.Messages = append(req.Messages, message.NewTool(c.ID, "rain"))
	}
	reply, err = message.Collect(m.Generate(t.Context(), req))
	require.NoError(t, err)
	require.NotEmpty(t, reply.Text)
	require.Equal(t, message.FinishStop, reply.FinishReason)
}
