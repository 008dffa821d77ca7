package agui

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"mime"
	"net/url"
	"path"
	"strings"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/httpapi"
	"github.com/everstep-go/everstep/internal/body"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
)

// input is a RunAgentInput: what a client asks for, and all that it knows of the thread.
type input struct {
	thread, run, parent string // as the client spells them
	session, id         uuid.UUID
	v1                  bool // the client speaks 1.0 rather than what was before

	messages []sent
	state    json.RawMessage // an object, nil for none
	vars     []react.ContextVar
	tools    []message.ToolSpec
	resume   []answer
	model    react.Optional[*react.ModelConfig]
	override react.Optional[*react.CapabilityOverride]
	command  json.RawMessage // forwardedProps.command.resume
}

// sent is a message as the client has it.
type sent struct {
	id   string
	role string
	// message is what is taken into the conversation if it does not have it yet; nil: nothing.
	message message.Message
}

// answer is an entry of resume.
type answer struct {
	interrupt string
	cancelled bool
	payload   json.RawMessage
}

// noParameters is the schema of a tool that says nothing about its parameters.
const noParameters = `{"type":"object","properties":{}}`

// decode reads the body of a request. Members that it does not know are ignored (AG-UI 1.0), and null counts as
// left out.
func decode(text []byte) (*input, error) {
	o, err := body.Parse(text)
	if err != nil {
		return nil, err
	}
	in := &input{thread: readID(o, "threadId"), run: readID(o, "runId"), parent: readID(o, "parentRunId"), state: o.Document("state")}
	if o.Raw("protocolVersion") != nil {
		in.v1 = o.Text("protocolVersion") != ""
	}
	if !o.Each("messages", func(item *body.Object) { in.messages = append(in.messages, readMessage(item)) }) {
		o.Wrong("messages", "must be an array")
	}
	o.Each("context", func(item *body.Object) {
		in.vars = append(in.vars, react.ContextVar{Description: item.Text("description"), Value: item.Text("value")})
	})
	o.Each("tools", func(item *body.Object) {
		t := message.ToolSpec{Name: item.Text("name"), Description: item.Text("description"), Parameters: item.Document("parameters")}
		if t.Parameters == nil {
			t.Parameters = json.RawMessage(noParameters)
		}
		in.tools = append(in.tools, t)
	})
	o.Each("resume", func(item *body.Object) {
		status := body.Enum(item, "status", "resolved", "cancelled")
		if status == "" {
			item.Wrong("status", `must be "resolved" or "cancelled"`)
		}
		in.resume = append(in.resume, answer{item.Text("interruptId"), status == "cancelled", item.Raw("payload")})
	})
	if props := o.Object("forwardedProps"); props != nil { // it may be any JSON
		in.model = props.Model("model")
		in.override = body.Optional[*react.CapabilityOverride](props, "capability_override")
		if command := props.Object("command"); command != nil {
			in.command = command.Raw("resume")
		}
	}
	if err := o.Fault(); err != nil {
		return nil, err
	}
	return in, in.check()
}

// check finds the ids of the input, and what is wrong with them.
func (in *input) check() error {
	var faults []react.FieldError
	length := func(field, id string) {
		if len(id) > maxID {
			faults = append(faults, react.FieldError{
				Field: field, Code: "length", Message: fmt.Sprintf("has more than %d bytes", maxID), Params: map[string]any{"max": maxID, "value": len(id)},
			})
		}
	}
	length("threadId", in.thread)
	length("runId", in.run)
	length("parentRunId", in.parent)
	for i, m := range in.messages {
		length(fmt.Sprintf("messages[%d].id", i), m.id)
	}
	answered := map[string]bool{}
	for i, a := range in.resume {
		if answered[a.interrupt] {
			faults = append(faults, react.FieldError{
				Field: fmt.Sprintf("resume[%d].interruptId", i), Code: "unique", Message: fmt.Sprintf("%q occurs twice", a.interrupt),
			})
		}
		answered[a.interrupt] = true
	}
	if len(faults) > 0 {
		return &httpapi.Error{Code: httpapi.CodeInvalid, Fields: faults}
	}
	if in.thread == "" {
		in.thread = uuid.NewString()
	}
	if in.run == "" {
		in.run = uuid.NewString()
	}
	in.session, in.id = SessionID(in.thread), RunID(in.thread, in.run)
	return nil
}

