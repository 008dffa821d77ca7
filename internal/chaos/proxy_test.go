//go:build unix

package chaos_test

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/internal/chaos"
)

// echoed returns a connection through a proxy to a server that says everything again.
func echoed(t *testing.T) (*chaos.Proxy, net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	p, err := chaos.NewProxy(l.Addr().String())
	require.NoError(t, err)
	t.Cleanup(p.Close)
	c, err := net.Dial("tcp", p.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return p, c
}

func say(t *testing.T, c net.Conn, text string) {
	t.Helper()
	_, err := io.WriteString(c, text)
	require.NoError(t, err)
}

func hear(t *testing.T, c net.Conn, n int, within time.Duration) (string, error) {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(within)))
	b := make([]byte, n)
	n, err := io.ReadFull(c, b)
	return string(b[:n]), err
}

func TestADarkProxyLosesNothing(t *testing.T) {
	t.Parallel()
	p, c := echoed(t)
	say(t, c, "one")
	got, err := hear(t, c, 3, time.Minute)
	require.NoError(t, err)
	require.Equal(t, "one", got)

	p.SetDark(true)
	say(t, c, "two")
	_, err = hear(t, c, 3, 50*time.Millisecond)
	require.ErrorContains(t, err, "timeout")
	p.SetDark(false)
	got, err = hear(t, c, 3, time.Minute)
	require.NoError(t, err)
	require.Equal(t, "two", got)
}

func TestACutEndsConnections(t *testing.T) {
	t.Parallel()
	p, c := echoed(t)
	say(t, c, "one")
	_, err := hear(t, c, 3, time.Minute)
	require.NoError(t, err)
	p.Cut()
	_, err = hear(t, c, 1, time.Minute)
	require.Error(t, err)
	require.NotContains(t, err.Error(), "timeout")
}

func TestAProxyInTheDarkCanBeClosed(t *testing.T) {
	t.Parallel()
	p, c := echoed(t)
	p.SetDark(true)
	say(t, c, "one")
	p.Close()
	_, err := hear(t, c, 1, time.Minute)
	require.Error(t, err)
}
