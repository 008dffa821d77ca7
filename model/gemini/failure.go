package gemini

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"google.golang.org/genai"

	"github.com/everstep-go/everstep/internal/provider"
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

// refused returns why there is no reply.
func (m *Model) refused(ctx context.Context, x *exchange, err error) error {
	if x.status != 0 {
		said, _ := errors.AsType[genai.APIError](err) // or it broke off
		said.Code = x.status
		return m.adapter.Refused(ctx, newFailure(&said), cmp.Or(retryDelay(&said), provider.RetryAfter(x.header)))
	}
	if !x.began { // the SDK does not like what it should send, such as an empty name of a model
		return fmt.Errorf("gemini: %w: %w", message.ErrInvalidRequest, err)
	}
	if broken, ok := errors.AsType[*url.Error](err); ok {
		err = broken // without the SDK's own remarks
	}
	return m.adapter.Unreachable(ctx, err)
}

// newFailure translates an error of the API.
func newFailure(e *genai.APIError) *message.ProviderError {
	p := &message.ProviderError{Status: e.Code, Message: e.Message, Kind: kinds[e.Status]}
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

// retryDelay returns how long the API asks us to wait, zero if it does not say.
func retryDelay(e *genai.APIError) time.Duration {
	wait, _ := time.ParseDuration(detail(e, "retryDelay"))
	return wait
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
