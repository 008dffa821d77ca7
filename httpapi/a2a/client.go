package a2a

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"

	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/react"
)

// Config says how to reach an agent, and what its tools are to an agent of ours. Name and URL are required;
// zero fields mean the default.
type Config struct {
	// Name of the agent, in the names of its tools and in errors: 1 to 40 letters, digits, "_" and "-".
	Name string
	// URL is where the agent has its card: that of the card itself, or of what has [WellKnown] below it.
	URL string
	// Header is added to each request, to authenticate for example. HTTPClient is what sends them; give it
	// no Timeout, which would end streams. Default: one of its own.
	Header     http.Header
	HTTPClient *http.Client
	// AnyHost lets the card name interfaces on other hosts than that of URL. They get the Header too.
	AnyHost bool

	// Allow decides whether a run may call the agent: its error is told to the model. Default: all may.
	Allow func(caller graph.Info) error
	// Tenant returns the tenant that the agent is told for a run: the caller's own, for example, or the same
	// for all. Default: none, or what the card says.
	Tenant func(caller graph.Info) string
	// Capabilities that an agent must have been granted for the tools.
	Capabilities []string

	// AskModel gives what the agent asks to the model, as a result that it can answer with another call.
	// Default: the run asks it, so that a person answers: what is asked may be an agreement that no model
	// should give.
	AskModel bool

	// ConnectTimeout is how long it may take to get the card. Default: 10 s.
	ConnectTimeout time.Duration
	// CallTimeout is the Timeout of the tools that wait for the agent; the task is cancelled then.
	// Default: no limit.
	CallTimeout time.Duration
	// Unreachable is how long the agent may be out of reach before a call fails. Default: 5 min.
	Unreachable time.Duration
}

// A Client has the tools of one agent. It is safe for concurrent use, and holds nothing that must be
// released.
type Client struct {
	config Config
	card   *sdk.AgentCard
	remote *a2aclient.Client
	tools  []react.Tool
}

