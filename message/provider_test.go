package message_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/everstep-go/everstep/message"
)

func TestWhatAProviderAnswersIsOfAKindAndMayPassOrNot(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		e      message.ProviderError
		kind   error
		passes bool
	}{
		"a bad request":              {message.ProviderError{Status: 400}, message.ErrInvalidRequest, false},
		"a bad key":                  {message.ProviderError{Status: 401}, message.ErrUnauthorized, false},
		"an unknown model":           {message.ProviderError{Status: 404}, message.ErrModelNotAllowed, false},
		"a long conversation":        {message.ProviderError{Status: 400, Kind: message.ErrTooLong}, message.ErrTooLong, false},
		"too much at once":           {message.ProviderError{Status: 429}, message.ErrRateLimited, true},
		"an empty account":           {message.ProviderError{Status: 429, Kind: message.ErrUnauthorized}, message.ErrUnauthorized, false},
		"overload":                   {message.ProviderError{Status: 529}, message.ErrOverloaded, true},
		"overload within a reply":    {message.ProviderError{Kind: message.ErrOverloaded}, message.ErrOverloaded, true},
		"a reply that was cut off":   {message.ProviderError{Kind: message.ErrCutOff}, message.ErrCutOff, true},
		"a failing server":           {message.ProviderError{Status: 500}, nil, true},
		"a failing gateway":          {message.ProviderError{Status: 502}, nil, true},
		"a timeout of the server":    {message.ProviderError{Status: 408}, nil, true},
		"a refusal":                  {message.ProviderError{Status: 500, Kind: message.ErrRefused}, message.ErrRefused, false},
		"something within a reply":   {message.ProviderError{}, nil, false},
		"something that nobody knew": {message.ProviderError{Status: 418}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := c.e.Classified(time.Second)
			if c.kind != nil {
				assert.ErrorIs(t, err, c.kind)
			}
			transient, passes := errors.AsType[*message.TransientError](err)
			assert.Equal(t, c.passes, passes)
			if passes {
				assert.Equal(t, time.Second, transient.RetryAfter)
			}
			found, ok := errors.AsType[*message.ProviderError](err)
			assert.True(t, ok)
			assert.Equal(t, c.kind, found.Kind)
		})
	}
	e := &message.ProviderError{Provider: "openai", Status: 429, Code: "slow_down", Message: "Too many.", RequestID: "req_1"}
	assert.Equal(t, "openai 429: slow_down: Too many. (request req_1)", e.Error())
	assert.Equal(t, "gemini: Stop.", (&message.ProviderError{Provider: "gemini", Message: "Stop."}).Error())
}
