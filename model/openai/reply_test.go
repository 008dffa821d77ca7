package openai_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/model/openai"
)

var sse = http.Header{"Content-Type": {"text/event-stream"}, "X-Request-Id": {"req_1"}}

// replied reads the reply of these events.
func replied(t testing.TB, api openai.API, events ...string) (message.Reply, error) {
	t.Helper()
	return collect(t, answering(api, http.StatusOK, sse, stream(events...)), ask())
}

func TestChatStreams(t *testing.T) {
	t.Parallel()
	call := func(id, name, arguments string) message.ToolCall {
		return message.ToolCall{ID: id, Name: name, Arguments: json.RawMessage(arguments)}
	}
	for name, c := range map[string]struct {
		events []string
		want   message.Reply
	}{
		"usage in a chunk without choices, with cached and reasoning tokens": {
			[]string{`{"choices":[{"index":0,"delta":{"content":"Rain."},"finish_reason":"stop"}]}`,
				`{"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":16},"completion_tokens_details":{"reasoning_tokens":5}}}`},
			message.Reply{Text: "Rain.", FinishReason: message.FinishStop, Usage: message.Usage{InputTokens: 20, OutputTokens: 9, CachedInputTokens: 16, ReasoningTokens: 5}},
		},
		"usage with nulls, and in every chunk": {
			[]string{`{"choices":[{"delta":{"content":"Ra"}}],"usage":{"prompt_tokens":20,"completion_tokens":1,"prompt_tokens_details":null}}`,
				`{"choices":[{"delta":{"content":"in.","refusal":null,"tool_calls":null},"finish_reason":"stop"}],"usage":{"prompt_tokens":20,"completion_tokens":2,"prompt_cache_hit_tokens":7},"error":null}`},
			message.Reply{Text: "Rain.", FinishReason: message.FinishStop, Usage: message.Usage{InputTokens: 20, OutputTokens: 2, CachedInputTokens: 7}},
		},
		"calls whose pieces come in turns": {
			[]string{`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":""}},{"index":1,"id":"b","function":{"name":"g"}}]}}]}`,
				`{"choices":[{"delta":{"tool_calls":[{"index":1,"function":{"arguments":"{\"y\":"}}]}}]}`,
				`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\":1"}},{"index":1,"function":{"arguments":"2}"}}]}}]}`,
				`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"}"}}]}}]}`,
				`{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`},
			message.Reply{ToolCalls: []message.ToolCall{call("a", "f", `{"x":1}`), call("b", "g", `{"y":2}`)}, FinishReason: message.FinishToolCalls},
		},
		"whole calls without index, of a server that then stops": {
			[]string{`{"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}},{"id":"b","function":{"name":"g","arguments":"{}"}}]},"finish_reason":"stop"}]}`},
			message.Reply{ToolCalls: []message.ToolCall{call("a", "f", `{}`), call("b", "g", `{}`)}, FinishReason: message.FinishToolCalls},
		},
		"arguments that are no JSON": {
			[]string{`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{oslo"}}]},"finish_reason":"length"}]}`},
			message.Reply{ToolCalls: []message.ToolCall{call("a", "f", `"{oslo"`)}, FinishReason: message.FinishLength},
		},
		"reasoning of other servers, under both names": {
			[]string{`{"choices":[{"delta":{"reasoning_content":"Hm","reasoning":"Hm"}}]}`, `{"choices":[{"delta":{"reasoning":"..."}}]}`,
				`{"choices":[{"delta":{"content":"Rain."}}]}`, `{"choices":[{"delta":{"reasoning":"Sure?"}}]}`, `{"choices":[{"finish_reason":"stop"}]}`},
			message.Reply{Reasoning: []message.ReasoningDone{{Text: "Hm..."}, {Text: "Sure?"}}, Text: "Rain.", FinishReason: message.FinishStop},
		},
		"a refusal": {
			[]string{`{"choices":[{"delta":{"refusal":"I'd rather not."}}]}`, `{"choices":[{"delta":{},"finish_reason":"stop"}]}`},
			message.Reply{Text: "I'd rather not.", FinishReason: message.FinishRefusal},
		},
		"a content filter": {
			[]string{`{"choices":[{"delta":{"content":"Ra"},"finish_reason":"content_filter"}]}`},
			message.Reply{Text: "Ra", FinishReason: message.FinishContentFilter},
		},
		"an old name for calls":       {[]string{`{"choices":[{"finish_reason":"function_call"}]}`}, message.Reply{FinishReason: message.FinishToolCalls}},
		"a reason that nobody knows":  {[]string{`{"choices":[{"finish_reason":"tired"}]}`}, message.Reply{FinishReason: message.FinishUnknown}},
		"no reason":                   {[]string{`{"choices":[{"delta":{"content":"Rain."}}]}`}, message.Reply{Text: "Rain.", FinishReason: message.FinishUnknown}},
		"chunks with nothing in them": {[]string{`{}`, `{"choices":null}`, `{"choices":[{}]}`, `null`}, message.Reply{FinishReason: message.FinishUnknown}},
		"an alternative that somebody asked for": {
			[]string{`{"choices":[{"index":1,"delta":{"content":"Sun."}},{"index":0,"delta":{"content":"Rain."},"finish_reason":"stop"}]}`},
			message.Reply{Text: "Rain.", FinishReason: message.FinishStop},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := replied(t, openai.ChatCompletions, append(c.events, "[DONE]")...)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
			_, err = replied(t, openai.ChatCompletions, c.events...)
			require.ErrorIs(t, err, message.ErrCutOff, "nobody said that this was all")
		})
	}
}

