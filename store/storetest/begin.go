package storetest

import (
	"sync"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/store"
)

var beginScenarios = []scenario{
	{"begin-creates-session", "A run in an unknown session creates the session.", beginCreatesSession},
	{"begin-records-run", "A run is recorded as it was begun.", beginRecordsRun},
	{"begin-writes-steps", "The first checkpoints are written with the run.", beginWritesSteps},
	{"begin-taken-run", "A run id that is taken is refused, in any session, and nothing is written.", beginTakenRun},
	{"begin-repeated", "A Begin repeated with its write id returns what it returned, and writes nothing more.", beginRepeated},
	{"begin-repeated-later", "A begin repeated when the run has got its turn, or was cancelled, is answered as the first time.", beginRepeatedLater},
	{"begin-busy", "A plain run in a busy session is refused with the name of the active run.", beginBusy},
	{"begin-concurrent", "Of runs that begin at once in one session exactly one wins.", beginConcurrent},
	{"begin-stale-head", "A run built on a head that moved is refused, and nothing is written.", beginStaleHead},
	{"begin-stale-base", "A run built before a message was added is refused, also a branch.", beginStaleBase},
	{"begin-branch-any-head", "The head does not matter to a branch.", beginBranchAnyHead},
	{"begin-unknown-checkpoint", "A checkpoint that is not the session's is not found, and nothing is written.", beginUnknownCheckpoint},
	{"begin-ended", "A run may be begun and ended in one write; the head moves to it.", beginEnded},
	{"begin-updates-session", "A session was updated when its last run began, and not by anything else.", beginUpdatesSession},
	{"begin-tasks", "The tasks of a Begin are kept under the last of its checkpoints.", beginTasks},
}

func beginCreatesSession(b *bundle) {
	id := uuid.New()
	r := b.start(id)
	s := b.session(id)
	require.Equal(b, tenant, s.Tenant)
	require.Equal(b, id, s.ID)
	require.Equal(b, r.Run, s.Active)
	require.Zero(b, s.Head)
	require.Equal(b, s.CreatedAt.UnixNano(), s.Base)
	require.Equal(b, s.Base, r.begun.Base)
	sameTime(b, b.clock.Now(), s.CreatedAt, "created")
	sameTime(b, b.clock.Now(), s.UpdatedAt, "updated")
}

func beginRecordsRun(b *bundle) {
	session := b.newSession()
	b.tick()
	begin := b.newBegin(session, graph("triage"))
	begin.Attached = true
	begin.Params = []byte{0, 1, 0xff}
	r, err := b.begin(begin)
	require.NoError(b, err)
	require.False(b, r.begun.Waiting)
	require.False(b, r.begun.Branch)
	require.Positive(b, r.begun.Seq)
	require.Empty(b, r.begun.Seqs)
	sameTime(b, b.clock.Now(), r.begun.CreatedAt, "begun")

	sameTime(b, b.clock.Now().Add(lease), r.record().LeaseUntil, "lease")
	b.reopen()
	got := r.record()
	sameTime(b, b.clock.Now(), got.CreatedAt, "created")
	sameTime(b, b.clock.Now(), got.UpdatedAt, "updated")
	want := store.Run{
		Tenant: tenant, ID: begin.Run, Session: session, Graph: "triage", Status: checkpoint.Running,
		CreatedAt: got.CreatedAt, UpdatedAt: got.UpdatedAt, LeaseUntil: got.LeaseUntil,
		Seq: r.begun.Seq, Line: r.begun.Line, Attached: true, Params: []byte{0, 1, 0xff},
		Owner: begin.Owner, Epoch: 1,
	}
	require.Equal(b, want, *got)
	require.Equal(b, begin.Fence, got.Fence())
}

func beginWritesSteps(b *bundle) {
	session := uuid.New()
	r := b.start(session, with(step("question"), step()))
	require.Len(b, r.begun.Seqs, 2)
	require.Less(b, r.begun.Seq, r.begun.Seqs[0], "the run has its sequence before its steps")
	require.Equal(b, count{runs: 1, checkpoints: 2, messages: 1}, b.count(session))
	p := b.load(session)
	require.NotNil(b, p.Checkpoint)
	require.Equal(b, r.at, p.Checkpoint.ID)
	require.Equal(b, r.last, p.Session.Head)
	require.Equal(b, []string{"question"}, texts(b, p.Messages))
	require.Equal(b, r.last, r.record().Last)
	r.commit(step("answer"))
	require.Equal(b, []string{"question", "answer"}, b.history(session))
}

