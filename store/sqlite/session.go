package sqlite

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/store"
)

// session is a session's row. Active in it is not set, active is.
type session struct {
	store.Session
	sid     int64
	latest  int64 // nanoseconds
	seq     int64
	lines   int64
	active  int64     // sequence of the active run
	waiting int64     // how many runs wait for their turn
	known   *position // of the checkpoint that was read or written last, nil if none was
}

const sessionColumns = `s.sid, s.tenant, s.id, s.created, s.updated, s.latest, s.seq, s.lines, s.head, s.base, s.active, s.waiting`

// scan takes over the sessionColumns that begin at column i.
func (s *session) scan(r row, i int) {
	s.sid = r.int(i)
	s.Tenant, s.ID = r.text(i+1), r.id(i+2)
	s.CreatedAt, s.UpdatedAt = r.time(i+3), r.time(i+4)
	s.latest, s.seq, s.lines = r.int(i+5), r.int(i+6), r.int(i+7)
	s.Head, s.Base, s.active, s.waiting = r.int(i+8), r.int(i+9), r.int(i+10), r.int(i+11)
}

// findSession returns nil if there is no such session.
func findSession(ctx context.Context, c *conn, tenant string, id uuid.UUID) (*session, error) {
	if r := c.cache.sessions[owned{tenant, id}]; r != nil {
		s := r.session
		return &s, nil
	}
	var s *session
	err := c.each(ctx, `SELECT `+sessionColumns+` FROM sessions s WHERE s.tenant = ? AND s.id = ?`, func(r row) error {
		s = new(session)
		s.scan(r, 0)
		return nil
	}, tenant, id[:])
	return s, err
}

// needSession is findSession for a session that must be there.
func needSession(ctx context.Context, c *conn, tenant string, id uuid.UUID) (*session, error) {
	s, err := findSession(ctx, c, tenant, id)
	if err == nil && s == nil {
		err = &store.NotFoundError{Resource: store.SessionResource, ID: id}
	}
	return s, err
}

// newSession inserts a session.
func newSession(ctx context.Context, c *conn, tenant string, id uuid.UUID, now time.Time) (*session, error) {
	at := now.UnixNano()
	s := &session{latest: at}
	s.Tenant, s.ID, s.Base = tenant, id, at
	s.CreatedAt, s.UpdatedAt = fromNanos(at), fromNanos(at)
	err := c.each(ctx, `INSERT INTO sessions (tenant, id, created, updated, latest, seq, lines, head, base, active, waiting)
		VALUES (?, ?, ?, ?, ?, 0, 0, 0, ?, 0, 0) RETURNING sid`, func(r row) error {
		s.sid = r.int(0)
		return nil
	}, tenant, id[:], at, at, at, at)
	return s, err
}

// save writes what of a session can change.
func (s *session) save(ctx context.Context, c *conn) error {
	return c.exec(ctx, `UPDATE sessions SET updated = ?, latest = ?, seq = ?, lines = ?, head = ?, base = ?, active = ?, waiting = ? WHERE sid = ?`,
		nanos(s.UpdatedAt), s.latest, s.seq, s.lines, s.Head, s.Base, s.active, s.waiting, s.sid)
}

// next gives the next sequence.
func (s *session) next() (int64, error) {
	if s.seq >= seqMask {
		return 0, fmt.Errorf("session %s has no sequences left", s.ID)
	}
	s.seq++
	return s.seq, nil
}

// at is the time of a write: now, but never before the one before it.
func (s *session) at(now time.Time) int64 {
	s.latest = max(s.latest, now.UnixNano())
	return s.latest
}

// open opens a line.
func (s *session) open(ctx context.Context, c *conn, parent, fork int64) (int64, error) {
	s.lines++
	return s.lines, c.exec(ctx, `INSERT INTO lines (k, parent, fork) VALUES (?, ?, ?)`, key(s.sid, s.lines), parent, fork)
}

// resolve fills in Active.
func (s *session) resolve(ctx context.Context, c *conn) error {
	if s.active == 0 {
		return nil
	}
	return c.each(ctx, `SELECT id FROM runs WHERE k = ?`, func(r row) error {
		s.Active = r.id(0)
		return nil
	}, key(s.sid, s.active))
}

