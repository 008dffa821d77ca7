package anthropic

import (
	"cmp"
	"context"
	"iter"
	"net/http"
	"os"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"

	"github.com/everstep-go/everstep/internal/provider"
	"github.com/everstep-go/everstep/message"
)

// Options are the settings of a [Model].
type Options struct {
	// APIKey is the key. If empty, it is what ANTHROPIC_API_KEY says; without one, each call fails.
	// Mind that the key of the environment goes to whatever server BaseURL names.
	APIKey string
	// BaseURL is where the API is, without /v1. If empty, it is what ANTHROPIC_BASE_URL says, and
	// Anthropic itself without that.
	BaseURL string
	// HTTPClient sends the requests; its Timeout limits whole replies. If nil, it is one of the SDK's,
	// which waits ten minutes for a reply to begin.
	HTTPClient *http.Client
	// MaxTokens limits a reply, with its thinking, if the request does not: the API insists on a limit. Zero
	// means 4096.
	MaxTokens int64
	// CacheControl has the provider cache each prompt: up to the last tool, the system text, and the last
	// turn, so that the next request of the conversation pays less for all that it repeats.
	CacheControl bool
}

// A Model asks the models of Anthropic, any of those that requests name. It is a react.Model, safe
// for concurrent use.
type Model struct {
	client  sdk.Client
	adapter provider.Adapter
	opts    Options // with the defaults filled in
}

// New returns the models of Anthropic. Opts may be nil.
func New(opts *Options) *Model {
	var o Options
	if opts != nil {
		o = *opts
	}
	o.APIKey = cmp.Or(o.APIKey, os.Getenv("ANTHROPIC_API_KEY"))
	o.BaseURL = cmp.Or(o.BaseURL, os.Getenv("ANTHROPIC_BASE_URL"))
	o.MaxTokens = cmp.Or(o.MaxTokens, 4096)
	// How often to ask is the agent's decision, not the client's.
	client := []option.RequestOption{
		option.WithAPIKey(o.APIKey), option.WithMaxRetries(0), option.WithMiddleware(bounded),
	}
	if o.BaseURL != "" {
		client = append(client, option.WithBaseURL(o.BaseURL))
	}
	if o.HTTPClient != nil {
		client = append(client, option.WithHTTPClient(o.HTTPClient))
	}
	return &Model{
		client:  sdk.NewClient(client...),
		adapter: provider.Adapter{Name: "anthropic", Key: o.APIKey},
		opts:    o,
	}
}

func bounded(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	return provider.Bounded(next(req))
}

// Generate streams one reply.
func (m *Model) Generate(ctx context.Context, req *message.Request) iter.Seq2[message.Delta, error] {
	return func(yield func(message.Delta, error) bool) {
		params, settings, err := m.request(req)
		if err != nil {
			yield(nil, err)
			return
		}
		var res *http.Response
		stream := m.client.Messages.NewStreaming(ctx, params, append(settings, option.WithResponseInto(&res))...)
		defer stream.Close()
		r := reply{blocks: map[int64]block{}}
		for stream.Next() && ctx.Err() == nil {
			delta, err := r.read(stream.Current())
			if err != nil {
				yield(nil, m.broken(ctx, res, provider.Malformed(err)))
				return
			}
			if delta == nil {
				continue
			}
			if _, done := delta.(message.Done); !yield(delta, nil) || done {
				return
			}
		}
		yield(nil, m.failure(ctx, res, stream.Err()))
	}
}
