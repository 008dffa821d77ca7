package reflex

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/store"
)

// Claims say which pass has something to itself: a conversation while it has a turn there, a surface
// from its beginning to its end. NewBooks has the implementation on store.Records, in which a claim
// ends with its pass, so that a process that died holds nothing once its passes were taken up.
type Claims interface {
	// Claim takes something for a pass, and reports whether the pass has it now: false if another
	// pass has it.
	Claim(ctx context.Context, what string, kick uuid.UUID) (bool, error)
	// Release gives it up if that pass has it, and does nothing to another one's claim.
	Release(ctx context.Context, what string, kick uuid.UUID) error
	// Holder returns the pass that has it, [uuid.Nil] if none has.
	Holder(ctx context.Context, what string) (uuid.UUID, error)
}

const (
	turnKind = "reflex.turn"
	holdKind = "reflex.hold"
)

type claim struct {
	Kick uuid.UUID `json:"kick"`
	At   time.Time `json:"at,omitzero"`
}

// beginning is how long a claim counts whose pass is not known: it is made just before the pass begins.
const beginning = 10 * time.Second

type claimBook struct {
	shelf
	kind string
	life func(ctx context.Context, kick uuid.UUID) (PassLife, error)
	now  func() time.Time
}

// holds reports whether the pass of a claim still has what it claimed.
func (b *claimBook) holds(ctx context.Context, c claim) (bool, error) {
	if c.Kick == uuid.Nil {
		return false, nil
	}
	life, err := b.life(ctx, c.Kick)
	if life == PassUnknown {
		return b.now().Sub(c.At).Abs() < beginning, err
	}
	return life.alive(), err
}

func (b *claimBook) Claim(ctx context.Context, what string, kick uuid.UUID) (bool, error) {
	claimed := false
	_, err := update(ctx, b.shelf, b.kind, what, func(c *claim, _ bool) error {
		if claimed = c.Kick == kick; claimed {
			return errSame
		}
		if held, err := b.holds(ctx, *c); err != nil {
			return err
		} else if held {
			return errSame
		}
		*c, claimed = claim{Kick: kick, At: b.now()}, true
		return nil
	})
	return claimed && err == nil, err
}

func (b *claimBook) Release(ctx context.Context, what string, kick uuid.UUID) error {
	_, err := update(ctx, b.shelf, b.kind, what, func(c *claim, exists bool) error {
		if !exists || c.Kick != kick {
			return errSame
		}
		*c = claim{}
		return nil
	})
	return err
}

func (b *claimBook) Holder(ctx context.Context, what string) (uuid.UUID, error) {
	c, _, err := find[claim](ctx, b.shelf, b.kind, what)
	if err != nil {
		return uuid.Nil, err
	}
	if held, err := b.holds(ctx, c); err != nil || !held {
		return uuid.Nil, err
	}
	return c.Kick, nil
}

// PassLife says where a pass is in its life, for what belongs to it.
type PassLife int

const (
	PassUnknown PassLife = iota // no such pass has begun
	PassRunning                 // a process works on it
	PassLeft                    // its process died, and it is to be taken up
	PassEnded
)

// alive reports whether the pass goes on, now or once it is taken up.
func (l PassLife) alive() bool { return l == PassRunning || l == PassLeft }

// clockSkew is how far the clock of the store, by which leases run out, may be from this one's.
const clockSkew = 5 * time.Second

// lifeIn tells the lives of passes from their runs in a store.
func lifeIn(st store.Store, tenant string, now func() time.Time) func(context.Context, uuid.UUID) (PassLife, error) {
	return func(ctx context.Context, kick uuid.UUID) (PassLife, error) {
		var run *store.Run
		err := again(ctx, func(ctx context.Context) (err error) {
			run, err = st.Run(ctx, tenant, kick)
			return err
		})
		switch {
		case errors.Is(err, store.ErrNotFound):
			return PassUnknown, nil
		case err != nil:
			return PassUnknown, err
		case run.Status.Ended():
			return PassEnded, nil
		case run.Owner == uuid.Nil, now().After(run.LeaseUntil.Add(clockSkew)):
			return PassLeft, nil
		}
		return PassRunning, nil
	}
}
