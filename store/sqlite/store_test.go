package sqlite

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/store"
)

func open(t testing.TB, opts *Options) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "everstep.db"), opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// exercise calls everything once, so that every table has rows and every statement was used.
func exercise(t testing.TB, s *Store) (session uuid.UUID) {
	t.Helper()
	ctx := t.Context()
	session = uuid.New()
	_, err := s.CreateSession(ctx, "t", session)
	require.NoError(t, err)
	posted, err := s.CreateMessage(ctx, "t", &store.Message{Header: message.Header{ID: uuid.New(), SessionID: session}, Role: message.RoleUser, Body: body})
	require.NoError(t, err)
	first := at("entrypoint", checkpoint.Input, 2)
	first.Document = &store.Document{Body: []byte(`{}`)}
	d := drive(t, s, "t", session, first)
	second := at("call_model", checkpoint.Step, 1)
	second.Document = &store.Document{Patch: true, Body: []byte(`[]`)}
	second.Checkpoint.Metadata = []byte(`{}`)
	require.NoError(t, d.commit(ctx, checkpoint.Running, second))
	for _, done := range []bool{false, true} {
		require.NoError(t, s.SaveTask(ctx, &store.SaveTask{Fence: d.fence, Checkpoint: d.last, Task: store.Task{Key: "k", Done: done, Value: []byte("v")}}))
	}
	_, err = s.Renew(ctx, &store.Renew{Fences: []store.Fence{d.fence}, Lease: time.Minute})
	require.NoError(t, err)
	base := d.load(t).Session.Base
	waiter := store.Fence{Tenant: "t", Run: uuid.New(), Owner: uuid.New(), Epoch: 1}
	_, err = s.Begin(ctx, &store.Begin{Fence: waiter, Session: session, Wait: true, Params: []byte("{}"), Status: checkpoint.Running, Lease: time.Minute})
	require.NoError(t, err)
	_, err = s.Begin(ctx, &store.Begin{
		Fence: store.Fence{Tenant: "t", Run: uuid.New(), Owner: uuid.New(), Epoch: 1}, Session: session, Graph: "agent",
		From: store.From{Checkpoint: first.Checkpoint.ID, Base: base}, Params: []byte("{}"), Status: checkpoint.Running,
		Steps: []store.Step{at("entrypoint", checkpoint.Input, 1)}, Tasks: []store.Task{{Key: "x"}},
	})
	require.NoError(t, err)
	require.NoError(t, d.commit(ctx, checkpoint.Completed))
	active, err := s.Promote(ctx, waiter)
	require.NoError(t, err)
	require.True(t, active)
	claimed, err := s.Claim(ctx, &store.Claim{Owner: uuid.New(), Graphs: []string{"agent"}, Lease: time.Minute, Limit: 10})
	require.NoError(t, err)
	require.Len(t, claimed, 1)
	_, err = s.Load(ctx, &store.Load{Tenant: "t", Run: claimed[0].ID})
	require.NoError(t, err)
	_, err = s.RequestCancel(ctx, "t", claimed[0].ID)
	require.NoError(t, err)
	require.NoError(t, s.Release(ctx, claimed[0].Fence()))
	_, err = s.Session(ctx, "t", session)
	require.NoError(t, err)
	_, err = s.Run(ctx, "t", claimed[0].ID)
	require.NoError(t, err)
	_, err = s.Checkpoint(ctx, "t", first.Checkpoint.ID)
	require.NoError(t, err)
	_, err = s.Message(ctx, "t", posted.ID)
	require.NoError(t, err)
	require.NoError(t, s.WriteRecords(ctx, "t", []store.RecordWrite{{Kind: "k", Key: "a"}, {Kind: "k", Key: "b"}}))
	require.NoError(t, s.WriteRecords(ctx, "t", []store.RecordWrite{{Kind: "k", Key: "a", Version: 1}, {Kind: "k", Key: "b", Version: 1, Delete: true}}))
	_, err = s.Record(ctx, "t", "k", "a")
	require.NoError(t, err)
	for _, q := range []store.RecordQuery{{Prefix: "a"}, {}, {After: "a"}, {Descending: true}, {Descending: true, After: "b"}} {
		q.Tenant, q.Kind = "t", "k"
		_, err := s.ListRecords(ctx, &q)
		require.NoError(t, err)
	}
	ids := []uuid.UUID{uuid.New()}
	window := store.TimeRange{After: time.Unix(0, 1), Before: time.Now().Add(time.Hour)}
	page := store.Paging{PerPage: 1}
	for range 2 {
		p, err := s.Sessions(ctx, &store.SessionQuery{Tenant: "t"})
		require.NoError(t, err)
		require.Equal(t, 1, p.Count)
		_, err = s.Sessions(ctx, &store.SessionQuery{Tenant: "t", IDs: ids, Created: window, Updated: window})
		require.NoError(t, err)
		r, err := s.Runs(ctx, &store.RunQuery{Tenant: "t", Session: session, Paging: page})
		require.NoError(t, err)
		_, err = s.Runs(ctx, &store.RunQuery{Tenant: "t", Session: session, IDs: ids, Statuses: []checkpoint.Status{checkpoint.Running}, Created: window, Updated: window})
		require.NoError(t, err)
		c, err := s.Checkpoints(ctx, &store.CheckpointQuery{Tenant: "t", Session: session, Paging: page})
		require.NoError(t, err)
		_, err = s.Checkpoints(ctx, &store.CheckpointQuery{Tenant: "t", Session: session, IDs: ids, Runs: ids, Reasons: []checkpoint.Reason{checkpoint.Step}, Statuses: []checkpoint.Status{checkpoint.Running}, Created: window})
		require.NoError(t, err)
		m, err := s.Messages(ctx, &store.MessageQuery{Tenant: "t", Session: session, Paging: page})
		require.NoError(t, err)
		_, err = s.Messages(ctx, &store.MessageQuery{Tenant: "t", Session: session, IDs: ids, Runs: ids, Checkpoints: ids, Roles: []message.Role{message.RoleUser}, Created: window})
		require.NoError(t, err)
		_, err = s.Runs(ctx, &store.RunQuery{Tenant: "t", Session: session, Paging: store.Paging{PerPage: 1, Page: r.Next}})
		require.NoError(t, err)
		_, err = s.Checkpoints(ctx, &store.CheckpointQuery{Tenant: "t", Session: session, Paging: store.Paging{PerPage: 1, Page: c.Next}})
		require.NoError(t, err)
		_, err = s.Messages(ctx, &store.MessageQuery{Tenant: "t", Session: session, Paging: store.Paging{PerPage: 1, Page: m.Next}})
		require.NoError(t, err)
	}
	return session
}

// load reads the position of the run's session.
func (d *driven) load(t testing.TB) *store.Position {
	t.Helper()
	p, err := d.store.Load(t.Context(), &store.Load{Tenant: d.fence.Tenant, Session: d.session})
	require.NoError(t, err)
	return p
}

// rows counts the rows of every table.
func rows(t testing.TB, s *Store) map[string]int {
	t.Helper()
	counts := map[string]int{}
	var tables []string
	require.NoError(t, s.read(t.Context(), "count", func(c *conn) error {
		err := c.each(t.Context(), `SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> 'records'`, func(v row) error {
			tables = append(tables, v.text(0))
			return nil
		})
		for _, table := range tables {
			err = errors.Join(err, c.each(t.Context(), `SELECT count(*) FROM `+table, func(v row) error {
				counts[table] = int(v.int(0))
				return nil
			}))
		}
		return err
	}))
	return counts
}
