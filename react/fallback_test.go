package react_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/react/reacttest"
)

func request() *message.Request {
	return &message.Request{Model: "first", Messages: []message.Message{message.NewUser("hi")}}
}

func TestAnotherModelIsAskedWhenTheFirstOneCannotAnswer(t *testing.T) {
	t.Parallel()
	busy := (&message.ProviderError{Provider: "p", Status: 529}).Classified(0)
	wrong := (&message.ProviderError{Provider: "p", Status: 400}).Classified(0)
	silent := reacttest.Step{}
	for name, c := range map[string]struct {
		first, second reacttest.Step
		when          func(error) bool
		asked         int // of the second
		text          string
		err           error
	}{
		"it can":                  {first: reacttest.Say("one"), text: "one"},
		"it is overloaded":        {first: reacttest.Fail(busy), second: reacttest.Say("two"), asked: 1, text: "two"},
		"it says nothing":         {first: silent, second: reacttest.Say("two"), asked: 1, text: "two"},
		"the request is wrong":    {first: reacttest.Fail(wrong), err: message.ErrInvalidRequest},
		"what counts is decided":  {first: reacttest.Fail(wrong), second: reacttest.Say("two"), when: func(error) bool { return true }, asked: 1, text: "two"},
		"both cannot":             {first: reacttest.Fail(busy), second: reacttest.Fail(wrong), asked: 1, err: message.ErrInvalidRequest},
		"something was said":      {first: reacttest.Step{Deltas: reacttest.Words("half"), Err: busy}, text: "half", err: message.ErrOverloaded},
		"the key is not accepted": {first: reacttest.Fail((&message.ProviderError{Status: 401}).Classified(0)), second: reacttest.Say("two"), asked: 1, text: "two"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			second := reacttest.NewScript(c.second)
			m := react.Fallback(c.when, reacttest.NewScript(c.first), react.Alternative{Model: second, Name: "second"})
			req := request()
			reply, err := message.Collect(m.Generate(t.Context(), req))
			assert.ErrorIs(t, err, c.err)
			assert.Equal(t, c.text, reply.Text)
			asked := second.Requests()
			require.Len(t, asked, c.asked)
			for _, r := range asked {
				assert.Equal(t, "second", r.Model)
			}
			assert.Equal(t, "first", req.Model, "the request stays as it is")
		})
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	second := reacttest.NewScript(reacttest.Say("two"))
	m := react.Fallback(nil, reacttest.NewScript(reacttest.Fail(busy)), react.Alternative{Model: second})
	_, err := message.Collect(m.Generate(ended, request()))
	assert.Error(t, err)
	assert.Empty(t, second.Requests(), "nobody is asked for who has gone")
}

func TestRequestsWaitForTheirTurn(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		start := time.Now()
		var at []time.Duration
		counted := react.ModelFunc(func(context.Context, *message.Request) (message.Reply, error) {
			at = append(at, time.Since(start))
			return message.Reply{Text: "ok", FinishReason: message.FinishStop}, nil
		})
		m := react.RateLimit(counted, 3, time.Minute)
		for range 5 {
			_, err := message.Collect(m.Generate(t.Context(), request()))
			require.NoError(t, err)
		}
		assert.Equal(t, []time.Duration{0, 0, 0, 20 * time.Second, 40 * time.Second}, at, "a burst, then evenly")
		time.Sleep(time.Hour)
		start, at = time.Now(), nil
		for range 4 {
			_, err := message.Collect(m.Generate(t.Context(), request()))
			require.NoError(t, err)
		}
		assert.Equal(t, []time.Duration{0, 0, 0, 20 * time.Second}, at, "what nobody used is not saved up")

		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		var err error
		go func() { _, err = message.Collect(m.Generate(ctx, request())) }()
		synctest.Wait()
		cancel(gone)
		synctest.Wait()
		assert.ErrorIs(t, err, gone)
		assert.Len(t, at, 4)
	})
	assert.Panics(t, func() { react.RateLimit(nil, 0, time.Second) })
}

func TestAReplySaysWhichModelAnswered(t *testing.T) {
	t.Parallel()
	busy := reacttest.Fail((&message.ProviderError{Provider: "p", Status: 529}).Classified(0))
	named := reacttest.Step{Deltas: []message.Delta{message.TextDelta{Text: "two"}, message.Done{Model: "second-2026"}}}
	for name, c := range map[string]struct {
		first, second reacttest.Step
		want          string
	}{
		"the one that was asked":   {reacttest.Say("one"), busy, "first"},
		"the other one":            {busy, reacttest.Say("two"), "second"},
		"as its provider names it": {busy, named, "second-2026"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := react.Fallback(nil, reacttest.NewScript(c.first), react.Alternative{Model: reacttest.NewScript(c.second), Name: "second"})
			b := setup(t, react.Config{Model: m, ModelName: "first"})
			b.ask(t, "hi")
			messages := b.state(t).Messages
			assert.Equal(t, c.want, message.ReplyInfoOf(messages[len(messages)-1]).Model)
		})
	}
}
