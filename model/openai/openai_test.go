package openai_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/model/modeltest"
	"github.com/everstep-go/everstep/model/openai"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/react/reacttest"
)

var _ react.Model = (*openai.Model)(nil)

var dialects = []openai.API{openai.Responses, openai.ChatCompletions}

// named asks for one model, because the suite's requests name none.
type named struct {
	react.Model
	name string
}

func (m named) Generate(ctx context.Context, req *message.Request) iter.Seq2[message.Delta, error] {
	named := *req
	named.Model = m.name
	return m.Model.Generate(ctx, &named)
}

func TestModelKeepsItsPromises(t *testing.T) {
	t.Parallel()
	for _, api := range dialects {
		t.Run(string(api), func(t *testing.T) {
			t.Parallel()
			reacttest.RunModel(t, func(t testing.TB, s reacttest.Scenario) react.Model {
				if signed(s) && api == openai.ChatCompletions {
					return nil // it has no signatures
				}
				return openai.New(&openai.Options{APIKey: key, BaseURL: fake(t, s).URL, API: api})
			})
		})
	}
}

func TestModelUnderstandsWhatOthersTakeForOpenAI(t *testing.T) {
	t.Parallel()
	for _, api := range dialects {
		t.Run(string(api), func(t *testing.T) {
			t.Parallel()
			mock := modeltest.Start(t)
			reacttest.RunModel(t, func(t testing.TB, s reacttest.Scenario) react.Model {
				if signed(s) || !mock.Play(t, s) {
					return nil // the mock makes signatures up
				}
				return named{openai.New(&openai.Options{APIKey: key, BaseURL: mock.URL + "/v1", API: api}), "gpt-4o"}
			})
		})
	}
}

func signed(s reacttest.Scenario) bool {
	return len(s.Reply.Reasoning) > 0 && s.Reply.Reasoning[0].Signature != ""
}

func TestOthersUnderstandTheModel(t *testing.T) {
	t.Parallel()
	mock := modeltest.Start(t)
	reply := message.Reply{
		Reasoning: []message.ReasoningDone{{Text: "West coast."}}, Text: "Rain.", FinishReason: message.FinishStop,
		Usage: message.Usage{InputTokens: 12, OutputTokens: 34}, Model: "gpt-5.2",
	}
	for _, api := range dialects {
		t.Run(string(api), func(t *testing.T) {
			mock.Play(t, reacttest.Scenario{Reply: reply})
			m := openai.New(&openai.Options{APIKey: key, BaseURL: mock.URL + "/v1", API: api})
			got, err := collect(t, m, conversation())
			require.NoError(t, err)
			require.Len(t, got.Reasoning, 1)
			require.Equal(t, api == openai.Responses, got.Reasoning[0].Signature != "", "asked for by include")
			got.Reasoning[0].Signature = ""
			require.Equal(t, reply, got)

			requests := mock.Requests(t)
			require.Len(t, requests, 1)
			type call struct {
				ID       string
				Function struct{ Name, Arguments string }
			}
			var body struct {
				Model    string
				Messages []struct {
					Role       string
					Content    any
					ToolCallID string `json:"tool_call_id"`
					ToolCalls  []call `json:"tool_calls"`
				}
				Tools []struct{ Function struct{ Name string } }
			}
			require.NoError(t, json.Unmarshal(requests[0].Body, &body), string(requests[0].Body))
			var roles []string
			for _, m := range body.Messages {
				roles = append(roles, m.Role)
				if m.Role == "tool" {
					require.Equal(t, "call_1", m.ToolCallID)
					require.Equal(t, "rain", m.Content)
				}
				if len(m.ToolCalls) > 0 {
					require.Equal(t, "call_1", m.ToolCalls[0].ID)
					require.JSONEq(t, `{"city":"Bergen"}`, m.ToolCalls[0].Function.Arguments)
				}
			}
			// The items of Responses are one message each, so a text and its calls are two.
			require.Equal(t, []string{"system", "user", "assistant", "tool", "assistant", "user"}, slices.Compact(roles))
			require.Equal(t, "weather", body.Tools[0].Function.Name)
			require.Equal(t, "gpt-5.2", body.Model)
		})
	}
}

func TestFaultsOfTheServer(t *testing.T) {
	t.Parallel()
	mock := modeltest.Start(t)
	for _, api := range dialects {
		t.Run(string(api), func(t *testing.T) {
			modeltest.RunFaults(t, mock, openai.New(&openai.Options{APIKey: key, BaseURL: mock.URL + "/v1", API: api}), "gpt-4o")
		})
	}
}

func TestDialectThatAServerIsExpectedToSpeak(t *testing.T) {
	for _, c := range []struct {
		env, base, path, maxTokens string
		opts                       openai.Options
	}{
		{base: "", path: "/v1/responses", maxTokens: "max_output_tokens"},
		{base: "https://eu.api.openai.com/v1", path: "/v1/responses", maxTokens: "max_output_tokens"},
		{base: "http://localhost:11434/v1/", path: "/v1/chat/completions", maxTokens: "max_tokens"},
		{base: "https://notopenai.com/api", path: "/api/chat/completions", maxTokens: "max_tokens"},
		{env: "http://localhost:1234/v1", path: "/v1/chat/completions", maxTokens: "max_tokens"},
		{base: "https://me.openai.azure.com/openai/v1", path: "/openai/v1/chat/completions", maxTokens: "max_completion_tokens"},
		{base: "http://localhost/v1", path: "/v1/responses", maxTokens: "max_output_tokens", opts: openai.Options{API: openai.Responses}},
		{path: "/v1/chat/completions", maxTokens: "max_completion_tokens", opts: openai.Options{API: openai.ChatCompletions}},
		{path: "/v1/chat/completions", maxTokens: "num_predict", opts: openai.Options{API: openai.ChatCompletions, MaxTokensName: "num_predict"}},
	} {
		t.Setenv("OPENAI_BASE_URL", c.env)
		if c.env == "" {
			require.NoError(t, os.Unsetenv("OPENAI_BASE_URL"))
		}
		t.Setenv("OPENAI_API_KEY", "sk-of-the-environment")
		var body map[string]any
		c.opts.BaseURL = c.base
		c.opts.HTTPClient = &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
			assert.Equal(t, c.path, r.URL.Path)
			assert.Equal(t, "Bearer sk-of-the-environment", r.Header.Get("Authorization"))
			assert.NoError(t, json.NewDecoder(r.Body).Decode(&body))
			return nil, errors.New("no network here")
		})}
		req := ask()
		req.Params.MaxTokens = new(uint64(100))
		_, err := collect(t, openai.New(&c.opts), req)
		require.ErrorContains(t, err, "no network here")
		require.IsType(t, (*message.TransientError)(nil), err)
		require.Contains(t, body, c.maxTokens)
	}
}

func TestUnknownAPI(t *testing.T) {
	t.Parallel()
	_, err := collect(t, openai.New(&openai.Options{API: "soap"}), ask())
	require.EqualError(t, err, `openai: there is no API "soap"`)
}
