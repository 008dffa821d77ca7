package storetest

import (
	"fmt"
	"sync"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/store"
)

var loadScenarios = []scenario{
	{"load-empty", "A session without checkpoints loads as an empty position.", loadEmpty},
	{"load-unknown", "What does not exist is not found, and is named.", loadUnknown},
	{"load-run", "The position of a run is its own last checkpoint, wherever the head is.", loadRun},
	{"load-run-at-start", "The position of a run without a checkpoint is the session's head.", loadRunAtStart},
	{"load-branch-at-start", "The position of a branch without a checkpoint is the one that it left from, wherever the head is.", loadBranchAtStart},
	{"load-consistent", "A position is of one moment, also beside writers.", loadConsistent},
}

func loadEmpty(b *bundle) {
	session := b.newSession()
	p := b.load(session)
	require.Equal(b, session, p.Session.ID)
	require.Equal(b, tenant, p.Session.Tenant)
	require.Nil(b, p.Checkpoint)
	require.Nil(b, p.Run)
	require.Empty(b, p.Documents)
	require.Empty(b, p.Messages)
	require.Empty(b, p.Tasks)
}

func loadUnknown(b *bundle) {
	session, other := b.newSession(), b.newSession()
	foreign := b.whole(other, step()).at
	load := func(l store.Load) error {
		l.Tenant = tenant
		_, err := b.store.Load(b.ctx, &l)
		return err
	}
	id := uuid.New()
	b.notFound(load(store.Load{Session: id}), store.SessionResource, id)
	b.notFound(load(store.Load{Run: id}), store.RunResource, id)
	b.notFound(load(store.Load{Session: session, Checkpoint: id}), store.CheckpointResource, id)
	b.notFound(load(store.Load{Session: session, Checkpoint: foreign}), store.CheckpointResource, foreign)
	_, err := b.store.Checkpoint(b.ctx, tenant, id)
	b.notFound(err, store.CheckpointResource, id)
	_, err = b.store.Message(b.ctx, tenant, id)
	b.notFound(err, store.MessageResource, id)
}

func loadRun(b *bundle) {
	session := b.newSession()
	first := b.whole(session, step("one"))
	b.whole(session, step("two"))
	branch := b.start(session, from(first.at), with(step("aside")))
	p, err := b.store.Load(b.ctx, &store.Load{Tenant: tenant, Run: branch.Run, Session: uuid.New(), Checkpoint: uuid.New()})
	require.NoError(b, err, "session and checkpoint are not looked at")
	require.NotNil(b, p.Checkpoint)
	require.Equal(b, branch.at, p.Checkpoint.ID)
	require.Equal(b, []string{"one", "aside"}, texts(b, p.Messages))
	require.NotNil(b, p.Run)
	require.Equal(b, branch.record(), p.Run)
	require.Equal(b, *b.session(session), p.Session)

	// Also when the run has ended and the session went on.
	branch.end(checkpoint.Completed)
	b.whole(session, step("three"))
	require.Equal(b, []string{"one", "aside"}, texts(b, b.loadRun(branch.Run).Messages))
}

func loadRunAtStart(b *bundle) {
	session := b.newSession()
	p := b.loadRun(b.start(session).Run)
	require.Nil(b, p.Checkpoint)
	require.NotNil(b, p.Run)

	other := b.newSession()
	first := b.whole(other, step("one"))
	r := b.start(other)
	p = b.loadRun(r.Run)
	require.NotNil(b, p.Checkpoint)
	require.Equal(b, first.at, p.Checkpoint.ID)
	require.Equal(b, []string{"one"}, texts(b, p.Messages))
	require.NotNil(b, p.Run)
	require.Zero(b, p.Run.Last)
}

func loadBranchAtStart(b *bundle) {
	session := b.newSession()
	first := b.whole(session, document(`{"first":true}`), step("one"))
	b.whole(session, document(`{"second":true}`), step("two"))
	branch := b.start(session, from(first.at))
	for range 2 {
		p := b.loadRun(branch.Run)
		require.NotNil(b, p.Checkpoint)
		require.Equal(b, first.at, p.Checkpoint.ID)
		require.Equal(b, []string{"one"}, texts(b, p.Messages))
		require.Equal(b, []store.Document{{Body: []byte(`{"first":true}`)}}, p.Documents)
		b.reopen()
		branch = branch.claimed()
	}
}

func loadConsistent(b *bundle) {
	session := b.newSession()
	r := b.start(session, with(document(`0`), step("0")))
	const commits = 40
	var failed error
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range commits {
			if failed = r.tryCommit(step(fmt.Sprint(i+1)), patch(fmt.Sprint(i+1))); failed != nil {
				return
			}
		}
	})
	positions := make([]*store.Position, 0, 200)
	for range cap(positions) {
		p, err := b.store.Load(b.ctx, &store.Load{Tenant: tenant, Session: session})
		require.NoError(b, err)
		positions = append(positions, p)
	}
	wg.Wait()
	require.NoError(b, failed)
	seen := 0
	for _, p := range append(positions, b.load(session)) {
		require.NotNil(b, p.Checkpoint)
		require.Equal(b, p.Session.Head, p.Checkpoint.Seq)
		require.Equal(b, len(p.Documents), len(p.Messages), "each write brought one of each")
		for i, text := range texts(b, p.Messages) {
			require.Equal(b, fmt.Sprint(i), text)
		}
		require.GreaterOrEqual(b, len(p.Messages), seen, "a position that was seen stays written")
		seen = len(p.Messages)
	}
	require.Equal(b, commits+1, seen)
}
