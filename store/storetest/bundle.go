package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/store"
)

const (
	tenant = "acme"
	lease  = 15 * time.Second
)

// A bundle is what a case works with: an empty store, and a clock that it moves.
type bundle struct {
	testing.TB
	ctx     context.Context
	harness Harness
	store   store.Store
	clock   *clock
}

func newBundle(t testing.TB, h Harness) *bundle {
	b := &bundle{TB: t, ctx: t.Context(), harness: h, clock: newClock()}
	b.store = h.Open(t, Options{Now: b.clock.Now})
	return b
}

// reopen goes on with the store as a new process finds it.
func (b *bundle) reopen() {
	b.Helper()
	if b.harness.Reopen != nil {
		b.store = b.harness.Reopen(b.TB, b.store, Options{Now: b.clock.Now})
	}
}

// tick moves the clock by a second, so that what follows is younger.
func (b *bundle) tick() time.Time { return b.clock.move(time.Second) }

// newSession returns the id of a session that was created.
func (b *bundle) newSession() uuid.UUID {
	b.Helper()
	id := uuid.New()
	_, err := b.store.CreateSession(b.ctx, tenant, id)
	require.NoError(b, err)
	return id
}

func (b *bundle) session(id uuid.UUID) *store.Session {
	b.Helper()
	s, err := b.store.Session(b.ctx, tenant, id)
	require.NoError(b, err)
	return s
}

func (b *bundle) runRecord(id uuid.UUID) *store.Run {
	b.Helper()
	r, err := b.store.Run(b.ctx, tenant, id)
	require.NoError(b, err)
	return r
}

func (b *bundle) checkpoint(id uuid.UUID) *checkpoint.Checkpoint {
	b.Helper()
	c, err := b.store.Checkpoint(b.ctx, tenant, id)
	require.NoError(b, err)
	return c
}

// load returns the head's position.
func (b *bundle) load(session uuid.UUID) *store.Position {
	b.Helper()
	return b.loadAt(session, uuid.Nil)
}

func (b *bundle) loadAt(session, checkpoint uuid.UUID) *store.Position {
	b.Helper()
	p, err := b.store.Load(b.ctx, &store.Load{Tenant: tenant, Session: session, Checkpoint: checkpoint})
	require.NoError(b, err)
	return p
}

func (b *bundle) loadRun(id uuid.UUID) *store.Position {
	b.Helper()
	p, err := b.store.Load(b.ctx, &store.Load{Tenant: tenant, Run: id})
	require.NoError(b, err)
	return p
}

// history returns the texts of the messages that the head sees.
func (b *bundle) history(session uuid.UUID) []string {
	b.Helper()
	return texts(b, b.load(session).Messages)
}

// historyAt returns the texts of the messages that a checkpoint sees.
func (b *bundle) historyAt(session, checkpoint uuid.UUID) []string {
	b.Helper()
	return texts(b, b.loadAt(session, checkpoint).Messages)
}

// count is how many records of each kind a session has.
type count struct{ runs, checkpoints, messages int }

func (b *bundle) count(session uuid.UUID) count {
	b.Helper()
	runs, err := b.store.Runs(b.ctx, &store.RunQuery{Tenant: tenant, Session: session})
	require.NoError(b, err)
	checkpoints, err := b.store.Checkpoints(b.ctx, &store.CheckpointQuery{Tenant: tenant, Session: session})
	require.NoError(b, err)
	messages, err := b.store.Messages(b.ctx, &store.MessageQuery{Tenant: tenant, Session: session})
	require.NoError(b, err)
	return count{runs.Count, checkpoints.Count, messages.Count}
}

// post adds a message outside any run.
func (b *bundle) post(session uuid.UUID, text string) *store.Message {
	b.Helper()
	m := say(text)
	m.SessionID = session
	out, err := b.store.CreateMessage(b.ctx, tenant, &m)
	require.NoError(b, err)
	return out
}

// notFound requires err to say that the named thing does not exist.
func (b *bundle) notFound(err error, what store.Resource, id uuid.UUID) {
	b.Helper()
	require.ErrorIs(b, err, store.ErrNotFound)
	var missing *store.NotFoundError
	require.ErrorAs(b, err, &missing)
	require.Equal(b, store.NotFoundError{Resource: what, ID: id}, *missing)
}

// say makes the record of a user's message.
func say(text string) store.Message {
	m := message.NewUser(text)
	m.ID = uuid.New()
	record, err := store.EncodeMessage(m)
	if err != nil {
		panic(err) // a text can always be encoded
	}
	return record
}

// texts returns what say was given, in the order of the messages.
func texts(t require.TestingT, list []store.Message) []string {
	out := make([]string, 0, len(list))
	for i := range list {
		m, err := list[i].Decode()
		require.NoError(t, err)
		user, ok := m.(*message.User)
		require.True(t, ok, "a message of role %s", m.Role())
		require.Len(t, user.Content, 1)
		out = append(out, user.Content[0].(message.Text).Value)
	}
	return out
}

// sameTime requires two times to be the same instant.
func sameTime(t require.TestingT, want, got time.Time, what string) {
	require.True(t, want.Equal(got), "%s: want %s, got %s", what, want, got)
}
