package storetest

import (
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/store"
)

var listScenarios = []scenario{
	{"list-sessions", "Sessions are listed newest first, by their ids, and by when they were created and used.", listSessions},
	{"list-runs", "Runs are listed newest first, by their ids, statuses and times.", listRuns},
	{"list-checkpoints", "Checkpoints are listed newest first, by their ids, runs, reasons, statuses and times.", listCheckpoints},
	{"list-messages", "Messages are listed newest first, of all lines, by their ids, runs, checkpoints, roles and times.", listMessages},
	{"list-bounds", "Both ends of a time filter belong to it.", listBounds},
	{"list-unknown-session", "The lists of a session that does not exist say so; those of an empty one are empty.", listUnknownSession},
	{"list-records", "A list holds the same records as they are read one by one.", listRecords},
}

// checkpointsOf is the list of a run's checkpoints.
func checkpointsOf(session, run uuid.UUID) *store.CheckpointQuery {
	return &store.CheckpointQuery{Tenant: tenant, Session: session, Runs: []uuid.UUID{run}}
}

// listed requires a page to be exactly the wanted items, in order.
func listed[T any](b *bundle, page *store.Page[T], err error, id func(T) uuid.UUID, want ...uuid.UUID) {
	b.Helper()
	require.NoError(b, err)
	got := []uuid.UUID{}
	for _, item := range page.Items {
		got = append(got, id(item))
	}
	require.Equal(b, append([]uuid.UUID{}, want...), got)
	require.Equal(b, len(want), page.Count)
	require.Empty(b, page.Next)
}

func listSessions(b *bundle) {
	ids := make([]uuid.UUID, 4)
	times := make([]time.Time, 4)
	for i := range ids {
		times[i] = b.tick()
		ids[i] = b.newSession()
	}
	used := b.tick()
	b.whole(ids[0], step())
	want := func(q store.SessionQuery, want ...uuid.UUID) {
		b.Helper()
		q.Tenant = tenant
		page, err := b.store.Sessions(b.ctx, &q)
		listed(b, page, err, func(s store.Session) uuid.UUID { return s.ID }, want...)
	}
	want(store.SessionQuery{}, ids[3], ids[2], ids[1], ids[0])
	want(store.SessionQuery{IDs: []uuid.UUID{ids[1], ids[3], uuid.New()}}, ids[3], ids[1])
	want(store.SessionQuery{IDs: []uuid.UUID{uuid.New()}})
	want(store.SessionQuery{Created: store.TimeRange{After: times[1], Before: times[2]}}, ids[2], ids[1])
	want(store.SessionQuery{Created: store.TimeRange{Before: times[1]}}, ids[1], ids[0])
	want(store.SessionQuery{Created: store.TimeRange{After: times[3]}}, ids[3])
	want(store.SessionQuery{Updated: store.TimeRange{After: used}}, ids[0])
	want(store.SessionQuery{Updated: store.TimeRange{Before: times[2]}}, ids[2], ids[1])
	want(store.SessionQuery{IDs: ids[:2], Created: store.TimeRange{After: times[1]}, Updated: store.TimeRange{Before: used}}, ids[1])
}

func listRuns(b *bundle) {
	session := b.newSession()
	b.whole(b.newSession(), step())
	statuses := []checkpoint.Status{checkpoint.Completed, checkpoint.Failed, checkpoint.Cancelled, checkpoint.Interrupted, checkpoint.Running}
	ids := make([]uuid.UUID, len(statuses))
	times := make([]time.Time, len(statuses))
	var last *run
	for i, status := range statuses {
		times[i] = b.tick()
		last = b.start(session, ended(status))
		ids[i] = last.Run
	}
	want := func(q store.RunQuery, want ...uuid.UUID) {
		b.Helper()
		q.Tenant, q.Session = tenant, session
		page, err := b.store.Runs(b.ctx, &q)
		listed(b, page, err, func(r store.Run) uuid.UUID { return r.ID }, want...)
	}
	want(store.RunQuery{}, ids[4], ids[3], ids[2], ids[1], ids[0])
	want(store.RunQuery{IDs: []uuid.UUID{ids[0], ids[4]}}, ids[4], ids[0])
	for i, status := range statuses {
		want(store.RunQuery{Statuses: []checkpoint.Status{status}}, ids[i])
	}
	want(store.RunQuery{Statuses: []checkpoint.Status{checkpoint.Failed, checkpoint.Running}}, ids[4], ids[1])
	want(store.RunQuery{Created: store.TimeRange{After: times[2]}}, ids[4], ids[3], ids[2])
	want(store.RunQuery{Created: store.TimeRange{After: times[1], Before: times[1]}}, ids[1])
	over := b.tick()
	last.end(checkpoint.Completed)
	want(store.RunQuery{Updated: store.TimeRange{After: over}}, ids[4])
	want(store.RunQuery{Created: store.TimeRange{Before: times[4]}, Updated: store.TimeRange{Before: times[3]}}, ids[3], ids[2], ids[1], ids[0])
	want(store.RunQuery{IDs: ids[:2], Statuses: []checkpoint.Status{checkpoint.Failed, checkpoint.Cancelled}}, ids[1])
	want(store.RunQuery{Statuses: []checkpoint.Status{checkpoint.Running}})
}

