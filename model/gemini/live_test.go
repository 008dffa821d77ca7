package gemini_test

import (
	"cmp"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genai"

	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/model/gemini"
)

// The real API, for who has a key: parallel calls with their signatures, results, and an answer.
func TestGoogleItself(t *testing.T) {
	t.Parallel()
	key := os.Getenv("GEMINI_API_KEY")
	if key == "" {
		t.Skip("skipped: GEMINI_API_KEY is not set, so the real API is not asked")
	}
	m := newModel(t, &gemini.Options{APIKey: key, Backend: genai.BackendGeminiAPI})
	req := &message.Request{
		Model:    cmp.Or(os.Getenv("GEMINI_MODEL"), "gemini-2.5-flash"),
		System:   "Answer with the tool's results, in one line.",
		Messages: []message.Message{message.NewUser("What is the weather in Oslo, and in Bergen? Call the tool for both at once.")},
		Tools: []message.ToolSpec{{
			Name: "weather", Description: "Current weather in a city.",
			Parameters: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`),
		}},
		Params: message.Params{ProviderParams: json.RawMessage(`{"generationConfig":{"thinkingConfig":{"includeThoughts":true}}}`)},
	}
	first, err := message.Collect(m.Generate(t.Context(), req))
	require.NoError(t, err)
	require.NotEmpty(t, first.ToolCalls)
	assert.Equal(t, message.FinishToolCalls, first.FinishReason)
	assert.Positive(t, first.Usage.InputTokens)

	last, err := message.Collect(m.Generate(t.Context(), again(req, first)))
	require.NoError(t, err)
	assert.NotEmpty(t, last.Text)
	assert.Equal(t, message.FinishStop, last.FinishReason)
}
