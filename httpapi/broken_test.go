package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/store"
)

// broken is a store that can be made to fail, to panic, and not to answer.
type broken struct {
	store.Store
	err    error
	panics bool
	asked  chan struct{} // if set, lists of sessions say so here and then wait for the end of their context
}

func (b *broken) fail() error {
	if b.panics {
		panic("a secret of the panic")
	}
	return b.err
}

func (b *broken) Sessions(ctx context.Context, q *store.SessionQuery) (*store.Page[store.Session], error) {
	if err := b.fail(); err != nil {
		return nil, err
	}
	if b.asked != nil {
		b.asked <- struct{}{}
		<-ctx.Done()
		return nil, fmt.Errorf("broken: %w", ctx.Err())
	}
	return b.Store.Sessions(ctx, q)
}

func (b *broken) Session(ctx context.Context, tenant string, id uuid.UUID) (*store.Session, error) {
	if err := b.fail(); err != nil {
		return nil, err
	}
	return b.Store.Session(ctx, tenant, id)
}

func (b *broken) Run(ctx context.Context, tenant string, id uuid.UUID) (*store.Run, error) {
	if err := b.fail(); err != nil {
		return nil, err
	}
	return b.Store.Run(ctx, tenant, id)
}

// newServer serves a handler and returns where.
func newServer(t testing.TB, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}
