package store

import "context"

// Records is what a [Store] may offer besides: a place for small records of a program's own, which
// are found by their keys and changed with compare-and-set. Package reflex keeps its threads,
// ledgers and batches there. All drivers of this module have it; a wrapper of a store hands it on.
//
// Kinds and keys are valid UTF-8 without NUL; keys are ordered by their bytes.
type Records interface {
	// Record returns a record, [ErrNotFound] if there is none.
	Record(ctx context.Context, tenant, kind, key string) (*Record, error)

	// ListRecords returns the records of a kind in the order of their keys.
	ListRecords(ctx context.Context, q *RecordQuery) ([]Record, error)

	// WriteRecords makes all the writes or none. It returns [ErrConflict] if a record does not
	// have the version that its write expects. A key occurs once in a call.
	WriteRecords(ctx context.Context, tenant string, writes []RecordWrite) error
}

// Record is a value under a key.
type Record struct {
	Kind, Key string
	// Version is 1 for a new record and one more with each write. A record that was deleted
	// begins anew with 1.
	Version int64
	Value   []byte
}

// RecordWrite is a new value of a record, or its end.
type RecordWrite struct {
	Kind, Key string
	// Version is the one that the record must have; zero if it must not exist.
	Version int64
	// Value is any bytes, which become the record's next version.
	Value []byte
	// Delete removes the record instead.
	Delete bool
}

// RecordQuery selects records of a kind.
type RecordQuery struct {
	Tenant, Kind string
	// Prefix that the keys begin with; empty for all.
	Prefix string
	// After is a key: the list goes on behind it, in its direction. Empty begins at the end that
	// comes first.
	After string
	// Descending lists the last keys first.
	Descending bool
	// Limit is how many are returned at most. Zero means [MaxPerPage]; more than that is possible.
	Limit int
}

// PrefixEnd returns the least text of bytes that is behind all those with the prefix, for drivers
// that look for a range of keys. Nil: there is none.
func PrefixEnd(prefix string) []byte {
	end := []byte(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] < 0xff {
			end[i]++
			return end[:i+1]
		}
	}
	return nil
}
