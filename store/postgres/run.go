package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/store"
)

// run is a run's row.
type run struct {
	store.Run
	sid       int64
	start     int64 // the checkpoint it started from
	document  int64
	writeID   uuid.UUID
	writtenAt int64
	written   []int64
	waited    bool  // when it began, and
	base      int64 // the session's then
}

const (
	runColumns = `r.sid, r.seq, r.tenant, r.id, r.session, r.graph, r.status, r.created, r.updated, r.line, r.start, r.last, r.document,
		r.attached, r.branch, r.waiting, r.owner, r.epoch, r.lease, r.takeovers, r.cancel, r.write_id, r.written_at, r.written, r.waited, r.base, r.code, r.error`
	// paramsColumn is for those who want Params too.
	paramsColumn = `, (SELECT u.params FROM everstep.running u WHERE u.sid = r.sid AND u.seq = r.seq)`
)

// dest is where runColumns are scanned into.
func (r *run) dest() []any {
	return []any{&r.sid, &r.Seq, intoText{&r.Tenant}, &r.ID, &r.Session, intoText{&r.Graph}, (*string)(&r.Status), intoTime{&r.CreatedAt}, intoTime{&r.UpdatedAt},
		&r.Line, &r.start, &r.Last, &r.document, &r.Attached, &r.Branch, &r.Waiting, &r.Owner, &r.Epoch, intoTime{&r.LeaseUntil}, &r.Takeovers, &r.CancelRequested,
		&r.writeID, &r.writtenAt, &r.written, &r.waited, &r.base, intoText{&r.ErrorCode}, intoText{&r.Error}}
}

// scan reads a row of runColumns and what follows them.
func (r *run) scan(row pgx.Row, more ...any) error {
	err := row.Scan(append(r.dest(), more...)...)
	r.Status = checkpoint.ParseStatus(string(r.Status))
	return err
}

// committed is what the run's last write was answered.
func (r *run) committed() store.Committed {
	return store.Committed{Line: r.Line, CreatedAt: fromNanos(r.writtenAt), Seqs: r.written}
}

// check returns [store.ErrLost] if the fence is not the run's.
func (r *run) check(f store.Fence) error {
	switch {
	case r.Status.Ended():
		return fmt.Errorf("run %s is %s: %w", r.ID, r.Status, store.ErrLost)
	case r.Owner == uuid.Nil, r.Owner != f.Owner, r.Epoch != f.Epoch:
		return fmt.Errorf("run %s: %w", r.ID, store.ErrLost)
	}
	return nil
}

// selectRun goes on with a lock, if any. Its parameters are the tenant and the id.
const selectRun = `SELECT ` + runColumns + paramsColumn + ` FROM everstep.runs r WHERE r.tenant = $1 AND r.id = $2`

// findRun reads a run.
func (s *Store) findRun(ctx context.Context, c *pgx.Conn, tenant string, id uuid.UUID) (*run, error) {
	r := new(run)
	err := r.scan(c.QueryRow(ctx, s.sql(selectRun), []byte(tenant), uid(id)), &r.Params)
	if errors.Is(err, pgx.ErrNoRows) {
		err = missingRun(id)
	}
	return r, err
}

func missingRun(id uuid.UUID) error { return &store.NotFoundError{Resource: store.RunResource, ID: id} }

