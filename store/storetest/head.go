package storetest

import (
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
)

var headScenarios = []scenario{
	{"head-follows-active", "The head moves with every commit of the run that continues the session.", headFollowsActive},
	{"head-continue-explicit", "On an idle session a run from the head's checkpoint continues the session.", headContinueExplicit},
	{"head-busy-explicit", "On a busy session a run from the head's checkpoint is a branch.", headBusyExplicit},
	{"head-waiter-explicit", "While a run waits for the session, a run from the head's checkpoint is a branch.", headWaiterExplicit},
	{"head-old-checkpoint", "A run from a checkpoint that is not the head is a branch.", headOldCheckpoint},
	{"head-branch-not-busy", "A running branch does not make the session busy.", headBranchNotBusy},
	{"head-branch-running", "The checkpoints of a running branch are not the head.", headBranchRunning},
	{"head-branch-ends-idle", "When a branch ends on an idle session, the session goes on from it.", headBranchEndsIdle},
	{"head-branch-ends-busy", "When a branch ends on a busy session, the head stays with the active run.", headBranchEndsBusy},
	{"head-last-ended", "The head is the last checkpoint of the run that ended last.", headLastEnded},
	{"head-without-checkpoint", "A run that ends without a checkpoint leaves the head where it was.", headWithoutCheckpoint},
	{"head-any-end", "A run gives up the session however it ends.", headAnyEnd},
}

func headFollowsActive(b *bundle) {
	session := uuid.New()
	r := b.start(session)
	require.Zero(b, b.session(session).Head)
	for range 3 {
		r.commit(step(), step())
		s := b.session(session)
		require.Equal(b, r.last, s.Head)
		require.Equal(b, r.Run, s.Active)
		require.Equal(b, r.at, b.load(session).Checkpoint.ID)
	}
	r.end(checkpoint.Completed, step())
	s := b.session(session)
	require.Equal(b, r.last, s.Head)
	require.Equal(b, uuid.Nil, s.Active)
}

func headContinueExplicit(b *bundle) {
	session := b.newSession()
	first := b.whole(session, step("one"))
	second := b.start(session, from(first.at), with(step("two")))
	require.False(b, second.begun.Branch)
	require.False(b, second.record().Branch)
	require.Equal(b, first.line, second.line)
	s := b.session(session)
	require.Equal(b, second.Run, s.Active)
	require.Equal(b, second.last, s.Head)
}

func headBusyExplicit(b *bundle) {
	session := b.newSession()
	first := b.whole(session, step("one"))
	active := b.start(session)
	branch := b.start(session, from(first.at), with(step("aside")))
	require.True(b, branch.begun.Branch)
	require.True(b, branch.record().Branch)
	require.NotEqual(b, active.line, branch.line)
	require.Equal(b, active.Run, b.session(session).Active)
	active.commit(step("two"))
	require.Equal(b, []string{"one", "two"}, b.history(session))
	require.Equal(b, []string{"one", "aside"}, b.historyAt(session, branch.at))

	// Also with Wait: a branch has nothing to wait for.
	another := b.start(session, from(active.at), waiting)
	require.True(b, another.begun.Branch)
	require.False(b, another.begun.Waiting)
}

func headWaiterExplicit(b *bundle) {
	session := b.newSession()
	active := b.start(session, with(step("one")))
	waiter := b.start(session, waiting)
	active.end(checkpoint.Completed)
	branch := b.start(session, from(active.at))
	require.True(b, branch.begun.Branch)
	got, err := waiter.promote()
	require.NoError(b, err)
	require.True(b, got, "a branch does not overtake the run that waits")
}

func headOldCheckpoint(b *bundle) {
	session := b.newSession()
	first := b.whole(session, step("one"))
	second := b.whole(session, step("two"))
	branch := b.start(session, from(first.at), with(step("aside")))
	require.True(b, branch.begun.Branch)
	require.NotEqual(b, first.line, branch.line)
	require.Equal(b, branch.line, branch.record().Line)
	branch.end(checkpoint.Completed)

	// The head went over to the branch, so the former head is an old checkpoint now.
	back := b.start(session, from(second.at), with(step("back")))
	require.True(b, back.begun.Branch)
	require.Equal(b, []string{"one", "two", "back"}, b.historyAt(session, back.at))
}

