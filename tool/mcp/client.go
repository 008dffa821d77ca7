package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everstep-go/everstep/react"
)

// ErrClosed is the error of a [Client] that is closed.
var ErrClosed = errors.New("mcp: the client is closed")

// Config says how to reach a server, and what its tools are to an agent. Name and one of Command, URL and
// Transport are required; zero fields mean the default.
type Config struct {
	// Name of the server, in the names of its tools and in errors.
	Name string

	// Command starts a server that speaks over its standard input and output. Env is added to the
	// environment of this process. Stderr gets what the server logs, by default nobody does.
	Command string
	Args    []string
	Env     []string
	Dir     string
	Stderr  io.Writer

	// URL is that of a server that speaks streamable HTTP. Header is added to each request.
	// HTTPClient authorizes, for example. Default: http.DefaultClient.
	URL        string
	Header     http.Header
	HTTPClient *http.Client

	// Transport makes any other connection. It is called for each new one.
	Transport func() (sdk.Transport, error)

	// Prefix stands before the names of the tools; react.Set("") leaves them as they are.
	// Default: the name of the server and "__", as in files__read.
	Prefix react.Optional[string]
	// Capabilities that an agent must have been granted for all tools of the server.
	Capabilities []string
	// Options says how a tool is to be called, perhaps from what the server says of it; believe that
	// only of a server that you trust. Default: the zero options.
	Options func(*sdk.Tool) react.ToolOptions

	// ConnectTimeout is how long each attempt to connect may take. Default: 10 s.
	ConnectTimeout time.Duration
	// CallTimeout is the Timeout of tools that have none by Options. Default: 60 s. Negative: no limit.
	CallTimeout time.Duration
	// Grace is how long a process may take to end when its input is closed, and again when it is asked to
	// terminate, before it is killed. Default: 5 s.
	Grace time.Duration
}

// A Client is connected to a server and has its tools. It is safe for concurrent use.
type Client struct {
	config Config

	closing context.Context // ends with Close, and with it what waits for a connection
	shut    context.CancelFunc

	connecting chan struct{}  // holds one while somebody connects
	stale      sync.WaitGroup // links that are being closed

	mu      sync.Mutex // guards what follows
	link    *link      // nil: none
	tools   []react.Tool
	refused error
}

// Connect connects to a server and reads the list of its tools. It tries once; a connection that is lost
// later is made again when it is needed. The end of ctx has no effect on the client: close it.
func Connect(ctx context.Context, config Config) (*Client, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	c := &Client{config: config.withDefaults(), connecting: make(chan struct{}, 1)}
	c.closing, c.shut = context.WithCancel(context.Background())
	l, err := c.dial(ctx)
	if err != nil {
		return nil, c.failed(err)
	}
	c.link = l
	c.tools, c.refused = c.toolsOf(l.listed)
	return c, nil
}

// Tools returns the tools that the server has, in its order, for [react.Config]. The list is that of Connect,
// or of the last Refresh.
func (c *Client) Tools() []react.Tool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.tools)
}

// Refused says which tools of the server an agent cannot have, and why: all those that are not in Tools. Nil
// if there are none.
func (c *Client) Refused() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused
}

// Refresh reads the list of tools again. Agents keep the tools that they were made with: make a new one if
// the list has changed.
func (c *Client) Refresh(ctx context.Context) error {
	l, err := c.connected(ctx)
	if err != nil {
		return c.failed(err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.config.ConnectTimeout)
	defer cancel()
	listed, err := l.list(ctx)
	if err != nil {
		return c.failed(err)
	}
	tools, refused := c.toolsOf(listed)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tools, c.refused = tools, refused
	return nil
}

// Close ends the connection, and with it the calls that are under way and the process of the server.
func (c *Client) Close() error {
	c.shut()
	c.connecting <- struct{}{} // nobody connects from now on
	defer func() { <-c.connecting }()
	c.mu.Lock()
	l := c.link
	c.link = nil
	c.mu.Unlock()
	defer c.stale.Wait()
	if l == nil {
		return nil
	}
	err := l.close()
	if _, ok := errors.AsType[*exec.ExitError](err); ok || err == nil {
		return nil // the process has ended, whatever it thought of that
	}
	return c.failed(err)
}

// Reconnecting follows contract section 8.
const (
	attempts     = 3
	firstBackoff = 500 * time.Millisecond
	lastBackoff  = 30 * time.Second
)

// connected returns the connection, a new one if it was lost.
func (c *Client) connected(ctx context.Context) (*link, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.closing, func() { cancel(ErrClosed) })()
	select {
	case c.connecting <- struct{}{}:
		defer func() { <-c.connecting }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if c.closing.Err() != nil {
		return nil, ErrClosed
	}
	if l := c.current(); l != nil {
		return l, nil
	}
	for n, backoff := 1, firstBackoff; ; n, backoff = n+1, min(2*backoff, lastBackoff) {
		l, err := c.dial(ctx)
		if err == nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.link = l
			return l, nil
		}
		if n == attempts {
			return nil, err
		}
		select {
		case <-time.After(backoff):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// current returns the connection, nil if it was lost.
func (c *Client) current() *link {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.link; l != nil && l.lost() {
		c.stale.Go(func() { l.retire(c.closing) })
		c.link = nil
	}
	return c.link
}

func (c *Client) failed(err error) error {
	if errors.Is(err, ErrClosed) {
		return err
	}
	return fmt.Errorf("mcp: server %q: %w", c.config.Name, err)
}

func (c Config) withDefaults() Config {
	fallback := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	fallback(&c.ConnectTimeout, 10*time.Second)
	fallback(&c.CallTimeout, time.Minute)
	fallback(&c.Grace, 5*time.Second)
	c.CallTimeout = max(c.CallTimeout, 0)
	if c.Options == nil {
		c.Options = func(*sdk.Tool) react.ToolOptions { return react.ToolOptions{} }
	}
	return c
}

func (c Config) check() error {
	ways := 0
	for _, given := range []bool{c.Command != "", c.URL != "", c.Transport != nil} {
		if given {
			ways++
		}
	}
	switch {
	case c.Name == "":
		return errors.New("mcp: a server needs a Name")
	case ways != 1:
		return fmt.Errorf("mcp: server %q: one of Command, URL and Transport is needed, not %d of them", c.Name, ways)
	case c.ConnectTimeout < 0 || c.Grace < 0:
		return fmt.Errorf("mcp: server %q: a timeout is negative", c.Name)
	}
	return nil
}
