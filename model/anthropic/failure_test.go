package anthropic_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/model/anthropic"
)

func asTransient(err error) (*message.TransientError, bool) {
	return errors.AsType[*message.TransientError](err)
}

func TestErrorsOfTheAPI(t *testing.T) {
	date := time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
	for _, c := range []struct {
		name      string
		answer    http.HandlerFunc
		kind      error
		transient bool
		after     time.Duration // at least
		text      string
	}{
		{"too many requests", failed(429, "rate_limit_error", "Slow down.", "Retry-After", "7"), message.ErrRateLimited, true, 7 * time.Second, "anthropic 429: rate_limit_error: Slow down. (request req_1)"},
		{"a date to come back", failed(429, "rate_limit_error", "Slow down.", "Retry-After", date), message.ErrRateLimited, true, 50 * time.Minute, ""},
		{"nonsense to come back", failed(429, "rate_limit_error", "Slow down.", "Retry-After", "-NaN"), message.ErrRateLimited, true, 0, ""},
		{"a wait without end", failed(429, "rate_limit_error", "Slow down.", "Retry-After", "1e300"), message.ErrRateLimited, true, 24 * time.Hour, ""},
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
		{"a gateway's page", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>"+key, http.StatusBadGateway) }, nil, true, 0, "anthropic 502: <html>[key] (request req_1)"},
		{"JSON of another form", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, `{"error":"x"}`, http.StatusForbidden) }, message.ErrUnauthorized, false, 0, `anthropic 403: {"error":"x"} (request req_1)`},
		{"an error within the stream", events(messageStart, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), message.ErrOverloaded, true, 0, "anthropic: overloaded_error: Overloaded (request req_1)"},
		{"a fault within the stream", events(messageStart, `{"type":"error","error":{"type":"api_error","message":"Oops"}}`), message.ErrCutOff, true, 0, "Oops"},
		{"a refusal within the stream", events(messageStart, `{"type":"error","error":{"type":"invalid_request_error","message":"No"}}`), message.ErrInvalidRequest, false, 0, ""},
		{"nonsense as an error within the stream", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "event: error\ndata: oops\n\n") }, message.ErrCutOff, true, 0, ""},
		{"a malformed event", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, sse(messageStart)+"event: content_block_delta\ndata: {\"type\":\n\n")
		}, message.ErrCutOff, true, 0, ""},
		{"a stream without message_stop", events(messageStart, start(0, `{"type":"text","text":""}`), textDelta(0, "It"), ended("end_turn")[0]), message.ErrCutOff, true, 0, "anthropic: the reply was cut off (request req_1)"},
		{"an empty answer", events(), message.ErrCutOff, true, 0, ""},
		{"no stream at all", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"type":"message"}`) }, message.ErrCutOff, true, 0, ""},
		{"a broken connection", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, sse(messageStart))
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, message.ErrCutOff, true, 0, ""},
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

func TestWithoutAConnection(t *testing.T) {
	t.Run("nobody listens", func(t *testing.T) {
		fake := serve(t, silent)
		model := fake.model()
		fake.Close()
		_, err := say(t, model)
		_, ok := asTransient(err)
		require.True(t, ok, "%v", err)
	})
	t.Run("the client's own timeout may pass", func(t *testing.T) {
		fake := serve(t, silent)
		client := &http.Client{Timeout: 20 * time.Millisecond}
		_, err := say(t, anthropic.New(&anthropic.Options{APIKey: key, BaseURL: fake.URL, HTTPClient: client}))
		_, ok := asTransient(err)
		require.True(t, ok, "%v", err)
	})
	t.Run("a wrong address will stay wrong", func(t *testing.T) {
		_, err := say(t, anthropic.New(&anthropic.Options{APIKey: key, BaseURL: "http://a b"}))
		require.Error(t, err)
		_, ok := asTransient(err)
		require.False(t, ok, "%v", err)
	})
	t.Run("a failing transport does not tell the key", func(t *testing.T) {
		client := &http.Client{Transport: failing{}}
		_, err := say(t, anthropic.New(&anthropic.Options{APIKey: key, BaseURL: "http://fake", HTTPClient: client}))
		require.ErrorContains(t, err, "cannot send")
		require.NotContains(t, err.Error(), key)
	})
}

type failing struct{}

func (failing) RoundTrip(r *http.Request) (*http.Response, error) {
	return nil, errors.New("cannot send " + r.Header.Get("Authorization") + r.Header.Get("X-Api-Key"))
}

func TestTheEndOfTheContext(t *testing.T) {
	t.Run("before the first byte", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err := message.Collect(serve(t, silent).model().Generate(ctx, hello()))
		require.Equal(t, context.DeadlineExceeded, err)
	})
	t.Run("within the reply", func(t *testing.T) {
		fake := serve(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, sse(messageStart, start(0, `{"type":"text","text":"It "}`)))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var last error
		for d, err := range fake.model().Generate(ctx, hello()) {
			if last = err; d != nil {
				cancel()
			}
		}
		require.Equal(t, context.Canceled, last)
	})
	t.Run("although the rest has arrived already", func(t *testing.T) {
		body := sse(stream(message.Reply{Text: strings.Repeat("rain ", 10), FinishReason: message.FinishStop})...)
		client := &http.Client{Transport: canned{200, http.Header{}, body}}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		n := 0
		var last error
		for _, err := range anthropic.New(&anthropic.Options{APIKey: key, BaseURL: "http://fake", HTTPClient: client}).Generate(ctx, hello()) {
			cancel()
			n, last = n+1, err
		}
		require.Equal(t, 2, n)
		require.Equal(t, context.Canceled, last)
	})
	t.Run("before the call", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := message.Collect(serve(t, silent).model().Generate(ctx, hello()))
		require.Equal(t, context.Canceled, err)
	})
}
