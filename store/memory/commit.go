package memory

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/store"
)

// A position is a checkpoint with its document and the tasks kept under it. But for the tasks it
// is never changed.
type position struct {
	checkpoint.Checkpoint
	document *document
	tasks    []store.Task
}

// snapshot is the checkpoint as callers see it.
func (p *position) snapshot() *checkpoint.Checkpoint {
	out := p.Checkpoint
	out.Metadata = bytes.Clone(p.Metadata)
	return &out
}

// A document is one link of a chain; it holds on to the link that it patches. It is never changed.
type document struct {
	seq    int64
	patch  bool
	body   []byte
	before *document // of a patch
}

// chain returns the links that make up the document, the whole one first.
func (d *document) chain() []*document {
	var chain []*document
	for ; d != nil; d = d.before {
		chain = append(chain, d)
	}
	slices.Reverse(chain)
	return chain
}

// Commit implements [store.Store].
func (s *Store) Commit(ctx context.Context, c *store.Commit) (*store.Committed, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	r, err := s.run(c.Tenant, c.Run)
	if err != nil {
		return nil, err
	}
	if r.repeated(c.WriteID) {
		return cloneCommitted(r.committed), nil
	}
	if err := r.held(c.Fence); err != nil {
		return nil, err
	}
	if c.After != r.Last || r.Waiting && len(c.Steps) > 0 {
		return nil, store.ErrConflict
	}
	if r.CancelRequested && c.Status.Ended() && c.Status != checkpoint.Cancelled {
		return nil, store.ErrCancelRequested
	}
	if err := s.checkNew(c.Tenant, c.Steps); err != nil {
		return nil, err
	}

	now := s.now()
	at := r.session.touch(now)
	seqs := s.write(r, c.Steps, c.Tasks, c.Status, at)
	r.LeaseUntil = now.Add(c.Lease)
	r.Takeovers = 0
	if c.Status.Ended() {
		r.end(c.Status, c.ErrorCode, c.Error, at)
	}
	r.writeID, r.begun = c.WriteID, nil
	r.committed = store.Committed{Line: r.Line, CreatedAt: at, Seqs: seqs}
	return cloneCommitted(r.committed), nil
}

func cloneCommitted(c store.Committed) *store.Committed {
	c.Seqs = slices.Clone(c.Seqs)
	return &c
}

// checkNew returns ErrExists for a checkpoint whose id is taken.
func (s *Store) checkNew(tenant string, steps []store.Step) error {
	for i := range steps {
		if s.checkpoints[key{tenant, steps[i].Checkpoint.ID}] != nil {
			return store.ErrExists
		}
	}
	return nil
}

// write puts steps on the run's line, the messages of each before its checkpoint, and moves the
// run to the last one, with the tasks. It returns the checkpoints' sequences.
func (s *Store) write(r *run, steps []store.Step, tasks []store.Task, status checkpoint.Status, at time.Time) []int64 {
	ses := r.session
	var doc *document
	switch {
	case r.last != nil:
		doc = r.last.document
	case r.start != nil:
		doc = r.start.document
	}
	if r.last != nil && (len(steps) > 0 || status.Ended()) {
		r.last.tasks = nil // the new checkpoints hold their results, or nobody needs them
	}
	seqs := make([]int64, 0, len(steps))
	for i := range steps {
		step := &steps[i]
		for j := range step.Messages {
			m := step.Messages[j]
			m.SessionID, m.CheckpointID, m.CreatedAt = ses.ID, step.Checkpoint.ID, at
			m.Line = r.Line
			s.add(ses, m)
		}
		p := &position{Checkpoint: step.Checkpoint}
		p.SessionID, p.RunID, p.CreatedAt = ses.ID, r.ID, at
		p.Seq, p.Line = ses.next(), r.Line
		p.Metadata = bytes.Clone(p.Metadata)
		if d := step.Document; d != nil {
			next := &document{seq: p.Seq, patch: d.Patch, body: bytes.Clone(d.Body)}
			if d.Patch {
				next.before = doc
			}
			doc = next
		}
		p.document, p.Document = doc, 0
		if doc != nil {
			p.Document = doc.seq
		}
		s.checkpoints[key{ses.Tenant, p.ID}] = p
		ses.positions = append(ses.positions, p)
		seqs = append(seqs, p.Seq)
		r.last, r.Last = p, p.Seq
	}
	if r.last == nil {
		return seqs
	}
	for _, t := range tasks {
		r.last.saveTask(t)
	}
	if r.active() {
		ses.head = r.last
	}
	return seqs
}

// SaveTask implements [store.Store].
func (s *Store) SaveTask(ctx context.Context, t *store.SaveTask) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	r, err := s.run(t.Tenant, t.Run)
	if err != nil {
		return err
	}
	if err := r.held(t.Fence); err != nil {
		return err
	}
	if r.last == nil || t.Checkpoint != r.Last {
		return store.ErrConflict
	}
	r.last.saveTask(t.Task)
	r.Takeovers = 0
	return nil
}

// saveTask keeps the tasks in the order in which Load gives them: the done ones by when they were
// done, then those that are only started.
func (p *position) saveTask(t store.Task) {
	i := slices.IndexFunc(p.tasks, func(old store.Task) bool { return old.Key == t.Key })
	if i >= 0 {
		if p.tasks[i].Done {
			return
		}
		if t.Done {
			p.tasks = slices.Delete(p.tasks, i, i+1)
		}
	}
	t.Value = bytes.Clone(t.Value)
	switch {
	case t.Done:
		n := slices.IndexFunc(p.tasks, func(old store.Task) bool { return !old.Done })
		if n < 0 {
			n = len(p.tasks)
		}
		p.tasks = slices.Insert(p.tasks, n, t)
	case i >= 0:
		p.tasks[i] = t
	default:
		p.tasks = append(p.tasks, t)
	}
}

// Checkpoint implements [store.Store].
func (s *Store) Checkpoint(ctx context.Context, tenant string, id uuid.UUID) (*checkpoint.Checkpoint, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	p := s.checkpoints[key{tenant, id}]
	if p == nil {
		return nil, &store.NotFoundError{Resource: store.CheckpointResource, ID: id}
	}
	return p.snapshot(), nil
}
