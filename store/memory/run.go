package memory

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/store"
)

// A run is the record of one with what its next write needs.
type run struct {
	store.Run

	session *session
	start   *position // what it was built on; nil in a session without checkpoints
	last    *position // its last checkpoint; nil if it has none

	// The last write and what it returned, to recognise one that is repeated.
	writeID   uuid.UUID
	begun     *store.Begun // set if that was the Begin
	committed store.Committed
}

func (r *run) running() bool { return !r.Status.Ended() }

func (r *run) active() bool { return r.session.Active == r.ID }

// snapshot is the record as callers see it.
func (r *run) snapshot() *store.Run {
	out := r.Run
	out.Params = bytes.Clone(r.Params)
	return &out
}

// held returns ErrLost unless the fence is the run's and the run goes on.
func (r *run) held(f store.Fence) error {
	// A run that was given up has no owner, and nobody holds it by showing none.
	if !r.running() || r.Owner == uuid.Nil || r.Owner != f.Owner || r.Epoch != f.Epoch {
		return store.ErrLost
	}
	return nil
}

func (r *run) repeated(writeID uuid.UUID) bool {
	return writeID != uuid.Nil && writeID == r.writeID
}

// activate makes the run the one that continues its session.
func (r *run) activate() {
	ses := r.session
	ses.Active = r.ID
	r.start = ses.head
	if ses.head != nil {
		r.Line = ses.head.Line
	} else {
		r.Line = ses.openLine(nil)
	}
}

// end ends the run and settles the session's head: it belongs to the run that continues the
// session, and only when there is none to the branch that ended last (contract R42).
func (r *run) end(status checkpoint.Status, code, text string, at time.Time) {
	ses := r.session
	r.Status, r.ErrorCode, r.Error, r.UpdatedAt = status, code, text, at
	r.Params = nil
	if r.Waiting {
		r.Waiting = false
		ses.waiting = slices.DeleteFunc(ses.waiting, func(w *run) bool { return w == r })
	}
	if r.active() {
		ses.Active = uuid.Nil
	}
	if ses.Active == uuid.Nil && r.last != nil {
		ses.head = r.last
	}
}

func (s *Store) run(tenant string, id uuid.UUID) (*run, error) {
	r := s.runs[key{tenant, id}]
	if r == nil {
		return nil, &store.NotFoundError{Resource: store.RunResource, ID: id}
	}
	return r, nil
}

// Begin implements [store.Store].
func (s *Store) Begin(ctx context.Context, b *store.Begin) (*store.Begun, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	if r := s.runs[key{b.Tenant, b.Run}]; r != nil {
		if r.begun != nil && r.repeated(b.WriteID) {
			return cloneBegun(r.begun), nil
		}
		return nil, store.ErrExists
	}

	k, now := key{b.Tenant, b.Session}, s.now()
	ses := s.sessions[k]
	if ses == nil {
		ses = newSession(k, now) // kept once nothing can go wrong any more
	}
	from := ses.head
	if id := b.From.Checkpoint; id != uuid.Nil {
		from = s.checkpoints[key{b.Tenant, id}]
		if from == nil || from.SessionID != b.Session {
			return nil, &store.NotFoundError{Resource: store.CheckpointResource, ID: id}
		}
	}
	branch := b.From.Checkpoint != uuid.Nil && !(ses.idle() && from == ses.head)
	wait := false
	if !branch && !ses.idle() {
		if !b.Wait {
			return nil, &store.BusyError{Session: ses.ID, Run: ses.busyWith()}
		}
		wait = true
	}
	if !wait {
		if err := checkFrom(b, s.sessions[k], branch); err != nil {
			return nil, err
		}
		if err := s.checkNew(b.Tenant, b.Steps); err != nil {
			return nil, err
		}
	}

	s.sessions[k] = ses
	at := ses.touch(now)
	ses.UpdatedAt = at
	r := &run{
		Run: store.Run{
			Tenant: b.Tenant, ID: b.Run, Session: b.Session, Graph: b.Graph,
			Status: checkpoint.Running, CreatedAt: at, UpdatedAt: at,
			Seq: ses.next(), Attached: b.Attached, Branch: branch, Waiting: wait,
			Params: bytes.Clone(b.Params),
			Owner:  b.Owner, Epoch: b.Epoch, LeaseUntil: now.Add(b.Lease),
		},
		session: ses,
		writeID: b.WriteID,
	}
	s.runs[key{b.Tenant, b.Run}] = r
	ses.runs = append(ses.runs, r)
	r.committed.CreatedAt = at
	switch {
	case wait:
		ses.waiting = append(ses.waiting, r)
	case branch:
		r.start = from
		r.Line = ses.openLine(from)
	default:
		r.activate()
	}
	if !wait {
		r.committed.Seqs = s.write(r, b.Steps, b.Tasks, b.Status, at)
		if b.Status.Ended() {
			r.end(b.Status, b.ErrorCode, b.Error, at)
		}
	}
	r.committed.Line = r.Line
	r.begun = &store.Begun{Committed: r.committed, Waiting: wait, Branch: branch, Seq: r.Seq, Base: ses.Base}
	return cloneBegun(r.begun), nil
}

