package react_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/react/reacttest"
	"github.com/everstep-go/everstep/store"
	"github.com/everstep-go/everstep/store/memory"
)

// codes are the fields that an input error names, with their codes.
func codes(t *testing.T, err error) map[string]string {
	t.Helper()
	wrong := &react.InputError{}
	require.ErrorAs(t, err, &wrong)
	found := map[string]string{}
	for _, f := range wrong.Fields {
		found[f.Field] = f.Code
		assert.NotEmpty(t, f.Message)
		assert.Contains(t, err.Error(), f.Field)
	}
	return found
}

// Contract R22, R8, R16.
func TestAnInputErrorNamesEachFieldThatIsWrong(t *testing.T) {
	t.Parallel()
	id := uuid.New()
	same := func(m message.Message) message.Message { m.Head().ID = id; return m }
	spec := func(name, parameters string) message.ToolSpec {
		return message.ToolSpec{Name: name, Parameters: json.RawMessage(parameters)}
	}
	for name, test := range map[string]struct {
		in   react.Input
		want map[string]string
	}{
		"a nil message":                {with(nil), map[string]string{"messages[0]": "unknown"}},
		"an assistant message":         {with(message.NewUser("hi"), &message.Assistant{Content: "I say"}), map[string]string{"messages[1].role": "unknown"}},
		"a reasoning message":          {with(message.NewReasoning("hm", "")), map[string]string{"messages[0].role": "unknown"}},
		"an id twice":                  {with(same(message.NewUser("a")), same(message.NewSystem("b"))), map[string]string{"messages[1].id": "unique"}},
		"an answer and a user message": {react.Input{Messages: user("hi").Messages, Resume: json.RawMessage(`1`)}, map[string]string{"messages": "conflict"}},
		"a context that is a list":     {react.Input{Context: json.RawMessage(`[1]`)}, map[string]string{"context": "pattern"}},
		"a context that is a text":     {react.Input{Context: json.RawMessage(`"x"`)}, map[string]string{"context": "pattern"}},
		"a context that is no JSON":    {react.Input{Context: json.RawMessage(`{`)}, map[string]string{"context": "pattern"}},
		"a context that is too large":  {react.Input{Context: json.RawMessage(`{"a":"` + strings.Repeat("x", 4<<20) + `"}`)}, map[string]string{"context": "length"}},
		"a provider that nobody knows": {
			react.Input{Model: react.Set(&react.ModelConfig{Override: &react.ModelOverride{Provider: "nobody"}})}, map[string]string{"model.override.provider": "unknown"},
		},
		"numbers out of range": {
			react.Input{Model: react.Set(&react.ModelConfig{Timeout: new(int64(-1)), Retry: &react.RetryPolicy{MaxAttempts: 0, InitialBackoff: -1}})},
			map[string]string{"model.timeout": "range", "model.retry.max_attempts": "range", "model.retry.initial_backoff": "range"},
		},
		"a timeout of nothing": {
			react.Input{Model: react.Set(&react.ModelConfig{Timeout: new(int64(0))})}, map[string]string{"model.timeout": "range"},
		},
		"an override of locked capabilities": {
			react.Input{CapabilityOverride: react.Set(&react.CapabilityOverride{Strategy: react.OverrideExtend, Capabilities: []string{"root"}})},
			map[string]string{"capability_override": "conflict"},
		},
		"tools": {
			react.Input{Tools: react.Set([]message.ToolSpec{spec("ok", `{}`), spec("no good", `{}`), spec("ok", `{"type":"object"}`), spec("", `[]`)})},
			map[string]string{"tools[1].name": "pattern", "tools[2].name": "unique", "tools[3].name": "pattern", "tools[3].parameters": "pattern"},
		},
		"all at once": {
			react.Input{Messages: []message.Message{&message.Assistant{}}, Context: json.RawMessage(`1`), Tools: react.Set([]message.ToolSpec{spec("ok", ``)})},
			map[string]string{"messages[0].role": "unknown", "context": "pattern", "tools[0].parameters": "pattern"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, react.Config{})
			test.in.Session = b.session
			_, err := b.agent.Start(t.Context(), test.in)
			assert.Equal(t, test.want, codes(t, err))
			for _, err := range b.agent.Run(t.Context(), test.in) {
				assert.Equal(t, test.want, codes(t, err))
			}
			_, err = b.agent.Session(t.Context(), "", b.session)
			assert.ErrorIs(t, err, store.ErrNotFound, "nothing was written")
		})
	}
}

