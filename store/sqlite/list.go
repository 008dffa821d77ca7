package sqlite

import (
	"context"
	"strings"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/store"
)

// A selection is a condition on the rows of a list, with its arguments.
type selection struct {
	where []string
	args  []any
}

func (s *selection) add(condition string, args ...any) {
	s.where = append(s.where, condition)
	s.args = append(s.args, args...)
}

// in wants one of the values in a column, if there are any. The condition holds a %, where
// their parameters go; args are of the parameters after it.
func in[T any](s *selection, condition string, values []T, encode func(T) any, args ...any) {
	if len(values) == 0 {
		return
	}
	all := make([]any, 0, len(values)+len(args))
	for _, v := range values {
		all = append(all, encode(v))
	}
	marks := strings.Repeat(", ?", len(values))[2:]
	s.add(strings.Replace(condition, "%", marks, 1), append(all, args...)...)
}

func encodeID(id uuid.UUID) any { return id[:] }

func (s *selection) during(column string, r store.TimeRange) {
	if !r.After.IsZero() {
		s.add(column+` >= ?`, nanos(r.After))
	}
	if !r.Before.IsZero() {
		s.add(column+` <= ?`, nanos(r.Before))
	}
}

// within wants the rows of a session.
func (s *selection) within(column string, sid int64) {
	s.add(column+` BETWEEN ? AND ?`, key(sid, 0), key(sid, seqMask))
}

// A list says how its items are found: all of the table that match, then those of a page.
type list[T any] struct {
	columns, from string
	joins         string // only for the columns
	order         string
	selection
	scan func(row) T
	// cursor is where the item ends a page; after is the condition for what follows a cursor.
	cursor func(*T) store.Cursor
	after  func(*selection, store.Cursor)
}

// page reads a page of the list for a query.
func (l *list[T]) page(ctx context.Context, c *conn, query any, paging store.Paging) (*store.Page[T], error) {
	at, resumed, err := store.DecodeCursor(query, paging.Page)
	if err != nil {
		return nil, err
	}
	page := new(store.Page[T])
	err = c.each(ctx, `SELECT count(*) FROM `+l.from+` WHERE `+strings.Join(l.where, ` AND `), func(v row) error {
		page.Count = int(v.int(0))
		return nil
	}, l.args...)
	if err != nil {
		return nil, err
	}
	if resumed {
		l.after(&l.selection, at)
	}
	limit := paging.Limit()
	more := false
	err = c.each(ctx, `SELECT `+l.columns+` FROM `+l.from+l.joins+` WHERE `+strings.Join(l.where, ` AND `)+` ORDER BY `+l.order+` LIMIT ?`, func(v row) error {
		if len(page.Items) == limit {
			more = true
			return nil
		}
		page.Items = append(page.Items, l.scan(v))
		return nil
	}, append(l.args, limit+1)...)
	if err != nil {
		return nil, err
	}
	if more {
		page.Next = store.EncodeCursor(query, l.cursor(&page.Items[limit-1]))
	}
	return page, nil
}

// Sessions implements [store.Store].
func (s *Store) Sessions(ctx context.Context, q *store.SessionQuery) (*store.Page[store.Session], error) {
	l := list[store.Session]{
		columns: sessionColumns + `, r.id`,
		from:    `sessions s`,
		joins:   ` LEFT JOIN runs r ON s.active <> 0 AND r.k = (s.sid << 32) + s.active`,
		order:   `s.created DESC, s.id DESC`,
		scan: func(v row) store.Session {
			var s session
			s.scan(v, 0)
			s.Active = v.id(12)
			return s.Session
		},
		cursor: func(s *store.Session) store.Cursor { return store.Cursor{Created: s.CreatedAt, ID: s.ID} },
		after: func(w *selection, at store.Cursor) {
			w.add(`(s.created, s.id) < (?, ?)`, nanos(at.Created), at.ID[:])
		},
	}
	l.add(`s.tenant = ?`, q.Tenant)
	in(&l.selection, `s.id IN (%)`, q.IDs, encodeID)
	l.during(`s.created`, q.Created)
	l.during(`s.updated`, q.Updated)
	var page *store.Page[store.Session]
	err := s.read(ctx, "sessions", func(c *conn) (err error) {
		page, err = l.page(ctx, c, q, q.Paging)
		return err
	})
	return page, err
}

