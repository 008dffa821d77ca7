package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/store"
)

// Begin implements [store.Store].
func (s *Store) Begin(ctx context.Context, b *store.Begin) (*store.Begun, error) {
	var begun *store.Begun
	err := s.writeRun(ctx, "begin", func(ctx context.Context, c *conn) (err error) {
		begun, err = begin(ctx, c, b, s.now())
		return err
	})
	if err != nil {
		return nil, err
	}
	return begun, nil
}

func begin(ctx context.Context, c *conn, b *store.Begin, now time.Time) (*store.Begun, error) {
	if err := checkStatus(b.Status); err != nil {
		return nil, err
	}
	known, err := findRun(ctx, c, b.Tenant, b.Run)
	if err != nil {
		return nil, err
	}
	if known != nil {
		if b.WriteID != uuid.Nil && known.writeID == b.WriteID {
			return known.begun(), nil
		}
		return nil, fmt.Errorf("run %s: %w", b.Run, store.ErrExists)
	}
	s, err := findSession(ctx, c, b.Tenant, b.Session)
	if err != nil {
		return nil, err
	}
	base := b.From.Base
	if s == nil {
		// Whatever it was built on is gone with the session.
		if b.From.Checkpoint != uuid.Nil {
			return nil, &store.NotFoundError{Resource: store.CheckpointResource, ID: b.From.Checkpoint}
		}
		if b.From.Head != 0 || base != 0 {
			return nil, fmt.Errorf("session %s does not exist any more: %w", b.Session, store.ErrConflict)
		}
		if s, err = newSession(ctx, c, b.Tenant, b.Session, now); err != nil {
			return nil, err
		}
		base = s.Base
	}
	r := &run{session: *s}
	r.Tenant, r.ID, r.Session, r.Graph, r.Attached = b.Tenant, b.Run, b.Session, b.Graph, b.Attached
	r.Status, r.Owner, r.Epoch = checkpoint.Running, b.Owner, b.Epoch
	from, err := r.place(ctx, c, b, base)
	if err != nil {
		return nil, err
	}
	at := r.session.at(now)
	r.CreatedAt, r.UpdatedAt, r.session.UpdatedAt = fromNanos(at), fromNanos(at), fromNanos(at)
	if r.Seq, err = r.session.next(); err != nil {
		return nil, err
	}
	switch {
	case r.Waiting:
	case r.Branch:
		r.start = from.seq
		r.Line, err = r.session.open(ctx, c, from.line, from.seq)
	default:
		r.session.active = r.Seq
		from, err = r.continueHead(ctx, c)
	}
	if err != nil {
		return nil, err
	}
	w := &store.Commit{WriteID: b.WriteID, Status: checkpoint.Running, Lease: b.Lease}
	if !r.Waiting {
		w.Steps, w.Tasks, w.Status, w.ErrorCode, w.Error = b.Steps, b.Tasks, b.Status, b.ErrorCode, b.Error
	}
	if err := r.commit(ctx, c, w, from, at, now); err != nil {
		return nil, err
	}
	if !r.Waiting {
		r.written = encodeBegun(r.written, false, r.session.Base)
	}
	if err := r.insert(ctx, c, b.Params); err != nil {
		return nil, err
	}
	if err := r.session.save(ctx, c); err != nil {
		return nil, err
	}
	c.cache.keep(r)
	return r.begun(), nil
}

// begun is the answer to the Begin that was the run's last write, as it was then: the run may have
// got its turn and the session a new base.
func (r *run) begun() *store.Begun {
	c, waiting, base := decodeCommitted(r.Line, r.written, r.Waiting, r.session.Base)
	return &store.Begun{Committed: c, Waiting: waiting, Branch: r.Branch, Seq: r.Seq, Base: base}
}

// place decides whether a new run continues its session, is a branch or waits, and whether it
// may. Base is the session's as the run knows it. A branch gets the position it starts from.
func (r *run) place(ctx context.Context, c *conn, b *store.Begin, base int64) (*position, error) {
	s := &r.session
	var from *position
	if b.From.Checkpoint != uuid.Nil {
		var err error
		if from, err = findPosition(ctx, c, s.sid, b.From.Checkpoint); err != nil {
			return nil, err
		}
		if from == nil {
			return nil, &store.NotFoundError{Resource: store.CheckpointResource, ID: b.From.Checkpoint}
		}
	}
	idle := s.active == 0 && s.waiting == 0
	r.Branch = from != nil && !(idle && from.seq == s.Head)
	if !r.Branch && !idle {
		if b.Wait {
			r.Waiting = true
			s.waiting++
			return nil, nil // it will be loaded again when its turn comes
		}
		return nil, s.busy(ctx, c)
	}
	if base != s.Base || !r.Branch && b.From.Head != s.Head {
		return nil, fmt.Errorf("session %s: %w", s.ID, store.ErrConflict)
	}
	return from, nil
}

// busy is the error for a run that would continue a session that is not idle. It names the run
// that has it, or will have it next.
func (s *session) busy(ctx context.Context, c *conn) error {
	if s.active == 0 {
		first, err := firstWaiting(ctx, c, s.sid)
		if err != nil {
			return err
		}
		return &store.BusyError{Session: s.ID, Run: first}
	}
	if err := s.resolve(ctx, c); err != nil {
		return err
	}
	return &store.BusyError{Session: s.ID, Run: s.Active}
}

// continueHead gives the run the line of its session's head, or a first line, and returns the
// head.
func (r *run) continueHead(ctx context.Context, c *conn) (*position, error) {
	s := &r.session
	if s.Head == 0 {
		var err error
		r.Line, err = s.open(ctx, c, 0, 0)
		return nil, err
	}
	head, err := s.position(ctx, c, s.Head)
	if err != nil {
		return nil, err
	}
	r.Line, r.start = head.line, head.seq
	return head, nil
}

// A position is what a run needs to know of the checkpoint that its next one follows. It does
// not change.
type position struct {
	id                  uuid.UUID
	seq, line, document int64
}

const positionColumns = `id, k, line, document`

func (p *position) scan(v row) {
	p.id, p.seq, p.line, p.document = v.id(0), v.int(1)&seqMask, v.int(2), v.int(3)
}

// position returns the position of a checkpoint that is known to be there.
func (s *session) position(ctx context.Context, c *conn, seq int64) (*position, error) {
	if s.known != nil && s.known.seq == seq {
		return s.known, nil
	}
	p := new(position)
	found, err := c.one(ctx, `SELECT `+positionColumns+` FROM checkpoints WHERE k = ?`, func(v row) error {
		p.scan(v)
		return nil
	}, key(s.sid, seq))
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, fmt.Errorf("checkpoint %d is missing: the database is damaged", seq)
	}
	s.known = p
	return p, nil
}

// findPosition returns nil if the session has no checkpoint of that id.
func findPosition(ctx context.Context, c *conn, sid int64, id uuid.UUID) (*position, error) {
	var p *position
	err := c.each(ctx, `SELECT `+positionColumns+` FROM checkpoints INDEXED BY checkpoints_id WHERE id = CAST(? AS BLOB) AND k BETWEEN ? AND ?`, func(v row) error {
		p = new(position)
		p.scan(v)
		return nil
	}, id[:], key(sid, 0), key(sid, seqMask))
	return p, err
}
