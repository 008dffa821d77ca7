package sqlite

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/store"
)

// Load implements [store.Store].
func (s *Store) Load(ctx context.Context, l *store.Load) (*store.Position, error) {
	var p *store.Position
	err := s.read(ctx, "load", func(c *conn) (err error) {
		p, err = load(ctx, c, l)
		return err
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

func load(ctx context.Context, c *conn, l *store.Load) (*store.Position, error) {
	p := new(store.Position)
	in, seq, err := locate(ctx, c, l, p)
	if err != nil {
		return nil, err
	}
	if err := in.resolve(ctx, c); err != nil {
		return nil, err
	}
	p.Session = in.Session
	if seq != 0 {
		if p.Checkpoint, err = checkpointAt(ctx, c, in, seq); err != nil {
			return nil, err
		}
		if p.Tasks, err = tasksOf(ctx, c, key(in.sid, seq)); err != nil {
			return nil, err
		}
	}
	if p.Checkpoint != nil {
		if p.Documents, err = documents(ctx, c, in.sid, p.Checkpoint.Document); err != nil {
			return nil, err
		}
	}
	p.Messages, err = history(ctx, c, in, p.Checkpoint)
	return p, err
}

// locate finds the session and the sequence of the checkpoint that is wanted, zero if there is
// none. It fills in the run.
func locate(ctx context.Context, c *conn, l *store.Load, p *store.Position) (*session, int64, error) {
	if l.Run != uuid.Nil {
		r, err := needRun(ctx, c, l.Tenant, l.Run)
		if err != nil {
			return nil, 0, err
		}
		p.Run = &r.Run
		if err := r.readParams(ctx, c); err != nil {
			return nil, 0, err
		}
		switch {
		case r.Last != 0:
			return &r.session, r.Last, nil
		case r.Branch:
			// Where a branch starts is not the head, and its line has the history of that place.
			return &r.session, r.start, nil
		}
		return &r.session, r.session.Head, nil
	}
	in, err := needSession(ctx, c, l.Tenant, l.Session)
	if err != nil {
		return nil, 0, err
	}
	if l.Checkpoint == uuid.Nil {
		return in, in.Head, nil
	}
	at, err := findPosition(ctx, c, in.sid, l.Checkpoint)
	if err != nil {
		return nil, 0, err
	}
	if at == nil {
		return nil, 0, &store.NotFoundError{Resource: store.CheckpointResource, ID: l.Checkpoint}
	}
	return in, at.seq, nil
}

func tasksOf(ctx context.Context, c *conn, k int64) ([]store.Task, error) {
	var tasks []store.Task
	err := c.each(ctx, `SELECT key, done, value FROM tasks WHERE k = ? ORDER BY done DESC, place`, func(v row) error {
		tasks = append(tasks, store.Task{Key: v.text(0), Done: v.bool(1), Value: v.blob(2)})
		return nil
	}, k)
	return tasks, err
}

// documents returns the chain that ends with the document of a sequence.
func documents(ctx context.Context, c *conn, sid, seq int64) ([]store.Document, error) {
	if seq == 0 {
		return nil, nil
	}
	var chain []store.Document
	// The keys first and the bodies afterwards, for the recursion copies what it selects. Each
	// base is older than its patch, so the keys have the order of the chain.
	err := c.each(ctx, `WITH RECURSIVE chain (k, base) AS (
			SELECT k, base FROM documents WHERE k = ?1
			UNION ALL
			SELECT d.k, d.base FROM chain JOIN documents d ON d.k = ?2 + chain.base WHERE chain.base IS NOT NULL
		) SELECT d.base, d.body FROM chain CROSS JOIN documents d ON d.k = chain.k ORDER BY chain.k`, func(v row) error {
		chain = append(chain, store.Document{Patch: v[0] != nil, Body: v.blob(1)})
		return nil
	}, key(sid, seq), key(sid, 0))
	if err == nil && (len(chain) == 0 || chain[0].Patch) {
		err = fmt.Errorf("document %d is missing: the database is damaged", seq)
	}
	return chain, err
}

// history returns the messages that a checkpoint sees, by sequence; without a checkpoint those
// that no run brought.
func history(ctx context.Context, c *conn, in *session, cp *checkpoint.Checkpoint) ([]store.Message, error) {
	messages := make([]store.Message, 0, min(in.seq/4, 1024)) // rarely much too many
	collect := func(v row) error {
		messages = append(messages, store.Message{})
		scanMessage(&messages[len(messages)-1], in.ID, v)
		return nil
	}
	end := int64(0)
	if cp != nil {
		lines, err := ancestry(ctx, c, in.sid, cp.Line)
		if err != nil {
			return nil, err
		}
		// The spans follow each other without a gap, from the root on. So each is read with the
		// messages of no line that lie in it, and what comes out is in order.
		for _, span := range checkpoint.History(lines, cp.Line, cp.Seq) {
			err := c.each(ctx, `SELECT `+messageColumns+` FROM messages m WHERE m.k > ? AND m.k <= ? AND m.line IN (CAST(? AS INTEGER), 0)`,
				collect, key(in.sid, span.From), key(in.sid, span.To), span.Line)
			if err != nil {
				return nil, err
			}
			end = span.To
		}
	}
	err := c.each(ctx, `SELECT `+messageColumns+` FROM messages m INDEXED BY messages_base WHERE m.line = 0 AND m.k > ? AND m.k <= ? ORDER BY m.k`,
		collect, key(in.sid, end), key(in.sid, seqMask))
	return messages, err
}

// ancestry returns a line and those it comes from.
func ancestry(ctx context.Context, c *conn, sid, line int64) ([]checkpoint.Line, error) {
	var lines []checkpoint.Line
	err := c.each(ctx, `WITH RECURSIVE up (k, parent, fork) AS (
			SELECT k, parent, fork FROM lines WHERE k = ?1
			UNION
			SELECT l.k, l.parent, l.fork FROM up JOIN lines l ON l.k = ?2 + up.parent WHERE up.parent <> 0
		) SELECT k, parent, fork FROM up`, func(v row) error {
		lines = append(lines, checkpoint.Line{ID: v.int(0) & seqMask, Parent: v.int(1), Fork: v.int(2)})
		return nil
	}, key(sid, line), key(sid, 0))
	return lines, err
}
