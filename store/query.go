package store

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/message"
)

// MaxPerPage is the greatest and the default number of items in a page (contract 6.3).
const MaxPerPage = 100

// Page is a piece of a list, newest first.
type Page[T any] struct {
	Items []T
	// Count is how many items match in all pages.
	Count int
	// Next is the cursor of the page that follows, empty after the last one.
	Next string
}

// Paging says which page of a list is wanted.
type Paging struct {
	// PerPage is how many items a page has: 1 to [MaxPerPage]. Zero means MaxPerPage; drivers
	// take the nearest bound for others.
	PerPage int
	// Page is a cursor from [Page.Next], empty for the first page. A cursor goes with the
	// filters it was made under; [ErrBadCursor] otherwise.
	Page string
}

// Limit returns the number of items the page is to have.
func (p Paging) Limit() int {
	if p.PerPage <= 0 || p.PerPage > MaxPerPage {
		return MaxPerPage
	}
	return p.PerPage
}

// TimeRange is a filter on a time: both ends belong to it, a zero end is open.
type TimeRange struct {
	After, Before time.Time
}

// Contains reports whether t lies in the range.
func (r TimeRange) Contains(t time.Time) bool {
	return (r.After.IsZero() || !t.Before(r.After)) && (r.Before.IsZero() || !t.After(r.Before))
}

// In the queries, all filters must hold; within one filter any of its values; an empty filter
// always holds.
type (
	// SessionQuery selects sessions of a tenant.
	SessionQuery struct {
		Tenant  string
		IDs     []uuid.UUID
		Created TimeRange
		Updated TimeRange
		Paging
	}
	// RunQuery selects runs of a session.
	RunQuery struct {
		Tenant   string
		Session  uuid.UUID
		IDs      []uuid.UUID
		Statuses []checkpoint.Status
		Created  TimeRange
		Updated  TimeRange
		Paging
	}
	// CheckpointQuery selects checkpoints of a session.
	CheckpointQuery struct {
		Tenant   string
		Session  uuid.UUID
		IDs      []uuid.UUID
		Runs     []uuid.UUID
		Reasons  []checkpoint.Reason
		Statuses []checkpoint.Status
		Created  TimeRange
		Paging
	}
	// MessageQuery selects messages of a session, of all its lines.
	MessageQuery struct {
		Tenant      string
		Session     uuid.UUID
		IDs         []uuid.UUID
		Runs        []uuid.UUID
		Checkpoints []uuid.UUID
		Roles       []message.Role
		Created     TimeRange
		Paging
	}
)

// Cursor is where a page ended: the key of its last item. For drivers.
type Cursor struct {
	Seq     int64     // lists of a session
	Created time.Time // the list of sessions: created, then id
	ID      uuid.UUID
}

const cursorVersion = 1

// EncodeCursor returns the opaque text of a cursor of the query (a *SessionQuery, …). It holds
// a fingerprint of the query's filters.
func EncodeCursor(query any, c Cursor) string {
	b := []byte{cursorVersion}
	b = append(b, fingerprint(query)...)
	b = binary.AppendVarint(b, c.Seq)
	var created int64
	if !c.Created.IsZero() {
		created = c.Created.UnixNano()
	}
	b = binary.AppendVarint(b, created)
	b = append(b, c.ID[:]...)
	return base64.RawURLEncoding.EncodeToString(b)
}

// DecodeCursor reads a cursor that [EncodeCursor] made for a query with the same filters. An
// empty text is no cursor: ok is false.
func DecodeCursor(query any, text string) (c Cursor, ok bool, err error) {
	if text == "" {
		return Cursor{}, false, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) < 1+fingerprintSize || b[0] != cursorVersion {
		return Cursor{}, false, fmt.Errorf("%w: not a cursor of this version", ErrBadCursor)
	}
	if string(b[1:1+fingerprintSize]) != string(fingerprint(query)) {
		return Cursor{}, false, fmt.Errorf("%w: the filters are not those it was made with", ErrBadCursor)
	}
	b = b[1+fingerprintSize:]
	seq, n := binary.Varint(b)
	if n <= 0 {
		return Cursor{}, false, fmt.Errorf("%w: cut short", ErrBadCursor)
	}
	created, m := binary.Varint(b[n:])
	if m <= 0 || len(b[n+m:]) != len(c.ID) {
		return Cursor{}, false, fmt.Errorf("%w: cut short", ErrBadCursor)
	}
	copy(c.ID[:], b[n+m:])
	c.Seq = seq
	if created != 0 {
		c.Created = time.Unix(0, created).UTC()
	}
	return c, true, nil
}

const fingerprintSize = 8

// fingerprint is a hash of a query's filters, without its paging. However a filter is spelled,
// an empty list or none, a time in this zone or that, it is the same.
func fingerprint(query any) []byte {
	utc := func(r *TimeRange) { r.After, r.Before = r.After.UTC(), r.Before.UTC() }
	switch q := query.(type) {
	case *SessionQuery:
		c := *q
		c.Paging = Paging{}
		utc(&c.Created)
		utc(&c.Updated)
		query = c
	case *RunQuery:
		c := *q
		c.Paging = Paging{}
		utc(&c.Created)
		utc(&c.Updated)
		query = c
	case *CheckpointQuery:
		c := *q
		c.Paging = Paging{}
		utc(&c.Created)
		query = c
	case *MessageQuery:
		c := *q
		c.Paging = Paging{}
		utc(&c.Created)
		query = c
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%T %+q", query, query))
	return sum[:fingerprintSize]
}
