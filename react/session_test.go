package react_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/react/reacttest"
	"github.com/everstep-go/everstep/store"
)

func requireNotFound(t *testing.T, err error, what store.Resource, doing string) {
	t.Helper()
	missing := &store.NotFoundError{}
	require.ErrorAs(t, err, &missing, doing)
	require.Equal(t, what, missing.Resource, doing)
	require.ErrorIs(t, err, store.ErrNotFound, doing)
}

// operations calls each operation that names something, and requires that it is not found.
func operations(t *testing.T, agent *react.Agent, tenant string, session, run, checkpointID, messageID uuid.UUID) {
	t.Helper()
	ctx := t.Context()
	requireNotFound(t, second(agent.Session(ctx, tenant, session)), store.SessionResource, "Session")
	s, err := agent.State(ctx, tenant, session)
	require.NoError(t, err, "a run would begin anew")
	require.Empty(t, s.Messages)
	requireNotFound(t, agent.DeleteSession(ctx, tenant, session), store.SessionResource, "DeleteSession")
	requireNotFound(t, second(agent.PostMessage(ctx, tenant, session, message.NewUser("hi"))), store.SessionResource, "PostMessage")
	requireNotFound(t, second(agent.Messages(ctx, store.MessageQuery{Tenant: tenant, Session: session})), store.SessionResource, "Messages")
	requireNotFound(t, second(agent.Runs(ctx, store.RunQuery{Tenant: tenant, Session: session})), store.SessionResource, "Runs")
	requireNotFound(t, second(agent.Checkpoints(ctx, store.CheckpointQuery{Tenant: tenant, Session: session})), store.SessionResource, "Checkpoints")
	requireNotFound(t, second(agent.Message(ctx, tenant, messageID)), store.MessageResource, "Message")
	requireNotFound(t, agent.DeleteMessage(ctx, tenant, messageID), store.MessageResource, "DeleteMessage")
	requireNotFound(t, second(agent.RunRecord(ctx, tenant, run)), store.RunResource, "RunRecord")
	requireNotFound(t, second(agent.Attach(ctx, tenant, run)), store.RunResource, "Attach")
	requireNotFound(t, agent.Cancel(ctx, tenant, run), store.RunResource, "Cancel")
	_, _, err = agent.Checkpoint(ctx, tenant, checkpointID)
	requireNotFound(t, err, store.CheckpointResource, "Checkpoint")
	in := user("hi")
	in.Tenant, in.Session, in.Checkpoint = tenant, session, checkpointID
	requireNotFound(t, second(agent.Start(ctx, in)), store.CheckpointResource, "Start")
}

func TestWhatDoesNotExistAndWhatIsAnotherTenantsIsNotFound(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st store.Store) {
		b := setup(t, react.Config{Store: st}, reacttest.Say("hello"), reacttest.Say("hello"))
		operations(t, b.agent, "", uuid.New(), uuid.New(), uuid.New(), uuid.New())
		in := user("hi")
		in.Tenant, in.Messages[0].Head().ID = "acme", uuid.New()
		run := b.run(t, in)[0].Run
		page, err := b.agent.Checkpoints(t.Context(), store.CheckpointQuery{Tenant: "acme", Session: b.session})
		require.NoError(t, err)
		id := in.Messages[0].Head().ID
		operations(t, b.agent, "", b.session, run, page.Items[0].ID, id)
		operations(t, b.agent, "other", b.session, run, page.Items[0].ID, id)
		sessions, err := b.agent.Sessions(t.Context(), store.SessionQuery{Tenant: "other"})
		require.NoError(t, err)
		assert.Empty(t, sessions.Items)

		// And nothing of it has changed.
		s, err := b.agent.State(t.Context(), "acme", b.session)
		require.NoError(t, err)
		assert.Equal(t, []string{`user "hi"`, `assistant "hello"`}, talk(s.Messages))

		// The same ids in another tenant are another session.
		in = user("hi there")
		in.Tenant, in.Run, in.Messages[0].Head().ID = "other", run, id
		b.run(t, in)
		s, err = b.agent.State(t.Context(), "other", b.session)
		require.NoError(t, err)
		assert.Equal(t, []string{`user "hi there"`, `assistant "hello"`}, talk(s.Messages))
		m, err := b.agent.Message(t.Context(), "acme", id)
		require.NoError(t, err)
		assert.Equal(t, []string{`user "hi"`}, talk([]message.Message{m}))
	})
}

