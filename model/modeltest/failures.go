package modeltest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
)

// A Dialect is what the tests that all adapters share must know of one.
type Dialect struct {
	Provider string // as errors name it
	// New returns a model with [Key] that asks the server at the address through the client. Where
	// the adapter refuses the address already then, it is the model's error.
	New func(address string, client *http.Client) (react.Model, error)
	// Reply is a stream of server-sent events: the text "Rain.", in one piece, and the end.
	Reply string
	// Refusal is the body of an error, in which %s is the message.
	Refusal string
}

// Key is the key of the models of a [Dialect].
const Key = "sk-very-secret-key-of-nobody"

const address = "http://user:password@localhost/v1?token=secret"

// half is the reply up to its text, without its end.
func (d *Dialect) half() string {
	text := strings.Index(d.Reply, "Rain.")
	return d.Reply[:text+strings.Index(d.Reply[text:], "\n\n")+2]
}

// transport answers requests without a network.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answering returns a client whose server answers everything with the same.
func answering(status int, header http.Header, body io.Reader) *http.Client {
	return &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(body), Request: r}, nil
	})}
}

// failing breaks at the first read.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// endless is a page without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a'
	}
	return len(p), nil
}

var sse = http.Header{"Content-Type": {"text/event-stream"}}

// failure is one way not to reply.
type failure struct {
	name      string
	client    *http.Client
	address   string // if it is not one that could be
	kind      error
	transient bool
	after     time.Duration // at least; not more than a minute less
	text      string        // of the whole error, after the provider
}

func (d *Dialect) failures() []failure {
	refused := func(status int, text string, header ...string) *http.Client {
		h := http.Header{"Content-Type": {"application/json"}}
		for i := 0; i < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		return answering(status, h, strings.NewReader(fmt.Sprintf(d.Refusal, text)))
	}
	wait := func(header ...string) *http.Client { return refused(429, "Slow down.", header...) }
	unreachable := func(err error) *http.Client {
		return &http.Client{Transport: transport(func(*http.Request) (*http.Response, error) { return nil, err })}
	}
	page := func(status int, body io.Reader) *http.Client {
		return answering(status, http.Header{"Content-Type": {"text/html"}}, body)
	}
	never := &http.Client{Transport: transport(func(*http.Request) (*http.Response, error) { panic("it was sent") })}
	const long = 600
	return []failure{
		{name: "a limit, in seconds", client: wait("Retry-After", "7"), kind: message.ErrRateLimited, transient: true, after: 7 * time.Second},
		{name: "a limit, in parts of a second", client: wait("Retry-After", "0.5"), kind: message.ErrRateLimited, transient: true, after: 500 * time.Millisecond},
		{name: "a limit, in milliseconds", client: wait("Retry-After", "7", "Retry-After-Ms", "1500"), kind: message.ErrRateLimited, transient: true, after: 1500 * time.Millisecond},
		{name: "a limit, until a date", client: wait("Retry-After", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)), kind: message.ErrRateLimited, transient: true, after: 59 * time.Minute},
		{name: "a limit, until long ago", client: wait("Retry-After", "Wed, 21 Oct 2015 07:28:00 GMT"), kind: message.ErrRateLimited, transient: true},
		{name: "a limit, for ever", client: wait("Retry-After", "1e300"), kind: message.ErrRateLimited, transient: true, after: 24 * time.Hour},
		{name: "a limit, until the end of time", client: wait("Retry-After", "Fri, 31 Dec 9999 23:59:59 GMT"), kind: message.ErrRateLimited, transient: true, after: 24 * time.Hour},
		{name: "a limit, not a number", client: wait("Retry-After", "NaN"), kind: message.ErrRateLimited, transient: true},
		{name: "a limit, less than nothing", client: wait("Retry-After", "-7"), kind: message.ErrRateLimited, transient: true},
		{name: "overload, with a hint", client: refused(529, "Busy.", "Retry-After", "7"), kind: message.ErrOverloaded, transient: true, after: 7 * time.Second},
		{name: "the key in the message", client: refused(401, "Not "+Key+"!"), kind: message.ErrUnauthorized},
		{name: "the key where the message is cut", client: page(502, strings.NewReader(strings.Repeat("a", 490)+Key+strings.Repeat("a", long))), transient: true,
			text: " 502: " + strings.Repeat("a", 490) + "[key]aaaaa…"},
		{name: "no body", client: page(503, strings.NewReader("")), kind: message.ErrOverloaded, transient: true, text: " 503: Service Unavailable"},
		{name: "a long page", client: page(502, strings.NewReader("<html>\n"+strings.Repeat("é", long))), transient: true},
		{name: "a page without an end", client: page(502, endless{}), transient: true, text: " 502: " + strings.Repeat("a", 500) + "…"},
		{name: "a page in no encoding", client: page(502, strings.NewReader("a\xff\xfeb")), transient: true, text: " 502: ab"},
		{name: "a body that breaks off", client: page(502, failing{errors.New("reset by " + Key)}), transient: true},
		{name: "nobody there", client: unreachable(errors.New("connection refused by " + Key)), transient: true, text: ": connection refused by [key]"},
		{name: "an address that is none", client: never, address: "http://%zz/" + Key, text: ": BaseURL must be like https://example.com"},
		{name: "an address without a host", client: never, address: "http:///" + Key, text: ": BaseURL must be like https://example.com"},
		{name: "an address without a scheme", client: never, address: "localhost:11434/" + Key, text: ": BaseURL must be like https://example.com"},
		{name: "an empty stream", client: answering(200, sse, strings.NewReader("")), kind: message.ErrCutOff, transient: true, text: ": the reply was cut off"},
		{name: "a stream that ends too early", client: answering(200, sse, strings.NewReader(d.half())), kind: message.ErrCutOff, transient: true, text: ": the reply was cut off"},
		{name: "a stream that breaks off", client: answering(200, sse, io.MultiReader(strings.NewReader(d.half()), failing{errors.New("reset by " + Key)})),
			kind: message.ErrCutOff, transient: true, text: ": the reply was cut off: reset by [key]"},
		{name: "a malformed piece", client: answering(200, sse, strings.NewReader(d.half()+"event: content_block_delta\ndata: {\"type\":\n\n"+d.Reply)), kind: message.ErrCutOff, transient: true},
		{name: "a piece of another type", client: answering(200, sse, strings.NewReader(d.half()+"event: content_block_delta\ndata: [7]\n\n"+d.Reply)), kind: message.ErrCutOff, transient: true},
		{name: "a page instead of a stream", client: page(200, strings.NewReader("<html>"+Key)), kind: message.ErrCutOff, transient: true, text: ": the reply was cut off"},
	}
}

