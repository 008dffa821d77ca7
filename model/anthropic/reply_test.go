package anthropic_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/message"
)

func TestUsageIsExact(t *testing.T) {
	t.Run("the last number of each kind counts", func(t *testing.T) {
		require.Equal(t, message.Usage{InputTokens: 115, CachedInputTokens: 100, OutputTokens: 42},
			reply(t, append([]string{messageStart}, ended("end_turn")...)...).Usage)
	})
	t.Run("the end may count all of them again, and thinking", func(t *testing.T) {
		r := reply(t, messageStart,
			`{"type":"message_delta","delta":{"stop_reason":null},"usage":{"output_tokens":20}}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"input_tokens":12,"cache_creation_input_tokens":5,"cache_read_input_tokens":300,"output_tokens":50,"output_tokens_details":{"thinking_tokens":30}}}`,
			messageStop)
		require.Equal(t, message.Usage{InputTokens: 317, CachedInputTokens: 300, OutputTokens: 50, ReasoningTokens: 30}, r.Usage)
	})
}

func TestFinishReasons(t *testing.T) {
	for reason, want := range map[string]message.FinishReason{
		"end_turn":                      message.FinishStop,
		"stop_sequence":                 message.FinishStop,
		"tool_use":                      message.FinishToolCalls,
		"max_tokens":                    message.FinishLength,
		"model_context_window_exceeded": message.FinishLength,
		"refusal":                       message.FinishRefusal,
		"pause_turn":                    message.FinishUnknown,
		"one of tomorrow":               message.FinishUnknown,
	} {
		require.Equal(t, want, reply(t, append([]string{messageStart}, ended(reason)...)...).FinishReason, reason)
	}
	require.Equal(t, message.FinishUnknown, reply(t, messageStart, messageStop).FinishReason)
	tool := start(0, `{"type":"tool_use","id":"a","name":"weather","input":{}}`)
	require.Equal(t, message.FinishToolCalls, reply(t, messageStart, tool, stop(0), messageStop).FinishReason, "no reason, but a call")
}