func TestOverridesThatAreAllowedAreNoErrors(t *testing.T) {
	t.Parallel()
	b := setup(t, react.Config{}, reacttest.Say("hello"))
	in := user("hi")
	in.CapabilityOverride = react.Set(&react.CapabilityOverride{Strategy: react.OverrideInherit})
	in.Resume = json.RawMessage(` null `) // is no answer
	in.Context = json.RawMessage(`null`)  // counts as omitted
	b.run(t, in)
	assert.Equal(t, "{}", string(b.state(t).Context))
}

// Contract 4.3.
func TestTheContextOfAnInputIsMergedMemberByMember(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st store.Store) {
		b := setup(t, react.Config{Store: st})
		for _, step := range []struct{ give, want string }{
			{`{"a":{"x":1,"y":2},"b":1e2}`, `{"a":{"x":1,"y":2},"b":1e2}`},
			{`{"a":{"z":3}}`, `{"a":{"z":3},"b":1e2}`},
			{`{"b":null,"n":null}`, `{"a":{"z":3},"b":null,"n":null}`},
			{`{"a/b":1,"c~d":2,"":3,"~1":4}`, `{"a":{"z":3},"b":null,"n":null,"a/b":1,"c~d":2,"":3,"~1":4}`},
			{`{}`, `{"a":{"z":3},"b":null,"n":null,"a/b":1,"c~d":2,"":3,"~1":4}`},
			{``, `{"a":{"z":3},"b":null,"n":null,"a/b":1,"c~d":2,"":3,"~1":4}`},
		} {
			events := b.run(t, react.Input{Context: json.RawMessage(step.give)})
			assert.JSONEq(t, step.want, string(find[event.StateSnapshot](t, events).State))
			assert.JSONEq(t, step.want, string(b.state(t).Context), "as stored")
		}
		assert.Contains(t, string(b.state(t).Context), "null")
	})
}

func TestNumbersKeepTheirSpelling(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st store.Store) {
		b := setup(t, react.Config{Store: st})
		b.run(t, react.Input{Context: json.RawMessage(`{"a":1E2,"b":-0,"c":12345678901234567890.10,"d":"<&>"}`)})
		b.run(t, react.Input{Context: json.RawMessage(`{"e":1}`)})
		assert.Equal(t, `{"a":1E2,"b":-0,"c":12345678901234567890.10,"d":"<&>","e":1}`, string(b.state(t).Context))
	})
}

