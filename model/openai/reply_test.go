package openai_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

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

func TestFailures(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status    int
		header    http.Header
		body      string
		kind      error
		transient bool
		after     time.Duration
		text      string
	}{
		"a limit, in seconds": {429, http.Header{"Retry-After": {"7"}, "X-Request-Id": {"req_1"}}, `{"error":{"code":"rate_limit_exceeded","type":"tokens","message":"Slow down."}}`,
			message.ErrRateLimited, true, 7 * time.Second, "openai 429: rate_limit_exceeded: Slow down. (request req_1)"},
		"a limit, in milliseconds":   {429, http.Header{"Retry-After": {"7"}, "Retry-After-Ms": {"1500"}}, `{}`, message.ErrRateLimited, true, 1500 * time.Millisecond, "openai 429: {}"},
		"a limit that says nonsense": {429, http.Header{"Retry-After": {"NaN"}}, ``, message.ErrRateLimited, true, 0, "openai 429: Too Many Requests"},
		"a limit for ever":           {429, http.Header{"Retry-After": {"1e300"}}, ``, message.ErrRateLimited, true, 24 * time.Hour, "openai 429: Too Many Requests"},
		"a limit in the past":        {429, http.Header{"Retry-After": {"Wed, 21 Oct 2015 07:28:00 GMT"}}, ``, message.ErrRateLimited, true, 0, "openai 429: Too Many Requests"},
		"no money": {429, nil, `{"error":{"code":"insufficient_quota","type":"insufficient_quota","message":"You exceeded your current quota."}}`,
			message.ErrUnauthorized, false, 0, "openai 429: insufficient_quota: You exceeded your current quota."},
		"a wrong key, repeated": {401, nil, `{"error":{"code":"invalid_api_key","message":"Incorrect API key provided: ` + key + `."}}`,
			message.ErrUnauthorized, false, 0, "openai 401: invalid_api_key: Incorrect API key provided: [key]."},
		"no such model": {404, nil, `{"error":{"code":"model_not_found","message":"No such model."}}`, message.ErrModelNotAllowed, false, 0, "openai 404: model_not_found: No such model."},
		"too long":      {400, nil, `{"error":{"code":"context_length_exceeded","message":"Too much."}}`, message.ErrTooLong, false, 0, "openai 400: context_length_exceeded: Too much."},
		"too long, of a server without a code": {400, nil, `{"object":"error","message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError","code":400}`,
			message.ErrTooLong, false, 0, "openai 400: 400: This model's maximum context length is 4096 tokens."},
		"content policy": {400, nil, `{"error":{"code":"content_policy_violation","message":"No."}}`, message.ErrRefused, false, 0, "openai 400: content_policy_violation: No."},
		"not understood": {400, nil, `{"error":{"code":null,"type":"invalid_request_error","message":"Unknown parameter: 'top_k'."}}`,
			message.ErrInvalidRequest, false, 0, "openai 400: invalid_request_error: Unknown parameter: 'top_k'."},
		"not understood, in detail": {422, nil, `{"detail":[{"msg":"x"}]}`, message.ErrInvalidRequest, false, 0, `openai 422: [{"msg":"x"}]`},
		"a fault":                   {500, nil, `{"error":{"type":"server_error","message":"Oh."}}`, nil, true, 0, "openai 500: server_error: Oh."},
		"a fault as text":           {502, nil, `{"error":"bad gateway"}`, nil, true, 0, "openai 502: bad gateway"},
		"a page":                    {503, nil, `<html>` + strings.Repeat("é", 1000), message.ErrOverloaded, true, 0, "openai 503: <html>" + strings.Repeat("é", 247) + "…"},
		"an error with status 200":  {200, http.Header{"Content-Type": {"application/json; charset=utf-8"}}, `{"error":{"code":503,"message":"Busy."}}`, message.ErrOverloaded, true, 0, "openai: 503: Busy."},
		"a page with status 200":    {200, http.Header{"Content-Type": {"text/html"}}, `<html>`, message.ErrCutOff, true, 0, "openai: the reply was cut off"},
	} {
		for _, api := range dialects {
			t.Run(name+" "+string(api), func(t *testing.T) {
				t.Parallel()
				said, err := failure(t, answering(api, c.status, c.header, strings.NewReader(c.body)))
				require.EqualError(t, err, c.text)
				require.Equal(t, c.kind, said.Kind)
				passing, transient := errors.AsType[*message.TransientError](err)
				require.Equal(t, c.transient, transient)
				if transient {
					require.Equal(t, c.after, passing.RetryAfter)
				}
			})
		}
	}
}

func TestRetryAfterADate(t *testing.T) {
	t.Parallel()
	at := time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
	_, err := failure(t, answering(openai.Responses, 429, http.Header{"Retry-After": {at}}, strings.NewReader("")))
	require.InDelta(t, time.Hour, err.(*message.TransientError).RetryAfter, float64(time.Minute))
}