func beginTakenRun(b *bundle) {
	session := b.newSession()
	r := b.whole(session, step("one"))
	for _, where := range []uuid.UUID{session, b.newSession(), uuid.New()} {
		begin := b.newBegin(where)
		begin.Run = r.Run
		begin.Steps = []store.Step{step("two")}
		_, err := b.begin(begin)
		require.ErrorIs(b, err, store.ErrExists)
	}
	require.Equal(b, count{runs: 1, checkpoints: 1, messages: 1}, b.count(session))
	require.Equal(b, checkpoint.Completed, r.record().Status)
}

func beginRepeated(b *bundle) {
	for _, opts := range [][]option{
		{with(step("one"), step("two"))},
		{},
		{with(step("one")), ended(checkpoint.Completed)},
	} {
		session := b.newSession()
		begin := b.newBegin(session, opts...)
		first, err := b.store.Begin(b.ctx, begin)
		require.NoError(b, err)
		before := b.count(session)
		b.tick()
		b.reopen()
		second, err := b.store.Begin(b.ctx, begin)
		require.NoError(b, err)
		sameTime(b, first.CreatedAt, second.CreatedAt, "created")
		require.Equal(b, first.Line, second.Line)
		require.Equal(b, first.Seq, second.Seq)
		require.ElementsMatch(b, first.Seqs, second.Seqs)
		require.Equal(b, before, b.count(session))
	}

	session := b.newSession()
	b.whole(session, step())
	branch := b.newBegin(session, from(b.start(session, with(step())).at))
	first, err := b.store.Begin(b.ctx, branch)
	require.NoError(b, err)
	second, err := b.store.Begin(b.ctx, branch)
	require.NoError(b, err)
	require.True(b, first.Branch)
	require.True(b, second.Branch)
	require.Equal(b, first.Line, second.Line)

	queued := b.newBegin(session, waiting)
	first, err = b.store.Begin(b.ctx, queued)
	require.NoError(b, err)
	second, err = b.store.Begin(b.ctx, queued)
	require.NoError(b, err)
	require.True(b, first.Waiting)
	require.True(b, second.Waiting)
	require.Equal(b, first.Seq, second.Seq)
}

func beginRepeatedLater(b *bundle) {
	session := b.newSession()
	active := b.start(session, with(step()))
	var queued []*store.Begin
	var first []*store.Begun
	for range 2 {
		q := b.newBegin(session, waiting)
		begun, err := b.store.Begin(b.ctx, q)
		require.NoError(b, err)
		queued, first = append(queued, q), append(first, begun)
	}
	active.end(checkpoint.Completed)
	got, err := b.store.Promote(b.ctx, queued[0].Fence)
	require.NoError(b, err)
	require.True(b, got)
	_, err = b.store.RequestCancel(b.ctx, tenant, queued[1].Run)
	require.NoError(b, err)
	b.post(session, "hello")
	for i := range queued {
		again, err := b.store.Begin(b.ctx, queued[i])
		require.NoError(b, err)
		require.True(b, again.Waiting)
		require.Zero(b, again.Line)
		require.Equal(b, first[i].Seq, again.Seq)
		require.Equal(b, first[i].Base, again.Base)
		b.reopen()
	}
}

func beginBusy(b *bundle) {
	session := b.newSession()
	r := b.start(session, with(step("one")))
	before := b.count(session)
	_, err := b.begin(b.newBegin(session, with(step("two"))))
	require.ErrorIs(b, err, store.ErrBusy)
	var busy *store.BusyError
	require.ErrorAs(b, err, &busy)
	require.Equal(b, store.BusyError{Session: session, Run: r.Run}, *busy)
	require.Equal(b, before, b.count(session))
	r.end(checkpoint.Completed)
	b.start(session)
}

func beginConcurrent(b *bundle) {
	for _, opts := range [][]option{nil, {with(step("hello"))}} {
		session := b.newSession()
		begins := make([]*store.Begin, 8)
		for i := range begins {
			begins[i] = b.newBegin(session, opts...)
		}
		errs := make([]error, len(begins))
		var wg sync.WaitGroup
		for i, begin := range begins {
			wg.Go(func() { _, errs[i] = b.store.Begin(b.ctx, begin) })
		}
		wg.Wait()
		won := 0
		for i, err := range errs {
			if err == nil {
				won++
				require.Equal(b, begins[i].Run, b.session(session).Active)
				continue
			}
			require.ErrorIs(b, err, store.ErrBusy)
		}
		require.Equal(b, 1, won, "runs that began")
		require.Equal(b, 1, b.count(session).runs)
	}
}

