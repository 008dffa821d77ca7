package storetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/store"
)

var valueScenarios = []scenario{
	{"value-texts", "Every text comes back as it was: NUL, quotes, any script, a megabyte.", valueTexts},
	{"value-bytes", "Task values and params are any bytes, of any length from none.", valueBytes},
	{"value-large", "Documents, messages and task values may be 64 MiB long.", valueLarge},
	{"value-slices-in", "Slices that were passed in are not kept: changing them afterwards changes nothing.", valueSlicesIn},
	{"value-slices-out", "Slices that were returned belong to the caller: changing them changes nothing.", valueSlicesOut},
	{"value-arguments", "What is passed in is not changed.", valueArguments},
}

var oddTexts = []string{
	"", " ", "\x00", "a\x00b", "'", `"`, "\\", "`", "--; DROP TABLE runs", "%_*?", "\r\n\t", "\u2028\u2029",
	"ünïcödé", "日本語", "עברית", "👩‍👩‍👧‍👦", "\uFFFD", "\uFEFFbom", "e\u0301", "null", "NULL", "0", "1e3", "{}", strings.Repeat("long ", 200_000),
}

func valueTexts(b *bundle) {
	for i, text := range oddTexts {
		tenant := "tenant " + text
		name := fmt.Sprintf("text %d", i)
		begin := b.newBegin(uuid.New())
		begin.Tenant, begin.Graph = tenant, text
		quoted, err := json.Marshal(text)
		require.NoError(b, err)
		s := step(text)
		s.Checkpoint.Node, s.Checkpoint.Next = text, text
		s.Checkpoint.Metadata = json.RawMessage(`{"text":` + string(quoted) + `}`)
		s.Document = &store.Document{Body: s.Checkpoint.Metadata}
		begin.Steps = []store.Step{s}
		r, err := b.begin(begin)
		require.NoError(b, err, name)
		require.NoError(b, r.saveTask(text, true, text), name)
		p, err := b.store.Load(b.ctx, &store.Load{Tenant: tenant, Run: begin.Run})
		require.NoError(b, err, name)
		require.Equal(b, []store.Task{{Key: text, Done: true, Value: []byte(text)}}, nonNil(p.Tasks), name)
		require.NotNil(b, p.Checkpoint)
		require.NotNil(b, p.Run)
		require.Equal(b, text, p.Checkpoint.Node, name)
		require.Equal(b, text, p.Checkpoint.Next, name)
		require.Equal(b, string(s.Checkpoint.Metadata), string(p.Checkpoint.Metadata), name)
		require.Equal(b, text, p.Run.Graph, name)
		require.Equal(b, tenant, p.Run.Tenant, name)
		require.Equal(b, tenant, p.Session.Tenant, name)
		require.Equal(b, []string{text}, texts(b, p.Messages), name)
		require.Equal(b, []string{string(s.Checkpoint.Metadata)}, chain(p), name)

		c := r.newCommit(checkpoint.Failed)
		c.ErrorCode, c.Error = text, text
		_, err = r.send(c)
		require.NoError(b, err, name)
		got, err := b.store.Run(b.ctx, tenant, begin.Run)
		require.NoError(b, err, name)
		require.Equal(b, text, got.ErrorCode, name)
		require.Equal(b, text, got.Error, name)
		page, err := b.store.Sessions(b.ctx, &store.SessionQuery{Tenant: tenant})
		require.NoError(b, err, name)
		require.Equal(b, 1, page.Count, name)
	}
	claimable := b.newBegin(uuid.New(), graph("odd\x00graph"))
	_, err := b.begin(claimable)
	require.NoError(b, err)
	b.clock.move(2 * lease)
	require.Empty(b, b.claim(store.Claim{Graphs: []string{"odd"}}))
	require.Equal(b, []uuid.UUID{claimable.Run}, b.claim(store.Claim{Graphs: []string{"odd\x00graph"}}))
}