func TestStream(t *testing.T) {
	end := ended("tool_use")
	tool := func(id string) string { return `{"type":"tool_use","id":"` + id + `","name":"weather","input":{}}` }
	for _, c := range []struct {
		name   string
		events []string
		want   message.Reply
	}{
		{"a call without input has an empty object", []string{start(0, tool("a")), inputDelta(0, ""), stop(0)},
			message.Reply{ToolCalls: []message.ToolCall{call("a", `{}`)}}},
		{"malformed input stays text", []string{start(0, tool("a")), inputDelta(0, `{"city": `), stop(0)},
			message.Reply{ToolCalls: []message.ToolCall{call("a", `"{\"city\": "`)}}},
		{"blocks may interleave", []string{
			start(0, `{"type":"thinking","thinking":"","signature":""}`), start(1, `{"type":"text","text":""}`), start(2, tool("a")), start(3, tool("b")),
			inputDelta(3, `{"city":`), delta(0, "thinking_delta", "thinking", "Think"), inputDelta(2, `{"city":`), textDelta(1, "It "),
			inputDelta(2, `"Oslo"}`), delta(0, "thinking_delta", "thinking", "ing."), inputDelta(3, `"Ås"}`), textDelta(1, "rains."),
			delta(0, "signature_delta", "signature", "sea"), stop(3), delta(0, "signature_delta", "signature", "led"), stop(0), stop(1), stop(2),
		}, message.Reply{
			Reasoning: []message.ReasoningDone{{Text: "Thinking.", Signature: "sealed"}}, Text: "It rains.",
			ToolCalls: []message.ToolCall{call("a", `{"city":"Oslo"}`), call("b", `{"city":"Ås"}`)},
		}},
		{"thinking may be several blocks, without text, or redacted", []string{
			start(0, `{"type":"thinking","thinking":"","signature":""}`), delta(0, "thinking_delta", "thinking", "One."), delta(0, "signature_delta", "signature", "first"), stop(0),
			start(1, `{"type":"redacted_thinking","data":"opaque"}`), stop(1),
			start(2, `{"type":"thinking","thinking":"","signature":""}`), delta(2, "signature_delta", "signature", "third"), stop(2),
			start(3, `{"type":"thinking","thinking":"Four.","signature":"fourth"}`), stop(3),
		}, message.Reply{Reasoning: []message.ReasoningDone{
			{Text: "One.", Signature: "first"}, {Signature: "redacted_thinking:opaque"}, {Signature: "third"}, {Text: "Four.", Signature: "fourth"},
		}}},
		{"text may be there when its block starts", []string{start(0, `{"type":"text","text":"It "}`), textDelta(0, "rains."), stop(0)},
			message.Reply{Text: "It rains."}},
		{"unknown events, blocks and deltas are skipped", []string{
			`{"type":"weather_forecast","sky":"blue"}`, `{}`, ping,
			start(0, `{"type":"server_tool_use","id":"srv","name":"web_search","input":{}}`), inputDelta(0, `{"query":"Oslo"}`), stop(0),
			start(1, `{"type":"web_search_tool_result","tool_use_id":"srv","content":[]}`), stop(1),
			start(2, `{"type":"hologram","light":1}`), delta(2, "light_delta", "light", "x"), stop(2),
			start(3, `{"type":"text","text":""}`), textDelta(3, "Rain."),
			`{"type":"content_block_delta","index":3,"delta":{"type":"citations_delta","citation":{"type":"web_search_result_location","url":"https://example.com"}}}`, stop(3),
			inputDelta(77, "lost"), stop(78),
		}, message.Reply{Text: "Rain."}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := reply(t, append(append([]string{messageStart}, c.events...), end...)...)
			c.want.Model, c.want.FinishReason, c.want.Usage = "claude", message.FinishToolCalls, message.Usage{InputTokens: 115, CachedInputTokens: 100, OutputTokens: 42}
			require.Equal(t, c.want, got)
		})
	}
}

func TestThinkingGoesBackAsItCame(t *testing.T) {
	all := []string{messageStart,
		start(0, `{"type":"thinking","thinking":"","signature":""}`), delta(0, "thinking_delta", "thinking", "It rains."), delta(0, "signature_delta", "signature", "c2Vh+/=="), stop(0),
		start(1, `{"type":"redacted_thinking","data":"b3Bh+/=="}`), stop(1),
		start(2, `{"type":"text","text":""}`), textDelta(2, "Umbrella."), stop(2)}
	fake := serve(t, events(append(all, ended("end_turn")...)...))
	first, err := say(t, fake.model())
	require.NoError(t, err)
	request := hello()
	for _, r := range first.Reasoning {
		request.Messages = append(request.Messages, message.NewReasoning(r.Text, r.Signature))
	}
	request.Messages = append(request.Messages, message.NewAssistant(first.Text), message.NewUser("Really?"))
	_, err = message.Collect(fake.model().Generate(t.Context(), request))
	require.NoError(t, err)
	var sent struct {
		Messages []struct{ Content json.RawMessage }
	}
	require.NoError(t, json.Unmarshal(fake.body, &sent))
	require.JSONEq(t, `[
		{"type":"thinking","thinking":"It rains.","signature":"c2Vh+/=="},
		{"type":"redacted_thinking","data":"b3Bh+/=="},
		{"type":"text","text":"Umbrella."}
	]`, string(sent.Messages[1].Content))
}

func TestStructuredOutputIsText(t *testing.T) {
	fake := serve(t, events(stream(message.Reply{Text: `{"a":"b"}`, FinishReason: message.FinishStop})...))
	request := hello()
	request.Output = json.RawMessage(`{"type":"object"}`)
	r, err := message.Collect(fake.model().Generate(t.Context(), request))
	require.NoError(t, err)
	require.JSONEq(t, `{"a":"b"}`, r.Text)
}