func beginStaleHead(b *bundle) {
	session := b.newSession()
	b.whole(session, step("one"))
	stale := b.newBegin(session, with(step("late")))
	b.whole(session, step("two"))
	require.Equal(b, b.session(session).Base, stale.From.Base)
	before := b.count(session)
	_, err := b.begin(stale)
	require.ErrorIs(b, err, store.ErrConflict)

	explicit := b.newBegin(session, from(b.load(session).Checkpoint.ID))
	explicit.From.Head = stale.From.Head
	_, err = b.begin(explicit)
	require.ErrorIs(b, err, store.ErrConflict, "a run from the head itself continues the session")

	require.Equal(b, before, b.count(session))
	require.Equal(b, uuid.Nil, b.session(session).Active)

	unknown := b.newBegin(uuid.New())
	unknown.From.Head = 7
	_, err = b.begin(unknown)
	require.ErrorIs(b, err, store.ErrConflict)
	_, err = b.store.Session(b.ctx, tenant, unknown.Session)
	require.ErrorIs(b, err, store.ErrNotFound)
}

func beginStaleBase(b *bundle) {
	session := b.newSession()
	first := b.whole(session, step("one"))
	b.whole(session, step("two"))
	for _, opts := range [][]option{nil, {from(first.at)}} {
		stale := b.newBegin(session, opts...)
		posted := b.post(session, "posted")
		_, err := b.begin(stale)
		require.ErrorIs(b, err, store.ErrConflict)

		stale = b.newBegin(session, opts...)
		require.NoError(b, b.store.DeleteMessage(b.ctx, tenant, posted.ID))
		_, err = b.begin(stale)
		require.ErrorIs(b, err, store.ErrConflict, "a deletion is a change")
	}
	require.Equal(b, 2, b.count(session).runs)
}

func beginBranchAnyHead(b *bundle) {
	session := b.newSession()
	first := b.whole(session, step("one"))
	b.whole(session, step("two"))
	begin := b.newBegin(session, from(first.at))
	b.whole(session, step("three"))
	r, err := b.begin(begin)
	require.NoError(b, err)
	require.True(b, r.begun.Branch)
}

func beginUnknownCheckpoint(b *bundle) {
	session, other := b.newSession(), b.newSession()
	b.whole(session, step())
	foreign := b.whole(other, step()).at
	for _, where := range []uuid.UUID{session, uuid.New()} {
		for _, id := range []uuid.UUID{uuid.New(), foreign} {
			begin := b.newBegin(where, from(id), with(step()))
			_, err := b.begin(begin)
			b.notFound(err, store.CheckpointResource, id)
			_, err = b.store.Run(b.ctx, tenant, begin.Run)
			b.notFound(err, store.RunResource, begin.Run)
		}
	}
	require.Equal(b, count{runs: 1, checkpoints: 1}, b.count(session))
}

func beginEnded(b *bundle) {
	session := uuid.New()
	begin := b.newBegin(session, with(step("one")), ended(checkpoint.Failed))
	begin.ErrorCode, begin.Error, begin.Params = "model_error", "it broke", []byte("params")
	r, err := b.begin(begin)
	require.NoError(b, err)
	got := r.record()
	require.Equal(b, checkpoint.Failed, got.Status)
	require.Equal(b, "model_error", got.ErrorCode)
	require.Equal(b, "it broke", got.Error)
	require.Empty(b, got.Params)
	s := b.session(session)
	require.Equal(b, uuid.Nil, s.Active)
	require.Equal(b, r.last, s.Head)
	require.ErrorIs(b, r.tryCommit(step()), store.ErrLost)

	branch := b.start(session, from(r.at), with(step("two")), ended(checkpoint.Completed))
	require.Equal(b, branch.last, b.session(session).Head)

	active := b.start(session, with(step("three")))
	b.start(session, from(r.at), with(step("four")), ended(checkpoint.Completed))
	require.Equal(b, active.last, b.session(session).Head, "a branch does not move the head of a busy session")
}

func beginUpdatesSession(b *bundle) {
	session := b.newSession()
	created := b.clock.Now()
	for range 2 {
		now := b.tick()
		r := b.start(session, with(step()))
		b.tick()
		posted := b.post(session, "posted")
		r.commit(step())
		b.tick()
		require.NoError(b, b.store.DeleteMessage(b.ctx, tenant, posted.ID))
		r.end(checkpoint.Completed)
		s := b.session(session)
		sameTime(b, created, s.CreatedAt, "created")
		sameTime(b, now, s.UpdatedAt, "updated")
	}
}

func beginTasks(b *bundle) {
	session := b.newSession()
	for _, status := range []checkpoint.Status{checkpoint.Interrupted, checkpoint.Running} {
		begin := b.newBegin(session, with(step(), step()), ended(status))
		begin.Tasks = []store.Task{{Key: "a", Done: true, Value: []byte("1")}, {Key: "b"}}
		r, err := b.begin(begin)
		require.NoError(b, err)
		b.reopen()
		require.Equal(b, []string{"a=1", "b=?"}, r.tasks())
		require.Empty(b, b.loadAt(session, begin.Steps[0].Checkpoint.ID).Tasks)
	}
}