// nonNil makes empty values equal, whether they are nil or not.
func nonNil(tasks []store.Task) []store.Task {
	for i := range tasks {
		if tasks[i].Value == nil {
			tasks[i].Value = []byte{}
		}
	}
	return tasks
}

func valueBytes(b *bundle) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for i, value := range [][]byte{{}, {0}, {0xff, 0xfe}, all, bytes.Repeat(all, 4096)} {
		begin := b.newBegin(uuid.New(), with(step()))
		begin.Params = value
		r, err := b.begin(begin)
		require.NoError(b, err)
		require.NoError(b, r.saveTask("task", true, string(value)))
		b.reopen()
		p := b.loadRun(r.Run)
		require.NotNil(b, p.Run)
		require.True(b, bytes.Equal(value, p.Run.Params), "params %d", i)
		require.Len(b, p.Tasks, 1)
		require.True(b, bytes.Equal(value, p.Tasks[0].Value), "value %d", i)
	}
}

func valueLarge(b *bundle) {
	size := 64 << 20
	if testing.Short() {
		size = 1 << 20
	}
	body := bytes.Repeat([]byte("x"), size)
	body[0], body[size-1] = '"', '"'
	document, content := step(), step("")
	document.Document = &store.Document{Body: body}
	content.Messages[0].Body = body

	// One after the other, in sessions that go again: the machine may be small.
	for _, s := range []store.Step{document, content, step()} {
		r := b.start(uuid.New(), with(s))
		task := s.Document == nil && s.Messages == nil
		if task {
			require.NoError(b, b.store.SaveTask(b.ctx, &store.SaveTask{
				Fence: r.Fence, Checkpoint: r.last, Task: store.Task{Key: "task", Done: true, Value: body},
			}))
		}
		p := b.loadRun(r.Run)
		switch {
		case task:
			require.Len(b, p.Tasks, 1)
			require.True(b, bytes.Equal(body, p.Tasks[0].Value), "task value")
		case s.Document != nil:
			require.Len(b, p.Documents, 1)
			require.True(b, bytes.Equal(body, p.Documents[0].Body), "document")
		default:
			require.Len(b, p.Messages, 1)
			require.True(b, bytes.Equal(body, p.Messages[0].Body), "message")
		}
		require.NoError(b, b.store.DeleteSession(b.ctx, tenant, r.session))
	}
}

// A handful is a value of each slice that a store is given.
type handful struct {
	begin  *store.Begin
	commit *store.Commit
	task   *store.SaveTask
	posted *store.Message
}

// writeHandful writes one of each, in a new session.
func (b *bundle) writeHandful() (*run, *handful) {
	b.Helper()
	h := &handful{begin: b.newBegin(uuid.New())}
	h.begin.Params = []byte(`"params"`)
	r, err := b.begin(h.begin)
	require.NoError(b, err)
	s := step("message")
	s.Checkpoint.Metadata = json.RawMessage(`{"meta":1}`)
	s.Document = &store.Document{Body: []byte(`{"document":1}`)}
	h.commit = r.newCommit(checkpoint.Running, s)
	h.commit.Tasks = []store.Task{{Key: "kept", Done: true, Value: []byte(`"kept"`)}}
	_, err = r.send(h.commit)
	require.NoError(b, err)
	h.task = &store.SaveTask{Fence: r.Fence, Checkpoint: r.last, Task: store.Task{Key: "task", Done: true, Value: []byte(`"value"`)}}
	require.NoError(b, b.store.SaveTask(b.ctx, h.task))
	m := say("posted")
	m.SessionID = r.session
	h.posted = &m
	_, err = b.store.CreateMessage(b.ctx, tenant, h.posted)
	require.NoError(b, err)
	return r, h
}

