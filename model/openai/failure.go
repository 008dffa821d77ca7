package openai

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

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

// serverErrors are codes for what would be status 500 if the reply had not begun.
var serverErrors = []string{"server_error", "internal_error", "internal_server_error", "api_error"}

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
	e := &message.ProviderError{Provider: "openai"}
	if json.Unmarshal(body, &object) != nil || string(body) == "null" {
		e.Message = cmp.Or(text(body), "no reason given")
		return e
	}
	kind := text(object.Type)
	e.Code, e.Message = cmp.Or(text(object.Code), kind), cmp.Or(text(object.Message), shorten(string(body)))
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
	return shorten(s)
}

// shorten keeps whole pages of HTML out of errors.
func shorten(s string) string {
	const limit = 500
	if len(s) > limit {
		s = s[:limit] + "…"
	}
	return strings.ToValidUTF8(s, "")
}

// classified returns what the server said as an error that tells whether it may pass.
func (m *Model) classified(ctx context.Context, e *message.ProviderError, h http.Header) error {
	if ctx.Err() != nil {
		return ctx.Err() // whatever came of the reply's end, that is why
	}
	e.RequestID = h.Get("X-Request-Id")
	e.Code, e.Message, e.RequestID = m.hideKey(e.Code), m.hideKey(e.Message), m.hideKey(e.RequestID)
	if e.Kind == nil && (e.Status == 0 || e.Status == http.StatusBadRequest) {
		said := strings.ToLower(e.Message)
		if slices.ContainsFunc(tooLong, func(words string) bool { return strings.Contains(said, words) }) {
			e.Kind = message.ErrTooLong
		}
	}
	err := e.Classified(retryAfter(h))
	if e.Kind == nil && e.Status == 0 && slices.Contains(serverErrors, e.Code) {
		return message.Transient(err, 0)
	}
	return err
}

// retryAfter returns how long the server asks to wait, zero if it does not.
func retryAfter(h http.Header) time.Duration {
	unit, value := time.Millisecond, h.Get("Retry-After-Ms")
	if value == "" {
		unit, value = time.Second, h.Get("Retry-After")
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(time.Until(at), 0)
	}
	n, err := strconv.ParseFloat(value, 64)
	if err != nil || !(n > 0) {
		return 0
	}
	const day = 24 * time.Hour // beyond it a Duration could overflow, and nobody waits
	return time.Duration(min(n*float64(unit), float64(day)))
}

// cutOff is a reply that ended before its end was announced; err says why, if anything does.
func cutOff(err error) *message.ProviderError {
	e := &message.ProviderError{Provider: "openai", Message: "the reply was cut off", Kind: message.ErrCutOff}
	if err != nil {
		e.Message += ": " + err.Error()
	}
	return e
}

// malformed is a piece of a reply that cannot be read, so the rest would not be what the model said.
func malformed(err error) *message.ProviderError {
	return &message.ProviderError{Provider: "openai", Message: "a piece of the reply cannot be read: " + err.Error(), Kind: message.ErrCutOff}
}

// unreachable is why there is no answer at all.
func (m *Model) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	failed, network := errors.AsType[*url.Error](err)
	if network {
		err = failed.Err // without its URL, which may hold secrets
	}
	if said := err.Error(); said != m.hideKey(said) {
		err = errors.New(m.hideKey(said))
	}
	err = fmt.Errorf("openai: %w", err)
	if network {
		return message.Transient(err, 0)
	}
	return err
}

// hideKey returns the text without the key, which some servers repeat.
func (m *Model) hideKey(text string) string {
	if m.opts.APIKey == "" {
		return text
	}
	return strings.ReplaceAll(text, m.opts.APIKey, "[key]")
}
