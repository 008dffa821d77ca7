package a2a

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOnlyPublicAddressesAre(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"8.8.8.8": true, "1.1.1.1": true, "93.184.216.34": true, "2606:4700:4700::1111": true, "2a00:1450:4001:81b::200e": true,
		"172.15.255.255": true, "172.32.0.1": true, "100.63.255.255": true, "100.128.0.1": true, "9.255.255.255": true, "11.0.0.0": true,
		"127.0.0.1": false, "127.255.255.254": false, "0.0.0.0": false, "0.1.2.3": false,
		"10.0.0.1": false, "172.16.0.1": false, "172.31.255.255": false, "192.168.1.1": false,
		"169.254.169.254": false, "100.64.0.1": false, "100.127.255.255": false,
		"192.0.0.1": false, "192.0.2.1": false, "198.18.0.1": false, "198.19.255.255": false, "198.51.100.1": false, "203.0.113.1": false,
		"224.0.0.1": false, "239.255.255.255": false, "240.0.0.1": false, "255.255.255.255": false,
		"::1": false, "::": false, "fe80::1": false, "fe80::1%eth0": false, "fc00::1": false, "fd12:3456::1": false, "ff02::1": false, "fec0::1": false,
		"::ffff:127.0.0.1": false, "::ffff:10.0.0.1": false, "::ffff:169.254.169.254": false, "::ffff:8.8.8.8": true,
		"::127.0.0.1": false, "64:ff9b::7f00:1": false, "64:ff9b::a9fe:a9fe": false, "64:ff9b::808:808": true, "64:ff9b:1::1": false,
		"2002:7f00:1::": false, "2002:a00:1::": false, "2002:808:808::": true, "2001::1": false, "2001:db8::1": false, "100::1": false,
	} {
		assert.Equal(t, want, public(netip.MustParseAddr(text)), text)
	}
}

func TestAWebhookThatIsNotPublicIsNotCalled(t *testing.T) {
	t.Parallel()
	called := 0
	hook := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called++ }))
	defer hook.Close()
	u, err := url.Parse(hook.URL)
	require.NoError(t, err)
	update := &sdk.TaskStatusUpdateEvent{TaskID: "x", ContextID: "y"}

	guarded, err := newPusher(PushConfig{})
	require.NoError(t, err)
	// A name that means this machine when it is looked up, whatever it meant before.
	for _, host := range []string{"127.0.0.1", "localhost", "::ffff:127.0.0.1"} {
		err := guarded.send(t.Context(), &sdk.PushConfig{URL: "http://" + net.JoinHostPort(host, u.Port())}, update)
		require.ErrorIs(t, err, errPrivate, host)
	}
	assert.Zero(t, called)

	// One that may be called does not take the call elsewhere.
	redirects := httptest.NewServer(http.RedirectHandler(hook.URL, http.StatusTemporaryRedirect))
	defer redirects.Close()
	open, err := newPusher(PushConfig{AllowPrivate: true})
	require.NoError(t, err)
	require.ErrorContains(t, open.send(t.Context(), &sdk.PushConfig{URL: redirects.URL}, update), "307")
	assert.Zero(t, called)
	require.NoError(t, open.send(t.Context(), &sdk.PushConfig{URL: hook.URL}, update))
	assert.Equal(t, 1, called)

	// The environment's proxy would call what the guard does not see.
	assert.Nil(t, guarded.client.Transport.(*http.Transport).Proxy)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, open.send(ctx, &sdk.PushConfig{URL: hook.URL}, update), context.Canceled)
	gone := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) }))
	defer gone.Close()
	assert.ErrorIs(t, open.send(t.Context(), &sdk.PushConfig{URL: gone.URL}, update), errGone)
}

func TestAnAddressThatIsNotPublicIsRefusedWhenItIsNamed(t *testing.T) {
	t.Parallel()
	p, err := newPusher(PushConfig{})
	require.NoError(t, err)
	for host, want := range map[string]error{
		"10.0.0.1": errPrivate, "::1": errPrivate, "169.254.169.254": errPrivate, "8.8.8.8": nil,
		"example.com": nil, "internal": nil, // what names mean is seen when they are dialled
	} {
		assert.ErrorIs(t, p.allowsHost(host), want, host)
	}
}
