package sqlite

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/store"
)

// requireTrue compares all that the cache remembers with the database, and returns how many
// runs it remembers.
func requireTrue(t testing.TB, s *Store) int {
	t.Helper()
	<-s.writer.free
	defer func() { s.writer.free <- struct{}{} }()
	c, ctx := s.writer.conn, t.Context()
	remembered := c.cache
	defer func() { c.cache = remembered }()
	c.cache = newCache()
	require.Len(t, remembered.sessions, len(remembered.runs))
	for id, r := range remembered.runs {
		require.Same(t, r, remembered.sessions[owned{r.Tenant, r.Session}])
		want, err := findRun(ctx, c, id.tenant, id.id)
		require.NoError(t, err)
		require.NotNil(t, want, "run %s is gone", id.id)
		if r.session.known != nil {
			_, err = want.session.position(ctx, c, r.session.known.seq)
			require.NoError(t, err)
		}
		if r.places >= 0 {
			var places int64
			require.NoError(t, c.each(ctx, `SELECT coalesce(max(place), 0) FROM tasks WHERE k = ?`, func(v row) error {
				places = v.int(0)
				return nil
			}, key(r.session.sid, r.Last)))
			require.GreaterOrEqual(t, r.places, places)
		}
		want.places = r.places
		require.Equal(t, want, r)
	}
	return len(remembered.runs)
}

// refuseBroken makes the database refuse checkpoints of the node "broken", within the statement.
func refuseBroken(t testing.TB, s *Store) {
	require.NoError(t, s.writer.conn.script(`CREATE TRIGGER refuse BEFORE INSERT ON checkpoints WHEN new.node = 'broken'
		BEGIN SELECT RAISE(ABORT, 'broken'); END`))
}

func TestARunThatWritesAgainReadsNothing(t *testing.T) {
	s := open(t, nil)
	session := uuid.New()
	turn := func() {
		d := drive(t, s, "t", session, at("entrypoint", checkpoint.Input, 1))
		require.NoError(t, d.commit(t.Context(), checkpoint.Running, at("call_model", checkpoint.Step, 1)))
		require.NoError(t, s.SaveTask(t.Context(), &store.SaveTask{Fence: d.fence, Checkpoint: d.last, Task: store.Task{Key: "k", Done: true}}))
		require.NoError(t, d.commit(t.Context(), checkpoint.Completed, at("exit", checkpoint.Finish, 0)))
	}
	turn()
	s.writer.conn.forget()
	turn()
	var reads []string
	for sql := range s.writer.conn.stmts {
		if strings.HasPrefix(sql, "SELECT ") {
			reads = append(reads, sql)
		}
	}
	require.Len(t, reads, 1)
	assert.Contains(t, reads[0], "WHERE r.id = ", "whether the new run's id is taken")
	assert.Equal(t, 1, requireTrue(t, s))
}

func TestARunSeesWhatOthersDidToIt(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(t *testing.T, s *Store, d *driven)
		want error // of the run's next write, which ends it
	}{
		"claimed": {func(t *testing.T, s *Store, d *driven) {
			s.now = func() time.Time { return time.Now().Add(time.Hour) }
			claimed, err := s.Claim(t.Context(), &store.Claim{Owner: uuid.New(), Graphs: []string{"agent"}, Lease: time.Minute, Limit: 1})
			require.NoError(t, err)
			require.Len(t, claimed, 1)
		}, store.ErrLost},
		"released": {func(t *testing.T, s *Store, d *driven) { require.NoError(t, s.Release(t.Context(), d.fence)) }, store.ErrLost},
		"cancelled": {func(t *testing.T, s *Store, d *driven) {
			_, err := s.RequestCancel(t.Context(), "t", d.fence.Run)
			require.NoError(t, err)
		}, store.ErrCancelRequested},
		"session deleted": {func(t *testing.T, s *Store, d *driven) {
			require.NoError(t, s.DeleteSession(t.Context(), "t", d.session))
		}, store.ErrNotFound},
		"message posted": {func(t *testing.T, s *Store, d *driven) {
			_, err := s.CreateMessage(t.Context(), "t", &store.Message{Header: message.Header{ID: uuid.New(), SessionID: d.session}, Role: message.RoleUser, Body: body})
			require.NoError(t, err)
		}, nil},
		"lease renewed": {func(t *testing.T, s *Store, d *driven) {
			_, err := s.Renew(t.Context(), &store.Renew{Fences: []store.Fence{d.fence}, Lease: time.Hour})
			require.NoError(t, err)
		}, nil},
		"branch left": {func(t *testing.T, s *Store, d *driven) {
			branch(t, d)
			require.NoError(t, d.commit(t.Context(), checkpoint.Running, at("call_model", checkpoint.Step, 1)))
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, nil)
			d := drive(t, s, "t", uuid.New(), at("entrypoint", checkpoint.Input, 1))
			require.NoError(t, d.commit(t.Context(), checkpoint.Running, at("call_model", checkpoint.Step, 1)))
			require.Equal(t, 1, requireTrue(t, s))
			c.do(t, s, d)
			requireTrue(t, s)
			require.ErrorIs(t, d.commit(t.Context(), checkpoint.Completed, at("exit", checkpoint.Step, 2)), c.want)
			requireTrue(t, s)
		})
	}
}

