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
	err := s.write(ctx, "begin", func(ctx context.Context, c *conn) (err error) {
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
	r.Status, r.Params, r.Owner, r.Epoch = checkpoint.Running, b.Params, b.Owner, b.Epoch
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
	if b.Params != nil {
		if err := c.exec(ctx, `INSERT INTO params (k, body) VALUES (?, ?)`, r.key(), b.Params); err != nil {
			return nil, err
		}
	}
	if err := r.commit(ctx, c, w, from, at, now); err != nil {
		return nil, err
	}
	if err := r.insert(ctx, c); err != nil {
		return nil, err
	}
	return r.begun(), r.session.save(ctx, c)
}

// begun is the answer to the Begin that was the run's last write.
func (r *run) begun() *store.Begun {
	return &store.Begun{Committed: decodeCommitted(r.Line, r.written), Waiting: r.Waiting, Branch: r.Branch, Seq: r.Seq, Base: r.session.Base}
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
	waiting, err := firstWaiting(ctx, c, s.sid)
	if err != nil {
		return nil, err
	}
	idle := s.active == 0 && waiting == nil
	r.Branch = from != nil && !(idle && from.seq == s.Head)
	if !r.Branch && !idle {
		if b.Wait {
			r.Waiting = true
			return nil, nil // it will be loaded again when its turn comes
		}
		if err := s.resolve(ctx, c); err != nil {
			return nil, err
		}
		if s.active == 0 {
			s.Active = *waiting
		}
		return nil, &store.BusyError{Session: s.ID, Run: s.Active}
	}
	if base != s.Base || !r.Branch && b.From.Head != s.Head {
		return nil, fmt.Errorf("session %s: %w", s.ID, store.ErrConflict)
	}
	return from, nil
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
	head, err := positionAt(ctx, c, s.sid, s.Head)
	if err != nil {
		return nil, err
	}
	r.Line, r.start = head.line, head.seq
	return head, nil
}

// A position is what a run needs to know of the checkpoint that its next one follows.
type position struct {
	id                  uuid.UUID
	seq, line, document int64
}

const positionColumns = `id, k, line, document`

func (p *position) scan(v row) {
	p.id, p.seq, p.line, p.document = v.id(0), v.int(1)&seqMask, v.int(2), v.int(3)
}

// positionAt returns the position of a checkpoint that is known to be there.
func positionAt(ctx context.Context, c *conn, sid, seq int64) (*position, error) {
	p := new(position)
	found, err := c.one(ctx, `SELECT `+positionColumns+` FROM checkpoints WHERE k = ?`, func(v row) error {
		p.scan(v)
		return nil
	}, key(sid, seq))
	if err == nil && !found {
		err = fmt.Errorf("checkpoint %d is missing: the database is damaged", seq)
	}
	return p, err
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
