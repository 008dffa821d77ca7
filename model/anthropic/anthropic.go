package anthropic

import (
	"cmp"
	"context"
	"iter"
	"net/http"
	"os"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"

	"github.com/everstep-go/everstep/message"
)

// Options are optional.
type Options struct {
	// APIKey is the key of the account. If empty, it is ANTHROPIC_API_KEY in the environment of [New].
	APIKey string
	// BaseURL is the address of the API, without /v1. If empty, it is ANTHROPIC_BASE_URL in the environment,
	// else Anthropic's.
	BaseURL string
	// HTTPClient sends the requests. Its timeout, if it has one, also ends replies that are still streaming.
	// If nil, it is one of the SDK's, which waits ten minutes for a reply to begin.
	HTTPClient *http.Client
	// MaxTokens limits a reply, with its thinking, if the request does not: the API insists on a limit. Zero
	// means 4096.
	MaxTokens int64
	// CacheControl has the provider cache each prompt: up to the last tool, the system text, and the last
	// turn, so that the next request of the conversation pays less for all that it repeats.
	CacheControl bool
}

// Model is a react.Model. It is safe for concurrent use.
type Model struct {
	client    sdk.Client
	key       string
	maxTokens int64
	cache     bool
}

// New returns a model with the given options, nil for none. A missing key is the error of each call.
func New(opts *Options) *Model {
	if opts == nil {
		opts = &Options{}
	}
	m := &Model{
		key:       cmp.Or(opts.APIKey, os.Getenv("ANTHROPIC_API_KEY")),
		maxTokens: cmp.Or(opts.MaxTokens, 4096),
		cache:     opts.CacheControl,
	}
	settings := []option.RequestOption{option.WithAPIKey(m.key), option.WithMaxRetries(0)}
	if opts.BaseURL != "" {
		settings = append(settings, option.WithBaseURL(opts.BaseURL))
	}
	if opts.HTTPClient != nil {
		settings = append(settings, option.WithHTTPClient(opts.HTTPClient))
	}
	m.client = sdk.NewClient(settings...)
	return m
}

// Generate streams one reply; see react.Model.
func (m *Model) Generate(ctx context.Context, req *message.Request) iter.Seq2[message.Delta, error] {
	return func(yield func(message.Delta, error) bool) {
		params, settings, err := m.request(req)
		if err != nil {
			yield(nil, err)
			return
		}
		var response *http.Response
		stream := m.client.Messages.NewStreaming(ctx, params, append(settings, option.WithResponseInto(&response))...)
		defer stream.Close()
		r := reply{blocks: map[int64]block{}}
		for stream.Next() && ctx.Err() == nil {
			delta := r.read(stream.Current())
			if delta == nil {
				continue
			}
			if _, done := delta.(message.Done); !yield(delta, nil) || done {
				return
			}
		}
		yield(nil, m.failure(ctx, response, stream.Err()))
	}
}