// fresh is a run that has not begun.
func fresh(s *Store, session uuid.UUID) *driven {
	return &driven{store: s, session: session, fence: store.Fence{Tenant: "t", Run: uuid.New(), Owner: uuid.New(), Epoch: 1}}
}

// branch begins a run at the last checkpoint of another that goes on.
func branch(t testing.TB, d *driven) *driven {
	t.Helper()
	b := fresh(d.store, d.session)
	b.lastID = d.lastID
	begun, err := d.store.Begin(t.Context(), &store.Begin{
		Fence: b.fence, Session: b.session, Graph: "agent", From: store.From{Checkpoint: d.lastID, Base: d.load(t).Session.Base},
		Status: checkpoint.Running, Lease: time.Minute,
	})
	require.NoError(t, err)
	require.True(t, begun.Branch)
	return b
}

func TestRunsOfOneSessionWriteByTurns(t *testing.T) {
	s := open(t, nil)
	runs := []*driven{drive(t, s, "t", uuid.New(), at("entrypoint", checkpoint.Input, 1))}
	runs = append(runs, branch(t, runs[0]), branch(t, runs[0]))
	for range 3 {
		for _, d := range runs {
			require.NoError(t, d.commit(t.Context(), checkpoint.Running, at("call_model", checkpoint.Step, 1)))
			assert.Equal(t, 1, requireTrue(t, s), "one of a session")
		}
	}
	for _, d := range runs {
		require.NoError(t, d.commit(t.Context(), checkpoint.Completed))
		p, err := s.Load(t.Context(), &store.Load{Tenant: "t", Run: d.fence.Run})
		require.NoError(t, err)
		assert.Len(t, p.Messages, 4)
	}
}

func TestANewRunSeesWhatHappenedToItsSession(t *testing.T) {
	post := func(t *testing.T, s *Store, session uuid.UUID) uuid.UUID {
		m, err := s.CreateMessage(t.Context(), "t", &store.Message{Header: message.Header{ID: uuid.New(), SessionID: session}, Role: message.RoleUser, Body: body})
		require.NoError(t, err)
		return m.ID
	}
	for name, do := range map[string]func(t *testing.T, s *Store, session, posted uuid.UUID){
		"message posted": func(t *testing.T, s *Store, session, _ uuid.UUID) { post(t, s, session) },
		"message deleted": func(t *testing.T, s *Store, _, posted uuid.UUID) {
			require.NoError(t, s.DeleteMessage(t.Context(), "t", posted))
		},
		"pruned": func(t *testing.T, s *Store, _, _ uuid.UUID) {
			n, err := s.Prune(t.Context(), &store.Prune{Before: time.Now().Add(time.Hour), Limit: 9})
			require.NoError(t, err)
			require.Equal(t, 1, n)
		},
		"deleted and created again": func(t *testing.T, s *Store, session, _ uuid.UUID) {
			require.NoError(t, s.DeleteSession(t.Context(), "t", session))
			_, err := s.CreateSession(t.Context(), "t", session)
			require.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, nil)
			session := uuid.New()
			_, err := s.CreateSession(t.Context(), "t", session)
			require.NoError(t, err)
			posted := post(t, s, session)
			d := drive(t, s, "t", session, at("entrypoint", checkpoint.Input, 1))
			require.NoError(t, d.commit(t.Context(), checkpoint.Completed, at("exit", checkpoint.Finish, 0)))
			p := d.load(t)
			require.Equal(t, 1, requireTrue(t, s))
			do(t, s, session, posted)
			_, err = s.Begin(t.Context(), &store.Begin{
				Fence: store.Fence{Tenant: "t", Run: uuid.New(), Owner: uuid.New(), Epoch: 1}, Session: session,
				From: store.From{Head: p.Session.Head, Base: p.Session.Base}, Status: checkpoint.Running, Lease: time.Minute,
			})
			require.ErrorIs(t, err, store.ErrConflict)
		})
	}
}

