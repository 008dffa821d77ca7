package storetest

import (
	"fmt"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/store"
)

var documentScenarios = []scenario{
	{"document-none", "A position without a document has none.", documentNone},
	{"document-exact", "A document comes back byte for byte.", documentExact},
	{"document-chain", "Patches come back after the document that they are on, in order.", documentChain},
	{"document-whole-again", "A whole document begins a new chain.", documentWholeAgain},
	{"document-shared", "Checkpoints that do not change the document share it.", documentShared},
	{"document-next-run", "A patch of the next run is on the document of the head.", documentNextRun},
	{"document-one-write", "The documents of one write are on each other.", documentOneWrite},
	{"document-fork", "A fork inside a chain goes on from its own place, and the chain that it left does not notice.", documentFork},
	{"document-branch-start", "The first patch of a branch is on the document that it started from, not on the head's.", documentBranchStart},
	{"document-promoted", "The first patch of a run that waited is on the document of the head it goes on from.", documentPromoted},
	{"document-long-chain", "A long chain comes back whole.", documentLongChain},
}

// chain returns the documents of a position, patches with a plus sign.
func chain(p *store.Position) []string {
	out := []string{}
	for _, d := range p.Documents {
		text := string(d.Body)
		if d.Patch {
			text = "+" + text
		}
		out = append(out, text)
	}
	return out
}

func documentNone(b *bundle) {
	session := b.newSession()
	require.Empty(b, b.load(session).Documents)
	r := b.start(session, with(step("one")))
	p := b.load(session)
	require.Empty(b, p.Documents)
	require.NotNil(b, p.Checkpoint)
	require.Zero(b, p.Checkpoint.Document)
	r.commit(document(`{"a":1}`))
	require.Equal(b, []string{`{"a":1}`}, chain(b.load(session)))
	require.Positive(b, b.checkpoint(r.at).Document)
	r.commit(step())
	require.Equal(b, []string{`{"a":1}`}, chain(b.load(session)))
}

func documentExact(b *bundle) {
	const body = `{ "z":1E2, "a": -0,"a":[ ],"text":"\u0000\u2028<ü>" }`
	session := b.newSession()
	b.whole(session, document(body))
	b.reopen()
	require.Equal(b, []string{body}, chain(b.load(session)))
}

func documentChain(b *bundle) {
	session := b.newSession()
	r := b.start(session, with(document(`{"n":0}`)))
	r.commit(patch(`[1]`))
	middle := r.at
	r.commit(patch(`[2]`))
	r.commit(patch(`[3]`))
	for range 2 {
		require.Equal(b, []string{`{"n":0}`, `+[1]`, `+[2]`, `+[3]`}, chain(b.load(session)))
		require.Equal(b, []string{`{"n":0}`, `+[1]`}, chain(b.loadAt(session, middle)))
		b.reopen()
	}
}

func documentWholeAgain(b *bundle) {
	session := b.newSession()
	r := b.start(session, with(document(`{"n":0}`)))
	r.commit(patch(`[1]`))
	old := r.at
	r.commit(document(`{"n":2}`))
	require.Equal(b, []string{`{"n":2}`}, chain(b.load(session)))
	r.commit(patch(`[3]`))
	require.Equal(b, []string{`{"n":2}`, `+[3]`}, chain(b.load(session)))
	require.Equal(b, []string{`{"n":0}`, `+[1]`}, chain(b.loadAt(session, old)), "what was before stays")
}

func documentShared(b *bundle) {
	session := b.newSession()
	r := b.start(session, with(document(`{"n":0}`), patch(`[1]`)))
	number := b.checkpoint(r.at).Document
	require.Positive(b, number)
	for range 3 {
		r.commit(step("message"), step())
		require.Equal(b, number, b.checkpoint(r.at).Document)
	}
	r.end(checkpoint.Completed)
	next := b.start(session, with(step()))
	require.Equal(b, number, b.checkpoint(next.at).Document)
	branch := b.start(session, from(r.at), with(step()))
	require.Equal(b, number, b.checkpoint(branch.at).Document)
	require.Equal(b, []string{`{"n":0}`, `+[1]`}, chain(b.loadAt(session, branch.at)))
	next.commit(patch(`[2]`))
	require.NotEqual(b, number, b.checkpoint(next.at).Document)
}