func TestACheckpointOfAnotherSessionIsNotFound(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st store.Store) {
		b := setup(t, react.Config{Store: st}, reacttest.Say("hello"), reacttest.Say("hello"))
		b.ask(t, "hi")
		page, err := b.agent.Checkpoints(t.Context(), store.CheckpointQuery{Session: b.session})
		require.NoError(t, err)
		for _, session := range []uuid.UUID{uuid.New(), uuid.Nil} {
			in := user("hi")
			in.Session, in.Checkpoint = session, page.Items[0].ID
			_, err = b.agent.Start(t.Context(), in)
			requireNotFound(t, err, store.CheckpointResource, "Start")
		}
		sessions, err := b.agent.Sessions(t.Context(), store.SessionQuery{})
		require.NoError(t, err)
		assert.Len(t, sessions.Items, 1, "nothing was written")
	})
}

func TestSessions(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st store.Store) {
		b := setup(t, react.Config{Store: st}, reacttest.Say("hello"))
		made, err := b.agent.CreateSession(t.Context(), "", uuid.Nil)
		require.NoError(t, err)
		assert.NotEqual(t, uuid.Nil, made.ID)
		_, err = b.agent.CreateSession(t.Context(), "", made.ID)
		require.ErrorIs(t, err, store.ErrExists)
		s, err := b.agent.State(t.Context(), "", made.ID)
		require.NoError(t, err)
		assert.Equal(t, "{}", string(s.Context))
		b.ask(t, "hi")
		page, err := b.agent.Sessions(t.Context(), store.SessionQuery{})
		require.NoError(t, err)
		require.Len(t, page.Items, 2)
		assert.ElementsMatch(t, []uuid.UUID{b.session, made.ID}, []uuid.UUID{page.Items[0].ID, page.Items[1].ID})
		got, err := b.agent.Session(t.Context(), "", b.session)
		require.NoError(t, err)
		assert.Equal(t, b.session, got.ID)
	})
}

func TestListsAreNewestFirst(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st store.Store) {
		b := setup(t, react.Config{Store: st, Tools: []react.Tool{returns("work", 1)}}, reacttest.Call(call("a", "work")), reacttest.Say("one"), reacttest.Say("two"))
		first := b.ask(t, "a")[0].Run
		latest := b.ask(t, "b")[0].Run
		runs, err := b.agent.Runs(t.Context(), store.RunQuery{Session: b.session})
		require.NoError(t, err)
		assert.Equal(t, []uuid.UUID{latest, first}, []uuid.UUID{runs.Items[0].ID, runs.Items[1].ID})
		var lines []string
		q := store.MessageQuery{Session: b.session, Paging: store.Paging{PerPage: 2}}
		var times []time.Time
		for {
			page, err := b.agent.Messages(t.Context(), q)
			require.NoError(t, err)
			assert.Equal(t, 6, page.Count)
			lines = append(lines, talk(page.Items)...)
			for _, m := range page.Items {
				times = append(times, m.Head().CreatedAt)
			}
			if q.Page = page.Next; page.Next == "" {
				break
			}
		}
		assert.Equal(t, []string{`assistant "two"`, `user "b"`, `assistant "one"`, `tool a "1"`, "assistant a:work", `user "a"`}, lines)
		for i := 1; i < len(times); i++ {
			assert.False(t, times[i].After(times[i-1]), "created_at never decreases along the sequence")
		}
		only, err := b.agent.Messages(t.Context(), store.MessageQuery{Session: b.session, Roles: []message.Role{message.RoleTool}})
		require.NoError(t, err)
		assert.Equal(t, []string{`tool a "1"`}, talk(only.Items))
	})
}

// Contract R13.
func TestAPostedMessageStandsWhereItWasPostedOnEveryBranch(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st store.Store) {
		b := setup(t, react.Config{Store: st}, reacttest.Say("one"), reacttest.Say("two"), reacttest.Say("three"))
		_, err := b.agent.CreateSession(t.Context(), "", b.session)
		require.NoError(t, err)
		post := func(m message.Message) message.Message {
			kept, err := b.agent.PostMessage(t.Context(), "", b.session, m)
			require.NoError(t, err)
			return kept
		}
		stray := message.NewSystem("be brief")
		stray.ID = uuid.New()
		stray.RunID, stray.CheckpointID, stray.SessionID = uuid.New(), uuid.New(), uuid.New()
		kept := post(stray)
		assert.Equal(t, stray.ID, kept.Head().ID)
		assert.Equal(t, b.session, kept.Head().SessionID)
		assert.Equal(t, uuid.Nil, kept.Head().RunID)
		assert.Equal(t, uuid.Nil, kept.Head().CheckpointID)
		assert.False(t, kept.Head().CreatedAt.IsZero())

		b.ask(t, "a") // sees it in its very first run
		assert.Equal(t, "be brief", b.script.Requests()[0].System)
		page, err := b.agent.Checkpoints(t.Context(), store.CheckpointQuery{Session: b.session})
		require.NoError(t, err)
		post(&message.User{Content: []message.Block{message.Text{Value: "by the way"}}})
		b.run(t, react.Input{}) // the next run in the same process answers it
		assert.Equal(t, []string{`system "be brief"`, `user "a"`, `assistant "one"`, `user "by the way"`, `assistant "two"`}, talk(b.state(t).Messages))
		in := user("elsewhere")
		in.Checkpoint = page.Items[0].ID
		b.run(t, in)
		assert.Equal(t, []string{`system "be brief"`, `user "a"`, `assistant "one"`, `user "by the way"`, `user "elsewhere"`, `assistant "three"`}, talk(b.state(t).Messages))
	})
}