func TestARunThatGotItsTurnWrites(t *testing.T) {
	s := open(t, nil)
	d := drive(t, s, "t", uuid.New(), at("entrypoint", checkpoint.Input, 1))
	require.NoError(t, d.commit(t.Context(), checkpoint.Completed))
	d = drive(t, s, "t", d.session)
	waiter := fresh(s, d.session)
	_, err := s.Begin(t.Context(), &store.Begin{Fence: waiter.fence, Session: d.session, Wait: true, Status: checkpoint.Running, Lease: time.Minute})
	require.NoError(t, err)
	require.ErrorIs(t, waiter.commit(t.Context(), checkpoint.Running, at("entrypoint", checkpoint.Input, 1)), store.ErrConflict)
	require.NoError(t, d.commit(t.Context(), checkpoint.Completed))
	active, err := s.Promote(t.Context(), waiter.fence)
	require.NoError(t, err)
	require.True(t, active)
	require.NoError(t, waiter.commit(t.Context(), checkpoint.Completed, at("entrypoint", checkpoint.Input, 1)))
	requireTrue(t, s)
	assert.Zero(t, d.load(t).Session.Active)
}

func TestAWriteThatFailedLeavesNothingInTheCache(t *testing.T) {
	for name, wrong := range map[string]func(t *testing.T, s *Store, d *driven){
		"in the middle": func(t *testing.T, s *Store, d *driven) {
			last := d.lastID
			require.ErrorContains(t, d.commit(t.Context(), checkpoint.Running, at("call_model", checkpoint.Step, 1), at("broken", checkpoint.Step, 1)), "broken")
			d.lastID = last
		},
		"in company": func(t *testing.T, s *Store, d *driven) {
			last := d.lastID
			assert.Equal(t, int64(2), together(s,
				func() {
					assert.ErrorContains(t, d.commit(t.Context(), checkpoint.Running, at("call_model", checkpoint.Step, 1), at("broken", checkpoint.Step, 1)), "broken")
				},
				func() {
					_, err := s.CreateSession(t.Context(), "t", uuid.New())
					assert.NoError(t, err)
				}))
			d.lastID = last
		},
		"with a panic": func(t *testing.T, s *Store, d *driven) {
			require.ErrorContains(t, s.writeRun(t.Context(), "fail", func(ctx context.Context, c *conn) error {
				r, err := heldRun(ctx, c, d.fence)
				require.NoError(t, err)
				r.session.seq += 9
				panic("panic")
			}), "panic")
		},
		"by the commit": func(t *testing.T, s *Store, d *driven) {
			last := d.lastID
			assert.Equal(t, int64(1), together(s,
				func() {
					assert.ErrorContains(t, d.commit(t.Context(), checkpoint.Running, at("call_model", checkpoint.Step, 1)), "FOREIGN KEY")
				},
				func() {
					assert.Error(t, s.writeRun(t.Context(), "orphan", func(ctx context.Context, c *conn) error {
						return c.exec(ctx, `INSERT INTO child VALUES (99)`)
					}))
				}))
			d.lastID = last
		},
		"by the end of the transaction": func(t *testing.T, s *Store, d *driven) {
			last := d.lastID
			calls := []func(){
				func() {
					assert.ErrorContains(t, d.commit(t.Context(), checkpoint.Running, at("call_model", checkpoint.Step, 1)), "disk full")
				},
				// As SQLite does when the disk is full.
				func() {
					assert.Error(t, s.writeRun(t.Context(), "fill", func(ctx context.Context, c *conn) error {
						return errors.Join(c.exec(ctx, `ROLLBACK`), errors.New("disk full"))
					}))
				},
			}
			<-s.writer.free
			done := make(chan struct{}, 2)
			for _, call := range calls { // in this order
				go func() { call(); done <- struct{}{} }()
				synctest.Wait()
			}
			s.writer.free <- struct{}{}
			<-done
			<-done
			d.lastID = last
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, nil)
				refuseBroken(t, s)
				require.NoError(t, s.writer.conn.script(`CREATE TABLE child (parent INTEGER REFERENCES sessions DEFERRABLE INITIALLY DEFERRED) STRICT`))
				d := drive(t, s, "t", uuid.New(), at("entrypoint", checkpoint.Input, 1))
				require.Equal(t, 1, requireTrue(t, s))
				before := d.last
				wrong(t, s, d)
				assert.Zero(t, requireTrue(t, s))
				require.NoError(t, d.commit(t.Context(), checkpoint.Completed, at("call_model", checkpoint.Step, 1)))
				assert.Equal(t, before+2, d.last, "no sequence was used up")
				assert.Equal(t, 1, requireTrue(t, s))
				assert.Len(t, d.load(t).Messages, 2)
			})
		})
	}
}

