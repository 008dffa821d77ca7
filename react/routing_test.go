package react_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/graph/graphtest"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/react/reacttest"
	"github.com/everstep-go/everstep/store"
)

const (
	nothingToDo = "state_snapshot messages_snapshot"
	textAnswer  = "state_snapshot text_message_start text_message_content text_message_end messages_snapshot"
	announced   = "tool_call_start tool_call_args tool_call_end"
)

// input makes the input of a run from what the session holds.
type input func(b *bundle, t *testing.T) react.Input

func always(in react.Input) input { return func(*bundle, *testing.T) react.Input { return in } }

// Contract 9.4, items 35 to 44.
func TestEachConversationTakesTheRouteThatTheContractPrescribes(t *testing.T) {
	t.Parallel()
	withClient := func(text string) input {
		in := user(text)
		in.Tools = clientTool("pick", "choose")
		return always(in)
	}
	result := func(id string) input { return always(with(message.NewTool(id, "picked"))) }
	for name, test := range map[string]struct {
		steps  []reacttest.Step
		before []message.Message // posted outside any run
		inputs []input
		want   []string // the kinds of each run
		roles  string
		asked  int // calls of the model
		called int // calls of the server tool
	}{
		"35 a text reply": {
			steps: []reacttest.Step{reacttest.Say("hello")}, inputs: []input{always(user("hi"))},
			want: []string{textAnswer}, roles: "user assistant", asked: 1,
		},
		"36 a server tool": {
			steps: []reacttest.Step{reacttest.Call(call("a", "work")), reacttest.Say("done")}, inputs: []input{always(user("go"))},
			want:  []string{"state_snapshot " + announced + " tool_call_result text_message_start text_message_content text_message_end messages_snapshot"},
			roles: "user assistant tool assistant", asked: 2, called: 1,
		},
		"37 no input in an answered session": {
			steps: []reacttest.Step{reacttest.Say("hello")}, inputs: []input{always(user("hi")), always(react.Input{})},
			want: []string{textAnswer, nothingToDo}, roles: "user assistant", asked: 1,
		},
		"38 an empty input": {
			inputs: []input{always(react.Input{})}, want: []string{nothingToDo},
		},
		"38 only a system message": {
			inputs: []input{always(with(message.NewSystem("be brief")))}, want: []string{nothingToDo}, roles: "system",
		},
		"38 only a posted system message": {
			before: []message.Message{message.NewSystem("be brief")},
			inputs: []input{always(react.Input{})}, want: []string{nothingToDo}, roles: "system",
		},
		"39 a system message first, then a user message": {
			steps:  []reacttest.Step{reacttest.Say("hello")},
			inputs: []input{always(with(message.NewSystem("be brief"))), always(user("hi"))},
			want:   []string{nothingToDo, textAnswer}, roles: "system user assistant", asked: 1,
		},
		"40 a client tool": {
			steps:  []reacttest.Step{reacttest.Call(call("a", "pick")), reacttest.Say("done")},
			inputs: []input{withClient("go"), result("a")},
			want:   []string{"state_snapshot " + announced + " messages_snapshot", textAnswer},
			roles:  "user assistant tool assistant", asked: 2,
		},
		"41 server and client calls in one reply": {
			steps:  []reacttest.Step{reacttest.Call(call("a", "work"), call("b", "pick")), reacttest.Say("done")},
			inputs: []input{withClient("go"), result("b")},
			want:   []string{"state_snapshot " + announced + " " + announced + " tool_call_result messages_snapshot", textAnswer},
			roles:  "user assistant tool tool assistant", asked: 2, called: 1,
		},
		"42 no input while a client call is open": {
			steps:  []reacttest.Step{reacttest.Call(call("a", "pick"))},
			inputs: []input{withClient("go"), always(react.Input{})},
			want:   []string{"state_snapshot " + announced + " messages_snapshot", "state_snapshot " + announced + " messages_snapshot"},
			roles:  "user assistant", asked: 1,
		},
		"43 two client calls of which one is answered": {
			steps:  []reacttest.Step{reacttest.Call(call("a", "pick"), call("b", "choose"))},
			inputs: []input{withClient("go"), result("a")},
			want:   []string{"state_snapshot " + announced + " " + announced + " messages_snapshot", "state_snapshot " + announced + " messages_snapshot"},
			roles:  "user assistant tool", asked: 1,
		},
		"44 mixed calls run again without answers": {
			steps:  []reacttest.Step{reacttest.Call(call("a", "work"), call("b", "pick"))},
			inputs: []input{withClient("go"), always(react.Input{})},
			want: []string{
				"state_snapshot " + announced + " " + announced + " tool_call_result messages_snapshot",
				"state_snapshot " + announced + " messages_snapshot",
			},
			roles: "user assistant tool", asked: 1, called: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachStore(t, func(t *testing.T, st store.Store) {
				var calls counter
				b := setup(t, react.Config{Store: st, Tools: []react.Tool{tool("work", func(context.Context) (any, error) {
					calls.add("work")
					return "worked", nil
				})}}, test.steps...)
				if test.before != nil {
					_, err := b.agent.CreateSession(t.Context(), "", b.session)
					require.NoError(t, err)
				}
				for _, m := range test.before {
					_, err := b.agent.PostMessage(t.Context(), "", b.session, m)
					require.NoError(t, err)
				}
				for i, in := range test.inputs {
					events := b.run(t, in(b, t))
					assert.Equal(t, test.want[i], kinds(events), "events of run %d", i+1)
					assert.Equal(t, "completed", last(events).(event.RunFinished).Status)
				}
				assert.Equal(t, test.roles, roles(b.state(t).Messages))
				assert.Len(t, b.script.Requests(), test.asked, "calls of the model")
				assert.Equal(t, test.called, calls.of("work"), "calls of the server tool")
			})
		})
	}
}

