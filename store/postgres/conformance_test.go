package postgres

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/internal/pgserver/pgtest"
	"github.com/everstep-go/everstep/store"
	"github.com/everstep-go/everstep/store/storetest"
)

func TestConformance(t *testing.T) {
	modes := []string{"cache_statement"}
	if os.Getenv("CI") == "true" { // they differ in how values are encoded; cache_describe is the pooler's
		modes = append(modes, "exec", "simple_protocol")
	}
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) { conform(t, pgtest.New(t)+" default_query_exec_mode="+mode, Options{}) })
	}
}

func TestConformanceThroughPgBouncer(t *testing.T) {
	pooled, _ := bouncer(t, pgtest.Server(t))
	conform(t, pooled, Options{Pooler: true})
}

var schemas atomic.Int64

// conform runs the suite in one database.
func conform(t *testing.T, dsn string, o Options) { storetest.Run(t, harness(t, dsn, o)) }

// harness opens stores in one database. Each has a schema of its own, and all share a pool.
func harness(t testing.TB, dsn string, o Options) storetest.Harness {
	base, err := Open(t.Context(), dsn+" pool_max_conns=8", &Options{Pooler: o.Pooler, Logger: quiet})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, base.Close()) })
	open := func(t testing.TB, schema string, opts storetest.Options) store.Store {
		mode := base.pool.Config().ConnConfig.DefaultQueryExecMode
		if text := mode == pgx.QueryExecModeExec || mode == pgx.QueryExecModeSimpleProtocol; text && strings.HasSuffix(t.Name(), "/value-large") {
			t.Skip("64 MiB as text take minutes")
		}
		s, err := New(t.Context(), base.pool, &Options{Schema: schema, Now: opts.Now, Logger: quiet})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, s.Close()) })
		return s
	}
	return storetest.Harness{
		Open: func(t testing.TB, opts storetest.Options) store.Store {
			return open(t, fmt.Sprintf(`of "case" %d`, schemas.Add(1)), opts)
		},
		Reopen: func(t testing.TB, s store.Store, opts storetest.Options) store.Store {
			require.NoError(t, s.Close())
			return open(t, s.(*Store).schema, opts)
		},
		Rows: func(t testing.TB, s store.Store) map[string]int { return rows(t, s.(*Store)) },
	}
}

// rows counts the rows of every table.
func rows(t testing.TB, s *Store) map[string]int {
	t.Helper()
	counts := map[string]int{}
	require.NoError(t, s.read(t.Context(), "count", func(ctx context.Context, c *pgx.Conn) error {
		b := s.batch()
		for _, table := range []string{"sessions", "lines", "runs", "running", "checkpoints", "documents", "messages", "tasks"} {
			b.each(`SELECT count(*) FROM everstep.`+table, func(row pgx.Row) error {
				var n int
				err := row.Scan(&n)
				counts[table] = n
				return err
			})
		}
		return b.send(ctx, c)
	}))
	return counts
}
