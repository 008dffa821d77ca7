package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/everstep-go/everstep/store"
)

// Store is a [store.Store] in a database file. All its methods may be called by any number of
// goroutines.
type Store struct {
	path    string
	now     func() time.Time
	lock    *os.File
	writer  *writer
	readers chan *conn // those that are free
	count   int        // of all readers

	mu     sync.RWMutex // guards closed, and that no call begins once it is set
	closed bool
	calls  sync.WaitGroup
}

var _ store.Store = (*Store)(nil)

// Options of [Open]. The zero value has the defaults.
type Options struct {
	// Synchronous says what a finished write survives. Zero is [Full].
	Synchronous Synchronous
	// Readers is how many reads can go on at once. Zero means 4.
	Readers int
	// Exclusive keeps all other programs from the file while it is open, those that only want to
	// read it too, such as a backup. The database then locks nothing for them, which spares each
	// transaction six calls to the system. It does nothing on systems on which Open locks nothing.
	Exclusive bool
	// ManualMigrate makes Open refuse a database that [Migrate] has not brought up to date,
	// instead of doing it.
	ManualMigrate bool
	// Now replaces the clock, in tests. If nil, time.Now.
	Now func() time.Time

	keepLeases bool // for the conformance suite, in which owners outlive the store
}

// Synchronous is how far a write has got when the call that made it returns.
type Synchronous int

const (
	// Full: on the disk. It survives a power cut.
	Full Synchronous = iota
	// Normal: with the operating system. It survives a process crash, and may lose the last
	// commits on a power cut, with them results of tools that did run. The file stays sound.
	Normal
)

func (s Synchronous) String() string {
	if s == Normal {
		return "NORMAL"
	}
	return "FULL"
}

// Open opens the database at path, and creates it if there is none. The path is that of a
// plain file, on a local disk; URIs and databases in memory are not supported (store/memory
// is a store in memory).
//
// It takes the file path.lock for the process: [store.ErrLocked] if another, or another Open
// of this one, has it. Whoever ran the runs that are left over in the file is dead then, so
// they can be claimed at once.
func Open(path string, opts *Options) (*Store, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Readers <= 0 {
		o.Readers = 4
	}
	if o.Synchronous != Full && o.Synchronous != Normal {
		return nil, fmt.Errorf("sqlite: unknown Synchronous %d", int(o.Synchronous))
	}
	path, err := resolve(path)
	if err != nil {
		return nil, err
	}
	l, err := lock(path + ".lock")
	if err != nil {
		return nil, err
	}
	s := &Store{path: path, now: o.Now, lock: l, readers: make(chan *conn, o.Readers)}
	if err := s.open(o); err != nil {
		return nil, errors.Join(err, s.release())
	}
	return s, nil
}

// resolve returns the one path of the file that all its names lead to, for the lock lies
// beside it.
func resolve(path string) (string, error) {
	if path == "" || strings.HasPrefix(path, ":memory:") || strings.HasPrefix(path, "file:") {
		return "", fmt.Errorf("sqlite: %q is not the path of a file (URIs and databases in memory are not supported; store/memory is a store in memory)", path)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("sqlite: %w", err)
	}
	real, err := filepath.EvalSymlinks(abs)
	if os.IsNotExist(err) {
		var dir string
		if dir, err = filepath.EvalSymlinks(filepath.Dir(abs)); err == nil {
			real = filepath.Join(dir, filepath.Base(abs))
		}
	}
	if err != nil {
		return "", fmt.Errorf("sqlite: %w", err)
	}
	return real, nil
}

// open opens the connections. Release undoes what it did, also after an error.
func (s *Store) open(o Options) error {
	ctx := context.Background()
	if err := inspect(ctx, s.path); err != nil {
		return err
	}
	c, err := connectTo(ctx, s.path, o, false)
	if err != nil {
		return err
	}
	s.writer = newWriter(c)
	if err := migrate(ctx, c, migrations(), o.ManualMigrate); err != nil {
		return err
	}
	if !o.keepLeases {
		// We have the lock, so the owners of these are dead. Their epochs stay: a claim raises them.
		err := c.exec(ctx, `UPDATE runs SET lease = 0 WHERE k IN (SELECT k FROM running) AND lease <> 0`)
		if err != nil {
			return fmt.Errorf("sqlite: free the runs left over: %w", err)
		}
	}
	for range o.Readers {
		r, err := connectTo(ctx, s.path, o, true)
		if err != nil {
			return err
		}
		s.readers <- r
		s.count++
	}
	return nil
}

// release closes the connections, which must be free, and gives up the lock.
func (s *Store) release() error {
	var errs []error
	for range s.count {
		errs = append(errs, (<-s.readers).close())
	}
	if s.writer != nil {
		// The whole log into the database, so that a copy of the file alone is complete.
		errs = append(errs, s.writer.conn.script(`PRAGMA wal_checkpoint(TRUNCATE)`), s.writer.conn.close())
	}
	errs = append(errs, s.lock.Close())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("sqlite: close: %w", err)
	}
	return nil
}

// Close waits for the calls under way, writes the log into the database and gives up the lock.
// Calls after it return [store.ErrClosed]; a second Close does nothing.
func (s *Store) Close() error {
	s.mu.Lock()
	again := s.closed
	s.closed = true
	s.mu.Unlock()
	s.calls.Wait()
	if again {
		return nil
	}
	return s.release()
}

// enter begins a call, and leave ends it.
func (s *Store) enter() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return fmt.Errorf("sqlite: %w", store.ErrClosed)
	}
	s.calls.Add(1)
	return nil
}

func (s *Store) leave() { s.calls.Done() }

// write has do executed on the writing connection, in a transaction. The op is for the error.
func (s *Store) write(ctx context.Context, op string, do func(ctx context.Context, c *conn) error) error {
	return s.submit(ctx, op, &write{do: do})
}

// writeRun is write for what changes nothing but a run and its session, and keeps the cache up.
func (s *Store) writeRun(ctx context.Context, op string, do func(ctx context.Context, c *conn) error) error {
	return s.submit(ctx, op, &write{do: do, keep: true})
}

func (s *Store) submit(ctx context.Context, op string, job *write) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if err := s.writer.submit(ctx, job); err != nil {
		return fmt.Errorf("sqlite: %s: %w", op, err)
	}
	return nil
}

// read calls do with a reader, in a transaction that sees one moment of the database.
func (s *Store) read(ctx context.Context, op string, do func(c *conn) error) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	var c *conn
	select {
	case c = <-s.readers:
	case <-ctx.Done():
		return fmt.Errorf("sqlite: %s: %w", op, ctx.Err())
	}
	defer func() { s.readers <- c }()
	if err := c.snapshot(ctx, do); err != nil {
		return fmt.Errorf("sqlite: %s: %w", op, err)
	}
	return nil
}

// snapshot calls do in a read transaction.
func (c *conn) snapshot(ctx context.Context, do func(c *conn) error) (err error) {
	if err := c.exec(ctx, `BEGIN`); err != nil {
		return err
	}
	// Ended without ctx, for the reader must be left clean when ctx has ended, too.
	defer func() { err = errors.Join(err, c.exec(context.WithoutCancel(ctx), `ROLLBACK`)) }()
	return do(c)
}