func TestOnlyTheUnansweredClientCallIsAnnouncedAgain(t *testing.T) {
	t.Parallel()
	b := setup(t, react.Config{}, reacttest.Call(call("a", "pick"), call("b", "pick")), reacttest.Say("done"))
	in := user("go")
	in.Tools = clientTool("pick")
	b.run(t, in)
	events := b.run(t, with(message.NewTool("a", "one")))
	assert.Equal(t, []string{
		"state_snapshot {}", "tool_call_start b pick", "tool_call_args b {}", "tool_call_end b", "messages_snapshot", "run_finished completed",
	}, tell(events))
	b.run(t, with(message.NewTool("b", "two")))
	assert.Equal(t, []string{`user "go"`, "assistant a:pick b:pick", `tool a "one"`, `tool b "two"`, `assistant "done"`}, talk(b.state(t).Messages))
}

// A stored conversation can end in reasoning only when a reply was cut off (contract 9.4, 38).
func TestAConversationThatEndsInReasoningIsNotForTheModel(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := setup(t, react.Config{Model: stalls(message.ReasoningDelta{Text: "hm"})})
		run := b.start(t, user("hi"))
		cancelWhenIdle(t, run)
		require.Equal(t, []string{`user "hi"`, `reasoning "hm" "" {"partial":true}`}, talk(b.state(t).Messages))
		events := b.run(t, react.Input{})
		assert.Equal(t, nothingToDo, kinds(events))
	})
}

func TestAUserMessageComesBeforeCallsWithoutResult(t *testing.T) {
	t.Parallel()
	b := setup(t, react.Config{}, reacttest.Call(call("a", "pick")), reacttest.Say("never mind"))
	in := user("go")
	in.Tools = clientTool("pick")
	b.run(t, in)
	events := b.ask(t, "something else")
	assert.Equal(t, "state_snapshot text_message_start text_message_content text_message_content text_message_end messages_snapshot", kinds(events))
	assert.Equal(t, []string{
		`user "go"`, "assistant a:pick", `tool a "no result: the call was interrupted" error "no result: the call was interrupted"`, `user "something else"`,
	}, talk(b.script.Requests()[1].Messages))
	assert.Equal(t, "user assistant user assistant", roles(b.state(t).Messages), "the made-up result is not stored")
}

