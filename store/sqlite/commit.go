package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/store"
)

// Commit implements [store.Store].
func (s *Store) Commit(ctx context.Context, w *store.Commit) (*store.Committed, error) {
	var committed store.Committed
	err := s.writeRun(ctx, "commit", func(ctx context.Context, c *conn) (err error) {
		committed, err = commit(ctx, c, w, s.now())
		return err
	})
	if err != nil {
		return nil, err
	}
	return &committed, nil
}

func commit(ctx context.Context, c *conn, w *store.Commit, now time.Time) (none store.Committed, err error) {
	if err := checkStatus(w.Status); err != nil {
		return none, err
	}
	r, err := needRun(ctx, c, w.Tenant, w.Run)
	if err != nil {
		return none, err
	}
	// Before the fence: the answer that got lost may be that of the run's end.
	if w.WriteID != uuid.Nil && r.writeID == w.WriteID {
		return r.committed(), nil
	}
	if err := r.check(w.Fence); err != nil {
		return none, err
	}
	if w.After != r.Last {
		return none, fmt.Errorf("run %s is at %d, not %d: %w", r.ID, r.Last, w.After, store.ErrConflict)
	}
	if r.Waiting && len(w.Steps) > 0 {
		return none, fmt.Errorf("run %s waits for its session: %w", r.ID, store.ErrConflict)
	}
	if r.CancelRequested && w.Status != checkpoint.Running && w.Status != checkpoint.Cancelled {
		return none, fmt.Errorf("run %s: %w", r.ID, store.ErrCancelRequested)
	}
	var from *position
	if seq := max(r.Last, r.start); seq != 0 && len(w.Steps) > 0 {
		if from, err = r.session.position(ctx, c, seq); err != nil {
			return none, err
		}
	}
	at := r.session.at(now)
	if err := r.commit(ctx, c, w, from, at, now); err != nil {
		return none, err
	}
	if err := r.save(ctx, c); err != nil {
		return none, err
	}
	if err := r.session.save(ctx, c); err != nil {
		return none, err
	}
	c.cache.keep(r)
	return r.committed(), nil
}

// committed is the answer to the run's last write.
func (r *run) committed() store.Committed {
	c, _, _ := decodeCommitted(r.Line, r.written, r.Waiting, r.session.Base)
	return c
}

func checkStatus(s checkpoint.Status) error {
	if checkpoint.ParseStatus(string(s)) != s {
		return fmt.Errorf("unknown run status %q", s)
	}
	return nil
}

// commit writes steps and tasks and changes the run and its session, which the caller saves.
// From is the checkpoint that the first step follows, nil if there is none.
func (r *run) commit(ctx context.Context, c *conn, w *store.Commit, from *position, at int64, now time.Time) error {
	s := &r.session
	ended := w.Status.Ended()
	if (len(w.Steps) > 0 || ended) && r.places != 0 {
		if err := c.exec(ctx, `DELETE FROM tasks WHERE k = ?`, key(s.sid, r.Last)); err != nil {
			return err
		}
		r.places = 0
	}
	committed := store.Committed{CreatedAt: fromNanos(at)}
	for i := range w.Steps {
		var err error
		if from, err = r.step(ctx, c, &w.Steps[i], from, at); err != nil {
			return err
		}
		committed.Seqs = append(committed.Seqs, from.seq)
		r.Last, s.known = from.seq, from
	}
	if r.Last != 0 {
		for _, t := range w.Tasks {
			if err := r.saveTask(ctx, c, t); err != nil {
				return err
			}
		}
	}
	if s.active == r.Seq && r.Last != 0 {
		s.Head = r.Last
	}
	r.writeID, r.written = w.WriteID, encodeCommitted(&committed)
	if r.Waiting {
		r.written = encodeBegun(r.written, true, s.Base)
	}
	r.LeaseUntil, r.Takeovers = lease(now, w.Lease), 0
	if ended {
		r.ErrorCode, r.Error = w.ErrorCode, w.Error
		r.end(w.Status, at)
	}
	return nil
}

