package openai

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"net/url"
	"os"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"

	"github.com/everstep-go/everstep/internal/provider"
	"github.com/everstep-go/everstep/message"
)

// API is one of the two dialects that OpenAI speaks.
type API string

// The dialects.
const (
	Responses       API = "responses"        // OpenAI's own; reasoning goes back to the model
	ChatCompletions API = "chat_completions" // which many other servers speak too
)

// Options are the settings of a [Model].
type Options struct {
	// APIKey is the key. If empty, it is what OPENAI_API_KEY says; servers without keys need none.
	// Mind that the key of the environment goes to whatever server BaseURL names.
	APIKey string
	// BaseURL is where the API is, such as http://localhost:11434/v1. If empty, it is what
	// OPENAI_BASE_URL says, and OpenAI itself without that.
	BaseURL string
	// API is the dialect. If empty, it is Responses at OpenAI itself and ChatCompletions elsewhere.
	API API
	// HTTPClient sends the requests; its Timeout limits whole replies. If nil, it is
	// http.DefaultClient.
	HTTPClient *http.Client
	// MaxTokensName names the member for the limit of tokens in Chat Completions. If empty, it is
	// max_completion_tokens at OpenAI and Azure, and max_tokens elsewhere.
	MaxTokensName string
	// ReasoningName names the member in which Chat Completions sends the model's reasoning back,
	// such as reasoning_content. If empty, reasoning is not sent back: most servers want none.
	ReasoningName string
	// Client holds more options of OpenAI's client: headers, the authentication of Azure, middleware.
	Client []option.RequestOption
}

// A Model asks the models of a server, any of those that requests name. It is a react.Model, safe
// for concurrent use.
type Model struct {
	client  sdk.Client
	adapter provider.Adapter
	opts    Options // with the defaults filled in
}

// New returns the models of a server. Opts may be nil.
func New(opts *Options) *Model {
	var o Options
	if opts != nil {
		o = *opts
	}
	o.APIKey = cmp.Or(o.APIKey, os.Getenv("OPENAI_API_KEY"))
	o.BaseURL = cmp.Or(o.BaseURL, os.Getenv("OPENAI_BASE_URL"))
	openAI, azure := within(o.BaseURL, "openai.com"), within(o.BaseURL, "azure.com")
	if o.API == "" {
		o.API = ChatCompletions
		if openAI {
			o.API = Responses
		}
	}
	if o.MaxTokensName == "" {
		o.MaxTokensName = "max_tokens"
		if openAI || azure {
			o.MaxTokensName = "max_completion_tokens"
		}
	}
	// How often to ask is the agent's decision, not the client's.
	client := []option.RequestOption{option.WithMaxRetries(0), option.WithMiddleware(bounded)}
	if o.APIKey != "" {
		client = append(client, option.WithAPIKey(o.APIKey))
	}
	if o.BaseURL != "" {
		client = append(client, option.WithBaseURL(o.BaseURL))
	}
	if o.HTTPClient != nil {
		client = append(client, option.WithHTTPClient(o.HTTPClient))
	}
	return &Model{
		client:  sdk.NewClient(append(client, o.Client...)...),
		adapter: provider.Adapter{Name: "openai", Key: o.APIKey},
		opts:    o,
	}
}

func bounded(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	return provider.Bounded(next(req))
}

// within reports whether the URL is on the domain. An empty one is OpenAI's.
func within(base, domain string) bool {
	if base == "" {
		return domain == "openai.com"
	}
	u, err := url.Parse(base)
	return err == nil && (u.Hostname() == domain || strings.HasSuffix(u.Hostname(), "."+domain))
}

// A parser makes deltas of the events of one reply. A message.Done is the last of them.
type parser interface {
	parse(data []byte) ([]message.Delta, *message.ProviderError)
}

// Generate streams one reply.
func (m *Model) Generate(ctx context.Context, req *message.Request) iter.Seq2[message.Delta, error] {
	return func(yield func(message.Delta, error) bool) {
		res, p, err := m.ask(ctx, req)
		if err != nil {
			yield(nil, err)
			return
		}
		defer res.Body.Close()
		events := ssestream.NewDecoder(res)
		for events.Next() {
			deltas, failure := p.parse(events.Event().Data)
			for _, d := range deltas {
				if ctx.Err() != nil {
					yield(nil, ctx.Err())
					return
				}
				_, done := d.(message.Done)
				if !yield(d, nil) || done {
					return
				}
			}
			if failure != nil {
				yield(nil, m.failed(ctx, failure, res))
				return
			}
		}
		yield(nil, m.failed(ctx, provider.CutOff(events.Err()), res))
	}
}

// ask sends the request. If err is nil, the response is a stream for the parser.
func (m *Model) ask(ctx context.Context, req *message.Request) (res *http.Response, p parser, err error) {
	if err := req.Validate(); err != nil {
		return nil, nil, fmt.Errorf("openai: %w", err)
	}
	if err := m.adapter.CheckURL(m.opts.BaseURL); err != nil {
		return nil, nil, err
	}
	// The client's streams hide whether the end of the events was announced, so only the response
	// is of use.
	into := option.WithResponseInto(&res)
	switch m.opts.API {
	case Responses:
		params, err := m.responsesParams(req)
		if err != nil {
			return nil, nil, err
		}
		p, err = newResponsesParser(), m.client.Responses.NewStreaming(ctx, params, into).Err()
		return m.answered(ctx, res, p, err)
	case ChatCompletions:
		params, err := m.chatParams(req)
		if err != nil {
			return nil, nil, err
		}
		p, err = new(chatParser), m.client.Chat.Completions.NewStreaming(ctx, params, into).Err()
		return m.answered(ctx, res, p, err)
	}
	return nil, nil, fmt.Errorf("openai: there is no API %q", m.opts.API)
}

// answered tells a stream from everything else that a server may answer.
func (m *Model) answered(ctx context.Context, res *http.Response, p parser, err error) (*http.Response, parser, error) {
	switch {
	case res == nil || err != nil && res.StatusCode < http.StatusBadRequest:
		return nil, nil, m.adapter.Unreachable(ctx, err)
	case res.StatusCode < http.StatusBadRequest && !isJSON(res.Header):
		return res, p, nil
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20)) // what can be read of it is the answer
	return nil, nil, m.failed(ctx, parseFailure(body), res)
}

// isJSON reports whether the answer is one document, as some servers send errors with status 200.
func isJSON(h http.Header) bool {
	mediaType, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	return mediaType == "application/json"
}
