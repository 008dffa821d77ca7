package anthropic

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/everstep-go/everstep/internal/provider"
	"github.com/everstep-go/everstep/message"
)

// kinds are what the API's types of errors mean. Others, such as api_error, mean what their status does.
var kinds = map[string]error{
	"authentication_error":  message.ErrUnauthorized,
	"billing_error":         message.ErrUnauthorized,
	"invalid_request_error": message.ErrInvalidRequest,
	"not_found_error":       message.ErrModelNotAllowed,
	"overloaded_error":      message.ErrOverloaded,
	"permission_error":      message.ErrUnauthorized,
	"rate_limit_error":      message.ErrRateLimited,
	"request_too_large":     message.ErrTooLong,
}

// meanings are texts of errors whose type says less. None of them passes by itself.
var meanings = []struct {
	text string
	kind error
}{
	{"prompt is too long", message.ErrTooLong},
	{"exceed context limit", message.ErrTooLong},
	{"credit balance is too low", message.ErrUnauthorized},
	{"spend_limit_reached", message.ErrUnauthorized},
}

// failure returns why there is no reply, or no more of it. The response is nil if there was none, err if the
// stream just ended.
func (m *Model) failure(ctx context.Context, res *http.Response, err error) error {
	if res == nil {
		return m.adapter.Unreachable(ctx, err)
	}
	if res.StatusCode >= http.StatusBadRequest {
		body, _ := io.ReadAll(res.Body) // what can be read of it is the answer
		e := parseFailure(body)
		e.Status, e.RequestID = res.StatusCode, cmp.Or(res.Header.Get("Request-Id"), e.RequestID)
		return m.adapter.Refused(ctx, e, provider.RetryAfter(res.Header))
	}
	e := provider.CutOff(err)
	if said, ok := errors.AsType[*sdk.Error](err); ok {
		e = parseFailure([]byte(said.RawJSON()))
	}
	return m.broken(ctx, res, e)
}

// broken returns what went wrong in the middle of a reply as an error.
func (m *Model) broken(ctx context.Context, res *http.Response, e *message.ProviderError) error {
	e.RequestID = cmp.Or(res.Header.Get("Request-Id"), e.RequestID)
	return m.adapter.Broken(ctx, e, provider.RetryAfter(res.Header))
}

// parseFailure reads what the API says about an error. What a gateway says may be anything.
func parseFailure(data []byte) *message.ProviderError {
	var answer struct {
		RequestID string `json:"request_id"`
		Error     struct {
			Type    string `json:"type"`
			Message string `json:"message"`
			Details struct {
				ErrorCode string `json:"error_code"`
			} `json:"details"`
		} `json:"error"`
	}
	_ = json.Unmarshal(data, &answer)
	e := &message.ProviderError{
		Code:      cmp.Or(answer.Error.Details.ErrorCode, answer.Error.Type),
		Message:   cmp.Or(answer.Error.Message, string(data)),
		RequestID: answer.RequestID,
		Kind:      kinds[answer.Error.Type],
	}
	for _, meaning := range meanings {
		if strings.Contains(e.Message, meaning.text) || strings.Contains(e.Code, meaning.text) {
			e.Kind = meaning.kind
		}
	}
	return e
}
