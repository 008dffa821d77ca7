package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/everstep-go/everstep/store"
)

var _ store.Records = (*Store)(nil)

// A shelf is the records of one kind of a tenant.
type shelf struct {
	byKey map[string]*store.Record
	keys  []string // in order
}

type shelfKey struct{ tenant, kind string }

// Record implements [store.Records].
func (s *Store) Record(ctx context.Context, tenant, kind, key string) (*store.Record, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	if sh := s.records[shelfKey{tenant, kind}]; sh != nil && sh.byKey[key] != nil {
		r := copyRecord(sh.byKey[key])
		return &r, nil
	}
	return nil, fmt.Errorf("%w: record %s %q", store.ErrNotFound, kind, key)
}

// ListRecords implements [store.Records].
func (s *Store) ListRecords(ctx context.Context, q *store.RecordQuery) ([]store.Record, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	sh := s.records[shelfKey{q.Tenant, q.Kind}]
	if sh == nil {
		return nil, nil
	}
	from, _ := slices.BinarySearch(sh.keys, q.Prefix)
	to := len(sh.keys)
	if end := store.PrefixEnd(q.Prefix); end != nil {
		to, _ = slices.BinarySearch(sh.keys, string(end))
	}
	if q.After != "" {
		at, found := slices.BinarySearch(sh.keys, q.After)
		switch {
		case q.Descending:
			to = min(to, at)
		case found:
			from = max(from, at+1)
		default:
			from = max(from, at)
		}
	}
	var out []store.Record
	for n := cmp.Or(q.Limit, store.MaxPerPage); from < to && len(out) < n; {
		at := from
		if q.Descending {
			to--
			at = to
		} else {
			from++
		}
		out = append(out, copyRecord(sh.byKey[sh.keys[at]]))
	}
	return out, nil
}

// WriteRecords implements [store.Records].
func (s *Store) WriteRecords(ctx context.Context, tenant string, writes []store.RecordWrite) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	for _, w := range writes {
		version := int64(0)
		if sh := s.records[shelfKey{tenant, w.Kind}]; sh != nil && sh.byKey[w.Key] != nil {
			version = sh.byKey[w.Key].Version
		}
		if version != w.Version {
			return fmt.Errorf("%w: record %s %q has version %d, not %d", store.ErrConflict, w.Kind, w.Key, version, w.Version)
		}
	}
	for _, w := range writes {
		s.writeRecord(shelfKey{tenant, w.Kind}, w)
	}
	return nil
}

func (s *Store) writeRecord(k shelfKey, w store.RecordWrite) {
	sh := s.records[k]
	if sh == nil {
		sh = &shelf{byKey: map[string]*store.Record{}}
		s.records[k] = sh
	}
	at, found := slices.BinarySearch(sh.keys, w.Key)
	switch {
	case w.Delete && found:
		delete(sh.byKey, w.Key)
		sh.keys = slices.Delete(sh.keys, at, at+1)
	case !w.Delete:
		if !found {
			sh.keys = slices.Insert(sh.keys, at, strings.Clone(w.Key))
		}
		sh.byKey[w.Key] = &store.Record{Kind: w.Kind, Key: w.Key, Version: w.Version + 1, Value: slices.Clone(w.Value)}
	}
}

func copyRecord(r *store.Record) store.Record {
	c := *r
	c.Value = slices.Clone(r.Value)
	return c
}
