package pgserver_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/internal/pgserver"
	"github.com/everstep-go/everstep/internal/pgserver/pgtest"
)

func TestServerKeepsItsDataThroughACrash(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, &pgserver.Options{TCP: true, Fsync: true})
	ctx := t.Context()
	require.NoError(t, s.CreateDatabase(ctx, "kept"))
	require.NoError(t, s.Execute(ctx, "kept", `CREATE TABLE t (n int); INSERT INTO t VALUES (1)`))
	for _, immediate := range []bool{true, false} {
		require.NoError(t, s.Restart(ctx, immediate))
		require.NoError(t, s.Execute(ctx, "kept", `DO 'BEGIN ASSERT (SELECT count(*) = 1 FROM t); END'`))
	}
	require.Contains(t, s.DSN("kept"), "host=127.0.0.1 ")
}

func TestStopLeavesNothing(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, nil)
	require.DirExists(t, s.Socket())
	require.NoError(t, s.Stop())
	require.NoDirExists(t, s.Socket())
	require.NoError(t, s.Stop())
	require.ErrorContains(t, s.Restart(t.Context(), false), "stopped")
}

func TestAServerThatDoesNotStartSaysWhy(t *testing.T) {
	t.Parallel()
	pgtest.Need(t)
	_, err := pgserver.Start(t.Context(), &pgserver.Options{Settings: map[string]string{"wal_level": "nonsense"}})
	require.ErrorContains(t, err, "wal_level")
}

func TestMissingProgramsAreTold(t *testing.T) {
	t.Parallel()
	_, err := pgserver.Start(t.Context(), &pgserver.Options{BinDir: os.TempDir()})
	require.ErrorIs(t, err, pgserver.ErrMissing)
}
