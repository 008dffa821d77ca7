package openai

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/everstep-go/everstep/internal/provider"
	"github.com/everstep-go/everstep/message"
)

// kinds are those that a code, or the type of an error, means.
var kinds = map[string]error{
	"account_deactivated":        message.ErrUnauthorized,
	"billing_hard_limit_reached": message.ErrUnauthorized,
	"insufficient_quota":         message.ErrUnauthorized, // its status, 429, would say that it passes
	"invalid_api_key":            message.ErrUnauthorized,
	"content_filter":             message.ErrRefused,
	"content_policy_violation":   message.ErrRefused,
	"cyber_policy":               message.ErrRefused,
	"invalid_prompt":             message.ErrRefused,
	"context_length_exceeded":    message.ErrTooLong,
	"exceed_context_size_error":  message.ErrTooLong,
	"model_not_found":            message.ErrModelNotAllowed,
	"rate_limit_exceeded":        message.ErrRateLimited,
	"overloaded_error":           message.ErrOverloaded,
	"server_is_overloaded":       message.ErrOverloaded,
	"service_unavailable":        message.ErrOverloaded,
	"slow_down":                  message.ErrOverloaded,
}

// tooLong are words of servers that have no code for it.
var tooLong = []string{"maximum context length", "context window", "context length", "context size"}

// parseFailure reads an error in any of the forms that servers have for it: an object or a text,
// at the top or in a member.
func parseFailure(data []byte) *message.ProviderError {
	var top struct {
		Error, Detail json.RawMessage
	}
	_ = json.Unmarshal(data, &top)
	body := bytes.TrimSpace(data)
	for _, inner := range []json.RawMessage{top.Error, top.Detail} {
		if len(inner) > 0 && string(inner) != "null" {
			body = inner
			break
		}
	}
	var object struct{ Code, Type, Message json.RawMessage }
	e := &message.ProviderError{}
	if json.Unmarshal(body, &object) != nil || string(body) == "null" {
		e.Message = text(body)
		return e
	}
	kind := text(object.Type)
	e.Code, e.Message = cmp.Or(text(object.Code), kind), cmp.Or(text(object.Message), string(body))
	e.Kind = cmp.Or(kinds[e.Code], kinds[kind])
	// Proxies tell in the code what status the provider gave them.
	if n, err := strconv.Atoi(e.Code); err == nil && n >= 400 && n < 600 {
		e.Status = n
	}
	return e
}

// text returns what a member says: a string, or the JSON text of anything else.
func text(raw []byte) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		s = string(raw)
	}
	return s
}

// failed returns what the server said instead of a reply, or in the middle of one, as an error.
func (m *Model) failed(ctx context.Context, e *message.ProviderError, res *http.Response) error {
	e.RequestID = res.Header.Get("X-Request-Id")
	refused := res.StatusCode >= http.StatusBadRequest
	if refused {
		e.Status = res.StatusCode
	}
	if e.Kind == nil && (e.Status == 0 || e.Status == http.StatusBadRequest) {
		said := strings.ToLower(e.Message)
		if slices.ContainsFunc(tooLong, func(words string) bool { return strings.Contains(said, words) }) {
			e.Kind = message.ErrTooLong
		}
	}
	wait := provider.RetryAfter(res.Header)
	switch {
	case refused:
		return m.adapter.Refused(ctx, e, wait)
	case e.Kind == nil && e.Code == "invalid_request_error": // there is no status that would say more
		e.Kind = message.ErrInvalidRequest
	}
	return m.adapter.Broken(ctx, e, wait)
}
