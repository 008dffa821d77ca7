package sqlite

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/store"
)

// run is a run's row with the one of its session. Params in it are not read.
type run struct {
	store.Run
	session session
	start   int64 // the checkpoint it started from
	writeID uuid.UUID
	written []byte
	places  int64 // given to tasks of its last checkpoint; below zero: not read
}

const runColumns = `r.k, r.id, r.graph, r.status, r.created, r.updated, r.line, r.start, r.last, r.attached, r.branch, r.waiting,
	r.owner, r.epoch, r.lease, r.takeovers, r.cancel, r.write_id, r.written, r.code, r.error`

// selectRuns and selectRunning go on with a condition on runs r and their sessions s.
const (
	selectRuns    = `SELECT ` + runColumns + `, ` + sessionColumns + ` FROM runs r CROSS JOIN sessions s ON s.sid = r.k >> 32 WHERE `
	selectRunning = `SELECT ` + runColumns + `, ` + sessionColumns + ` FROM running CROSS JOIN runs r ON r.k = running.k CROSS JOIN sessions s ON s.sid = r.k >> 32 WHERE `
)

// scan takes over what selectRuns selects.
func (r *run) scan(v row) {
	r.session.scan(v, 21)
	r.Tenant, r.Session = r.session.Tenant, r.session.ID
	r.Seq = v.int(0) & seqMask
	r.ID, r.Graph, r.Status = v.id(1), v.text(2), checkpoint.ParseStatus(string(statuses.decode(v[3])))
	r.CreatedAt, r.UpdatedAt = v.time(4), v.time(5)
	r.Line, r.start, r.Last = v.int(6), v.int(7), v.int(8)
	r.Attached, r.Branch, r.Waiting = v.bool(9), v.bool(10), v.bool(11)
	r.Owner, r.Epoch, r.LeaseUntil = v.id(12), v.int(13), v.time(14)
	r.Takeovers, r.CancelRequested = int(v.int(15)), v.bool(16)
	r.writeID, r.written = v.id(17), v.blob(18)
	r.ErrorCode, r.Error = v.text(19), v.text(20)
	r.places = -1
}

func (r *run) key() int64 { return key(r.session.sid, r.Seq) }

// findRun returns nil if there is no such run.
func findRun(ctx context.Context, c *conn, tenant string, id uuid.UUID) (*run, error) {
	found := c.cache.runs[owned{tenant, id}]
	if found != nil {
		return found, nil
	}
	err := c.each(ctx, selectRuns+`r.id = CAST(? AS BLOB) AND s.tenant = CAST(? AS TEXT)`, func(v row) error {
		found = new(run)
		found.scan(v)
		return nil
	}, id[:], tenant)
	return found, err
}

// needRun is findRun for a run that must be there.
func needRun(ctx context.Context, c *conn, tenant string, id uuid.UUID) (*run, error) {
	r, err := findRun(ctx, c, tenant, id)
	if err == nil && r == nil {
		err = &store.NotFoundError{Resource: store.RunResource, ID: id}
	}
	return r, err
}

