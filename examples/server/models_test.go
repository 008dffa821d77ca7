package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
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

// answers are a conversation with reasoning and tools in parallel.
func answers(mock *modeltest.Mock, t *testing.T) {
	mock.Answer(t,
		modeltest.Answer{Reply: message.Reply{
			Reasoning:    []message.ReasoningDone{{Text: "It is a question of rain.", Signature: "c2VhbGVk"}},
			Text:         "Let me see.",
			ToolCalls:    []message.ToolCall{reacttest.ToolCall("", "weather", `{"city":"Oslo"}`), reacttest.ToolCall("", "add", `{"a":2,"b":3}`)},
			FinishReason: message.FinishToolCalls,
		}},
		modeltest.Answer{Reply: message.Reply{
			Reasoning: []message.ReasoningDone{{Text: "So a coat.", Signature: "c2VhbGVk"}}, Text: "Take a coat, and it is five.", FinishReason: message.FinishStop,
		}},
	)
}

// signingGemini gives the same answers as Gemini does, which the mock cannot: it signs nothing for Gemini.
func signingGemini(t *testing.T) string {
	const chunk = "data: {\"modelVersion\":\"gemini-2.5-flash\",\"candidates\":[{\"content\":{\"parts\":[%s]},\"finishReason\":%q}]}\n\n"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if bytes.Contains(body, []byte("functionResponse")) {
			fmt.Fprintf(w, chunk, `{"text":"So a coat.","thought":true,"thoughtSignature":"c2VhbGVk"},{"text":"Take a coat, and it is five."}`, "STOP")
			return
		}
		fmt.Fprintf(w, chunk, `{"text":"It is a question ","thought":true}`, "")
		fmt.Fprintf(w, chunk, `{"text":"of rain.","thought":true,"thoughtSignature":"c2VhbGVk"},{"text":"Let me see."}`, "")
		fmt.Fprintf(w, chunk, `{"functionCall":{"name":"weather","args":{"city":"Oslo"}}},{"functionCall":{"name":"add","args":{"a":2,"b":3}}}`, "STOP")
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// wire keeps the requests that pass.
type wire struct{ sent []string }

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	w.sent = append(w.sent, string(body))
	r.Body = io.NopCloser(bytes.NewReader(body))
	return http.DefaultTransport.RoundTrip(r)
}

func TestTheSameConversationIsStoredTheSameWhoeverTheModelIs(t *testing.T) {
	mock := modeltest.Start(t)
	var w wire
	client := &http.Client{Transport: &w}
	google, err := gemini.New(t.Context(), &gemini.Options{BaseURL: signingGemini(t), APIKey: "test", HTTPClient: client})
	require.NoError(t, err)
	chat := openai.Options{BaseURL: mock.URL + "/v1", APIKey: "test", HTTPClient: client, API: openai.ChatCompletions, ReasoningName: "reasoning_content"}
	responses := chat
	responses.API = openai.Responses
	images := []string{"iVBORw0KGgo=", "https://example.com/map.png"}
	var want []message.Message
	for _, m := range []struct {
		name      string
		model     react.Model
		images    [2]string // in each request
		reasoning string    // in the second one, with its signature
	}{
		{"gpt-4o", openai.New(&chat),
			[2]string{`"image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}`, `"image_url":{"url":"https://example.com/map.png"}`},
			`"reasoning_content":"It is a question of rain."`},
		{"gpt-5.2", openai.New(&responses),
			[2]string{`"image_url":"data:image/png;base64,iVBORw0KGgo="`, `"image_url":"https://example.com/map.png"`},
			`"encrypted_content":"%s"`},
		{"claude-sonnet-4-5", anthropic.New(&anthropic.Options{BaseURL: mock.URL, APIKey: "test", HTTPClient: client}),
			[2]string{`"source":{"data":"iVBORw0KGgo=","media_type":"image/png","type":"base64"}`, `"source":{"url":"https://example.com/map.png","type":"url"}`},
			`{"signature":"%s","thinking":"It is a question of rain.","type":"thinking"}`},
		{"gemini-2.5-flash", google,
			[2]string{`{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}}`, `{"fileData":{"mimeType":"image/png","fileUri":"https://example.com/map.png"}}`},
			`{"text":"It is a question of rain.","thought":true,"thoughtSignature":"%s"}`},
	} {
		t.Run(fmt.Sprintf("%T %s", m.model, m.name), func(t *testing.T) {
			answers(mock, t)
			w.sent = nil
			agent, err := react.New(react.Config{
				Name: "demo", Model: m.model, ModelName: m.name, Store: memory.New(nil), Tools: tools(""), Capabilities: []string{"math"},
			})
			require.NoError(t, err)
			defer func() { require.NoError(t, agent.Shutdown(context.Background())) }()
			in := react.Ask(uuid.New(), "Do I need a coat, and what is 2 plus 3?")
			image := func(from message.SourceType, value string) message.Block {
				return message.Media{Kind: message.Image, MediaType: "image/png", Source: message.Source{Type: from, Value: value}}
			}
			in.Messages = append(in.Messages, message.NewUserBlocks(message.Text{Value: "This is outside:"},
				image(message.SourceBase64, images[0]), image(message.SourceURL, images[1])))
			run, err := agent.Start(t.Context(), in)
			require.NoError(t, err)
			s, err := run.Wait(t.Context())
			require.NoError(t, err)
			require.Len(t, s.Messages, 8)
			require.Equal(t, m.name, message.ReplyInfoOf(s.Messages[7]).Model)

			thought, ok := s.Messages[2].(*message.Reasoning)
			require.True(t, ok)
			require.Equal(t, strings.Contains(m.reasoning, "%s"), thought.Signature != "", "Chat Completions has none")
			require.Len(t, w.sent, 2)
			for _, sent := range w.sent {
				require.Contains(t, sent, m.images[0])
				require.Contains(t, sent, m.images[1])
			}
			require.Contains(t, w.sent[1], strings.ReplaceAll(m.reasoning, "%s", thought.Signature), "unchanged")

			got := same(s.Messages)
			if want == nil {
				want = got
			}
			require.Equal(t, want, got)
		})
	}
}

// same is a conversation without what is never the same: ids, times, signatures, and what a reply cost.
func same(messages []message.Message) []message.Message {
	calls := map[string]string{}
	for _, m := range messages {
		*m.Head() = message.Header{Name: m.Head().Name}
		switch m := m.(type) {
		case *message.Reasoning:
			m.Signature = ""
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
