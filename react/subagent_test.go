package react_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"

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
	"github.com/everstep-go/everstep/store/memory"
)

// errand is a call of the agent "helper".
func errand(task string) reacttest.Step {
	return reacttest.Call(reacttest.ToolCall("c1", "helper", map[string]string{"task": task}))
}

func lastResult(t testing.TB, s react.State) *message.Tool {
	t.Helper()
	for i := len(s.Messages) - 1; i >= 0; i-- {
		if m, ok := s.Messages[i].(*message.Tool); ok {
			return m
		}
	}
	t.Fatal("no result")
	return nil
}

// runsOf returns the runs of the only other session.
func runsOf(t testing.TB, st store.Store, except uuid.UUID) []store.Run {
	t.Helper()
	sessions, err := st.Sessions(t.Context(), &store.SessionQuery{Tenant: graph.DefaultTenant})
	require.NoError(t, err)
	for _, s := range sessions.Items {
		if s.ID != except {
			runs, err := st.Runs(t.Context(), &store.RunQuery{Tenant: graph.DefaultTenant, Session: s.ID})
			require.NoError(t, err)
			return runs.Items
		}
	}
	return nil
}

func TestAnAgentIsAToolOfAnother(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		helper react.Config
		steps  []reacttest.Step
		want   string
		failed string
	}{
		"that answers in text":   {react.Config{}, []reacttest.Step{reacttest.Say("nine degrees")}, "nine degrees", ""},
		"that answers in JSON":   {react.Config{Output: react.OutputOf[trip]()}, []reacttest.Step{reacttest.Say(`{"city":"Oslo","days":3}`)}, `{"city":"Oslo","days":3}`, ""},
		"that fails":             {react.Config{}, []reacttest.Step{reacttest.Fail(errors.New("a secret"))}, "", "agent helper failed (model_error): the model call failed"},
		"that has tools as well": {react.Config{Tools: []react.Tool{react.NewTool("look", "", func(context.Context, struct{}) (string, error) { return "seen", nil })}}, []reacttest.Step{reacttest.Call(reacttest.ToolCall("x", "look", `{}`)), reacttest.Say("done")}, "done", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := memory.New(nil)
			c.helper.Name, c.helper.Store = "helper", st
			helper := setup(t, c.helper, c.steps...)
			b := setup(t, react.Config{Store: st, Tools: []react.Tool{react.AsTool(helper.agent)}}, errand("look outside"), reacttest.Say("so it is"))
			for _, e := range b.ask(t, "How is it?") {
				if d, ok := e.Data.(event.ToolCallResult); ok {
					assert.Equal(t, c.helper.Output != nil, d.Content[0] == '{', "%s", d.Content)
				}
			}
			result := lastResult(t, b.state(t))
			if c.failed != "" {
				assert.Equal(t, c.failed, result.Error)
			} else {
				assert.Equal(t, c.want, *result.Content)
			}
			first := helper.script.Requests()[0].Messages[0].(*message.User)
			assert.Equal(t, "look outside", first.Text())
			var link map[string]uuid.UUID
			require.NoError(t, json.Unmarshal(first.Metadata, &link))
			assert.Equal(t, b.session, link["parent_session_id"])
			assert.NotZero(t, link["parent_run_id"])
			assert.Len(t, runsOf(t, st, b.session), 1)
		})
	}
}