func TestResponsesStreams(t *testing.T) {
	t.Parallel()
	const completed = `{"type":"response.completed","response":{"usage":{"input_tokens":20,"output_tokens":9,"input_tokens_details":{"cached_tokens":16},"output_tokens_details":{"reasoning_tokens":5}}}}`
	usage := message.Usage{InputTokens: 20, OutputTokens: 9, CachedInputTokens: 16, ReasoningTokens: 5}
	for name, c := range map[string]struct {
		events []string
		end    string // empty means completed
		want   message.Reply
	}{
		"reasoning in parts, with its signature": {
			events: []string{`{"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning","summary":[],"encrypted_content":"not yet"}}`,
				`{"type":"response.reasoning_summary_part.added","output_index":0,"summary_index":0}`,
				`{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":0,"delta":"It "}`,
				`{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":0,"delta":"rains."}`,
				`{"type":"response.reasoning_summary_part.added","output_index":0,"summary_index":1}`,
				`{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":1,"delta":"Sure."}`,
				`{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","summary":[{"text":"It rains."},{"text":"Sure."}],"encrypted_content":"sealed"}}`,
				`{"type":"response.output_text.delta","output_index":1,"delta":"Rain."}`,
				`{"type":"response.output_item.done","output_index":1,"item":{"type":"message","content":[{"type":"output_text","text":"Rain."}]}}`},
			want: message.Reply{Reasoning: []message.ReasoningDone{{Text: "It rains.\n\nSure.", Signature: "sealed"}}, Text: "Rain.", FinishReason: message.FinishStop, Usage: usage},
		},
		"items that come whole": {
			events: []string{`{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","summary":[{"text":"A"},{"text":"B"}],"encrypted_content":"sealed"}}`,
				`{"type":"response.output_item.done","output_index":1,"item":{"type":"message","content":[{"type":"output_text","text":"Rain."}]}}`,
				`{"type":"response.output_item.done","output_index":2,"item":{"type":"function_call","call_id":"a","name":"f","arguments":"{\"x\":1}"}}`,
				`{"type":"response.output_item.done","output_index":3,"item":{"type":"web_search_call"}}`},
			want: message.Reply{Reasoning: []message.ReasoningDone{{Text: "A\n\nB", Signature: "sealed"}}, Text: "Rain.",
				ToolCalls: []message.ToolCall{{ID: "a", Name: "f", Arguments: json.RawMessage(`{"x":1}`)}}, FinishReason: message.FinishToolCalls, Usage: usage},
		},
		"a call that is named only in the end": {
			events: []string{`{"type":"response.function_call_arguments.delta","output_index":0,"delta":"{\"x\":"}`,
				`{"type":"response.function_call_arguments.delta","output_index":0,"delta":"1}"}`,
				`{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","call_id":"a","name":"f","arguments":"{\"x\":1}"}}`},
			want: message.Reply{ToolCalls: []message.ToolCall{{ID: "a", Name: "f", Arguments: json.RawMessage(`{"x":1}`)}}, FinishReason: message.FinishToolCalls, Usage: usage},
		},
		"reasoning of open models, and none": {
			events: []string{`{"type":"response.reasoning_text.delta","output_index":0,"delta":"Hm."}`,
				`{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","content":[{"type":"reasoning_text","text":"Hm."}]}}`,
				`{"type":"response.output_item.done","output_index":1,"item":{"type":"reasoning","summary":[]}}`},
			want: message.Reply{Reasoning: []message.ReasoningDone{{Text: "Hm."}}, FinishReason: message.FinishStop, Usage: usage},
		},
		"a refusal": {
			events: []string{`{"type":"response.refusal.delta","output_index":0,"delta":"I'd rather not."}`,
				`{"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[{"type":"refusal","refusal":"I'd rather not."}]}}`},
			want: message.Reply{Text: "I'd rather not.", FinishReason: message.FinishRefusal, Usage: usage},
		},
		"a refusal that comes whole": {
			events: []string{`{"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[{"type":"refusal","refusal":"No."}]}}`},
			want:   message.Reply{Text: "No.", FinishReason: message.FinishRefusal, Usage: usage},
		},
		"the limit of tokens": {
			events: []string{`{"type":"response.output_text.delta","output_index":0,"delta":"Ra"}`},
			end:    `{"type":"response.incomplete","response":{"incomplete_details":{"reason":"max_output_tokens"}}}`,
			want:   message.Reply{Text: "Ra", FinishReason: message.FinishLength},
		},
		"a content filter": {
			end:  `{"type":"response.incomplete","response":{"incomplete_details":{"reason":"content_filter"}}}`,
			want: message.Reply{FinishReason: message.FinishContentFilter},
		},
		"a reason that nobody knows": {
			end:  `{"type":"response.incomplete","response":{"incomplete_details":{"reason":"tired"},"usage":null}}`,
			want: message.Reply{FinishReason: message.FinishUnknown},
		},
		"events that nobody knows": {
			events: []string{`{"type":"response.new","delta":{"x":1}}`, `{}`, `null`, `{"type":"keepalive"}`},
			want:   message.Reply{FinishReason: message.FinishStop, Usage: usage},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			end := c.end
			if end == "" {
				end = completed
			}
			got, err := replied(t, openai.Responses, append(c.events, end)...)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
			_, err = replied(t, openai.Responses, append(c.events, "[DONE]")...)
			require.ErrorIs(t, err, message.ErrCutOff, "nobody said that this was all")
		})
	}
}
