package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"hash/fnv"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// library is whose versions a row of the version table counts, for others may use the schema too.
const library = "everstep"

// A migration leads from the schema version before it to its own.
type migration struct {
	version int
	sql     string
}

// migrations returns all of them in order. They are compiled in, so a fault in their names is
// one of this package.
func migrations() []migration {
	entries, err := migrationFiles.ReadDir("migrations")
	if err != nil {
		panic(err)
	}
	var all []migration
	for i, entry := range entries {
		number, _, _ := strings.Cut(entry.Name(), "_")
		version, err := strconv.Atoi(number)
		if err != nil || version != i+1 {
			panic("postgres: migration " + entry.Name() + " is out of order")
		}
		text, err := migrationFiles.ReadFile(path.Join("migrations", entry.Name()))
		if err != nil {
			panic(err)
		}
		all = append(all, migration{version: version, sql: string(text)})
	}
	return all
}

const (
	createVersions = `CREATE TABLE IF NOT EXISTS everstep.migrations (library text PRIMARY KEY, version integer NOT NULL)`
	setVersion     = `INSERT INTO everstep.migrations (library, version) VALUES ('` + library + `', %d) ON CONFLICT (library) DO UPDATE SET version = excluded.version`
)

// SQL returns what [Migrate] would run in a schema of that version, for those who run it by hand; an
// empty schema has version 0. It is one transaction. The schema is the one in opts.
func SQL(version int, opts *Options) string {
	o := opts.withDefaults()
	var b strings.Builder
	fmt.Fprintf(&b, "BEGIN;\nCREATE SCHEMA IF NOT EXISTS %s;\n%s;\n", pgx.Identifier{o.Schema}.Sanitize(), createVersions)
	for _, m := range migrations() {
		if m.version > version {
			fmt.Fprintf(&b, "\n%s\n"+setVersion+";\n", m.sql, m.version)
		}
	}
	b.WriteString("COMMIT;\n")
	return inSchema(b.String(), o.Schema)
}

// Migrate creates the schema, or brings it up to date. [Open] does so by itself unless
// [Options.ManualMigrate] is set. Any number of processes may do it at once.
func Migrate(ctx context.Context, dsn string, opts *Options) error {
	return withConn(ctx, dsn, opts, func(c *pgx.Conn, o Options) error { return migrate(ctx, c, o.Schema, migrations()) })
}

// Validate reports whether this version of the package can work with the schema as it is.
func Validate(ctx context.Context, dsn string, opts *Options) error {
	return withConn(ctx, dsn, opts, func(c *pgx.Conn, o Options) error { return validate(ctx, c, o.Schema, migrations()) })
}

func withConn(ctx context.Context, dsn string, opts *Options, do func(*pgx.Conn, Options) error) error {
	o := opts.withDefaults()
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	if o.Pooler {
		config.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	c, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	defer c.Close(context.WithoutCancel(ctx))
	return do(c, o)
}

// validate accepts the newest version and the one after it, which a newer process may have made
// already: each migration leaves the schema fit for the version before.
func validate(ctx context.Context, c *pgx.Conn, schema string, all []migration) error {
	version, err := schemaVersion(ctx, c, schema)
	if err != nil {
		return fmt.Errorf("postgres: validate: %w", err)
	}
	newest := len(all)
	switch {
	case version == 0:
		return fmt.Errorf("postgres: schema %q has no tables of ours: call postgres.Migrate first", schema)
	case version < newest:
		return fmt.Errorf("postgres: schema %q is version %d and %d is needed: call postgres.Migrate first", schema, version, newest)
	case version > newest+1:
		return fmt.Errorf("postgres: schema %q is version %d and this program can work with %d at most: use a newer one", schema, version, newest+1)
	}
	return nil
}

// schemaVersion is zero if there is no schema, or nothing of ours in it.
func schemaVersion(ctx context.Context, c *pgx.Conn, schema string) (version int, err error) {
	err = c.QueryRow(ctx, inSchema(`SELECT version FROM everstep.migrations WHERE library = '`+library+`'`, schema)).Scan(&version)
	if code(err) == "3F000" || code(err) == "42P01" || errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	return version, err
}

// migrate takes one step after the other, each in a transaction of its own, until the schema is up
// to date. If it is, nothing is asked of the server that its user might not be allowed.
func migrate(ctx context.Context, c *pgx.Conn, schema string, all []migration) error {
	for {
		version, err := schemaVersion(ctx, c, schema)
		if err == nil && version >= len(all) {
			return nil
		}
		taken := false
		if err == nil {
			taken, err = migrateOnce(ctx, c, schema, all)
		}
		if err != nil {
			return fmt.Errorf("postgres: migrate: %w", err)
		}
		if taken {
			continue
		}
		// Another process is at it. Waiting for its lock within a statement would hold up what it
		// builds, so it is tried again and again.
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("postgres: migrate: %w", ctx.Err())
		}
	}
}

// migrateOnce takes the next step. It reports false if another process has the lock. The lock
// is the transaction's, for a pooler may give the session's to somebody else.
func migrateOnce(ctx context.Context, c *pgx.Conn, schema string, all []migration) (taken bool, err error) {
	tx, err := c.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return false, err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // nothing if it was committed
	if err := tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock($1::bigint)`, lockNumber(schema)).Scan(&taken); err != nil || !taken {
		return false, err
	}
	exists := false
	if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1::text)`, schema).Scan(&exists); err != nil {
		return false, err
	}
	var script []string
	if !exists {
		script = append(script, `CREATE SCHEMA `+pgx.Identifier{schema}.Sanitize())
	}
	script = append(script, inSchema(createVersions, schema), `SET LOCAL statement_timeout = 0`)
	for _, sql := range script {
		if _, err := tx.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			return false, err
		}
	}
	version, err := schemaVersion(ctx, c, schema)
	if err != nil || version >= len(all) {
		return true, err
	}
	m := all[version]
	if _, err := tx.Exec(ctx, inSchema(m.sql+fmt.Sprintf(setVersion, m.version), schema), pgx.QueryExecModeSimpleProtocol); err != nil {
		return false, fmt.Errorf("to version %d: %w", m.version, err)
	}
	return true, tx.Commit(ctx)
}

// lockNumber is that of the advisory lock with a name.
func lockNumber(name string) int64 {
	hash := fnv.New64a()
	hash.Write([]byte(library + "\x00" + name))
	return int64(hash.Sum64())
}
