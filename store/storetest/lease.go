package storetest

import (
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/store"
)

var leaseScenarios = []scenario{
	{"claim-expired", "Only runs whose lease has run out are taken over.", claimExpired},
	{"claim-result", "A claimed run comes back with its new owner, a higher epoch, a new lease and one takeover more.", claimResult},
	{"claim-graphs", "Only runs of the named graphs are taken over.", claimGraphs},
	{"claim-except", "Excepted runs are not taken over.", claimExcept},
	{"claim-oldest", "No more runs than the limit are taken over, the oldest first.", claimOldest},
	{"claim-ended", "A run that has ended is never taken over.", claimEnded},
	{"claim-accepted", "A run that nobody executes yet is claimed at once, under the first epoch.", claimAccepted},
	{"claim-concurrent", "A run is taken over by one of many at once.", claimConcurrent},
	{"claim-tenants", "Runs of all tenants are taken over.", claimTenants},
	{"renew-extends", "Renewing extends the leases of the owner's runs, and reports none of them.", renewExtends},
	{"renew-lost", "Renewing reports runs that were taken over, ended or deleted, or never were.", renewLost},
	{"renew-cancels", "Renewing reports runs that are to be cancelled.", renewCancels},
	{"takeovers-count", "Takeovers are counted until the run writes something.", takeoversCount},
	{"release-claimable", "A run that was given up can be taken over at once, and its old owner has lost it.", releaseClaimable},
	{"release-detached", "A run that was given up is a detached one.", releaseDetached},
	{"backlog-counts", "The backlog counts the runs of the graphs that have not ended, and knows since when one is unclaimed.", backlogCounts},
	{"release-not-counted", "A takeover that ends with the run being given up does not count.", releaseNotCounted},
}

// claim takes over what there is.
func (b *bundle) claim(c store.Claim) []uuid.UUID {
	b.Helper()
	if c.Owner == uuid.Nil {
		c.Owner = uuid.New()
	}
	if c.Graphs == nil {
		c.Graphs = []string{"graph"}
	}
	if c.Limit == 0 {
		c.Limit = 100
	}
	c.Lease = lease
	runs, err := b.store.Claim(b.ctx, &c)
	require.NoError(b, err)
	ids := []uuid.UUID{}
	for _, r := range runs {
		ids = append(ids, r.ID)
	}
	return ids
}

func claimExpired(b *bundle) {
	r := b.start(b.newSession())
	require.Empty(b, b.claim(store.Claim{}))
	b.clock.move(lease - time.Millisecond)
	young := b.start(b.newSession())
	require.Empty(b, b.claim(store.Claim{}))
	b.clock.move(2 * time.Millisecond)
	require.Equal(b, []uuid.UUID{r.Run}, b.claim(store.Claim{}))
	require.Empty(b, b.claim(store.Claim{}), "the claim has a lease too")
	young.commit(step())
}

func claimResult(b *bundle) {
	session := b.newSession()
	begin := b.newBegin(session, with(step("one")))
	begin.Params = []byte("params")
	r, err := b.begin(begin)
	require.NoError(b, err)
	now := b.clock.move(2 * lease)
	owner := uuid.New()
	runs, err := b.store.Claim(b.ctx, &store.Claim{Owner: owner, Graphs: []string{"graph"}, Lease: 3 * lease, Limit: 10})
	require.NoError(b, err)
	require.Len(b, runs, 1)
	got := runs[0]
	require.Equal(b, r.Run, got.ID)
	require.Equal(b, owner, got.Owner)
	require.Equal(b, int64(2), got.Epoch)
	require.Equal(b, 1, got.Takeovers)
	require.Equal(b, r.last, got.Last)
	require.Equal(b, "params", string(got.Params))
	sameTime(b, now.Add(3*lease), got.LeaseUntil, "lease")
	require.Equal(b, got, *r.record())
	b.reopen()
	require.Equal(b, got.Fence(), r.record().Fence())
	require.Equal(b, r.Run, b.session(session).Active)
}

