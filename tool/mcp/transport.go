package mcp

import (
	"context"
	"net/http"
	"os"
	"os/exec"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// transport makes what a new connection is made of. The end of ctx kills the process behind it, if there is one.
func (c Config) transport(ctx context.Context) (sdk.Transport, error) {
	switch {
	case c.Transport != nil:
		return c.Transport()
	case c.URL != "":
		return &sdk.StreamableClientTransport{Endpoint: c.URL, HTTPClient: c.client()}, nil
	}
	cmd := exec.CommandContext(ctx, c.Command, c.Args...)
	cmd.Env = append(os.Environ(), c.Env...)
	cmd.Dir, cmd.Stderr = c.Dir, c.Stderr
	cmd.WaitDelay = c.Grace // for grandchildren that hold on to Stderr
	return &sdk.CommandTransport{Command: cmd, TerminateDuration: c.Grace}, nil
}

func (c Config) client() *http.Client {
	client := http.DefaultClient
	if c.HTTPClient != nil {
		client = c.HTTPClient
	}
	if len(c.Header) == 0 {
		return client
	}
	with := *client
	with.Transport = &headers{next: client.Transport, header: c.Header.Clone()}
	return &with
}

// headers adds headers to requests.
type headers struct {
	next   http.RoundTripper // nil: the default
	header http.Header
}

func (h *headers) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	for name, values := range h.header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	next := h.next
	if next == nil {
		next = http.DefaultTransport
	}
	return next.RoundTrip(req)
}
