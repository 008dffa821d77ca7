package storetest

import (
	"slices"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/store"
)

// begin begins a run: one that continues, one that branches off, one that would wait, or one that
// is built on what is no longer so.
func (p *player) begin() {
	id := p.sessionID()
	s := p.model.session(id)
	b := &store.Begin{
		Fence:   store.Fence{Tenant: tenant, Run: p.tape.id(), Owner: p.owner(), Epoch: 1},
		Session: id, Graph: []string{"graph", "other"}[p.tape.pick(2)], WriteID: p.tape.id(),
		Status: checkpoint.Running, Lease: p.lease(), Wait: p.tape.pick(2) == 1,
	}
	b.Params, b.Attached = []byte("params of "+b.Run.String()), p.tape.rarely(3)
	var before *modelCheckpoint
	if s != nil {
		b.From.Head, b.From.Base, before = s.headSeq(), s.record.Base, s.head
	}
	switch p.tape.pick(12) {
	case 6, 7, 8:
		if s == nil {
			break
		}
		if c, ok := choose(p.tape, s.checkpoints); ok {
			b.From.Checkpoint, before = c.record.ID, c
		}
	case 9:
		b.From.Base++
	case 10:
		b.From.Head++
	case 11:
		if p.tape.rarely(2) {
			b.From.Checkpoint = p.tape.id()
		} else if r, ok := choose(p.tape, p.model.runs); ok {
			b.Run = r.record.ID
		}
	}
	b.Steps = p.steps(b.Run, before)
	b.Tasks = p.tasks()
	b.Status, b.ErrorCode, b.Error = p.status()
	got, err := p.store.Begin(p.ctx, b)
	p.note("Begin", err, " run ", b.Run, " session ", id, " from ", b.From, " wait ", b.Wait, " steps ", len(b.Steps), " ", b.Status)

	if r := p.model.run(b.Run); r != nil && r.session != nil {
		p.refused(err, store.ErrExists)
		return
	}
	if r := p.model.run(b.Run); r != nil {
		// The id is free again, and whoever held the run has one of the same fence. Not ours to judge.
		p.model.runs = slices.DeleteFunc(p.model.runs, func(o *modelRun) bool { return o == r })
		delete(p.ended, b.Run)
	}
	branch, waits, reasons := p.place(b, s)
	if p.refused(err, reasons...) {
		return
	}
	if s == nil {
		s = p.newSession(id)
	}
	p.began(b, s, got, branch, waits)
}

// place says what becomes of a Begin, and why it is refused if it is.
func (p *player) place(b *store.Begin, s *modelSession) (branch, waits bool, reasons []error) {
	var from *modelCheckpoint
	if id := b.From.Checkpoint; id != uuid.Nil {
		if s != nil {
			from = s.checkpoint(id)
		}
		if from == nil {
			return false, false, []error{missing(store.CheckpointResource, id)}
		}
	}
	if s == nil {
		if b.From.Head != 0 || b.From.Base != 0 {
			return false, false, []error{store.ErrConflict}
		}
		return false, false, nil
	}
	branch = from != nil && !(s.idle() && from == s.head)
	stale := b.From.Base != s.record.Base || !branch && b.From.Head != s.headSeq()
	switch {
	case !branch && !s.idle() && b.Wait:
		return false, true, nil
	case !branch && !s.idle():
		reasons = append(reasons, &store.BusyError{Session: s.record.ID, Run: s.next().record.ID})
		if stale {
			reasons = append(reasons, store.ErrConflict)
		}
	case stale:
		reasons = []error{store.ErrConflict}
	}
	return branch, false, reasons
}