func claimAccepted(b *bundle) {
	session := b.newSession()
	begin := b.newBegin(session, with(step("one")))
	begin.Owner, begin.Epoch, begin.Lease = uuid.Nil, 0, 0
	_, err := b.store.Begin(b.ctx, begin)
	require.NoError(b, err)
	require.Equal(b, begin.Run, b.session(session).Active)
	runs, err := b.store.Claim(b.ctx, &store.Claim{Owner: uuid.New(), Graphs: []string{"graph"}, Lease: lease, Limit: 10})
	require.NoError(b, err)
	require.Len(b, runs, 1)
	require.Equal(b, begin.Run, runs[0].ID)
	require.Equal(b, int64(1), runs[0].Epoch)
	require.Empty(b, b.claim(store.Claim{}))
	_, err = b.store.Commit(b.ctx, &store.Commit{Fence: begin.Fence, After: runs[0].Last, Status: checkpoint.Running, Lease: lease})
	require.ErrorIs(b, err, store.ErrLost)
}

func backlogCounts(b *bundle) {
	backlog := func(graphs ...string) store.Backlog {
		got, err := b.store.Backlog(b.ctx, graphs)
		require.NoError(b, err)
		return *got
	}
	require.Equal(b, store.Backlog{}, backlog("graph"))
	session := b.newSession()
	b.start(session)
	b.start(session, waiting)
	b.start(b.newSession(), graph("other"))
	b.start(b.newSession(), ended(checkpoint.Completed))
	released := b.start(b.newSession())
	require.Equal(b, store.Backlog{Running: 3, Waiting: 1}, backlog("graph"))
	require.Equal(b, store.Backlog{}, backlog())
	since := b.tick()
	require.NoError(b, b.store.Release(b.ctx, released.Fence))
	b.tick()
	got := backlog("graph", "other")
	sameTime(b, since, got.Since, "since")
	got.Since = time.Time{}
	require.Equal(b, store.Backlog{Running: 4, Waiting: 1, Unclaimed: 1}, got)
	b.clock.move(lease)
	got = backlog("graph")
	sameTime(b, since, got.Since, "since")
	require.Equal(b, 3, got.Unclaimed)
	b.claim(store.Claim{})
	require.Equal(b, store.Backlog{Running: 3, Waiting: 1}, backlog("graph"))
}

func claimGraphs(b *bundle) {
	one := b.start(b.newSession(), graph("one"))
	two := b.start(b.newSession(), graph("two"))
	b.tick()
	b.start(b.newSession(), graph("three"))
	b.clock.move(2 * lease)
	require.ElementsMatch(b, []uuid.UUID{one.Run, two.Run}, b.claim(store.Claim{Graphs: []string{"one", "two", "four"}}))
	require.Empty(b, b.claim(store.Claim{Graphs: []string{"", "thre", "THREE", "%"}}))
}

func claimExcept(b *bundle) {
	one := b.start(b.newSession())
	b.tick()
	two := b.start(b.newSession())
	b.clock.move(2 * lease)
	require.Equal(b, []uuid.UUID{two.Run}, b.claim(store.Claim{Except: []uuid.UUID{one.Run, uuid.New()}, Limit: 1}))
	require.Equal(b, one.Fence, one.record().Fence())
	require.Equal(b, []uuid.UUID{one.Run}, b.claim(store.Claim{}))
}

func claimOldest(b *bundle) {
	want := []uuid.UUID{}
	for range 5 {
		b.tick()
		want = append(want, b.start(b.newSession()).Run)
	}
	b.clock.move(2 * lease)
	require.Equal(b, want[:2], b.claim(store.Claim{Limit: 2}))
	require.Equal(b, want[2:], b.claim(store.Claim{Limit: 10}))
}

func claimEnded(b *bundle) {
	for _, status := range []checkpoint.Status{checkpoint.Completed, checkpoint.Interrupted, checkpoint.Failed, checkpoint.Cancelled} {
		b.start(b.newSession()).end(status)
		b.start(b.newSession(), with(step()), ended(status))
	}
	b.clock.move(2 * lease)
	require.Empty(b, b.claim(store.Claim{}))
}

