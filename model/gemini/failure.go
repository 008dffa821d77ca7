package gemini

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genai"

	"github.com/everstep-go/everstep/message"
)

// kinds are those of the API's statuses that say more than their status of HTTP.
var kinds = map[string]error{
	"INVALID_ARGUMENT":    message.ErrInvalidRequest,
	"OUT_OF_RANGE":        message.ErrInvalidRequest,
	"FAILED_PRECONDITION": message.ErrUnauthorized, // no billing, or not in this country
	"UNAUTHENTICATED":     message.ErrUnauthorized,
	"PERMISSION_DENIED":   message.ErrUnauthorized,
	"NOT_FOUND":           message.ErrModelNotAllowed,
	"RESOURCE_EXHAUSTED":  message.ErrRateLimited,
	"UNAVAILABLE":         message.ErrOverloaded,
}

// refused translates an error of the API.
func refused(e *genai.APIError) *message.ProviderError {
	p := &message.ProviderError{Provider: provider, Status: e.Code, Message: e.Message, Kind: kinds[e.Status]}
	if !strings.Contains(e.Status, " ") { // else it is the line of HTTP that the SDK found
		p.Code = e.Status
	}
	switch {
	case detail(e, "reason") == "API_KEY_INVALID", strings.HasPrefix(e.Message, "API key not valid"):
		p.Kind = message.ErrUnauthorized
	case strings.Contains(e.Message, "exceeds the maximum number of tokens"):
		p.Kind = message.ErrTooLong
	}
	return p
}

// retryAfter returns how long the API asks us to wait, zero if it does not say.
func retryAfter(e *genai.APIError, h http.Header) time.Duration {
	if wait, err := time.ParseDuration(detail(e, "retryDelay")); err == nil {
		return max(wait, 0)
	}
	text := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}

// detail returns a text among the details of an error.
func detail(e *genai.APIError, member string) string {
	for _, d := range e.Details {
		if text, ok := d[member].(string); ok {
			return text
		}
	}
	return ""
}
