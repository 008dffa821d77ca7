package reacttest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
)

// A Scenario is something that a provider does when it is asked.
type Scenario struct {
	// Reply is what it answers.
	Reply message.Reply
	// Transient and Permanent: it refuses before it answers anything, with an error that may or
	// may not pass.
	Transient, Permanent bool
	// Cut: the connection breaks after the first piece of the reply.
	Cut bool
	// Silent: it accepts the request and never answers.
	Silent bool
}

// A Provider arranges for a scenario, on a fake of the provider's server for example, and
// returns the adapter that meets it. It returns nil for what the provider cannot do, which
// skips the cases that need it.
type Provider func(t testing.TB, s Scenario) react.Model

// RunModel checks that an adapter keeps what react.Model promises.
func RunModel(t *testing.T, provider Provider) {
	for _, c := range modelCases {
		t.Run(c.name, func(t *testing.T) {
			m := provider(t, c.scenario)
			if m == nil {
				t.Skip("the provider cannot do this")
			}
			c.check(t, m, c.scenario)
		})
	}
}

type modelCase struct {
	name     string // the sentence that the case defends
	scenario Scenario
	check    func(t testing.TB, m react.Model, s Scenario)
}

var modelCases = []modelCase{
	{"a text arrives whole, and a Done ends it", Scenario{Reply: textReply}, checkReply},
	{"calls arrive whole and in order, each with its id, name and arguments", Scenario{Reply: callReply}, checkReply},
	{"text may come before calls", Scenario{Reply: message.Reply{
		Text: "Let me see.", ToolCalls: callReply.ToolCalls, FinishReason: message.FinishToolCalls,
	}}, checkReply},
	{"reasoning arrives with its signature", Scenario{Reply: message.Reply{
		Reasoning: []message.ReasoningDone{{Text: "It rains there.", Signature: "sealed"}}, Text: "Umbrella.", FinishReason: message.FinishStop,
	}}, checkReply},
	{"odd texts survive: quotes, HTML, newlines, emoji", Scenario{Reply: message.Reply{
		Text: "\"<b>a & b</b>\"\n\t\\ \u2028 😀", FinishReason: message.FinishStop,
	}}, checkReply},
	{"an empty reply is a reply", Scenario{Reply: message.Reply{FinishReason: message.FinishStop}}, checkReply},
	{"numbers in arguments keep their digits", Scenario{Reply: message.Reply{
		ToolCalls:    []message.ToolCall{{ID: "n", Name: "count", Arguments: json.RawMessage(`{"n":9007199254740993}`)}},
		FinishReason: message.FinishToolCalls,
	}}, checkReply},
	{"an error that may pass is marked as transient", Scenario{Transient: true}, func(t testing.TB, m react.Model, _ Scenario) {
		_, err := message.Collect(m.Generate(t.Context(), request()))
		_, transient := errors.AsType[*message.TransientError](err)
		require.True(t, transient, "%v", err)
	}},
	{"an error that will not pass is not", Scenario{Permanent: true}, func(t testing.TB, m react.Model, _ Scenario) {
		_, err := message.Collect(m.Generate(t.Context(), request()))
		require.Error(t, err)
		_, transient := errors.AsType[*message.TransientError](err)
		require.False(t, transient, "%v", err)
	}},
	{"a reply that is cut off ends in an error, never in a Done", Scenario{Reply: textReply, Cut: true}, func(t testing.TB, m react.Model, _ Scenario) {
		deltas, err := pull(t, m)
		require.Error(t, err)
		require.False(t, slices.ContainsFunc(deltas, isDone))
	}},
	{"nothing comes after an error, and a nil delta beside it", Scenario{Permanent: true}, func(t testing.TB, m react.Model, _ Scenario) {
		failed := false
		for d, err := range m.Generate(t.Context(), request()) {
			require.False(t, failed, "the sequence goes on after its error")
			failed = err != nil
			require.Equal(t, err != nil, d == nil)
		}
	}},
	{"the end of the context ends the call", Scenario{Silent: true}, func(t testing.TB, m react.Model, _ Scenario) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := message.Collect(m.Generate(ctx, request()))
			ended <- err
		}()
		cancel()
		require.Error(t, <-ended)
	}},
	{"a loop may be left at any time", Scenario{Reply: textReply}, func(t testing.TB, m react.Model, _ Scenario) {
		for range m.Generate(t.Context(), request()) {
			break
		}
	}},
	{"the request is not changed", Scenario{Reply: textReply}, func(t testing.TB, m react.Model, _ Scenario) {
		req, same := request(), request()
		_, err := message.Collect(m.Generate(t.Context(), req))
		require.NoError(t, err)
		before, err := json.Marshal(same)
		require.NoError(t, err)
		after, err := json.Marshal(req)
		require.NoError(t, err)
		require.JSONEq(t, string(before), string(after))
	}},
	{"many runs may ask at once", Scenario{Reply: textReply}, func(t testing.TB, m react.Model, s Scenario) {
		var wg sync.WaitGroup
		errs := make([]error, 16)
		for i := range errs {
			wg.Go(func() {
				reply, err := message.Collect(m.Generate(t.Context(), request()))
				if err == nil && reply.Text != s.Reply.Text {
					err = errors.New("another text: " + reply.Text)
				}
				errs[i] = err
			})
		}
		wg.Wait()
		require.NoError(t, errors.Join(errs...))
	}},
}

