package gemini

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"google.golang.org/genai"

	"github.com/everstep-go/everstep/message"
)

// The SDK knows where a request goes and how it is authorized, and it reads refusals. Replies are
// read here: the SDK decodes them to map[string]any, which rounds large numbers in arguments, it
// panics on some that are malformed, and it hides the headers. So a transport below it keeps the
// body of a reply for us, and the SDK sees an empty one.

// maxRefusal limits what is read of a refusal.
const maxRefusal = 64 << 10

// exchange is what came back for one request.
type exchange struct {
	began  bool // the request was handed to the network
	status int
	header http.Header
	body   io.ReadCloser // of a reply; nil if there is none
}

type exchangeKey struct{}

// transport fills in the exchange in the context of a request.
type transport struct{ next http.RoundTripper }

func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	x, ok := req.Context().Value(exchangeKey{}).(*exchange)
	if !ok {
		return t.next.RoundTrip(req)
	}
	x.began = true
	resp, err := t.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	x.status, x.header = resp.StatusCode, resp.Header
	if resp.StatusCode/100 == 2 {
		x.body, resp.Body = resp.Body, http.NoBody
	} else {
		resp.Body = limited{io.LimitReader(resp.Body, maxRefusal), resp.Body}
	}
	return resp, nil
}

type limited struct {
	io.Reader
	io.Closer
}

// send sends a body to a model, and returns the stream of the reply.
func (m *Model) send(ctx context.Context, model string, body map[string]any) (io.ReadCloser, error) {
	x := &exchange{}
	config := &genai.GenerateContentConfig{
		AutomaticContinuation: new(false),
		HTTPOptions: &genai.HTTPOptions{
			RetryOptions:          &genai.HTTPRetryOptions{Attempts: new(int32(1))},
			ExtrasRequestProvider: func(map[string]any) map[string]any { return body },
		},
	}
	ctx = context.WithValue(ctx, exchangeKey{}, x)
	for _, err := range m.client.Models.GenerateContentStream(ctx, model, nil, config) {
		if err != nil {
			return nil, x.failed(err)
		}
	}
	if x.body == nil {
		return nil, errors.New("gemini: the HTTP client returned a reply without a body")
	}
	return x.body, nil
}

// failed says why there is no reply.
func (x *exchange) failed(err error) error {
	if refusal, ok := errors.AsType[genai.APIError](err); ok {
		refusal.Code = x.status
		return refused(&refusal).Classified(retryAfter(&refusal, x.header))
	}
	if !x.began { // the SDK does not like what it should send, such as an empty name of a model
		return fmt.Errorf("gemini: %w: %w", message.ErrInvalidRequest, err)
	}
	if broken, ok := errors.AsType[*url.Error](err); ok {
		err = broken // without the SDK's own remarks
	}
	return message.Transient(fmt.Errorf("gemini: %w", err), 0)
}
