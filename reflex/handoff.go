package reflex

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/store"
)

// Handoff is a row that says which agent owns a surface from now on.
type Handoff struct {
	Surface string    `json:"surface"`
	Seq     int64     `json:"seq"`
	Agent   string    `json:"agent"`
	Model   string    `json:"model,omitempty"`
	To      string    `json:"to"`            // the receiver's conversation
	From    Origin    `json:"from,omitzero"` // zero: nobody owned it
	Kick    uuid.UUID `json:"kick"`
	At      time.Time `json:"at"`
}

// Origin is the turn that a hand-over came from. It is carried from there to the run that the
// receiver makes (a pending handoff).
type Origin struct {
	Agent        string    `json:"agent,omitempty"`
	Conversation string    `json:"conversation,omitempty"`
	Run          uuid.UUID `json:"run,omitzero"`
	Message      uuid.UUID `json:"message,omitzero"`
}

// Handoffs keeps who owns the surfaces. NewBooks has the implementation on store.Records.
type Handoffs interface {
	// Owner returns the latest hand-over of a surface; the zero one if nobody owns it.
	Owner(ctx context.Context, surface string) (Handoff, error)
	// HandOver appends a row, unless the latest one names the same agent and model already.
	HandOver(ctx context.Context, h Handoff) error
	// History returns the rows of a surface, the oldest first.
	History(ctx context.Context, surface string) ([]Handoff, error)
}

const (
	ownerKind   = "reflex.owner"
	handoffKind = "reflex.handoff"
)

type handoffBook struct {
	shelf
	now func() time.Time
}

func (b *handoffBook) Owner(ctx context.Context, surface string) (Handoff, error) {
	h, _, err := find[Handoff](ctx, b.shelf, ownerKind, surface)
	return h, err
}

func (b *handoffBook) HandOver(ctx context.Context, h Handoff) error {
	for range maxConflicts {
		latest, version, err := find[Handoff](ctx, b.shelf, ownerKind, h.Surface)
		if err != nil {
			return err
		}
		if version > 0 && latest.Agent == h.Agent && latest.Model == h.Model {
			return nil
		}
		h.Seq, h.At = latest.Seq+1, b.now()
		writes := []store.RecordWrite{put(ownerKind, h.Surface, version, h), put(handoffKind, rowKey(RowID{h.Surface, h.Seq}), 0, h)}
		if version > 0 {
			writes = append(writes, aged(handoffKind, rowKey(RowID{h.Surface, latest.Seq}), h.At))
		}
		err = b.write(ctx, writes...)
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("reflex: owner of %q: %w", h.Surface, store.ErrConflict)
}

func (b *handoffBook) History(ctx context.Context, surface string) ([]Handoff, error) {
	return list[Handoff](ctx, b.shelf, store.RecordQuery{Kind: handoffKind, Prefix: rowPrefix(surface), Limit: 1000})
}
