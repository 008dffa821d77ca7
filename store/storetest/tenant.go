package storetest

import (
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/store"
)

var tenantScenarios = []scenario{
	{"tenant-reads", "What belongs to another tenant looks like what does not exist.", tenantReads},
	{"tenant-writes", "Nothing of another tenant can be written, cancelled or deleted.", tenantWrites},
	{"tenant-same-ids", "The same ids in two tenants are independent.", tenantSameIDs},
}

func tenantReads(b *bundle) {
	f := b.newFullSession()
	for _, other := range []string{"other", "", "ACME", "acme ", "acme\x00", "acm%"} {
		_, err := b.store.Session(b.ctx, other, f.id)
		b.notFound(err, store.SessionResource, f.id)
		_, err = b.store.Load(b.ctx, &store.Load{Tenant: other, Session: f.id})
		b.notFound(err, store.SessionResource, f.id)
		for _, r := range f.runs {
			_, err = b.store.Run(b.ctx, other, r.Run)
			b.notFound(err, store.RunResource, r.Run)
			_, err = b.store.Load(b.ctx, &store.Load{Tenant: other, Run: r.Run})
			b.notFound(err, store.RunResource, r.Run)
		}
		for _, id := range f.checkpoints {
			_, err = b.store.Checkpoint(b.ctx, other, id)
			b.notFound(err, store.CheckpointResource, id)
		}
		for _, id := range f.messages {
			_, err = b.store.Message(b.ctx, other, id)
			b.notFound(err, store.MessageResource, id)
		}
		page, err := b.store.Sessions(b.ctx, &store.SessionQuery{Tenant: other, IDs: []uuid.UUID{f.id}})
		require.NoError(b, err)
		require.Zero(b, page.Count)
		_, err = b.store.Runs(b.ctx, &store.RunQuery{Tenant: other, Session: f.id})
		b.notFound(err, store.SessionResource, f.id)
		_, err = b.store.Checkpoints(b.ctx, &store.CheckpointQuery{Tenant: other, Session: f.id})
		b.notFound(err, store.SessionResource, f.id)
		_, err = b.store.Messages(b.ctx, &store.MessageQuery{Tenant: other, Session: f.id})
		b.notFound(err, store.SessionResource, f.id)
	}
}

func tenantWrites(b *bundle) {
	f := b.newFullSession()
	before := b.count(f.id)
	records := []*store.Run{}
	for _, r := range f.runs {
		records = append(records, r.record())
	}
	const other = "other"
	for _, r := range f.runs[1:4] {
		foreign := *r
		foreign.Tenant = other
		b.notFound(foreign.tryCommit(step("foreign")), store.RunResource, r.Run)
		b.notFound(foreign.saveTask("foreign", true, ""), store.RunResource, r.Run)
		_, err := foreign.promote()
		b.notFound(err, store.RunResource, r.Run)
		b.notFound(b.store.Release(b.ctx, foreign.Fence), store.RunResource, r.Run)
		_, err = b.store.RequestCancel(b.ctx, other, r.Run)
		b.notFound(err, store.RunResource, r.Run)
		require.Equal(b, []uuid.UUID{r.Run}, b.renew(foreign.Fence).Lost)
	}
	b.notFound(b.store.DeleteSession(b.ctx, other, f.id), store.SessionResource, f.id)
	for _, id := range f.messages {
		b.notFound(b.store.DeleteMessage(b.ctx, other, id), store.MessageResource, id)
	}
	m := say("foreign")
	m.SessionID = f.id
	_, err := b.store.CreateMessage(b.ctx, other, &m)
	b.notFound(err, store.SessionResource, f.id)
	for _, id := range f.checkpoints {
		begin := b.newBegin(f.id, from(id))
		begin.Tenant, begin.From.Base = other, 0
		_, err := b.store.Begin(b.ctx, begin)
		b.notFound(err, store.CheckpointResource, id)
	}
	require.Equal(b, before, b.count(f.id))
	for i, r := range f.runs {
		require.Equal(b, records[i], r.record())
	}
}

func tenantSameIDs(b *bundle) {
	session := uuid.New()
	ours := b.start(session, with(step("ours")))
	message := say("posted")
	message.SessionID = session
	posted, err := b.store.CreateMessage(b.ctx, tenant, &message)
	require.NoError(b, err)

	const other = "other"
	begin := b.newBegin(session)
	begin.Tenant, begin.Run, begin.From = other, ours.Run, store.From{}
	begin.Steps = []store.Step{step("theirs")}
	theirs, err := b.begin(begin)
	require.NoError(b, err, "the session is not busy, and the run id is free, in the other tenant")
	b.tick()
	_, err = b.store.CreateMessage(b.ctx, other, &message)
	require.NoError(b, err)

	require.Equal(b, []string{"ours", "posted"}, b.history(session))
	p, err := b.store.Load(b.ctx, &store.Load{Tenant: other, Session: session})
	require.NoError(b, err)
	require.Equal(b, []string{"theirs", "posted"}, texts(b, p.Messages))
	theirs.end(checkpoint.Completed)
	require.Equal(b, checkpoint.Running, ours.record().Status)

	require.NoError(b, b.store.DeleteMessage(b.ctx, other, message.ID))
	got, err := b.store.Message(b.ctx, tenant, message.ID)
	require.NoError(b, err)
	require.Equal(b, posted, got)
	require.NoError(b, b.store.DeleteSession(b.ctx, other, session))
	require.Equal(b, []string{"ours", "posted"}, b.history(session))
	ours.commit(step("more"))
}
