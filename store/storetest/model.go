package storetest

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/store"
)

// A model is what a store must hold after the calls that a [player] made: plain records that point
// to each other. It has no indexes, no lines and no documents with numbers: each checkpoint has
// all that it shows.
type model struct {
	sessions []*modelSession
	runs     []*modelRun // those of deleted sessions too, for their owners do not know
}

type modelSession struct {
	record store.Session // but for Head and Active
	latest time.Time     // of what was written last
	clock  time.Time     // the latest that a call saw while the session existed
	seq    int64         // the greatest sequence that was given
	bases  []int64       // that it had

	head        *modelCheckpoint
	active      *modelRun
	waiting     []*modelRun // who waits longest first
	runs        []*modelRun
	checkpoints []*modelCheckpoint
	messages    []*modelMessage
}

type modelRun struct {
	record  store.Run // as it must come back
	session *modelSession
	start   *modelCheckpoint // of a branch
	last    *modelCheckpoint

	// What it wrote last, and the answer.
	begin     *store.Begin
	begun     *store.Begun
	commit    *store.Commit
	committed *store.Committed

	released bool // nobody's, and to be claimed at once
}

type modelCheckpoint struct {
	record    checkpoint.Checkpoint // as it must come back, but for Document
	documents []store.Document
	run       *modelRun
	path      []*modelMessage // that runs brought, up to here
	tasks     []store.Task
}

// A modelMessage learns its sequence from the store, which gives it one between two that are known.
type modelMessage struct {
	record        store.Message
	after, before int64
}

func (m *model) session(id uuid.UUID) *modelSession {
	for _, s := range m.sessions {
		if s.record.ID == id {
			return s
		}
	}
	return nil
}

func (m *model) run(id uuid.UUID) *modelRun {
	for _, r := range m.runs {
		if r.record.ID == id {
			return r
		}
	}
	return nil
}

// newest is the most recently created message of an id.
func (m *model) newest(id uuid.UUID) (*modelSession, *modelMessage) {
	var session *modelSession
	var newest *modelMessage
	for _, s := range m.sessions {
		for _, v := range s.messages {
			if v.record.ID == id && (newest == nil || v.record.CreatedAt.After(newest.record.CreatedAt)) {
				session, newest = s, v
			}
		}
	}
	return session, newest
}

// drop forgets a session, with the runs in it.
func (m *model) drop(s *modelSession) {
	m.sessions = slices.DeleteFunc(m.sessions, func(o *modelSession) bool { return o == s })
	for _, r := range s.runs {
		r.session = nil
	}
}

func (s *modelSession) idle() bool { return s.active == nil && len(s.waiting) == 0 }

// next is the run that a busy session names.
func (s *modelSession) next() *modelRun {
	if s.active == nil {
		return s.waiting[0]
	}
	return s.active
}

// headSeq is the sequence that the session shows as its head.
func (s *modelSession) headSeq() int64 {
	if s.head == nil {
		return 0
	}
	return s.head.record.Seq
}

func (s *modelSession) checkpoint(id uuid.UUID) *modelCheckpoint {
	for _, c := range s.checkpoints {
		if c.record.ID == id {
			return c
		}
	}
	return nil
}

// history returns what a position sees: what runs brought on the way to it, and all that was said
// outside of runs, by sequence. What was deleted is gone from it.
func (s *modelSession) history(at *modelCheckpoint) []*modelMessage {
	var seen []*modelMessage
	for _, v := range s.messages {
		outside := v.record.RunID == uuid.Nil
		if outside || at != nil && slices.Contains(at.path, v) {
			seen = append(seen, v)
		}
	}
	return seen // the session's are by sequence
}

// alive reports whether the run is there and goes on.
func (r *modelRun) alive() bool { return r.session != nil && !r.record.Status.Ended() }

// holds reports whether a fence is the run's.
func (r *modelRun) holds(f store.Fence) bool {
	return r.alive() && !r.released && r.record.Fence() == f
}

// position is where the run goes on from: nil in a session without checkpoints.
func (r *modelRun) position() *modelCheckpoint {
	switch {
	case r.last != nil:
		return r.last
	case r.record.Branch:
		return r.start
	}
	return r.session.head
}

// write puts steps that were given their sequences behind the run's position.
func (r *modelRun) write(steps []store.Step, tasks []store.Task, status checkpoint.Status, done *store.Committed) {
	s := r.session
	if r.last != nil && (len(steps) > 0 || status.Ended()) {
		r.last.tasks = nil
	}
	for i, step := range steps {
		before, c := r.position(), &modelCheckpoint{record: step.Checkpoint, run: r}
		c.record.SessionID, c.record.RunID = s.record.ID, r.record.ID
		c.record.Seq, c.record.Line, c.record.CreatedAt = done.Seqs[i], r.record.Line, done.CreatedAt
		if before != nil {
			c.path, c.documents = slices.Clone(before.path), slices.Clone(before.documents)
		}
		for _, v := range step.Messages {
			v.SessionID, v.CheckpointID, v.CreatedAt, v.Line = s.record.ID, step.Checkpoint.ID, done.CreatedAt, r.record.Line
			kept := &modelMessage{record: v, after: s.seq, before: done.Seqs[i]}
			c.path = append(c.path, kept)
			s.messages = append(s.messages, kept)
		}
		if d := step.Document; d != nil && d.Patch {
			c.documents = append(c.documents, *d)
		} else if d != nil {
			c.documents = []store.Document{*d}
		}
		s.seq = done.Seqs[i]
		s.checkpoints = append(s.checkpoints, c)
		r.last, r.record.Last = c, done.Seqs[i]
	}
	if r.last != nil {
		for _, t := range tasks {
			r.last.save(t)
		}
		if s.active == r {
			s.head = r.last
		}
	}
	s.latest, r.record.Takeovers = done.CreatedAt, 0
}

// save keeps a task: those that are done in the order in which they were, then those only started.
func (c *modelCheckpoint) save(t store.Task) {
	known := slices.IndexFunc(c.tasks, func(o store.Task) bool { return o.Key == t.Key })
	if known >= 0 {
		if c.tasks[known].Done || !t.Done {
			return
		}
		c.tasks = slices.Delete(c.tasks, known, known+1)
	}
	c.tasks = append(c.tasks, t)
	slices.SortStableFunc(c.tasks, func(a, b store.Task) int {
		switch {
		case a.Done == b.Done:
			return 0
		case a.Done:
			return -1
		}
		return 1
	})
}

// activate makes the run the one that continues its session. Its line is that of the head, or
// a new one.
func (r *modelRun) activate() {
	s := r.session
	s.active, r.record.Waiting = r, false
	if s.head != nil {
		r.record.Line = s.head.record.Line
	}
}

// end ends the run. The session's head stays that of the active run, if there is one.
func (r *modelRun) end(status checkpoint.Status, code, text string, at time.Time) {
	s := r.session
	r.record.Status, r.record.ErrorCode, r.record.Error, r.record.UpdatedAt = status, code, text, at
	r.record.Params, r.record.Waiting = nil, false
	s.waiting = slices.DeleteFunc(s.waiting, func(o *modelRun) bool { return o == r })
	if s.active == r {
		s.active = nil
	}
	if s.active == nil && r.last != nil {
		s.head = r.last
	}
	s.latest = at
}
