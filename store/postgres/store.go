package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/everstep-go/everstep/store"
)

// Store is a [store.Store] in a PostgreSQL database. All its methods may be called by any number
// of goroutines.
type Store struct {
	pool   *pgxpool.Pool
	own    bool // the pool was opened by us
	schema string
	now    func() time.Time // nil: the database's clock

	mu     sync.RWMutex // guards closed, and that no call begins once it is set
	closed bool
	calls  sync.WaitGroup
}

var _ store.Store = (*Store)(nil)

// defaultSchema is the schema that the SQL in this package names.
const defaultSchema = "everstep"

// Options of [Open], [New], [Migrate] and [Validate]. The zero value has the defaults.
type Options struct {
	// Schema has the tables. Empty means "everstep". Stores in different schemas of a database
	// know nothing of each other.
	Schema string
	// MaxConns is how many connections there are at most. Zero means what the DSN says, else
	// 10. [New] ignores it.
	MaxConns int
	// Pooler says that the DSN leads to a pooler in transaction mode, such as PgBouncer:
	// no statements stay prepared and no timeouts are set on the connections; see the package
	// comment. [New] ignores it.
	Pooler bool
	// ManualMigrate makes Open refuse a schema that [Migrate] has not brought up to date,
	// instead of doing it.
	ManualMigrate bool
	// Logger is told of settings of the server under which finished writes can get lost. If
	// nil, slog.Default.
	Logger *slog.Logger
	// Now replaces the database's clock, in tests.
	Now func() time.Time
}

func (opts *Options) withDefaults() Options {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Schema == "" {
		o.Schema = defaultSchema
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

// timeouts end what would keep rows locked for long. A DSN may set others.
var timeouts = map[string]string{
	"statement_timeout":                   "30s",
	"lock_timeout":                        "10s",
	"idle_in_transaction_session_timeout": "30s", // the sending of a large write to Begin is idleness, too
}

// Open connects to the database that the DSN names, which must be the primary server, and
// brings the schema up to date. The ctx bounds the opening, not the store's life.
func Open(ctx context.Context, dsn string, opts *Options) (*Store, error) {
	o := opts.withDefaults()
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	if o.MaxConns > 0 {
		config.MaxConns = int32(o.MaxConns)
	} else if !strings.Contains(dsn, "pool_max_conns") {
		config.MaxConns = 10
	}
	params := config.ConnConfig.RuntimeParams
	if params["application_name"] == "" {
		params["application_name"] = "everstep"
	}
	if o.Pooler {
		if config.ConnConfig.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement {
			config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
		}
	} else {
		for name, value := range timeouts {
			if params[name] == "" {
				params[name] = value
			}
		}
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	s, err := New(ctx, pool, opts)
	if err != nil {
		pool.Close()
		return nil, err
	}
	s.own = true
	return s, nil
}

// New is Open on a pool of the caller's own, which Close leaves open. It should have timeouts for
// statements, locks and idle transactions, as Open sets them.
func New(ctx context.Context, pool *pgxpool.Pool, opts *Options) (*Store, error) {
	o := opts.withDefaults()
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	defer conn.Release()
	if !o.ManualMigrate {
		if err := migrate(ctx, conn.Conn(), o.Schema, migrations()); err != nil {
			return nil, err
		}
	}
	if err := validate(ctx, conn.Conn(), o.Schema, migrations()); err != nil {
		return nil, err
	}
	if err := warn(ctx, conn.Conn(), o.Logger); err != nil {
		return nil, err
	}
	return &Store{pool: pool, schema: o.Schema, now: o.Now}, nil
}

// warn tells of settings under which a write that returned may be lost.
func warn(ctx context.Context, c *pgx.Conn, log *slog.Logger) error {
	for name, loses := range map[string]string{
		"synchronous_commit": "a crash of the server loses the last commits, with them results of tools that did run",
		"fsync":              "a power cut loses commits and may damage the database",
		"full_page_writes":   "a power cut may damage the database",
	} {
		var value string
		if err := c.QueryRow(ctx, `SELECT current_setting($1::text)`, name).Scan(&value); err != nil {
			return fmt.Errorf("postgres: read %s: %w", name, err)
		}
		if value == "off" {
			log.WarnContext(ctx, "postgres: "+name+" is off: "+loses)
		}
	}
	return nil
}

// Close waits for the calls under way and closes the connections. Calls after it return
// [store.ErrClosed]; a second Close does nothing.
func (s *Store) Close() error {
	s.mu.Lock()
	again := s.closed
	s.closed = true
	s.mu.Unlock()
	s.calls.Wait()
	if s.own && !again {
		s.pool.Close()
	}
	return nil
}

// enter begins a call, and leave ends it.
func (s *Store) enter() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return fmt.Errorf("postgres: %w", store.ErrClosed)
	}
	s.calls.Add(1)
	return nil
}

func (s *Store) leave() { s.calls.Done() }

// sql puts the store's schema into a statement of this package.
func (s *Store) sql(text string) string { return inSchema(text, s.schema) }

func inSchema(text, schema string) string {
	if schema == defaultSchema {
		return text
	}
	return strings.ReplaceAll(text, defaultSchema+".", pgx.Identifier{schema}.Sanitize()+".")
}

// sqlNow is the time in SQL: the first parameter, else the database's clock.
const sqlNow = `coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint * 1000)`

// clock is the argument for sqlNow.
func (s *Store) clock() pgtype.Int8 {
	if s.now == nil {
		return pgtype.Int8{}
	}
	return pgtype.Int8{Int64: nanos(s.now()), Valid: true}
}
