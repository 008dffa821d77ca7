package react_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/react/reacttest"
	"github.com/everstep-go/everstep/store"
	"github.com/everstep-go/everstep/store/memory"
)

func TestNewSaysAllThatIsWrongAtOnce(t *testing.T) {
	t.Parallel()
	_, err := react.New(react.Config{
		Provider: "home", Providers: map[string]react.Model{"home": reacttest.NewScript()},
		CapabilityPolicy: "open", ToolConcurrency: -1, Retry: &react.RetryPolicy{}, Prompt: react.TextPrompt("{{"),
		Tools: []react.Tool{
			nil, returns("no good", 1), returns("twice", 1), returns("twice", 2),
			tool("late", nil, &react.ToolOptions{Timeout: -1}),
			tool("once", nil, &react.ToolOptions{Reconcile: func(context.Context, string) (react.ToolResult, error) { return react.ToolResult{}, nil }}),
			react.NewTool("text", "", func(context.Context, string) (string, error) { return "", nil }),
			react.NewTool("chan", "", func(context.Context, nothing) (chan int, error) { return nil, nil }),
		},
	})
	require.Error(t, err)
	for _, text := range []string{
		"Config.Name is empty", "Config.Model is nil", `Config.Providers has "home"`, `policy "open"`, "limits must not be negative",
		"Config.Retry", "prompt", "Config.Tools holds a nil", `tool "no good"`, `two tools are named "twice"`, `tool "late": timeout`,
		`tool "once": option Reconcile`, `tool "text"`, `tool "chan"`,
	} {
		assert.ErrorContains(t, err, text)
	}
}

func TestNewRefusesWhatTheRunnerCannotDo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]react.Config{
		"an unknown OnBusy": {OnBusy: graph.OnBusy("sulk")},
		"negative steps":    {MaxSteps: -1},
		"a slow heartbeat":  {Lease: time.Second, Heartbeat: time.Minute},
		"a negative wait":   {WaitLimit: -1},
	} {
		c.Name, c.Model = "tester", reacttest.NewScript()
		_, err := react.New(c)
		assert.Error(t, err, name)
	}
}

func TestAnAgentHasTheRecordsOfItsStore(t *testing.T) {
	t.Parallel()
	st := memory.New(nil)
	for name, tt := range map[string]struct {
		store store.Store
		want  store.Records
	}{
		"a store with records":   {st, st},
		"a store without":        {struct{ store.Store }{st}, nil},
		"an agent without store": {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			agent := newAgent(t, react.Config{Model: react.ModelFunc(nil), Store: tt.store})
			require.Equal(t, tt.want, agent.Records())
		})
	}
}

func TestAnAgentKnowsWhatItIsCalled(t *testing.T) {
	t.Parallel()
	agent := newAgent(t, react.Config{Name: "forecaster", Description: "Knows the weather.", Model: reacttest.NewScript()})
	assert.Equal(t, "forecaster", agent.Name())
	assert.Equal(t, "Knows the weather.", agent.Description())
	assert.Equal(t, []string{"entrypoint", "call_model", "call_tools", "exit"}, agent.Graph().Nodes())
}

func TestCapabilitiesCountWhenToolsAreOfferedAndWhenTheyAreCalled(t *testing.T) {
	t.Parallel()
	override := func(strategy string, list ...string) react.Optional[*react.CapabilityOverride] {
		return react.Set(&react.CapabilityOverride{Strategy: strategy, Capabilities: list})
	}
	for name, test := range map[string]struct {
		base     []string
		override react.Optional[*react.CapabilityOverride]
		offered  []string
		denied   bool
	}{
		"none":                       {offered: []string{"pick", "free"}, denied: true},
		"base":                       {base: []string{"math"}, offered: []string{"pick", "free", "add"}},
		"extended":                   {override: override("extend", "math::add"), offered: []string{"pick", "free", "add"}},
		"replaced":                   {base: []string{"math"}, override: override("replace", "other"), offered: []string{"pick", "free"}, denied: true},
		"replaced by none":           {base: []string{"math"}, override: override("replace"), offered: []string{"pick", "free"}, denied: true},
		"inherited":                  {base: []string{"math"}, override: override("inherit"), offered: []string{"pick", "free", "add"}},
		"a name that only begins so": {base: []string{"mat", "math::ad"}, offered: []string{"pick", "free"}, denied: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, react.Config{Capabilities: test.base, CapabilityPolicy: react.PolicyExtensible, Tools: []react.Tool{
				returns("free", 1), tool("add", func(context.Context) (any, error) { return 2, nil }, &react.ToolOptions{Capabilities: []string{"math::add"}}),
			}}, reacttest.Call(call("a", "add")), reacttest.Say("done"))
			in := user("go")
			in.CapabilityOverride, in.Tools = test.override, clientTool("pick", "free")
			story := tell(b.run(t, in))
			var offered []string
			for _, s := range b.script.Requests()[0].Tools {
				offered = append(offered, s.Name)
			}
			assert.Equal(t, test.offered, offered, "the client's first, then the agent's in the order of the config")
			if test.denied {
				assert.Contains(t, story, "tool_call_error a denied")
			} else {
				assert.Contains(t, story, "tool_call_result a 2")
			}
		})
	}
}

