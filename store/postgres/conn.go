package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// writeTimeout bounds a write that was sent. The server's own timeout ends it sooner; this one
	// is for a server that cannot be reached, and leaves the write undecided.
	writeTimeout = time.Minute
	// attempts is how often a call is made that wrote nothing.
	attempts = 8
)

// A repeat says after which failures a call is made again by itself. What it leaves over is for the
// caller, who repeats writes that have a write id.
type repeat int

const (
	// unwritten: only if it is known that nothing was written.
	unwritten repeat = iota
	// lost: also if the connection broke before the answer, for doing it twice is doing it once.
	lost
)

// write calls do with a connection. Until it has one, ctx may withdraw the call; afterwards do gets
// a context that ctx does not end: a write that is given up on its way is undecided. A
// transaction that do left open is rolled back.
func (s *Store) write(ctx context.Context, op string, again repeat, do func(ctx context.Context, c *pgx.Conn) error) error {
	return s.call(ctx, op, again, func(c *pgx.Conn) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
		defer cancel()
		return do(ctx, c)
	})
}

// read calls do with a connection, for what changes nothing.
func (s *Store) read(ctx context.Context, op string, do func(ctx context.Context, c *pgx.Conn) error) error {
	return s.call(ctx, op, lost, func(c *pgx.Conn) error { return do(ctx, c) })
}

func (s *Store) call(ctx context.Context, op string, again repeat, do func(c *pgx.Conn) error) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	for attempt := 1; ; attempt++ {
		err := s.attempt(ctx, again, do)
		var r *repeatable
		if !errors.As(err, &r) {
			if err != nil {
				return fmt.Errorf("postgres: %s: %w", op, err)
			}
			return nil
		}
		if attempt == attempts {
			return fmt.Errorf("postgres: %s: %w", op, r.error)
		}
		select {
		case <-time.After(time.Duration(attempt) * 25 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("postgres: %s: %w", op, errors.Join(ctx.Err(), r.error))
		}
	}
}

// repeatable is an error after which the call may be made again.
type repeatable struct{ error }

func (s *Store) attempt(ctx context.Context, again repeat, do func(c *pgx.Conn) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("not begun: %w", err)
	}
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("not begun: %w", err)
		}
		return &repeatable{err} // the database may be starting again
	}
	defer conn.Release()
	c := conn.Conn()
	err = do(c)
	if err != nil && !c.IsClosed() && c.PgConn().TxStatus() != 'I' {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
		defer cancel()
		_, _ = c.Exec(ctx, `ROLLBACK`) // the first error is the one to tell; Release sees to the rest
	}
	if err != nil && ctx.Err() == nil && (nothingWritten(err) || again == lost && disconnected(err)) {
		return &repeatable{err}
	}
	return err
}

// nothingWritten reports whether the server undid everything, or was never told to do it.
func nothingWritten(err error) bool {
	switch code(err) {
	case "40001", "40P01": // serialization failure, deadlock
		return true
	}
	return pgconn.SafeToRetry(err)
}

// disconnected reports whether the connection broke.
func disconnected(err error) bool {
	if c := code(err); c != "" {
		// Connection failures, and the server's going down or coming up.
		return strings.HasPrefix(c, "08") || strings.HasPrefix(c, "57P0")
	}
	var network net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &network) && !errors.Is(err, context.DeadlineExceeded)
}

// code is the SQLSTATE of an error of the server.
func code(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// A batch is statements that go to the server together, in one round trip.
type batch struct {
	pgx.Batch
	store *Store
}

func (s *Store) batch() *batch { return &batch{store: s} }

func (b *batch) exec(sql string, args ...any) { b.Queue(b.store.sql(sql), args...) }

// each has fn called with each row.
func (b *batch) each(sql string, fn func(pgx.Row) error, args ...any) {
	b.Queue(b.store.sql(sql), args...).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			if err := fn(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	})
}

// send sends the batch and handles the answers.
func (b *batch) send(ctx context.Context, c *pgx.Conn) error {
	return c.SendBatch(ctx, &b.Batch).Close()
}

// snapshot begins a transaction that reads one moment of the database. The batch, or another one,
// ends it with done.
const (
	snapshot = `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY`
	begin    = `BEGIN ISOLATION LEVEL READ COMMITTED`
	done     = `COMMIT`
)
