package storetest

import (
	"fmt"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
)

var lineScenarios = []scenario{
	{"line-continues", "Runs that continue a session extend one line.", lineContinues},
	{"line-after-nothing", "A run after runs without checkpoints begins a first line.", lineAfterNothing},
	{"line-fork-isolated", "A fork sees the messages up to it and its own, and the line that it left does not see the fork's.", lineForkIsolated},
	{"line-fork-of-fork", "A fork of a fork sees the messages of each line up to where it left it.", lineForkOfFork},
	{"line-fork-middle", "A fork from the middle of a run does not see the rest of the run.", lineForkMiddle},
	{"line-fork-twins", "Forks from one checkpoint do not see each other.", lineForkTwins},
	{"line-many-forks", "A history that goes through many forks is complete and in order.", lineManyForks},
}

func lineContinues(b *bundle) {
	session := uuid.New()
	var line, last int64
	want := []string{}
	for i := range 4 {
		text := fmt.Sprint("message ", i)
		want = append(want, text)
		r := b.whole(session, step(text))
		if i > 0 {
			require.Equal(b, line, r.line)
		}
		require.Positive(b, r.line)
		require.Greater(b, r.last, last)
		require.Equal(b, r.line, b.checkpoint(r.at).Line)
		line, last = r.line, r.last
		b.reopen()
	}
	require.Equal(b, want, b.history(session))
}

func lineAfterNothing(b *bundle) {
	session := uuid.New()
	b.start(session).end(checkpoint.Failed)
	b.post(session, "posted")
	r := b.start(session)
	require.False(b, r.begun.Branch)
	require.Positive(b, r.line)
	r.end(checkpoint.Completed, step("one"))
	b.whole(session, step("two"))
	require.Equal(b, []string{"posted", "one", "two"}, b.history(session))
}

func lineForkIsolated(b *bundle) {
	session := b.newSession()
	first := b.whole(session, step("one"))
	b.whole(session, step("two"))
	branch := b.start(session, from(first.at), with(step("aside")))
	plain := b.start(session, with(step("three")))
	branch.commit(step("farther aside"))
	plain.commit(step("four"))

	for range 2 {
		require.Equal(b, []string{"one", "two", "three", "four"}, b.history(session))
		require.Equal(b, []string{"one", "aside", "farther aside"}, b.historyAt(session, branch.at))
		require.Equal(b, []string{"one"}, b.historyAt(session, first.at))
		b.reopen()
	}
}

func lineForkOfFork(b *bundle) {
	session := b.newSession()
	root := b.whole(session, step("root"))
	b.whole(session, step("root 2"))
	left := b.start(session, from(root.at), with(step("left")))
	leaf := b.start(session, from(left.at), with(step("leaf")))
	left.commit(step("left 2"))
	leaf.commit(step("leaf 2"))
	require.Len(b, map[int64]bool{root.line: true, left.line: true, leaf.line: true}, 3)
	for range 2 {
		require.Equal(b, []string{"root", "left", "leaf", "leaf 2"}, b.historyAt(session, leaf.at))
		require.Equal(b, []string{"root", "left", "left 2"}, b.historyAt(session, left.at))
		require.Equal(b, []string{"root", "root 2"}, b.history(session))
		b.reopen()
	}
}

func lineForkMiddle(b *bundle) {
	session := b.newSession()
	steps := []string{"one", "two", "three", "four"}
	r := b.start(session)
	at := []uuid.UUID{}
	for _, text := range steps {
		r.commit(step(text))
		at = append(at, r.at)
	}
	for i, id := range at {
		require.Equal(b, steps[:i+1], b.historyAt(session, id))
		branch := b.start(session, from(id), with(step("aside")))
		want := append(append([]string{}, steps[:i+1]...), "aside")
		require.Equal(b, want, b.historyAt(session, branch.at))
	}

	// Several checkpoints of one write are positions of their own too.
	r.commit(step("five"), step("six"))
	list, err := b.store.Checkpoints(b.ctx, checkpointsOf(session, r.Run))
	require.NoError(b, err)
	require.GreaterOrEqual(b, len(list.Items), 2)
	require.Equal(b, append(steps, "five"), b.historyAt(session, list.Items[1].ID))
}

func lineForkTwins(b *bundle) {
	session := b.newSession()
	first := b.whole(session, step("one"))
	b.whole(session, step("two"))
	left := b.start(session, from(first.at))
	right := b.start(session, from(first.at))
	require.NotEqual(b, left.line, right.line)
	for range 3 {
		left.commit(step("left"))
		right.commit(step("right"))
	}
	require.Equal(b, []string{"one", "left", "left", "left"}, b.historyAt(session, left.at))
	require.Equal(b, []string{"one", "right", "right", "right"}, b.historyAt(session, right.at))
}

func lineManyForks(b *bundle) {
	session := b.newSession()
	r := b.whole(session, step("0"))
	want := []string{"0"}
	b.whole(session, step("not on the way"))
	for i := range 40 {
		// Each fork leaves before the last checkpoint of the one before.
		r = b.start(session, from(r.at), with(step(fmt.Sprint(i+1))))
		want = append(want, fmt.Sprint(i+1))
		stay := *r
		stay.commit(step("not on the way"))
	}
	require.Equal(b, want, b.historyAt(session, r.at))
	b.reopen()
	require.Equal(b, want, b.historyAt(session, r.at))
}
