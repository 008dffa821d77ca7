package store_test

import (
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/store"
)

func TestErrorsWithDataAreTheirSentinelsThroughWrapping(t *testing.T) {
	t.Parallel()
	id := uuid.New()
	missing := fmt.Errorf("load: %w", &store.NotFoundError{Resource: store.RunResource, ID: id})
	require.ErrorIs(t, missing, store.ErrNotFound)
	require.NotErrorIs(t, missing, store.ErrBusy)
	require.ErrorContains(t, missing, "run "+id.String())

	busy := fmt.Errorf("begin: %w", &store.BusyError{Session: id, Run: id})
	require.ErrorIs(t, busy, store.ErrBusy)
	require.NotErrorIs(t, busy, store.ErrNotFound)
	require.ErrorContains(t, busy, id.String())
}
