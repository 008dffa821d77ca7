package storetest

import (
	"reflect"
	"slices"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/store"
)

// check requires every session to show what the model has.
func (p *player) check() {
	for _, s := range p.model.sessions {
		p.checkSession(s)
		p.checkPosition(p.load(s.record.ID), s, s.head)
	}
}

// checkAll looks also at what each run and each checkpoint leads to.
func (p *player) checkAll() {
	p.check()
	for _, s := range p.model.sessions {
		for _, r := range s.runs {
			got := p.loadRun(r.record.ID)
			require.NotNil(p, got.Run)
			p.sameRun(r, got.Run)
			p.checkPosition(got, s, r.position())
			p.sameRun(r, p.runRecord(r.record.ID))
		}
		for _, c := range s.checkpoints {
			p.checkPosition(p.loadAt(s.record.ID, c.record.ID), s, c)
			p.sameCheckpoint(c, p.checkpoint(c.record.ID))
		}
	}
	page, err := p.store.Sessions(p.ctx, &store.SessionQuery{Tenant: tenant})
	require.NoError(p, err)
	require.Len(p, page.Items, len(p.model.sessions))
}

func (p *player) checkSession(s *modelSession) {
	id := s.record.ID
	p.sameSession(s, p.session(id))

	runs := pages(p, func(at store.Paging) (*store.Page[store.Run], error) {
		return p.store.Runs(p.ctx, &store.RunQuery{Tenant: tenant, Session: id, Paging: at})
	})
	require.Len(p, runs, len(s.runs), "runs")
	active := 0
	for i, r := range s.runs {
		p.sameRun(r, &runs[i])
		if !runs[i].Status.Ended() && !runs[i].Waiting && !runs[i].Branch {
			active++
		}
	}
	require.LessOrEqual(p, active, 1, "active runs")

	checkpoints := pages(p, func(at store.Paging) (*store.Page[checkpoint.Checkpoint], error) {
		return p.store.Checkpoints(p.ctx, &store.CheckpointQuery{Tenant: tenant, Session: id, Paging: at})
	})
	require.Len(p, checkpoints, len(s.checkpoints), "checkpoints")
	for i, c := range s.checkpoints {
		p.sameCheckpoint(c, &checkpoints[i])
	}

	messages := pages(p, func(at store.Paging) (*store.Page[store.Message], error) {
		return p.store.Messages(p.ctx, &store.MessageQuery{Tenant: tenant, Session: id, Paging: at})
	})
	require.Len(p, messages, len(s.messages), "messages")
	last := int64(0)
	for i, m := range s.messages {
		got := messages[i]
		require.Greater(p, got.Seq, last, "sequences ascend")
		if m.record.Seq == 0 {
			require.Greater(p, got.Seq, m.after, "a sequence that was given before")
			require.Less(p, got.Seq, m.before, "a message stands before its checkpoint")
			m.record.Seq = got.Seq
		}
		last = got.Seq
		p.equal(m.record, got)
	}
}

// pages returns the items of all pages, oldest first.
func pages[T any](p *player, list func(store.Paging) (*store.Page[T], error)) []T {
	var all []T
	var at store.Paging
	for {
		page, err := list(at)
		require.NoError(p, err)
		all = append(all, page.Items...)
		if page.Next == "" {
			require.Len(p, all, page.Count)
			slices.Reverse(all)
			return all
		}
		at.Page = page.Next
	}
}

// equal is require.Equal, which costs more when it has nothing to say than all else here.
func (p *player) equal(want, got any, what ...any) {
	if !reflect.DeepEqual(want, got) {
		require.Equal(p, want, got, what...)
	}
}

func (p *player) sameSession(s *modelSession, got *store.Session) {
	want := s.record
	want.Head = s.headSeq()
	if s.active != nil {
		want.Active = s.active.record.ID
	}
	p.equal(want, *got)
}

// sameRun compares a run but for what is the driver's: when a running one was updated, and until when
// a lease lasts that nobody holds. A run that has ended must stay as it was first seen.
func (p *player) sameRun(r *modelRun, got *store.Run) {
	want, have := r.record, *got
	if r.released || want.Status.Ended() {
		want.LeaseUntil = have.LeaseUntil
	}
	if want.Status.Ended() {
		want.Owner, want.Attached, want.Takeovers = have.Owner, have.Attached, have.Takeovers
	} else {
		require.False(p, have.UpdatedAt.Before(have.CreatedAt), "updated before it was created")
		want.UpdatedAt = have.UpdatedAt
	}
	p.equal(want, have)
	if first, ok := p.ended[have.ID]; ok {
		p.equal(first, have, "a run that has ended changed")
	} else if have.Status.Ended() {
		p.ended[have.ID] = have
	}
}

