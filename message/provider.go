package message

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Why there is no reply, in terms that do not depend on the provider. Adapters wrap these.
var (
	// ErrInvalidRequest: the request cannot be understood, by us or by the provider.
	ErrInvalidRequest = errors.New("message: invalid request")
	// ErrModelNotAllowed: the model does not exist or may not be used here.
	ErrModelNotAllowed = errors.New("message: model not allowed")
	// ErrUnsupported: the model cannot do what is asked, such as looking at images.
	ErrUnsupported = errors.New("message: unsupported by the model")
	// ErrTooLong: the conversation does not fit into the model's context.
	ErrTooLong = errors.New("message: too long for the model")
	// ErrRefused: the provider does not want to answer that.
	ErrRefused = errors.New("message: refused by the provider")
	// ErrUnauthorized: the key is wrong, or its account may not ask, or not ask for more.
	ErrUnauthorized = errors.New("message: not authorized by the provider")
	// ErrRateLimited: too many requests at the moment. It may pass.
	ErrRateLimited = errors.New("message: too many requests")
	// ErrOverloaded: the provider has no room for anybody at the moment. It may pass.
	ErrOverloaded = errors.New("message: provider is overloaded")
	// ErrCutOff: the reply ended in the middle. It may work if it is tried again.
	ErrCutOff = errors.New("message: reply was cut off")
)

// A ProviderError is what a provider answered instead of a reply, or in the middle of one.
type ProviderError struct {
	Provider  string // such as openai
	Status    int    // of HTTP; zero if it came within a reply
	Code      string // the provider's own, such as context_length_exceeded; may be empty
	Message   string // the provider's own
	RequestID string // by which the provider finds it again; may be empty
	Kind      error  // one of the errors above; nil if none says it
}

func (e *ProviderError) Error() string {
	var b strings.Builder
	b.WriteString(e.Provider)
	if e.Status != 0 {
		fmt.Fprintf(&b, " %d", e.Status)
	}
	for _, text := range []string{e.Code, e.Message} {
		if text != "" {
			b.WriteString(": " + text)
		}
	}
	if e.RequestID != "" {
		fmt.Fprintf(&b, " (request %s)", e.RequestID)
	}
	return b.String()
}

// Unwrap returns the kind.
func (e *ProviderError) Unwrap() error { return e.Kind }

// kinds are those that a status of HTTP means.
var kinds = map[int]error{
	400: ErrInvalidRequest, 401: ErrUnauthorized, 402: ErrUnauthorized, 403: ErrUnauthorized, 404: ErrModelNotAllowed,
	413: ErrTooLong, 422: ErrInvalidRequest, 429: ErrRateLimited, 503: ErrOverloaded, 529: ErrOverloaded,
}

// Classified returns the error as adapters return it: with the kind that its status means, if it
// has none yet, and marked by [Transient] if it may pass: limits, overload, and whatever else is
// the server's fault.
func (e *ProviderError) Classified(retryAfter time.Duration) error {
	e.Kind = cmp.Or(e.Kind, kinds[e.Status])
	passes := e.Status >= 500 || e.Status == 408 || e.Status == 409 || e.Status == 425
	switch e.Kind {
	case ErrRateLimited, ErrOverloaded, ErrCutOff:
		passes = true
	case ErrInvalidRequest, ErrModelNotAllowed, ErrUnsupported, ErrTooLong, ErrRefused, ErrUnauthorized:
		passes = false
	}
	if passes {
		return Transient(e, retryAfter)
	}
	return e
}