func listCheckpoints(b *bundle) {
	session := b.newSession()
	b.whole(b.newSession(), step())
	kinds := []struct {
		reason checkpoint.Reason
		status checkpoint.Status
	}{
		{checkpoint.Input, checkpoint.Running},
		{checkpoint.Step, checkpoint.Running},
		{checkpoint.Interrupt, checkpoint.Interrupted},
		{checkpoint.Finish, checkpoint.Completed},
	}
	ids := make([]uuid.UUID, len(kinds))
	times := make([]time.Time, len(kinds))
	first := b.start(session)
	r := first
	for i, kind := range kinds {
		times[i] = b.tick()
		s := step()
		s.Checkpoint.Reason, s.Checkpoint.Status = kind.reason, kind.status
		if i == 2 {
			r.end(checkpoint.Completed)
			r = b.start(session)
		}
		r.commit(s)
		ids[i] = r.at
	}
	want := func(q store.CheckpointQuery, want ...uuid.UUID) {
		b.Helper()
		q.Tenant, q.Session = tenant, session
		page, err := b.store.Checkpoints(b.ctx, &q)
		listed(b, page, err, func(c checkpoint.Checkpoint) uuid.UUID { return c.ID }, want...)
	}
	want(store.CheckpointQuery{}, ids[3], ids[2], ids[1], ids[0])
	want(store.CheckpointQuery{IDs: []uuid.UUID{ids[2], ids[0]}}, ids[2], ids[0])
	want(store.CheckpointQuery{Runs: []uuid.UUID{first.Run}}, ids[1], ids[0])
	want(store.CheckpointQuery{Runs: []uuid.UUID{first.Run, r.Run}}, ids[3], ids[2], ids[1], ids[0])
	for i, kind := range kinds {
		want(store.CheckpointQuery{Reasons: []checkpoint.Reason{kind.reason}}, ids[i])
	}
	want(store.CheckpointQuery{Statuses: []checkpoint.Status{checkpoint.Running}}, ids[1], ids[0])
	want(store.CheckpointQuery{Statuses: []checkpoint.Status{checkpoint.Interrupted, checkpoint.Completed}}, ids[3], ids[2])
	want(store.CheckpointQuery{Created: store.TimeRange{After: times[1], Before: times[2]}}, ids[2], ids[1])
	want(store.CheckpointQuery{Runs: []uuid.UUID{r.Run}, Statuses: []checkpoint.Status{checkpoint.Completed, checkpoint.Running}}, ids[3])
	want(store.CheckpointQuery{Runs: []uuid.UUID{uuid.New()}})
}

func listMessages(b *bundle) {
	session := b.newSession()
	b.post(b.newSession(), "elsewhere")
	posted := b.post(session, "posted")
	first := b.tick()
	a := step("a", "b")
	a.Messages[1].Role = message.RoleSystem
	r := b.whole(session, a)
	b.whole(session, step())
	second := b.tick()
	branch := b.newBegin(session, from(r.at))
	c := step("c")
	c.Messages[0].RunID, c.Messages[0].Role = branch.Run, message.RoleAssistant
	branch.Steps = []store.Step{c}
	_, err := b.begin(branch)
	require.NoError(b, err)

	p, x, y, z := posted.ID, a.Messages[0].ID, a.Messages[1].ID, c.Messages[0].ID
	want := func(q store.MessageQuery, want ...uuid.UUID) {
		b.Helper()
		q.Tenant, q.Session = tenant, session
		page, err := b.store.Messages(b.ctx, &q)
		listed(b, page, err, func(m store.Message) uuid.UUID { return m.ID }, want...)
	}
	want(store.MessageQuery{}, z, y, x, p)
	want(store.MessageQuery{IDs: []uuid.UUID{x, p}}, x, p)
	want(store.MessageQuery{Runs: []uuid.UUID{branch.Run}}, z)
	want(store.MessageQuery{Checkpoints: []uuid.UUID{a.Checkpoint.ID}}, y, x)
	want(store.MessageQuery{Checkpoints: []uuid.UUID{a.Checkpoint.ID, c.Checkpoint.ID}}, z, y, x)
	want(store.MessageQuery{Roles: []message.Role{message.RoleSystem}}, y)
	want(store.MessageQuery{Roles: []message.Role{message.RoleSystem, message.RoleUser}}, y, x, p)
	want(store.MessageQuery{Created: store.TimeRange{After: second}}, z)
	want(store.MessageQuery{Created: store.TimeRange{After: first, Before: first}}, y, x)
	want(store.MessageQuery{IDs: []uuid.UUID{x, y, z}, Roles: []message.Role{message.RoleUser}, Checkpoints: []uuid.UUID{a.Checkpoint.ID}}, x)
	want(store.MessageQuery{Roles: []message.Role{message.RoleTool}})
}

