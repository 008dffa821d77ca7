// Package provider is what the adapters of models have in common: how they say that there is no
// reply, and what they take of a provider's own parameters. It is for the modules of this
// repository, which are released together; to others it promises nothing.
package provider

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/everstep-go/everstep/message"
)

// Adapter is who asks a provider. Its errors are what its callers see.
type Adapter struct {
	Name string // of the provider, such as openai
	Key  string // is in no error; may be empty
}

// CheckURL refuses the address of a server that cannot be one, without repeating it: it may hold
// secrets. An empty one is the provider's own.
func (a Adapter) CheckURL(base string) error {
	u, err := url.Parse(base)
	if base == "" || err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https") {
		return nil
	}
	return fmt.Errorf("%s: BaseURL must be like https://example.com", a.Name)
}

// Params returns the members of provider_params. They may come from a client, so what is the
// agent's, which ours names, they must not replace.
func (a Adapter) Params(raw json.RawMessage, ours ...string) (members map[string]json.RawMessage, err error) {
	if len(raw) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(raw, &members); err != nil {
		return nil, fmt.Errorf("%s: %w: provider_params: %w", a.Name, message.ErrInvalidRequest, err)
	}
	for name := range members {
		if name == "" || slices.Contains(ours, name) {
			return nil, fmt.Errorf("%s: %w: provider_params: %q may not be set", a.Name, message.ErrInvalidRequest, name)
		}
	}
	return members, nil
}

// Without refuses parameters that the API does not have, the first of the names that is set.
func (a Adapter) Without(p message.Params, names ...string) error {
	set := map[string]bool{
		"top_k": p.TopK != nil, "stop_sequences": len(p.StopSequences) > 0, "seed": p.Seed != nil,
		"frequency_penalty": p.FrequencyPenalty != nil, "presence_penalty": p.PresencePenalty != nil,
	}
	for _, name := range names {
		if set[name] {
			return fmt.Errorf("%s: %w: there is no parameter %s", a.Name, message.ErrUnsupported, name)
		}
	}
	return nil
}

// Arguments returns the arguments of a call as the object that APIs insist on. What is none, such
// as a text of the model that is no JSON, is a member of one.
func Arguments(raw json.RawMessage) json.RawMessage {
	switch raw = bytes.TrimSpace(raw); {
	case len(raw) == 0:
		return json.RawMessage("{}")
	case !json.Valid(raw):
		raw, _ = json.Marshal(string(raw)) // a string can be marshalled
	case raw[0] == '{':
		return raw
	}
	return fmt.Appendf(nil, `{"arguments":%s}`, raw)
}

// Bounded limits what can be read of a refusal: SDKs read it to its end, which may never come.
func Bounded(res *http.Response, err error) (*http.Response, error) {
	if err == nil && res.StatusCode >= http.StatusBadRequest && res.Body != nil {
		res.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(res.Body, 64<<10), res.Body}
	}
	return res, err
}

// Unreachable returns why there is no response.
func (a Adapter) Unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	failed, network := errors.AsType[*url.Error](err)
	for more := network; more; failed, more = errors.AsType[*url.Error](err) {
		err = failed.Err // without its URL, which may hold secrets
	}
	if text := err.Error(); text != a.clean(text) {
		err = errors.New(a.clean(text))
	}
	err = fmt.Errorf("%s: %w", a.Name, err)
	if network {
		return message.Transient(err, 0)
	}
	return err
}

// Refused returns what the provider said instead of a reply. The wait is what it asked for.
func (a Adapter) Refused(ctx context.Context, e *message.ProviderError, wait time.Duration) error {
	if ctx.Err() != nil {
		return ctx.Err() // whatever came of it, that is why
	}
	e.Provider = a.Name
	e.Code, e.Message, e.RequestID = a.clean(e.Code), a.clean(e.Message), a.clean(e.RequestID)
	if e.Code == "" {
		e.Message = cmp.Or(e.Message, http.StatusText(e.Status), "no reason given")
	}
	return e.Classified(min(max(wait, 0), day))
}

// Broken returns what the provider said in the middle of a reply. Its status was not HTTP's, but
// may say of what kind it is. If nothing does, the reply was cut off.
func (a Adapter) Broken(ctx context.Context, e *message.ProviderError, wait time.Duration) error {
	_ = e.Classified(0)
	e.Status, e.Kind = 0, cmp.Or(e.Kind, message.ErrCutOff)
	return a.Refused(ctx, e, wait)
}

// CutOff is a reply that ended before the provider said so; err says why, if anything does.
func CutOff(err error) *message.ProviderError {
	e := &message.ProviderError{Message: "the reply was cut off", Kind: message.ErrCutOff}
	if err != nil {
		e.Message += ": " + err.Error()
	}
	return e
}

// Malformed is a piece of a reply that cannot be read, so the rest would not be what the model said.
func Malformed(err error) *message.ProviderError {
	return &message.ProviderError{Message: "a piece of the reply cannot be read: " + err.Error(), Kind: message.ErrCutOff}
}

// clean returns the text without the key, which some servers repeat, and without what would make
// it unreadable, such as the rest of a page of HTML.
func (a Adapter) clean(text string) string {
	if a.Key != "" {
		text = strings.ReplaceAll(text, a.Key, "[key]")
	}
	const limit = 500
	if len(text) > limit {
		text = text[:limit] + "…"
	}
	return strings.TrimSpace(strings.ToValidUTF8(text, ""))
}

// day bounds a wait: beyond it a Duration could overflow, and nobody waits.
const day = 24 * time.Hour

// RetryAfter returns how long a server asks to wait, zero if it does not: in milliseconds, in
// seconds, or until a date.
func RetryAfter(h http.Header) time.Duration {
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
	return time.Duration(min(n*float64(unit), float64(day)))
}