// checkFrom returns ErrConflict if the session moved on since the run's start was loaded. A
// session that does not exist is nil.
func checkFrom(b *store.Begin, ses *session, branch bool) error {
	var now store.Session
	if ses != nil {
		now = ses.snapshot()
	}
	if b.From.Base != now.Base || !branch && b.From.Head != now.Head {
		return store.ErrConflict
	}
	return nil
}

// Promote implements [store.Store].
func (s *Store) Promote(ctx context.Context, f store.Fence) (bool, error) {
	if err := s.lock(ctx); err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	r, err := s.run(f.Tenant, f.Run)
	if err != nil {
		return false, err
	}
	if err := r.held(f); err != nil {
		return false, err
	}
	ses := r.session
	if r.Waiting && ses.Active == uuid.Nil && ses.waiting[0] == r {
		ses.waiting = slices.Delete(ses.waiting, 0, 1)
		r.Waiting = false
		r.activate()
		ses.touch(s.now())
	}
	return r.active(), nil
}

// unclaimed reports whether nobody advances the run, which has not ended.
func (r *run) unclaimed(now time.Time) bool {
	return r.running() && (r.Owner == uuid.Nil || !now.Before(r.LeaseUntil))
}

// Claim implements [store.Store].
func (s *Store) Claim(ctx context.Context, c *store.Claim) ([]store.Run, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	now := s.now()
	var found []*run
	for _, r := range s.runs {
		if r.unclaimed(now) && slices.Contains(c.Graphs, r.Graph) && !slices.Contains(c.Except, r.ID) {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b *run) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.Seq, b.Seq), bytes.Compare(a.ID[:], b.ID[:]))
	})
	found = found[:min(len(found), max(c.Limit, 0))]
	runs := make([]store.Run, 0, len(found))
	for _, r := range found {
		r.Owner, r.LeaseUntil = c.Owner, now.Add(c.Lease)
		r.Epoch++
		r.Takeovers++
		runs = append(runs, *r.snapshot())
	}
	return runs, nil
}

// Backlog implements [store.Store].
func (s *Store) Backlog(ctx context.Context, graphs []string) (*store.Backlog, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	now := s.now()
	b := &store.Backlog{}
	for _, r := range s.runs {
		if !r.running() || !slices.Contains(graphs, r.Graph) {
			continue
		}
		b.Running++
		if r.Waiting {
			b.Waiting++
		}
		if !r.unclaimed(now) {
			continue
		}
		if b.Unclaimed++; b.Unclaimed == 1 || r.LeaseUntil.Before(b.Since) {
			b.Since = r.LeaseUntil
		}
	}
	return b, nil
}

// Renew implements [store.Store].
func (s *Store) Renew(ctx context.Context, n *store.Renew) (*store.Renewed, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	until := s.now().Add(n.Lease)
	out := &store.Renewed{}
	for _, f := range n.Fences {
		r := s.runs[key{f.Tenant, f.Run}]
		if r == nil || r.held(f) != nil {
			out.Lost = append(out.Lost, f.Run)
			continue
		}
		r.LeaseUntil = until
		if r.CancelRequested {
			out.Cancels = append(out.Cancels, f.Run)
		}
	}
	return out, nil
}

// RequestCancel implements [store.Store].
func (s *Store) RequestCancel(ctx context.Context, tenant string, id uuid.UUID) (*store.Run, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	r, err := s.run(tenant, id)
	if err != nil {
		return nil, err
	}
	if r.running() {
		r.CancelRequested = true
		if r.Waiting {
			r.end(checkpoint.Cancelled, "", "", r.session.touch(s.now()))
		}
	}
	return r.snapshot(), nil
}

// Release implements [store.Store].
func (s *Store) Release(ctx context.Context, f store.Fence) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	r, err := s.run(f.Tenant, f.Run)
	if err != nil {
		return err
	}
	if err := r.held(f); err != nil {
		return err
	}
	r.Owner, r.LeaseUntil, r.Attached = uuid.Nil, s.now(), false
	r.Takeovers = max(r.Takeovers-1, 0)
	return nil
}

// Run implements [store.Store].
func (s *Store) Run(ctx context.Context, tenant string, id uuid.UUID) (*store.Run, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	r, err := s.run(tenant, id)
	if err != nil {
		return nil, err
	}
	return r.snapshot(), nil
}

func cloneBegun(b *store.Begun) *store.Begun {
	out := *b
	out.Seqs = slices.Clone(b.Seqs)
	return &out
}
