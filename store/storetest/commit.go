package storetest

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/store"
)

var commitScenarios = []scenario{
	{"commit-keeps-checkpoint", "A checkpoint comes back as it was written, however it is read.", commitKeepsCheckpoint},
	{"commit-conflict", "A commit after another position than the run's last is refused, and nothing is written.", commitConflict},
	{"commit-concurrent", "Of commits after one position exactly one is written.", commitConcurrent},
	{"commit-repeated", "A commit repeated with its write id returns what it returned, and writes nothing more.", commitRepeated},
	{"commit-repeated-after-end", "The commit that ended a run is recognised when it is repeated.", commitRepeatedAfterEnd},
	{"commit-repeated-after-claim", "A repeated commit is recognised although the run was taken over.", commitRepeatedAfterClaim},
	{"commit-unknown-run", "A commit for a run that does not exist says so.", commitUnknownRun},
	{"commit-after-end", "A run that has ended takes no more writes.", commitAfterEnd},
	{"commit-end-recorded", "The end of a run is recorded with its status and error, and its params are forgotten.", commitEndRecorded},
	{"commit-params-kept", "The params are kept as long as the run goes on.", commitParamsKept},
	{"commit-without-steps", "A commit without steps changes the status alone.", commitWithoutSteps},
	{"commit-extends-lease", "A commit extends the lease.", commitExtendsLease},
	{"commit-many-steps", "Many steps in one write are written in order.", commitManySteps},
}

func commitKeepsCheckpoint(b *bundle) {
	session := b.newSession()
	r := b.start(session, with(step()))
	b.tick()
	s := step("hello")
	s.Checkpoint.Node, s.Checkpoint.Next = "call_tools", ""
	s.Checkpoint.Status, s.Checkpoint.Reason = checkpoint.Interrupted, checkpoint.Interrupt
	s.Checkpoint.Metadata = json.RawMessage(`{"interrupts": [1E2, -0], "b":1,"a":2}`)
	s.Checkpoint.ParentID = r.at
	s.Checkpoint.Version = 7
	s.Document = &store.Document{Body: []byte(`{}`)}
	done := r.end(checkpoint.Interrupted, s)
	require.Len(b, done.Seqs, 1)
	sameTime(b, b.clock.Now(), done.CreatedAt, "committed")
	require.Equal(b, r.line, done.Line)
	b.reopen()

	want := s.Checkpoint
	want.SessionID, want.RunID = session, r.Run
	want.Seq, want.Line = done.Seqs[0], done.Line
	got := b.checkpoint(s.Checkpoint.ID)
	require.Positive(b, got.Document)
	list, err := b.store.Checkpoints(b.ctx, &store.CheckpointQuery{Tenant: tenant, Session: session})
	require.NoError(b, err)
	require.Len(b, list.Items, 2)
	loaded := b.load(session).Checkpoint
	require.NotNil(b, loaded)
	for _, c := range []*checkpoint.Checkpoint{got, &list.Items[0], loaded} {
		sameTime(b, done.CreatedAt, c.CreatedAt, "created")
		want.CreatedAt, want.Document = c.CreatedAt, got.Document
		require.Equal(b, want, *c)
	}
	require.Nil(b, list.Items[1].Metadata, "no metadata is no metadata")
	require.Equal(b, uuid.Nil, list.Items[1].ParentID)
}

func commitConflict(b *bundle) {
	session := b.newSession()
	r := b.start(session)
	late := r.newCommit(checkpoint.Running, step("late"))
	r.commit(step("one"))
	r.commit(step("two"))
	before := b.count(session)
	for _, after := range []int64{late.After, r.last - 1, r.last + 1} {
		late.After, late.WriteID = after, uuid.New()
		_, err := b.store.Commit(b.ctx, late)
		require.ErrorIs(b, err, store.ErrConflict)
	}
	require.Equal(b, before, b.count(session))
	require.Equal(b, r.last, r.record().Last)
	require.Equal(b, []string{"one", "two"}, b.history(session))
}

