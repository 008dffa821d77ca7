package sqlite

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/store"
)

// together calls all while the writing connection is taken, so that they wait for it at the
// same time, and returns how many transactions they took.
func together(s *Store, calls ...func()) int64 {
	<-s.writer.free
	var wg sync.WaitGroup
	for _, call := range calls {
		wg.Go(call)
	}
	synctest.Wait()
	begun := s.writer.transactions.Load()
	s.writer.free <- struct{}{}
	wg.Wait()
	return s.writer.transactions.Load() - begun
}

func TestWritesThatWaitTogetherShareATransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, nil)
		var calls []func()
		for range 100 {
			d := drive(t, s, "t", uuid.New(), at("entrypoint", checkpoint.Input, 1))
			calls = append(calls, func() {
				assert.NoError(t, d.commit(t.Context(), checkpoint.Running, at("call_model", checkpoint.Step, 1)))
			})
		}
		assert.Equal(t, int64(1), together(s, calls...))
		assert.Equal(t, 200, rows(t, s)["checkpoints"])
	})
}

func TestAWriteThatFailsLeavesTheOthersOfItsTransactionAlone(t *testing.T) {
	broken := errors.New("broken")
	fresh := func(ctx context.Context, c *conn) {
		_, err := newSession(ctx, c, "t", uuid.New(), time.Now())
		assert.NoError(t, err)
	}
	for name, fault := range map[string]struct {
		do           func(ctx context.Context, c *conn) error
		transactions int64
	}{
		"an error":            {func(context.Context, *conn) error { return broken }, 1},
		"a panic":             {func(context.Context, *conn) error { panic(broken) }, 1},
		"an error afterwards": {func(ctx context.Context, c *conn) error { fresh(ctx, c); return broken }, 2},
		"a panic afterwards":  {func(ctx context.Context, c *conn) error { fresh(ctx, c); panic(broken) }, 2},
		"a bad command": {func(ctx context.Context, c *conn) error {
			fresh(ctx, c)
			return c.exec(ctx, `INSERT INTO nowhere VALUES (1)`)
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, nil)
				create := func() {
					_, err := s.CreateSession(t.Context(), "t", uuid.New())
					assert.NoError(t, err)
				}
				fail := func() { assert.Error(t, s.write(t.Context(), "fail", fault.do)) }
				assert.Equal(t, fault.transactions, together(s, create, fail, create, fail, create))
				assert.Equal(t, 3, rows(t, s)["sessions"], "what failed wrote nothing")
				fail()
				assert.Equal(t, 3, rows(t, s)["sessions"], "nor did it alone")
				create()
				assert.Equal(t, 4, rows(t, s)["sessions"])
			})
		})
	}
}

func TestAllMembersFailIfTheirCommitDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, nil)
		// A constraint that is checked by the commit.
		require.NoError(t, s.writer.conn.script(`CREATE TABLE child (parent INTEGER REFERENCES sessions DEFERRABLE INITIALLY DEFERRED) STRICT`))
		var failed sync.Map
		create := func() {
			_, err := s.CreateSession(t.Context(), "t", uuid.New())
			failed.Store(new(int), err)
		}
		orphan := func() {
			err := s.write(t.Context(), "orphan", func(ctx context.Context, c *conn) error {
				return c.exec(ctx, `INSERT INTO child VALUES (99)`)
			})
			failed.Store(new(int), err)
		}
		assert.Equal(t, int64(1), together(s, create, orphan, create))
		n := 0
		failed.Range(func(_, err any) bool {
			n++
			return assert.ErrorContains(t, err.(error), "FOREIGN KEY")
		})
		assert.Equal(t, 3, n)
		assert.Zero(t, rows(t, s)["sessions"])
		_, err := s.CreateSession(t.Context(), "t", uuid.New())
		assert.NoError(t, err, "the next transaction is not touched")
	})
}

func TestATransactionThatEndsInTheMiddleTakesOnlyWhatWasInIt(t *testing.T) {
	s := open(t, nil)
	create := func() *write {
		return &write{done: make(chan error, 1), do: func(ctx context.Context, c *conn) error {
			_, err := newSession(ctx, c, "t", uuid.New(), s.now())
			return err
		}}
	}
	// As SQLite does when the disk is full.
	breaks := &write{done: make(chan error, 1), do: func(ctx context.Context, c *conn) error {
		return errors.Join(c.exec(ctx, `ROLLBACK`), errors.New("disk full"))
	}}
	before, after := create(), create()
	s.writer.write([]*write{before, breaks, after})
	assert.ErrorContains(t, <-before.done, "disk full")
	assert.ErrorContains(t, <-breaks.done, "disk full")
	assert.NoError(t, <-after.done)
	assert.Equal(t, 1, rows(t, s)["sessions"])
}

func TestAWriteIsWithdrawnIfItsContextEndsBeforeItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		<-s.writer.free
		var wg sync.WaitGroup
		var err error
		wg.Go(func() { _, err = s.CreateSession(ctx, "t", uuid.New()) })
		synctest.Wait()
		cancel()
		wg.Wait()
		s.writer.free <- struct{}{}
		assert.ErrorIs(t, err, context.Canceled)
		_, err = s.CreateSession(ctx, "t", uuid.New())
		assert.ErrorIs(t, err, context.Canceled, "also if its turn would be at once")
		assert.Zero(t, rows(t, s)["sessions"])
	})
}

func TestAWriteThatWasTakenReturnsItsTrueOutcome(t *testing.T) {
	s := open(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	err := s.write(ctx, "test", func(inner context.Context, c *conn) error {
		cancel()
		assert.NoError(t, inner.Err())
		_, err := newSession(inner, c, "t", uuid.New(), s.now())
		return err
	})
	assert.NoError(t, err)
	assert.Equal(t, 1, rows(t, s)["sessions"])
}

func TestCloseWaitsForWritesThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, nil)
		path := s.path
		<-s.writer.free
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				_, err := s.CreateSession(t.Context(), "t", uuid.New())
				assert.NoError(t, err)
			})
		}
		synctest.Wait()
		wg.Go(func() { assert.NoError(t, s.Close()) })
		synctest.Wait()
		_, err := s.CreateSession(t.Context(), "t", uuid.New())
		assert.ErrorIs(t, err, store.ErrClosed)
		_, err = s.Session(t.Context(), "t", uuid.New())
		assert.ErrorIs(t, err, store.ErrClosed)
		s.writer.free <- struct{}{}
		wg.Wait()
		s, err = Open(path, nil)
		require.NoError(t, err)
		defer s.Close()
		assert.Equal(t, 3, rows(t, s)["sessions"])
	})
}

func TestAReadReturnsWhenItsContextEnds(t *testing.T) {
	s := open(t, &Options{Readers: 1})
	session := exercise(t, s)
	r := <-s.readers
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Session(ctx, "t", session)
	assert.ErrorIs(t, err, context.Canceled)
	s.readers <- r
	_, err = s.Session(ctx, "t", session)
	assert.ErrorIs(t, err, context.Canceled)
	_, err = s.Session(t.Context(), "t", session)
	assert.NoError(t, err, "the reader is left clean")
}
