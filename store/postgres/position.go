package postgres

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/store"
)

// Load implements [store.Store]. It takes two round trips, which see one moment of the database:
// one finds the checkpoint, the other reads it with all that belongs to it.
func (s *Store) Load(ctx context.Context, l *store.Load) (*store.Position, error) {
	var p *store.Position
	err := s.read(ctx, "load", func(ctx context.Context, c *pgx.Conn) error {
		p = new(store.Position)
		sid, seq, err := s.locate(ctx, c, l, p)
		if err != nil {
			return err
		}
		return s.readPosition(ctx, c, sid, seq, p)
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// locate begins a snapshot and finds the session and the sequence of the checkpoint that is wanted,
// zero if there is none. It fills in the session and the run.
func (s *Store) locate(ctx context.Context, c *pgx.Conn, l *store.Load, p *store.Position) (sid, seq int64, err error) {
	var in *session
	var r *run
	scanSession := func(row pgx.Row) error {
		in = new(session)
		return row.Scan(in.dest()...)
	}
	b := s.batch()
	b.exec(snapshot)
	if l.Run != uuid.Nil {
		b.each(selectRun, func(row pgx.Row) error {
			r = new(run)
			return r.scan(row, &r.Params)
		}, []byte(l.Tenant), uid(l.Run))
		b.each(`SELECT `+sessionColumns+` FROM everstep.runs r JOIN everstep.sessions s ON s.sid = r.sid WHERE r.tenant = $1 AND r.id = $2`, scanSession, []byte(l.Tenant), uid(l.Run))
		if err := b.send(ctx, c); err != nil {
			return 0, 0, err
		}
		if r == nil || in == nil {
			return 0, 0, missingRun(l.Run)
		}
		p.Run, p.Session = &r.Run, in.Session
		switch {
		case r.Last != 0:
			return in.sid, r.Last, nil
		case r.Branch:
			// Where a branch starts is not the head, and its line has the history of that place.
			return in.sid, r.start, nil
		}
		return in.sid, in.Head, nil
	}
	b.each(`SELECT `+sessionColumns+` FROM everstep.sessions s WHERE s.tenant = $1 AND s.id = $2`, scanSession, []byte(l.Tenant), uid(l.Session))
	var at position
	if l.Checkpoint != uuid.Nil {
		b.each(selectPosition+`s.tenant = $1 AND s.id = $2 AND c.id = $3`, at.scan, []byte(l.Tenant), uid(l.Session), uid(l.Checkpoint))
	}
	if err := b.send(ctx, c); err != nil {
		return 0, 0, err
	}
	switch {
	case in == nil:
		return 0, 0, missingSession(l.Session)
	case l.Checkpoint == uuid.Nil:
		at.seq = in.Head
	case at.seq == 0:
		return 0, 0, &store.NotFoundError{Resource: store.CheckpointResource, ID: l.Checkpoint}
	}
	p.Session = in.Session
	return in.sid, at.seq, nil
}

// readPosition reads what belongs to a checkpoint, and ends the snapshot.
func (s *Store) readPosition(ctx context.Context, c *pgx.Conn, sid, seq int64, p *store.Position) error {
	b := s.batch()
	b.each(`SELECT `+checkpointColumns+` FROM everstep.checkpoints c WHERE c.sid = $1 AND c.seq = $2`, func(row pgx.Row) error {
		p.Checkpoint = &checkpoint.Checkpoint{SessionID: p.Session.ID}
		return scanCheckpoint(p.Checkpoint, row)
	}, sid, seq)
	// Only tasks of a run's last checkpoint count: one that was saved at the same moment as the next
	// checkpoint may be left over.
	b.each(`SELECT t.key, t.done, t.value FROM everstep.tasks t WHERE t.sid = $1 AND t.checkpoint = $2
		AND EXISTS (SELECT 1 FROM everstep.runs r WHERE r.sid = t.sid AND r.last = t.checkpoint
			AND r.id = (SELECT c.run FROM everstep.checkpoints c WHERE c.sid = t.sid AND c.seq = t.checkpoint))
		ORDER BY t.done DESC, t.place`, func(row pgx.Row) error {
		var t store.Task
		err := row.Scan(intoText{&t.Key}, &t.Done, &t.Value)
		p.Tasks = append(p.Tasks, t)
		return err
	}, sid, seq)
	// Each base is older than its patch, so the keys have the order of the chain.
	b.each(`WITH RECURSIVE chain (seq, base) AS (
			SELECT d.seq, d.base FROM everstep.checkpoints c JOIN everstep.documents d ON d.sid = c.sid AND d.seq = c.document WHERE c.sid = $1 AND c.seq = $2
			UNION ALL
			SELECT d.seq, d.base FROM chain JOIN everstep.documents d ON d.sid = $1 AND d.seq = chain.base AND d.seq < chain.seq
		) SELECT d.base IS NOT NULL, d.body FROM chain JOIN everstep.documents d ON d.sid = $1 AND d.seq = chain.seq ORDER BY d.seq`, func(row pgx.Row) error {
		var d store.Document
		err := row.Scan(&d.Patch, &d.Body)
		p.Documents = append(p.Documents, d)
		return err
	}, sid, seq)
	// The spans of a history follow each other without a gap, from the root on. So each is read
	// with the messages of no line that lie in it, then those that came later. OFFSET keeps the
	// planner from anything but one range scan for each span.
	b.each(`WITH RECURSIVE span (line, parent, after, upto) AS (
			SELECT l.line, l.parent, l.fork, $2::bigint FROM everstep.checkpoints c JOIN everstep.lines l ON l.sid = c.sid AND l.line = c.line WHERE c.sid = $1 AND c.seq = $2
			UNION ALL
			SELECT l.line, l.parent, l.fork, span.after FROM span JOIN everstep.lines l ON l.sid = $1 AND l.line = span.parent AND l.line < span.line
		)
		SELECT m.* FROM span CROSS JOIN LATERAL (
			SELECT `+messageColumns+` FROM everstep.messages m WHERE m.sid = $1 AND m.seq > span.after AND m.seq <= span.upto AND m.line IN (span.line, 0) OFFSET 0
		) AS m
		UNION ALL
		SELECT `+messageColumns+` FROM everstep.messages m WHERE m.sid = $1 AND m.seq > $2 AND m.line = 0
		ORDER BY seq`, func(row pgx.Row) error {
		m := store.Message{}
		m.SessionID = p.Session.ID
		err := scanMessage(&m, row)
		p.Messages = append(p.Messages, m)
		return err
	}, sid, seq)
	b.exec(done)
	if err := b.send(ctx, c); err != nil {
		return err
	}
	if seq != 0 && p.Checkpoint == nil {
		return fmt.Errorf("checkpoint %d is missing: the database is damaged", seq)
	}
	if p.Checkpoint != nil && p.Checkpoint.Document != 0 && (len(p.Documents) == 0 || p.Documents[0].Patch) {
		return fmt.Errorf("document %d is missing: the database is damaged", p.Checkpoint.Document)
	}
	return nil
}
