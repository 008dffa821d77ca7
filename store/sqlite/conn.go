package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/mattn/go-sqlite3"
)

// A conn is a connection with its prepared statements. It talks to the driver without
// database/sql in between, which halves the cost of a statement. One goroutine at a time.
type conn struct {
	raw   *sqlite3.SQLiteConn
	stmts map[string]*stmt
	args  []driver.NamedValue
	cache *cache // stays empty if the connection only reads
	// writes counts the statements begun that can change the database.
	writes int
}

type stmt struct {
	raw    *sqlite3.SQLiteStmt
	writes bool // it can change the database
	dest   row
}

// maxStmts bounds the statements that a connection keeps. Lists make a new one for each number
// of values in a filter.
const maxStmts = 128

// largeArgs is the size from which arguments go to SQLite one by one: the quick way keeps
// a buffer of their size with the statement.
const largeArgs = 64 << 10

// connect opens a connection to the file with the given parameters of its URI. SQLite need not
// lock it against other threads, for it is used by one goroutine at a time.
func connect(path, params string) (*conn, error) {
	p := filepath.ToSlash(path)
	if !strings.HasPrefix(p, "/") {
		p = "/" + p // a drive letter
	}
	// EscapedPath hides the characters that would end the path: ? # %.
	dsn := "file://" + (&url.URL{Path: p}).EscapedPath() + "?_mutex=no&" + params
	raw, err := (&sqlite3.SQLiteDriver{}).Open(dsn)
	if err != nil {
		return nil, fmt.Errorf("sqlite: open %s: %w", path, err)
	}
	return &conn{raw: raw.(*sqlite3.SQLiteConn), stmts: map[string]*stmt{}, cache: newCache()}, nil
}

// connectTo opens a connection for the store's work. All settings are made here, on each
// connection: SQLite keeps most of them per connection.
func connectTo(ctx context.Context, path string, o Options, readOnly bool) (*conn, error) {
	params := "_busy_timeout=10000&_foreign_keys=on&_journal_mode=WAL&_synchronous=" + o.Synchronous.String()
	if o.Exclusive {
		params += exclusive
	}
	if readOnly {
		params += "&_query_only=on"
	} else {
		params += "&_txlock=immediate"
	}
	c, err := connect(path, params)
	if err != nil {
		return nil, err
	}
	// fullfsync is for macOS, where an fsync alone does not reach the disk. The log may grow to
	// 16 MB between checkpoints: the hot pages of several hundred commits are copied once then.
	err = c.script(`PRAGMA journal_size_limit = 67108864; PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON;
		PRAGMA cache_size = -8192; PRAGMA temp_store = MEMORY; PRAGMA mmap_size = 0;
		PRAGMA wal_autocheckpoint = 4000`)
	if err != nil {
		_ = c.close()
		return nil, fmt.Errorf("sqlite: open %s: %w", path, err)
	}
	var mode string
	err = c.each(ctx, `PRAGMA journal_mode`, func(r row) error {
		mode = r.text(0)
		return nil
	})
	if err == nil && mode != "wal" {
		err = fmt.Errorf("journal mode is %q: the file system does not support a write-ahead log", mode)
	}
	if err != nil {
		_ = c.close()
		return nil, fmt.Errorf("sqlite: open %s: %w", path, err)
	}
	return c, nil
}

func (c *conn) close() error {
	c.forget()
	return c.raw.Close()
}

// forget drops the prepared statements.
func (c *conn) forget() {
	for _, s := range c.stmts {
		_ = s.raw.Close() // it repeats the error of the last step, which was told then
	}
	clear(c.stmts)
}

// script runs statements that are not worth preparing.
func (c *conn) script(sql string) error {
	_, err := c.raw.Exec(sql, nil)
	return err
}

// pragma reads a setting that is a number.
func (c *conn) pragma(ctx context.Context, name string) (int64, error) {
	var v int64
	err := c.each(ctx, `PRAGMA `+name, func(r row) error {
		v = r.int(0)
		return nil
	})
	return v, err
}

// exec runs a statement for its effect.
func (c *conn) exec(ctx context.Context, sql string, args ...any) error {
	_, err := c.run(ctx, sql, nil, args)
	return err
}

// each calls fn with each row of a statement. The row holds until fn returns, the blobs and
// texts in it for ever. Fn must not run statements itself.
func (c *conn) each(ctx context.Context, sql string, fn func(row) error, args ...any) error {
	_, err := c.run(ctx, sql, fn, args)
	return err
}

// one is each for at most one row, and reports whether there was one.
func (c *conn) one(ctx context.Context, sql string, fn func(row) error, args ...any) (bool, error) {
	n, err := c.run(ctx, sql, fn, args)
	return n > 0, err
}

func (c *conn) run(ctx context.Context, sql string, fn func(row) error, args []any) (n int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s, err := c.prepare(sql)
	if err != nil {
		return 0, err
	}
	if s.writes {
		c.writes++
	}
	size := 0
	c.args = c.args[:0]
	for i, a := range args {
		switch v := a.(type) {
		case string:
			size += len(v)
		case []byte:
			size += len(v)
		case int:
			a = int64(v)
		}
		c.args = append(c.args, driver.NamedValue{Ordinal: i + 1, Value: a})
	}
	defer clear(c.args)
	if fn == nil && size >= largeArgs {
		// Not kept, for SQLite's own copy of the arguments goes only with the statement.
		delete(c.stmts, sql)
		defer s.raw.Close()
		_, err := s.raw.ExecContext(context.Background(), c.args)
		return 0, err
	}
	// A query makes one call into C for arguments and first step together, so it is the quicker
	// way for statements without rows too.
	rows, err := s.raw.QueryContext(context.Background(), c.args)
	if err != nil {
		return 0, err
	}
	defer func() {
		if closing := rows.Close(); err == nil {
			err = closing
		}
	}()
	if fn == nil {
		return 0, nil
	}
	if s.dest == nil {
		s.dest = make(row, len(rows.Columns()))
	}
	for ; ; n++ {
		// The driver would watch ctx with a callback and two locks for each row.
		if n%64 == 63 && ctx.Err() != nil {
			return n, ctx.Err()
		}
		switch err := rows.Next(s.dest); {
		case err == io.EOF:
			return n, nil
		case err != nil:
			return n, err
		}
		if err := fn(s.dest); err != nil {
			return n, err
		}
	}
}

func (c *conn) prepare(sql string) (*stmt, error) {
	if s := c.stmts[sql]; s != nil {
		return s, nil
	}
	if len(c.stmts) >= maxStmts {
		c.forget()
	}
	raw, err := c.raw.Prepare(sql)
	if err != nil {
		return nil, err
	}
	s := &stmt{raw: raw.(*sqlite3.SQLiteStmt)}
	s.writes = !s.raw.Readonly()
	c.stmts[sql] = s
	return s, nil
}

// A row is what a statement returned, by column. NULL reads as zero.
type row []driver.Value

func (r row) int(i int) int64 {
	v, _ := r[i].(int64)
	return v
}

func (r row) bool(i int) bool { return r.int(i) != 0 }

func (r row) text(i int) string {
	v, _ := r[i].(string)
	return v
}

func (r row) blob(i int) []byte {
	v, _ := r[i].([]byte)
	return v
}

func (r row) id(i int) (id uuid.UUID) {
	copy(id[:], r.blob(i))
	return id
}

func (r row) time(i int) time.Time { return fromNanos(r.int(i)) }
