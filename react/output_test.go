package react_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/react/reacttest"
)

type trip struct {
	City string `json:"city"`
	Days int    `json:"days"`
}

// saying is a reply that ends for a reason and cost some tokens.
func saying(text string, reason message.FinishReason) reacttest.Step {
	return reacttest.Step{Deltas: append(reacttest.Words(text),
		message.Done{FinishReason: reason, Usage: message.Usage{InputTokens: 10, OutputTokens: 2}})}
}

func TestAnAnswerSatisfiesTheSchema(t *testing.T) {
	t.Parallel()
	good, bad := `{"city":"Oslo","days":3}`, `{"city":"Oslo"}`
	for name, c := range map[string]struct {
		steps []reacttest.Step
		asked int
		text  string // that is stored, empty if the run failed
	}{
		"at once":             {[]reacttest.Step{saying(good, message.FinishStop)}, 1, good},
		"when asked again":    {[]reacttest.Step{saying(bad, message.FinishStop), saying(good, message.FinishStop)}, 2, good},
		"when it was no JSON": {[]reacttest.Step{saying("Three days in Oslo", message.FinishStop), saying(good, message.FinishStop)}, 2, good},
		"when it was empty":   {[]reacttest.Step{saying("", message.FinishStop), saying(good, message.FinishStop)}, 2, good},
		"or the run fails":    {[]reacttest.Step{saying(bad, message.FinishStop), saying(`[]`, message.FinishStop)}, 2, ""},
		"but not one cut off": {[]reacttest.Step{saying(`{"city":`, message.FinishLength)}, 1, `{"city":`},
		"and no refusal":      {[]reacttest.Step{saying("No.", message.FinishRefusal)}, 1, "No."},
		"after tools": {[]reacttest.Step{
			reacttest.Call(reacttest.ToolCall("c", "nothing", `{}`)), saying(good, message.FinishStop),
		}, 2, good},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, react.Config{Output: react.OutputOf[trip]()}, c.steps...)
			events := b.ask(t, "Plan a trip")
			requests := b.script.Requests()
			require.Len(t, requests, c.asked)
			for _, r := range requests {
				assert.JSONEq(t, `{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"}},
					"required":["city","days"],"additionalProperties":false}`, string(r.Output))
				require.NoError(t, r.Validate())
			}
			s := b.state(t)
			if c.text == "" {
				failed := events[len(events)-1].Data.(event.RunError)
				assert.Equal(t, react.CodeModelError, failed.Code)
				assert.Contains(t, failed.Error, "does not fit the schema")
				assert.Len(t, s.Messages, 1, "nothing of it is stored")
				return
			}
			assert.Equal(t, c.text, s.Reply())
			if name == "after tools" {
				assert.Len(t, s.Messages, 4, "a reply with calls is no answer")
			}
			if c.text == good {
				got, err := react.OutputAs[trip](s)
				require.NoError(t, err)
				assert.Equal(t, trip{"Oslo", 3}, got)
			}
		})
	}
}

func TestNoAnswerIsNoneEvenIfTheSchemaWantsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t, react.Config{Output: &react.Output{Schema: json.RawMessage(`{"type":"object"}`)}}, saying("", message.FinishStop), saying("{}", message.FinishStop))
	b.ask(t, "Plan a trip")
	assert.Equal(t, "{}", b.state(t).Reply())
}

func TestAModelHearsWhatIsWrongWithItsAnswer(t *testing.T) {
	t.Parallel()
	b := setup(t, react.Config{Output: react.OutputOf[trip]()}, saying(`{"city":7}`, message.FinishStop), saying(`{"city":"Oslo","days":3}`, message.FinishStop))
	b.ask(t, "Plan a trip")
	again := b.script.Requests()[1].Messages
	require.Len(t, again, 3)
	assert.Equal(t, `{"city":7}`, again[1].(*message.Assistant).Content)
	assert.Contains(t, again[2].(*message.User).Text(), "city")
	s := b.state(t)
	assert.Len(t, s.Messages, 2, "only the answer that fits is stored")
	assert.Equal(t, message.Usage{InputTokens: 20, OutputTokens: 4}, s.Usage(uuid.Nil), "both are paid for")
}

func TestAnOutputThatCannotBeIsRefused(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]*react.Output{
		"no schema":       {},
		"no object":       {Schema: json.RawMessage(`{"type":"array"}`)},
		"no JSON":         {Schema: json.RawMessage(`{`)},
		"of text":         react.OutputOf[string](),
		"of what is none": react.OutputOf[struct{ F func() }](),
	} {
		_, err := react.New(react.Config{Name: "x", Model: reacttest.NewScript(), Output: o})
		assert.ErrorContains(t, err, "Config.Output", name)
	}
	_, err := react.OutputAs[trip](react.State{})
	assert.Error(t, err)
	_, err = react.OutputAs[trip](react.State{Messages: []message.Message{message.NewAssistant("hm")}})
	assert.ErrorContains(t, err, "trip")
}

