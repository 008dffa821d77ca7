package sqlite

import (
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/store"
)

// seqMask takes the sequence out of a key.
const seqMask = 1<<32 - 1

// key is the key of what has a sequence, or of a line, in a session.
func key(sid, seq int64) int64 { return sid<<32 | seq }

// The codes of the words that are kept as numbers. They are in the files: only append.
var (
	statuses = words[checkpoint.Status]{checkpoint.Running, checkpoint.Interrupted, checkpoint.Completed, checkpoint.Failed, checkpoint.Cancelled}
	reasons  = words[checkpoint.Reason]{checkpoint.Input, checkpoint.Step, checkpoint.Interrupt, checkpoint.Finish}
	roles    = words[message.Role]{message.RoleSystem, message.RoleUser, message.RoleAssistant, message.RoleTool, message.RoleReasoning}
)

// words is a column of words, most of which have a number.
type words[T ~string] []T

func (w words[T]) encode(word T) any {
	if i := slices.Index(w, word); i >= 0 {
		return int64(i)
	}
	return string(word)
}

func (w words[T]) decode(v any) T {
	switch v := v.(type) {
	case int64:
		if v >= 0 && v < int64(len(w)) {
			return w[v]
		}
	case string:
		return T(v)
	}
	return ""
}

// idOrNull keeps the zero id as NULL.
func idOrNull(id uuid.UUID) any {
	if id == uuid.Nil {
		return nil
	}
	return id[:]
}

// blobOrNull keeps nil as NULL, unlike a []byte in an interface.
func blobOrNull(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}

// notNull keeps nil as an empty blob.
func notNull(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func number(b bool) int64 {
	if b {
		return 1
	}
	return 0
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

// encodeCommitted is what a run remembers of its last write, to answer it again: the time, the
// distances between the sequences, and, behind a distance of zero, which there is none of, what
// [encodeBegun] adds. The line is the run's.
func encodeCommitted(c *store.Committed) []byte {
	b := binary.AppendVarint(make([]byte, 0, 32+2*len(c.Seqs)), nanos(c.CreatedAt))
	last := int64(0)
	for _, seq := range c.Seqs {
		b = binary.AppendUvarint(b, uint64(seq-last))
		last = seq
	}
	return b
}

// encodeBegun adds to the record of a write what may have changed when it is repeated: whether
// the run waits, with it the line, and the session's base.
func encodeBegun(b []byte, waiting bool, base int64) []byte {
	b = append(b, 0, byte(number(waiting)))
	return binary.AppendVarint(b, base)
}

// decodeCommitted reads what a run on a line remembers. Where a record has no part of
// [encodeBegun], because it is of a commit or of an earlier version, whether the run waits and the
// base are as they are given.
func decodeCommitted(line int64, b []byte, waits bool, baseNow int64) (c store.Committed, waiting bool, base int64) {
	created, n := binary.Varint(b)
	c, waiting, base = store.Committed{Line: line, CreatedAt: fromNanos(created)}, waits, baseNow
	seq := int64(0)
	for b = b[max(n, 0):]; len(b) > 0; {
		d, n := binary.Uvarint(b)
		if n <= 0 {
			break
		}
		b = b[n:]
		if d == 0 {
			if len(b) > 1 {
				waiting = b[0] != 0
				base, _ = binary.Varint(b[1:])
			}
			break
		}
		seq += int64(d)
		c.Seqs = append(c.Seqs, seq)
	}
	if waiting {
		c.Line = 0
	}
	return c, waiting, base
}