// Contract 9.6, 51.
func TestWhatAnInputLeavesOutStaysAndWhatIsNilIsCleared(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st store.Store) {
		b := setup(t, react.Config{Store: st, CapabilityPolicy: react.PolicyExtensible})
		given := react.Input{
			Model:              react.Set(&react.ModelConfig{Timeout: new(int64(5)), Override: &react.ModelOverride{Model: "m"}}),
			CapabilityOverride: react.Set(&react.CapabilityOverride{Strategy: react.OverrideReplace, Capabilities: []string{"a"}}),
			ContextVars:        react.Set([]react.ContextVar{{Description: "d", Value: "v"}}),
			Tools:              clientTool("pick"),
		}
		b.run(t, given)
		full := b.state(t)
		require.NotNil(t, full.Model)
		b.run(t, react.Input{})
		kept := b.state(t)
		assert.Equal(t, full.Model, kept.Model)
		assert.Equal(t, full.CapabilityOverride, kept.CapabilityOverride)
		assert.Equal(t, full.ContextVars, kept.ContextVars)
		assert.Equal(t, full.Tools, kept.Tools)

		b.run(t, react.Input{Model: react.Set(&react.ModelConfig{Timeout: new(int64(7))})})
		assert.Equal(t, &react.ModelConfig{Timeout: new(int64(7))}, b.state(t).Model, "it is replaced as a whole")

		page, err := b.agent.Checkpoints(t.Context(), store.CheckpointQuery{Session: b.session})
		require.NoError(t, err)
		b.run(t, react.Input{
			Model: react.Set[*react.ModelConfig](nil), CapabilityOverride: react.Set[*react.CapabilityOverride](nil),
			ContextVars: react.Set[[]react.ContextVar](nil), Tools: react.Set([]message.ToolSpec{}),
		})
		cleared := b.state(t)
		assert.Nil(t, cleared.Model)
		assert.Nil(t, cleared.CapabilityOverride)
		assert.Empty(t, cleared.ContextVars)
		assert.Empty(t, cleared.Tools)

		// The values belong to the line: going back in time restores them.
		b.run(t, react.Input{Checkpoint: page.Items[0].ID})
		restored := b.state(t)
		assert.Equal(t, &react.ModelConfig{Timeout: new(int64(7))}, restored.Model)
		assert.Equal(t, full.Tools, restored.Tools)
		assert.Equal(t, full.CapabilityOverride, restored.CapabilityOverride)
	})
}

func TestAMessageThatTheConversationHasIsSkipped(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st store.Store) {
		b := setup(t, react.Config{Store: st}, reacttest.Say("hello"), reacttest.Say("hello again"))
		hi := message.NewUser("hi")
		hi.ID = uuid.New()
		b.run(t, with(hi))
		changed := message.NewUser("changed")
		changed.ID = hi.ID
		events := b.run(t, with(changed))
		assert.Equal(t, nothingToDo, kinds(events))
		b.run(t, with(changed, message.NewUser("new")))
		assert.Equal(t, []string{`user "hi"`, `assistant "hello"`, `user "new"`, `assistant "hello again"`}, talk(b.state(t).Messages))
	})
}

func TestTheSameMessageIDCanStandOnTwoBranches(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st store.Store) {
		b := setup(t, react.Config{Store: st}, reacttest.Say("one"), reacttest.Say("two"), reacttest.Say("three"))
		b.ask(t, "start")
		page, err := b.agent.Checkpoints(t.Context(), store.CheckpointQuery{Session: b.session})
		require.NoError(t, err)
		id := uuid.New()
		for _, text := range []string{"left", "right"} {
			m := message.NewUser(text)
			m.ID = id
			in := with(m)
			in.Checkpoint = page.Items[0].ID
			b.run(t, in)
			assert.Contains(t, talk(b.state(t).Messages), `user "`+text+`"`)
		}
	})
}

func TestAToolMessageFindsTheReplyThatMadeItsCall(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st store.Store) {
		b := setup(t, react.Config{Store: st}, reacttest.Call(call("a", "pick"), call("b", "pick"), call("c", "pick")), reacttest.Say("done"))
		in := user("go")
		in.Tools = clientTool("pick")
		b.run(t, in)
		caller := b.state(t).Messages[1].Head().ID
		other := uuid.New()
		given := message.NewTool("b", "2")
		given.ParentMessageID = other
		b.run(t, with(message.NewTool("a", "1"), given, message.NewTool("z", "0"), &message.Tool{ToolCallID: "c"}))
		parents := map[string]uuid.UUID{}
		for _, m := range b.state(t).Messages {
			if m, ok := m.(*message.Tool); ok {
				parents[m.ToolCallID] = m.ParentMessageID
				assert.NotEqual(t, uuid.Nil, m.ID)
			}
		}
		assert.Equal(t, map[string]uuid.UUID{"a": caller, "b": other, "c": caller, "z": uuid.Nil}, parents)
	})
}

