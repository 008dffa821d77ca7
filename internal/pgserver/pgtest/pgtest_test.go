package pgtest_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/internal/pgserver/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

func TestEachDatabaseIsNew(t *testing.T) {
	t.Parallel()
	require.NotEqual(t, pgtest.New(t), pgtest.New(t))
}
