package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/store"
)

// A selection is a condition on the rows of a list, with its arguments.
type selection struct {
	where []string
	args  []any
}

// add adds a condition. Each ? in it is one of the arguments.
func (s *selection) add(condition string, args ...any) {
	for _, arg := range args {
		s.args = append(s.args, arg)
		condition = strings.Replace(condition, "?", fmt.Sprintf("$%d", len(s.args)), 1)
	}
	s.where = append(s.where, condition)
}

func (s *selection) ids(column string, values []uuid.UUID) {
	if len(values) > 0 {
		s.add(column+` = ANY(?::uuid[])`, uids(values))
	}
}

func in[T ~string](s *selection, column string, values []T) {
	if len(values) > 0 {
		s.add(column+` = ANY(?::text[])`, words(values))
	}
}

func (s *selection) during(column string, r store.TimeRange) {
	if !r.After.IsZero() {
		s.add(column+` >= ?`, nanos(r.After))
	}
	if !r.Before.IsZero() {
		s.add(column+` <= ?`, nanos(r.Before))
	}
}

// owned is the id of a tenant's session.
type owned struct {
	tenant string
	id     uuid.UUID
}

// A list says how its items are found: all of the table that match, then those of a page.
type list[T any] struct {
	columns, from, order string
	within               *owned // nil: no list of a session
	selection
	scan func(*T, pgx.Row) error
	// cursor is where the item ends a page; after is the condition for what follows a cursor.
	cursor func(*T) store.Cursor
	after  func(*selection, store.Cursor)
}

// of makes it the list of a session's items, each with its sid and seq.
func (l *list[T]) of(tenant string, session uuid.UUID, sid, column string) {
	l.within = &owned{tenant, session}
	l.add(sid+` = (SELECT sid FROM everstep.sessions WHERE tenant = ? AND id = ?)`, []byte(tenant), uid(session))
	l.order = column + ` DESC`
	l.after = func(s *selection, at store.Cursor) { s.add(column+` < ?`, at.Seq) }
}

