package storetest

import (
	"fmt"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/store"
)

var taskScenarios = []scenario{
	{"task-order", "Tasks come back in the order in which they were done, those only started last.", taskOrder},
	{"task-done-stays", "A task that is done stays as it is.", taskDoneStays},
	{"task-superseded", "A checkpoint removes the tasks of the run's checkpoint before; a commit without one keeps them.", taskSuperseded},
	{"task-committed", "The tasks of a commit are kept under the last of its checkpoints, in place of those before.", taskCommitted},
	{"task-ended", "The end of a run removes the tasks that it does not bring.", taskEnded},
	{"task-kept-by-end", "The tasks that end a run stay with its last checkpoint: for the run that answers, and for forks.", taskKeptByEnd},
	{"task-takeover", "Tasks outlive the process, for the run's new owner.", taskTakeover},
	{"task-conflict", "A task of another position than the run's last is refused.", taskConflict},
	{"task-before-checkpoint", "A run without a checkpoint has nothing to keep a task under.", taskBeforeCheckpoint},
	{"task-own-checkpoint", "Tasks belong to their checkpoint, whoever loads it.", taskOwnCheckpoint},
	{"task-concurrent", "Tasks saved at once are all kept.", taskConcurrent},
}

// tasks returns the tasks at the run's position as texts.
func (r *run) tasks() []string {
	r.b.Helper()
	return taskTexts(r.b.loadRun(r.Run))
}

// taskTexts returns tasks as texts, those only started with a question mark.
func taskTexts(p *store.Position) []string {
	out := []string{}
	for _, t := range p.Tasks {
		text := t.Key + "=" + string(t.Value)
		if !t.Done {
			text += "?"
		}
		out = append(out, text)
	}
	return out
}

func taskOrder(b *bundle) {
	r := b.start(b.newSession(), with(step()))
	require.Empty(b, r.tasks())
	for _, key := range []string{"a", "b", "c", "d"} {
		require.NoError(b, r.saveTask(key, false, ""))
	}
	require.ElementsMatch(b, []string{"a=?", "b=?", "c=?", "d=?"}, r.tasks())
	require.NoError(b, r.saveTask("c", true, "3"))
	require.NoError(b, r.saveTask("a", true, "1"))
	require.NoError(b, r.saveTask("x", true, "24"))
	require.NoError(b, r.saveTask("d", true, "4"))
	for range 2 {
		require.Equal(b, []string{"c=3", "a=1", "x=24", "d=4", "b=?"}, r.tasks())
		b.reopen()
	}
}

func taskDoneStays(b *bundle) {
	r := b.start(b.newSession(), with(step()))
	require.NoError(b, r.saveTask("a", true, "first"))
	require.NoError(b, r.saveTask("b", true, "other"))
	require.NoError(b, r.saveTask("a", true, "second"))
	require.NoError(b, r.saveTask("a", false, "third"))
	require.Equal(b, []string{"a=first", "b=other"}, r.tasks())
}

func taskSuperseded(b *bundle) {
	r := b.start(b.newSession(), with(step()))
	require.NoError(b, r.saveTask("a", true, "1"))
	require.NoError(b, r.saveTask("b", false, ""))
	r.commit()
	require.Equal(b, []string{"a=1", "b=?"}, r.tasks())
	r.commit(step())
	require.Empty(b, r.tasks())
	require.NoError(b, r.saveTask("a", true, "again"))
	require.Equal(b, []string{"a=again"}, r.tasks(), "the same key at another position is another task")
	r.commit(step(), step())
	require.Empty(b, r.tasks())
}

// committed commits steps with tasks.
func (r *run) committed(status checkpoint.Status, tasks []store.Task, steps ...store.Step) {
	r.b.Helper()
	c := r.newCommit(status, steps...)
	c.Tasks = tasks
	_, err := r.send(c)
	require.NoError(r.b, err)
}

func taskCommitted(b *bundle) {
	r := b.start(b.newSession(), with(step()))
	require.NoError(b, r.saveTask("old", true, "0"))
	before := r.at
	steps := []store.Step{step(), step()}
	r.committed(checkpoint.Running, []store.Task{{Key: "s"}, {Key: "z", Done: true, Value: []byte("1")}, {Key: "a", Done: true, Value: []byte("2")}}, steps...)
	for range 2 {
		require.Equal(b, []string{"z=1", "a=2", "s=?"}, r.tasks())
		require.Empty(b, b.loadAt(r.session, before).Tasks)
		require.Empty(b, b.loadAt(r.session, steps[0].Checkpoint.ID).Tasks)
		b.reopen()
	}
	require.NoError(b, r.saveTask("a", true, "late"))
	require.NoError(b, r.saveTask("s", true, "3"))
	require.Equal(b, []string{"z=1", "a=2", "s=3"}, r.tasks())
	r.commit(step())
	require.Empty(b, r.tasks())
}

