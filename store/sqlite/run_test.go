package sqlite

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/store"
)

func TestAReleasedRunIsNobodysNotEvenThatOfAnEmptyFence(t *testing.T) {
	s := open(t, nil)
	d := drive(t, s, "t", uuid.New(), at("entrypoint", checkpoint.Input, 1))
	require.NoError(t, s.Release(t.Context(), d.fence))
	d.fence.Owner = uuid.Nil
	require.ErrorIs(t, d.commit(t.Context(), checkpoint.Running), store.ErrLost)
	renewed, err := s.Renew(t.Context(), &store.Renew{Fences: []store.Fence{d.fence}, Lease: time.Minute})
	require.NoError(t, err)
	assert.Equal(t, []uuid.UUID{d.fence.Run}, renewed.Lost)
}

func TestABranchWithoutACheckpointLoadsWhereItStarts(t *testing.T) {
	s := open(t, nil)
	session := uuid.New()
	first := at("entrypoint", checkpoint.Input, 1)
	d := drive(t, s, "t", session, first)
	require.NoError(t, d.commit(t.Context(), checkpoint.Completed, at("call_model", checkpoint.Step, 1)))
	branch := store.Fence{Tenant: "t", Run: uuid.New(), Owner: uuid.New(), Epoch: 1}
	begun, err := s.Begin(t.Context(), &store.Begin{
		Fence: branch, Session: session, Graph: "agent", Status: checkpoint.Running, Lease: time.Minute,
		From: store.From{Checkpoint: first.Checkpoint.ID, Base: d.load(t).Session.Base},
	})
	require.NoError(t, err)
	require.True(t, begun.Branch)
	p, err := s.Load(t.Context(), &store.Load{Tenant: "t", Run: branch.Run})
	require.NoError(t, err)
	assert.Equal(t, first.Checkpoint.ID, p.Checkpoint.ID, "not the head: its line does not have the head's messages")
	assert.Len(t, p.Messages, 1)
}

func TestAStatusThatIsNoneIsRefused(t *testing.T) {
	s := open(t, nil)
	d := drive(t, s, "t", uuid.New(), at("entrypoint", checkpoint.Input, 1))
	require.ErrorContains(t, d.commit(t.Context(), "paused"), "unknown run status")
	require.NoError(t, d.commit(t.Context(), checkpoint.Running), "and nothing has changed")
}
