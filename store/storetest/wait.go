package storetest

import (
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/store"
)

var waitScenarios = []scenario{
	{"wait-recorded", "A run that waits for its session is recorded without checkpoints, on no line.", waitRecorded},
	{"wait-idle", "A run that may wait begins at once on an idle session.", waitIdle},
	{"wait-in-turn", "Waiting runs take their turns first in, first out, and only when the session is idle.", waitInTurn},
	{"wait-promoted", "A promoted run continues the session from the head as it is then.", waitPromoted},
	{"wait-first-line", "A run promoted in a session without checkpoints begins a first line.", waitFirstLine},
	{"wait-blocks", "While a run waits, the session is busy for other plain runs.", waitBlocks},
	{"wait-no-steps", "A run that waits writes no checkpoints.", waitNoSteps},
	{"wait-ended", "A waiting run that ends leaves the queue and the head alone.", waitEnded},
	{"wait-cancelled", "A waiting run that is to be cancelled ends at once, and the next takes its turn.", waitCancelled},
	{"wait-claimed", "A waiting run of a process that died can be taken over, and still waits.", waitClaimed},
	{"wait-promote-active", "Promoting the active run reports that it is, promoting a branch that it is not.", waitPromoteActive},
}

func waitRecorded(b *bundle) {
	session := b.newSession()
	active := b.start(session, with(step("one")))
	begin := b.newBegin(session, waiting, with(step("two")), ended(checkpoint.Completed))
	begin.Params = []byte("params")
	waiter, err := b.begin(begin)
	require.NoError(b, err)
	require.True(b, waiter.begun.Waiting)
	require.False(b, waiter.begun.Branch)
	require.Zero(b, waiter.begun.Line)
	require.Empty(b, waiter.begun.Seqs)
	require.Greater(b, waiter.begun.Seq, active.last)
	b.reopen()
	got := waiter.record()
	require.True(b, got.Waiting)
	require.False(b, got.Branch)
	require.Equal(b, checkpoint.Running, got.Status)
	require.Zero(b, got.Line)
	require.Zero(b, got.Last)
	require.Equal(b, "params", string(got.Params))
	require.Equal(b, active.Run, b.session(session).Active)
	require.Equal(b, count{runs: 2, checkpoints: 1, messages: 1}, b.count(session))
}

func waitIdle(b *bundle) {
	session := b.newSession()
	r := b.start(session, waiting, with(step("one")))
	require.False(b, r.begun.Waiting)
	require.False(b, r.record().Waiting)
	require.Equal(b, r.Run, b.session(session).Active)
	require.Equal(b, []string{"one"}, b.history(session))
}

func waitInTurn(b *bundle) {
	session := b.newSession()
	active := b.start(session)
	queue := []*run{}
	for range 4 {
		queue = append(queue, b.start(session, waiting))
	}
	for len(queue) > 0 {
		for _, r := range queue {
			got, err := r.promote()
			require.NoError(b, err)
			require.False(b, got, "the session is busy")
		}
		active.end(checkpoint.Completed, step())
		b.reopen()
		for _, r := range queue[1:] {
			got, err := r.promote()
			require.NoError(b, err)
			require.False(b, got, "another one waits longer")
		}
		got, err := queue[0].promote()
		require.NoError(b, err)
		require.True(b, got)
		active, queue = queue[0], queue[1:]
		require.Equal(b, active.Run, b.session(session).Active)
		require.False(b, active.record().Waiting)
	}
}

func waitPromoted(b *bundle) {
	session := b.newSession()
	active := b.start(session, with(step("one")))
	waiter := b.start(session, waiting)
	active.end(checkpoint.Completed, step("two"))
	got, err := waiter.promote()
	require.NoError(b, err)
	require.True(b, got)
	record := waiter.record()
	require.Equal(b, active.line, record.Line)
	require.False(b, record.Branch)
	p := b.loadRun(waiter.Run)
	require.NotNil(b, p.Checkpoint)
	require.Equal(b, active.at, p.Checkpoint.ID)
	require.Equal(b, []string{"one", "two"}, texts(b, p.Messages))
	done := waiter.commit(step("three"))
	require.Equal(b, active.line, done.Line)
	require.Equal(b, []string{"one", "two", "three"}, b.history(session))
	require.Equal(b, waiter.last, b.session(session).Head)
}

