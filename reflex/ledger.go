package reflex

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/store"
)

// RowID names a row of a ledger. Rows of a surface are numbered in the order in which they came.
type RowID struct {
	Surface string `json:"surface"`
	Seq     int64  `json:"seq"`
}

// IsZero reports whether the id names no row.
func (id RowID) IsZero() bool { return id == RowID{} }

// RowKind says what a row of the ledger is.
type RowKind string

const (
	InboundRow  RowKind = "inbound"  // a person said it
	OutboundRow RowKind = "outbound" // an agent said it
	SystemRow   RowKind = "system"   // it tells that work came or left
	ReceiptRow  RowKind = "receipt"  // a command was given
)

// Row is a visible message of a surface.
type Row struct {
	ID       RowID     `json:"id"`
	Kind     RowKind   `json:"kind"`
	Thread   string    `json:"thread,omitempty"` // where on the surface
	Agent    string    `json:"agent,omitempty"`  // who said it, if an agent did
	Author   Profile   `json:"author,omitzero"`  // who said it, if a person did
	Segments []Segment `json:"segments,omitempty"`
	// Handle is the platform's id of the message, once it has one.
	Handle string `json:"handle,omitempty"`
	// Delivery makes the row the only one of that text on its surface. Empty: it is not looked for.
	Delivery string    `json:"delivery,omitempty"`
	Bound    *Binding  `json:"bound,omitempty"`
	At       time.Time `json:"at"`
}

// Binding ties a row to the message of a conversation that it became, or that became it.
type Binding struct {
	Conversation string    `json:"conversation"`
	Run          uuid.UUID `json:"run,omitzero"`
	Message      uuid.UUID `json:"message,omitzero"`
}

// RowQuery selects rows of a surface.
type RowQuery struct {
	Surface string
	After   int64 // rows behind this number; in a descending list, before it
	Limit   int   // zero: 100
	// Descending lists the last rows first.
	Descending bool
}

// Surface is what a ledger knows of a place where something was said.
type Surface struct {
	ID string `json:"id"`
	// At is when the last of it happened.
	At time.Time `json:"at"`
	// Last is the number of the last row, Cursor that of the last one that was part of a prompt.
	Last   int64 `json:"last"`
	Cursor int64 `json:"cursor"`
}

// SurfaceQuery selects surfaces.
type SurfaceQuery struct {
	// After is the last surface of the page before; zero for the first page.
	After Surface
	Limit int // zero: 100
}

// Ledger is the append-only log of the visible messages of each surface, with a cursor: up to
// there the rows have been part of a prompt. NewBooks has the implementation on store.Records.
type Ledger interface {
	// Append adds a row and numbers it. If there is a row of the same Delivery, it returns that. Without
	// a time it happens now.
	Append(ctx context.Context, r Row) (Row, error)
	// Rows lists rows.
	Rows(ctx context.Context, q RowQuery) ([]Row, error)
	// Surfaces lists surfaces by when something happened there, the last first.
	Surfaces(ctx context.Context, q SurfaceQuery) ([]Surface, error)
	// Cursor returns the number of the last row that was part of a prompt.
	Cursor(ctx context.Context, surface string) (int64, error)
	// Bind ties rows of a surface to a message and moves the cursor behind them, together. A row
	// that is tied already stays so.
	Bind(ctx context.Context, surface string, rows []int64, b Binding) error
	// MarkPresented notes the platform's id of a row. It does nothing to a row that does not exist.
	MarkPresented(ctx context.Context, id RowID, handle string) error
}

const (
	surfaceKind  = "reflex.surface"
	rowKind      = "reflex.row"
	deliveryKind = "reflex.delivery"
	recentKind   = "reflex.surface.recent"
)

// surface is the head of a ledger.
type surface struct {
	Seq    int64     `json:"seq"`
	Cursor int64     `json:"cursor"`
	At     time.Time `json:"at,omitzero"`
	// Aged: the age of its rows is listed, see prune.
	Aged bool `json:"aged,omitempty"`
}

// recentKey is where a surface is listed by the time of what happened there last.
func recentKey(on string, at time.Time) string { return timeKey(at) + "/" + on }

