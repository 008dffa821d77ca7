package storetest

import (
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/store"
)

var messageScenarios = []scenario{
	{"message-returns-stored", "A message added outside any run comes back with its sequence and time, and with no run.", messageReturnsStored},
	{"message-before-first-run", "Messages added before the first run belong to its history.", messageBeforeFirstRun},
	{"message-between-runs", "Messages added outside runs stand where their sequence puts them.", messageBetweenRuns},
	{"message-every-branch", "Messages added outside runs belong to every branch, wherever it left.", messageEveryBranch},
	{"message-raises-base", "Adding and deleting a message raises the session's base, a run's messages do not.", messageRaisesBase},
	{"message-twice-on-branches", "The same message id may stand on two branches, each with its own text.", messageTwiceOnBranches},
	{"message-exists", "A message id that the session has cannot be added, whoever brought it.", messageExists},
	{"message-unknown-session", "A message cannot be added to a session that does not exist.", messageUnknownSession},
	{"message-stamped", "A run's messages are stamped with their checkpoint, line and time, and keep what the runner set.", messageStamped},
	{"message-order", "The messages of a step keep their order.", messageOrder},
	{"message-roles", "A message of every role decodes to what it was.", messageRoles},
	{"message-deleted", "A deleted message disappears from every history and list.", messageDeleted},
	{"message-delete-latest", "Deleting an id takes the most recently created message of it, and the next time the one before.", messageDeleteLatest},
	{"message-delete-unknown", "Deleting a message that does not exist says so.", messageDeleteUnknown},
}

func messageReturnsStored(b *bundle) {
	session := b.newSession()
	b.tick()
	m := say("hello")
	m.SessionID = session
	m.RunID, m.CheckpointID = uuid.New(), uuid.New() // made up: no run brings it
	m.Seq, m.Line = 99, 99
	out, err := b.store.CreateMessage(b.ctx, tenant, &m)
	require.NoError(b, err)
	sameTime(b, b.clock.Now(), out.CreatedAt, "created")
	require.Positive(b, out.Seq)
	require.NotEqual(b, int64(99), out.Seq)
	b.reopen()

	kept, err := b.store.Message(b.ctx, tenant, m.ID)
	require.NoError(b, err)
	list, err := b.store.Messages(b.ctx, &store.MessageQuery{Tenant: tenant, Session: session})
	require.NoError(b, err)
	require.Len(b, list.Items, 1)
	loaded := b.load(session).Messages
	require.Len(b, loaded, 1)
	for _, got := range []*store.Message{out, kept, &list.Items[0], &loaded[0]} {
		require.Equal(b, m.ID, got.ID)
		require.Equal(b, session, got.SessionID)
		require.Equal(b, uuid.Nil, got.RunID)
		require.Equal(b, uuid.Nil, got.CheckpointID)
		require.Equal(b, message.RoleUser, got.Role)
		require.Equal(b, string(m.Body), string(got.Body))
		require.Equal(b, out.Seq, got.Seq)
		require.Equal(b, checkpoint.Base, got.Line)
		sameTime(b, out.CreatedAt, got.CreatedAt, "created")
	}
}

func messageBeforeFirstRun(b *bundle) {
	session := b.newSession()
	b.post(session, "first")
	b.post(session, "second")
	require.Equal(b, []string{"first", "second"}, b.history(session))
	r := b.start(session)
	require.Equal(b, []string{"first", "second"}, texts(b, b.loadRun(r.Run).Messages))
	r.commit(step("run"))
	require.Equal(b, []string{"first", "second", "run"}, b.history(session))
}

func messageBetweenRuns(b *bundle) {
	session := b.newSession()
	r := b.start(session, with(step("one")))
	b.post(session, "during")
	r.end(checkpoint.Completed, step("two"))
	b.post(session, "after")
	require.Equal(b, []string{"one", "during", "two", "after"}, b.history(session))
	b.whole(session, step("three"), step("four"))
	b.reopen()
	require.Equal(b, []string{"one", "during", "two", "after", "three", "four"}, b.history(session))
	p := b.load(session)
	seqs := []int64{}
	for _, m := range p.Messages {
		seqs = append(seqs, m.Seq)
	}
	require.IsIncreasing(b, seqs)
}