func TestFailuresInTheMiddleOfAReply(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		event     string
		kind      error
		transient bool
		text      string
	}{
		"failed":             {`{"type":"response.failed","response":{"error":{"code":"server_error","message":"Oh."}}}`, message.ErrCutOff, true, "openai: server_error: Oh. (request req_1)"},
		"failed, no reason":  {`{"type":"response.failed","response":{"error":null}}`, message.ErrCutOff, true, "openai: no reason given (request req_1)"},
		"failed by a limit":  {`{"type":"response.failed","response":{"error":{"code":"rate_limit_exceeded","message":"Slow down."}}}`, message.ErrRateLimited, true, "openai: rate_limit_exceeded: Slow down. (request req_1)"},
		"error":              {`{"type":"error","code":"context_length_exceeded","message":"Too much.","param":null}`, message.ErrTooLong, false, "openai: context_length_exceeded: Too much. (request req_1)"},
		"error in an error":  {`{"type":"error","error":{"type":"invalid_request_error","code":"invalid_prompt","message":"No."}}`, message.ErrRefused, false, "openai: invalid_prompt: No. (request req_1)"},
		"error of a proxy":   {`{"error":{"code":502,"message":"Upstream is gone."},"choices":[{"delta":{"content":""},"finish_reason":"error"}]}`, message.ErrCutOff, true, "openai: 502: Upstream is gone. (request req_1)"},
		"error as text":      {`{"error":"the context window is full of ` + key + `"}`, message.ErrTooLong, false, "openai: the context window is full of [key] (request req_1)"},
		"a piece of a piece": {`{"choices":[{"del`, message.ErrCutOff, true, "openai: a piece of the reply cannot be read: invalid character '\\n' in string literal (request req_1)"},
		"another type":       {`[]`, message.ErrCutOff, true, ""},
		"a wrong request":    {`{"type":"error","error":{"type":"invalid_request_error","message":"No."}}`, message.ErrInvalidRequest, false, "openai: invalid_request_error: No. (request req_1)"},
	} {
		for _, api := range dialects {
			if api == openai.ChatCompletions && strings.HasPrefix(c.event, `{"type"`) && !strings.Contains(c.event, `"error":{"type"`) {
				continue // which has no types of events
			}
			t.Run(name+" "+string(api), func(t *testing.T) {
				t.Parallel()
				said, err := failure(t, answering(api, http.StatusOK, sse, stream(c.event, "[DONE]")))
				if c.text != "" {
					require.EqualError(t, err, c.text)
				}
				require.Equal(t, c.kind, said.Kind)
				_, transient := errors.AsType[*message.TransientError](err)
				require.Equal(t, c.transient, transient)
			})
		}
	}
}

func TestConnectionThatBreaksInTheMiddleOfAReply(t *testing.T) {
	t.Parallel()
	const event = `{"choices":[{"delta":{"content":"Ra"}}]}`
	body := io.MultiReader(stream(event), failing{errors.New("connection reset")})
	_, err := failure(t, answering(openai.ChatCompletions, http.StatusOK, sse, body))
	require.ErrorIs(t, err, message.ErrCutOff)
	require.EqualError(t, err, "openai: the reply was cut off: connection reset (request req_1)")

	_, err = failure(t, answering(openai.ChatCompletions, http.StatusBadGateway, nil, failing{errors.New("connection reset")}))
	require.EqualError(t, err, "openai 502: Bad Gateway")
}

// failing breaks at the first read.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// reading is a func as a reader.
type reading func([]byte) (int, error)

func (f reading) Read(p []byte) (int, error) { return f(p) }

func TestEndOfTheContextWhileTheServerIsSilent(t *testing.T) {
	t.Parallel()
	for _, api := range dialects {
		ctx, cancel := context.WithCancel(t.Context())
		m := answering(api, http.StatusOK, sse, reading(func([]byte) (int, error) {
			cancel()
			return 0, errors.New("the connection was closed")
		}))
		_, err := message.Collect(m.Generate(ctx, ask()))
		require.Equal(t, context.Canceled, err)
	}
}

func TestServerThatIsNotThere(t *testing.T) {
	t.Parallel()
	m := openai.New(&openai.Options{APIKey: key, BaseURL: "http://" + key + "@localhost/v1?key=" + key, HTTPClient: &http.Client{
		Transport: transport(func(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") }),
	}})
	_, err := failure(t, m)
	require.EqualError(t, err, "openai: connection refused")
	require.IsType(t, (*message.TransientError)(nil), err)
}

func TestURLThatIsNone(t *testing.T) {
	t.Parallel()
	_, err := failure(t, openai.New(&openai.Options{APIKey: key, BaseURL: "http://%zz/" + key}))
	_, transient := errors.AsType[*message.TransientError](err)
	require.False(t, transient, "it will not get better: %v", err)
}

// FuzzStream feeds the model what no server should send. It must not panic, must end in a Done or
// an error, and must not tell the key.
func FuzzStream(f *testing.F) {
	reply := message.Reply{
		Reasoning: []message.ReasoningDone{{Text: "Hm.", Signature: "sealed"}}, Text: "Rain.",
		ToolCalls: []message.ToolCall{{ID: "a", Name: "f", Arguments: json.RawMessage(`{"x":1}`)}}, FinishReason: message.FinishStop,
	}
	for _, events := range [][]string{chatEvents(reply), responsesEvents(reply), {`{"error":{"code":[]}}`, `{"type":"error"}`}} {
		body, err := io.ReadAll(stream(events...))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(true, 200, "text/event-stream", body)
		f.Add(false, 200, "text/event-stream", body)
		f.Add(false, 500, "application/json", []byte(`{"error":{"message":"`+key+`"}}`))
	}
	f.Fuzz(func(t *testing.T, chat bool, status int, contentType string, body []byte) {
		api := openai.Responses
		if chat {
			api = openai.ChatCompletions
		}
		m := answering(api, status, http.Header{"Content-Type": {contentType}}, strings.NewReader(string(body)))
		var last message.Delta
		ended := false
		for d, err := range m.Generate(t.Context(), ask()) {
			if ended {
				t.Fatalf("%v, %v after the end", d, err)
			}
			if (d == nil) == (err == nil) {
				t.Fatalf("%v beside %v", d, err)
			}
			if err != nil && strings.Contains(err.Error(), key) {
				t.Fatalf("the key is in %v", err)
			}
			_, done := d.(message.Done)
			last, ended = d, err != nil || done
		}
		if !ended {
			t.Fatalf("it ended with %v", last)
		}
	})
}
