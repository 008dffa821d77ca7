package postgres

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/internal/pgserver"
	"github.com/everstep-go/everstep/internal/pgserver/pgtest"
	"github.com/everstep-go/everstep/store"
)

func TestAnAnswerThatGotLostIsGivenAgain(t *testing.T) {
	t.Parallel()
	w := new(wire)
	s := openOn(t, pgtest.New(t), w, nil)
	ctx := t.Context()

	b := &store.Begin{Fence: store.Fence{Tenant: "t", Run: uuid.New(), Owner: uuid.New(), Epoch: 1}, Session: uuid.New(), Graph: "agent",
		WriteID: uuid.New(), Steps: []store.Step{step("entrypoint", 1)}, Status: checkpoint.Running, Lease: time.Minute}
	_, err := s.Session(ctx, "t", b.Session) // so that there is a connection
	require.ErrorIs(t, err, store.ErrNotFound)
	begun, err := s.Begin(ctx, b)
	require.NoError(t, err)
	again, err := s.Begin(ctx, b)
	require.NoError(t, err)
	require.Equal(t, begun, again)
	d := &driven{store: s, fence: b.Fence, session: b.Session}
	d.took(begun.Committed)
	for _, status := range []checkpoint.Status{checkpoint.Running, checkpoint.Completed} {
		// So that the connection has the statement, and the answer that gets lost is the commit's.
		require.NoError(t, drive(t, s, uuid.New(), step("entrypoint", 1)).commit(ctx, status, step("call_model", 1)))
		c := d.next(status, step("call_model", 2))
		w.lose.Store(1)
		_, err := s.Commit(ctx, c)
		require.Error(t, err, "undecided, and not repeated behind the caller's back")
		before := rows(t, s)
		committed, err := s.Commit(ctx, c)
		require.NoError(t, err)
		require.Len(t, committed.Seqs, 1)
		require.Equal(t, before, rows(t, s), "it was written the first time")
		d.took(*committed)
	}
	w.lose.Store(1)
	_, err = s.RequestCancel(ctx, "t", b.Run)
	require.NoError(t, err, "once or twice is the same, so it is repeated")
	w.lose.Store(1)
	renewed, err := s.Renew(ctx, &store.Renew{Fences: []store.Fence{b.Fence}, Lease: time.Minute})
	require.NoError(t, err)
	require.Equal(t, []uuid.UUID{b.Run}, renewed.Lost)
	w.lose.Store(1)
	_, err = s.Load(ctx, &store.Load{Tenant: "t", Run: b.Run})
	require.NoError(t, err)
}

func TestAWriteThatWasSentIsNotGivenUp(t *testing.T) {
	t.Parallel()
	dsn := pgtest.New(t)
	s := open(t, dsn, nil)
	d := drive(t, s, uuid.New(), step("entrypoint", 1))
	other := connect(t, dsn)
	execute(t, other, `BEGIN`)
	execute(t, other, `SELECT FROM everstep.runs FOR UPDATE`)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { assert.NoError(t, d.commit(ctx, checkpoint.Running, step("call_model", 1))) })
	waits(t, dsn, 1)
	cancel()
	execute(t, other, `COMMIT`)
	wg.Wait()
	require.ErrorIs(t, d.commit(ctx, checkpoint.Running, step("call_model", 1)), context.Canceled)
	require.Equal(t, 2, rows(t, s)["checkpoints"])
}

func TestBackendsThatAreTerminatedAreReplaced(t *testing.T) {
	t.Parallel()
	dsn := pgtest.New(t)
	s := open(t, dsn, &Options{MaxConns: 2})
	ctx := t.Context()
	d := drive(t, s, uuid.New(), step("entrypoint", 1))
	other := connect(t, dsn)
	for range 5 {
		execute(t, other, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
		_, err := s.Load(ctx, &store.Load{Tenant: "t", Run: d.fence.Run})
		require.NoError(t, err)
		execute(t, other, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
		renewed, err := s.Renew(ctx, &store.Renew{Fences: []store.Fence{d.fence}, Lease: time.Minute})
		require.NoError(t, err)
		require.Empty(t, renewed.Lost)
	}
}

func TestWhatWasAcknowledgedSurvivesCrashesOfTheServer(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t, &pgserver.Options{Fsync: true})
	s := open(t, pgtest.Database(t, server), nil)
	ctx := t.Context()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	acknowledged := make([][]uuid.UUID, 4)
	sessions := make([]uuid.UUID, 4)
	for i := range acknowledged {
		sessions[i] = uuid.New()
		d := drive(t, s, sessions[i], step("entrypoint", 0))
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				c := d.next(checkpoint.Running, step("call_model", 1))
				for { // as the runner does
					done, err := s.Commit(ctx, c)
					if err == nil {
						d.took(*done)
						break
					}
					if !assert.NotErrorIs(t, err, store.ErrLost) || !assert.NotErrorIs(t, err, store.ErrConflict) || ctx.Err() != nil {
						return
					}
				}
				acknowledged[i] = append(acknowledged[i], c.Steps[0].Checkpoint.ID)
			}
		})
	}
	for range 3 {
		assert.NoError(t, server.Restart(ctx, true))
		_, err := s.Claim(ctx, &store.Claim{Owner: uuid.New(), Graphs: []string{"other"}, Limit: 1, Lease: time.Minute})
		if err != nil { // it may meet a connection that is dead; not for good
			_, err = s.Claim(ctx, &store.Claim{Owner: uuid.New(), Graphs: []string{"other"}, Limit: 1, Lease: time.Minute})
		}
		assert.NoError(t, err)
	}
	close(stop)
	wg.Wait()
	for i, session := range sessions {
		p, err := s.Load(ctx, &store.Load{Tenant: "t", Session: session})
		require.NoError(t, err)
		require.NotEmpty(t, acknowledged[i])
		require.Len(t, p.Messages, len(acknowledged[i]), "each once")
		for j, m := range p.Messages {
			require.Equal(t, acknowledged[i][j], m.CheckpointID)
		}
	}
}
