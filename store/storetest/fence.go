package storetest

import (
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/store"
)

var fenceScenarios = []scenario{
	{"fence-commit", "A commit of a run that was taken over writes nothing; the new owner's is written.", fenceCommit},
	{"fence-task", "A task of a run that was taken over is not kept.", fenceTask},
	{"fence-promote", "A waiting run that was taken over is not promoted by its old owner.", fencePromote},
	{"fence-release", "A run that was taken over is not given up by its old owner.", fenceRelease},
	{"fence-owner", "The epoch alone does not prove ownership.", fenceOwner},
	{"fence-epoch", "The owner alone does not prove ownership: an earlier hold of the same process is over.", fenceEpoch},
	{"fence-expired", "A lease that ran out does not invalidate writes, only a takeover does.", fenceExpired},
}

func fenceCommit(b *bundle) {
	session := b.newSession()
	r := b.start(session, with(step("one")))
	late := r.newCommit(checkpoint.Running, step("late"))
	lateEnd := r.newCommit(checkpoint.Completed, step("late end"))
	next := r.claimed()
	before := b.count(session)
	for range 2 {
		_, err := b.store.Commit(b.ctx, late)
		require.ErrorIs(b, err, store.ErrLost)
		_, err = b.store.Commit(b.ctx, lateEnd)
		require.ErrorIs(b, err, store.ErrLost)
		require.Equal(b, before, b.count(session))
		require.Equal(b, next.Fence, r.record().Fence())
		b.reopen()
	}
	next.commit(step("two"))
	_, err := b.store.Commit(b.ctx, late)
	require.ErrorIs(b, err, store.ErrLost)
	next.end(checkpoint.Completed)
	require.Equal(b, []string{"one", "two"}, b.history(session))
}

func fenceTask(b *bundle) {
	r := b.start(b.newSession(), with(step()))
	next := r.claimed()
	require.ErrorIs(b, r.saveTask("task", true, "stale"), store.ErrLost)
	require.Empty(b, b.loadRun(r.Run).Tasks)
	require.NoError(b, next.saveTask("task", true, "fresh"))
	tasks := b.loadRun(r.Run).Tasks
	require.Len(b, tasks, 1)
	require.Equal(b, "fresh", string(tasks[0].Value))
}

func fencePromote(b *bundle) {
	session := b.newSession()
	active := b.start(session)
	waiter := b.start(session, waiting)
	next := waiter.claimed()
	// The claim took the active run's lease too; end it as whoever holds it.
	active.Fence = active.record().Fence()
	active.end(checkpoint.Completed)
	_, err := waiter.promote()
	require.ErrorIs(b, err, store.ErrLost)
	require.True(b, waiter.record().Waiting)
	got, err := next.promote()
	require.NoError(b, err)
	require.True(b, got)
}

func fenceRelease(b *bundle) {
	r := b.start(b.newSession())
	next := r.claimed()
	require.ErrorIs(b, b.store.Release(b.ctx, r.Fence), store.ErrLost)
	require.Equal(b, next.Fence, r.record().Fence())
	next.commit(step())
}

// refuses requires that a fence which is nearly the run's opens nothing.
func (r *run) refuses(f store.Fence) {
	r.b.Helper()
	stranger := *r
	stranger.Fence = f
	require.ErrorIs(r.b, stranger.tryCommit(step("stranger")), store.ErrLost)
	require.ErrorIs(r.b, stranger.saveTask("task", true, ""), store.ErrLost)
	_, err := stranger.promote()
	require.ErrorIs(r.b, err, store.ErrLost)
	require.ErrorIs(r.b, r.b.store.Release(r.b.ctx, f), store.ErrLost)
	out, err := r.b.store.Renew(r.b.ctx, &store.Renew{Fences: []store.Fence{f}, Lease: lease})
	require.NoError(r.b, err)
	require.Equal(r.b, []uuid.UUID{r.Run}, out.Lost)
}

func fenceOwner(b *bundle) {
	r := b.start(b.newSession(), with(step("one")))
	f := r.Fence
	f.Owner = uuid.New()
	r.refuses(f)
	f.Owner = uuid.Nil
	r.refuses(f)
	require.NoError(b, b.store.Release(b.ctx, r.Fence))
	r.refuses(r.Fence)
	r.refuses(f) // without an owner, like the run now
	require.Equal(b, []string{"one"}, b.history(r.session))
}

func fenceEpoch(b *bundle) {
	r := b.start(b.newSession(), with(step("one")))
	b.clock.move(2 * lease)
	runs, err := b.store.Claim(b.ctx, &store.Claim{Owner: r.Owner, Graphs: []string{"graph"}, Lease: lease, Limit: 1})
	require.NoError(b, err)
	require.Len(b, runs, 1)
	require.Equal(b, r.Owner, runs[0].Owner)
	require.Greater(b, runs[0].Epoch, r.Epoch)
	r.refuses(r.Fence)
	ahead := runs[0].Fence()
	ahead.Epoch++
	r.refuses(ahead)
	r.Fence = runs[0].Fence()
	r.commit(step("two"))
	require.Equal(b, []string{"one", "two"}, b.history(r.session))
}

func fenceExpired(b *bundle) {
	r := b.start(b.newSession(), with(step("one")))
	b.clock.move(100 * lease)
	require.NoError(b, r.saveTask("task", true, "result"))
	r.commit(step("two"))
	b.clock.move(100 * lease)
	out, err := b.store.Renew(b.ctx, &store.Renew{Fences: []store.Fence{r.Fence}, Lease: lease})
	require.NoError(b, err)
	require.Empty(b, out.Lost)
	r.end(checkpoint.Completed, step("three"))
	require.Equal(b, []string{"one", "two", "three"}, b.history(r.session))
}