func TestWhatAnAgentAsksTheCallingRunAsks(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st store.Store) {
		ask := react.NewTool("ask", "Asks.", func(ctx context.Context, in struct {
			What string `json:"what"`
		}) (string, error) {
			return graph.Interrupt[string](ctx, "", in)
		})
		question := func(ids ...string) reacttest.Step {
			var calls []message.ToolCall
			for _, id := range ids {
				calls = append(calls, reacttest.ToolCall(id, "ask", map[string]string{"what": id}))
			}
			return reacttest.Call(calls...)
		}
		helper := setup(t, react.Config{Name: "helper", Store: st, Tools: []react.Tool{ask}}, question("a", "b"), question("c"), reacttest.Say("thanks"))
		b := setup(t, react.Config{Store: st, Tools: []react.Tool{react.AsTool(helper.agent)}}, errand("ask them"), reacttest.Say("fine"))
		open := func() (ids []string) {
			questions, err := b.agent.Questions(t.Context(), "", b.session)
			require.NoError(t, err)
			for _, q := range questions {
				assert.Equal(t, "helper", q.Name)
				ids = append(ids, q.ID)
			}
			return ids
		}
		b.ask(t, "Go")
		assert.Equal(t, []string{"c1:a", "c1:b"}, open())
		b.run(t, react.Answer(b.session, map[string]string{"c1:a": "yes"}))
		assert.Equal(t, []string{"c1:b"}, open(), "the rest is asked again")
		b.run(t, react.Answer(b.session, map[string]string{"c1:b": "no"}))
		assert.Equal(t, []string{"c1:c"}, open(), "and then what came of it")
		b.run(t, react.Answer(b.session, "perhaps"))
		assert.Empty(t, open())
		assert.Equal(t, "thanks", *lastResult(t, b.state(t)).Content)
		assert.Equal(t, "fine", b.state(t).Reply())
		assert.Len(t, helper.script.Requests(), 3, "the helper was asked once for each of its steps")
		assert.Len(t, runsOf(t, st, b.session), 4)
	})
}

// held is a model that answers when it is let.
func held(gate <-chan struct{}) react.ModelFunc {
	return func(ctx context.Context, _ *message.Request) (message.Reply, error) {
		select {
		case <-gate:
			return message.Reply{Text: "at last", FinishReason: message.FinishStop}, nil
		case <-ctx.Done():
			return message.Reply{}, context.Cause(ctx)
		}
	}
}

func TestAnAgentIsCancelledWithTheRunThatCalledIt(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		st := memory.New(nil)
		helper := setup(t, react.Config{Name: "helper", Store: st, Model: held(nil)})
		b := setup(t, react.Config{Store: st, Tools: []react.Tool{react.AsTool(helper.agent)}}, errand("wait"))
		run := b.start(t, react.Ask(b.session, "Go"))
		synctest.Wait()
		require.Equal(t, checkpoint.Running, runsOf(t, st, b.session)[0].Status)
		require.NoError(t, run.Cancel(t.Context()))
		_, err := run.Wait(t.Context())
		require.ErrorIs(t, err, graph.ErrCancelled)
		synctest.Wait()
		assert.Equal(t, checkpoint.Cancelled, runsOf(t, st, b.session)[0].Status)
	})
}

func TestACallThatIsTakenOverGoesOnWithTheRunItHadBegun(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		st, gate := memory.New(nil), make(chan struct{})
		asked := 0
		helper := setup(t, react.Config{Name: "helper", Store: st, Model: react.ModelFunc(func(ctx context.Context, req *message.Request) (message.Reply, error) {
			asked++
			return held(gate)(ctx, req)
		})})
		config := react.Config{Store: st, Tools: []react.Tool{react.AsTool(helper.agent)}}
		b := setup(t, config, errand("wait"))
		run := b.start(t, react.Ask(b.session, "Go"))
		synctest.Wait()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.Error(t, b.agent.Shutdown(ended), "the process of the calling run is stopped")
		require.Equal(t, checkpoint.Running, runsOf(t, st, b.session)[0].Status, "the agent's run goes on")

		next := setup(t, config, reacttest.Say("fine"))
		go next.agent.Serve(t.Context())
		synctest.Wait()
		close(gate)
		handle, err := next.agent.Attach(t.Context(), "", run.ID())
		require.NoError(t, err)
		s, err := handle.Wait(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "at last", *lastResult(t, s).Content)
		assert.Equal(t, "fine", s.Reply())
		assert.Equal(t, 1, asked, "it was not asked twice")
		assert.Len(t, runsOf(t, st, b.session), 1)
	})
}