func documentNextRun(b *bundle) {
	session := b.newSession()
	b.whole(session, document(`{"n":0}`), step())
	b.whole(session, patch(`[1]`))
	b.reopen()
	r := b.start(session)
	r.commit(patch(`[2]`))
	require.Equal(b, []string{`{"n":0}`, `+[1]`, `+[2]`}, chain(b.load(session)))
}

func documentOneWrite(b *bundle) {
	session := b.newSession()
	r := b.start(session)
	steps := []store.Step{document(`{"n":0}`), patch(`[1]`), step(), patch(`[2]`), document(`{"n":3}`), patch(`[4]`)}
	r.commit(steps...)
	for i, want := range [][]string{
		{`{"n":0}`}, {`{"n":0}`, `+[1]`}, {`{"n":0}`, `+[1]`}, {`{"n":0}`, `+[1]`, `+[2]`}, {`{"n":3}`}, {`{"n":3}`, `+[4]`},
	} {
		require.Equal(b, want, chain(b.loadAt(session, steps[i].Checkpoint.ID)), "step %d", i)
	}
}

func documentFork(b *bundle) {
	session := b.newSession()
	r := b.start(session, with(document(`{"n":0}`), patch(`[1]`)))
	fork := r.at
	r.commit(patch(`[2]`))
	branch := b.start(session, from(fork), with(patch(`["aside"]`)))
	r.commit(patch(`[3]`))
	branch.commit(patch(`["more"]`))
	for range 2 {
		require.Equal(b, []string{`{"n":0}`, `+[1]`, `+[2]`, `+[3]`}, chain(b.load(session)))
		require.Equal(b, []string{`{"n":0}`, `+[1]`, `+["aside"]`, `+["more"]`}, chain(b.loadAt(session, branch.at)))
		require.Equal(b, []string{`{"n":0}`, `+[1]`}, chain(b.loadAt(session, fork)))
		b.reopen()
	}
}

func documentBranchStart(b *bundle) {
	session := b.newSession()
	first := b.whole(session, document(`{"n":0}`))
	b.whole(session, document(`{"other":0}`))
	branch := b.start(session, from(first.at))
	b.reopen()
	branch.commit(patch(`[1]`))
	require.Equal(b, []string{`{"n":0}`, `+[1]`}, chain(b.loadAt(session, branch.at)))
	another := b.start(session, from(first.at))
	another.commit(step())
	require.Equal(b, []string{`{"n":0}`}, chain(b.loadAt(session, another.at)))
}

func documentPromoted(b *bundle) {
	session := b.newSession()
	b.whole(session, document(`{"old":0}`))
	active := b.start(session)
	waiter := b.start(session, waiting)
	active.end(checkpoint.Completed, document(`{"n":0}`))
	got, err := waiter.promote()
	require.NoError(b, err)
	require.True(b, got)
	b.reopen()
	waiter.commit(patch(`[1]`))
	require.Equal(b, []string{`{"n":0}`, `+[1]`}, chain(b.load(session)))
}

func documentLongChain(b *bundle) {
	session := b.newSession()
	r := b.start(session, with(document(`{"n":0}`)))
	want := []string{`{"n":0}`}
	at := []uuid.UUID{r.at}
	for i := range 100 {
		r.commit(step(), patch(fmt.Sprintf(`[%d]`, i)))
		want = append(want, fmt.Sprintf(`+[%d]`, i))
		at = append(at, r.at)
	}
	b.reopen()
	for _, n := range []int{100, 50, 1} {
		require.Equal(b, want[:n+1], chain(b.loadAt(session, at[n])))
	}
}
