package gemini_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genai"

	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/model/gemini"
	"github.com/everstep-go/everstep/model/modeltest"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/react/reacttest"
)

func mocked(t testing.TB, mock *modeltest.Mock) *gemini.Model {
	return newModel(t, &gemini.Options{APIKey: key, BaseURL: mock.URL, Backend: genai.BackendGeminiAPI})
}

func TestModelAgainstAMockThatOthersWrote(t *testing.T) {
	t.Parallel()
	mock := modeltest.Start(t)
	reacttest.RunModel(t, func(t testing.TB, s reacttest.Scenario) react.Model {
		switch {
		case s.Reply.Reasoning != nil:
			return nil // it signs nothing for Gemini
		case len(s.Reply.ToolCalls) > 0 && s.Reply.ToolCalls[0].Name == "count":
			return nil // it rounds large numbers
		case s.Cut: // in fewer chunks than for others
			mock.Answer(t, modeltest.Answer{Reply: s.Reply, CutAfter: 1})
		case !mock.Play(t, s):
			return nil
		}
		return mocked(t, mock)
	})
}

func TestAConversationWithAMockThatOthersWrote(t *testing.T) {
	t.Parallel()
	mock := modeltest.Start(t)
	m := mocked(t, mock)

	mock.Answer(t,
		modeltest.Answer{Reply: message.Reply{
			Reasoning: []message.ReasoningDone{{Text: "I had better look."}},
			Text:      "Let me see.",
			ToolCalls: []message.ToolCall{call("a", "weather", `{"city":"Oslo"}`), call("b", "weather", `{"city":"Bergen"}`)},
			Usage:     message.Usage{InputTokens: 12, OutputTokens: 34},
		}},
		modeltest.Answer{Status: 429, Code: "RESOURCE_EXHAUSTED", Message: "Slow down.", RetryAfter: 7},
		modeltest.Answer{Status: 503, Code: "UNAVAILABLE"},
		modeltest.Answer{Reply: message.Reply{Text: "Rain in both.", FinishReason: message.FinishLength}},
	)
	req := greeting()
	first, err := message.Collect(m.Generate(t.Context(), req))
	require.NoError(t, err)
	assert.Equal(t, "Let me see.", first.Text)
	assert.Equal(t, []message.ToolCall{call("a", "weather", `{"city":"Oslo"}`), call("b", "weather", `{"city":"Bergen"}`)}, first.ToolCalls)
	assert.Equal(t, []message.ReasoningDone{{Text: "I had better look."}}, first.Reasoning)
	assert.Equal(t, message.FinishToolCalls, first.FinishReason)
	assert.Equal(t, message.Usage{InputTokens: 12, OutputTokens: 34}, first.Usage)

	next := again(req, first)
	_, err = message.Collect(m.Generate(t.Context(), next))
	require.ErrorIs(t, err, message.ErrRateLimited)
	assert.Equal(t, new(7*time.Second), transient(err))

	_, err = message.Collect(m.Generate(t.Context(), next))
	require.ErrorIs(t, err, message.ErrOverloaded)
	assert.NotNil(t, transient(err))

	last, err := message.Collect(m.Generate(t.Context(), next))
	require.NoError(t, err)
	assert.Equal(t, "Rain in both.", last.Text)
	assert.Equal(t, message.FinishLength, last.FinishReason)

	requests := mock.Requests(t)
	require.Len(t, requests, 4, "there are no retries but our own")
	assert.Contains(t, requests[3].Path, "/v1beta/models/gemini-3-pro:streamGenerateContent")
	for _, want := range []string{`"role":"assistant"`, `"tool_call_id":"a"`, `"tool_call_id":"b"`, `Let me see.`} {
		assert.Contains(t, string(requests[3].Body), want)
	}
}

func TestFaultsOfTheServer(t *testing.T) {
	t.Parallel()
	mock := modeltest.Start(t)
	modeltest.RunFaults(t, mock, mocked(t, mock), "gemini-2.5-flash")
}
