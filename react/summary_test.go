package react_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/react/reacttest"
)

// one counts each message as one token.
var one = react.CounterFunc(func(message.Message) int { return 1 })

func chat(n int) (messages []message.Message) {
	for i := range n {
		u, a := message.NewUser(fmt.Sprint("question ", i)), message.NewAssistant(fmt.Sprint("answer ", i))
		u.ID, a.ID = uuid.New(), uuid.New()
		messages = append(messages, u, a)
	}
	return messages
}

func TestWhatIsForgottenIsRetold(t *testing.T) {
	t.Parallel()
	script := reacttest.NewScript(reacttest.Say("first"), reacttest.Say("second"))
	s := &react.Summary{Model: script, Name: "small", Reserve: 1}
	all := chat(5)
	short, err := s.Compact(t.Context(), all[:4], 4, one)
	require.NoError(t, err)
	require.Equal(t, all[:4], short, "what fits stays as it is")
	for range 2 {
		short, err = s.Compact(t.Context(), all[:6], 5, one)
		require.NoError(t, err)
		require.Equal(t, "What we have said before:\nfirst", short[0].(*message.User).Text())
		require.Equal(t, all[2:6], short[1:])
	}
	require.Len(t, script.Requests(), 1, "a text is made once")
	asked := script.Requests()[0]
	assert.Equal(t, "small", asked.Model)
	assert.NotEmpty(t, asked.System)
	assert.Equal(t, "user: question 0\nassistant: answer 0\n", asked.Messages[0].(*message.User).Text())

	short, err = s.Compact(t.Context(), all, 5, one)
	require.NoError(t, err)
	assert.Equal(t, "What we have said before:\nsecond", short[0].(*message.User).Text())
	assert.Equal(t, all[6:], short[1:])
	assert.Equal(t, "before: first\nuser: question 1\nassistant: answer 1\nuser: question 2\nassistant: answer 2\n",
		script.Requests()[1].Messages[0].(*message.User).Text(), "only what is new is retold")
	for _, m := range all[:6] {
		for _, kept := range short {
			assert.NotSame(t, m, kept)
		}
	}
}

func TestAVeryLongConversationIsRetoldInPieces(t *testing.T) {
	t.Parallel()
	n := 0
	model := react.ModelFunc(func(_ context.Context, req *message.Request) (message.Reply, error) {
		n++
		assert.LessOrEqual(t, strings.Count(req.Messages[0].(*message.User).Text(), "\n"), 11)
		return message.Reply{Text: fmt.Sprint("part ", n), FinishReason: message.FinishStop}, nil
	})
	short, err := (&react.Summary{Model: model}).Compact(t.Context(), chat(50), 10, one)
	require.NoError(t, err)
	assert.Equal(t, fmt.Sprint("What we have said before:\npart ", n), short[0].(*message.User).Text())
	assert.Equal(t, 10, n)
	assert.LessOrEqual(t, len(short), 10)
}

func TestASummaryThatCannotBeMadeIsAnError(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	_, err := (&react.Summary{Model: reacttest.NewScript(reacttest.Fail(broken))}).Compact(t.Context(), chat(5), 4, one)
	assert.ErrorIs(t, err, broken)
	_, err = (&react.Summary{Model: reacttest.NewScript(reacttest.Say(""))}).Compact(t.Context(), chat(5), 4, one)
	assert.ErrorContains(t, err, "said nothing")
	_, err = (&react.Summary{}).Compact(t.Context(), chat(5), 4, one)
	assert.ErrorContains(t, err, "Summary.Model is nil")
}

func TestAnAgentGoesOnFromASummary(t *testing.T) {
	t.Parallel()
	small := reacttest.NewScript(reacttest.Say("they said hello"))
	b := setup(t, react.Config{
		Compaction: &react.Summary{Model: small}, Tokens: one, Budget: react.Budget{ContextWindow: 5},
	}, reacttest.Say("one"), reacttest.Say("two"), reacttest.Say("three"))
	for range 3 {
		b.ask(t, "hello")
	}
	requests := b.script.Requests()
	require.NoError(t, requests[2].Validate())
	assert.Equal(t, "What we have said before:\nthey said hello", requests[2].Messages[0].(*message.User).Text())
	assert.Len(t, b.state(t).Messages, 6, "what is stored does not change")
}

func TestEachModelHasItsContextWindow(t *testing.T) {
	t.Parallel()
	b := react.Budget{ContextWindow: 100, OutputReserve: 10, Windows: map[string]int{"large": 1000, "large-mini": 500}}
	for model, want := range map[string]int{"": 90, "other": 90, "large": 990, "large-2026": 990, "large-mini": 490, "large-mini-2": 490} {
		assert.Equal(t, want, b.For(model), model)
	}
	assert.Zero(t, react.Budget{}.For("any"), "no limit")
	assert.Zero(t, react.Budget{OutputReserve: 5, ContextWindow: 4}.For("any"))
	for model, window := range react.ContextWindows() {
		assert.NotEmpty(t, model)
		assert.Greater(t, window, 8_000)
	}
}

func TestAConversationThatIsTooLongAfterAllIsMadeShorter(t *testing.T) {
	t.Parallel()
	tooLong := reacttest.Fail((&message.ProviderError{Status: 400, Kind: message.ErrTooLong}).Classified(0))
	says := func(n int) (steps []reacttest.Step) {
		for range n {
			steps = append(steps, reacttest.Say("ok"))
		}
		return steps
	}
	for name, c := range map[string]struct {
		config react.Config
		fails  int
		asked  []int // messages of the last requests
		ends   string
	}{
		"of unknown length":    {react.Config{Compaction: react.TailWindow{}, Tokens: one}, 2, []int{21, 15, 11}, "ok"},
		"than was thought":     {react.Config{Compaction: react.TailWindow{}, Tokens: one, Budget: react.Budget{ContextWindow: 13}}, 1, []int{11, 9}, "ok"},
		"but not for ever":     {react.Config{Compaction: react.TailWindow{}, Tokens: one}, 5, []int{21, 15, 11, 9, 7}, ""},
		"if it may be shorter": {react.Config{Tokens: one}, 1, []int{21}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steps := says(10)
			for range c.fails {
				steps = append(steps, tooLong)
			}
			b := setup(t, c.config, append(steps, reacttest.Say("ok"))...)
			for range 11 {
				b.ask(t, "hi")
			}
			var asked []int
			for _, r := range b.script.Requests()[10:] {
				asked = append(asked, len(r.Messages))
				assert.NoError(t, r.Validate())
			}
			assert.Equal(t, c.asked, asked)
			s := b.state(t)
			if c.ends == "" {
				assert.Len(t, s.Messages, 21)
			} else {
				assert.Len(t, s.Messages, 22)
			}
		})
	}
}
