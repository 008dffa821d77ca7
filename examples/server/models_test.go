package main

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/model/anthropic"
	"github.com/everstep-go/everstep/model/gemini"
	"github.com/everstep-go/everstep/model/modeltest"
	"github.com/everstep-go/everstep/model/openai"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/react/reacttest"
	"github.com/everstep-go/everstep/store/memory"
)

// answers are a conversation with tools in parallel.
func answers(mock *modeltest.Mock, t *testing.T) {
	mock.Answer(t,
		modeltest.Answer{Reply: message.Reply{
			Text:         "Let me see.",
			ToolCalls:    []message.ToolCall{reacttest.ToolCall("", "weather", `{"city":"Oslo"}`), reacttest.ToolCall("", "add", `{"a":2,"b":3}`)},
			FinishReason: message.FinishToolCalls,
		}},
		modeltest.Answer{Reply: message.Reply{Text: "Take a coat, and it is five.", FinishReason: message.FinishStop}},
	)
}

func TestTheSameConversationIsStoredTheSameWhoeverTheModelIs(t *testing.T) {
	mock := modeltest.Start(t)
	google, err := gemini.New(t.Context(), &gemini.Options{BaseURL: mock.URL, APIKey: "test"})
	require.NoError(t, err)
	var want []message.Message
	for _, m := range []struct {
		name  string
		model react.Model
	}{
		{"gpt-4o", openai.New(&openai.Options{BaseURL: mock.URL + "/v1", APIKey: "test", API: openai.ChatCompletions})},
		{"gpt-4o", openai.New(&openai.Options{BaseURL: mock.URL + "/v1", APIKey: "test", API: openai.Responses})},
		{"claude-sonnet-4-5", anthropic.New(&anthropic.Options{BaseURL: mock.URL, APIKey: "test"})},
		{"gemini-2.5-flash", google},
	} {
		answers(mock, t)
		agent, err := react.New(react.Config{
			Name: "demo", Model: m.model, ModelName: m.name, Store: memory.New(nil), Tools: tools(""), Capabilities: []string{"math"},
		})
		require.NoError(t, err)
		in := react.Ask(uuid.New(), "Do I need a coat, and what is 2 plus 3?")
		in.Messages = append(in.Messages, message.NewUserBlocks(message.Text{Value: "This is outside:"},
			message.Media{Kind: message.Image, MediaType: "image/png", Source: message.Source{Type: message.SourceBase64, Value: "iVBORw0KGgo="}}))
		run, err := agent.Start(t.Context(), in)
		require.NoError(t, err)
		s, err := run.Wait(t.Context())
		require.NoError(t, err)
		got := same(s.Messages)
		if want == nil {
			want = got
			require.Len(t, want, 6)
		}
		require.Equal(t, want, got, "%T", m.model)
		require.NoError(t, agent.Shutdown(context.Background()))
	}
}

// same is a conversation without what is never the same: ids, times, and what a reply cost.
func same(messages []message.Message) []message.Message {
	calls := map[string]string{}
	for _, m := range messages {
		*m.Head() = message.Header{Name: m.Head().Name}
		switch m := m.(type) {
		case *message.Assistant:
			for i, c := range m.ToolCalls {
				calls[c.ID] = c.Name
				m.ToolCalls[i].ID = c.Name
			}
		case *message.Tool:
			m.ToolCallID, m.ParentMessageID = calls[m.ToolCallID], uuid.Nil
		}
	}
	return messages
}

func TestAServerWithARealModel(t *testing.T) {
	mock := modeltest.Start(t)
	t.Setenv("OPENAI_BASE_URL", mock.URL+"/v1")
	t.Setenv("OPENAI_API_KEY", "test")
	answers(mock, t)
	s := start(t, t.TempDir(), "-store", "memory:", "-model", "openai:gpt-4o")
	session := uuid.New()
	events := s.run(script(session, "Do I need a coat, and what is 2 plus 3?"))
	require.Len(t, every[event.ToolCallResult](events), 2)
	require.Equal(t, "completed", last[event.RunFinished](t, events).Status)
	stored := s.messages(session, "")
	require.Contains(t, stored[len(stored)-1].Content, "Take a coat")
}
