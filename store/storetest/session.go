package storetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/store"
)

var sessionScenarios = []scenario{
	{"session-create", "A session is created once, idle and empty.", sessionCreate},
	{"session-many", "A hundred sessions at once do not disturb each other.", sessionMany},
	{"delete-everything", "Deleting a session removes all that belongs to it, and no row is left.", deleteEverything},
	{"delete-others-stay", "Deleting a session leaves the others alone.", deleteOthersStay},
	{"delete-while-running", "A run whose session was deleted can write nothing and does not bring the session back.", deleteWhileRunning},
	{"delete-unknown", "Deleting a session that does not exist says so.", deleteUnknown},
	{"delete-begin-anew", "A session of a deleted one's id begins anew.", deleteBeginAnew},
	{"prune-unused", "Pruning removes the sessions that nobody used since a time, with all that belongs to them.", pruneUnused},
	{"prune-running", "Pruning keeps sessions in which something runs or waits.", pruneRunning},
	{"prune-limit", "Pruning removes no more than the limit and says how many.", pruneLimit},
	{"prune-keep", "Pruning keeps as many sessions of each tenant as it should, those that were used last.", pruneKeep},
	{"prune-tenant", "Pruning keeps to the tenant, or to none.", pruneTenant},
}

func sessionCreate(b *bundle) {
	id := uuid.New()
	now := b.tick()
	s, err := b.store.CreateSession(b.ctx, tenant, id)
	require.NoError(b, err)
	require.NotNil(b, s)
	sameTime(b, now, s.CreatedAt, "created")
	sameTime(b, now, s.UpdatedAt, "updated")
	require.Equal(b, store.Session{Tenant: tenant, ID: id, CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt, Base: s.CreatedAt.UnixNano()}, *s)
	b.tick()
	b.reopen()
	require.Equal(b, s, b.session(id))
	_, err = b.store.CreateSession(b.ctx, tenant, id)
	require.ErrorIs(b, err, store.ErrExists)
	require.Equal(b, s, b.session(id))
	require.Equal(b, count{}, b.count(id))
	byRun := uuid.New()
	b.start(byRun)
	_, err = b.store.CreateSession(b.ctx, tenant, byRun)
	require.ErrorIs(b, err, store.ErrExists)
}

func sessionMany(b *bundle) {
	const sessions, turns = 100, 3
	ids := make([]uuid.UUID, sessions)
	errs := make([]error, sessions)
	var wg sync.WaitGroup
	for i := range ids {
		ids[i] = uuid.New()
		wg.Go(func() {
			for n := range turns {
				r, err := b.begin(b.newBegin(ids[i], with(step(fmt.Sprint(i, "?", n)))))
				if err == nil {
					err = r.saveTask("task", true, "")
				}
				if err == nil {
					_, err = r.send(r.newCommit(checkpoint.Completed, step(fmt.Sprint(i, "!", n))))
				}
				if err != nil {
					errs[i] = err
					return
				}
			}
		})
	}
	wg.Wait()
	for i, id := range ids {
		require.NoError(b, errs[i])
		want := []string{}
		for n := range turns {
			want = append(want, fmt.Sprint(i, "?", n), fmt.Sprint(i, "!", n))
		}
		require.Equal(b, want, b.history(id))
	}
	page, err := b.store.Sessions(b.ctx, &store.SessionQuery{Tenant: tenant})
	require.NoError(b, err)
	require.Equal(b, sessions, page.Count)
}

// A fullSession is one with something of everything.
type fullSession struct {
	id                    uuid.UUID
	runs                  []*run
	checkpoints, messages []uuid.UUID
}

func (b *bundle) newFullSession() *fullSession {
	b.Helper()
	f := &fullSession{id: b.newSession()}
	posted := b.post(f.id, "posted")
	one := step("one")
	one.Document = &store.Document{Body: []byte(`{}`)}
	first := b.whole(f.id, one)
	active := b.start(f.id, with(patch(`[]`)))
	branch := b.start(f.id, from(first.at), with(step("aside")))
	waiter := b.start(f.id, waiting)
	require.NoError(b, active.saveTask("done", true, "1"))
	require.NoError(b, active.saveTask("started", false, ""))
	require.NoError(b, branch.saveTask("done", true, "1"))
	over := b.start(f.id, from(first.at))
	over.committed(checkpoint.Interrupted, []store.Task{{Key: "kept", Done: true}}, step())
	f.runs = []*run{first, active, branch, waiter, over}
	f.checkpoints = []uuid.UUID{first.at, active.at, branch.at, over.at}
	f.messages = []uuid.UUID{posted.ID, one.Messages[0].ID}
	return f
}

