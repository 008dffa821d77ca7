package storetest

import (
	"context"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/store"
)

var lifeScenarios = []scenario{
	{"life-reopened", "What was written is there when the store is opened again, and goes on.", lifeReopened},
	{"life-cancelled-context", "A call whose context has ended writes nothing.", lifeCancelledContext},
	{"life-closed", "After Close every call returns ErrClosed.", lifeClosed},
}

func lifeReopened(b *bundle) {
	f := b.newFullSession()
	session, counted, history := b.session(f.id), b.count(f.id), b.history(f.id)
	records := []*store.Run{}
	for _, r := range f.runs {
		records = append(records, r.record())
	}
	for range 3 {
		b.reopen()
		require.Equal(b, session, b.session(f.id))
		require.Equal(b, counted, b.count(f.id))
		require.Equal(b, history, b.history(f.id))
		for i, r := range f.runs {
			got := r.record()
			got.LeaseUntil = records[i].LeaseUntil // may have run out
			require.Equal(b, records[i], got)
		}
		require.Equal(b, []string{"done=1", "started=?"}, f.runs[1].tasks())
	}
	active, branch, waiter := f.runs[1], f.runs[2], f.runs[3]
	active.end(checkpoint.Completed, step("two"))
	branch.commit(step("more"))
	b.reopen()
	got, err := waiter.promote()
	require.NoError(b, err)
	require.True(b, got)
	waiter.commit(step("three"))
	require.Equal(b, []string{"posted", "one", "two", "three"}, b.history(f.id))
	require.Equal(b, []string{"posted", "one", "aside", "more"}, b.historyAt(f.id, branch.at))
}

// calls returns a call of each method, on something that exists.
func (b *bundle) calls(f *fullSession) map[string]func(context.Context) error {
	active, branch, waiter := f.runs[1], f.runs[2], f.runs[3]
	m := say("never")
	m.SessionID = f.id
	return map[string]func(context.Context) error{
		"Begin": func(ctx context.Context) error {
			_, err := b.store.Begin(ctx, b.newBegin(uuid.New(), with(step("never"))))
			return err
		},
		"Promote": func(ctx context.Context) error {
			_, err := b.store.Promote(ctx, waiter.Fence)
			return err
		},
		"Claim": func(ctx context.Context) error {
			_, err := b.store.Claim(ctx, &store.Claim{Owner: uuid.New(), Graphs: []string{"graph"}, Lease: lease, Limit: 9})
			return err
		},
		"Renew": func(ctx context.Context) error {
			_, err := b.store.Renew(ctx, &store.Renew{Fences: []store.Fence{active.Fence, branch.Fence}, Lease: 9 * lease})
			return err
		},
		"Commit": func(ctx context.Context) error {
			_, err := b.store.Commit(ctx, active.newCommit(checkpoint.Completed, step("never")))
			return err
		},
		"SaveTask": func(ctx context.Context) error {
			return b.store.SaveTask(ctx, &store.SaveTask{Fence: active.Fence, Checkpoint: active.last, Task: store.Task{Key: "never"}})
		},
		"RequestCancel": func(ctx context.Context) error {
			_, err := b.store.RequestCancel(ctx, tenant, branch.Run)
			return err
		},
		"Release": func(ctx context.Context) error { return b.store.Release(ctx, branch.Fence) },
		"Load": func(ctx context.Context) error {
			_, err := b.store.Load(ctx, &store.Load{Tenant: tenant, Session: f.id})
			return err
		},
		"CreateSession": func(ctx context.Context) error {
			_, err := b.store.CreateSession(ctx, tenant, uuid.New())
			return err
		},
		"DeleteSession": func(ctx context.Context) error { return b.store.DeleteSession(ctx, tenant, f.id) },
		"CreateMessage": func(ctx context.Context) error {
			_, err := b.store.CreateMessage(ctx, tenant, &m)
			return err
		},
		"DeleteMessage": func(ctx context.Context) error { return b.store.DeleteMessage(ctx, tenant, f.messages[0]) },
		"Prune": func(ctx context.Context) error {
			_, err := b.store.Prune(ctx, &store.Prune{Before: b.clock.Now(), Limit: 9})
			return err
		},
		"Backlog": func(ctx context.Context) error {
			_, err := b.store.Backlog(ctx, []string{"graph"})
			return err
		},
		"Session": func(ctx context.Context) error {
			_, err := b.store.Session(ctx, tenant, f.id)
			return err
		},
		"Run": func(ctx context.Context) error {
			_, err := b.store.Run(ctx, tenant, active.Run)
			return err
		},
		"Checkpoint": func(ctx context.Context) error {
			_, err := b.store.Checkpoint(ctx, tenant, f.checkpoints[0])
			return err
		},
		"Message": func(ctx context.Context) error {
			_, err := b.store.Message(ctx, tenant, f.messages[0])
			return err
		},
		"Sessions": func(ctx context.Context) error {
			_, err := b.store.Sessions(ctx, &store.SessionQuery{Tenant: tenant})
			return err
		},
		"Runs": func(ctx context.Context) error {
			_, err := b.store.Runs(ctx, &store.RunQuery{Tenant: tenant, Session: f.id})
			return err
		},
		"Checkpoints": func(ctx context.Context) error {
			_, err := b.store.Checkpoints(ctx, &store.CheckpointQuery{Tenant: tenant, Session: f.id})
			return err
		},
		"Messages": func(ctx context.Context) error {
			_, err := b.store.Messages(ctx, &store.MessageQuery{Tenant: tenant, Session: f.id})
			return err
		},
	}
}

func lifeCancelledContext(b *bundle) {
	f := b.newFullSession()
	unused := b.newSession() // for Prune to find
	b.clock.move(2 * lease)
	session, counted := b.session(f.id), b.count(f.id)
	records := []*store.Run{}
	for _, r := range f.runs {
		records = append(records, r.record())
	}
	ctx, cancel := context.WithCancel(b.ctx)
	cancel()
	for name, call := range b.calls(f) {
		require.ErrorIs(b, call(ctx), context.Canceled, name)
	}
	require.Equal(b, session, b.session(f.id))
	require.Equal(b, counted, b.count(f.id))
	b.session(unused)
	for i, r := range f.runs {
		require.Equal(b, records[i], r.record())
	}
	require.Equal(b, []string{"done=1", "started=?"}, f.runs[1].tasks())
	page, err := b.store.Sessions(b.ctx, &store.SessionQuery{Tenant: tenant})
	require.NoError(b, err)
	require.Equal(b, 2, page.Count)
}

func lifeClosed(b *bundle) {
	f := b.newFullSession()
	calls := b.calls(f)
	require.NoError(b, b.store.Close())
	for name, call := range calls {
		require.ErrorIs(b, call(b.ctx), store.ErrClosed, name)
	}
}