func TestACallOfAClientToolThatTheClientTookBackIsUnknown(t *testing.T) {
	t.Parallel()
	b := setup(t, react.Config{}, reacttest.Call(call("a", "pick")), reacttest.Say("then not"))
	in := user("go")
	in.Tools = clientTool("pick")
	b.run(t, in)
	events := b.run(t, react.Input{Tools: react.Set[[]message.ToolSpec](nil)})
	assert.Equal(t, react.CodeNotFound, find[event.ToolCallError](t, events).Code)
	assert.Equal(t, "user assistant tool assistant", roles(b.state(t).Messages))
}

func TestCheckpointsAreThoseOfTheWorkedExamples(t *testing.T) {
	t.Parallel()
	text := []string{"input/entrypoint", "step/entrypoint", "step/call_model", "step/exit", "finish/exit"}
	eachStore(t, func(t *testing.T, st store.Store) {
		b := setup(t, react.Config{Store: st}, reacttest.Say("hello"))
		b.ask(t, "hi")
		assert.Equal(t, text, b.checkpoints(t))

		b = setup(t, react.Config{Store: st, Tools: []react.Tool{returns("work", 1)}}, reacttest.Call(call("a", "work")), reacttest.Say("done"))
		b.ask(t, "go")
		assert.Equal(t, []string{
			"input/entrypoint", "step/entrypoint", "step/call_model", "step/call_tools", "step/call_model", "step/exit", "finish/exit",
		}, b.checkpoints(t))

		b = setup(t, react.Config{Store: st}, reacttest.Call(call("a", "pick")), reacttest.Say("done"))
		in := user("go")
		in.Tools = clientTool("pick")
		b.run(t, in)
		b.run(t, with(message.NewTool("a", "picked")))
		assert.Equal(t, append([]string{
			"input/entrypoint", "step/entrypoint", "step/call_model", "step/call_tools", "step/exit", "finish/exit",
		}, text...), b.checkpoints(t))

		b = setup(t, react.Config{Store: st}, reacttest.Fail(assert.AnError))
		b.ask(t, "hi")
		assert.Equal(t, []string{"input/entrypoint", "step/entrypoint", "finish/call_model"}, b.checkpoints(t))
	})
}

func TestEveryEdgeOfTheGraphIsTaken(t *testing.T) {
	t.Parallel()
	var coverage graphtest.Coverage
	b := setup(t, react.Config{Observer: &coverage, Tools: []react.Tool{returns("work", 1)}},
		reacttest.Call(call("a", "work")), reacttest.Say("done"), reacttest.Call(call("b", "pick")))
	b.run(t, react.Input{Tools: clientTool("pick")})
	b.ask(t, "go")
	b.ask(t, "again")
	b.run(t, react.Input{})
	coverage.RequireAll(t, b.agent.Graph())
}

func TestTheIDsThatARunMakesAreRandomOnes(t *testing.T) {
	t.Parallel()
	b := setup(t, react.Config{Tools: []react.Tool{returns("weather", "9 degrees")}},
		reacttest.Call(reacttest.ToolCall("a", "weather", `{}`), reacttest.ToolCall("b", "nothing", `{}`)), reacttest.Say("cold"))
	b.ask(t, "hi")
	s, err := b.agent.State(t.Context(), "", b.session)
	require.NoError(t, err)
	require.Len(t, s.Messages, 5)
	for _, m := range s.Messages {
		assert.EqualValues(t, 4, m.Head().ID.Version(), "%s message", m.Role())
		assert.EqualValues(t, 4, m.Head().CheckpointID.Version())
	}
}