func headBranchNotBusy(b *bundle) {
	session := b.newSession()
	first := b.whole(session, step("one"))
	b.whole(session, step("two"))
	branch := b.start(session, from(first.at))
	require.Equal(b, uuid.Nil, b.session(session).Active)
	plain := b.start(session)
	require.False(b, plain.begun.Branch)
	require.Equal(b, plain.Run, b.session(session).Active)
	branch.commit(step("aside"))
	plain.commit(step("three"))
	require.Equal(b, []string{"one", "two", "three"}, b.history(session))
}

func headBranchRunning(b *bundle) {
	session := b.newSession()
	first := b.whole(session, step("one"))
	second := b.whole(session, step("two"))
	branch := b.start(session, from(first.at), with(step("aside")))
	require.Equal(b, second.last, b.session(session).Head)
	branch.commit(step("more"))
	require.Equal(b, second.last, b.session(session).Head)
	require.Equal(b, []string{"one", "two"}, b.history(session))
}

func headBranchEndsIdle(b *bundle) {
	session := b.newSession()
	first := b.whole(session, step("one"))
	b.whole(session, step("two"))
	branch := b.start(session, from(first.at))
	branch.end(checkpoint.Interrupted, step("aside"))
	require.Equal(b, branch.last, b.session(session).Head)
	next := b.start(session, with(step("three")))
	require.Equal(b, branch.line, next.line)
	require.Equal(b, []string{"one", "aside", "three"}, b.history(session))
}

func headBranchEndsBusy(b *bundle) {
	session := b.newSession()
	first := b.whole(session, step("one"))
	second := b.whole(session, step("two"))
	branch := b.start(session, from(first.at), with(step("aside")))
	active := b.start(session)
	branch.end(checkpoint.Completed)
	require.Equal(b, second.last, b.session(session).Head)
	active.end(checkpoint.Completed, step("three"))
	require.Equal(b, active.last, b.session(session).Head)
	require.Equal(b, []string{"one", "two", "three"}, b.history(session))
}

func headLastEnded(b *bundle) {
	session := b.newSession()
	first := b.whole(session, step("one"))
	b.whole(session, step("two"))
	left := b.start(session, from(first.at), with(step("left")))
	right := b.start(session, from(first.at), with(step("right")))
	right.end(checkpoint.Completed)
	require.Equal(b, right.last, b.session(session).Head)
	left.end(checkpoint.Completed)
	require.Equal(b, left.last, b.session(session).Head, "the order of the ends counts, not that of the checkpoints")
	require.Equal(b, []string{"one", "left"}, b.history(session))
}

func headWithoutCheckpoint(b *bundle) {
	session := b.newSession()
	first := b.whole(session, step("one"))
	b.whole(session, step("two"))
	head := b.session(session).Head

	b.start(session).end(checkpoint.Failed)
	require.Equal(b, head, b.session(session).Head)
	b.start(session, from(first.at)).end(checkpoint.Failed)
	require.Equal(b, head, b.session(session).Head)
	require.Equal(b, uuid.Nil, b.session(session).Active)

	b.whole(session, step("three"))
	require.Equal(b, []string{"one", "two", "three"}, b.history(session))
}

func headAnyEnd(b *bundle) {
	session := b.newSession()
	for _, status := range []checkpoint.Status{checkpoint.Completed, checkpoint.Interrupted, checkpoint.Failed, checkpoint.Cancelled} {
		r := b.start(session)
		r.end(status, step())
		require.Equal(b, status, r.record().Status)
		s := b.session(session)
		require.Equal(b, uuid.Nil, s.Active, "after %s", status)
		require.Equal(b, r.last, s.Head, "after %s", status)
	}
}
