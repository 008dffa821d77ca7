package storetest

import (
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/store"
)

var cancelScenarios = []scenario{
	{"cancel-requested", "A request to cancel is kept with the run, which goes on until its owner ends it.", cancelRequested},
	{"cancel-only-end", "A run that is to be cancelled ends as cancelled and not otherwise, and a refused end writes nothing.", cancelOnlyEnd},
	{"cancel-ended", "A request to cancel does nothing to a run that has ended.", cancelEnded},
	{"cancel-unknown", "A request to cancel a run that does not exist says so.", cancelUnknown},
}

func cancelRequested(b *bundle) {
	r := b.start(b.newSession(), with(step("one")))
	require.False(b, r.record().CancelRequested)
	for range 2 {
		got, err := b.store.RequestCancel(b.ctx, tenant, r.Run)
		require.NoError(b, err)
		require.Equal(b, r.Run, got.ID)
		require.Equal(b, checkpoint.Running, got.Status)
		require.True(b, got.CancelRequested)
		require.Equal(b, r.Fence, got.Fence())
		b.reopen()
	}
	require.True(b, r.record().CancelRequested)
	require.Equal(b, r.Run, b.session(r.session).Active)
	require.NoError(b, r.saveTask("task", true, "what is done is kept"))
	r.commit(step("two"))
	require.True(b, r.record().CancelRequested)
}

func cancelOnlyEnd(b *bundle) {
	r := b.start(b.newSession(), with(step("one")))
	_, err := b.store.RequestCancel(b.ctx, tenant, r.Run)
	require.NoError(b, err)
	before := b.count(r.session)
	for _, status := range []checkpoint.Status{checkpoint.Completed, checkpoint.Failed, checkpoint.Interrupted} {
		for _, steps := range [][]store.Step{{step("end")}, nil} {
			_, err := r.send(r.newCommit(status, steps...))
			require.ErrorIs(b, err, store.ErrCancelRequested, "%s", status)
		}
	}
	require.Equal(b, before, b.count(r.session))
	require.Equal(b, checkpoint.Running, r.record().Status)
	r.end(checkpoint.Cancelled, step("cancelled"))
	require.Equal(b, checkpoint.Cancelled, r.record().Status)
	require.Equal(b, []string{"one", "cancelled"}, b.history(r.session))
}

func cancelEnded(b *bundle) {
	for _, status := range []checkpoint.Status{checkpoint.Completed, checkpoint.Interrupted, checkpoint.Failed, checkpoint.Cancelled} {
		r := b.whole(b.newSession(), step())
		if status != checkpoint.Completed {
			r = b.start(r.session)
			r.end(status)
		}
		before := r.record()
		b.tick()
		got, err := b.store.RequestCancel(b.ctx, tenant, r.Run)
		require.NoError(b, err)
		require.Equal(b, before, got)
		require.Equal(b, before, r.record())
	}
}

func cancelUnknown(b *bundle) {
	id := uuid.New()
	got, err := b.store.RequestCancel(b.ctx, tenant, id)
	b.notFound(err, store.RunResource, id)
	require.Nil(b, got)
	_, err = b.store.Run(b.ctx, tenant, id)
	b.notFound(err, store.RunResource, id)
}
