package reflex

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/store"
)

// Turns says which conversation has a turn under way: at most one each. NewBooks has the
// implementation on store.Records, in which a turn ends with its pass, so that a process that died
// holds nothing once its passes were taken up.
type Turns interface {
	// Take registers the turn of a pass; ErrTurnActive if another pass has one.
	Take(ctx context.Context, conversation string, kick uuid.UUID) error
	// Release ends the turn of that pass, and of no other.
	Release(ctx context.Context, conversation string, kick uuid.UUID) error
	// Holder returns the pass that has the turn, [uuid.Nil] if none has.
	Holder(ctx context.Context, conversation string) (uuid.UUID, error)
}

const turnKind = "reflex.turn"

type turn struct {
	Kick uuid.UUID `json:"kick"`
}

type turnBook struct {
	shelf
	alive func(ctx context.Context, kick uuid.UUID) (bool, error)
}

func (b *turnBook) Take(ctx context.Context, conversation string, kick uuid.UUID) error {
	_, err := update(ctx, b.shelf, turnKind, conversation, func(t *turn, exists bool) error {
		if t.Kick == kick {
			return errSame
		}
		if t.Kick != uuid.Nil {
			alive, err := b.alive(ctx, t.Kick)
			if err != nil {
				return err
			}
			if alive {
				return fmt.Errorf("%w: conversation %s, pass %s", ErrTurnActive, conversation, t.Kick)
			}
		}
		t.Kick = kick
		return nil
	})
	return err
}

func (b *turnBook) Release(ctx context.Context, conversation string, kick uuid.UUID) error {
	_, err := update(ctx, b.shelf, turnKind, conversation, func(t *turn, exists bool) error {
		if !exists || t.Kick != kick {
			return errSame
		}
		t.Kick = uuid.Nil
		return nil
	})
	return err
}

func (b *turnBook) Holder(ctx context.Context, conversation string) (uuid.UUID, error) {
	t, _, err := find[turn](ctx, b.shelf, turnKind, conversation)
	if err != nil || t.Kick == uuid.Nil {
		return uuid.Nil, err
	}
	if alive, err := b.alive(ctx, t.Kick); err != nil || !alive {
		return uuid.Nil, err
	}
	return t.Kick, nil
}

// passAlive reports whether a pass has not ended: its run is kept and goes on, here, elsewhere, or
// after it is taken up.
func passAlive(st store.Store, tenant string) func(context.Context, uuid.UUID) (bool, error) {
	return func(ctx context.Context, kick uuid.UUID) (bool, error) {
		var run *store.Run
		err := again(ctx, func(ctx context.Context) (err error) {
			run, err = st.Run(ctx, tenant, kick)
			return err
		})
		if errors.Is(err, store.ErrNotFound) {
			return false, nil
		}
		return err == nil && !run.Status.Ended(), err
	}
}
