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

// A session is the record of one with all that belongs to it.
type session struct {
	store.Session // Head is kept in head, and filled in by snapshot

	seq   int64     // the last sequence that was given
	stamp time.Time // the time of what was written last

	head      *position // nil: no checkpoint to continue from
	lines     []checkpoint.Line
	positions []*position // by sequence, like the next three
	runs      []*run
	waiting   []*run
	messages  []*store.Message
	onLine    map[int64][]*store.Message // the same messages by line
}

func newSession(k key, at time.Time) *session {
	return &session{
		Session: store.Session{Tenant: k.tenant, ID: k.id, CreatedAt: at, UpdatedAt: at, Base: at.UnixNano()},
		stamp:   at,
		onLine:  map[int64][]*store.Message{},
	}
}

// snapshot is the record as callers see it.
func (ses *session) snapshot() store.Session {
	s := ses.Session
	if ses.head != nil {
		s.Head = ses.head.Seq
	}
	return s
}

// touch returns the created time for what is written now. A clock that went back does not bring
// the times out of the order of the sequences.
func (ses *session) touch(now time.Time) time.Time {
	if now.After(ses.stamp) {
		ses.stamp = now
	}
	return ses.stamp
}

func (ses *session) next() int64 {
	ses.seq++
	return ses.seq
}

// openLine begins a line that leaves another one at a position, or a first line at nil.
func (ses *session) openLine(from *position) int64 {
	line := checkpoint.Line{ID: int64(len(ses.lines)) + 1}
	if from != nil {
		line.Parent, line.Fork = from.Line, from.Seq
	}
	ses.lines = append(ses.lines, line)
	return line.ID
}

func (ses *session) idle() bool {
	return ses.Active == uuid.Nil && len(ses.waiting) == 0
}

// busyWith is the run that a [store.BusyError] names: the active one, or the one that is next.
func (ses *session) busyWith() uuid.UUID {
	if ses.Active == uuid.Nil && len(ses.waiting) > 0 {
		return ses.waiting[0].ID
	}
	return ses.Active
}

// drop forgets a session and every record that belongs to it.
func (s *Store) drop(ses *session) {
	for _, r := range ses.runs {
		delete(s.runs, key{ses.Tenant, r.ID})
	}
	for _, p := range ses.positions {
		delete(s.checkpoints, key{ses.Tenant, p.ID})
	}
	for _, m := range ses.messages {
		s.forget(ses.Tenant, m)
	}
	delete(s.sessions, key{ses.Tenant, ses.ID})
}

func (s *Store) session(tenant string, id uuid.UUID) (*session, error) {
	ses := s.sessions[key{tenant, id}]
	if ses == nil {
		return nil, &store.NotFoundError{Resource: store.SessionResource, ID: id}
	}
	return ses, nil
}

// CreateSession implements [store.Store].
func (s *Store) CreateSession(ctx context.Context, tenant string, id uuid.UUID) (*store.Session, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	k := key{tenant, id}
	if s.sessions[k] != nil {
		return nil, store.ErrExists
	}
	ses := newSession(k, s.now())
	s.sessions[k] = ses
	out := ses.snapshot()
	return &out, nil
}

// Session implements [store.Store].
func (s *Store) Session(ctx context.Context, tenant string, id uuid.UUID) (*store.Session, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	ses, err := s.session(tenant, id)
	if err != nil {
		return nil, err
	}
	out := ses.snapshot()
	return &out, nil
}

// DeleteSession implements [store.Store].
func (s *Store) DeleteSession(ctx context.Context, tenant string, id uuid.UUID) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	ses, err := s.session(tenant, id)
	if err != nil {
		return err
	}
	s.drop(ses)
	return nil
}

// Prune implements [store.Store]. A session is used by everything that is written in it, not only
// by the start of a run. The sessions unused for longest go first.
func (s *Store) Prune(ctx context.Context, p *store.Prune) (int, error) {
	if err := s.lock(ctx); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	var all, old []*session
	for k, ses := range s.sessions {
		if p.Tenant == "" || p.Tenant == k.tenant {
			all = append(all, ses)
		}
	}
	slices.SortFunc(all, func(a, b *session) int {
		return cmp.Or(a.stamp.Compare(b.stamp), bytes.Compare(a.ID[:], b.ID[:]))
	})
	later := make(map[string]int) // sessions of a tenant that were used later
	for _, ses := range slices.Backward(all) {
		surplus := p.Keep > 0 && later[ses.Tenant] >= p.Keep
		later[ses.Tenant]++
		if (surplus || ses.stamp.Before(p.Before)) && !slices.ContainsFunc(ses.runs, (*run).running) {
			old = append(old, ses)
		}
	}
	slices.Reverse(old)
	old = old[:min(len(old), max(p.Limit, 0))]
	for _, ses := range old {
		s.drop(ses)
	}
	return len(old), nil
}