func listBounds(b *bundle) {
	session := b.newSession()
	m := b.post(session, "posted")
	for _, c := range []struct {
		after, before time.Duration
		want          int
	}{
		{0, 0, 1},
		{-time.Millisecond, time.Millisecond, 1},
		{time.Millisecond, time.Hour, 0},
		{-time.Hour, -time.Millisecond, 0},
	} {
		r := store.TimeRange{After: m.CreatedAt.Add(c.after), Before: m.CreatedAt.Add(c.before)}
		zone := time.FixedZone("zone", 3600)
		for _, r := range []store.TimeRange{r, {After: r.After.In(zone), Before: r.Before.In(zone)}} {
			messages, err := b.store.Messages(b.ctx, &store.MessageQuery{Tenant: tenant, Session: session, Created: r})
			require.NoError(b, err)
			require.Equal(b, c.want, messages.Count, "%+v", r)
			sessions, err := b.store.Sessions(b.ctx, &store.SessionQuery{Tenant: tenant, Created: r})
			require.NoError(b, err)
			require.Equal(b, c.want, sessions.Count, "%+v", r)
		}
	}
}

func listUnknownSession(b *bundle) {
	for _, id := range []uuid.UUID{uuid.New(), b.newSession()} {
		runs, err := b.store.Runs(b.ctx, &store.RunQuery{Tenant: tenant, Session: id})
		checkpoints, err2 := b.store.Checkpoints(b.ctx, &store.CheckpointQuery{Tenant: tenant, Session: id})
		messages, err3 := b.store.Messages(b.ctx, &store.MessageQuery{Tenant: tenant, Session: id})
		if _, err := b.store.Session(b.ctx, tenant, id); err != nil {
			b.notFound(err, store.SessionResource, id)
			b.notFound(err2, store.SessionResource, id)
			b.notFound(err3, store.SessionResource, id)
			continue
		}
		listed(b, runs, err, func(r store.Run) uuid.UUID { return r.ID })
		listed(b, checkpoints, err2, func(c checkpoint.Checkpoint) uuid.UUID { return c.ID })
		listed(b, messages, err3, func(m store.Message) uuid.UUID { return m.ID })
	}
	_, err := b.store.Runs(b.ctx, &store.RunQuery{Tenant: tenant, Session: uuid.Nil})
	b.notFound(err, store.SessionResource, uuid.Nil)
	page, err := b.store.Sessions(b.ctx, &store.SessionQuery{Tenant: "nobody"})
	listed(b, page, err, func(s store.Session) uuid.UUID { return s.ID })
}

func listRecords(b *bundle) {
	session := b.newSession()
	begin := b.newBegin(session, with(step("one")))
	begin.Params, begin.Attached = []byte("params"), true
	r, err := b.begin(begin)
	require.NoError(b, err)
	b.start(session, waiting)
	r.commit(document(`{}`))
	for got := range walkRuns(b, &store.RunQuery{Tenant: tenant, Session: session}) {
		require.Equal(b, *b.runRecord(got.ID), got)
	}
	for got := range walkCheckpoints(b, &store.CheckpointQuery{Tenant: tenant, Session: session}) {
		require.Equal(b, *b.checkpoint(got.ID), got)
	}
	for got := range walkMessages(b, &store.MessageQuery{Tenant: tenant, Session: session}) {
		m, err := b.store.Message(b.ctx, tenant, got.ID)
		require.NoError(b, err)
		require.Equal(b, *m, got)
	}
	for got := range walkSessions(b, &store.SessionQuery{Tenant: tenant}) {
		require.Equal(b, *b.session(got.ID), got)
	}
	require.Equal(b, count{runs: 2, checkpoints: 2, messages: 1}, b.count(session))
}
