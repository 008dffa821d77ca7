package gemini

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"net/http"
	"strings"
	"time"

	"google.golang.org/genai"

	"github.com/everstep-go/everstep/internal/provider"
	"github.com/everstep-go/everstep/message"
)

// Options are the settings of a [Model].
type Options struct {
	// APIKey is the key. If empty, it is what GOOGLE_API_KEY or GEMINI_API_KEY says; without one,
	// [New] fails, but for Vertex AI. Mind that the key of the environment goes to whatever server
	// BaseURL names.
	APIKey string
	// BaseURL is where the API is, without its version. If empty, it is what GOOGLE_GEMINI_BASE_URL
	// says, for Vertex AI GOOGLE_VERTEX_BASE_URL, and Google itself without that.
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

// A Model asks the models of Google, any of those that requests name. It is a react.Model, safe
// for concurrent use.
type Model struct {
	client  *genai.Client
	adapter provider.Adapter
	timeout time.Duration // for a whole reply; zero: none
}

// New returns the models of Google. Opts may be nil. It asks nothing of the API, but on Vertex AI
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
	m := &Model{client: client, adapter: provider.Adapter{Name: "gemini", Key: c.APIKey}, timeout: c.HTTPClient.Timeout}
	if err := m.adapter.CheckURL(c.HTTPOptions.BaseURL); err != nil {
		return nil, err
	}
	c.HTTPClient.Transport = transport{cmp.Or(c.HTTPClient.Transport, http.DefaultTransport)}
	c.HTTPClient.Timeout = 0 // it would end with the body that the SDK reads
	return m, nil
}

// Generate streams one reply.
func (m *Model) Generate(ctx context.Context, req *message.Request) iter.Seq2[message.Delta, error] {
	return func(yield func(message.Delta, error) bool) {
		body, err := m.newBody(req)
		if err != nil {
			yield(nil, err)
			return
		}
		limited := ctx
		if m.timeout > 0 {
			var cancel context.CancelFunc
			limited, cancel = context.WithTimeout(ctx, m.timeout)
			defer cancel()
		}
		x, err := m.send(limited, req.Model, body)
		if err != nil {
			yield(nil, m.refused(ctx, x, err))
			return
		}
		defer x.body.Close()
		m.read(ctx, x.body, yield)
	}
}