func waitFirstLine(b *bundle) {
	session := b.newSession()
	active := b.start(session)
	waiter := b.start(session, waiting)
	active.end(checkpoint.Failed)
	_, err := waiter.promote()
	require.NoError(b, err)
	require.Positive(b, waiter.record().Line)
	waiter.end(checkpoint.Completed, step("one"))
	b.whole(session, step("two"))
	require.Equal(b, []string{"one", "two"}, b.history(session))
}

func waitBlocks(b *bundle) {
	session := b.newSession()
	active := b.start(session, with(step()))
	first := b.start(session, waiting)
	active.end(checkpoint.Completed)
	require.Equal(b, uuid.Nil, b.session(session).Active)
	_, err := b.begin(b.newBegin(session))
	require.ErrorIs(b, err, store.ErrBusy, "the run that waits comes first")
	second := b.start(session, waiting)
	require.True(b, second.begun.Waiting)
	got, err := first.promote()
	require.NoError(b, err)
	require.True(b, got)
}

func waitNoSteps(b *bundle) {
	session := b.newSession()
	active := b.start(session)
	waiter := b.start(session, waiting)
	require.ErrorIs(b, waiter.tryCommit(step("early")), store.ErrConflict)
	active.end(checkpoint.Completed)
	require.ErrorIs(b, waiter.tryCommit(step("early")), store.ErrConflict)
	require.Equal(b, count{runs: 2}, b.count(session))
	waiter.commit()
	require.True(b, waiter.record().Waiting)
}

func waitEnded(b *bundle) {
	session := b.newSession()
	active := b.start(session, with(step()))
	first := b.start(session, waiting)
	second := b.start(session, waiting)
	c := first.newCommit(checkpoint.Failed)
	c.ErrorCode = "session_busy"
	_, err := first.send(c)
	require.NoError(b, err)
	got := first.record()
	require.Equal(b, checkpoint.Failed, got.Status)
	require.Equal(b, "session_busy", got.ErrorCode)
	require.False(b, got.Waiting)
	s := b.session(session)
	require.Equal(b, active.Run, s.Active)
	require.Equal(b, active.last, s.Head)
	active.end(checkpoint.Completed)
	ok, err := second.promote()
	require.NoError(b, err)
	require.True(b, ok)
}

func waitCancelled(b *bundle) {
	session := b.newSession()
	active := b.start(session)
	first := b.start(session, waiting)
	second := b.start(session, waiting)
	got, err := b.store.RequestCancel(b.ctx, tenant, first.Run)
	require.NoError(b, err)
	require.Equal(b, checkpoint.Cancelled, got.Status)
	require.False(b, got.Waiting)
	require.Equal(b, checkpoint.Cancelled, first.record().Status)
	_, err = first.promote()
	require.ErrorIs(b, err, store.ErrLost)
	require.Equal(b, active.Run, b.session(session).Active)
	active.end(checkpoint.Completed)
	ok, err := second.promote()
	require.NoError(b, err)
	require.True(b, ok)
	require.Equal(b, count{runs: 3}, b.count(session))
}

func waitClaimed(b *bundle) {
	session := b.newSession()
	active := b.start(session)
	first := b.start(session, waiting)
	second := b.start(session, waiting)
	next := first.claimed()
	require.True(b, next.record().Waiting)
	active.Fence, second.Fence = active.record().Fence(), second.record().Fence()
	active.end(checkpoint.Completed)
	got, err := second.promote()
	require.NoError(b, err)
	require.False(b, got, "the run that was taken over keeps its place")
	got, err = next.promote()
	require.NoError(b, err)
	require.True(b, got)
	next.commit(step("one"))
}

func waitPromoteActive(b *bundle) {
	session := b.newSession()
	first := b.whole(session, step())
	b.whole(session, step())
	branch := b.start(session, from(first.at))
	got, err := branch.promote()
	require.NoError(b, err)
	require.False(b, got)
	require.Equal(b, uuid.Nil, b.session(session).Active)
	active := b.start(session)
	got, err = active.promote()
	require.NoError(b, err)
	require.True(b, got)
}