// step writes a checkpoint with its messages and its document. It follows the checkpoint at
// from and returns its own position.
func (r *run) step(ctx context.Context, c *conn, step *store.Step, from *position, at int64) (*position, error) {
	s := &r.session
	cp := &step.Checkpoint
	for i := range step.Messages {
		seq, err := s.next()
		if err != nil {
			return nil, err
		}
		m := &step.Messages[i]
		if err := insertMessage(ctx, c, key(s.sid, seq), r.Line, m, cp.ID, at); err != nil {
			return nil, err
		}
	}
	seq, err := s.next()
	if err != nil {
		return nil, err
	}
	p := &position{id: cp.ID, seq: seq, line: r.Line}
	if from != nil {
		p.document = from.document
	}
	if d := step.Document; d != nil {
		var base any
		if d.Patch && p.document != 0 {
			base = p.document
		}
		if err := c.exec(ctx, `INSERT INTO documents (k, base, body) VALUES (?, ?, ?)`, key(s.sid, seq), base, notNull(d.Body)); err != nil {
			return nil, err
		}
		p.document = seq
	}
	parent, err := parentOf(ctx, c, s.sid, cp.ParentID, from)
	if err != nil {
		return nil, err
	}
	return p, c.exec(ctx, `INSERT INTO checkpoints (k, id, run, line, node, next, status, reason, parent, document, version, created, metadata)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		key(s.sid, seq), cp.ID[:], r.Seq, r.Line, cp.Node, cp.Next, statuses.encode(cp.Status), reasons.encode(cp.Reason),
		parent, p.document, cp.Version, at, blobOrNull(cp.Metadata))
}

// parentOf is how a parent is kept: as its sequence, where the session has it.
func parentOf(ctx context.Context, c *conn, sid int64, id uuid.UUID, from *position) (any, error) {
	if id == uuid.Nil {
		return nil, nil
	}
	if from == nil || from.id != id {
		var err error
		if from, err = findPosition(ctx, c, sid, id); err != nil {
			return nil, err
		}
	}
	if from == nil {
		return id[:], nil
	}
	return from.seq, nil
}

// SaveTask implements [store.Store].
func (s *Store) SaveTask(ctx context.Context, t *store.SaveTask) error {
	return s.writeRun(ctx, "save task", func(ctx context.Context, c *conn) error {
		r, err := heldRun(ctx, c, t.Fence)
		if err != nil {
			return err
		}
		if r.Last == 0 || t.Checkpoint != r.Last {
			return fmt.Errorf("run %s is at %d, not %d: %w", r.ID, r.Last, t.Checkpoint, store.ErrConflict)
		}
		if err := r.saveTask(ctx, c, t.Task); err != nil {
			return err
		}
		if r.Takeovers != 0 {
			r.Takeovers = 0
			if err := r.save(ctx, c); err != nil {
				return err
			}
		}
		c.cache.keep(r)
		return nil
	})
}

// saveTask keeps a task under the run's last checkpoint. One that is done stays as it is; one
// that was started and is done now gets its place among those that are done.
func (r *run) saveTask(ctx context.Context, c *conn, t store.Task) error {
	k := key(r.session.sid, r.Last)
	if r.places < 0 {
		// Apart, for within the INSERT it would cost several times as much as all else of it.
		err := c.each(ctx, `SELECT coalesce(max(place), 0) FROM tasks WHERE k = ?`, func(v row) error {
			r.places = v.int(0)
			return nil
		}, k)
		if err != nil {
			return err
		}
	}
	r.places++
	return c.exec(ctx, `INSERT INTO tasks (k, key, done, place, value) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (k, key) DO UPDATE SET done = excluded.done, place = excluded.place, value = excluded.value WHERE done < excluded.done`,
		k, t.Key, number(t.Done), r.places, blobOrNull(t.Value))
}