// page reads a page of the list for a query, in one round trip.
func (l *list[T]) page(ctx context.Context, s *Store, op string, query any, paging store.Paging) (*store.Page[T], error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	s.leave()
	cursor, resumed, err := store.DecodeCursor(query, paging.Page)
	if err != nil {
		return nil, fmt.Errorf("postgres: %s: %w", op, err)
	}
	count, countArgs := `SELECT count(*) FROM `+l.from+` WHERE `+strings.Join(l.where, ` AND `), l.args
	if resumed {
		l.after(&l.selection, cursor)
	}
	limit := paging.Limit()
	args := append(l.args[:len(l.args):len(l.args)], int64(limit+1))
	items := fmt.Sprintf(`SELECT %s FROM %s WHERE %s ORDER BY %s LIMIT $%d`, l.columns, l.from, strings.Join(l.where, ` AND `), l.order, len(args))
	var page *store.Page[T]
	err = s.read(ctx, op, func(ctx context.Context, c *pgx.Conn) error {
		page = new(store.Page[T])
		found := l.within == nil
		b := s.batch()
		b.exec(snapshot)
		if !found {
			b.each(`SELECT FROM everstep.sessions WHERE tenant = $1 AND id = $2`, func(pgx.Row) error {
				found = true
				return nil
			}, []byte(l.within.tenant), uid(l.within.id))
		}
		b.each(count, func(row pgx.Row) error { return row.Scan(&page.Count) }, countArgs...)
		b.each(items, func(row pgx.Row) error {
			var item T
			err := l.scan(&item, row)
			page.Items = append(page.Items, item)
			return err
		}, args...)
		b.exec(done)
		if err := b.send(ctx, c); err != nil {
			return err
		}
		if !found {
			return missingSession(l.within.id)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(page.Items) > limit {
		page.Items = page.Items[:limit]
		page.Next = store.EncodeCursor(query, l.cursor(&page.Items[limit-1]))
	}
	return page, nil
}

// Sessions implements [store.Store].
func (s *Store) Sessions(ctx context.Context, q *store.SessionQuery) (*store.Page[store.Session], error) {
	l := list[store.Session]{
		columns: sessionColumns,
		from:    `everstep.sessions s`,
		order:   `s.created DESC, s.id DESC`,
		scan: func(item *store.Session, row pgx.Row) error {
			var s session
			err := row.Scan(s.dest()...)
			*item = s.Session
			return err
		},
		cursor: func(s *store.Session) store.Cursor { return store.Cursor{Created: s.CreatedAt, ID: s.ID} },
		after: func(w *selection, at store.Cursor) {
			w.add(`(s.created, s.id) < (?, ?)`, nanos(at.Created), uid(at.ID))
		},
	}
	l.add(`sha256(s.tenant) = sha256(?)`, []byte(q.Tenant))
	l.add(`s.tenant = ?`, []byte(q.Tenant))
	l.ids(`s.id`, q.IDs)
	l.during(`s.created`, q.Created)
	l.during(`s.updated`, q.Updated)
	return l.page(ctx, s, "sessions", q, q.Paging)
}

// Runs implements [store.Store].
func (s *Store) Runs(ctx context.Context, q *store.RunQuery) (*store.Page[store.Run], error) {
	l := list[store.Run]{
		columns: runColumns + paramsColumn,
		from:    `everstep.runs r`,
		scan: func(item *store.Run, row pgx.Row) error {
			var r run
			err := r.scan(row, &r.Params)
			*item = r.Run
			return err
		},
		cursor: func(r *store.Run) store.Cursor { return store.Cursor{Seq: r.Seq} },
	}
	l.of(q.Tenant, q.Session, `r.sid`, `r.seq`)
	l.ids(`r.id`, q.IDs)
	in(&l.selection, `r.status`, q.Statuses)
	l.during(`r.created`, q.Created)
	l.during(`r.updated`, q.Updated)
	return l.page(ctx, s, "runs", q, q.Paging)
}

// Checkpoints implements [store.Store].
func (s *Store) Checkpoints(ctx context.Context, q *store.CheckpointQuery) (*store.Page[checkpoint.Checkpoint], error) {
	l := list[checkpoint.Checkpoint]{
		columns: checkpointColumns,
		from:    `everstep.checkpoints c`,
		scan: func(item *checkpoint.Checkpoint, row pgx.Row) error {
			item.SessionID = q.Session
			return scanCheckpoint(item, row)
		},
		cursor: func(cp *checkpoint.Checkpoint) store.Cursor { return store.Cursor{Seq: cp.Seq} },
	}
	l.of(q.Tenant, q.Session, `c.sid`, `c.seq`)
	l.ids(`c.id`, q.IDs)
	l.ids(`c.run`, q.Runs)
	in(&l.selection, `c.reason`, q.Reasons)
	in(&l.selection, `c.status`, q.Statuses)
	l.during(`c.created`, q.Created)
	return l.page(ctx, s, "checkpoints", q, q.Paging)
}

// Messages implements [store.Store].
func (s *Store) Messages(ctx context.Context, q *store.MessageQuery) (*store.Page[store.Message], error) {
	l := list[store.Message]{
		columns: messageColumns,
		from:    `everstep.messages m`,
		scan: func(item *store.Message, row pgx.Row) error {
			item.SessionID = q.Session
			return scanMessage(item, row)
		},
		cursor: func(m *store.Message) store.Cursor { return store.Cursor{Seq: m.Seq} },
	}
	l.of(q.Tenant, q.Session, `m.sid`, `m.seq`)
	l.ids(`m.id`, q.IDs)
	l.ids(`m.run`, q.Runs)
	l.ids(`m.checkpoint`, q.Checkpoints)
	in(&l.selection, `m.role`, q.Roles)
	l.during(`m.created`, q.Created)
	return l.page(ctx, s, "messages", q, q.Paging)
}
