package gemini

import (
	"context"
	"errors"
	"io"
	"net/http"

	"google.golang.org/genai"

	"github.com/everstep-go/everstep/internal/provider"
)

// The SDK knows where a request goes and how it is authorized, and it reads refusals. Replies are
// read here: the SDK decodes them to map[string]any, which rounds large numbers in arguments, it
// panics on some that are malformed, and it hides the headers. So a transport below it keeps the
// body of a reply for us, and the SDK sees an empty one.

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
	resp, err := provider.Bounded(t.next.RoundTrip(req))
	if err != nil {
		return nil, err
	}
	x.status, x.header = resp.StatusCode, resp.Header
	if resp.StatusCode/100 == 2 {
		x.body, resp.Body = resp.Body, http.NoBody
	}
	return resp, nil
}

// send sends a body to a model. If there is no error, the exchange has the stream of the reply.
func (m *Model) send(ctx context.Context, model string, body map[string]any) (*exchange, error) {
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
			return x, err
		}
	}
	if x.body == nil {
		return x, errors.New("the HTTP client returned a reply without a body")
	}
	return x, nil
}