func TestTheAgentsToolWinsOverAClientToolOfItsName(t *testing.T) {
	t.Parallel()
	b := setup(t, react.Config{Tools: []react.Tool{returns("work", "the agent's")}}, reacttest.Call(call("a", "work")), reacttest.Say("done"))
	in := user("go")
	in.Tools = clientTool("work")
	assert.Contains(t, tell(b.run(t, in)), `tool_call_result a "the agent's"`)
	offered := b.script.Requests()[0].Tools
	require.Len(t, offered, 1)
	assert.Equal(t, "Does work.", offered[0].Description)
}

func TestARequestOverTheBudgetIsShortenedAndStaysWellFormed(t *testing.T) {
	t.Parallel()
	b := setup(t, react.Config{
		Compaction: react.TailWindow{}, Budget: react.Budget{ContextWindow: 12}, Tools: []react.Tool{returns("work", "0123456789")},
		Tokens: react.CounterFunc(func(m message.Message) int {
			if m.Role() == message.RoleSystem {
				return 0
			}
			return 3
		}),
	}, reacttest.Say("one"), reacttest.Say("two"), reacttest.Call(call("a", "work")), reacttest.Say("done"))
	b.ask(t, "a")
	b.ask(t, "b")
	b.ask(t, "c")
	requests := b.script.Requests()
	assert.Equal(t, []string{`user "b"`, `assistant "two"`, `user "c"`}, talk(requests[2].Messages))
	assert.Equal(t, []string{`user "c"`, "assistant a:work", `tool a "0123456789"`}, talk(requests[3].Messages))
	for _, r := range requests {
		require.NoError(t, r.Validate())
	}
	assert.Len(t, b.state(t).Messages, 8, "what is stored does not change")
}

func TestACompactionThatFailsFailsTheRun(t *testing.T) {
	t.Parallel()
	b := setup(t, react.Config{Compaction: brokenCompaction{}, Budget: react.Budget{ContextWindow: 1}})
	assert.Equal(t, []string{"state_snapshot {}", "run_error model_error"}, tell(b.ask(t, "a long question")))
}

func TestWhatACompactionLeavesIsMadeWellFormed(t *testing.T) {
	t.Parallel()
	b := setup(t, react.Config{Compaction: tailOf(2), Budget: react.Budget{ContextWindow: 1}, Tools: []react.Tool{returns("work", 1)}},
		reacttest.Call(call("a", "work"), call("b", "work")), reacttest.Say("done"))
	in := user("a question that is long enough")
	b.run(t, in)
	b.ask(t, "and another one")
	for _, r := range b.script.Requests() {
		for _, m := range r.Messages {
			assert.NotEqual(t, message.RoleTool, m.Role(), "a result without its call is left out")
		}
	}
}

// tailOf keeps the last messages, whatever they are.
type tailOf int

func (n tailOf) Compact(_ context.Context, messages []message.Message, _ int, _ react.TokenCounter) ([]message.Message, error) {
	return messages[max(0, len(messages)-int(n)):], nil
}

type brokenCompaction struct{}

func (brokenCompaction) Compact(context.Context, []message.Message, int, react.TokenCounter) ([]message.Message, error) {
	return nil, assert.AnError
}

func TestARetryPolicyNeedsAllOfItsMembers(t *testing.T) {
	t.Parallel()
	var p react.RetryPolicy
	require.NoError(t, json.Unmarshal([]byte(`{"max_attempts":1,"initial_backoff":2,"max_backoff":3}`), &p))
	assert.Equal(t, react.RetryPolicy{MaxAttempts: 1, InitialBackoff: 2, MaxBackoff: 3}, p)
	for _, text := range []string{`{"max_attempts":1}`, `{}`, `{"max_attempts":1,"initial_backoff":2}`, `[]`, `{"max_attempts":"1","initial_backoff":2,"max_backoff":3}`} {
		assert.Error(t, json.Unmarshal([]byte(text), &p), text)
	}
}
