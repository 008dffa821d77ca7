package agui

import (
	"github.com/everstep-go/everstep/internal/wire"
	"github.com/everstep-go/everstep/message"
)

// messages appends a conversation as clients see it. What is absent is left out: null is refused by clients.
// Written by hand, like the events, because a thread of thousands of messages is restated in every run.
func (f *frames) messages(list []message.Message) {
	f.name("messages")
	f.b = append(f.b, '[')
	for i, m := range list {
		if i > 0 {
			f.b = append(f.b, ',')
		}
		f.message(m)
	}
	f.b = append(f.b, ']')
}

func (f *frames) message(m message.Message) {
	id, metadata := unlabel(m.Head())
	f.b = wire.AppendText(append(f.b, `{"id":`...), id)
	f.text("role", string(m.Role()))
	switch m := m.(type) {
	case *message.System:
		f.optional("name", m.Name)
		f.text("content", m.Content)
	case *message.User:
		f.optional("name", m.Name)
		f.content(m.Content)
	case *message.Assistant:
		f.optional("name", m.Name)
		f.optional("content", m.Content)
		f.toolCalls(m.ToolCalls)
	case *message.Tool:
		f.text("toolCallId", m.ToolCallID)
		content := ""
		if m.Content != nil {
			content = *m.Content
		}
		f.text("content", content)
		f.optional("error", m.Error)
	case *message.Reasoning:
		f.text("content", m.Content)
		f.optional("encryptedValue", m.Signature)
	}
	if metadata != nil {
		f.raw("metadata", metadata)
	}
	f.b = append(f.b, '}')
}

// optional appends a text, unless it is empty.
func (f *frames) optional(name, value string) {
	if value != "" {
		f.text(name, value)
	}
}

func (f *frames) toolCalls(calls []message.ToolCall) {
	if len(calls) == 0 {
		return
	}
	f.name("toolCalls")
	f.b = append(f.b, '[')
	for i, c := range calls {
		if i > 0 {
			f.b = append(f.b, ',')
		}
		f.b = wire.AppendText(append(f.b, `{"id":`...), c.ID)
		f.b = wire.AppendText(append(f.b, `,"type":"function","function":{"name":`...), c.Name)
		arguments := string(c.Arguments)
		if arguments == "" {
			arguments = "{}"
		}
		f.text("arguments", arguments) // as JSON text
		f.b = append(f.b, "}}"...)
	}
	f.b = append(f.b, ']')
}

// content appends the text if there is nothing else: that is what most clients sent, and what all of them can show;
// and else parts.
func (f *frames) content(blocks []message.Block) {
	if len(blocks) == 1 {
		if text, ok := blocks[0].(message.Text); ok {
			f.text("content", text.Value)
			return
		}
	}
	f.name("content")
	f.b = append(f.b, '[')
	for i, b := range blocks {
		if i > 0 {
			f.b = append(f.b, ',')
		}
		switch b := b.(type) {
		case message.Text:
			f.b = append(f.b, `{"type":"text"`...)
			f.text("text", b.Value)
		case message.Media:
			f.b = wire.AppendText(append(f.b, `{"type":`...), string(b.Kind))
			source := `{"type":"url"`
			if b.Source.Type == message.SourceBase64 {
				source = `{"type":"data"`
			}
			f.name("source")
			f.b = append(f.b, source...)
			f.text("value", b.Source.Value)
			if b.MediaType != "" || b.Source.Type == message.SourceBase64 {
				f.text("mimeType", b.MediaType)
			}
			f.b = append(f.b, '}')
		}
		f.b = append(f.b, '}')
	}
	f.b = append(f.b, ']')
}
