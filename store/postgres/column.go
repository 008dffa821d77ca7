package postgres

import (
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
)

// Arguments are of types that pgx knows by themselves, for in the modes without prepared
// statements it does not ask the server what a parameter is.

func uid(v uuid.UUID) pgtype.UUID { return pgtype.UUID{Bytes: v, Valid: true} }

func uids(all []uuid.UUID) []pgtype.UUID {
	out := make([]pgtype.UUID, len(all))
	for i, v := range all {
		out[i] = uid(v)
	}
	return out
}

// texts makes an argument of texts that users chose, or of words.
func texts[T ~string](all []T) [][]byte {
	out := make([][]byte, len(all))
	for i, v := range all {
		out[i] = []byte(v)
	}
	return out
}

func words[T ~string](all []T) []string {
	out := make([]string, len(all))
	for i, v := range all {
		out[i] = string(v)
	}
	return out
}

// offset is a sequence counted from the last one before a write, NULL if there is none.
func offset(n int64) pgtype.Int8 { return pgtype.Int8{Int64: n, Valid: n != 0} }

// notNull keeps nil as empty bytes.
func notNull(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// intoText scans a text that is kept as bytes, and intoTime a time.
type (
	intoText struct{ to *string }
	intoTime struct{ to *time.Time }
)

func (t intoText) ScanBytes(b []byte) error {
	*t.to = string(b)
	return nil
}

func (t intoTime) ScanInt64(v pgtype.Int8) error {
	*t.to = fromNanos(v.Int64)
	return nil
}

var (
	minTime = time.Unix(0, math.MinInt64)
	maxTime = time.Unix(0, math.MaxInt64)
)

// nanos is how a time is kept. What nanoseconds cannot express is taken to the nearest that
// they can; the zero time is 0.
func nanos(t time.Time) int64 {
	switch {
	case t.IsZero():
		return 0
	case t.Before(minTime):
		return math.MinInt64
	case t.After(maxTime):
		return math.MaxInt64
	}
	return t.UnixNano()
}

func fromNanos(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}