func commitConcurrent(b *bundle) {
	session := b.newSession()
	r := b.start(session, with(step()))
	commits := make([]*store.Commit, 8)
	for i := range commits {
		commits[i] = r.newCommit(checkpoint.Running, step(fmt.Sprint(i)))
	}
	errs := make([]error, len(commits))
	var wg sync.WaitGroup
	for i, c := range commits {
		wg.Go(func() { _, errs[i] = b.store.Commit(b.ctx, c) })
	}
	wg.Wait()
	won := []string{}
	for i, err := range errs {
		if err == nil {
			won = append(won, fmt.Sprint(i))
			continue
		}
		require.ErrorIs(b, err, store.ErrConflict)
	}
	require.Len(b, won, 1)
	require.Equal(b, won, b.history(session))
}

// repeat sends a commit again, which must change nothing.
func (r *run) repeat(c *store.Commit, first *store.Committed) {
	r.b.Helper()
	before := r.b.count(r.session)
	record := r.record()
	r.b.tick()
	again, err := r.b.store.Commit(r.b.ctx, c)
	require.NoError(r.b, err)
	require.NotNil(r.b, again)
	sameTime(r.b, first.CreatedAt, again.CreatedAt, "created")
	require.Equal(r.b, first.Line, again.Line)
	require.ElementsMatch(r.b, first.Seqs, again.Seqs)
	require.Equal(r.b, before, r.b.count(r.session))
	now := r.record()
	sameTime(r.b, record.LeaseUntil, now.LeaseUntil, "lease")
	require.Equal(r.b, record.Status, now.Status)
	require.Equal(r.b, record.Last, now.Last)
}

func commitRepeated(b *bundle) {
	r := b.start(b.newSession(), with(step("zero")))
	c := r.newCommit(checkpoint.Running, step("one"), step("two"))
	done, err := r.send(c)
	require.NoError(b, err)
	r.repeat(c, done)
	b.reopen()
	r.repeat(c, done)

	bare := r.newCommit(checkpoint.Running)
	done, err = r.send(bare)
	require.NoError(b, err)
	require.Empty(b, done.Seqs)
	r.repeat(bare, done)

	r.commit(step("three"))
	require.Equal(b, []string{"zero", "one", "two", "three"}, b.history(r.session))
}

func commitRepeatedAfterEnd(b *bundle) {
	r := b.start(b.newSession(), with(step("one")))
	c := r.newCommit(checkpoint.Completed, step("two"), step())
	done, err := r.send(c)
	require.NoError(b, err)
	r.repeat(c, done)
	b.reopen()
	r.repeat(c, done)
	b.whole(r.session, step("three"))
	r.repeat(c, done)
	require.Equal(b, []string{"one", "two", "three"}, b.history(r.session))
}

func commitRepeatedAfterClaim(b *bundle) {
	r := b.start(b.newSession(), with(step("one")))
	c := r.newCommit(checkpoint.Running, step("two"))
	done, err := r.send(c)
	require.NoError(b, err)
	next := r.claimed()
	r.repeat(c, done)
	require.Equal(b, next.Fence, r.record().Fence(), "the run stays with its new owner")
	next.commit(step("three"))
	require.Equal(b, []string{"one", "two", "three"}, b.history(r.session))
}

func commitUnknownRun(b *bundle) {
	r := b.start(b.newSession())
	r.Run = uuid.New()
	b.notFound(r.tryCommit(step()), store.RunResource, r.Run)
	b.notFound(r.saveTask("task", true, ""), store.RunResource, r.Run)
	_, err := r.promote()
	b.notFound(err, store.RunResource, r.Run)
	b.notFound(b.store.Release(b.ctx, r.Fence), store.RunResource, r.Run)
	_, err = b.store.Run(b.ctx, tenant, r.Run)
	b.notFound(err, store.RunResource, r.Run)
}

