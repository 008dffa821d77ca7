package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/internal/pgserver/pgtest"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/store"
)

func open(t testing.TB, dsn string, opts *Options) *Store {
	t.Helper()
	o := opts.withDefaults()
	o.Logger = quiet
	s, err := Open(t.Context(), dsn, &o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// A wire counts what goes to the server, and loses answers when it is told to.
type wire struct {
	writes atomic.Int64
	lose   atomic.Int64 // so many answers
}

// openOn opens a store whose connections are the wire's.
func openOn(t testing.TB, dsn string, w *wire, opts *Options) *Store {
	t.Helper()
	config, err := pgxpool.ParseConfig(dsn)
	require.NoError(t, err)
	dial := (&net.Dialer{}).DialContext
	config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		return &wiredConn{Conn: c, wire: w}, err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	o := opts.withDefaults()
	o.Logger = quiet
	s, err := New(t.Context(), pool, &o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

type wiredConn struct {
	net.Conn
	wire  *wire
	asked atomic.Bool
}

func (c *wiredConn) Write(b []byte) (int, error) {
	c.wire.writes.Add(1)
	c.asked.Store(true)
	return c.Conn.Write(b)
}

// Read loses an answer only once it has come: the server has done what it was asked.
func (c *wiredConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && c.asked.Swap(false) && c.wire.lose.Load() > 0 {
		c.wire.lose.Add(-1)
		return 0, errors.Join(io.ErrUnexpectedEOF, c.Conn.Close())
	}
	return n, err
}

// driven is a run that the benchmarks and tests drive from write to write.
type driven struct {
	store   *Store
	fence   store.Fence
	session uuid.UUID
	last    int64
	lastID  uuid.UUID
}

// drive begins a run that continues a session.
func drive(t testing.TB, s *Store, session uuid.UUID, steps ...store.Step) *driven {
	t.Helper()
	d := &driven{store: s, session: session, fence: store.Fence{Tenant: "t", Run: uuid.New(), Owner: uuid.New(), Epoch: 1}}
	b := &store.Begin{Fence: d.fence, Session: session, Graph: "agent", Params: []byte("{}"), WriteID: uuid.New(), Steps: steps, Status: checkpoint.Running, Lease: time.Minute}
	if p, err := s.Load(t.Context(), &store.Load{Tenant: "t", Session: session}); err == nil {
		b.From = store.From{Head: p.Session.Head, Base: p.Session.Base}
	}
	begun, err := s.Begin(t.Context(), b)
	require.NoError(t, err)
	d.took(begun.Committed)
	return d
}

func (d *driven) took(c store.Committed) {
	if n := len(c.Seqs); n > 0 {
		d.last = c.Seqs[n-1]
	}
}

// next is a commit of steps, and of the status of the run.
func (d *driven) next(status checkpoint.Status, steps ...store.Step) *store.Commit {
	for i := range steps {
		steps[i].Checkpoint.ParentID = d.lastID
		d.lastID = steps[i].Checkpoint.ID
	}
	return &store.Commit{Fence: d.fence, WriteID: uuid.New(), After: d.last, Steps: steps, Status: status, Lease: time.Minute}
}

func (d *driven) commit(ctx context.Context, status checkpoint.Status, steps ...store.Step) error {
	c, err := d.store.Commit(ctx, d.next(status, steps...))
	if err == nil {
		d.took(*c)
	}
	return err
}

func (d *driven) task(key string) *store.SaveTask {
	return &store.SaveTask{Fence: d.fence, Checkpoint: d.last, Task: store.Task{Key: key, Done: true, Value: body}}
}

// step is a step with as many messages.
func step(node string, messages int) store.Step {
	s := store.Step{Checkpoint: checkpoint.Checkpoint{ID: uuid.New(), Node: node, Next: "call_model", Status: checkpoint.Running, Reason: checkpoint.Step, Version: 1}}
	for range messages {
		s.Messages = append(s.Messages, store.Message{Header: message.Header{ID: uuid.New()}, Role: message.RoleUser, Body: body})
	}
	return s
}

// body is a message's of usual length.
var body = []byte(fmt.Sprintf(`{"content":%q}`, "The quick brown fox jumps over the lazy dog, and the dog does not even look up from its afternoon nap."))

// connect opens a connection beside the store's.
func connect(t testing.TB, dsn string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(context.WithoutCancel(t.Context())) })
	return c
}

func execute(t testing.TB, c *pgx.Conn, sql string, args ...any) {
	t.Helper()
	_, err := c.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

// waits returns when so many connections to the database wait for a lock.
func waits(t testing.TB, dsn string, n int) {
	t.Helper()
	c := connect(t, dsn)
	require.Eventually(t, func() bool {
		var waiting int
		err := c.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting)
		return err == nil && waiting == n
	}, 10*time.Second, 5*time.Millisecond)
}

func TestHotWritesTakeOneRoundTrip(t *testing.T) {
	t.Parallel()
	w := new(wire)
	s := openOn(t, pgtest.New(t)+" pool_max_conns=1", w, nil)
	ctx := t.Context()
	d := drive(t, s, uuid.New(), step("entrypoint", 1))
	trips := map[string]int64{}
	count := func(name string, do func()) {
		for range 3 { // the first time the statements are prepared
			before := w.writes.Load()
			do()
			trips[name] = w.writes.Load() - before
		}
	}
	count("begin", func() { drive(t, s, uuid.New(), step("entrypoint", 1)) })
	count("commit", func() {
		require.NoError(t, d.commit(ctx, checkpoint.Running, step("call_model", 2), step("call_tools", 1)))
	})
	count("save task", func() { require.NoError(t, s.SaveTask(ctx, d.task("k"))) })
	count("renew", func() {
		_, err := s.Renew(ctx, &store.Renew{Fences: []store.Fence{d.fence}, Lease: time.Minute})
		require.NoError(t, err)
	})
	count("claim", func() {
		_, err := s.Claim(ctx, &store.Claim{Owner: uuid.New(), Graphs: []string{"agent"}, Limit: 5, Lease: time.Minute})
		require.NoError(t, err)
	})
	count("load", func() {
		_, err := s.Load(ctx, &store.Load{Tenant: "t", Run: d.fence.Run})
		require.NoError(t, err)
	})
	count("list", func() {
		_, err := s.Messages(ctx, &store.MessageQuery{Tenant: "t", Session: d.session})
		require.NoError(t, err)
	})
	require.Equal(t, map[string]int64{
		"begin":  2 + 2, // it and the Load before it, which finds no session and rolls back
		"commit": 1, "save task": 1, "renew": 1, "claim": 1, "load": 2, "list": 1,
	}, trips)
}

func TestHeartbeatsAndCommitsTouchNoIndexOfTheirRows(t *testing.T) {
	t.Parallel()
	dsn := pgtest.New(t)
	s := open(t, dsn, &Options{MaxConns: 1})
	d := drive(t, s, uuid.New(), step("entrypoint", 1))
	for range 200 {
		require.NoError(t, d.commit(t.Context(), checkpoint.Running, step("call_model", 1)))
		_, err := s.Renew(t.Context(), &store.Renew{Fences: []store.Fence{d.fence}, Lease: time.Minute})
		require.NoError(t, err)
	}
	require.NoError(t, s.Close()) // the server counts when a connection ends
	c := connect(t, dsn)
	for _, table := range []string{"runs", "sessions"} {
		var updates, hot int64
		require.Eventually(t, func() bool {
			err := c.QueryRow(t.Context(), `SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = $1`, table).Scan(&updates, &hot)
			return err == nil && updates >= 200
		}, 10*time.Second, 20*time.Millisecond)
		require.Greater(t, float64(hot), 0.95*float64(updates), table)
	}
}