func claimConcurrent(b *bundle) {
	want := []uuid.UUID{}
	for range 20 {
		want = append(want, b.start(b.newSession()).Run)
	}
	b.clock.move(2 * lease)
	claims := make([][]store.Run, 8)
	errs := make([]error, len(claims))
	var wg sync.WaitGroup
	for i := range claims {
		wg.Go(func() {
			claims[i], errs[i] = b.store.Claim(b.ctx, &store.Claim{Owner: uuid.New(), Graphs: []string{"graph"}, Lease: lease, Limit: 5})
		})
	}
	wg.Wait()
	got := []uuid.UUID{}
	for i, runs := range claims {
		require.NoError(b, errs[i])
		require.LessOrEqual(b, len(runs), 5)
		for _, r := range runs {
			got = append(got, r.ID)
			require.Equal(b, int64(2), r.Epoch)
			require.Equal(b, r.Fence(), b.runRecord(r.ID).Fence())
		}
	}
	// A driver may pass over rows that others look at; what it left is there for the next.
	got = append(got, b.claim(store.Claim{})...)
	require.ElementsMatch(b, want, got)
}

func claimTenants(b *bundle) {
	one := b.start(b.newSession())
	begin := b.newBegin(uuid.New())
	begin.Tenant = "other"
	_, err := b.store.Begin(b.ctx, begin)
	require.NoError(b, err)
	b.clock.move(2 * lease)
	runs, err := b.store.Claim(b.ctx, &store.Claim{Owner: uuid.New(), Graphs: []string{"graph"}, Lease: lease, Limit: 10})
	require.NoError(b, err)
	got := map[uuid.UUID]string{}
	for _, r := range runs {
		got[r.ID] = r.Tenant
	}
	require.Equal(b, map[uuid.UUID]string{one.Run: tenant, begin.Run: "other"}, got)
}

func (b *bundle) renew(fences ...store.Fence) *store.Renewed {
	b.Helper()
	out, err := b.store.Renew(b.ctx, &store.Renew{Fences: fences, Lease: lease})
	require.NoError(b, err)
	require.NotNil(b, out)
	return out
}

func renewExtends(b *bundle) {
	one, two := b.start(b.newSession()), b.start(b.newSession())
	third := b.start(b.newSession())
	now := b.clock.move(lease - time.Second)
	out := b.renew(one.Fence, two.Fence)
	require.Empty(b, out.Lost)
	require.Empty(b, out.Cancels)
	sameTime(b, now.Add(lease), one.record().LeaseUntil, "lease")
	b.clock.move(2 * time.Second)
	require.Equal(b, []uuid.UUID{third.Run}, b.claim(store.Claim{}))
	require.Empty(b, b.renew().Lost)
}

func renewLost(b *bundle) {
	taken := b.start(b.newSession())
	taken.claimed()
	kept := b.start(b.newSession())
	over := b.start(b.newSession())
	over.end(checkpoint.Completed)
	deleted := b.start(b.newSession())
	require.NoError(b, b.store.DeleteSession(b.ctx, tenant, deleted.session))
	unknown := kept.Fence
	unknown.Run = uuid.New()
	foreign := kept.Fence
	foreign.Tenant = "other"
	before := taken.record()
	out := b.renew(taken.Fence, kept.Fence, over.Fence, deleted.Fence, unknown)
	require.ElementsMatch(b, []uuid.UUID{taken.Run, over.Run, deleted.Run, unknown.Run}, out.Lost)
	require.Empty(b, out.Cancels)
	require.Equal(b, before, taken.record(), "a stale renewal changes nothing")
	require.Equal(b, []uuid.UUID{kept.Run}, b.renew(foreign).Lost)
}