func messageEveryBranch(b *bundle) {
	session := b.newSession()
	first := b.whole(session, step("one"))
	b.post(session, "posted 1")
	second := b.whole(session, step("two"))
	branch := b.start(session, from(first.at), with(step("aside")))
	b.post(session, "posted 2")
	branch.commit(step("more"))
	require.Equal(b, []string{"one", "posted 1", "two", "posted 2"}, b.history(session))
	require.Equal(b, []string{"one", "posted 1", "aside", "posted 2", "more"}, b.historyAt(session, branch.at))
	require.Equal(b, []string{"one", "posted 1", "posted 2"}, b.historyAt(session, first.at),
		"an old checkpoint sees what was added after it")
	require.Equal(b, second.at, b.load(session).Checkpoint.ID)
}

func messageRaisesBase(b *bundle) {
	session := b.newSession()
	start := b.session(session).Base
	m := b.post(session, "posted")
	base := b.session(session).Base
	require.Greater(b, base, start)
	r := b.whole(session, step("one"))
	require.Equal(b, base, r.begun.Base)
	require.Equal(b, base, b.session(session).Base)
	require.NoError(b, b.store.DeleteMessage(b.ctx, tenant, m.ID))
	require.Greater(b, b.session(session).Base, base)
	base = b.session(session).Base

	// A run's message that is deleted makes a state in memory stale as well.
	list := b.loadAt(session, r.at).Messages
	require.Len(b, list, 1)
	require.NoError(b, b.store.DeleteMessage(b.ctx, tenant, list[0].ID))
	require.Greater(b, b.session(session).Base, base)
}

func messageTwiceOnBranches(b *bundle) {
	session := b.newSession()
	first := b.whole(session, step("one"))
	b.whole(session, step("two"))
	left := b.start(session, from(first.at))
	right := b.start(session, from(first.at))
	l, r := step("left"), step("right")
	r.Messages[0].ID = l.Messages[0].ID
	left.commit(l)
	b.tick()
	right.commit(r)
	require.Equal(b, []string{"one", "left"}, b.historyAt(session, left.at))
	require.Equal(b, []string{"one", "right"}, b.historyAt(session, right.at))
	b.reopen()
	m, err := b.store.Message(b.ctx, tenant, l.Messages[0].ID)
	require.NoError(b, err)
	require.Equal(b, []string{"right"}, texts(b, []store.Message{*m}), "the most recently created one")

	require.NoError(b, b.store.DeleteMessage(b.ctx, tenant, m.ID))
	require.Equal(b, []string{"one"}, b.historyAt(session, right.at))
	require.Equal(b, []string{"one", "left"}, b.historyAt(session, left.at), "the message before is another one")
}

func messageExists(b *bundle) {
	session, other := b.newSession(), b.newSession()
	posted := b.post(session, "posted")
	s := step("from a run")
	b.whole(session, s)
	before := b.session(session)
	for _, id := range []uuid.UUID{posted.ID, s.Messages[0].ID} {
		m := say("again")
		m.ID, m.SessionID = id, session
		_, err := b.store.CreateMessage(b.ctx, tenant, &m)
		require.ErrorIs(b, err, store.ErrExists)
		m.SessionID = other
		_, err = b.store.CreateMessage(b.ctx, tenant, &m)
		require.NoError(b, err, "sessions are independent")
	}
	require.Equal(b, before.Base, b.session(session).Base)
	require.Equal(b, []string{"posted", "from a run"}, b.history(session))
	require.Equal(b, []string{"again", "again"}, b.history(other))
}

func messageUnknownSession(b *bundle) {
	m := say("hello")
	m.SessionID = uuid.New()
	_, err := b.store.CreateMessage(b.ctx, tenant, &m)
	b.notFound(err, store.SessionResource, m.SessionID)
	_, err = b.store.Session(b.ctx, tenant, m.SessionID)
	b.notFound(err, store.SessionResource, m.SessionID)
	_, err = b.store.Message(b.ctx, tenant, m.ID)
	b.notFound(err, store.MessageResource, m.ID)
}

func messageStamped(b *bundle) {
	session := b.newSession()
	r := b.start(session)
	b.tick()
	s := step("from the client", "from the run")
	s.Messages[1].RunID = r.Run
	done := r.commit(s)
	b.reopen()
	for i, sent := range s.Messages {
		got, err := b.store.Message(b.ctx, tenant, sent.ID)
		require.NoError(b, err)
		require.Equal(b, session, got.SessionID)
		require.Equal(b, s.Checkpoint.ID, got.CheckpointID)
		require.Equal(b, sent.RunID, got.RunID, "whose message it is the runner knows")
		require.Equal(b, done.Line, got.Line)
		sameTime(b, done.CreatedAt, got.CreatedAt, "created")
		require.Less(b, got.Seq, done.Seqs[0], "messages stand before their checkpoint")
		require.Equal(b, *got, b.load(session).Messages[i])
	}
}