func taskKeptByEnd(b *bundle) {
	session := b.newSession()
	r := b.start(session, with(step()))
	require.NoError(b, r.saveTask("old", true, "0"))
	r.committed(checkpoint.Interrupted, []store.Task{{Key: "a", Done: true, Value: []byte("1")}}, step())
	b.reopen()
	require.Equal(b, []string{"a=1"}, r.tasks())
	require.Equal(b, []string{"a=1"}, taskTexts(b.load(session)))

	answer := b.start(session)
	require.Equal(b, []string{"a=1"}, answer.tasks())
	answer.commit(step())
	require.Empty(b, answer.tasks())
	require.Equal(b, []string{"a=1"}, taskTexts(b.loadAt(session, r.at)), "they stay for a fork from there")
	answer.end(checkpoint.Completed)
	require.Equal(b, []string{"a=1"}, taskTexts(b.loadAt(session, r.at)))
	fork := b.start(session, from(r.at), with(step()))
	require.Empty(b, fork.tasks())
	require.Equal(b, []string{"a=1"}, taskTexts(b.loadAt(session, r.at)))
}

func taskEnded(b *bundle) {
	r := b.start(b.newSession(), with(step()))
	require.NoError(b, r.saveTask("a", true, "1"))
	r.end(checkpoint.Failed)
	require.Empty(b, r.tasks())
}

func taskTakeover(b *bundle) {
	r := b.start(b.newSession(), with(step("one")))
	require.NoError(b, r.saveTask("a", true, "1"))
	require.NoError(b, r.saveTask("b", false, "intent"))
	b.reopen()
	next := r.claimed()
	p := b.loadRun(r.Run)
	require.NotNil(b, p.Run)
	require.Equal(b, next.Fence, p.Run.Fence())
	require.NotNil(b, p.Checkpoint)
	require.Equal(b, r.at, p.Checkpoint.ID)
	require.Equal(b, []string{"one"}, texts(b, p.Messages))
	require.Equal(b, []string{"a=1", "b=intent?"}, next.tasks())
	require.NoError(b, next.saveTask("b", true, "2"))
	require.Equal(b, []string{"a=1", "b=2"}, next.tasks())
}

func taskConflict(b *bundle) {
	r := b.start(b.newSession(), with(step()))
	stale := *r
	r.commit(step())
	require.ErrorIs(b, stale.saveTask("a", true, "1"), store.ErrConflict)
	stale.last = r.last + 1
	require.ErrorIs(b, stale.saveTask("a", true, "1"), store.ErrConflict)
	require.Empty(b, r.tasks())
}

func taskBeforeCheckpoint(b *bundle) {
	session := b.newSession()
	b.whole(session, step("one"))
	r := b.start(session)
	require.ErrorIs(b, r.saveTask("a", true, "1"), store.ErrConflict)
	require.Empty(b, r.tasks())
	r.commit(step())
	require.NoError(b, r.saveTask("a", true, "1"))
	require.Equal(b, []string{"a=1"}, r.tasks())
}

func taskOwnCheckpoint(b *bundle) {
	session := b.newSession()
	first := b.whole(session, step())
	b.whole(session, step())
	left := b.start(session, from(first.at), with(step()))
	right := b.start(session, from(first.at), with(step()))
	plain := b.start(session, with(step()))
	require.NoError(b, left.saveTask("a", true, "left"))
	require.NoError(b, right.saveTask("a", true, "right"))
	require.Equal(b, []string{"a=left"}, left.tasks())
	require.Equal(b, []string{"a=right"}, right.tasks())
	require.Empty(b, plain.tasks())
	require.Empty(b, b.load(session).Tasks)
	require.Empty(b, b.loadAt(session, first.at).Tasks)
	require.Equal(b, []string{"a=left"}, taskTexts(b.loadAt(session, left.at)))
	require.NoError(b, plain.saveTask("b", true, "plain"))
	require.Equal(b, []string{"b=plain"}, taskTexts(b.load(session)))
	left.commit(step())
	require.Equal(b, []string{"a=right"}, right.tasks())
}

func taskConcurrent(b *bundle) {
	r := b.start(b.newSession(), with(step()))
	errs := make([]error, 16)
	want := []string{}
	var wg sync.WaitGroup
	for i := range errs {
		want = append(want, fmt.Sprintf("t%d=%d", i, i))
		wg.Go(func() { errs[i] = r.saveTask(fmt.Sprint("t", i), true, fmt.Sprint(i)) })
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(b, err)
	}
	require.ElementsMatch(b, want, r.tasks())
}