// readID returns an id, empty if it is left out.
func readID(o *body.Object, name string) string {
	if o.Raw(name) == nil {
		return ""
	}
	id := o.Text(name)
	if id == "" {
		o.Wrong(name, "must not be empty")
	}
	return id
}

func readMessage(o *body.Object) sent {
	m := sent{id: readID(o, "id"), role: o.Text("role")}
	if m.id == "" {
		o.Wrong("id", "must be a string")
	}
	head := message.Header{Metadata: o.Document("metadata")}
	switch m.role {
	case "system":
		m.message = &message.System{Header: head, Content: o.Text("content")}
	case "user":
		m.message = &message.User{Header: head, Content: readContent(o)}
	case "tool":
		tool := &message.Tool{Header: head, ToolCallID: o.Text("toolCallId"), Content: new(string)}
		if o.Raw("error") != nil {
			tool.Error = o.Text("error")
		}
		var texts []string
		for _, block := range readContent(o) { // a model gets results as text; the rest is dropped
			if text, ok := block.(message.Text); ok {
				texts = append(texts, text.Value)
			}
		}
		if *tool.Content = strings.Join(texts, "\n"); *tool.Content == "" {
			*tool.Content = tool.Error // contract R12
		}
		m.message = tool
	case "assistant", "developer", "reasoning", "activity":
		// What the agent said, it knows itself.
	default:
		o.Wrong("role", fmt.Sprintf("%q is none of developer, system, user, assistant, tool, reasoning, activity", m.role))
	}
	if m.message == nil || o.Fault() != nil {
		return m
	}
	if err := label(m.message.Head(), m.id); err != nil {
		o.Wrong("metadata", "must be an object")
	}
	return m
}

// readContent returns the content of a user or tool message, a text or parts. Parts that no model takes are
// left out.
func readContent(o *body.Object) []message.Block {
	if value := o.Raw("content"); value == nil || value[0] != '[' {
		text := o.Text("content")
		return []message.Block{message.Text{Value: text}}
	}
	blocks := []message.Block{}
	o.Each("content", func(part *body.Object) {
		if b := readPart(part); b != nil {
			blocks = append(blocks, b)
		}
	})
	return blocks
}

func readPart(o *body.Object) message.Block {
	switch kind := o.Text("type"); kind {
	case "text":
		return message.Text{Value: o.Text("text")}
	case "image", "audio", "video", "document":
		source := o.Object("source")
		if source == nil {
			o.Wrong("source", "must be an object")
			return nil
		}
		m := message.Media{Kind: message.MediaKind(kind)}
		switch source.Text("type") {
		case "data":
			m.MediaType = source.Text("mimeType")
			m.Source = base64Source(source, "value")
		case "url":
			m.Source = urlSource(source, "value")
			if source.Raw("mimeType") != nil {
				m.MediaType = source.Text("mimeType")
			} else {
				m.MediaType = typeOf(m.Source.Value)
			}
		default: // file: the handle of a provider, and what is yet to come
			return nil
		}
		return m
	case "binary": // before 1.0
		m := message.Media{MediaType: o.Text("mimeType")}
		major, _, _ := strings.Cut(m.MediaType, "/")
		switch m.Kind = message.MediaKind(major); m.Kind {
		case message.Image, message.Audio, message.Video:
		default:
			m.Kind = message.Document
		}
		switch {
		case o.Raw("data") != nil:
			m.Source = base64Source(o, "data")
		case o.Raw("url") != nil:
			m.Source = urlSource(o, "url")
		default:
			return nil
		}
		return m
	}
	return nil
}

func base64Source(o *body.Object, name string) message.Source {
	value := o.Text(name)
	if _, err := base64.StdEncoding.Strict().DecodeString(value); err != nil {
		o.Wrong(name, "must be base64")
	}
	return message.Source{Type: message.SourceBase64, Value: value}
}

func urlSource(o *body.Object, name string) message.Source {
	value := o.Text(name)
	if u, err := url.Parse(value); err != nil || !u.IsAbs() {
		o.Wrong(name, "must be an absolute URL")
	}
	return message.Source{Type: message.SourceURL, Value: value}
}

// typeOf guesses the type of what is at a URL from its name, empty if that does not tell.
func typeOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	kind, _, _ := mime.ParseMediaType(mime.TypeByExtension(path.Ext(u.Path)))
	return kind
}
