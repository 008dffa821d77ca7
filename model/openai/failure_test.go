package openai_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/model/modeltest"
	"github.com/everstep-go/everstep/model/openai"
	"github.com/everstep-go/everstep/react"
)

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
		"an error with status 200":  {200, http.Header{"Content-Type": {"application/json; charset=utf-8"}}, `{"error":{"code":503,"message":"Busy."}}`, message.ErrOverloaded, true, 0, "openai: 503: Busy."},
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

func TestFailuresInTheMiddleOfAReply(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		event     string
		kind      error
		transient bool
		text      string
	}{
		"failed":            {`{"type":"response.failed","response":{"error":{"code":"server_error","message":"Oh."}}}`, message.ErrCutOff, true, "openai: server_error: Oh. (request req_1)"},
		"failed, no reason": {`{"type":"response.failed","response":{"error":null}}`, message.ErrCutOff, true, "openai: no reason given (request req_1)"},
		"failed by a limit": {`{"type":"response.failed","response":{"error":{"code":"rate_limit_exceeded","message":"Slow down."}}}`, message.ErrRateLimited, true, "openai: rate_limit_exceeded: Slow down. (request req_1)"},
		"error":             {`{"type":"error","code":"context_length_exceeded","message":"Too much.","param":null}`, message.ErrTooLong, false, "openai: context_length_exceeded: Too much. (request req_1)"},
		"error in an error": {`{"type":"error","error":{"type":"invalid_request_error","code":"invalid_prompt","message":"No."}}`, message.ErrRefused, false, "openai: invalid_prompt: No. (request req_1)"},
		"error of a proxy":  {`{"error":{"code":502,"message":"Upstream is gone."},"choices":[{"delta":{"content":""},"finish_reason":"error"}]}`, message.ErrCutOff, true, "openai: 502: Upstream is gone. (request req_1)"},
		"error as text":     {`{"error":"the context window is full of ` + key + `"}`, message.ErrTooLong, false, "openai: the context window is full of [key] (request req_1)"},
		"a wrong request":   {`{"type":"error","error":{"type":"invalid_request_error","message":"No."}}`, message.ErrInvalidRequest, false, "openai: invalid_request_error: No. (request req_1)"},
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

// shared is the package for the tests that all adapters share.
func shared(api openai.API) modeltest.Dialect {
	reply := message.Reply{Text: "Rain.", FinishReason: message.FinishStop}
	events := chatEvents(reply)
	if api == openai.Responses {
		events = responsesEvents(reply)
	}
	return modeltest.Dialect{
		Provider: "openai",
		New: func(address string, client *http.Client) (react.Model, error) {
			return openai.New(&openai.Options{APIKey: modeltest.Key, BaseURL: address, HTTPClient: client, API: api}), nil
		},
		Reply:   body(events...),
		Refusal: `{"error":{"message":"%s"}}`,
	}
}

func TestFailuresThatAllAdaptersShare(t *testing.T) {
	t.Parallel()
	for _, api := range dialects {
		t.Run(string(api), func(t *testing.T) { modeltest.RunFailures(t, shared(api)) })
	}
}

func FuzzStream(f *testing.F) {
	reply := message.Reply{
		Reasoning: []message.ReasoningDone{{Text: "Hm.", Signature: "sealed"}}, Text: "Rain.",
		ToolCalls: []message.ToolCall{{ID: "a", Name: "f", Arguments: json.RawMessage(`{"x":1}`)}}, FinishReason: message.FinishStop,
	}
	modeltest.Fuzz(f, map[string]modeltest.Dialect{"chat": shared(openai.ChatCompletions), "responses": shared(openai.Responses)},
		body(chatEvents(reply)...), body(responsesEvents(reply)...), body(`{"error":{"code":[]}}`), body(`{"type":"error"}`))
}

func BenchmarkStream(b *testing.B) {
	for _, api := range dialects {
		b.Run(string(api), func(b *testing.B) { modeltest.BenchmarkStream(b, shared(api)) })
	}
}
