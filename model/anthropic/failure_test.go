package anthropic_test

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/model/anthropic"
	"github.com/everstep-go/everstep/model/modeltest"
	"github.com/everstep-go/everstep/react"
)

func asTransient(err error) (*message.TransientError, bool) {
	return errors.AsType[*message.TransientError](err)
}

func TestErrorsOfTheAPI(t *testing.T) {
	for _, c := range []struct {
		name      string
		answer    http.HandlerFunc
		kind      error
		transient bool
		after     time.Duration // at least
		text      string
	}{
		{"too many requests", failed(429, "rate_limit_error", "Slow down.", "Retry-After", "7"), message.ErrRateLimited, true, 7 * time.Second, "anthropic 429: rate_limit_error: Slow down. (request req_1)"},
		{"a request that only the body names", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Del("Request-Id")
			failed(529, "overloaded_error", "Overloaded")(w, r)
		}, message.ErrOverloaded, true, 0, "(request req_1)"},
		{"a spend limit", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(429)
			_, _ = io.WriteString(w, `{"type":"error","error":{"type":"rate_limit_error","message":"Limit.","details":{"error_code":"enforced_spend_limit_reached"}}}`)
		}, message.ErrUnauthorized, false, 0, "enforced_spend_limit_reached"},
		{"overloaded", failed(529, "overloaded_error", "Overloaded"), message.ErrOverloaded, true, 0, "529"},
		{"overloaded behind a gateway", failed(503, "overloaded_error", "Overloaded"), message.ErrOverloaded, true, 0, ""},
		{"a wrong key", failed(401, "authentication_error", "invalid x-api-key: "+key), message.ErrUnauthorized, false, 0, "invalid x-api-key: [key]"},
		{"no permission", failed(403, "permission_error", "No."), message.ErrUnauthorized, false, 0, ""},
		{"no money", failed(402, "billing_error", "No."), message.ErrUnauthorized, false, 0, ""},
		{"no credit", failed(400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API."), message.ErrUnauthorized, false, 0, ""},
		{"no such model", failed(404, "not_found_error", "model: claude-0"), message.ErrModelNotAllowed, false, 0, "claude-0"},
		{"a large request", failed(413, "request_too_large", "Too large."), message.ErrTooLong, false, 0, ""},
		{"a long prompt", failed(400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"), message.ErrTooLong, false, 0, ""},
		{"a long prompt with its reply", failed(400, "invalid_request_error", "input length and `max_tokens` exceed context limit: 199999 + 4096 > 200000"), message.ErrTooLong, false, 0, ""},
		{"a wrong request", failed(400, "invalid_request_error", "tools.0.name: wrong"), message.ErrInvalidRequest, false, 0, "tools.0.name"},
		{"a fault of the server", failed(500, "api_error", "Internal server error"), nil, true, 0, "500: api_error"},
		{"a timeout of the server", failed(504, "timeout_error", "Timeout"), nil, true, 0, ""},
		{"a conflict", failed(409, "conflict_error", "Conflict"), nil, true, 0, ""},
		{"JSON of another form", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, `{"error":"x"}`, http.StatusForbidden) }, message.ErrUnauthorized, false, 0, `anthropic 403: {"error":"x"} (request req_1)`},
		{"an error within the stream", events(messageStart, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), message.ErrOverloaded, true, 0, "anthropic: overloaded_error: Overloaded (request req_1)"},
		{"a fault within the stream", events(messageStart, `{"type":"error","error":{"type":"api_error","message":"Oops"}}`), message.ErrCutOff, true, 0, "Oops"},
		{"a refusal within the stream", events(messageStart, `{"type":"error","error":{"type":"invalid_request_error","message":"No"}}`), message.ErrInvalidRequest, false, 0, ""},
		{"a piece of another type", events(messageStart, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":[7]}}`, messageStop), message.ErrCutOff, true, 0, "a piece of the reply cannot be read: text_delta without its text"},
		{"a piece without its text", events(messageStart, `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta"}}`, messageStop), message.ErrCutOff, true, 0, "input_json_delta without its text"},
		{"nonsense as an error within the stream", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "event: error\ndata: oops\n\n") }, message.ErrCutOff, true, 0, ""},
		{"a stream without message_stop", events(messageStart, start(0, `{"type":"text","text":""}`), textDelta(0, "It"), ended("end_turn")[0]), message.ErrCutOff, true, 0, "anthropic: the reply was cut off (request req_1)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var calls atomic.Int32
			fake := serve(t, func(w http.ResponseWriter, r *http.Request) {
				calls.Add(1)
				c.answer(w, r)
			})
			_, err := say(t, fake.model())
			provider, ok := errors.AsType[*message.ProviderError](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, "anthropic", provider.Provider)
			require.Equal(t, "req_1", provider.RequestID)
			require.Equal(t, c.kind, provider.Kind)
			require.ErrorContains(t, err, c.text)
			require.NotContains(t, err.Error(), key)
			transient, ok := asTransient(err)
			require.Equal(t, c.transient, ok, "%v", err)
			if ok {
				require.GreaterOrEqual(t, transient.RetryAfter, c.after)
				require.Equal(t, c.after == 0, transient.RetryAfter == 0)
			}
			require.EqualValues(t, 1, calls.Load(), "requests")
		})
	}
}

func TestTimeoutOfTheClientMayPass(t *testing.T) {
	fake := serve(t, silent)
	client := &http.Client{Timeout: 20 * time.Millisecond}
	_, err := say(t, anthropic.New(&anthropic.Options{APIKey: key, BaseURL: fake.URL, HTTPClient: client}))
	_, ok := asTransient(err)
	require.True(t, ok, "%v", err)
}

// shared is the package for the tests that all adapters share.
var shared = modeltest.Dialect{
	Provider: "anthropic",
	New: func(address string, client *http.Client) (react.Model, error) {
		return anthropic.New(&anthropic.Options{APIKey: modeltest.Key, BaseURL: address, HTTPClient: client}), nil
	},
	Reply:   sse(stream(message.Reply{Text: "Rain.", FinishReason: message.FinishStop})...),
	Refusal: `{"type":"error","error":{"message":"%s"}}`,
}

func TestFailuresThatAllAdaptersShare(t *testing.T) { modeltest.RunFailures(t, shared) }

func FuzzStream(f *testing.F) {
	whole := sse(stream(message.Reply{
		Reasoning: []message.ReasoningDone{{Text: "Think.", Signature: "sealed"}}, Text: "Rain.",
		ToolCalls: []message.ToolCall{call("a", `{"city":"Oslo"}`)}, FinishReason: message.FinishToolCalls,
	})...)
	modeltest.Fuzz(f, map[string]modeltest.Dialect{"": shared}, whole,
		sse(messageStart, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`),
		"event: x\ndata: {\"type\":\"content_block_delta\",\"index\":-9e99,\"delta\":7}\n\nevent: error\ndata: [\n\n",
		"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"signature_delta\",\"signature\":\"s\"}}\n\n")
}

func BenchmarkStream(b *testing.B) { modeltest.BenchmarkStream(b, shared) }
