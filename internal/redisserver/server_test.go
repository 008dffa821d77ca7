package redisserver_test

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/internal/redisserver"
	"github.com/everstep-go/everstep/internal/redisserver/redistest"
)

func connect(s *redisserver.Server) error {
	c, err := net.Dial("tcp", s.Addr())
	if err == nil {
		c.Close()
	}
	return err
}

func TestAServerCanBeKilledAndStartedAgain(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	require.NoError(t, connect(s))
	require.NoError(t, s.Pause())
	require.NoError(t, s.Resume())
	require.NoError(t, s.Kill())
	require.NoError(t, s.Kill())
	require.Error(t, connect(s))
	require.Error(t, s.Pause())
	require.NoError(t, s.Restart(t.Context()))
	require.NoError(t, connect(s))
	require.NoError(t, s.Stop())
	require.NoError(t, s.Stop())
	require.Error(t, connect(s))
}

func TestAServerCanBeACluster(t *testing.T) {
	t.Parallel()
	require.NoError(t, connect(redistest.StartCluster(t)))
}

func TestAMissingProgramIsTold(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := redisserver.Start(t.Context())
	require.ErrorIs(t, err, redisserver.ErrMissing)
}
