package memory

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/store"
)

// in reports whether a filter holds for a value; an empty one always does.
func in[T comparable](filter []T, value T) bool {
	return len(filter) == 0 || slices.Contains(filter, value)
}

// Sessions implements [store.Store].
func (s *Store) Sessions(ctx context.Context, q *store.SessionQuery) (*store.Page[store.Session], error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	at, follows, err := store.DecodeCursor(q, q.Page)
	if err != nil {
		return nil, err
	}
	var found []store.Session
	for k, ses := range s.sessions {
		if k.tenant == q.Tenant && in(q.IDs, k.id) && q.Created.Contains(ses.CreatedAt) && q.Updated.Contains(ses.UpdatedAt) {
			found = append(found, ses.snapshot())
		}
	}
	slices.SortFunc(found, func(a, b store.Session) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), bytes.Compare(b.ID[:], a.ID[:]))
	})
	page := &store.Page[store.Session]{Count: len(found)}
	if follows {
		// The key of the last page's end: what stands behind it, whether it still exists or not.
		n, exact := slices.BinarySearchFunc(found, at, func(ses store.Session, at store.Cursor) int {
			return cmp.Or(at.Created.Compare(ses.CreatedAt), bytes.Compare(at.ID[:], ses.ID[:]))
		})
		if exact {
			n++
		}
		found = found[n:]
	}
	page.Items = found[:min(len(found), q.Limit())]
	if len(found) > len(page.Items) {
		last := page.Items[len(page.Items)-1]
		page.Next = store.EncodeCursor(q, store.Cursor{Created: last.CreatedAt, ID: last.ID})
	}
	return page, nil
}

// A list is a list of a session as it is asked for: records by sequence, which of them, and what
// callers see of one.
type list[R, T any] struct {
	records []R
	seq     func(R) int64
	match   func(R) bool
	item    func(R) T
}

// page reads the list from its newest end.
func (l list[R, T]) page(query any, p store.Paging) (*store.Page[T], error) {
	at, follows, err := store.DecodeCursor(query, p.Page)
	if err != nil {
		return nil, err
	}
	page := &store.Page[T]{}
	var last int64
	for _, r := range slices.Backward(l.records) {
		if !l.match(r) {
			continue
		}
		page.Count++
		switch {
		case follows && l.seq(r) >= at.Seq || page.Next != "":
		case len(page.Items) == p.Limit():
			page.Next = store.EncodeCursor(query, store.Cursor{Seq: last})
		default:
			page.Items = append(page.Items, l.item(r))
			last = l.seq(r)
		}
	}
	return page, nil
}

// Runs implements [store.Store].
func (s *Store) Runs(ctx context.Context, q *store.RunQuery) (*store.Page[store.Run], error) {
	ses, err := s.lockSession(ctx, q.Tenant, q.Session)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return list[*run, store.Run]{
		records: ses.runs,
		seq:     func(r *run) int64 { return r.Seq },
		match: func(r *run) bool {
			return in(q.IDs, r.ID) && in(q.Statuses, r.Status) && q.Created.Contains(r.CreatedAt) && q.Updated.Contains(r.UpdatedAt)
		},
		item: func(r *run) store.Run { return *r.snapshot() },
	}.page(q, q.Paging)
}

// Checkpoints implements [store.Store].
func (s *Store) Checkpoints(ctx context.Context, q *store.CheckpointQuery) (*store.Page[checkpoint.Checkpoint], error) {
	ses, err := s.lockSession(ctx, q.Tenant, q.Session)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return list[*position, checkpoint.Checkpoint]{
		records: ses.positions,
		seq:     func(p *position) int64 { return p.Seq },
		match: func(p *position) bool {
			return in(q.IDs, p.ID) && in(q.Runs, p.RunID) && in(q.Reasons, p.Reason) && in(q.Statuses, p.Status) && q.Created.Contains(p.CreatedAt)
		},
		item: func(p *position) checkpoint.Checkpoint { return *p.snapshot() },
	}.page(q, q.Paging)
}

// Messages implements [store.Store].
func (s *Store) Messages(ctx context.Context, q *store.MessageQuery) (*store.Page[store.Message], error) {
	ses, err := s.lockSession(ctx, q.Tenant, q.Session)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return list[*store.Message, store.Message]{
		records: ses.messages,
		seq:     func(m *store.Message) int64 { return m.Seq },
		match: func(m *store.Message) bool {
			return in(q.IDs, m.ID) && in(q.Runs, m.RunID) && in(q.Checkpoints, m.CheckpointID) && in(q.Roles, m.Role) && q.Created.Contains(m.CreatedAt)
		},
		item: func(m *store.Message) store.Message { return *cloneMessage(m) },
	}.page(q, q.Paging)
}

// lockSession is lock for the calls that look at one session. Without an error, the caller unlocks.
func (s *Store) lockSession(ctx context.Context, tenant string, id uuid.UUID) (*session, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	ses, err := s.session(tenant, id)
	if err != nil {
		s.mu.Unlock()
		return nil, err
	}
	return ses, nil
}
