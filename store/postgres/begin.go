package postgres

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/store"
)

// Begin implements [store.Store]. It takes two round trips: one locks the session and reads what
// the decision needs, the other writes.
func (s *Store) Begin(ctx context.Context, b *store.Begin) (*store.Begun, error) {
	var begun *store.Begun
	err := s.write(ctx, "begin", unwritten, func(ctx context.Context, c *pgx.Conn) (err error) {
		if err := checkStatus(b.Status); err != nil {
			return err
		}
		for range attempts {
			begun, err = s.begin(ctx, c, b)
			// Another call has begun this run, or the session was deleted, since we looked: look again.
			if code(err) != uniqueViolation && err != errGone {
				return err
			}
			if _, err := c.Exec(ctx, `ROLLBACK`); err != nil {
				return err
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return begun, nil
}

const uniqueViolation = "23505"

// errGone says that a session was deleted between two statements.
var errGone = fmt.Errorf("the session was deleted at this moment: %w", store.ErrConflict)

// A beginning is what the database knows when a run begins.
type beginning struct {
	now     int64
	created bool // the session
	known   *run
	session *session
	from    position // the checkpoint to start from
	head    position
	first   uuid.UUID // the run that waits longest
}

func (s *Store) begin(ctx context.Context, c *pgx.Conn, b *store.Begin) (*store.Begun, error) {
	k, err := s.lookAround(ctx, c, b)
	if err != nil {
		return nil, err
	}
	if k.known != nil {
		if _, err := c.Exec(ctx, `ROLLBACK`); err != nil {
			return nil, err
		}
		if b.WriteID != uuid.Nil && k.known.writeID == b.WriteID {
			return k.known.begun(), nil
		}
		return nil, fmt.Errorf("run %s: %w", b.Run, store.ErrExists)
	}
	in := k.session
	r := &run{sid: in.sid}
	r.Seq = in.seq + 1
	from, err := r.place(b, k)
	if err != nil {
		return nil, err
	}
	at := max(in.latest, k.now)
	w := &store.Commit{Fence: b.Fence, WriteID: b.WriteID, Status: checkpoint.Running, Lease: b.Lease}
	if !r.Waiting {
		w.Steps, w.Tasks, w.Status, w.ErrorCode, w.Error = b.Steps, b.Tasks, b.Status, b.ErrorCode, b.Error
	}
	q := s.batch()
	waiting, active := in.waiting, in.Active
	switch {
	case r.Waiting:
		waiting++
	case r.Branch || from.seq == 0:
		r.Line = in.lines + 1
		q.open(in, r.Line, from.line, from.seq)
	default:
		r.Line = from.line
	}
	if !r.Waiting && !r.Branch {
		active = b.Run
	}
	q.exec(`UPDATE everstep.sessions SET updated = $2, latest = $2, seq = seq + 1, active = $3, waiting = $4 WHERE sid = $1`, in.sid, at, uid(active), waiting)
	q.exec(`INSERT INTO everstep.runs (sid, seq, tenant, id, session, graph, status, created, updated, line, start, last, document, places,
		attached, branch, waiting, owner, epoch, lease, takeovers, cancel, write_id, written_at, written, waited, base, code, error)
		VALUES ($1, $2, $3, $4, $5, $6, 'running', $7, $7, $8, $9, 0, $10, 0, $11, $12, $13, $14, $15, 0, 0, false, '00000000-0000-0000-0000-000000000000', 0, '{}', $13, $16, '', '')`,
		in.sid, r.Seq, []byte(b.Tenant), uid(b.Run), uid(b.Session), []byte(b.Graph), at, r.Line, from.seq, from.document, b.Attached, r.Branch, r.Waiting, uid(b.Owner), b.Epoch, in.Base)
	q.exec(`INSERT INTO everstep.running (sid, seq, params) VALUES ($1, $2, $3)`, in.sid, r.Seq, b.Params)
	begun := &store.Begun{Waiting: r.Waiting, Branch: r.Branch, Seq: r.Seq, Base: in.Base}
	m := newCommitment(pgtype.Int8{Int64: k.now, Valid: true}, w)
	q.each(m.sql, func(row pgx.Row) (err error) {
		begun.Committed, err = m.scan(row)
		return err
	}, m.args...)
	q.exec(done)
	return begun, q.send(ctx, c)
}

// begun is the answer to the Begin that was the run's last write, as it was then: the run may have got
// its turn and the session a new base.
func (r *run) begun() *store.Begun {
	b := &store.Begun{Committed: r.committed(), Waiting: r.waited, Branch: r.Branch, Seq: r.Seq, Base: r.base}
	if b.Waiting {
		b.Line = 0
	}
	return b
}

// lookAround locks the session, creating it if need be, and reads what matters for a new run in it.
func (s *Store) lookAround(ctx context.Context, c *pgx.Conn, b *store.Begin) (*beginning, error) {
	k := new(beginning)
	q := s.batch()
	tenant, key := []byte(b.Tenant), uid(b.Session)
	q.exec(begin)
	q.each(insertSession+`s.sid`, func(row pgx.Row) error {
		k.created = true
		return nil
	}, s.clock(), tenant, key)
	const in = `s.tenant = $1 AND s.id = $2`
	q.each(`SELECT `+sessionColumns+` FROM everstep.sessions s WHERE `+in+` FOR NO KEY UPDATE`, func(row pgx.Row) error {
		k.session = new(session)
		return row.Scan(k.session.dest()...)
	}, tenant, key)
	q.each(selectRun, func(row pgx.Row) error {
		k.known = new(run)
		return k.known.scan(row, &k.known.Params)
	}, tenant, uid(b.Run))
	if b.From.Checkpoint != uuid.Nil {
		q.each(selectPosition+`c.id = $3 AND `+in, k.from.scan, tenant, key, uid(b.From.Checkpoint))
	}
	q.each(selectHead+in, k.head.scan, tenant, key)
	q.each(firstWaiting+`(SELECT s.sid FROM everstep.sessions s WHERE `+in+`) ORDER BY u.seq LIMIT 1`, func(row pgx.Row) error { return row.Scan(&k.first) }, tenant, key)
	q.each(`SELECT `+sqlNow, func(row pgx.Row) error { return row.Scan(&k.now) }, s.clock())
	if err := q.send(ctx, c); err != nil {
		return nil, err
	}
	if k.session == nil {
		return nil, errGone
	}
	return k, nil
}

// place decides whether a new run continues its session, is a branch or waits, and whether it
// may. It returns the position the run starts from, which is zero for a run that waits: it will be
// loaded again when its turn comes.
func (r *run) place(b *store.Begin, k *beginning) (position, error) {
	in, base := k.session, b.From.Base
	if b.From.Checkpoint != uuid.Nil && k.from.seq == 0 {
		return position{}, &store.NotFoundError{Resource: store.CheckpointResource, ID: b.From.Checkpoint}
	}
	if k.created {
		// Whatever it was built on is gone with the session.
		if b.From.Head != 0 || base != 0 {
			return position{}, fmt.Errorf("session %s does not exist any more: %w", b.Session, store.ErrConflict)
		}
		base = in.Base
	}
	idle := in.Active == uuid.Nil && in.waiting == 0
	r.Branch = k.from.seq != 0 && !(idle && k.from.seq == in.Head)
	if !r.Branch && !idle {
		if b.Wait {
			r.Waiting = true
			return position{}, nil
		}
		busy := in.Active
		if busy == uuid.Nil {
			busy = k.first
		}
		return position{}, &store.BusyError{Session: in.ID, Run: busy}
	}
	if base != in.Base || !r.Branch && b.From.Head != in.Head {
		return position{}, fmt.Errorf("session %s: %w", in.ID, store.ErrConflict)
	}
	if r.Branch {
		return k.from, nil
	}
	return k.head, nil
}

// open opens a line.
func (b *batch) open(in *session, line, parent, fork int64) {
	b.exec(`INSERT INTO everstep.lines (sid, line, parent, fork) VALUES ($1, $2, $3, $4)`, in.sid, line, parent, fork)
	b.exec(`UPDATE everstep.sessions SET lines = $2 WHERE sid = $1`, in.sid, line)
}

// A position is what a run needs to know of the checkpoint that its next one follows.
type position struct {
	seq, line, document int64
}

// selectPosition and selectHead go on with a condition on sessions s.
const (
	selectPosition = `SELECT c.seq, c.line, c.document FROM everstep.sessions s JOIN everstep.checkpoints c ON c.sid = s.sid WHERE `
	selectHead     = `SELECT c.seq, c.line, c.document FROM everstep.sessions s JOIN everstep.checkpoints c ON c.sid = s.sid AND c.seq = s.head WHERE `
)

func (p *position) scan(row pgx.Row) error { return row.Scan(&p.seq, &p.line, &p.document) }