// began takes over a run that was begun.
func (p *player) began(b *store.Begin, s *modelSession, got *store.Begun, branch, waits bool) {
	p.written(s, got.CreatedAt)
	if len(s.bases) == 0 {
		s.record.Base = got.Base
		s.bases = []int64{got.Base}
	}
	require.Equal(p, []bool{branch, waits}, []bool{got.Branch, got.Waiting}, "branch, waiting")
	require.Equal(p, s.record.Base, got.Base, "base")
	require.Greater(p, got.Seq, s.seq, "the run's sequence was given before")
	s.seq = got.Seq
	p.reach("Begin, branch", branch)
	p.reach("Begin, waits", waits)
	p.reach("Begin, ends", b.Status.Ended() && !waits)
	r := &modelRun{session: s, begin: b, begun: got, record: store.Run{
		Tenant: tenant, ID: b.Run, Session: b.Session, Graph: b.Graph, Status: checkpoint.Running,
		CreatedAt: got.CreatedAt, UpdatedAt: got.CreatedAt, Seq: got.Seq, Attached: b.Attached, Branch: branch, Waiting: waits,
		Params: b.Params, Owner: b.Owner, Epoch: 1, LeaseUntil: p.clock.Now().Add(b.Lease),
	}}
	s.record.UpdatedAt = got.CreatedAt
	s.runs, p.model.runs = append(s.runs, r), append(p.model.runs, r)
	p.given(r.record.Fence())
	switch {
	case waits:
		s.waiting = append(s.waiting, r)
		require.Zero(p, got.Line, "the line of a run that waits")
		require.Empty(p, got.Seqs)
		return
	case branch:
		r.start = s.checkpoint(b.From.Checkpoint)
	default:
		r.activate()
	}
	p.onLine(r, got.Line)
	p.wrote(r, b.Steps, b.Tasks, b.Status, &got.Committed)
	if b.Status.Ended() {
		r.end(b.Status, b.ErrorCode, b.Error, got.CreatedAt)
	}
}

// onLine checks the line that a run was given: the head's, which it knows, or one of its own.
func (p *player) onLine(r *modelRun, line int64) {
	if r.record.Line != 0 {
		require.Equal(p, r.record.Line, line, "the line of a run that continues the head")
		return
	}
	require.Positive(p, line)
	for _, o := range r.session.runs {
		require.NotEqual(p, o.record.Line, line, "the line of another run")
	}
	r.record.Line = line
}

// wrote takes over steps, after a look at their sequences.
func (p *player) wrote(r *modelRun, steps []store.Step, tasks []store.Task, status checkpoint.Status, got *store.Committed) {
	require.Equal(p, r.record.Line, got.Line, "line")
	require.Len(p, got.Seqs, len(steps))
	last := r.session.seq
	for i, seq := range got.Seqs {
		require.Greater(p, seq, last+int64(len(steps[i].Messages)), "a checkpoint stands behind its messages")
		last = seq
	}
	r.write(steps, tasks, status, got)
}

// commit commits for a run: mostly what its owner would.
func (p *player) commit() {
	f, r := p.fence()
	c := &store.Commit{Fence: f, WriteID: p.tape.id(), Lease: p.lease()}
	var before *modelCheckpoint
	if r != nil {
		c.After = r.record.Last
		if r.session != nil {
			before = r.position()
		}
	}
	if p.tape.rarely(8) {
		c.After++
	}
	c.Steps = p.steps(f.Run, before)
	c.Tasks = p.tasks()
	c.Status, c.ErrorCode, c.Error = p.status()
	got, err := p.store.Commit(p.ctx, c)
	p.note("Commit", err, " ", f, " after ", c.After, " steps ", len(c.Steps), " tasks ", len(c.Tasks), " ", c.Status)

	if p.refused(err, p.mayCommit(c, r)...) {
		return
	}
	p.reach("Commit, ends", c.Status.Ended())
	p.reach("Commit, tasks", len(c.Tasks) > 0)
	p.reach("Commit, branch", r.record.Branch)
	p.reach("Commit, after a takeover", r.record.Epoch > 1)
	p.written(r.session, got.CreatedAt)
	p.wrote(r, c.Steps, c.Tasks, c.Status, got)
	r.record.LeaseUntil = p.clock.Now().Add(c.Lease)
	if c.Status.Ended() {
		r.end(c.Status, c.ErrorCode, c.Error, got.CreatedAt)
	}
	r.begin, r.begun, r.commit, r.committed = nil, nil, c, got
}

// mayCommit returns why a commit must be refused.
func (p *player) mayCommit(c *store.Commit, r *modelRun) (reasons []error) {
	if r == nil || r.session == nil {
		return []error{missing(store.RunResource, c.Run)}
	}
	if !r.holds(c.Fence) {
		return []error{store.ErrLost}
	}
	if c.After != r.record.Last || r.record.Waiting && len(c.Steps) > 0 {
		reasons = append(reasons, store.ErrConflict)
	}
	if r.record.CancelRequested && c.Status.Ended() && c.Status != checkpoint.Cancelled {
		reasons = append(reasons, store.ErrCancelRequested)
	}
	return reasons
}

