package anthropic

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/everstep-go/everstep/message"
)

const provider = "anthropic"

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
func (m *Model) failure(ctx context.Context, response *http.Response, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	e := &message.ProviderError{Provider: provider, Message: "the stream ended before the message did"}
	if err != nil {
		e.Message = err.Error()
	}
	var wait time.Duration
	if response != nil {
		e.RequestID = response.Header.Get("Request-Id")
		wait = retryAfter(response.Header)
		e.Kind = message.ErrCutOff
		if response.StatusCode >= 400 {
			e.Status, e.Kind = response.StatusCode, nil
		}
	}
	if api, ok := errors.AsType[*sdk.Error](err); ok {
		answered(e, api.RawJSON())
	}
	if m.key != "" {
		for _, s := range []*string{&e.Code, &e.Message, &e.RequestID} {
			*s = strings.ReplaceAll(*s, m.key, "[key]")
		}
	}
	// Without a response the network failed, which may pass, or something here is wrong, such as the address.
	if _, network := errors.AsType[*url.Error](err); response == nil && network {
		return message.Transient(e, 0)
	}
	return e.Classified(wait)
}

// answered fills in what the API says about an error.
func answered(e *message.ProviderError, body string) {
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
	_ = json.Unmarshal([]byte(body), &answer) // what a gateway answers may be anything
	e.Code = cmp.Or(answer.Error.Details.ErrorCode, answer.Error.Type)
	e.Message = cmp.Or(answer.Error.Message, http.StatusText(e.Status), "error within the stream")
	e.RequestID = cmp.Or(e.RequestID, answer.RequestID)
	e.Kind = cmp.Or(kinds[answer.Error.Type], e.Kind)
	for _, meaning := range meanings {
		if strings.Contains(e.Message, meaning.text) || strings.Contains(e.Code, meaning.text) {
			e.Kind = meaning.kind
		}
	}
}

// retryAfter returns how long the provider wants to be left alone, zero if it does not say.
func retryAfter(h http.Header) time.Duration {
	value := h.Get("Retry-After")
	if seconds, err := strconv.ParseFloat(value, 64); err == nil && seconds > 0 && seconds < 1e6 {
		return time.Duration(seconds * float64(time.Second))
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}
