package react

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/internal/wire"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/state"
)

func newCodec(t *testing.T) codec {
	t.Helper()
	agent, err := New(Config{Name: "codec", Model: ModelFunc(func(context.Context, *message.Request) (message.Reply, error) { return message.Reply{}, nil })})
	require.NoError(t, err)
	return codec{agent}
}

func fullUpdate() Update {
	limit := uint64(5)
	return Update{
		Context:            state.Patch{state.Add("/a", json.RawMessage(`{"b":[1]}`))},
		Model:              Set(&ModelConfig{Override: &ModelOverride{Provider: "p", InferenceParams: &message.Params{MaxTokens: &limit}}, Retry: &RetryPolicy{1, 2, 3}}),
		CapabilityOverride: Set(&CapabilityOverride{Strategy: OverrideExtend, Capabilities: []string{"a"}}),
		ContextVars:        Set([]ContextVar{{"d", "v"}}),
		Tools:              Set([]message.ToolSpec{{Name: "pick", Parameters: json.RawMessage(`{"type":"object"}`)}}),
	}
}

// changed decodes what Encode stores of the step from before to after.
func changed(t *testing.T, c codec, stored json.RawMessage, before, after State) (json.RawMessage, checkpoint.Change) {
	t.Helper()
	change, err := c.Encode(nil, before, after)
	require.NoError(t, err)
	if change.Document == nil {
		return stored, change
	}
	whole, err := change.Document()
	require.NoError(t, err)
	if stored != nil && change.Patch != nil {
		text, err := wire.Marshal(change.Patch)
		require.NoError(t, err)
		patch, err := state.ParsePatch(text)
		require.NoError(t, err)
		patched, err := patch.Apply(stored, nil)
		require.NoError(t, err)
		fromPatch, err := c.Decode(1, patched, after.Messages)
		require.NoError(t, err)
		fromWhole, err := c.Decode(1, whole, after.Messages)
		require.NoError(t, err)
		assert.Equal(t, textOf(t, fromWhole), textOf(t, fromPatch), "the patch and the whole document are the same state")
		return patched, change
	}
	return whole, change
}

// Contract 9.6, 54.
func TestClearedValuesBecomeAddsAndComeBackAsCleared(t *testing.T) {
	t.Parallel()
	c := newCodec(t)
	fresh := State{Context: emptyObject}
	given, err := fresh.Apply(fullUpdate())
	require.NoError(t, err)
	stored, _ := changed(t, c, nil, State{}, given)

	cleared, err := given.Apply(Update{
		Model: Set[*ModelConfig](nil), CapabilityOverride: Set[*CapabilityOverride](nil), ContextVars: Set[[]ContextVar](nil), Tools: Set([]message.ToolSpec{}),
	})
	require.NoError(t, err)
	after, change := changed(t, c, stored, given, cleared)
	var paths []string
	for _, op := range change.Patch {
		assert.Equal(t, "add", op.Op)
		paths = append(paths, op.Path)
	}
	assert.Equal(t, []string{"/model", "/capability_override", "/context_vars", "/tools"}, paths)
	back, err := c.Decode(1, after, nil)
	require.NoError(t, err)
	assert.Nil(t, back.Model)
	assert.Nil(t, back.CapabilityOverride)
	assert.Empty(t, back.ContextVars)
	assert.Empty(t, back.Tools)
	assert.JSONEq(t, `{"a":{"b":[1]}}`, string(back.Context))

	again, err := cleared.Apply(fullUpdate())
	require.NoError(t, err)
	after, _ = changed(t, c, after, cleared, again)
	back, err = c.Decode(1, after, nil)
	require.NoError(t, err)
	assert.Equal(t, again.Model, back.Model)
	assert.Equal(t, again.CapabilityOverride, back.CapabilityOverride)
	assert.Equal(t, again.ContextVars, back.ContextVars)
	assert.Equal(t, again.Tools, back.Tools)
}

func TestAStepThatOnlyAppendsMessagesStoresNoDocument(t *testing.T) {
	t.Parallel()
	c := newCodec(t)
	before, err := State{Context: emptyObject}.Apply(fullUpdate())
	require.NoError(t, err)
	change, err := c.Encode(nil, before, before.append(message.NewUser("hi")))
	require.NoError(t, err)
	assert.Nil(t, change.Document)
	assert.Nil(t, change.Patch)
	assert.Len(t, change.Messages, 1)
}

