package a2a

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/everstep-go/everstep/internal/wire"
)

// PushConfig says how clients are notified of tasks that come to rest. The zero value is the default.
type PushConfig struct {
	// Disabled: no client is.
	Disabled bool
	// AllowPrivate lets clients name addresses of this machine and of networks that are not public.
	// Who may send messages can then have the server call what only the server should reach.
	AllowPrivate bool
	// Timeout is how long a notification may take. Default: 15 s.
	Timeout time.Duration
	// Backoff is the pause after the first failure. It doubles with each that follows, up to 5 minutes.
	// Default: 1 s.
	Backoff time.Duration
	// GiveUp is how long a notification is tried. Default: 24 hours.
	GiveUp time.Duration
}

const maxBackoff = 5 * time.Minute

// pusher sends notifications.
type pusher struct {
	config PushConfig
	client *http.Client
}

func newPusher(c PushConfig) (*pusher, error) {
	if c.Timeout < 0 || c.Backoff < 0 || c.GiveUp < 0 {
		return nil, errors.New("a2a: ServerConfig.Push: times must not be negative")
	}
	c.Timeout = cmp.Or(c.Timeout, 15*time.Second)
	c.Backoff = cmp.Or(c.Backoff, time.Second)
	c.GiveUp = cmp.Or(c.GiveUp, 24*time.Hour)
	p := &pusher{config: c}
	p.client = &http.Client{
		Timeout: c.Timeout,
		// A redirect is not followed: it would take the credentials to where the client did not say.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			// No proxy: it would dial in our stead, and look at no address.
			DialContext:         (&net.Dialer{Timeout: c.Timeout, Control: p.control}).DialContext,
			TLSHandshakeTimeout: c.Timeout, ForceAttemptHTTP2: true,
			MaxIdleConns: 100, MaxIdleConnsPerHost: 2, IdleConnTimeout: time.Minute,
			MaxResponseHeaderBytes: 64 << 10,
		},
	}
	return p, nil
}

// control refuses addresses when they are dialled, after the last name was looked up: what a name meant
// when it was checked is of no matter.
func (p *pusher) control(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	return p.allows(to.Addr())
}

// allowsHost refuses a host that is an address which would be refused when it is dialled.
func (p *pusher) allowsHost(host string) error {
	if a, err := netip.ParseAddr(host); err == nil {
		return p.allows(a)
	}
	return nil
}

// errPrivate is the error for an address that is not public.
var errPrivate = errors.New("is no public address")

func (p *pusher) allows(a netip.Addr) error {
	if !p.config.AllowPrivate && !public(a) {
		return fmt.Errorf("%s %w", a, errPrivate)
	}
	return nil
}

// private are the networks of the registries for special purposes (RFC 6890 and its successors) that
// netip has no name for.
var private = prefixes(
	"0.0.0.0/8",       // this network
	"100.64.0.0/10",   // behind carriers
	"192.0.0.0/24",    // for protocols
	"192.0.2.0/24",    // documentation
	"192.88.99.0/24",  // relays of 6to4
	"198.18.0.0/15",   // benchmarks
	"198.51.100.0/24", // documentation
	"203.0.113.0/24",  // documentation
	"240.0.0.0/4",     // reserved, and broadcast
	"64:ff9b:1::/48",  // translation of one's own
	"100::/64",        // discarded
	"2001::/23",       // for protocols, Teredo among them
	"2001:db8::/32",   // documentation
	"3fff::/20",       // documentation
	"5f00::/16",       // segment routing
	"fec0::/10",       // site-local
)

// embedding are the networks whose addresses have one of IPv4 in them, at a byte.
var embedding = []struct {
	prefix netip.Prefix
	at     int
}{
	{netip.MustParsePrefix("64:ff9b::/96"), 12}, // NAT64
	{netip.MustParsePrefix("2002::/16"), 2},     // 6to4
	{netip.MustParsePrefix("::/96"), 12},        // compatible with IPv4
}

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// public reports whether everybody can reach an address.
func public(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if !a.IsGlobalUnicast() || a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() {
		return false
	}
	for _, p := range private {
		if p.Contains(a) {
			return false
		}
	}
	for _, e := range embedding {
		if b := a.As16(); a.Is6() && e.prefix.Contains(a) {
			return public(netip.AddrFrom4([4]byte(b[e.at : e.at+4])))
		}
	}
	return true
}

// errGone is the error of a client that wants no more notifications.
var errGone = errors.New("the client wants no more")

// send notifies a client of one update.
func (p *pusher) send(ctx context.Context, c *sdk.PushConfig, update sdk.Event) error {
	body, err := wire.Marshal(sdk.StreamResponse{Event: update})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(sdk.SvcParamVersion, string(sdk.Version))
	if c.Token != "" {
		req.Header.Set("X-A2A-Notification-Token", c.Token)
	}
	if a := c.Auth; a != nil {
		req.Header.Set("Authorization", a.Scheme+" "+a.Credentials)
	}
	res, err := p.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, _ = io.CopyN(io.Discard, res.Body, 64<<10) // so that the connection can be used again
	switch {
	case res.StatusCode/100 == 2:
		return nil
	case res.StatusCode == http.StatusGone:
		return errGone
	}
	return fmt.Errorf("the client answers %s", res.Status)
}