var clientName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,40}$`)

// Connect reads the card of an agent. The card is that of Connect for the life of the client.
func Connect(ctx context.Context, config Config) (*Client, error) {
	u, err := url.Parse(config.URL)
	switch {
	case !clientName.MatchString(config.Name):
		return nil, fmt.Errorf("a2a: Config.Name %q must match %s", config.Name, clientName)
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("a2a: agent %q: Config.URL %q is no http or https URL", config.Name, config.URL)
	case config.ConnectTimeout < 0 || config.CallTimeout < 0 || config.Unreachable < 0:
		return nil, fmt.Errorf("a2a: agent %q: a timeout is negative", config.Name)
	}
	config.ConnectTimeout = cmp.Or(config.ConnectTimeout, 10*time.Second)
	config.Unreachable = cmp.Or(config.Unreachable, 5*time.Minute)
	c := &Client{config: config}
	if err := c.connect(ctx, u); err != nil {
		return nil, c.failed(err)
	}
	c.tools = c.makeTools()
	// Who judges tools is the agent.
	agent, err := react.New(react.Config{Name: "a2a", Model: react.ModelFunc(nil), Tools: c.tools})
	if err != nil {
		return nil, c.failed(err)
	}
	return c, agent.Shutdown(context.Background())
}

func (c *Client) connect(ctx context.Context, u *url.URL) error {
	ctx, cancel := context.WithTimeout(ctx, c.config.ConnectTimeout)
	defer cancel()
	base, path := c.config.URL, WellKnown
	if strings.HasSuffix(u.Path, ".json") {
		path = ""
	}
	resolver := agentcard.NewResolver(c.httpClient(u.Host, false))
	card, err := resolver.Resolve(ctx, base, agentcard.WithPath(path))
	if err != nil {
		return fmt.Errorf("agent card: %w", err)
	}
	usable := *card
	usable.SupportedInterfaces = nil
	var elsewhere []string
	for _, i := range card.SupportedInterfaces {
		at, err := url.Parse(i.URL)
		switch {
		case err != nil || i.ProtocolBinding == sdk.TransportProtocolGRPC:
		case at.Host != u.Host && !c.config.AnyHost:
			elsewhere = append(elsewhere, i.URL)
		default:
			usable.SupportedInterfaces = append(usable.SupportedInterfaces, i)
		}
	}
	if len(usable.SupportedInterfaces) == 0 && len(elsewhere) > 0 {
		return fmt.Errorf("agent card: its interfaces are on other hosts than %s: %s: set AnyHost if you trust it with that", u.Host, strings.Join(elsewhere, ", "))
	}
	host := u.Host
	if c.config.AnyHost {
		host = ""
	}
	c.card = &usable
	c.remote, err = a2aclient.NewFromCard(ctx, c.card,
		a2aclient.WithJSONRPCTransport(c.httpClient(host, true)), a2aclient.WithRESTTransport(c.httpClient(host, false)))
	if err != nil {
		return fmt.Errorf("agent card: %w", err)
	}
	return nil
}

// Card returns the card of the agent, with the interfaces that the client may use.
func (c *Client) Card() *sdk.AgentCard {
	card := *c.card
	return &card
}

// Tools returns the tools for [react.Config]: send, stream_task, get_task and cancel_task, each with a2a_ and
// the name of the agent before it, as in a2a_planner_send.
func (c *Client) Tools() []react.Tool { return append([]react.Tool(nil), c.tools...) }

func (c *Client) failed(err error) error { return fmt.Errorf("a2a: agent %q: %w", c.config.Name, err) }

// httpClient returns a client for requests to a host, to any if that is empty.
func (c *Client) httpClient(host string, rpc bool) *http.Client {
	client := &http.Client{}
	if c.config.HTTPClient != nil {
		*client = *c.config.HTTPClient
	}
	next := client.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	client.Transport = &transport{next: next, header: c.config.Header, host: host, rpc: rpc}
	client.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if req.URL.Host != via[0].URL.Host || len(via) > 3 {
			return http.ErrUseLastResponse // the Header is for the host that was meant
		}
		return nil
	}
	return client
}

// statusError is a response that no protocol says anything about.
type statusError struct{ status int }

func (e *statusError) Error() string {
	return fmt.Sprintf("the server answers %d %s", e.status, http.StatusText(e.status))
}

// transport adds the header, and finds out what is wrong with responses that are none of the protocol.
type transport struct {
	next   http.RoundTripper
	header http.Header
	host   string
	rpc    bool
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.host != "" && req.URL.Host != t.host {
		return nil, fmt.Errorf("a request to %s is none to %s", req.URL.Host, t.host)
	}
	req = req.Clone(req.Context())
	for name, values := range t.header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	res, err := t.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	isJSON := strings.HasPrefix(res.Header.Get("Content-Type"), jsonType)
	if res.StatusCode/100 != 2 && (t.rpc || !isJSON || passing(res.StatusCode)) {
		res.Body.Close()
		return nil, &statusError{res.StatusCode}
	}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		res.Body = newIdleBody(res.Body, maxIdle)
	} else {
		res.Body = http.MaxBytesReader(nil, res.Body, maxResponse)
	}
	return res, nil
}

const (
	// maxResponse is how many bytes an answer may have.
	maxResponse = 32 << 20
	// maxIdle is how long a stream may be silent before it is taken for dead.
	maxIdle = 2 * time.Minute
)

// passing reports whether a status is one that may pass.
func passing(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		return true
	}
	return status/100 == 5 && status != http.StatusNotImplemented
}

// passes reports whether what went wrong may pass: the agent was not reached, or not able to answer.
func passes(err error) bool {
	if e, ok := errors.AsType[*statusError](err); ok {
		return passing(e.status)
	}
	if _, ok := errors.AsType[*sdk.Error](err); ok {
		return false
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return false
	}
	_, sent := errors.AsType[*url.Error](err)
	return sent || isCut(err)
}