// RunFailures checks that an adapter says alike what all of them have to say when there is no reply.
func RunFailures(t *testing.T, d Dialect) {
	for _, f := range d.failures() {
		t.Run(f.name, func(t *testing.T) {
			at := f.address
			if at == "" {
				at = address
			}
			err := d.ask(t.Context(), at, f.client)
			require.Error(t, err)
			require.True(t, strings.HasPrefix(err.Error(), d.Provider), "%v", err)
			for _, secret := range []string{Key[:6], "password", "token"} {
				require.NotContains(t, err.Error(), secret)
			}
			require.Equal(t, strings.ToValidUTF8(err.Error(), "?"), err.Error())
			require.Less(t, len(err.Error()), 600)
			if f.text != "" {
				text, _, _ := strings.Cut(err.Error(), " (request ")
				require.Equal(t, d.Provider+f.text, text)
			}
			said, ok := errors.AsType[*message.ProviderError](err)
			if f.kind != nil {
				require.True(t, ok, "%v", err)
				require.Equal(t, f.kind, said.Kind)
			}
			passing, transient := errors.AsType[*message.TransientError](err)
			require.Equal(t, f.transient, transient, "%v", err)
			if transient {
				require.InDelta(t, f.after, passing.RetryAfter, float64(min(f.after, time.Minute)))
				require.Equal(t, f.after == 0, passing.RetryAfter == 0)
			}
		})
	}
	for name, client := range map[string]func(cancel func()) *http.Client{
		"without an answer": func(cancel func()) *http.Client {
			return &http.Client{Transport: transport(func(*http.Request) (*http.Response, error) {
				cancel()
				return nil, errors.New("broken")
			})}
		},
		"with a refusal": func(cancel func()) *http.Client { return answering(429, sse, cancelling(cancel)) },
		"in the middle of a reply": func(cancel func()) *http.Client {
			return answering(200, sse, io.MultiReader(strings.NewReader(d.half()), cancelling(cancel)))
		},
	} {
		t.Run("the end of the context "+name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			require.Equal(t, context.Canceled, d.ask(ctx, address, client(cancel)))
		})
	}
	t.Run("the end of the context although the rest is there", func(t *testing.T) {
		m, err := d.New(address, answering(200, sse, strings.NewReader(d.Reply)))
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var all []message.Delta
		for delta, e := range m.Generate(ctx, hello()) {
			cancel()
			all, err = append(all, delta), e
		}
		require.Equal(t, context.Canceled, err)
		require.Len(t, all, 2)
	})
}

// cancelling ends the context instead of giving more.
type cancelling func()

func (c cancelling) Read([]byte) (int, error) {
	c()
	return 0, errors.New("the connection was closed")
}

func hello() *message.Request {
	return &message.Request{Model: "any", Messages: []message.Message{message.NewUser("Oslo?")}}
}

// ask returns the error of a call, which must be the last that it yields.
func (d *Dialect) ask(ctx context.Context, at string, client *http.Client) (err error) {
	m, err := d.New(at, client)
	if err != nil {
		return err
	}
	for delta, e := range m.Generate(ctx, hello()) {
		if err != nil {
			return fmt.Errorf("after the end: %v, %v", delta, e)
		}
		if (delta == nil) == (e == nil) {
			return fmt.Errorf("together: %v, %v", delta, e)
		}
		err = e
	}
	return err
}