func TestWhatCanBePosted(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st store.Store) {
		b := setup(t, react.Config{Store: st})
		_, err := b.agent.CreateSession(t.Context(), "", b.session)
		require.NoError(t, err)
		for _, m := range []message.Message{nil, &message.Assistant{Content: "I say"}, message.NewReasoning("hm", "")} {
			_, err := b.agent.PostMessage(t.Context(), "", b.session, m)
			codes(t, err)
		}
		posted := message.NewTool("a", "1")
		posted.ID = uuid.New()
		for range 2 {
			_, err = b.agent.PostMessage(t.Context(), "", b.session, posted)
		}
		require.ErrorIs(t, err, store.ErrExists, "a message id is unique within a session")
		page, err := b.agent.Messages(t.Context(), store.MessageQuery{Session: b.session})
		require.NoError(t, err)
		assert.Len(t, page.Items, 1)
	})
}

func TestADeletedMessageIsGoneFromEveryHistory(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st store.Store) {
		b := setup(t, react.Config{Store: st}, reacttest.Say("one"), reacttest.Say("two"))
		secret := message.NewUser("my password is hunter2")
		secret.ID = uuid.New()
		b.run(t, with(secret))
		require.NoError(t, b.agent.DeleteMessage(t.Context(), "", secret.ID))
		requireNotFound(t, b.agent.DeleteMessage(t.Context(), "", secret.ID), store.MessageResource, "DeleteMessage")
		assert.Equal(t, []string{`assistant "one"`}, talk(b.state(t).Messages))
		b.ask(t, "hi") // the next run in the same process
		assert.Equal(t, []string{`assistant "one"`, `user "hi"`}, talk(b.script.Requests()[1].Messages))
		page, err := b.agent.Checkpoints(t.Context(), store.CheckpointQuery{Session: b.session})
		require.NoError(t, err)
		for _, c := range page.Items {
			_, s, err := b.agent.Checkpoint(t.Context(), "", c.ID)
			require.NoError(t, err)
			assert.NotContains(t, talk(s.Messages), `user "my password is hunter2"`)
		}
	})
}

func TestARunOfASessionThatIsDeletedIsCancelledAndWritesNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := setup(t, react.Config{Model: stalls(message.TextDelta{Text: "It"})})
		run := b.start(t, user("hi"))
		var events []event.Event
		go func() {
			for e, err := range run.Events(t.Context(), 0) {
				assert.NoError(t, err)
				events = append(events, e)
			}
		}()
		synctest.Wait()
		require.NoError(t, b.agent.DeleteSession(t.Context(), "", b.session))
		_, err := run.Wait(t.Context())
		require.ErrorIs(t, err, graph.ErrCancelled)
		synctest.Wait()
		assert.Equal(t, "run_finished cancelled", tell(events)[len(tell(events))-1])
		requireNotFound(t, second(b.agent.Session(t.Context(), "", b.session)), store.SessionResource, "Session")
		requireNotFound(t, second(b.agent.RunRecord(t.Context(), "", run.ID())), store.RunResource, "RunRecord")
		requireNotFound(t, b.agent.DeleteSession(t.Context(), "", b.session), store.SessionResource, "DeleteSession")
	})
}

func TestADeletedSessionBeginsAnew(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st store.Store) {
		b := setup(t, react.Config{Store: st}, reacttest.Say("one"), reacttest.Say("two"))
		in := user("hi")
		in.Context = json.RawMessage(`{"a":1}`)
		b.run(t, in)
		require.NoError(t, b.agent.DeleteSession(t.Context(), "", b.session))
		b.ask(t, "hello")
		assert.Equal(t, []string{`user "hello"`, `assistant "two"`}, talk(b.state(t).Messages))
		assert.Equal(t, "{}", string(b.state(t).Context))
	})
}

