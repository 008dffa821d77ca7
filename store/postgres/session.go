package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/everstep-go/everstep/store"
)

// session is a session's row.
type session struct {
	store.Session
	sid     int64
	latest  int64 // nanoseconds
	lines   int64
	seq     int64
	waiting int64 // how many runs wait for their turn
}

const sessionColumns = `s.sid, s.tenant, s.id, s.created, s.updated, s.latest, s.seq, s.lines, s.head, s.base, s.active, s.waiting`

// dest is where sessionColumns are scanned into.
func (s *session) dest() []any {
	return []any{&s.sid, intoText{&s.Tenant}, &s.ID, intoTime{&s.CreatedAt}, intoTime{&s.UpdatedAt}, &s.latest, &s.seq, &s.lines, &s.Head, &s.Base, &s.Active, &s.waiting}
}

const insertSession = `INSERT INTO everstep.sessions AS s (tenant, id, created, updated, latest, base)
	SELECT $2, $3, now, now, now, now FROM (SELECT ` + sqlNow + ` AS now) AS clock
	ON CONFLICT (id, sha256(tenant)) DO NOTHING RETURNING `

func missingSession(id uuid.UUID) error {
	return &store.NotFoundError{Resource: store.SessionResource, ID: id}
}

// CreateSession implements [store.Store].
func (s *Store) CreateSession(ctx context.Context, tenant string, id uuid.UUID) (*store.Session, error) {
	var made session
	err := s.write(ctx, "create session", unwritten, func(ctx context.Context, c *pgx.Conn) error {
		made = session{}
		err := c.QueryRow(ctx, s.sql(insertSession+sessionColumns), s.clock(), []byte(tenant), uid(id)).Scan(made.dest()...)
		if errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("session %s: %w", id, store.ErrExists)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return &made.Session, nil
}

// Session implements [store.Store].
func (s *Store) Session(ctx context.Context, tenant string, id uuid.UUID) (*store.Session, error) {
	var found session
	err := s.read(ctx, "session", func(ctx context.Context, c *pgx.Conn) error {
		err := c.QueryRow(ctx, s.sql(`SELECT `+sessionColumns+` FROM everstep.sessions s WHERE s.tenant = $1 AND s.id = $2`), []byte(tenant), uid(id)).Scan(found.dest()...)
		if errors.Is(err, pgx.ErrNoRows) {
			return missingSession(id)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return &found.Session, nil
}

// DeleteSession implements [store.Store].
//
// It locks in the order of all others: runs first, then their session. A run that began meanwhile
// is not locked then, and a lock on it now could wait for a writer who waits for us. So it is
// only tried, and if it fails all begins again.
func (s *Store) DeleteSession(ctx context.Context, tenant string, id uuid.UUID) error {
	return s.write(ctx, "delete session", unwritten, func(ctx context.Context, c *pgx.Conn) error {
		for {
			var sid, runs, free int64
			b := s.batch()
			b.exec(begin)
			b.exec(`SELECT 1 FROM everstep.runs WHERE sid = (SELECT sid FROM everstep.sessions WHERE tenant = $1 AND id = $2) ORDER BY seq FOR UPDATE`, []byte(tenant), uid(id))
			b.each(`SELECT sid FROM everstep.sessions WHERE tenant = $1 AND id = $2 FOR UPDATE`, func(row pgx.Row) error { return row.Scan(&sid) }, []byte(tenant), uid(id))
			const own = `FROM everstep.runs WHERE sid = (SELECT sid FROM everstep.sessions WHERE tenant = $1 AND id = $2)`
			b.each(`SELECT count(*) `+own, func(row pgx.Row) error { return row.Scan(&runs) }, []byte(tenant), uid(id))
			b.each(`SELECT count(*) FROM (SELECT 1 `+own+` FOR UPDATE SKIP LOCKED) AS free`, func(row pgx.Row) error { return row.Scan(&free) }, []byte(tenant), uid(id))
			if err := b.send(ctx, c); err != nil {
				return err
			}
			if sid == 0 {
				return missingSession(id)
			}
			if free < runs {
				if _, err := c.Exec(ctx, `ROLLBACK`); err != nil {
					return err
				}
				continue
			}
			b = s.batch()
			b.deleteSessions([]int64{sid})
			b.exec(done)
			return b.send(ctx, c)
		}
	})
}

// deleteSessions removes the rows of sessions from every table.
func (b *batch) deleteSessions(sids []int64) {
	for _, table := range []string{"tasks", "messages", "documents", "checkpoints", "running", "runs", "lines", "sessions"} {
		b.exec(`DELETE FROM everstep.`+table+` WHERE sid = ANY($1::bigint[])`, sids)
	}
}

// pruneBatch is how many sessions are removed in one transaction.
const pruneBatch = 50

// Prune implements [store.Store]. A session is used by everything that is written in it, not
// only by the start of a run.
func (s *Store) Prune(ctx context.Context, p *store.Prune) (int, error) {
	removed := 0
	for removed < p.Limit {
		limit := min(p.Limit-removed, pruneBatch)
		n, err := s.prune(ctx, p, limit)
		removed += n
		if err != nil {
			return removed, err
		}
		if n < limit {
			break
		}
	}
	return removed, ctx.Err()
}

// prune removes some sessions. With a session locked, no run can begin in it and none can end, so
// the second look at what runs in it holds.
func (s *Store) prune(ctx context.Context, p *store.Prune, limit int) (n int, err error) {
	const idle = `NOT EXISTS (SELECT 1 FROM everstep.running u WHERE u.sid = s.sid)`
	before := int64(math.MinInt64)
	if !p.Before.IsZero() {
		before = nanos(p.Before)
	}
	const ofTenant = `($2::bytea IS NULL OR sha256(s.tenant) = sha256($2) AND s.tenant = $2)`
	// One that is used after it was counted has another latest than it was counted with.
	const surplus = `EXISTS (SELECT FROM (
			SELECT s.sid, s.latest, row_number() OVER (PARTITION BY s.tenant ORDER BY s.latest DESC, s.id DESC) AS place FROM everstep.sessions s WHERE ` + ofTenant + `
		) AS counted WHERE counted.sid = s.sid AND counted.latest = s.latest AND counted.place > $4)`
	old, args := `s.latest < $1`, []any{before, textOrNull(p.Tenant), int64(limit)}
	if p.Keep > 0 {
		old, args = `(s.latest < $1 OR `+surplus+`)`, append(args, int64(p.Keep))
	}
	err = s.write(ctx, "prune", unwritten, func(ctx context.Context, c *pgx.Conn) error {
		var sids []int64
		b := s.batch()
		b.exec(begin)
		b.each(`SELECT s.sid FROM everstep.sessions s WHERE `+old+` AND `+ofTenant+` AND `+idle+` ORDER BY s.latest LIMIT $3 FOR UPDATE OF s SKIP LOCKED`,
			func(row pgx.Row) error {
				var sid int64
				err := row.Scan(&sid)
				sids = append(sids, sid)
				return err
			}, args...)
		if err := b.send(ctx, c); err != nil {
			return err
		}
		var still []int64
		b = s.batch()
		b.each(`SELECT s.sid FROM everstep.sessions s WHERE s.sid = ANY($1::bigint[]) AND `+idle, func(row pgx.Row) error {
			var sid int64
			err := row.Scan(&sid)
			still = append(still, sid)
			return err
		}, sids)
		if err := b.send(ctx, c); err != nil {
			return err
		}
		n = len(still)
		b = s.batch()
		b.deleteSessions(still)
		b.exec(done)
		return b.send(ctx, c)
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

func textOrNull(text string) []byte {
	if text == "" {
		return nil
	}
	return []byte(text)
}
