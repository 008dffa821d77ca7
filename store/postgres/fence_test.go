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
	"github.com/everstep-go/everstep/internal/pgserver/pgtest"
	"github.com/everstep-go/everstep/store"
)

// A takeover that is not committed yet when the old owner writes.
func TestATakeoverThatCameFirstShutsTheWriterOut(t *testing.T) {
	t.Parallel()
	for name, takeover := range map[string]string{
		"by epoch": `UPDATE everstep.runs SET epoch = epoch + 1 WHERE id = $1`,
		"by owner": `UPDATE everstep.runs SET owner = '6ba7b810-9dad-11d1-80b4-00c04fd430c8' WHERE id = $1`,
		"by end":   `UPDATE everstep.runs SET status = 'failed' WHERE id = $1`,
	} {
		for what, write := range map[string]func(context.Context, *driven) error{
			"commit": func(ctx context.Context, d *driven) error {
				return d.commit(ctx, checkpoint.Running, step("zombie", 1))
			},
			"task": func(ctx context.Context, d *driven) error { return d.store.SaveTask(ctx, d.task("zombie")) },
		} {
			t.Run(name+"/"+what, func(t *testing.T) {
				dsn := pgtest.New(t)
				s := open(t, dsn, nil)
				d := drive(t, s, uuid.New(), step("entrypoint", 1))
				before := rows(t, s)
				other := connect(t, dsn)
				execute(t, other, `BEGIN`)
				execute(t, other, takeover, d.fence.Run)
				var wg sync.WaitGroup
				wg.Go(func() { assert.ErrorIs(t, write(t.Context(), d), store.ErrLost) })
				waits(t, dsn, 1)
				execute(t, other, `COMMIT`)
				wg.Wait()
				require.Equal(t, before, rows(t, s), "and nothing was written")
			})
		}
	}
}

func TestAHeartbeatWaitsForNobody(t *testing.T) {
	t.Parallel()
	dsn := pgtest.New(t)
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	s := open(t, dsn, &Options{Now: func() time.Time { return now }})
	stuck, free := drive(t, s, uuid.New(), step("entrypoint", 1)), drive(t, s, uuid.New(), step("entrypoint", 1))
	fences := []store.Fence{stuck.fence, free.fence}
	lease := func(d *driven) time.Time {
		r, err := s.Run(t.Context(), d.fence.Tenant, d.fence.Run)
		require.NoError(t, err)
		return r.LeaseUntil
	}
	before := lease(stuck)
	other := connect(t, dsn)
	execute(t, other, `BEGIN`)
	execute(t, other, `SELECT FROM everstep.sessions WHERE id = $1 FOR UPDATE`, stuck.session) // who starts a run there, and froze
	var wg sync.WaitGroup
	wg.Go(func() { assert.NoError(t, stuck.commit(t.Context(), checkpoint.Running, step("call_model", 1))) })
	waits(t, dsn, 1)
	renewed, err := s.Renew(t.Context(), &store.Renew{Fences: fences, Lease: time.Hour})
	require.NoError(t, err)
	require.Empty(t, renewed.Lost)
	require.Equal(t, now.Add(time.Hour), lease(free))
	require.Equal(t, before, lease(stuck))
	execute(t, other, `COMMIT`)
	wg.Wait()

	execute(t, other, `BEGIN`)
	execute(t, other, `UPDATE everstep.runs SET epoch = epoch + 1 WHERE id = $1`, stuck.fence.Run)
	renewed, err = s.Renew(t.Context(), &store.Renew{Fences: fences, Lease: time.Hour})
	require.NoError(t, err)
	require.Empty(t, renewed.Lost, "the takeover may be undone")
	execute(t, other, `COMMIT`)
	renewed, err = s.Renew(t.Context(), &store.Renew{Fences: fences, Lease: time.Hour})
	require.NoError(t, err)
	require.Equal(t, []uuid.UUID{stuck.fence.Run}, renewed.Lost)
}

