package redisserver_test

import (
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/internal/redisserver/redistest"
)

func TestAServerIsStartedKilledAndResumed(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for range 2 {
		c, err := net.Dial("tcp", s.Addr())
		require.NoError(t, err)
		require.NoError(t, c.Close())
		assert.Error(t, s.Resume(t.Context()))
		s.Kill()
		s.Kill()
		_, err = net.Dial("tcp", s.Addr())
		require.Error(t, err)
		require.NoError(t, s.Resume(t.Context()))
	}
	require.NoError(t, s.Stop())
	require.NoError(t, s.Stop())
}