type ledgerBook struct {
	shelf
	now func() time.Time
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func rowPrefix(surface string) string { return url.PathEscape(surface) + "/" }

func rowKey(id RowID) string { return fmt.Sprintf("%s%016x", rowPrefix(id.Surface), id.Seq) }

func (b *ledgerBook) Append(ctx context.Context, r Row) (Row, error) {
	on := r.ID.Surface
	delivery := rowPrefix(on) + r.Delivery
	for range maxConflicts {
		if r.Delivery != "" {
			if id, _, err := get[RowID](ctx, b.shelf, deliveryKind, delivery); err == nil {
				row, _, err := get[Row](ctx, b.shelf, rowKind, rowKey(id))
				return row, err
			} else if !errors.Is(err, store.ErrNotFound) {
				return r, err
			}
		}
		head, version, err := find[surface](ctx, b.shelf, surfaceKind, on)
		if err != nil {
			return r, err
		}
		row := r
		if row.At.IsZero() {
			row.At = b.now()
		}
		before := head
		head.Seq++
		row.ID.Seq = head.Seq
		var writes []store.RecordWrite
		head.At = latest(head.At, row.At)
		if key := recentKey(on, head.At); before.Seq == 0 || key != recentKey(on, before.At) {
			writes = append(writes, put(recentKind, key, 0, on))
			if before.Seq > 0 {
				writes = append(writes, store.RecordWrite{Kind: recentKind, Key: recentKey(on, before.At), Version: 1, Delete: true})
			}
		}
		if !head.Aged {
			head.Aged = true
			writes = append(writes, aged(surfaceKind, on, row.At))
		}
		writes = append(writes, put(surfaceKind, on, version, head), put(rowKind, rowKey(row.ID), 0, row))
		if r.Delivery != "" {
			writes = append(writes, put(deliveryKind, delivery, 0, row.ID))
		}
		if err = b.write(ctx, writes...); !errors.Is(err, store.ErrConflict) {
			return row, err
		}
	}
	return r, fmt.Errorf("reflex: ledger of %q: %w", on, store.ErrConflict)
}

func (b *ledgerBook) Rows(ctx context.Context, q RowQuery) ([]Row, error) {
	query := store.RecordQuery{Kind: rowKind, Prefix: rowPrefix(q.Surface), Limit: q.Limit, Descending: q.Descending}
	if q.After != 0 {
		query.After = rowKey(RowID{q.Surface, q.After})
	}
	return list[Row](ctx, b.shelf, query)
}

func (b *ledgerBook) Surfaces(ctx context.Context, q SurfaceQuery) ([]Surface, error) {
	query := store.RecordQuery{Kind: recentKind, Limit: q.Limit, Descending: true}
	if q.After.ID != "" {
		query.After = recentKey(q.After.ID, q.After.At)
	}
	ids, err := list[string](ctx, b.shelf, query)
	if err != nil {
		return nil, err
	}
	all := make([]Surface, 0, len(ids))
	for _, id := range ids {
		head, _, err := find[surface](ctx, b.shelf, surfaceKind, id)
		if err != nil {
			return nil, err
		}
		all = append(all, Surface{ID: id, At: head.At, Last: head.Seq, Cursor: head.Cursor})
	}
	return all, nil
}

func (b *ledgerBook) Cursor(ctx context.Context, on string) (int64, error) {
	head, _, err := find[surface](ctx, b.shelf, surfaceKind, on)
	return head.Cursor, err
}

func (b *ledgerBook) Bind(ctx context.Context, on string, rows []int64, binding Binding) error {
	for range maxConflicts {
		head, version, err := find[surface](ctx, b.shelf, surfaceKind, on)
		if err != nil || version == 0 {
			return err
		}
		head.Cursor = max(head.Cursor, slices.Max(append([]int64{0}, rows...)))
		writes := []store.RecordWrite{put(surfaceKind, on, version, head)}
		for _, seq := range rows {
			key := rowKey(RowID{on, seq})
			r, version, err := find[Row](ctx, b.shelf, rowKind, key)
			if err != nil {
				return err
			}
			if version == 0 || r.Bound != nil {
				continue // it was pruned; or it stays what it became first, such as another agent's message
			}
			r.Bound = &binding
			writes = append(writes, put(rowKind, key, version, r))
		}
		if err = b.write(ctx, writes...); !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("reflex: ledger of %q: %w", on, store.ErrConflict)
}

func (b *ledgerBook) MarkPresented(ctx context.Context, id RowID, handle string) error {
	_, err := update(ctx, b.shelf, rowKind, rowKey(id), func(r *Row, exists bool) error {
		if !exists || r.Handle == handle {
			return errSame
		}
		r.Handle = handle
		return nil
	})
	return err
}
