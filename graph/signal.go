package graph

import (
	"context"
	"iter"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/event"
)

// signal tells other processes what has changed in the store. What it says is written by then.
func (r *Runner[S]) signal(kind event.SignalKind, tenant string, id uuid.UUID) {
	if r.signals != nil && r.store != nil {
		r.signals.Signal(event.Signal{Kind: kind, Tenant: tenant, ID: id})
	}
}

// listen deals with the signals that are about runs of this process, while it has any.
func (r *Runner[S]) listen(signals iter.Seq[event.Signal]) {
	for s := range signals {
		r.mu.Lock()
		switch key := (runKey{s.Tenant, s.ID}); s.Kind {
		case event.CancelRequested:
			if x := r.local[key]; x != nil {
				x.cancel(ErrCancelled)
			}
		case event.SessionIdle:
			r.endTurn(key)
		}
		r.mu.Unlock()
	}
}

// unclaimed returns a channel that has something when a run waits to be claimed, until ctx ends.
func (r *Runner[S]) unclaimed(ctx context.Context) <-chan struct{} {
	if r.signals == nil {
		return nil
	}
	c := make(chan struct{}, 1)
	signals := r.signals.Signals(ctx)
	go func() {
		for s := range signals {
			if s.Kind != event.RunUnclaimed {
				continue
			}
			select {
			case c <- struct{}{}:
			default: // Serve will look anyway
			}
		}
	}()
	return c
}