func commitAfterEnd(b *bundle) {
	for _, status := range []checkpoint.Status{checkpoint.Completed, checkpoint.Interrupted, checkpoint.Failed, checkpoint.Cancelled} {
		r := b.start(b.newSession())
		r.end(status, step("end"))
		before := b.count(r.session)
		require.ErrorIs(b, r.tryCommit(step("more")), store.ErrLost, "after %s", status)
		_, err := r.send(r.newCommit(checkpoint.Completed))
		require.ErrorIs(b, err, store.ErrLost)
		require.ErrorIs(b, r.saveTask("task", true, ""), store.ErrLost)
		require.ErrorIs(b, b.store.Release(b.ctx, r.Fence), store.ErrLost)
		_, err = r.promote()
		require.ErrorIs(b, err, store.ErrLost)
		require.Equal(b, before, b.count(r.session))
		require.Equal(b, status, r.record().Status)
	}
}

func commitEndRecorded(b *bundle) {
	session := b.newSession()
	begin := b.newBegin(session)
	begin.Params = []byte("params")
	r, err := b.begin(begin)
	require.NoError(b, err)
	began := b.clock.Now()
	now := b.tick()
	c := r.newCommit(checkpoint.Failed, step())
	c.ErrorCode, c.Error = "max_steps", "too many"
	_, err = r.send(c)
	require.NoError(b, err)
	b.reopen()
	got := r.record()
	require.Equal(b, checkpoint.Failed, got.Status)
	require.Equal(b, "max_steps", got.ErrorCode)
	require.Equal(b, "too many", got.Error)
	require.Equal(b, r.last, got.Last)
	require.Empty(b, got.Params)
	sameTime(b, began, got.CreatedAt, "created")
	sameTime(b, now, got.UpdatedAt, "updated")
}

func commitParamsKept(b *bundle) {
	begin := b.newBegin(b.newSession(), with(step()))
	begin.Params = []byte("params")
	r, err := b.begin(begin)
	require.NoError(b, err)
	r.commit(step())
	b.reopen()
	require.Equal(b, "params", string(r.record().Params))
	p := b.loadRun(r.Run)
	require.NotNil(b, p.Run)
	require.Equal(b, "params", string(p.Run.Params))
	b.clock.move(2 * lease)
	runs, err := b.store.Claim(b.ctx, &store.Claim{Owner: uuid.New(), Graphs: []string{"graph"}, Lease: lease, Limit: 1})
	require.NoError(b, err)
	require.Len(b, runs, 1)
	require.Equal(b, "params", string(runs[0].Params))
}

func commitWithoutSteps(b *bundle) {
	session := b.newSession()
	r := b.start(session, with(step("one")))
	done := r.end(checkpoint.Cancelled)
	require.Empty(b, done.Seqs)
	require.Equal(b, r.line, done.Line)
	require.Equal(b, checkpoint.Cancelled, r.record().Status)
	require.Equal(b, count{runs: 1, checkpoints: 1, messages: 1}, b.count(session))
	require.Equal(b, r.last, b.session(session).Head)
}

func commitExtendsLease(b *bundle) {
	r := b.start(b.newSession())
	now := b.clock.move(lease - 1_000_000_000)
	r.commit(step())
	sameTime(b, now.Add(lease), r.record().LeaseUntil, "lease")
	b.clock.move(lease - 1_000_000_000)
	runs, err := b.store.Claim(b.ctx, &store.Claim{Owner: uuid.New(), Graphs: []string{"graph"}, Lease: lease, Limit: 1})
	require.NoError(b, err)
	require.Empty(b, runs)
}

func commitManySteps(b *bundle) {
	session := b.newSession()
	r := b.start(session)
	steps, want := []store.Step{}, []string{}
	for i := range 100 {
		steps = append(steps, step(fmt.Sprint("a", i), fmt.Sprint("b", i)))
		want = append(want, fmt.Sprint("a", i), fmt.Sprint("b", i))
	}
	done := r.commit(steps...)
	require.IsIncreasing(b, done.Seqs)
	require.Equal(b, want, b.history(session))
	require.Equal(b, want[:20], b.historyAt(session, steps[9].Checkpoint.ID))
	for i, s := range steps {
		require.Equal(b, done.Seqs[i], b.checkpoint(s.Checkpoint.ID).Seq)
	}
}