// Contract 9.7, 66 and 67.
func TestAnInputKeepsWhatTheUserSaid(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st store.Store) {
		b := setup(t, react.Config{Store: st}, reacttest.Say("nice"), reacttest.Say("again"))
		source := message.Source{Type: message.SourceURL, Value: "https://example.com/x"}
		said := message.NewUserBlocks(
			message.Text{Value: "look"}, message.Media{Kind: message.Image, Source: source, MediaType: "image/png"},
			message.Media{Kind: message.Audio, Source: message.Source{Type: message.SourceBase64, Value: "QUJD"}, MediaType: "audio/wav"},
			message.Media{Kind: message.Video, Source: source, MediaType: "video/mp4"},
			message.Media{Kind: message.Document, Source: source, MediaType: "application/pdf"}, message.Text{Value: "at these"},
		)
		said.Metadata = json.RawMessage(`{"from":"me"}`)
		want := said.Content
		in := with(said)
		in.Model = react.Set(&react.ModelConfig{
			Override: &react.ModelOverride{Model: "m", InferenceParams: &message.Params{MaxTokens: ptr[uint64](1)}}, Timeout: new(int64(1)),
			Retry: &react.RetryPolicy{MaxAttempts: 1, InitialBackoff: 2, MaxBackoff: 3},
		})
		b.run(t, in)
		s := b.state(t)
		assert.Equal(t, want, s.Messages[0].(*message.User).Content)
		assert.JSONEq(t, `{"from":"me"}`, string(s.Messages[0].Head().Metadata))
		assert.Equal(t, want, b.script.Requests()[0].Messages[0].(*message.User).Content)
		config, _ := in.Model.Get()
		assert.Equal(t, config, s.Model)
	})
}

func TestAnInputIsNotChangedByTheRun(t *testing.T) {
	t.Parallel()
	b := setup(t, react.Config{}, reacttest.Say("hello"))
	m := &message.User{Content: []message.Block{message.Text{Value: "hi"}}}
	b.run(t, with(m))
	assert.Equal(t, message.Header{}, m.Header)
	assert.NotEqual(t, uuid.Nil, b.state(t).Messages[0].Head().ID)
}

func TestAnInputThatWaitsForItsTurnIsAllThereWhenItComes(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st store.Store) {
		gate := make(chan struct{})
		b := setup(t, react.Config{Store: st, CapabilityPolicy: react.PolicyExtensible}, reacttest.Step{
			Before: func(context.Context, *message.Request) error { <-gate; return nil }, Deltas: reacttest.Say("one").Deltas,
		}, reacttest.Say("two"))
		first := user("first")
		first.Tools, first.ContextVars = clientTool("pick"), react.Set([]react.ContextVar{{Description: "d"}})
		active := b.start(t, first)
		in := react.Input{
			OnBusy: graph.Wait, Messages: []message.Message{&message.User{Content: []message.Block{message.Text{Value: "second"}}}, message.NewSystem("mind")},
			Context: json.RawMessage(`{"a/b":null}`), Tools: react.Set[[]message.ToolSpec](nil),
			CapabilityOverride: react.Set(&react.CapabilityOverride{Strategy: react.OverrideReplace}),
			Model:              react.Set(&react.ModelConfig{Timeout: new(int64(50_000))}),
		}
		in.Messages[0].Head().Metadata = json.RawMessage(`{"from":"me"}`)
		waiting := b.start(t, in)
		close(gate)
		_, err := active.Wait(t.Context())
		require.NoError(t, err)
		_, err = waiting.Wait(t.Context())
		require.NoError(t, err)
		s := b.state(t)
		assert.Equal(t, []string{`user "first"`, `assistant "one"`, `user "second" {"from":"me"}`, `system "mind"`, `assistant "two"`}, talk(s.Messages))
		assert.NotEqual(t, uuid.Nil, s.Messages[2].Head().ID)
		assert.Equal(t, waiting.ID(), s.Messages[2].Head().RunID)
		assert.Equal(t, `{"a/b":null}`, string(s.Context))
		assert.Empty(t, s.Tools)
		assert.Equal(t, []react.ContextVar{{Description: "d"}}, s.ContextVars)
		assert.Equal(t, react.OverrideReplace, s.CapabilityOverride.Strategy)
		assert.EqualValues(t, 50_000, *s.Model.Timeout)
	})
}