// Contract R29, R42, 2.7.
func TestBranchesBesideTheLineOfASession(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		gates := map[string]chan struct{}{"branch": make(chan struct{}), "line": make(chan struct{})}
		b := setup(t, react.Config{Model: react.ModelFunc(func(ctx context.Context, req *message.Request) (message.Reply, error) {
			said := req.Messages[len(req.Messages)-1].(*message.User).Content[0].(message.Text).Value
			if gate := gates[said]; gate != nil {
				<-gate
			}
			return message.Reply{Text: "re " + said}, nil
		})})
		b.ask(t, "a")
		page, err := b.agent.Checkpoints(t.Context(), store.CheckpointQuery{Session: b.session})
		require.NoError(t, err)
		old := page.Items[0].ID
		b.ask(t, "b")

		in := user("branch")
		in.Checkpoint = old
		branch := b.start(t, in)
		session, err := b.agent.Session(t.Context(), "", b.session)
		require.NoError(t, err)
		assert.Equal(t, uuid.Nil, session.Active, "a branch does not make the session busy")
		line := b.start(t, user("line"))
		second := b.start(t, react.Input{Messages: user("beside").Messages, Checkpoint: old}) // also on a busy session
		_, err = second.Wait(t.Context())
		require.NoError(t, err)
		_, err = b.agent.Start(t.Context(), react.Ask(b.session, "refused"))
		require.ErrorIs(t, err, store.ErrBusy)
		close(gates["line"])
		s, err := line.Wait(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []string{`user "a"`, `assistant "re a"`, `user "b"`, `assistant "re b"`, `user "line"`, `assistant "re line"`}, talk(s.Messages))
		assert.Equal(t, talk(s.Messages), talk(b.state(t).Messages), "a branch that still runs is not the head")
		close(gates["branch"])
		s, err = branch.Wait(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []string{`user "a"`, `assistant "re a"`, `user "branch"`, `assistant "re branch"`}, talk(s.Messages))
		b.ask(t, "and on")
		assert.Equal(t, append(talk(s.Messages), `user "and on"`, `assistant "re and on"`), talk(b.state(t).Messages), "the run that ended last")
	})
}

func hasUser(in react.Input) bool {
	return len(in.Messages) > 0 && in.Messages[0].Role() == message.RoleUser
}

// Contract R10, 2.6.
func TestARunFromACheckpointWhoseNodeDoesNotFitStartsAtTheEntry(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st store.Store) {
		steps := []reacttest.Step{reacttest.Call(call("a", "work")), reacttest.Say("done")}
		for range 20 {
			steps = append(steps, reacttest.Say("fork"))
		}
		b := setup(t, react.Config{Store: st, Tools: []react.Tool{returns("work", 1)}}, steps...)
		b.ask(t, "go")
		page, err := b.agent.Checkpoints(t.Context(), store.CheckpointQuery{Session: b.session})
		require.NoError(t, err)
		for _, c := range page.Items {
			for _, in := range []react.Input{{}, user("again"), with(message.NewSystem("mind"))} {
				in.Checkpoint = c.ID
				events := b.run(t, in)
				assert.Equal(t, event.KindStateSnapshot, events[1].Data.Kind(), "from %s/%s", c.Reason, c.Node)
				assert.Equal(t, "completed", last(events).(event.RunFinished).Status)
				record, err := b.agent.Checkpoints(t.Context(), store.CheckpointQuery{Session: b.session, Runs: []uuid.UUID{events[0].Run}, Reasons: []checkpoint.Reason{checkpoint.Input}})
				require.NoError(t, err)
				assert.Equal(t, c.ID, record.Items[0].ParentID)
				want := "entrypoint"
				if c.Node == "call_model" && hasUser(in) {
					want = "call_model" // it is the model's turn
				}
				assert.Equal(t, want, record.Items[0].Node, "from %s/%s", c.Reason, c.Node)
			}
		}
	})
}

func TestAClientFindsTheRunAndTheQuestionsOfASession(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		gate := make(chan struct{})
		b := setup(t, react.Config{Tools: []react.Tool{asker(nil)}}, reacttest.Call(call("a", "ask")), reacttest.Step{
			Before: func(context.Context, *message.Request) error { <-gate; return nil }, Deltas: reacttest.Say("done").Deltas,
		})
		b.ask(t, "go")
		questions, err := b.agent.Questions(t.Context(), "", b.session)
		require.NoError(t, err)
		require.Len(t, questions, 1)
		assert.Equal(t, "a", questions[0].ID)
		run := b.start(t, react.Answer(b.session, "yes"))
		synctest.Wait()
		active, err := b.agent.Active(t.Context(), "", b.session)
		require.NoError(t, err)
		assert.Equal(t, run.ID(), active.ID())
		close(gate)
		s, err := active.Wait(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "done", s.Reply())
		questions, err = b.agent.Questions(t.Context(), "", b.session)
		require.NoError(t, err)
		assert.Empty(t, questions)
	})
}
