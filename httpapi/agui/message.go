package agui

import (
	"encoding/json"

	"github.com/everstep-go/everstep/internal/wire"
	"github.com/everstep-go/everstep/message"
)

// The messages of AG-UI. What is absent is left out: null is refused by clients.
type (
	head struct {
		ID       string          `json:"id"`
		Role     message.Role    `json:"role"`
		Name     string          `json:"name,omitempty"`
		Metadata json.RawMessage `json:"metadata,omitempty"`
	}
	textMessage struct { // system
		head
		Content string `json:"content"`
	}
	userMessage struct {
		head
		Content any `json:"content"` // a text or parts
	}
	assistantMessage struct {
		head
		Content   string     `json:"content,omitempty"`
		ToolCalls []toolCall `json:"toolCalls,omitempty"`
	}
	toolMessage struct {
		head
		Content    string `json:"content"`
		ToolCallID string `json:"toolCallId"`
		Error      string `json:"error,omitempty"`
	}
	reasoningMessage struct {
		head
		Content        string `json:"content"`
		EncryptedValue string `json:"encryptedValue,omitempty"`
	}
	toolCall struct {
		ID       string       `json:"id"`
		Type     string       `json:"type"`
		Function functionCall `json:"function"`
	}
	functionCall struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"` // JSON text
	}
	textPart struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	mediaPart struct {
		Type   message.MediaKind `json:"type"`
		Source source            `json:"source"`
	}
	source struct {
		Type     string `json:"type"`
		Value    string `json:"value"`
		MIMEType string `json:"mimeType,omitempty"`
	}
)

// appendMessages appends a conversation as clients see it.
func appendMessages(b []byte, messages []message.Message) ([]byte, error) {
	b = append(b, '[')
	for i, m := range messages {
		if i > 0 {
			b = append(b, ',')
		}
		text, err := wire.Marshal(newMessage(m))
		if err != nil {
			return b, err
		}
		b = append(b, text...)
	}
	return append(b, ']'), nil
}

func newMessage(m message.Message) any {
	id, metadata := unlabel(m.Head())
	h := head{id, m.Role(), m.Head().Name, metadata}
	switch m := m.(type) {
	case *message.System:
		return textMessage{h, m.Content}
	case *message.User:
		return userMessage{h, newContent(m.Content)}
	case *message.Assistant:
		a := assistantMessage{head: h, Content: m.Content}
		for _, c := range m.ToolCalls {
			arguments := string(c.Arguments)
			if arguments == "" {
				arguments = "{}"
			}
			a.ToolCalls = append(a.ToolCalls, toolCall{c.ID, "function", functionCall{c.Name, arguments}})
		}
		return a
	case *message.Tool:
		h.Name = "" // tool messages have none
		t := toolMessage{head: h, ToolCallID: m.ToolCallID, Error: m.Error}
		if m.Content != nil {
			t.Content = *m.Content
		}
		return t
	case *message.Reasoning:
		h.Name = ""
		return reasoningMessage{h, m.Content, m.Signature}
	}
	return h
}

// newContent is the text if there is nothing else: that is what most clients sent, and what all of them can show.
func newContent(blocks []message.Block) any {
	if len(blocks) == 1 {
		if text, ok := blocks[0].(message.Text); ok {
			return text.Value
		}
	}
	parts := make([]any, 0, len(blocks))
	for _, b := range blocks {
		switch b := b.(type) {
		case message.Text:
			parts = append(parts, textPart{"text", b.Value})
		case message.Media:
			s := source{"url", b.Source.Value, b.MediaType}
			if b.Source.Type == message.SourceBase64 {
				s.Type = "data"
			}
			parts = append(parts, mediaPart{b.Kind, s})
		}
	}
	return parts
}
