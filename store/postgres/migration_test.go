package postgres

import (
	"bytes"
	"log/slog"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/internal/pgserver/pgtest"
)

func TestManyProcessesMigrateAnEmptyDatabaseAtOnce(t *testing.T) {
	t.Parallel()
	dsn := pgtest.New(t)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			s, err := Open(t.Context(), dsn, &Options{Logger: quiet, MaxConns: 1})
			if assert.NoError(t, err) {
				assert.NoError(t, s.Close())
			}
		})
	}
	wg.Wait()
	require.NoError(t, Validate(t.Context(), dsn, nil))
}

func TestAManualMigrationIsAskedFor(t *testing.T) {
	t.Parallel()
	dsn := pgtest.New(t)
	opts := &Options{Schema: `my "own" schema`, ManualMigrate: true, Logger: quiet}
	_, err := Open(t.Context(), dsn, opts)
	require.ErrorContains(t, err, "postgres.Migrate")
	require.ErrorContains(t, Validate(t.Context(), dsn, opts), "postgres.Migrate")
	require.NoError(t, Migrate(t.Context(), dsn, opts))
	require.NoError(t, Migrate(t.Context(), dsn, opts), "a second time")
	require.NoError(t, Validate(t.Context(), dsn, opts))
	open(t, dsn, opts)
}

func TestTheSQLIsWhatMigrateRuns(t *testing.T) {
	t.Parallel()
	dsn := pgtest.New(t)
	opts := &Options{Schema: "by hand", ManualMigrate: true}
	_, err := connect(t, dsn).PgConn().Exec(t.Context(), SQL(0, opts)).ReadAll()
	require.NoError(t, err)
	s := open(t, dsn, opts)
	drive(t, s, uuid.New(), step("entrypoint", 1))
	require.NotContains(t, SQL(len(migrations()), opts), "sessions")
}

func TestASchemaOfTheNextVersionWillDoAndOneBeyondIsRefused(t *testing.T) {
	t.Parallel()
	dsn := pgtest.New(t)
	s := open(t, dsn, nil)
	c := connect(t, dsn)
	newest := len(migrations())
	for version, want := range map[int]string{newest: "", newest + 1: "", newest + 2: "use a newer one", 0: "postgres.Migrate"} {
		execute(t, c, `UPDATE everstep.migrations SET version = $1`, version)
		err := Validate(t.Context(), dsn, nil)
		if want == "" {
			require.NoError(t, err, version)
			continue
		}
		require.ErrorContains(t, err, want)
	}
	execute(t, c, `UPDATE everstep.migrations SET version = $1`, newest)
	require.NoError(t, s.Close())
}

func TestAMigrationHappensWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	dsn := pgtest.New(t)
	c := connect(t, dsn)
	ctx := t.Context()
	all := append(migrations(), migration{version: len(migrations()) + 1, sql: `CREATE TABLE everstep.more (a int); CREATE TABLE broken (;`})
	require.ErrorContains(t, migrate(ctx, c, "everstep", all), "to version")
	version, err := schemaVersion(ctx, c, "everstep")
	require.NoError(t, err)
	require.Equal(t, len(migrations()), version)
	all[len(all)-1].sql = `CREATE TABLE everstep.more (a int);`
	require.NoError(t, migrate(ctx, c, "everstep", all))
	execute(t, c, `SELECT FROM everstep.more`)
}

func TestAUserWithoutDDLCanOpenWhatIsUpToDate(t *testing.T) {
	t.Parallel()
	dsn := pgtest.New(t)
	require.NoError(t, Migrate(t.Context(), dsn, nil))
	c := connect(t, dsn)
	role := "app_" + uuid.NewString()[:8]
	execute(t, c, `CREATE ROLE `+role+` LOGIN`)
	execute(t, c, `GRANT USAGE ON SCHEMA everstep TO `+role)
	execute(t, c, `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA everstep TO `+role)
	s := open(t, dsn+" user="+role, nil)
	drive(t, s, uuid.New(), step("entrypoint", 1))
	require.NoError(t, s.Close())
	execute(t, c, `DROP OWNED BY `+role)
	execute(t, c, `DROP ROLE `+role)
}

func TestOpenWarnsOfAServerThatMayLoseCommits(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s, err := Open(t.Context(), pgtest.New(t)+" synchronous_commit=off", &Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.Contains(t, log.String(), "synchronous_commit is off")
	require.Contains(t, log.String(), "fsync is off")
}
