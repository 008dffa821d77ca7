package react_test

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/react/reacttest"
)

func TestARecordedConversationIsReplayedWithoutTheModel(t *testing.T) {
	t.Parallel()
	look := react.NewTool("look", "Looks.", func(context.Context, struct{}) (string, error) { return "seen <it>", nil })
	conversation := func(t *testing.T, m react.Model) []message.Message {
		b := setup(t, react.Config{Model: m, ModelName: "large", Tools: []react.Tool{look}, Prompt: react.TextPrompt("It is {{.CurrentDatetime}} in {{.SessionID}}."),
			Retry: &react.RetryPolicy{MaxAttempts: 2}})
		b.ask(t, "What is there?")
		b.ask(t, "And now?")
		s := b.state(t)
		for _, m := range s.Messages { // what is never the same
			name, metadata := m.Head().Name, m.Head().Metadata
			*m.Head() = message.Header{Name: name, Metadata: metadata}
			if tool, ok := m.(*message.Tool); ok {
				tool.ParentMessageID = message.Header{}.ID
			}
		}
		return s.Messages
	}
	script := reacttest.NewScript(
		reacttest.Step{Deltas: []message.Delta{
			message.ReasoningDelta{Text: "I look"}, message.ReasoningDone{Signature: "s"}, message.TextDelta{Text: "One moment"},
			message.ToolCallDelta{Index: 0, ID: "c", Name: "look", Arguments: "{"}, message.ToolCallDelta{Index: 0, Arguments: "}"},
			message.Done{Usage: message.Usage{InputTokens: 7}, FinishReason: message.FinishToolCalls, Model: "large-2"},
		}},
		reacttest.Say("something"),
		reacttest.Fail(message.Transient(errors.New("busy"), time.Millisecond)),
		reacttest.Say("the same"),
	)
	var tape bytes.Buffer
	want := conversation(t, react.Record(script, &tape))
	assert.Equal(t, 4, strings.Count(tape.String(), "\n"), "a line for each call")
	assert.Equal(t, "large-2", message.ReplyInfoOf(want[2]).Model, "which answered")
	for range 2 {
		m, err := react.Replay(strings.NewReader(tape.String()))
		require.NoError(t, err)
		assert.Equal(t, want, conversation(t, m))
	}
}

func TestWhatWasNotRecordedIsAnError(t *testing.T) {
	t.Parallel()
	var tape bytes.Buffer
	record := react.Record(reacttest.NewScript(reacttest.Say("one"), reacttest.Say("two"), reacttest.Fail(errors.New("broken"))), &tape)
	ask := func(m react.Model, text string) (string, error) {
		reply, err := message.Collect(m.Generate(t.Context(), &message.Request{Messages: []message.Message{message.NewUser(text)}}))
		return reply.Text, err
	}
	for range 2 {
		_, err := ask(record, "hi")
		require.NoError(t, err)
	}
	_, err := ask(record, "ho")
	require.Error(t, err)
	m, err := react.Replay(&tape)
	require.NoError(t, err)
	for _, want := range []string{"one", "two", "two"} {
		got, err := ask(m, "hi")
		require.NoError(t, err)
		assert.Equal(t, want, got, "in the order in which they were recorded")
	}
	_, err = ask(m, "ho")
	assert.EqualError(t, err, "broken")
	_, err = ask(m, "hello")
	assert.ErrorContains(t, err, `no reply was recorded to this conversation: ["","user",[{"type":"text","value":"hello"}]]`)
}

func TestARequestIsKnownByAllThatWasSaid(t *testing.T) {
	t.Parallel()
	look := func(argument string) *message.Assistant {
		return message.NewAssistant("", message.ToolCall{ID: "c", Name: "look", Arguments: []byte(`"` + argument + `"`)})
	}
	user := message.NewUser("hi")
	requests := []*message.Request{
		{Messages: []message.Message{user}},
		{Messages: []message.Message{user}, Model: "other"},
		{Messages: []message.Message{message.NewUser("ho")}},
		{Messages: []message.Message{message.NewUserBlocks(message.Media{Kind: message.Image, MediaType: "image/png", Source: message.Source{Type: message.SourceURL, Value: "u"}})}},
		{Messages: []message.Message{user, look("a"), message.NewTool("c", "x")}},
		{Messages: []message.Message{user, look("b"), message.NewTool("c", "x")}},
		{Messages: []message.Message{user, look("a"), message.NewTool("c", "y")}},
		{Messages: []message.Message{user, look("a"), message.NewToolError("c", "x")}},
		{Messages: []message.Message{user, message.NewReasoning("r", "s"), look("a"), message.NewTool("c", "x")}},
		{Messages: []message.Message{user, message.NewAssistant("so"), user}},
	}
	var steps []reacttest.Step
	for i := range requests {
		steps = append(steps, reacttest.Say(strconv.Itoa(i)))
	}
	var tape bytes.Buffer
	record := react.Record(reacttest.NewScript(steps...), &tape)
	for _, r := range requests {
		_, err := message.Collect(record.Generate(t.Context(), r))
		require.NoError(t, err)
	}
	m, err := react.Replay(&tape)
	require.NoError(t, err)
	for i, r := range requests {
		reply, err := message.Collect(m.Generate(t.Context(), r))
		require.NoError(t, err)
		assert.Equal(t, strconv.Itoa(i), reply.Text)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk is full") }

func TestACallThatCannotBeRecordedFails(t *testing.T) {
	t.Parallel()
	_, err := message.Collect(react.Record(reacttest.NewScript(reacttest.Say("one")), full{}).Generate(t.Context(), request()))
	assert.ErrorContains(t, err, "disk is full")
	_, err = message.Collect(react.Record(reacttest.NewScript(reacttest.Fail(context.Canceled)), full{}).Generate(t.Context(), request()))
	assert.ErrorContains(t, err, "disk is full")
	assert.ErrorIs(t, err, context.Canceled)
	_, err = react.Replay(strings.NewReader("{}\nx\n"))
	assert.ErrorContains(t, err, "line 2")
	_, err = react.Replay(iotest.ErrReader(errors.New("broken")))
	assert.ErrorContains(t, err, "broken")
}

func FuzzReplay(f *testing.F) {
	f.Add(`{"request":{"model":"m","messages":[{"role":"user","content":"hi"}]},"reply":[{"text":"a"},{"done":{"finish_reason":"stop"}}],"error":{"text":"x"}}`)
	f.Fuzz(func(t *testing.T, tape string) {
		m, err := react.Replay(strings.NewReader(tape))
		if err != nil {
			return
		}
		_, _ = message.Collect(m.Generate(t.Context(), request()))
	})
}
