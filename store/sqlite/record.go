package sqlite

import (
	"cmp"
	"context"
	"fmt"

	"github.com/everstep-go/everstep/store"
)

var _ store.Records = (*Store)(nil)

// Record implements [store.Records].
func (s *Store) Record(ctx context.Context, tenant, kind, key string) (*store.Record, error) {
	r := &store.Record{Kind: kind, Key: key}
	err := s.read(ctx, "record", func(c *conn) error {
		found, err := c.one(ctx, `SELECT version, value FROM records WHERE tenant = CAST(? AS TEXT) AND kind = CAST(? AS TEXT) AND key = CAST(? AS BLOB)`,
			func(v row) error {
				r.Version, r.Value = v.int(0), v.blob(1)
				return nil
			}, tenant, kind, []byte(key))
		if err == nil && !found {
			err = fmt.Errorf("%w: record %s %q", store.ErrNotFound, kind, key)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// ListRecords implements [store.Records].
func (s *Store) ListRecords(ctx context.Context, q *store.RecordQuery) ([]store.Record, error) {
	from, to := []byte(q.Prefix), store.PrefixEnd(q.Prefix)
	over, direction := ">=", "ASC"
	switch {
	case q.After != "" && q.Descending:
		if after := []byte(q.After); to == nil || string(after) < string(to) {
			to = after
		}
	case q.After >= q.Prefix && q.After != "":
		from, over = []byte(q.After), ">"
	}
	if q.Descending {
		direction = "DESC"
	}
	where := `tenant = CAST(? AS TEXT) AND kind = CAST(? AS TEXT) AND key ` + over + ` CAST(? AS BLOB)`
	args := []any{q.Tenant, q.Kind, from}
	if to != nil {
		where += ` AND key < CAST(? AS BLOB)`
		args = append(args, to)
	}
	var out []store.Record
	err := s.read(ctx, "list records", func(c *conn) error {
		return c.each(ctx, `SELECT key, version, value FROM records WHERE `+where+` ORDER BY key `+direction+` LIMIT ?`, func(v row) error {
			out = append(out, store.Record{Kind: q.Kind, Key: string(v.blob(0)), Version: v.int(1), Value: v.blob(2)})
			return nil
		}, append(args, cmp.Or(q.Limit, store.MaxPerPage))...)
	})
	return out, err
}

// WriteRecords implements [store.Records].
func (s *Store) WriteRecords(ctx context.Context, tenant string, writes []store.RecordWrite) error {
	// It touches no run: the cache of runs stays right.
	return s.writeRun(ctx, "write records", func(ctx context.Context, c *conn) error {
		for _, w := range writes {
			done, err := writeRecord(ctx, c, tenant, w)
			if err != nil {
				return err
			}
			if !done {
				return fmt.Errorf("%w: record %s %q does not have version %d", store.ErrConflict, w.Kind, w.Key, w.Version)
			}
		}
		return nil
	})
}

// writeRecord reports whether the record had the version that the write expects.
func writeRecord(ctx context.Context, c *conn, tenant string, w store.RecordWrite) (done bool, err error) {
	found := func(row) error { return nil }
	value := w.Value
	if value == nil {
		value = []byte{}
	}
	const which = ` WHERE tenant = CAST(? AS TEXT) AND kind = CAST(? AS TEXT) AND key = CAST(? AS BLOB) AND version = ? RETURNING version`
	switch {
	case w.Delete && w.Version == 0:
		exists, err := c.one(ctx, `SELECT version FROM records WHERE tenant = CAST(? AS TEXT) AND kind = CAST(? AS TEXT) AND key = CAST(? AS BLOB)`,
			found, tenant, w.Kind, []byte(w.Key))
		return !exists, err
	case w.Delete:
		return c.one(ctx, `DELETE FROM records`+which, found, tenant, w.Kind, []byte(w.Key), w.Version)
	case w.Version == 0:
		return c.one(ctx, `INSERT INTO records (tenant, kind, key, version, value) VALUES (CAST(? AS TEXT), CAST(? AS TEXT), CAST(? AS BLOB), 1, CAST(? AS BLOB))
			ON CONFLICT DO NOTHING RETURNING version`, found, tenant, w.Kind, []byte(w.Key), value)
	}
	return c.one(ctx, `UPDATE records SET version = version + 1, value = CAST(? AS BLOB)`+which,
		found, value, tenant, w.Kind, []byte(w.Key), w.Version)
}