func renewCancels(b *bundle) {
	one, two := b.start(b.newSession()), b.start(b.newSession())
	_, err := b.store.RequestCancel(b.ctx, tenant, two.Run)
	require.NoError(b, err)
	b.reopen()
	for range 2 {
		now := b.tick()
		out := b.renew(one.Fence, two.Fence)
		require.Empty(b, out.Lost)
		require.Equal(b, []uuid.UUID{two.Run}, out.Cancels, "reported until the run has ended")
		sameTime(b, now.Add(lease), two.record().LeaseUntil, "lease")
	}
	next := two.claimed()
	require.True(b, next.record().CancelRequested, "a takeover does not forget the request")
	require.Equal(b, []uuid.UUID{two.Run}, b.renew(next.Fence).Cancels)
	next.end(checkpoint.Cancelled)
	out := b.renew(next.Fence)
	require.Empty(b, out.Cancels)
	require.Equal(b, []uuid.UUID{two.Run}, out.Lost)
}

func takeoversCount(b *bundle) {
	r := b.start(b.newSession(), with(step()))
	require.Zero(b, r.record().Takeovers)
	for i := range 3 {
		r = r.claimed()
		require.Equal(b, i+1, r.record().Takeovers)
	}
	b.renew(r.Fence)
	require.Equal(b, 3, r.record().Takeovers, "to be alive is not to get on")
	r.commit(step())
	require.Zero(b, r.record().Takeovers)
	r = r.claimed()
	require.Equal(b, 1, r.record().Takeovers)
	require.NoError(b, r.saveTask("task", true, ""))
	require.Zero(b, r.record().Takeovers)
}

func releaseClaimable(b *bundle) {
	r := b.start(b.newSession(), with(step("one")))
	require.NoError(b, r.saveTask("a", true, "1"))
	require.NoError(b, b.store.Release(b.ctx, r.Fence))
	got := r.record()
	require.Equal(b, uuid.Nil, got.Owner)
	require.Equal(b, checkpoint.Running, got.Status)
	require.Equal(b, r.Run, b.session(r.session).Active)
	require.ErrorIs(b, r.tryCommit(step("late")), store.ErrLost)
	require.ErrorIs(b, b.store.Release(b.ctx, r.Fence), store.ErrLost)
	require.Equal(b, []uuid.UUID{r.Run}, b.renew(r.Fence).Lost)
	b.clock.move(-time.Minute)
	require.Equal(b, []uuid.UUID{r.Run}, b.claim(store.Claim{}), "without the clock having moved on, it may even go back")
	next := *r
	next.Fence = r.record().Fence()
	require.Equal(b, []string{"a=1"}, next.tasks())
	next.commit(step("two"))
	require.Equal(b, []string{"one", "two"}, b.history(r.session))
}

func releaseDetached(b *bundle) {
	begin := b.newBegin(b.newSession())
	begin.Attached = true
	r, err := b.begin(begin)
	require.NoError(b, err)
	require.True(b, r.record().Attached)
	next := r.claimed()
	require.True(b, next.record().Attached, "a run that was taken over is not")
	require.NoError(b, b.store.Release(b.ctx, next.Fence))
	b.reopen()
	require.False(b, r.record().Attached)
	require.False(b, next.claimed().record().Attached)
}

func releaseNotCounted(b *bundle) {
	r := b.start(b.newSession(), with(step()))
	require.NoError(b, b.store.Release(b.ctx, r.Fence))
	require.Zero(b, r.record().Takeovers, "there was none")
	for range 6 {
		r = r.claimed()
		require.Equal(b, 1, r.record().Takeovers)
		require.NoError(b, b.store.Release(b.ctx, r.Fence))
		require.Zero(b, r.record().Takeovers)
	}
	r = r.claimed().claimed()
	require.Equal(b, 2, r.record().Takeovers)
	require.NoError(b, b.store.Release(b.ctx, r.Fence))
	require.Equal(b, 1, r.record().Takeovers, "only the last takeover ended so")
	require.True(b, slices.Contains(b.claim(store.Claim{}), r.Run))
}
