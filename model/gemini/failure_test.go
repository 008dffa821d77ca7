package gemini_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/message"
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

func TestTheHeaderSaysWhenToTryAgain(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]time.Duration{
		"7": 7 * time.Second, "-1": 0, "soon": 0, "Mon, 02 Jan 2006 15:04:05 GMT": 0, "Fri, 31 Dec 9999 23:59:59 GMT": 24 * time.Hour,
	} {
		_, err := ask(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", header)
			refuse(429, `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED"}}`)(w, r)
		}).model(t))
		wait := transient(err)
		require.NotNil(t, wait, header)
		assert.Equal(t, want, min(*wait, 24*time.Hour), header)
	}
}

func TestARefusalIsNotReadWithoutEnd(t *testing.T) {
	t.Parallel()
	_, err := ask(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusBadGateway)
		for page := make([]byte, 1<<16); r.Context().Err() == nil; {
			if _, err := w.Write(page); err != nil {
				return
			}
		}
	}).model(t))
	require.NotNil(t, transient(err), "%v", err)
	assert.Less(t, len(err.Error()), 1<<17)
}