// saveTask saves a task of a run's last checkpoint, or of one before it.
func (p *player) saveTask() {
	f, r := p.fence()
	call := &store.SaveTask{Fence: f, Task: p.task()}
	if r != nil {
		call.Checkpoint = r.record.Last
	}
	if p.tape.rarely(8) {
		call.Checkpoint--
	}
	err := p.store.SaveTask(p.ctx, call)
	p.note("SaveTask", err, " ", f, " at ", call.Checkpoint, " ", call.Task.Key, " ", call.Task.Done)

	var reasons []error
	switch {
	case r == nil || r.session == nil:
		reasons = []error{missing(store.RunResource, f.Run)}
	case !r.holds(f):
		reasons = []error{store.ErrLost}
	case r.last == nil || call.Checkpoint != r.record.Last:
		reasons = []error{store.ErrConflict}
	}
	if p.refused(err, reasons...) {
		return
	}
	r.last.save(call.Task)
	r.record.Takeovers = 0
	p.seen(r.session)
}

// repeat repeats the last write of a run, as after an answer that got lost.
func (p *player) repeat() {
	r, ok := choose(p.tape, p.model.runs)
	if !ok || r.session == nil {
		return
	}
	if r.begin != nil {
		got, err := p.store.Begin(p.ctx, r.begin)
		p.note("Begin again", err, " run ", r.record.ID)
		require.NoError(p, err)
		require.Equal(p, bare(r.begun.Committed), bare(got.Committed))
		want, have := *r.begun, *got
		want.Committed, have.Committed = store.Committed{}, store.Committed{}
		require.Equal(p, want, have)
		return
	}
	got, err := p.store.Commit(p.ctx, r.commit)
	p.note("Commit again", err, " run ", r.record.ID)
	p.reach("Commit again, after its end", r.record.Status.Ended())
	p.reach("Commit again, after a takeover", r.record.Epoch > r.commit.Epoch)
	require.NoError(p, err)
	require.Equal(p, bare(*r.committed), bare(*got))
}

// bare makes no difference between no sequences and none.
func bare(c store.Committed) store.Committed {
	if len(c.Seqs) == 0 {
		c.Seqs = nil
	}
	return c
}

// waiterFence is mostly the fence of a run that waits, if there is one.
func (p *player) waiterFence() (store.Fence, *modelRun) {
	var waiting []*modelRun
	for _, s := range p.model.sessions {
		waiting = append(waiting, s.waiting...)
	}
	if w, ok := choose(p.tape, waiting); ok && p.tape.pick(3) < 2 {
		return w.record.Fence(), w
	}
	return p.fence()
}

// promote asks whether it is a run's turn.
func (p *player) promote() {
	f, r := p.waiterFence()
	got, err := p.store.Promote(p.ctx, f)
	p.note("Promote", err, " ", f, " ", got)

	var reasons []error
	switch {
	case r == nil || r.session == nil:
		reasons = []error{missing(store.RunResource, f.Run)}
	case !r.holds(f):
		reasons = []error{store.ErrLost}
	}
	if p.refused(err, reasons...) {
		return
	}
	s := r.session
	if s.active == nil && len(s.waiting) > 0 && s.waiting[0] == r {
		s.waiting = s.waiting[1:]
		p.reach("Promote, its turn", true)
		r.activate()
		record, err := p.store.Run(p.ctx, tenant, f.Run)
		require.NoError(p, err)
		p.onLine(r, record.Line)
	}
	require.Equal(p, s.active == r, got, "whether the run is the active one")
	p.reach("Promote, active", got)
	p.reach("Promote, not its turn", s.active == nil && len(s.waiting) > 0)
	p.seen(s)
}

// cancel asks for a run's end.
func (p *player) cancel() {
	f, r := p.waiterFence()
	got, err := p.store.RequestCancel(p.ctx, tenant, f.Run)
	p.note("RequestCancel", err, " run ", f.Run)

	if r == nil || r.session == nil {
		p.refused(err, missing(store.RunResource, f.Run))
		return
	}
	require.NoError(p, err)
	if r.alive() {
		r.record.CancelRequested = true
		if r.record.Waiting {
			p.reach("RequestCancel, waits", true)
			p.written(r.session, got.UpdatedAt)
			r.end(checkpoint.Cancelled, "", "", got.UpdatedAt)
		}
	}
	p.sameRun(r, got)
	p.seen(r.session)
}