var (
	textReply = message.Reply{Text: "It rains in Oslo today.", FinishReason: message.FinishStop}
	callReply = message.Reply{
		ToolCalls: []message.ToolCall{
			{ID: "call_a", Name: "weather", Arguments: json.RawMessage(`{"city":"Oslo"}`)},
			{ID: "call_b", Name: "weather", Arguments: json.RawMessage(`{"city":"Ås \"north\""}`)},
		},
		FinishReason: message.FinishToolCalls,
	}
)

// request is a conversation with everything in it: a call, its result, a question.
func request() *message.Request {
	id := func(m message.Message, n byte) message.Message {
		m.Head().ID[15] = n
		return m
	}
	call := message.ToolCall{ID: "call_0", Name: "weather", Arguments: json.RawMessage(`{"city":"Bergen"}`)}
	return &message.Request{
		Model:  "any",
		System: "You are brief.",
		Messages: []message.Message{
			id(&message.User{Content: []message.Block{message.Text{Value: "And Bergen?"}}}, 1),
			id(&message.Assistant{ToolCalls: []message.ToolCall{call}}, 2),
			id(&message.Tool{ToolCallID: "call_0", Content: new("rain")}, 3),
			id(&message.Assistant{Content: "Rain."}, 4),
			id(&message.User{Content: []message.Block{message.Text{Value: "Oslo?"}}}, 5),
		},
		Tools: []message.ToolSpec{{
			Name: "weather", Description: "Current weather.",
			Parameters: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`),
		}},
	}
}

func pull(t testing.TB, m react.Model) (deltas []message.Delta, err error) {
	for d, err := range m.Generate(t.Context(), request()) {
		if err != nil {
			return deltas, err
		}
		deltas = append(deltas, d)
	}
	return deltas, nil
}

func isDone(d message.Delta) bool {
	_, ok := d.(message.Done)
	return ok
}

// checkReply wants what the provider answered, and a Done as the last delta.
func checkReply(t testing.TB, m react.Model, s Scenario) {
	deltas, err := pull(t, m)
	require.NoError(t, err)
	require.NotEmpty(t, deltas)
	require.True(t, isDone(deltas[len(deltas)-1]), "the last delta is a Done")
	require.False(t, slices.ContainsFunc(deltas[:len(deltas)-1], isDone), "there is one Done")
	var c message.Collector
	for _, d := range deltas {
		c.Add(d)
	}
	got := c.Reply()
	require.Equal(t, s.Reply.Text, got.Text)
	require.Equal(t, s.Reply.Reasoning, got.Reasoning)
	require.Equal(t, s.Reply.FinishReason, got.FinishReason)
	require.Len(t, got.ToolCalls, len(s.Reply.ToolCalls))
	for i, want := range s.Reply.ToolCalls {
		require.Equal(t, want.ID, got.ToolCalls[i].ID)
		require.Equal(t, want.Name, got.ToolCalls[i].Name)
		require.JSONEq(t, string(want.Arguments), string(got.ToolCalls[i].Arguments))
		require.Contains(t, string(got.ToolCalls[i].Arguments), digits(string(want.Arguments)))
	}
}

// digits returns the long number in a text, if there is one: JSON comparison would round it.
func digits(text string) string {
	for i := range text {
		if n := len(text[i:]) - len(trimDigits(text[i:])); n > 15 {
			return text[i : i+n]
		}
	}
	return ""
}

func trimDigits(s string) string {
	for len(s) > 0 && s[0] >= '0' && s[0] <= '9' {
		s = s[1:]
	}
	return s
}