// sameCheckpoint compares a checkpoint but for the number of its document, which is the driver's
// as long as it stays.
func (p *player) sameCheckpoint(c *modelCheckpoint, got *checkpoint.Checkpoint) {
	want := c.record
	want.Document = got.Document
	p.equal(want, *got)
	p.equal(len(c.documents) == 0, got.Document == 0, "a document's number: %d", got.Document)
	first, ok := p.found[want.ID]
	if !ok {
		p.found[want.ID] = *got
		return
	}
	p.equal(first, *got, "a checkpoint changed")
}

// checkPosition compares what was loaded with what a checkpoint of the model shows.
func (p *player) checkPosition(got *store.Position, s *modelSession, c *modelCheckpoint) {
	p.sameSession(s, &got.Session)
	var wanted []uuid.UUID
	for _, m := range s.history(c) {
		wanted = append(wanted, m.record.ID)
	}
	var have []uuid.UUID
	for _, m := range got.Messages {
		have = append(have, m.ID)
	}
	p.equal(wanted, have, "history")
	for i, m := range s.history(c) {
		p.equal(m.record, got.Messages[i])
	}
	if c == nil {
		require.Nil(p, got.Checkpoint)
		require.Empty(p, got.Documents)
		require.Empty(p, got.Tasks)
		return
	}
	require.NotNil(p, got.Checkpoint)
	p.sameCheckpoint(c, got.Checkpoint)
	p.equal(c.documents, got.Documents, "documents")
	require.Len(p, got.Tasks, len(c.tasks))
	done := 0
	for done < len(c.tasks) && c.tasks[done].Done {
		done++
	}
	p.equal(slices.Concat(c.tasks[:done]), slices.Concat(got.Tasks[:done]), "tasks that are done")
	require.ElementsMatch(p, c.tasks[done:], got.Tasks[done:], "tasks that are started")
}

// lookBack loads some earlier position, and what some run goes on from.
func (p *player) lookBack() {
	if r, ok := choose(p.tape, p.model.runs); ok && r.session != nil {
		got := p.loadRun(r.record.ID)
		require.NotNil(p, got.Run)
		p.sameRun(r, got.Run)
		p.checkPosition(got, r.session, r.position())
	}
	if s, ok := choose(p.tape, p.model.sessions); ok {
		if c, ok := choose(p.tape, s.checkpoints); ok {
			p.checkPosition(p.loadAt(s.record.ID, c.record.ID), s, c)
			p.sameCheckpoint(c, p.checkpoint(c.record.ID))
		}
	}
}

// lookAbroad tries what exists under another tenant, for which none of it does.
func (p *player) lookAbroad() {
	const other = "other"
	if r, ok := choose(p.tape, p.model.runs); ok {
		f := r.record.Fence()
		f.Tenant = other
		id := f.Run
		_, err := p.store.Commit(p.ctx, &store.Commit{Fence: f, WriteID: p.tape.id(), After: r.record.Last, Status: checkpoint.Completed, Lease: lease})
		p.notFound(err, store.RunResource, id)
		p.notFound(p.store.SaveTask(p.ctx, &store.SaveTask{Fence: f, Checkpoint: r.record.Last, Task: p.task()}), store.RunResource, id)
		_, err = p.store.Promote(p.ctx, f)
		p.notFound(err, store.RunResource, id)
		p.notFound(p.store.Release(p.ctx, f), store.RunResource, id)
		_, err = p.store.RequestCancel(p.ctx, other, id)
		p.notFound(err, store.RunResource, id)
		_, err = p.store.Load(p.ctx, &store.Load{Tenant: other, Run: id})
		p.notFound(err, store.RunResource, id)
	}
	if s, ok := choose(p.tape, p.model.sessions); ok {
		id := s.record.ID
		p.notFound(p.store.DeleteSession(p.ctx, other, id), store.SessionResource, id)
		m := say("abroad")
		m.SessionID = id
		_, err := p.store.CreateMessage(p.ctx, other, &m)
		p.notFound(err, store.SessionResource, id)
		n, err := p.store.Prune(p.ctx, &store.Prune{Tenant: other, Before: p.clock.Now().AddDate(1, 0, 0), Limit: 9})
		require.NoError(p, err)
		require.Zero(p, n)
	}
	if m := p.anyMessage(); m != nil {
		p.notFound(p.store.DeleteMessage(p.ctx, other, m.record.ID), store.MessageResource, m.record.ID)
	}
}