func TestARunIDCanBeUsedOnce(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st store.Store) {
		b := setup(t, react.Config{Store: st}, reacttest.Say("hello"))
		in := user("hi")
		in.Run = uuid.New()
		b.run(t, in)
		for _, in := range []react.Input{in, {Run: in.Run, Session: uuid.New()}, {Run: in.Run, Checkpoint: uuid.New()}, {Run: in.Run, Resume: json.RawMessage(`1`)}} {
			_, err := b.agent.Start(t.Context(), in)
			require.ErrorIs(t, err, store.ErrExists)
		}
	})
}

func TestEachRunOfAnAgentWithoutAStoreIsOnItsOwn(t *testing.T) {
	t.Parallel()
	script := reacttest.NewScript(reacttest.Call(call("a", "work")), reacttest.Say("done"), reacttest.Say("hello"))
	b := &bundle{agent: newAgent(t, react.Config{Model: script, Tools: []react.Tool{tool("work", puts("/a", "1"))}}), script: script, session: uuid.New()}
	events := b.ask(t, "go")
	assert.Equal(t, `{"a":1}`, replay(t, events))
	b.ask(t, "hi")
	assert.Equal(t, []string{`user "hi"`}, talk(script.Requests()[2].Messages))
	in := user("hi")
	in.Checkpoint = uuid.New()
	_, err := b.agent.Start(t.Context(), in)
	missing := &store.NotFoundError{}
	require.ErrorAs(t, err, &missing)
	assert.Equal(t, store.CheckpointResource, missing.Resource)
	for name, err := range map[string]error{
		"CreateSession": second(b.agent.CreateSession(t.Context(), "", uuid.Nil)),
		"Session":       second(b.agent.Session(t.Context(), "", b.session)),
		"Sessions":      second(b.agent.Sessions(t.Context(), store.SessionQuery{})),
		"DeleteSession": b.agent.DeleteSession(t.Context(), "", b.session),
		"PostMessage":   second(b.agent.PostMessage(t.Context(), "", b.session, message.NewUser("hi"))),
		"Message":       second(b.agent.Message(t.Context(), "", uuid.New())),
		"Messages":      second(b.agent.Messages(t.Context(), store.MessageQuery{})),
		"DeleteMessage": b.agent.DeleteMessage(t.Context(), "", uuid.New()),
		"RunRecord":     second(b.agent.RunRecord(t.Context(), "", uuid.New())),
		"Runs":          second(b.agent.Runs(t.Context(), store.RunQuery{})),
		"Checkpoints":   second(b.agent.Checkpoints(t.Context(), store.CheckpointQuery{})),
		"Attach":        second(b.agent.Attach(t.Context(), "", uuid.New())),
		"Cancel":        b.agent.Cancel(t.Context(), "", uuid.New()),
		"Serve":         b.agent.Serve(t.Context()),
	} {
		assert.Error(t, err, name)
	}
	_, _, err = b.agent.Checkpoint(t.Context(), "", uuid.New())
	assert.Error(t, err)
}

func second[T any](_ T, err error) error { return err }

func TestTwoAgentsOnOneStoreSeeEachOthersSessions(t *testing.T) {
	t.Parallel()
	st := memory.New(nil)
	one := setup(t, react.Config{Store: st}, reacttest.Say("from one"), reacttest.Say("one again"))
	two := setup(t, react.Config{Store: st}, reacttest.Say("from two"))
	two.session = one.session
	one.ask(t, "a")
	two.ask(t, "b")
	one.ask(t, "c") // what it has in memory is behind
	assert.Equal(t, []string{
		`user "a"`, `assistant "from one"`, `user "b"`, `assistant "from two"`, `user "c"`, `assistant "one again"`,
	}, talk(one.state(t).Messages))
}