// intact requires that a handful is stored as it was written.
func (b *bundle) intact(r *run) {
	b.Helper()
	p := b.loadRun(r.Run)
	require.NotNil(b, p.Run)
	require.Equal(b, `"params"`, string(p.Run.Params))
	require.NotNil(b, p.Checkpoint)
	require.Equal(b, `{"meta":1}`, string(p.Checkpoint.Metadata))
	require.Equal(b, []string{`{"document":1}`}, chain(p))
	require.Equal(b, []string{"message", "posted"}, texts(b, p.Messages))
	require.Equal(b, []string{`kept="kept"`, `task="value"`}, r.tasks())
}

func spoil(slices ...[]byte) {
	for _, s := range slices {
		for i := range s {
			s[i] = 'X'
		}
	}
}

func valueSlicesIn(b *bundle) {
	r, h := b.writeHandful()
	s := &h.commit.Steps[0]
	spoil(h.begin.Params, s.Checkpoint.Metadata, s.Document.Body, s.Messages[0].Body, h.commit.Tasks[0].Value, h.task.Task.Value, h.posted.Body)
	s.Messages[0].ID = uuid.New()
	b.intact(r)
}

func valueSlicesOut(b *bundle) {
	r, h := b.writeHandful()
	for range 2 {
		p := b.loadRun(r.Run)
		require.NotNil(b, p.Run)
		require.NotNil(b, p.Checkpoint)
		spoil(p.Run.Params, p.Checkpoint.Metadata)
		for i := range p.Documents {
			spoil(p.Documents[i].Body)
		}
		for i := range p.Messages {
			if i == 0 {
				// An append must not run into the neighbour either.
				_ = append(p.Messages[i].Body, "XXXXXXXXXXXXXXXX"...)
				require.Equal(b, []string{"message", "posted"}, texts(b, p.Messages))
			}
			spoil(p.Messages[i].Body)
		}
		for i := range p.Tasks {
			spoil(p.Tasks[i].Value)
		}
		spoil(r.record().Params, b.checkpoint(r.at).Metadata)
		for got := range walkMessages(b, &store.MessageQuery{Tenant: tenant, Session: r.session}) {
			spoil(got.Body)
		}
		for got := range walkRuns(b, &store.RunQuery{Tenant: tenant, Session: r.session}) {
			spoil(got.Params)
		}
		for got := range walkCheckpoints(b, &store.CheckpointQuery{Tenant: tenant, Session: r.session}) {
			spoil(got.Metadata)
		}
		m, err := b.store.Message(b.ctx, tenant, h.posted.ID)
		require.NoError(b, err)
		spoil(m.Body)
		again, err := b.store.Commit(b.ctx, h.commit)
		require.NoError(b, err)
		require.Equal(b, []int64{r.last}, again.Seqs)
		again.Seqs[0] = -1
		b.intact(r)
	}
}

func valueArguments(b *bundle) {
	r, h := b.writeHandful()
	s := h.commit.Steps[0]
	require.Zero(b, s.Checkpoint.Seq)
	require.Zero(b, s.Checkpoint.Line)
	require.Zero(b, s.Checkpoint.Document)
	require.True(b, s.Checkpoint.CreatedAt.IsZero())
	require.Equal(b, `{"meta":1}`, string(s.Checkpoint.Metadata))
	require.Equal(b, `{"document":1}`, string(s.Document.Body))
	for _, m := range []store.Message{s.Messages[0], *h.posted} {
		require.Zero(b, m.Seq)
		require.Zero(b, m.Line)
		require.True(b, m.CreatedAt.IsZero())
		require.Equal(b, uuid.Nil, m.CheckpointID)
		require.Equal(b, message.RoleUser, m.Role)
	}
	require.Equal(b, `"params"`, string(h.begin.Params))
	require.Equal(b, `"value"`, string(h.task.Task.Value))
	require.Equal(b, r.Fence, h.commit.Fence)
	q := &store.MessageQuery{Tenant: tenant, Session: r.session, IDs: []uuid.UUID{h.posted.ID}}
	_, err := b.store.Messages(b.ctx, q)
	require.NoError(b, err)
	require.Equal(b, &store.MessageQuery{Tenant: tenant, Session: r.session, IDs: []uuid.UUID{h.posted.ID}}, q)
}
