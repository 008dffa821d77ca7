package gemini_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genai"

	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/model/gemini"
	"github.com/everstep-go/everstep/model/modeltest"
	"github.com/everstep-go/everstep/react"
)

func TestARefusalSaysWhy(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		status int
		body   string
		kind   error
		passes *time.Duration
		text   string
	}{
		{"too many requests", 429, `{"error":{"code":429,"message":"Quota exceeded.","status":"RESOURCE_EXHAUSTED","details":[
			{"@type":"type.googleapis.com/google.rpc.QuotaFailure"},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.5s"}]}}`,
			message.ErrRateLimited, new(34500 * time.Millisecond), "gemini 429: RESOURCE_EXHAUSTED: Quota exceeded."},
		{"too many requests, without a hint", 429, `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED"}}`,
			message.ErrRateLimited, new(time.Duration(0)), ""},
		{"overloaded", 503, `{"error":{"code":503,"message":"Busy.","status":"UNAVAILABLE"}}`,
			message.ErrOverloaded, new(time.Duration(0)), "gemini 503: UNAVAILABLE: Busy."},
		{"internal", 500, `{"error":{"code":500,"message":"Oops.","status":"INTERNAL"}}`, nil, new(time.Duration(0)), ""},
		{"deadline", 504, `{"error":{"code":504,"status":"DEADLINE_EXCEEDED"}}`, nil, new(time.Duration(0)), ""},
		{"no code", 429, `{"error":{"message":"Slow down."}}`, message.ErrRateLimited, new(time.Duration(0)), "gemini 429: Slow down."},
		{"a gateway", 502, `<html>Bad gateway</html>`, nil, new(time.Duration(0)), "gemini 502: <html>Bad gateway</html>"},
		{"nothing", 503, ``, message.ErrOverloaded, new(time.Duration(0)), "gemini 503: Service Unavailable"},
		{"a key that is not valid", 400, `{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}`,
			message.ErrUnauthorized, nil, ""},
		{"a key that has expired", 400, `{"error":{"code":400,"message":"Renew.","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}`,
			message.ErrUnauthorized, nil, ""},
		{"no key", 401, `{"error":{"code":401,"status":"UNAUTHENTICATED"}}`, message.ErrUnauthorized, nil, ""},
		{"no permission", 403, `{"error":{"code":403,"status":"PERMISSION_DENIED"}}`, message.ErrUnauthorized, nil, ""},
		{"not in this country", 400, `{"error":{"code":400,"message":"User location is not supported.","status":"FAILED_PRECONDITION"}}`,
			message.ErrUnauthorized, nil, ""},
		{"no such model", 404, `{"error":{"code":404,"status":"NOT_FOUND"}}`, message.ErrModelNotAllowed, nil, ""},
		{"too long", 400, `{"error":{"code":400,"message":"The input token count (9) exceeds the maximum number of tokens allowed (8).","status":"INVALID_ARGUMENT"}}`,
			message.ErrTooLong, nil, ""},
		{"invalid", 400, `{"error":{"code":400,"message":"No.","status":"INVALID_ARGUMENT"}}`, message.ErrInvalidRequest, nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := ask(t, serve(t, refuse(test.status, test.body)).model(t))
			refusal, ok := errors.AsType[*message.ProviderError](err)
			require.True(t, ok, "%v", err)
			assert.Equal(t, test.kind, refusal.Kind)
			assert.Equal(t, test.status, refusal.Status)
			assert.Equal(t, test.passes, transient(err))
			if test.text != "" {
				assert.EqualError(t, refusal, test.text)
			}
		})
	}
}

// shared is the package for the tests that all adapters share.
var shared = modeltest.Dialect{
	Provider: "gemini",
	New: func(address string, client *http.Client) (react.Model, error) {
		return gemini.New(context.Background(), &gemini.Options{
			APIKey: modeltest.Key, BaseURL: address, HTTPClient: client, Backend: genai.BackendGeminiAPI,
		})
	},
	Reply:   sse(script(message.Reply{Text: "Rain."})...),
	Refusal: `{"error":{"message":"%s"}}`,
}

func TestFailuresThatAllAdaptersShare(t *testing.T) {
	t.Parallel()
	modeltest.RunFailures(t, shared)
}

func FuzzStream(f *testing.F) {
	modeltest.Fuzz(f, map[string]modeltest.Dialect{"": shared},
		sse(parts(`{"text":"Hi","thought":true,"thoughtSignature":"QQ=="}`, `{"functionCall":{"name":"f","args":{"n":1}}}`), finish("STOP")),
		sse(`{"candidates":[null,{"content":null}]}`),
		sse(`{"error":{"code":503,"details":[null,{"retryDelay":1}]}}`),
		"data: {\"promptFeedback\":{\"blockReason\":\"OTHER\"}}\r\n\r\n",
		"data:\n\ndata\n\n:\n\n{\"error\":\n", "[{}]", "data: null\n\n")
}

func BenchmarkStream(b *testing.B) { modeltest.BenchmarkStream(b, shared) }
