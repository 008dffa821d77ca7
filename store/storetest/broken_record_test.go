package storetest

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/everstep-go/everstep/store"
)

// brokenRecords are the record methods of a broken store.
type brokenRecords struct {
	record       func(ctx context.Context, tenant, kind, key string) (*store.Record, error)
	listRecords  func(context.Context, *store.RecordQuery) ([]store.Record, error)
	writeRecords func(context.Context, string, []store.RecordWrite) error
}

var _ store.Records = brokenRecords{}

func (r brokenRecords) Record(ctx context.Context, tenant, kind, key string) (*store.Record, error) {
	return r.record(ctx, tenant, kind, key)
}

func (r brokenRecords) ListRecords(ctx context.Context, q *store.RecordQuery) ([]store.Record, error) {
	return r.listRecords(ctx, q)
}

func (r brokenRecords) WriteRecords(ctx context.Context, tenant string, writes []store.RecordWrite) error {
	return r.writeRecords(ctx, tenant, writes)
}

// changeWrites changes the writes that a sound store is given.
func (s *broken) changeWrites(change func([]store.RecordWrite) []store.RecordWrite) {
	sound := s.writeRecords
	s.writeRecords = func(ctx context.Context, tenant string, writes []store.RecordWrite) error {
		return sound(ctx, tenant, change(slices.Clone(writes)))
	}
}

// changeQuery changes the queries that a sound store is given.
func (s *broken) changeQuery(change func(*store.RecordQuery)) {
	sound := s.listRecords
	s.listRecords = func(ctx context.Context, q *store.RecordQuery) ([]store.Record, error) {
		c := *q
		change(&c)
		return sound(ctx, &c)
	}
}

var recordBreakages = []breakage{
	{"finds records of any tenant", func(s *broken) {
		sound := s.record
		s.record = func(ctx context.Context, _, kind, key string) (*store.Record, error) {
			return sound(ctx, tenant, kind, key)
		}
	}, []string{"record-value"}},
	{"takes the case of keys for the same", func(s *broken) {
		sound := s.record
		s.record = func(ctx context.Context, tenant, kind, key string) (*store.Record, error) {
			return sound(ctx, tenant, kind, strings.ToLower(key))
		}
	}, []string{"record-value"}},
	{"counts versions from zero", func(s *broken) {
		sound := s.record
		s.record = func(ctx context.Context, tenant, kind, key string) (*store.Record, error) {
			r, err := sound(ctx, tenant, kind, key)
			if err == nil {
				r.Version--
			}
			return r, err
		}
	}, []string{"record-version"}},
	{"keeps what is deleted", func(s *broken) {
		s.changeWrites(func(writes []store.RecordWrite) []store.RecordWrite {
			for i := range writes {
				writes[i].Delete = false
			}
			return writes
		})
	}, []string{"record-version", "record-atomic"}},
	{"writes over any version", func(s *broken) {
		sound := s.writeRecords
		s.writeRecords = func(ctx context.Context, tenant string, writes []store.RecordWrite) error {
			writes = slices.Clone(writes)
			for i := range writes {
				writes[i].Version = 0
				if r, err := s.record(ctx, tenant, writes[i].Kind, writes[i].Key); err == nil {
					writes[i].Version = r.Version
				}
			}
			return sound(ctx, tenant, writes)
		}
	}, []string{"record-expected", "record-concurrent"}},
	{"passes over a conflict", func(s *broken) {
		sound := s.writeRecords
		s.writeRecords = func(ctx context.Context, tenant string, writes []store.RecordWrite) error {
			return ignore(sound(ctx, tenant, writes), store.ErrConflict)
		}
	}, []string{"record-expected", "record-concurrent"}},
	{"writes one after the other", func(s *broken) {
		sound := s.writeRecords
		s.writeRecords = func(ctx context.Context, tenant string, writes []store.RecordWrite) error {
			var errs []error
			for _, w := range writes {
				errs = append(errs, sound(ctx, tenant, []store.RecordWrite{w}))
			}
			return errors.Join(errs...)
		}
	}, []string{"record-atomic"}},
	{"lists in one direction only", func(s *broken) {
		s.changeQuery(func(q *store.RecordQuery) { q.Descending = false })
	}, []string{"record-list"}},
	{"lists without a prefix", func(s *broken) {
		s.changeQuery(func(q *store.RecordQuery) { q.Prefix = "" })
	}, []string{"record-list"}},
	{"begins every list anew", func(s *broken) {
		s.changeQuery(func(q *store.RecordQuery) { q.After = "" })
	}, []string{"record-list"}},
	{"keeps the caller's bytes", func(s *broken) {
		sound := s.record
		values := map[string][]byte{}
		s.record = func(ctx context.Context, tenant, kind, key string) (*store.Record, error) {
			r, err := sound(ctx, tenant, kind, key)
			if err == nil && values[key] == nil {
				values[key] = r.Value
			} else if err == nil {
				r.Value = values[key]
			}
			return r, err
		}
	}, []string{"record-copies"}},
}