// The old owner is frozen within its write, its lease runs out, and others look for runs.
func TestAWriteThatCameFirstIsSeenByTheTakeover(t *testing.T) {
	t.Parallel()
	dsn := pgtest.New(t)
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	s := open(t, dsn, &Options{Now: func() time.Time { return now }})
	later := open(t, dsn, &Options{Now: func() time.Time { return now.Add(time.Hour) }})
	d := drive(t, s, uuid.New(), step("entrypoint", 1))
	other := connect(t, dsn)
	execute(t, other, `BEGIN`)
	execute(t, other, `SELECT FROM everstep.sessions FOR UPDATE`) // it has the run by then
	var wg sync.WaitGroup
	wg.Go(func() { assert.NoError(t, d.commit(t.Context(), checkpoint.Running, step("call_model", 1))) })
	waits(t, dsn, 1)
	claim := &store.Claim{Owner: uuid.New(), Graphs: []string{"agent"}, Limit: 1, Lease: time.Minute}
	claimed, err := later.Claim(t.Context(), claim)
	require.NoError(t, err)
	require.Empty(t, claimed, "a run that is being written for is passed over, not waited for")
	execute(t, other, `COMMIT`)
	wg.Wait()
	claimed, err = later.Claim(t.Context(), claim)
	require.NoError(t, err)
	require.Len(t, claimed, 1)
	require.Equal(t, d.last, claimed[0].Last)
	require.ErrorIs(t, d.commit(t.Context(), checkpoint.Running, step("zombie", 1)), store.ErrLost)
}

func TestManyClaimersGetEachRunOnce(t *testing.T) {
	t.Parallel()
	dsn := pgtest.New(t)
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	s := open(t, dsn, &Options{Now: func() time.Time { return now }})
	later := open(t, dsn, &Options{Now: func() time.Time { return now.Add(time.Hour) }})
	for range 40 {
		drive(t, s, uuid.New())
	}
	var mu sync.Mutex
	seen := map[uuid.UUID]int{}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10 {
				claimed, err := later.Claim(t.Context(), &store.Claim{Owner: uuid.New(), Graphs: []string{"agent"}, Limit: 3, Lease: time.Minute})
				assert.NoError(t, err)
				mu.Lock()
				for _, r := range claimed {
					seen[r.ID]++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	require.Len(t, seen, 40)
	for _, n := range seen {
		require.Equal(t, 1, n)
	}
}

func TestADeletionAmongWritersNeitherWaitsForThemNorLeavesRows(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.New(t), nil)
	for range 10 {
		session := uuid.New()
		d := drive(t, s, session, step("entrypoint", 1))
		p, err := s.Load(t.Context(), &store.Load{Tenant: "t", Session: session})
		require.NoError(t, err)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { // branches, each a run of its own
				f := store.Fence{Tenant: "t", Run: uuid.New(), Owner: uuid.New(), Epoch: 1}
				begun, err := s.Begin(t.Context(), &store.Begin{Fence: f, Session: session, Graph: "agent", WriteID: uuid.New(), Status: checkpoint.Running,
					From: store.From{Checkpoint: p.Checkpoint.ID, Base: p.Session.Base}, Steps: []store.Step{step("entrypoint", 1)}, Lease: time.Minute})
				branch := &driven{store: s, fence: f, session: session}
				if err == nil {
					branch.took(begun.Committed)
				}
				for err == nil {
					err = branch.commit(t.Context(), checkpoint.Running, step("call_model", 1))
				}
				assert.ErrorIs(t, err, store.ErrNotFound)
			})
		}
		require.NoError(t, d.commit(t.Context(), checkpoint.Running, step("call_model", 1)))
		require.NoError(t, s.DeleteSession(t.Context(), "t", session))
		wg.Wait()
	}
	for table, n := range rows(t, s) {
		require.Zero(t, n, table)
	}
}