func TestAContextChangeIsStoredAsItsOperations(t *testing.T) {
	t.Parallel()
	c := newCodec(t)
	before, err := State{Context: json.RawMessage(`{"list":[1]}`)}.Apply(fullUpdate())
	require.NoError(t, err)
	stored, _ := changed(t, c, nil, State{}, before)
	after, err := before.Apply(Update{Context: state.Patch{state.Add("/list/-", json.RawMessage("2")), state.Move("/a", "/c"), state.Copy("/list/0", "/list/0")}})
	require.NoError(t, err)
	stored, change := changed(t, c, stored, before, after)
	require.Len(t, change.Patch, 3)
	assert.Equal(t, "/context/list/-", change.Patch[0].Path)
	assert.Equal(t, "/context/a", change.Patch[1].From)
	back, err := c.Decode(1, stored, nil)
	require.NoError(t, err)
	assert.JSONEq(t, `{"list":[1,1,2],"c":{"b":[1]}}`, string(back.Context))
}

func TestStatesThatShareALogDoNotWriteIntoEachOther(t *testing.T) {
	t.Parallel()
	c := newCodec(t)
	base, err := State{Context: emptyObject}.Apply(fullUpdate())
	require.NoError(t, err)
	put := func(key string) State {
		s, err := base.Apply(Update{Context: state.Patch{state.Add("/"+key, json.RawMessage("1"))}, Messages: message.List{message.NewUser(key)}})
		require.NoError(t, err)
		return s
	}
	left, right := put("left"), put("right")
	for key, s := range map[string]State{"left": left, "right": right} {
		change, err := c.Encode(nil, base, s)
		require.NoError(t, err)
		require.Len(t, change.Patch, 1)
		assert.Equal(t, "/context/"+key, change.Patch[0].Path)
		require.Len(t, change.Messages, 1)
		assert.Equal(t, key, change.Messages[0].(*message.User).Content[0].(message.Text).Value)
	}
}

func TestAnInputThatWaitsIsDecodedAsItWasEncoded(t *testing.T) {
	t.Parallel()
	c := newCodec(t)
	for name, u := range map[string]Update{
		"full":    fullUpdate(),
		"empty":   {},
		"cleared": {Model: Set[*ModelConfig](nil), CapabilityOverride: Set[*CapabilityOverride](nil), ContextVars: Set[[]ContextVar](nil), Tools: Set[[]message.ToolSpec](nil)},
	} {
		change, err := c.Encode(nil, State{}, State{input: &u})
		require.NoError(t, err, name)
		text, err := change.Document()
		require.NoError(t, err, name)
		in, err := c.Decode(1, text, nil)
		require.NoError(t, err, name)
		require.NotNil(t, in.input, name)
		before, err := State{Context: json.RawMessage(`{"z":1}`)}.Apply(fullUpdate())
		require.NoError(t, err)
		want, err := before.Apply(u)
		require.NoError(t, err)
		got, err := c.Merge(nil, before, in)
		require.NoError(t, err)
		assert.Equal(t, textOf(t, want), textOf(t, got), name)
	}
}

// textOf is all that is stored of a state besides its messages.
func textOf(t *testing.T, s State) string {
	t.Helper()
	text, err := wire.Marshal(document{s.Model, s.CapabilityOverride, s.ContextVars, s.Tools, s.Context, nil})
	require.NoError(t, err)
	return string(text)
}

func TestAStateOfANewerProgramIsRefused(t *testing.T) {
	t.Parallel()
	_, err := newCodec(t).Decode(2, nil, nil)
	require.ErrorContains(t, err, "version 2")
}

func TestAStateThatWasNeverStoredHasAnEmptyContext(t *testing.T) {
	t.Parallel()
	s, err := newCodec(t).Decode(1, nil, nil)
	require.NoError(t, err)
	assert.Equal(t, "{}", string(s.Context))
}

// Stored bytes of version 1: they must load for ever.
func TestADocumentOfVersion1Loads(t *testing.T) {
	t.Parallel()
	text := `{"model":{"override":{"provider":"p","model":"m","inference_params":{"max_tokens":5}},"timeout":7,"retry":{"max_attempts":1,"initial_backoff":2,"max_backoff":3}},` +
		`"capability_override":{"strategy":"replace","capabilities":["a"]},"context_vars":[{"description":"d","value":"v"}],` +
		`"tools":[{"name":"pick","description":"","parameters":{"type":"object"}}],"context":{"n":1E2}}`
	s, err := newCodec(t).Decode(1, json.RawMessage(text), []message.Message{message.NewUser("hi")})
	require.NoError(t, err)
	assert.EqualValues(t, 7, *s.Model.Timeout)
	assert.Equal(t, &RetryPolicy{1, 2, 3}, s.Model.Retry)
	assert.Equal(t, "m", s.Model.Override.Model)
	assert.Equal(t, &CapabilityOverride{OverrideReplace, []string{"a"}}, s.CapabilityOverride)
	assert.Equal(t, []ContextVar{{"d", "v"}}, s.ContextVars)
	assert.Equal(t, "pick", s.Tools[0].Name)
	assert.Equal(t, `{"n":1E2}`, string(s.Context))
	assert.Len(t, s.Messages, 1)
}

