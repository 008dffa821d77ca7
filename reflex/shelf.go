package reflex

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/everstep-go/everstep/internal/wire"
	"github.com/everstep-go/everstep/store"
)

// shelf keeps values as records of a tenant.
type shelf struct {
	records store.Records
	tenant  string
}

// writeTimeout bounds one attempt at a write.
const writeTimeout = 30 * time.Second

// get returns a value and its version; store.ErrNotFound if there is none.
func get[T any](ctx context.Context, s shelf, kind, key string) (v T, version int64, err error) {
	var r *store.Record
	err = again(ctx, func(ctx context.Context) (err error) {
		r, err = s.records.Record(ctx, s.tenant, kind, key)
		return err
	})
	if err != nil {
		return v, 0, err
	}
	if err := json.Unmarshal(r.Value, &v); err != nil {
		return v, 0, fmt.Errorf("reflex: record %s %q: %w", kind, key, err)
	}
	return v, r.Version, nil
}

// find is get for what may be missing: the zero value and version then.
func find[T any](ctx context.Context, s shelf, kind, key string) (v T, version int64, err error) {
	v, version, err = get[T](ctx, s, kind, key)
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	return v, version, err
}

// list returns the values that a query selects.
func list[T any](ctx context.Context, s shelf, q store.RecordQuery) ([]T, error) {
	q.Tenant = s.tenant
	var records []store.Record
	err := again(ctx, func(ctx context.Context) (err error) {
		records, err = s.records.ListRecords(ctx, &q)
		return err
	})
	if err != nil {
		return nil, err
	}
	out := make([]T, len(records))
	for i, r := range records {
		if err := json.Unmarshal(r.Value, &out[i]); err != nil {
			return nil, fmt.Errorf("reflex: record %s %q: %w", r.Kind, r.Key, err)
		}
	}
	return out, nil
}

// put makes a write of a value. What has no JSON is a mistake of this package.
func put(kind, key string, version int64, v any) store.RecordWrite {
	value, err := wire.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("reflex: record %s: %v", kind, err))
	}
	return store.RecordWrite{Kind: kind, Key: key, Version: version, Value: value}
}

// write makes the writes, with a context of its own: the end of a turn must not leave a write
// undecided. One whose answer got lost is recognised by what it wrote.
func (s shelf) write(ctx context.Context, writes ...store.RecordWrite) error {
	unsure := false
	return again(context.WithoutCancel(ctx), func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, writeTimeout)
		defer cancel()
		err := s.records.WriteRecords(ctx, s.tenant, writes)
		if errors.Is(err, store.ErrConflict) && unsure && s.written(ctx, writes) {
			return nil
		}
		unsure = true
		return err
	})
}

// again makes a call of a store, and repeats it when the store failed in a way that may pass.
func again(ctx context.Context, call func(context.Context) error) error {
	var err error
	for _, wait := range [...]time.Duration{0, 20 * time.Millisecond, 200 * time.Millisecond} {
		if wait > 0 {
			time.Sleep(wait)
		}
		if err = call(ctx); err == nil || ctx.Err() != nil || decided(err) {
			return err
		}
	}
	return err
}

// decided reports whether an error is the store's answer, which asking again does not change.
func decided(err error) bool {
	for _, e := range []error{store.ErrConflict, store.ErrNotFound, store.ErrClosed, store.ErrLocked} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// written reports whether the records are as the writes leave them.
func (s shelf) written(ctx context.Context, writes []store.RecordWrite) bool {
	for _, w := range writes {
		r, err := s.records.Record(ctx, s.tenant, w.Kind, w.Key)
		switch {
		case w.Delete && errors.Is(err, store.ErrNotFound):
		case !w.Delete && err == nil && r.Version == w.Version+1 && bytes.Equal(r.Value, w.Value):
		default:
			return false
		}
	}
	return true
}

// errSame tells update that there is nothing to change.
var errSame = errors.New("reflex: nothing to change")

// maxConflicts bounds how often a change is tried on a value that others keep changing.
const maxConflicts = 64

// update changes a value, which may be missing, and returns what it is afterwards. The func is
// called again if somebody else was faster; errSame leaves the value as it is.
func update[T any](ctx context.Context, s shelf, kind, key string, change func(v *T, exists bool) error) (T, error) {
	for range maxConflicts {
		v, version, err := find[T](ctx, s, kind, key)
		if err != nil {
			return v, err
		}
		if err := change(&v, version > 0); errors.Is(err, errSame) {
			return v, nil
		} else if err != nil {
			return v, err
		}
		if err = s.write(ctx, put(kind, key, version, v)); !errors.Is(err, store.ErrConflict) {
			return v, err
		}
	}
	var none T
	return none, fmt.Errorf("reflex: record %s %q: %w", kind, key, store.ErrConflict)
}