// gone requires that nothing of the session can be found.
func (b *bundle) gone(f *fullSession) {
	b.Helper()
	_, err := b.store.Session(b.ctx, tenant, f.id)
	b.notFound(err, store.SessionResource, f.id)
	_, err = b.store.Load(b.ctx, &store.Load{Tenant: tenant, Session: f.id})
	b.notFound(err, store.SessionResource, f.id)
	for _, r := range f.runs {
		_, err = b.store.Run(b.ctx, tenant, r.Run)
		b.notFound(err, store.RunResource, r.Run)
		_, err = b.store.Load(b.ctx, &store.Load{Tenant: tenant, Run: r.Run})
		b.notFound(err, store.RunResource, r.Run)
	}
	for _, id := range f.checkpoints {
		_, err = b.store.Checkpoint(b.ctx, tenant, id)
		b.notFound(err, store.CheckpointResource, id)
	}
	for _, id := range f.messages {
		_, err = b.store.Message(b.ctx, tenant, id)
		b.notFound(err, store.MessageResource, id)
	}
	page, err := b.store.Sessions(b.ctx, &store.SessionQuery{Tenant: tenant, IDs: []uuid.UUID{f.id}})
	require.NoError(b, err)
	require.Zero(b, page.Count)
}

// rows requires that the tables have as many rows as they had.
func (b *bundle) rows(want map[string]int) {
	b.Helper()
	if b.harness.Rows != nil {
		require.Equal(b, want, b.harness.Rows(b.TB, b.store), "rows in the tables")
	}
}

func deleteEverything(b *bundle) {
	var before map[string]int
	if b.harness.Rows != nil {
		before = b.harness.Rows(b.TB, b.store)
	}
	f := b.newFullSession()
	require.NoError(b, b.store.DeleteSession(b.ctx, tenant, f.id))
	b.gone(f)
	b.rows(before)
	b.clock.move(2 * lease)
	require.Empty(b, b.claim(store.Claim{}))
	b.reopen()
	b.gone(f)
	b.rows(before)
}

func deleteOthersStay(b *bundle) {
	kept, f := b.newFullSession(), b.newFullSession()
	before := b.count(kept.id)
	history := b.history(kept.id)
	require.NoError(b, b.store.DeleteSession(b.ctx, tenant, f.id))
	require.Equal(b, before, b.count(kept.id))
	require.Equal(b, history, b.history(kept.id))
	require.Equal(b, []string{"done=1", "started=?"}, kept.runs[1].tasks())
	for _, r := range kept.runs[1:3] {
		r.commit(step())
	}
}

func deleteWhileRunning(b *bundle) {
	f := b.newFullSession()
	active, branch, waiter := f.runs[1], f.runs[2], f.runs[3]
	end := active.newCommit(checkpoint.Completed, step("late"))
	require.NoError(b, b.store.DeleteSession(b.ctx, tenant, f.id))
	_, err := b.store.Commit(b.ctx, end)
	b.notFound(err, store.RunResource, active.Run)
	b.notFound(branch.tryCommit(step("late")), store.RunResource, branch.Run)
	b.notFound(active.saveTask("late", true, ""), store.RunResource, active.Run)
	_, err = waiter.promote()
	b.notFound(err, store.RunResource, waiter.Run)
	b.notFound(b.store.Release(b.ctx, branch.Fence), store.RunResource, branch.Run)
	_, err = b.store.RequestCancel(b.ctx, tenant, active.Run)
	b.notFound(err, store.RunResource, active.Run)
	require.ElementsMatch(b, []uuid.UUID{active.Run, branch.Run}, b.renew(active.Fence, branch.Fence).Lost)
	b.gone(f)
}

func deleteUnknown(b *bundle) {
	id := uuid.New()
	b.notFound(b.store.DeleteSession(b.ctx, tenant, id), store.SessionResource, id)
	session := b.newSession()
	require.NoError(b, b.store.DeleteSession(b.ctx, tenant, session))
	b.notFound(b.store.DeleteSession(b.ctx, tenant, session), store.SessionResource, session)
}

func deleteBeginAnew(b *bundle) {
	f := b.newFullSession()
	old := b.session(f.id)
	require.NoError(b, b.store.DeleteSession(b.ctx, tenant, f.id))
	now := b.tick()
	r := b.start(f.id, with(step("new")))
	require.Equal(b, []string{"new"}, b.history(f.id))
	require.Empty(b, b.load(f.id).Documents)
	require.Equal(b, count{runs: 1, checkpoints: 1, messages: 1}, b.count(f.id))
	s := b.session(f.id)
	require.NotEqual(b, old.Base, s.Base, "what was loaded before is stale")
	require.Equal(b, r.Run, s.Active)
	sameTime(b, now, s.CreatedAt, "created")
}

func (b *bundle) prune(p store.Prune) int {
	b.Helper()
	if p.Limit == 0 {
		p.Limit = 100
	}
	n, err := b.store.Prune(b.ctx, &p)
	require.NoError(b, err)
	return n
}

