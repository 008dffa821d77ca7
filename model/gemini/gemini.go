package gemini

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"time"

	"google.golang.org/genai"

	"github.com/everstep-go/everstep/message"
)

// Options say where the API is and who asks. All fields are optional.
type Options struct {
	// APIKey is the key. If empty, it is GOOGLE_API_KEY or GEMINI_API_KEY of the environment.
	APIKey string
	// BaseURL is where the API is. If empty, it is Google's.
	BaseURL string
	// HTTPClient sends the requests; its Timeout limits whole replies. If nil, it is one with the
	// default transport and, on Vertex AI without a key, with the credentials of the environment:
	// those a client of your own has to add itself.
	HTTPClient *http.Client
	// Backend is the Gemini API or Vertex AI. If unset, the environment decides, as the SDK
	// documents; without a word from it, it is the Gemini API.
	Backend genai.Backend
	// Project and Location are those of Vertex AI. If empty, they are the environment's.
	Project, Location string
}

// Model asks Gemini models. Which one, the request says. It is safe for concurrent use.
type Model struct {
	client  *genai.Client
	key     string        // never to be shown; may be empty
	timeout time.Duration // for a whole reply; zero: none
}

// New returns a model; nil options are the defaults. It asks nothing of the API, but on Vertex AI
// it looks for credentials, which may take until ctx ends.
func New(ctx context.Context, opts *Options) (*Model, error) {
	o := *cmp.Or(opts, &Options{})
	config := &genai.ClientConfig{
		APIKey: o.APIKey, Backend: o.Backend, Project: o.Project, Location: o.Location,
		HTTPOptions: genai.HTTPOptions{BaseURL: o.BaseURL},
	}
	if o.HTTPClient != nil {
		own := *o.HTTPClient
		config.HTTPClient = &own
	}
	client, err := genai.NewClient(ctx, config)
	if err != nil {
		// The SDK would go on and print its configuration, with the key.
		text, _, _ := strings.Cut(err.Error(), " ClientConfig:")
		return nil, errors.New("gemini: " + strings.TrimRight(text, "."))
	}
	c := client.ClientConfig()
	m := &Model{client: client, key: c.APIKey, timeout: c.HTTPClient.Timeout}
	c.HTTPClient.Transport = transport{cmp.Or(c.HTTPClient.Transport, http.DefaultTransport)}
	c.HTTPClient.Timeout = 0 // it would end with the body that the SDK reads
	return m, nil
}

// Generate asks for one reply, and streams it as it comes.
func (m *Model) Generate(ctx context.Context, req *message.Request) iter.Seq2[message.Delta, error] {
	return func(yield func(message.Delta, error) bool) {
		for d, err := range m.generate(ctx, req) {
			if err != nil {
				yield(nil, m.explain(ctx, err))
				return
			}
			if !yield(d, nil) {
				return
			}
		}
	}
}

func (m *Model) generate(ctx context.Context, req *message.Request) iter.Seq2[message.Delta, error] {
	return func(yield func(message.Delta, error) bool) {
		if m.timeout > 0 {
			limited, cancel := context.WithTimeout(ctx, m.timeout)
			defer cancel()
			ctx = limited
		}
		body, err := newBody(req)
		if err != nil {
			yield(nil, err)
			return
		}
		stream, err := m.send(ctx, req.Model, body)
		if err != nil {
			yield(nil, err)
			return
		}
		defer stream.Close()
		read(stream)(yield)
	}
}

// explain returns the error that a caller sees: if its context has ended, that is why.
func (m *Model) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("gemini: %w", ctx.Err())
	}
	return m.hide(err)
}

// hide takes the key out of an error's text, should the server or a transport have put it there.
func (m *Model) hide(err error) error {
	if m.key == "" || !strings.Contains(err.Error(), m.key) {
		return err
	}
	masked := func(text string) string { return strings.ReplaceAll(text, m.key, "[key]") }
	if e, ok := errors.AsType[*message.ProviderError](err); ok {
		e.Code, e.Message, e.RequestID = masked(e.Code), masked(e.Message), masked(e.RequestID)
		return err
	}
	hidden := errors.New(masked(err.Error()))
	if e, ok := errors.AsType[*message.TransientError](err); ok {
		return message.Transient(hidden, e.RetryAfter)
	}
	return hidden
}