// Run implements [store.Store].
func (s *Store) Run(ctx context.Context, tenant string, id uuid.UUID) (*store.Run, error) {
	var r *run
	err := s.read(ctx, "run", func(ctx context.Context, c *pgx.Conn) (err error) {
		r, err = s.findRun(ctx, c, tenant, id)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &r.Run, nil
}

// fenced is the condition that a run is the owner's who writes for it. Its parameters are $2 to
// $5: tenant, run, owner, epoch.
const fenced = `r.tenant = $2 AND r.id = $3 AND r.owner = $4 AND r.epoch = $5 AND r.status = 'running' AND r.owner <> '00000000-0000-0000-0000-000000000000'`

// lockRun begins a transaction in which a run and its session are locked. All lock in this
// order, the run first. Both are read after they were locked; the session is nil if it is gone.
func (s *Store) lockRun(ctx context.Context, c *pgx.Conn, tenant string, id uuid.UUID, more func(*batch)) (*run, *session, error) {
	var r *run
	var in *session
	b := s.batch()
	b.exec(begin)
	b.each(selectRun+` FOR NO KEY UPDATE OF r`, func(row pgx.Row) error {
		r = new(run)
		return r.scan(row, &r.Params)
	}, []byte(tenant), uid(id))
	b.each(`SELECT `+sessionColumns+` FROM everstep.sessions s WHERE s.sid = (SELECT r.sid FROM everstep.runs r WHERE r.tenant = $1 AND r.id = $2) FOR NO KEY UPDATE OF s`,
		func(row pgx.Row) error {
			in = new(session)
			return row.Scan(in.dest()...)
		}, []byte(tenant), uid(id))
	if more != nil {
		more(b)
	}
	if err := b.send(ctx, c); err != nil {
		return nil, nil, err
	}
	if r == nil || in == nil {
		return nil, nil, missingRun(id)
	}
	return r, in, nil
}

// firstWaiting selects the run of a session that waits longest.
const firstWaiting = `SELECT w.id FROM everstep.running u JOIN everstep.runs w ON w.sid = u.sid AND w.seq = u.seq WHERE w.waiting AND u.sid = `

// Promote implements [store.Store].
func (s *Store) Promote(ctx context.Context, f store.Fence) (bool, error) {
	active := false
	err := s.write(ctx, "promote", lost, func(ctx context.Context, c *pgx.Conn) error {
		var first uuid.UUID
		var head position
		const sid = `(SELECT r.sid FROM everstep.runs r WHERE r.tenant = $1 AND r.id = $2)`
		r, in, err := s.lockRun(ctx, c, f.Tenant, f.Run, func(b *batch) {
			b.each(firstWaiting+sid+` ORDER BY u.seq LIMIT 1`, func(row pgx.Row) error { return row.Scan(&first) }, []byte(f.Tenant), uid(f.Run))
			b.each(selectHead+`s.sid = `+sid, head.scan, []byte(f.Tenant), uid(f.Run))
		})
		if err != nil {
			return err
		}
		if err := r.check(f); err != nil {
			return err
		}
		b := s.batch()
		if active = in.Active == r.ID; !active && r.Waiting && in.Active == uuid.Nil && first == r.ID {
			active = true
			line := head.line
			if in.Head == 0 {
				line = in.lines + 1
				b.open(in, line, 0, 0)
			}
			b.exec(`UPDATE everstep.runs SET waiting = false, line = $3, start = $4, document = $5 WHERE sid = $1 AND seq = $2`, r.sid, r.Seq, line, in.Head, head.document)
			b.exec(`UPDATE everstep.sessions SET active = $2, waiting = waiting - 1 WHERE sid = $1`, in.sid, uid(r.ID))
		}
		b.exec(done)
		return b.send(ctx, c)
	})
	return active && err == nil, err
}

// unclaimed is the condition that nobody advances a run, which has not ended.
const unclaimed = `(r.lease <= clock.now OR r.owner = '00000000-0000-0000-0000-000000000000')`

// Claim implements [store.Store]. Runs that somebody else is about to claim, or writes for at the
// moment, are passed over.
func (s *Store) Claim(ctx context.Context, claim *store.Claim) ([]store.Run, error) {
	if len(claim.Graphs) == 0 || claim.Limit <= 0 {
		return nil, ctx.Err()
	}
	var runs []*run
	err := s.write(ctx, "claim", unwritten, func(ctx context.Context, c *pgx.Conn) error {
		runs = nil
		b := s.batch()
		b.each(`WITH clock AS MATERIALIZED (SELECT `+sqlNow+` AS now), due AS MATERIALIZED (
				SELECT r.sid, r.seq FROM clock, everstep.running u JOIN everstep.runs r ON r.sid = u.sid AND r.seq = u.seq
				WHERE r.status = 'running' AND `+unclaimed+` AND r.graph = ANY($2::bytea[]) AND r.id <> ALL($3::uuid[])
				ORDER BY r.created, r.sid, r.seq LIMIT $4 FOR NO KEY UPDATE OF r SKIP LOCKED
			)
			UPDATE everstep.runs r SET owner = $5, epoch = r.epoch + 1, takeovers = r.takeovers + 1, lease = clock.now + $6::bigint
			FROM due, clock WHERE r.sid = due.sid AND r.seq = due.seq RETURNING `+runColumns+paramsColumn, func(row pgx.Row) error {
			r := new(run)
			runs = append(runs, r)
			return r.scan(row, &r.Params)
		}, s.clock(), texts(claim.Graphs), uids(claim.Except), int64(claim.Limit), uid(claim.Owner), int64(claim.Lease))
		return b.send(ctx, c)
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(runs, func(a, b *run) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.sid, b.sid), cmp.Compare(a.Seq, b.Seq))
	})
	var claimed []store.Run
	for _, r := range runs {
		claimed = append(claimed, r.Run)
	}
	return claimed, nil
}

// Renew implements [store.Store]. It waits for nobody: the row of a run is locked by a write of its owner, which may have to
// wait for somebody who froze while starting another run in the session, and no other run is to lose its
// lease for that. A run that is locked keeps the lease that it has, and nobody can claim it meanwhile. A
// takeover that is not committed yet shows with the next call.
//
// Unlike other writes it ends with ctx: it may be made again, and is of no use when it is late.
func (s *Store) Renew(ctx context.Context, renew *store.Renew) (*store.Renewed, error) {
	if len(renew.Fences) == 0 {
		return new(store.Renewed), ctx.Err()
	}
	var tenants [][]byte
	var runs, owners []pgtype.UUID
	var epochs []int64
	for _, f := range renew.Fences {
		tenants, runs, owners, epochs = append(tenants, []byte(f.Tenant)), append(runs, uid(f.Run)), append(owners, uid(f.Owner)), append(epochs, f.Epoch)
	}
	const held = ` FROM unnest($2::bytea[], $3::uuid[], $4::uuid[], $5::bigint[]) AS f(tenant, run, owner, epoch)
		JOIN everstep.runs r ON r.id = f.run AND r.tenant = f.tenant AND r.owner = f.owner AND r.epoch = f.epoch
		WHERE r.status = 'running' AND r.owner <> '00000000-0000-0000-0000-000000000000' `
	var cancels map[store.Fence]bool // of those that are held
	err := s.call(ctx, "renew", lost, func(c *pgx.Conn) error {
		cancels = map[store.Fence]bool{}
		b := s.batch()
		b.each(`WITH clock AS MATERIALIZED (SELECT `+sqlNow+` AS now),
			free AS MATERIALIZED (SELECT r.sid, r.seq`+held+`FOR NO KEY UPDATE OF r SKIP LOCKED),
			renewed AS (UPDATE everstep.runs r SET lease = clock.now + $6::bigint FROM free, clock WHERE r.sid = free.sid AND r.seq = free.seq)
			SELECT r.tenant, r.id, r.owner, r.epoch, r.cancel`+held, func(row pgx.Row) error {
			var f store.Fence
			var cancel bool
			err := row.Scan(intoText{&f.Tenant}, &f.Run, &f.Owner, &f.Epoch, &cancel)
			cancels[f] = cancel
			return err
		}, s.clock(), tenants, runs, owners, epochs, int64(renew.Lease))
		return b.send(ctx, c)
	})
	if err != nil {
		return nil, err
	}
	var renewed store.Renewed
	for _, f := range renew.Fences {
		if cancel, held := cancels[f]; !held {
			renewed.Lost = append(renewed.Lost, f.Run)
		} else if cancel {
			renewed.Cancels = append(renewed.Cancels, f.Run)
		}
	}
	return &renewed, nil
}

// RequestCancel implements [store.Store].
func (s *Store) RequestCancel(ctx context.Context, tenant string, id uuid.UUID) (*store.Run, error) {
	var r *run
	err := s.write(ctx, "cancel", lost, func(ctx context.Context, c *pgx.Conn) error {
		var in *session
		var err error
		if r, in, err = s.lockRun(ctx, c, tenant, id, nil); err != nil {
			return err
		}
		b := s.batch()
		if !r.Status.Ended() && !r.CancelRequested {
			r.CancelRequested = true
			b.exec(`UPDATE everstep.runs SET cancel = true WHERE sid = $1 AND seq = $2`, r.sid, r.Seq)
			if r.Waiting {
				b.each(`UPDATE everstep.sessions SET waiting = waiting - 1, latest = greatest(latest, `+sqlNow+`) WHERE sid = $2 RETURNING latest`,
					func(row pgx.Row) error { return row.Scan(intoTime{&r.UpdatedAt}) }, s.clock(), in.sid)
				b.exec(`UPDATE everstep.runs r SET status = 'cancelled', waiting = false, updated = s.latest FROM everstep.sessions s WHERE s.sid = r.sid AND r.sid = $1 AND r.seq = $2`, r.sid, r.Seq)
				b.exec(`DELETE FROM everstep.running WHERE sid = $1 AND seq = $2`, r.sid, r.Seq)
				r.Waiting, r.Status, r.Params = false, checkpoint.Cancelled, nil
			}
		}
		b.exec(done)
		return b.send(ctx, c)
	})
	if err != nil {
		return nil, err
	}
	return &r.Run, nil
}

// Backlog implements [store.Store].
func (s *Store) Backlog(ctx context.Context, graphs []string) (*store.Backlog, error) {
	var names [][]byte
	for _, g := range graphs {
		names = append(names, []byte(g))
	}
	b := &store.Backlog{}
	err := s.read(ctx, "backlog", func(ctx context.Context, c *pgx.Conn) error {
		var since pgtype.Int8
		err := c.QueryRow(ctx, s.sql(`SELECT count(*), count(*) FILTER (WHERE r.waiting), count(*) FILTER (WHERE `+unclaimed+`), min(r.lease) FILTER (WHERE `+unclaimed+`)
			FROM everstep.running u JOIN everstep.runs r ON r.sid = u.sid AND r.seq = u.seq, (SELECT `+sqlNow+` AS now) AS clock WHERE r.graph = ANY($2::bytea[])`),
			s.clock(), names).Scan(&b.Running, &b.Waiting, &b.Unclaimed, &since)
		if since.Valid {
			b.Since = fromNanos(since.Int64)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return b, nil
}

// Release implements [store.Store].
func (s *Store) Release(ctx context.Context, f store.Fence) error {
	return s.write(ctx, "release", unwritten, func(ctx context.Context, c *pgx.Conn) error {
		tag, err := c.Exec(ctx, s.sql(`UPDATE everstep.runs r SET owner = '00000000-0000-0000-0000-000000000000', lease = `+sqlNow+`, attached = false, takeovers = greatest(r.takeovers - 1, 0) WHERE `+fenced),
			s.clock(), []byte(f.Tenant), uid(f.Run), uid(f.Owner), f.Epoch)
		if err != nil || tag.RowsAffected() > 0 {
			return err
		}
		r, err := s.findRun(ctx, c, f.Tenant, f.Run)
		if err != nil {
			return err
		}
		return cmp.Or(r.check(f), fmt.Errorf("run %s: %w", f.Run, store.ErrLost))
	})
}