// Runs implements [store.Store].
func (s *Store) Runs(ctx context.Context, q *store.RunQuery) (*store.Page[store.Run], error) {
	return listOf(ctx, s, "runs", q, q.Paging, q.Tenant, q.Session, func(sid int64, _ uuid.UUID) *list[store.Run] {
		l := &list[store.Run]{
			columns: runColumns + `, ` + sessionColumns + `, running.params`,
			from:    `runs r`,
			joins:   ` JOIN sessions s ON s.sid = r.k >> 32 LEFT JOIN running ON running.k = r.k`,
			order:   `r.k DESC`,
			scan: func(v row) store.Run {
				var r run
				r.scan(v)
				r.Params = v.blob(33)
				return r.Run
			},
			cursor: func(r *store.Run) store.Cursor { return store.Cursor{Seq: r.Seq} },
		}
		l.bySeq(`r.k`, sid)
		in(&l.selection, `r.id IN (%)`, q.IDs, encodeID)
		in(&l.selection, `r.status IN (%)`, q.Statuses, statuses.encode)
		l.during(`r.created`, q.Created)
		l.during(`r.updated`, q.Updated)
		return l
	})
}

// Checkpoints implements [store.Store].
func (s *Store) Checkpoints(ctx context.Context, q *store.CheckpointQuery) (*store.Page[checkpoint.Checkpoint], error) {
	return listOf(ctx, s, "checkpoints", q, q.Paging, q.Tenant, q.Session, func(sid int64, session uuid.UUID) *list[checkpoint.Checkpoint] {
		l := &list[checkpoint.Checkpoint]{
			columns: checkpointColumns,
			from:    `checkpoints c`,
			joins:   checkpointJoins,
			order:   `c.k DESC`,
			scan:    func(v row) checkpoint.Checkpoint { return scanCheckpoint(session, v) },
			cursor:  func(cp *checkpoint.Checkpoint) store.Cursor { return store.Cursor{Seq: cp.Seq} },
		}
		l.bySeq(`c.k`, sid)
		in(&l.selection, `c.id IN (%)`, q.IDs, encodeID)
		in(&l.selection, `c.run IN (SELECT k & 4294967295 FROM runs WHERE id IN (%) AND k BETWEEN ? AND ?)`, q.Runs, encodeID, key(sid, 0), key(sid, seqMask))
		in(&l.selection, `c.reason IN (%)`, q.Reasons, reasons.encode)
		in(&l.selection, `c.status IN (%)`, q.Statuses, statuses.encode)
		l.during(`c.created`, q.Created)
		return l
	})
}

// Messages implements [store.Store].
func (s *Store) Messages(ctx context.Context, q *store.MessageQuery) (*store.Page[store.Message], error) {
	return listOf(ctx, s, "messages", q, q.Paging, q.Tenant, q.Session, func(sid int64, session uuid.UUID) *list[store.Message] {
		l := &list[store.Message]{
			columns: messageColumns,
			from:    `messages m`,
			order:   `m.k DESC`,
			scan: func(v row) store.Message {
				var m store.Message
				scanMessage(&m, session, v)
				return m
			},
			cursor: func(m *store.Message) store.Cursor { return store.Cursor{Seq: m.Seq} },
		}
		l.bySeq(`m.k`, sid)
		in(&l.selection, `m.id IN (%)`, q.IDs, encodeID)
		in(&l.selection, `m.run IN (%)`, q.Runs, encodeID)
		in(&l.selection, `m.checkpoint IN (%)`, q.Checkpoints, encodeID)
		in(&l.selection, `m.role IN (%)`, q.Roles, roles.encode)
		l.during(`m.created`, q.Created)
		return l
	})
}

// bySeq makes the list one of a session, by sequence.
func (l *list[T]) bySeq(column string, sid int64) {
	l.within(column, sid)
	l.after = func(w *selection, at store.Cursor) { w.add(column+` < ?`, key(sid, at.Seq)) }
}

// listOf reads a page of a list of a session.
func listOf[T any](ctx context.Context, s *Store, op string, query any, paging store.Paging, tenant string, session uuid.UUID,
	list func(sid int64, session uuid.UUID) *list[T]) (*store.Page[T], error) {
	var page *store.Page[T]
	err := s.read(ctx, op, func(c *conn) error {
		in, err := needSession(ctx, c, tenant, session)
		if err != nil {
			return err
		}
		page, err = list(in.sid, in.ID).page(ctx, c, query, paging)
		return err
	})
	return page, err
}
