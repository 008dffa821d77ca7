package reflex

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/store"
)

// Books are the parts of the engine that keep something.
type Books struct {
	Threads       Threads
	Ledger        Ledger
	Handoffs      Handoffs
	Conversations Conversations
	Batches       Batches
	Receipts      Receipts
	// Turns are the claims on conversations, Surfaces those on surfaces.
	Turns, Surfaces Claims
}

// NewBooks returns books that keep everything as records of a tenant. What belongs to a pass is free
// again once life says that the pass has ended. If now is nil, time.Now.
func NewBooks(records store.Records, tenant string, life func(ctx context.Context, kick uuid.UUID) (PassLife, error), now func() time.Time) Books {
	if now == nil {
		now = time.Now
	}
	s := shelf{records: records, tenant: tenant}
	return Books{
		Threads:       &threadBook{shelf: s, now: now},
		Ledger:        &ledgerBook{shelf: s, now: now},
		Handoffs:      &handoffBook{shelf: s, now: now},
		Conversations: &conversationBook{shelf: s, now: now},
		Batches:       &batchBook{shelf: s, now: now, life: life},
		Receipts:      &receiptBook{shelf: s, now: now},
		Turns:         &claimBook{shelf: s, kind: turnKind, life: life, now: now},
		Surfaces:      &claimBook{shelf: s, kind: holdKind, life: life, now: now},
	}
}

// or takes what is missing from others.
func (b Books) or(o Books) Books {
	if b.Threads == nil {
		b.Threads = o.Threads
	}
	if b.Ledger == nil {
		b.Ledger = o.Ledger
	}
	if b.Handoffs == nil {
		b.Handoffs = o.Handoffs
	}
	if b.Conversations == nil {
		b.Conversations = o.Conversations
	}
	if b.Batches == nil {
		b.Batches = o.Batches
	}
	if b.Receipts == nil {
		b.Receipts = o.Receipts
	}
	if b.Turns == nil {
		b.Turns = o.Turns
	}
	if b.Surfaces == nil {
		b.Surfaces = o.Surfaces
	}
	return b
}