// heldRun is needRun for a writer that must hold the run.
func heldRun(ctx context.Context, c *conn, f store.Fence) (*run, error) {
	r, err := needRun(ctx, c, f.Tenant, f.Run)
	if err != nil {
		return nil, err
	}
	return r, r.check(f)
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

// insert adds the run's rows.
func (r *run) insert(ctx context.Context, c *conn, params []byte) error {
	err := c.exec(ctx, `INSERT INTO runs (k, id, graph, created, attached, branch, status, updated, waiting, code, error,
		line, start, last, owner, epoch, lease, takeovers, cancel, write_id, written)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		r.key(), r.ID[:], r.Graph, nanos(r.CreatedAt), number(r.Attached), number(r.Branch), statuses.encode(r.Status), nanos(r.UpdatedAt),
		number(r.Waiting), r.ErrorCode, r.Error, r.Line, r.start, r.Last, idOrNull(r.Owner), r.Epoch, nanos(r.LeaseUntil), r.Takeovers,
		number(r.CancelRequested), idOrNull(r.writeID), blobOrNull(r.written))
	if err != nil || r.Status.Ended() {
		return err
	}
	return c.exec(ctx, `INSERT INTO running (k, params) VALUES (?, ?)`, r.key(), blobOrNull(params))
}

// save writes what of a run can change.
func (r *run) save(ctx context.Context, c *conn) error {
	err := c.exec(ctx, `UPDATE runs SET status = ?, updated = ?, code = ?, error = ?,
		attached = ?, waiting = ?, line = ?, start = ?, last = ?, owner = ?, epoch = ?, lease = ?, takeovers = ?, cancel = ?, write_id = ?, written = ? WHERE k = ?`,
		statuses.encode(r.Status), nanos(r.UpdatedAt), r.ErrorCode, r.Error,
		number(r.Attached), number(r.Waiting), r.Line, r.start, r.Last, idOrNull(r.Owner), r.Epoch, nanos(r.LeaseUntil), r.Takeovers,
		number(r.CancelRequested), idOrNull(r.writeID), blobOrNull(r.written), r.key())
	if err != nil || !r.Status.Ended() {
		return err
	}
	return c.exec(ctx, `DELETE FROM running WHERE k = ?`, r.key())
}

// readParams fills in Params.
func (r *run) readParams(ctx context.Context, c *conn) error {
	return c.each(ctx, `SELECT params FROM running WHERE k = ?`, func(v row) error {
		r.Params = v.blob(0)
		return nil
	}, r.key())
}

// end ends the run with a status and gives up its session. The caller saves both.
func (r *run) end(status checkpoint.Status, at int64) {
	s := &r.session
	if r.Waiting {
		r.Waiting = false
		s.waiting--
	}
	r.Status, r.UpdatedAt = status, fromNanos(at)
	if s.active == r.Seq {
		s.active = 0
	}
	// The head is left by whoever ended last, but not taken from under a run that continues it.
	if r.Last != 0 && s.active == 0 {
		s.Head = r.Last
	}
}

// firstWaiting is the run of the session that waits longest, [uuid.Nil] if none does.
func firstWaiting(ctx context.Context, c *conn, sid int64) (first uuid.UUID, err error) {
	err = c.each(ctx, `SELECT r.id FROM running CROSS JOIN runs r ON r.k = running.k WHERE running.k BETWEEN ? AND ? AND r.waiting = 1 ORDER BY running.k LIMIT 1`,
		func(v row) error {
			first = v.id(0)
			return nil
		}, key(sid, 0), key(sid, seqMask))
	return first, err
}

// Promote implements [store.Store].
func (s *Store) Promote(ctx context.Context, f store.Fence) (bool, error) {
	active := false
	err := s.write(ctx, "promote", func(ctx context.Context, c *conn) error {
		r, err := heldRun(ctx, c, f)
		if err != nil {
			return err
		}
		if active = r.session.active == r.Seq; active || !r.Waiting || r.session.active != 0 {
			return nil
		}
		first, err := firstWaiting(ctx, c, r.session.sid)
		if err != nil || first != r.ID {
			return err
		}
		if _, err := r.continueHead(ctx, c); err != nil {
			return err
		}
		r.Waiting, r.session.active, active = false, r.Seq, true
		r.session.waiting--
		if err := r.session.save(ctx, c); err != nil {
			return err
		}
		return r.save(ctx, c)
	})
	return active && err == nil, err
}

// Claim implements [store.Store].
func (s *Store) Claim(ctx context.Context, claim *store.Claim) ([]store.Run, error) {
	if len(claim.Graphs) == 0 || claim.Limit <= 0 {
		return nil, ctx.Err()
	}
	var claimed []store.Run
	err := s.write(ctx, "claim", func(ctx context.Context, c *conn) error {
		claimed = nil
		now := s.now()
		var runs []*run
		err := c.each(ctx, selectRunning+`(r.lease <= ? OR r.owner IS NULL)`, func(v row) error {
			r := new(run)
			r.scan(v)
			if slices.Contains(claim.Graphs, r.Graph) && !slices.Contains(claim.Except, r.ID) {
				runs = append(runs, r)
			}
			return nil
		}, nanos(now))
		if err != nil {
			return err
		}
		slices.SortFunc(runs, func(a, b *run) int { return a.CreatedAt.Compare(b.CreatedAt) })
		for _, r := range runs[:min(len(runs), claim.Limit)] {
			r.Owner, r.LeaseUntil = claim.Owner, lease(now, claim.Lease)
			r.Epoch++
			r.Takeovers++
			if err := r.save(ctx, c); err != nil {
				return err
			}
			if err := r.readParams(ctx, c); err != nil {
				return err
			}
			claimed = append(claimed, r.Run)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return claimed, nil
}

// Backlog implements [store.Store].
func (s *Store) Backlog(ctx context.Context, graphs []string) (*store.Backlog, error) {
	b := &store.Backlog{}
	err := s.read(ctx, "backlog", func(c *conn) error {
		now := s.now()
		return c.each(ctx, `SELECT r.graph, r.waiting, r.lease, r.owner IS NULL FROM running CROSS JOIN runs r ON r.k = running.k`, func(v row) error {
			if !slices.Contains(graphs, v.text(0)) {
				return nil
			}
			b.Running++
			if v.bool(1) {
				b.Waiting++
			}
			until := v.time(2)
			if now.Before(until) && !v.bool(3) {
				return nil
			}
			if b.Unclaimed++; b.Unclaimed == 1 || until.Before(b.Since) {
				b.Since = until
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return b, nil
}

// lease is when a lease that is given now runs out.
func lease(now time.Time, d time.Duration) time.Time { return fromNanos(nanos(now.Add(d))) }

// Renew implements [store.Store].
func (s *Store) Renew(ctx context.Context, renew *store.Renew) (*store.Renewed, error) {
	var renewed store.Renewed
	err := s.write(ctx, "renew", func(ctx context.Context, c *conn) error {
		renewed = store.Renewed{}
		until := nanos(lease(s.now(), renew.Lease))
		for _, f := range renew.Fences {
			cancel := false
			held, err := c.one(ctx, `UPDATE runs SET lease = ?
				WHERE id = CAST(? AS BLOB) AND owner = CAST(? AS BLOB) AND epoch = CAST(? AS INTEGER) AND status = 0
				AND (SELECT tenant FROM sessions WHERE sid = runs.k >> 32) = CAST(? AS TEXT) RETURNING cancel`, func(v row) error {
				cancel = v.bool(0)
				return nil
			}, until, f.Run[:], f.Owner[:], f.Epoch, f.Tenant)
			switch {
			case err != nil:
				return err
			case !held:
				renewed.Lost = append(renewed.Lost, f.Run)
			case cancel:
				renewed.Cancels = append(renewed.Cancels, f.Run)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &renewed, nil
}

// RequestCancel implements [store.Store].
func (s *Store) RequestCancel(ctx context.Context, tenant string, id uuid.UUID) (*store.Run, error) {
	var r *run
	err := s.write(ctx, "cancel", func(ctx context.Context, c *conn) (err error) {
		if r, err = needRun(ctx, c, tenant, id); err != nil {
			return err
		}
		if r.Status.Ended() {
			return nil
		}
		if !r.CancelRequested {
			r.CancelRequested = true
			if r.Waiting {
				r.end(checkpoint.Cancelled, r.session.at(s.now()))
				if err := r.session.save(ctx, c); err != nil {
					return err
				}
			}
			if err := r.save(ctx, c); err != nil {
				return err
			}
		}
		return r.readParams(ctx, c)
	})
	if err != nil {
		return nil, err
	}
	return &r.Run, nil
}

// Release implements [store.Store].
func (s *Store) Release(ctx context.Context, f store.Fence) error {
	return s.write(ctx, "release", func(ctx context.Context, c *conn) error {
		r, err := heldRun(ctx, c, f)
		if err != nil {
			return err
		}
		r.Owner, r.LeaseUntil, r.Attached = uuid.Nil, lease(s.now(), 0), false
		r.Takeovers = max(r.Takeovers-1, 0)
		return r.save(ctx, c)
	})
}

// Run implements [store.Store].
func (s *Store) Run(ctx context.Context, tenant string, id uuid.UUID) (*store.Run, error) {
	var r *run
	err := s.read(ctx, "run", func(c *conn) (err error) {
		if r, err = needRun(ctx, c, tenant, id); err != nil {
			return err
		}
		return r.readParams(ctx, c)
	})
	if err != nil {
		return nil, err
	}
	return &r.Run, nil
}