func pruneUnused(b *bundle) {
	var before map[string]int
	if b.harness.Rows != nil {
		before = b.harness.Rows(b.TB, b.store)
	}
	old := b.newFullSession()
	for _, r := range old.runs[1:4] {
		r.end(checkpoint.Completed)
	}
	ran, posted, cleared := b.newSession(), b.newSession(), b.newSession()
	unwanted := b.post(cleared, "not wanted")
	limit := b.clock.move(time.Hour)
	require.Zero(b, b.prune(store.Prune{Before: limit.Add(-2 * time.Hour)}))
	r := b.start(ran, with(step()))
	r.end(checkpoint.Completed)
	b.post(posted, "hello")
	require.NoError(b, b.store.DeleteMessage(b.ctx, tenant, unwanted.ID))
	b.clock.move(time.Hour)
	require.Equal(b, 1, b.prune(store.Prune{Before: limit}))
	b.gone(old)
	b.session(ran)
	b.session(posted)
	b.session(cleared)
	require.NoError(b, b.store.DeleteSession(b.ctx, tenant, ran))
	require.NoError(b, b.store.DeleteSession(b.ctx, tenant, cleared))
	require.NoError(b, b.store.DeleteSession(b.ctx, tenant, posted))
	b.rows(before)
}

func pruneRunning(b *bundle) {
	session := b.newSession()
	first := b.whole(session, step("one"))
	b.whole(session, step("two"))
	branch := b.start(session, from(first.at))
	active := b.start(b.newSession())
	released := b.start(b.newSession())
	require.NoError(b, b.store.Release(b.ctx, released.Fence))
	waitFor := b.newSession()
	gone := b.start(waitFor)
	waiter := b.start(waitFor, waiting)
	gone.end(checkpoint.Completed)
	now := b.clock.move(1000 * time.Hour)
	require.Zero(b, b.prune(store.Prune{Before: now}))
	branch.end(checkpoint.Completed)
	active.end(checkpoint.Completed)
	waiter.end(checkpoint.Failed)
	now = b.clock.move(1000 * time.Hour)
	require.Equal(b, 3, b.prune(store.Prune{Before: now}))
	require.Equal(b, released.Run, b.session(released.session).Active)
}

func pruneLimit(b *bundle) {
	for range 5 {
		b.newSession()
	}
	now := b.clock.move(time.Hour)
	require.Equal(b, 2, b.prune(store.Prune{Before: now, Limit: 2}))
	require.Equal(b, 2, b.prune(store.Prune{Before: now, Limit: 2}))
	require.Equal(b, 1, b.prune(store.Prune{Before: now, Limit: 2}))
	require.Zero(b, b.prune(store.Prune{Before: now, Limit: 2}))
}

func pruneKeep(b *bundle) {
	var ours []uuid.UUID
	for range 5 {
		ours = append(ours, b.newSession())
		b.tick()
	}
	theirs := uuid.New()
	_, err := b.store.CreateSession(b.ctx, "other", theirs)
	require.NoError(b, err)
	b.tick()
	active := b.start(ours[0])
	b.tick()
	b.post(ours[1], "used last")
	require.Zero(b, b.prune(store.Prune{Keep: 5}))
	require.Zero(b, b.prune(store.Prune{}), "no reason to remove any")
	require.Equal(b, 1, b.prune(store.Prune{Keep: 2, Limit: 1}))
	_, err = b.store.Session(b.ctx, tenant, ours[2])
	b.notFound(err, store.SessionResource, ours[2])
	require.Equal(b, 2, b.prune(store.Prune{Keep: 1, Tenant: tenant}), "the active one stays beside it")
	b.session(ours[1])
	require.Equal(b, active.Run, b.session(ours[0]).Active)
	_, err = b.store.Session(b.ctx, "other", theirs)
	require.NoError(b, err)
	now := b.clock.move(time.Hour)
	require.Equal(b, 2, b.prune(store.Prune{Keep: 1, Before: now}), "either reason will do")
}

func pruneTenant(b *bundle) {
	ours := b.newSession()
	theirs := uuid.New()
	third := uuid.New()
	_, err := b.store.CreateSession(b.ctx, "other", theirs)
	require.NoError(b, err)
	_, err = b.store.CreateSession(b.ctx, "third", third)
	require.NoError(b, err)
	now := b.clock.move(time.Hour)
	require.Equal(b, 1, b.prune(store.Prune{Tenant: "other", Before: now}))
	b.session(ours)
	_, err = b.store.Session(b.ctx, "other", theirs)
	b.notFound(err, store.SessionResource, theirs)
	require.Equal(b, 2, b.prune(store.Prune{Before: now}), "no tenant is every tenant")
}