// CreateSession implements [store.Store].
func (s *Store) CreateSession(ctx context.Context, tenant string, id uuid.UUID) (*store.Session, error) {
	var made *session
	err := s.write(ctx, "create session", func(ctx context.Context, c *conn) error {
		found, err := findSession(ctx, c, tenant, id)
		if err != nil {
			return err
		}
		if found != nil {
			return fmt.Errorf("session %s: %w", id, store.ErrExists)
		}
		made, err = newSession(ctx, c, tenant, id, s.now())
		return err
	})
	if err != nil {
		return nil, err
	}
	return &made.Session, nil
}

// Session implements [store.Store].
func (s *Store) Session(ctx context.Context, tenant string, id uuid.UUID) (*store.Session, error) {
	var found *session
	err := s.read(ctx, "session", func(c *conn) (err error) {
		if found, err = needSession(ctx, c, tenant, id); err != nil {
			return err
		}
		return found.resolve(ctx, c)
	})
	if err != nil {
		return nil, err
	}
	return &found.Session, nil
}

// DeleteSession implements [store.Store].
func (s *Store) DeleteSession(ctx context.Context, tenant string, id uuid.UUID) error {
	return s.write(ctx, "delete session", func(ctx context.Context, c *conn) error {
		found, err := needSession(ctx, c, tenant, id)
		if err != nil {
			return err
		}
		return deleteSession(ctx, c, found.sid)
	})
}

// deleteSession removes a session's rows from every table.
func deleteSession(ctx context.Context, c *conn, sid int64) error {
	for _, table := range []string{"tasks", "messages", "documents", "checkpoints", "running", "runs", "lines"} {
		if err := c.exec(ctx, `DELETE FROM `+table+` WHERE k BETWEEN ? AND ?`, key(sid, 0), key(sid, seqMask)); err != nil {
			return err
		}
	}
	return c.exec(ctx, `DELETE FROM sessions WHERE sid = ?`, sid)
}

// Prune implements [store.Store]. A session is used by everything that is written in it, not
// only by the start of a run.
func (s *Store) Prune(ctx context.Context, p *store.Prune) (int, error) {
	const idle = ` AND NOT EXISTS (SELECT 1 FROM running WHERE k BETWEEN sid << 32 AND sid << 32 | 4294967295)`
	before := int64(math.MinInt64)
	if !p.Before.IsZero() {
		before = nanos(p.Before)
	}
	from, args := "sessions", []any{}
	if p.Keep > 0 {
		from = `(SELECT sid, tenant, latest, row_number() OVER (PARTITION BY tenant ORDER BY latest DESC, id DESC) AS place FROM sessions)`
	}
	where := " WHERE "
	if p.Tenant != "" {
		where += "tenant = ? AND "
		args = append(args, p.Tenant)
	}
	args = append(args, before)
	if p.Keep > 0 {
		where += "(latest < ? OR place > ?)"
		args = append(args, p.Keep)
	} else {
		where += "latest < ?"
	}
	args = append(args, max(p.Limit, 0))
	// The search may take long, so a reader makes it, and the writer only looks again.
	type candidate struct{ sid, latest int64 }
	var old []candidate
	err := s.read(ctx, "prune", func(c *conn) error {
		return c.each(ctx, `SELECT sid, latest FROM `+from+where+idle+` ORDER BY latest LIMIT ?`, func(r row) error {
			old = append(old, candidate{r.int(0), r.int(1)})
			return nil
		}, args...)
	})
	if err != nil || len(old) == 0 {
		return 0, err
	}
	removed := 0
	err = s.write(ctx, "prune", func(ctx context.Context, c *conn) error {
		removed = 0
		for _, o := range old {
			still, err := c.one(ctx, `SELECT 1 FROM sessions WHERE sid = ? AND latest = ?`+idle, func(row) error { return nil }, o.sid, o.latest)
			if err != nil {
				return err
			}
			if !still {
				continue
			}
			if err := deleteSession(ctx, c, o.sid); err != nil {
				return err
			}
			removed++
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return removed, nil
}