func messageOrder(b *bundle) {
	session := b.newSession()
	r := b.start(session, with(step("a", "b", "c")))
	r.commit(step("d", "e", "f"), step("g"))
	want := []string{"a", "b", "c", "d", "e", "f", "g"}
	require.Equal(b, want, b.history(session))
	list, err := b.store.Messages(b.ctx, &store.MessageQuery{Tenant: tenant, Session: session})
	require.NoError(b, err)
	require.Equal(b, []string{"g", "f", "e", "d", "c", "b", "a"}, texts(b, list.Items))
}

func messageRoles(b *bundle) {
	session := b.newSession()
	sent := []message.Message{
		message.NewSystem("be brief"),
		message.NewUser("hello"),
		message.NewReasoning("they greet", "signature"),
		message.NewAssistant("hi", message.ToolCall{ID: "call", Name: "wave", Arguments: []byte(`{"n":1E2}`)}),
		message.NewTool("call", "waved"),
		message.NewToolError("call", "no hands"),
	}
	s := step()
	for _, m := range sent {
		m.Head().ID, m.Head().Name, m.Head().Metadata = uuid.New(), "name", []byte(`{"k":[1]}`)
		record, err := store.EncodeMessage(m)
		require.NoError(b, err)
		s.Messages = append(s.Messages, record)
	}
	b.whole(session, s)
	b.reopen()
	list := b.load(session).Messages
	require.Len(b, list, len(sent))
	for i := range list {
		got, err := list[i].Decode()
		require.NoError(b, err)
		h := sent[i].Head()
		h.SessionID, h.CheckpointID, h.CreatedAt = session, s.Checkpoint.ID, got.Head().CreatedAt
		require.Equal(b, sent[i], got)
	}
}

func messageDeleted(b *bundle) {
	session := b.newSession()
	posted := b.post(session, "posted")
	s := step("one", "two")
	first := b.whole(session, s)
	b.whole(session, step("three"))
	branch := b.start(session, from(first.at), with(step("aside")))
	for _, id := range []uuid.UUID{posted.ID, s.Messages[0].ID} {
		require.NoError(b, b.store.DeleteMessage(b.ctx, tenant, id))
		_, err := b.store.Message(b.ctx, tenant, id)
		b.notFound(err, store.MessageResource, id)
	}
	for range 2 {
		require.Equal(b, []string{"two", "three"}, b.history(session))
		require.Equal(b, []string{"two", "aside"}, b.historyAt(session, branch.at))
		require.Equal(b, []string{"two"}, b.historyAt(session, first.at))
		require.Equal(b, 3, b.count(session).messages)
		b.reopen()
	}
	m := say("posted again")
	m.ID, m.SessionID = posted.ID, session
	_, err := b.store.CreateMessage(b.ctx, tenant, &m)
	require.NoError(b, err, "the id is free again")
	require.Equal(b, []string{"two", "three", "posted again"}, b.history(session))
}

func messageDeleteLatest(b *bundle) {
	older, younger := b.newSession(), b.newSession()
	m := say("hello")
	for _, session := range []uuid.UUID{older, younger} {
		b.tick()
		m.SessionID = session
		_, err := b.store.CreateMessage(b.ctx, tenant, &m)
		require.NoError(b, err)
	}
	for _, session := range []uuid.UUID{younger, older} {
		got, err := b.store.Message(b.ctx, tenant, m.ID)
		require.NoError(b, err)
		require.Equal(b, session, got.SessionID)
		require.NoError(b, b.store.DeleteMessage(b.ctx, tenant, m.ID))
		require.Empty(b, b.history(session))
	}
	b.notFound(b.store.DeleteMessage(b.ctx, tenant, m.ID), store.MessageResource, m.ID)
}

func messageDeleteUnknown(b *bundle) {
	session := b.newSession()
	b.post(session, "posted")
	base := b.session(session).Base
	id := uuid.New()
	b.notFound(b.store.DeleteMessage(b.ctx, tenant, id), store.MessageResource, id)
	require.Equal(b, base, b.session(session).Base)
	require.Equal(b, []string{"posted"}, b.history(session))
}
