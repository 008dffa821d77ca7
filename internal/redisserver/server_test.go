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

func TestAFrozenServerAnswersLater(t *testing.T) {
	t.Parallel()
	s := redistest.StartCluster(t)
	require.NoError(t, s.Freeze())
	c, err := net.Dial("tcp", s.Addr())
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Write([]byte("CLUSTER INFO\r\n"))
	require.NoError(t, err)
	require.NoError(t, s.Thaw())
	answer := make([]byte, 4096)
	n, err := c.Read(answer)
	require.NoError(t, err)
	require.Contains(t, string(answer[:n]), "cluster_slots_assigned:16384")
	s.Kill()
	require.Error(t, s.Freeze())
}