// Contract 9.6, 48 to 50.
func TestApplyChangesWhatTheUpdateNames(t *testing.T) {
	t.Parallel()
	before, err := State{Context: emptyObject}.Apply(fullUpdate())
	require.NoError(t, err)
	after, err := before.Apply(Update{Context: state.Patch{state.Add("/n", json.RawMessage("1"))}}.Merge(Update{Context: state.Patch{state.Replace("/n", json.RawMessage("2")), state.Remove("/a")}}))
	require.NoError(t, err)
	assert.JSONEq(t, `{"n":2}`, string(after.Context), "operations of merged updates apply in order")
	assert.Equal(t, before.Model, after.Model, "an update without a model keeps it")
	assert.JSONEq(t, `{"a":{"b":[1]}}`, string(before.Context), "the state before stays as it was")

	for name, ops := range map[string]state.Patch{
		"one that does not fit":  {state.Add("/n", json.RawMessage("1")), state.Remove("/none")},
		"no object any more":     {state.Add("", json.RawMessage("[1]"))},
		"a test that fails":      {state.Test("/a", json.RawMessage("1"))},
		"longer than it may be":  {state.Add("/n", json.RawMessage(`"`+longText()+`"`))},
		"null instead of object": {state.Replace("", json.RawMessage("null"))},
	} {
		u := fullUpdate()
		u.Context, u.Messages = ops, message.List{message.NewUser("hi")}
		got, err := before.Apply(u)
		require.Error(t, err, name)
		assert.Empty(t, got.Messages, "%s: all of it or nothing", name)
	}
}

func longText() string {
	text := make([]byte, maxContext)
	for i := range text {
		text[i] = 'x'
	}
	return string(text)
}

// Contract 4.2.
func TestApplyLeavesOutMessagesThatItHasAlsoWithinTheUpdate(t *testing.T) {
	t.Parallel()
	one, two := message.NewUser("one"), message.NewUser("two")
	one.ID, two.ID = uuid.New(), uuid.New()
	s, err := State{}.Apply(Update{Messages: message.List{one, one, two, message.NewUser("no id"), message.NewUser("no id")}})
	require.NoError(t, err)
	assert.Len(t, s.Messages, 4)
	s, err = s.Apply(Update{Messages: message.List{two, one}})
	require.NoError(t, err)
	assert.Len(t, s.Messages, 4)
}

func TestApplyFindsTheCallerAlsoWithinTheUpdate(t *testing.T) {
	t.Parallel()
	caller := &message.Assistant{ToolCalls: []message.ToolCall{{ID: "a", Name: "pick"}}}
	caller.ID = uuid.New()
	s, err := State{}.Apply(Update{Messages: message.List{caller, message.NewTool("a", "1")}})
	require.NoError(t, err)
	assert.Equal(t, caller.ID, s.Messages[1].(*message.Tool).ParentMessageID)
}

// Contract 9.6, 52 and 53.
func TestMergeAndTheJSONOfAnUpdateKeepWhatIsLeftOutApartFromWhatIsCleared(t *testing.T) {
	t.Parallel()
	full := fullUpdate()
	assert.Equal(t, full.Model, full.Merge(Update{}).Model)
	assert.Equal(t, full, Update{}.Merge(full))
	cleared := full.Merge(Update{Model: Set[*ModelConfig](nil), Tools: Set[[]message.ToolSpec](nil)})
	value, given := cleared.Model.Get()
	assert.True(t, given)
	assert.Nil(t, value)
	assert.Equal(t, full.ContextVars, cleared.ContextVars)

	text, err := json.Marshal(Update{})
	require.NoError(t, err)
	assert.JSONEq(t, `{"messages":[],"context":[]}`, string(text), "what is left out is left out")
	text, err = json.Marshal(Update{
		Model: Set[*ModelConfig](nil), CapabilityOverride: Set[*CapabilityOverride](nil), ContextVars: Set[[]ContextVar](nil), Tools: Set[[]message.ToolSpec](nil),
	})
	require.NoError(t, err)
	assert.JSONEq(t, `{"messages":[],"context":[],"model":null,"capability_override":null,"context_vars":[],"tools":[]}`, string(text))
	var back Update
	require.NoError(t, json.Unmarshal(text, &back))
	for name, given := range map[string]bool{
		"model": !back.Model.IsZero(), "capability_override": !back.CapabilityOverride.IsZero(), "context_vars": !back.ContextVars.IsZero(), "tools": !back.Tools.IsZero(),
	} {
		assert.True(t, given, name)
	}
	text, err = json.Marshal(full)
	require.NoError(t, err)
	back = Update{}
	require.NoError(t, json.Unmarshal(text, &back))
	again, err := json.Marshal(back)
	require.NoError(t, err)
	assert.Equal(t, string(text), string(again))
}