func TestTheCacheIsBounded(t *testing.T) {
	c := newCache()
	for range 3*maxCached + 1 {
		r := new(run)
		r.ID, r.Session = uuid.New(), uuid.New()
		c.keep(r)
		require.LessOrEqual(t, len(c.runs), maxCached)
		require.Same(t, r, c.runs[owned{"", r.ID}])
	}
	assert.Len(t, c.runs, 1)
}

// Whatever happens in whatever order, what is remembered is what the database has.
func TestTheCacheIsTrue(t *testing.T) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 0))
		now := time.Unix(1_700_000_000, 0)
		s := open(t, &Options{Synchronous: Normal, Now: func() time.Time { return now }})
		refuseBroken(t, s)
		ctx := t.Context()
		sessions := []uuid.UUID{uuid.New(), uuid.New(), uuid.New()}
		var runs []*driven
		var posted []uuid.UUID
		steps := func() (list []store.Step) {
			for range r.IntN(3) {
				list = append(list, at([]string{"node", "broken"}[r.IntN(24)/23], checkpoint.Step, r.IntN(3)))
			}
			return list
		}
		status := func() checkpoint.Status {
			return []checkpoint.Status{checkpoint.Running, checkpoint.Interrupted, checkpoint.Cancelled}[max(0, r.IntN(12)-9)]
		}
		good, most := 0, 0
		for range 500 {
			session := sessions[r.IntN(len(sessions))]
			d := fresh(s, session)
			if len(runs) > 0 && r.IntN(9) > 0 {
				d = runs[max(0, len(runs)-1-r.IntN(4))]
			}
			tasks := []store.Task{{Key: "a"}, {Key: "b", Done: true}}[:r.IntN(3)]
			var err error
			switch now = now.Add(time.Second); r.IntN(20) {
			case 0, 1, 2:
				d = fresh(s, session)
				b := &store.Begin{Fence: d.fence, Session: session, Graph: "agent", WriteID: uuid.New(), Wait: r.IntN(2) == 0, Params: []byte("{}"),
					Steps: steps(), Tasks: tasks, Status: status(), Lease: time.Minute}
				if p, err := s.Load(ctx, &store.Load{Tenant: "t", Session: session}); err == nil {
					b.From = store.From{Head: p.Session.Head, Base: p.Session.Base}
					if p.Checkpoint != nil && r.IntN(3) == 0 {
						b.From.Checkpoint = p.Checkpoint.ID
					}
				}
				var begun *store.Begun
				if begun, err = s.Begin(ctx, b); err == nil {
					d.took(begun.Committed)
					runs = append(runs, d)
				}
			case 3, 4, 5, 6, 7, 16, 17, 18, 19:
				var c *store.Committed
				c, err = s.Commit(ctx, &store.Commit{Fence: d.fence, WriteID: uuid.New(), After: d.last, Steps: steps(), Tasks: tasks, Status: status(), Lease: time.Minute})
				if err == nil {
					d.took(*c)
				}
			case 8, 9:
				err = s.SaveTask(ctx, &store.SaveTask{Fence: d.fence, Checkpoint: d.last, Task: store.Task{Key: "c", Done: r.IntN(2) == 0}})
			case 10:
				_, err = s.Promote(ctx, d.fence)
			case 11:
				_, err = s.Renew(ctx, &store.Renew{Fences: []store.Fence{d.fence}, Lease: time.Hour})
			case 12:
				now = now.Add(time.Duration(r.IntN(2)) * time.Hour)
				var claimed []store.Run
				claimed, err = s.Claim(ctx, &store.Claim{Owner: uuid.New(), Graphs: []string{"agent"}, Lease: time.Minute, Limit: 2})
				for i := range claimed {
					runs = append(runs, &driven{store: s, session: claimed[i].Session, fence: claimed[i].Fence(), last: claimed[i].Last})
				}
			case 13:
				_, err = s.RequestCancel(ctx, "t", d.fence.Run)
			case 14:
				err = s.Release(ctx, d.fence)
			case 15:
				switch r.IntN(4) {
				case 0:
					err = s.DeleteSession(ctx, "t", session)
				case 1:
					if len(posted) > 0 {
						err = s.DeleteMessage(ctx, "t", posted[r.IntN(len(posted))])
					}
				default:
					id := uuid.New()
					posted = append(posted, id)
					_, err = s.CreateMessage(ctx, "t", &store.Message{Header: message.Header{ID: id, SessionID: session}, Role: message.RoleUser, Body: body})
				}
			}
			if err == nil {
				good++
			}
			most = max(most, requireTrue(t, s))
		}
		t.Logf("seed %d: %d of 500 calls did something", seed, good)
		assert.Greater(t, good, 100)
		assert.Equal(t, 3, most, "a run of each session was remembered")
	}
}