func TestAModelWithoutAModeForItAnswersByATool(t *testing.T) {
	t.Parallel()
	good := `{"city":"Oslo","days":3}`
	done := message.Done{FinishReason: message.FinishToolCalls}
	call := func(index int, name, arguments string) message.Delta {
		return message.ToolCallDelta{Index: index, ID: "c" + name, Name: name, Arguments: arguments}
	}
	for name, c := range map[string]struct {
		deltas []message.Delta
		want   message.Reply
	}{
		"in pieces": {
			[]message.Delta{message.TextDelta{Text: "Here it is"}, call(0, "final_answer", `{"city":"Os`), message.ToolCallDelta{Index: 0, Arguments: `lo","days":3}`}, done},
			message.Reply{Text: good, FinishReason: message.FinishStop},
		},
		"in text": {
			[]message.Delta{message.TextDelta{Text: good}, message.Done{FinishReason: message.FinishStop}},
			message.Reply{Text: good, FinishReason: message.FinishStop},
		},
		"too early": {
			[]message.Delta{call(0, "look", `{}`), call(1, "final_answer", good), done},
			message.Reply{ToolCalls: []message.ToolCall{{ID: "clook", Name: "look", Arguments: json.RawMessage(`{}`)}}, FinishReason: message.FinishToolCalls},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			script := reacttest.NewScript(reacttest.Step{Deltas: c.deltas})
			req := &message.Request{Messages: []message.Message{message.NewUser("hi")}, Output: json.RawMessage(`{"type":"object"}`)}
			got, err := message.Collect(react.AnswerByTool(script).Generate(t.Context(), req))
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
			asked := script.Requests()[0]
			assert.Nil(t, asked.Output)
			assert.Equal(t, "final_answer", asked.Tools[0].Name)
			assert.JSONEq(t, `{"type":"object"}`, string(asked.Tools[0].Parameters))
			assert.Empty(t, req.Tools, "the request stays as it is")
		})
	}
	broken := errors.New("broken")
	_, err := message.Collect(react.AnswerByTool(reacttest.NewScript(reacttest.Fail(broken))).Generate(t.Context(),
		&message.Request{Messages: []message.Message{message.NewUser("hi")}, Output: json.RawMessage(`{"type":"object"}`)}))
	assert.ErrorIs(t, err, broken)
}

func TestWhyAReplyEndedAndWhatItCostIsKept(t *testing.T) {
	t.Parallel()
	b := setup(t, react.Config{ModelName: "large"},
		saying("one", message.FinishStop), saying("two", message.FinishLength), saying("three", message.FinishContentFilter), reacttest.Say("free"))
	for range 4 {
		b.ask(t, "hi")
	}
	var kept []string
	for _, m := range b.state(t).Messages {
		if m.Role() == message.RoleAssistant {
			kept = append(kept, string(m.Head().Metadata))
		}
	}
	usage := `"model":"large","usage":{"input_tokens":10,"output_tokens":2,"cached_input_tokens":0,"reasoning_tokens":0}}`
	assert.Equal(t, []string{`{` + usage, `{"finish_reason":"length",` + usage, `{"finish_reason":"content_filter",` + usage, ``}, kept)
	s := b.state(t)
	assert.Equal(t, message.Usage{InputTokens: 30, OutputTokens: 6}, s.Usage(uuid.Nil))
	last := s.Messages[len(s.Messages)-3]
	assert.Equal(t, message.Usage{InputTokens: 10, OutputTokens: 2}, s.Usage(last.Head().RunID), "of one run")
	assert.Zero(t, s.Usage(uuid.New()))
}

func TestReasoningGoesBackOnlyToTheProviderThatSignedIt(t *testing.T) {
	t.Parallel()
	thinking := func(signature string) reacttest.Step {
		return reacttest.Step{Deltas: []message.Delta{
			message.ReasoningDelta{Text: "hm"}, message.ReasoningDone{Signature: signature}, message.TextDelta{Text: "so"}, message.Done{FinishReason: message.FinishStop},
		}}
	}
	here, there := reacttest.NewScript(thinking("mine"), thinking("")), reacttest.NewScript(thinking("theirs"))
	b := setup(t, react.Config{Model: here, Provider: "here", Providers: map[string]react.Model{"there": there}})
	b.ask(t, "one")
	in := react.Ask(b.session, "two")
	in.Model = react.Set(&react.ModelConfig{Override: &react.ModelOverride{Provider: "there"}})
	b.run(t, in)
	in = react.Ask(b.session, "three")
	in.Model = react.Set[*react.ModelConfig](nil)
	b.run(t, in)
	signatures := func(r *message.Request) (all []string) {
		require.NoError(t, r.Validate())
		for _, m := range r.Messages {
			if m, ok := m.(*message.Reasoning); ok {
				all = append(all, m.Signature)
			}
		}
		return all
	}
	assert.Empty(t, signatures(there.Requests()[0]))
	assert.Equal(t, []string{"mine"}, signatures(here.Requests()[1]))
	s := b.state(t)
	assert.Len(t, s.Messages, 9, "all of it is stored")
	assert.JSONEq(t, `{"provider":"here"}`, string(s.Messages[1].Head().Metadata))
	assert.Nil(t, s.Messages[7].Head().Metadata, "what nobody signed is for everybody")
}
