package postgres

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/everstep-go/everstep/store"
)

var _ store.Records = (*Store)(nil)

// recordTenant is how records name their tenant: in a key, texts of any length do not fit.
func recordTenant(tenant string) []byte {
	sum := sha256.Sum256([]byte(tenant))
	return sum[:]
}

// Record implements [store.Records].
func (s *Store) Record(ctx context.Context, tenant, kind, key string) (*store.Record, error) {
	r := &store.Record{Kind: kind, Key: key}
	err := s.read(ctx, "record", func(ctx context.Context, c *pgx.Conn) error {
		err := c.QueryRow(ctx, s.sql(`SELECT version, value FROM everstep.records WHERE tenant = $1 AND kind = $2 AND key = $3`),
			recordTenant(tenant), []byte(kind), []byte(key)).Scan(&r.Version, &r.Value)
		if errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("%w: record %s %q", store.ErrNotFound, kind, key)
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
		if after := []byte(q.After); to == nil || bytes.Compare(after, to) < 0 {
			to = after
		}
	case q.After != "" && q.After >= q.Prefix:
		from, over = []byte(q.After), ">"
	}
	if q.Descending {
		direction = "DESC"
	}
	text := `SELECT key, version, value FROM everstep.records WHERE tenant = $1 AND kind = $2 AND key ` + over + ` $3`
	args := []any{recordTenant(q.Tenant), []byte(q.Kind), from, cmp.Or(q.Limit, store.MaxPerPage)}
	if to != nil {
		text += ` AND key < $5`
		args = append(args, to)
	}
	var out []store.Record
	err := s.read(ctx, "list records", func(ctx context.Context, c *pgx.Conn) error {
		out = nil
		rows, err := c.Query(ctx, s.sql(text+` ORDER BY key `+direction+` LIMIT $4::bigint`), args...)
		if err != nil {
			return err
		}
		var key []byte
		r := store.Record{Kind: q.Kind}
		_, err = pgx.ForEachRow(rows, []any{&key, &r.Version, &r.Value}, func() error {
			r.Key = string(key)
			r.Value = bytes.Clone(r.Value)
			out = append(out, r)
			return nil
		})
		return err
	})
	return out, err
}

// WriteRecords implements [store.Records]. Records are locked in the order of their keys, so that two
// writers of the same ones wait for each other and never both.
func (s *Store) WriteRecords(ctx context.Context, tenant string, writes []store.RecordWrite) error {
	ordered := slices.Clone(writes)
	slices.SortFunc(ordered, func(a, b store.RecordWrite) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Key, b.Key))
	})
	return s.write(ctx, "write records", unwritten, func(ctx context.Context, c *pgx.Conn) error {
		written := make([]bool, len(ordered))
		b := s.batch()
		b.exec(begin)
		for i, w := range ordered {
			b.record(tenant, w, &written[i])
		}
		if err := b.send(ctx, c); err != nil {
			return err
		}
		for i, w := range ordered {
			if !written[i] {
				return fmt.Errorf("%w: record %s %q does not have version %d", store.ErrConflict, w.Kind, w.Key, w.Version)
			}
		}
		_, err := c.Exec(ctx, done)
		return err
	})
}

// record adds a write, which sets done if the record had the version that it expects.
func (b *batch) record(tenant string, w store.RecordWrite, done *bool) {
	*done = w.Delete && w.Version == 0 // unless there is one
	found := func(pgx.Row) error {
		*done = !(w.Delete && w.Version == 0)
		return nil
	}
	value := w.Value
	if value == nil {
		value = []byte{}
	}
	const which = ` WHERE tenant = $1 AND kind = $2 AND key = $3`
	args := []any{recordTenant(tenant), []byte(w.Kind), []byte(w.Key)}
	switch {
	case w.Delete && w.Version == 0:
		b.each(`SELECT version FROM everstep.records`+which, found, args...)
	case w.Delete:
		b.each(`DELETE FROM everstep.records`+which+` AND version = $4 RETURNING version`, found, append(args, w.Version)...)
	case w.Version == 0:
		b.each(`INSERT INTO everstep.records (tenant, kind, key, version, value) VALUES ($1, $2, $3, 1, $4)
			ON CONFLICT DO NOTHING RETURNING version`, found, append(args, value)...)
	default:
		b.each(`UPDATE everstep.records SET version = version + 1, value = $5`+which+` AND version = $4 RETURNING version`, found, append(args, w.Version, value)...)
	}
}
