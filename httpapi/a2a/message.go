package a2a

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"mime"
	"net/url"
	"slices"
	"strings"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/uuid"

	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/internal/wire"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
)

// sessionOf returns the session of a context: a UUID is one, any other text is hashed (contract 7.6).
func sessionOf(contextID string) uuid.UUID {
	if id, ok := wire.ParseUUID(contextID); ok && id != uuid.Nil {
		return id
	}
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte(contextID))
}

// received is a message as a client sent it: its data is kept as it was spelled.
type received struct{ sdk.Message }

// UnmarshalJSON reads a message.
func (r *received) UnmarshalJSON(text []byte) error {
	var spelled struct {
		Parts []struct {
			Data json.RawMessage `json:"data"`
		} `json:"parts"`
	}
	if err := json.Unmarshal(text, &r.Message); err != nil {
		return err
	}
	if err := json.Unmarshal(text, &spelled); err != nil {
		return err
	}
	for i, p := range r.Parts {
		if p == nil {
			continue
		}
		if _, ok := p.Content.(sdk.Data); ok && i < len(spelled.Parts) {
			p.Content = sdk.Data{Value: spelled.Parts[i].Data}
		}
	}
	return nil
}

// checkMessage refuses what the specification says no client sends.
func checkMessage(m *sdk.Message) error {
	switch {
	case m == nil:
		return fault(sdk.ErrInvalidParams, "message is missing")
	case m.ID == "":
		return fault(sdk.ErrInvalidParams, "message.messageId is missing: a message that is sent again is known by it")
	case m.Role != sdk.MessageRoleUser:
		return fault(sdk.ErrInvalidParams, "message.role must be %s, not %q", sdk.MessageRoleUser, m.Role)
	case len(m.Parts) == 0:
		return fault(sdk.ErrInvalidParams, "message.parts is empty")
	}
	for i, p := range m.Parts {
		if p == nil || p.Content == nil {
			return fault(sdk.ErrInvalidParams, "message.parts[%d] has no content: one of text, raw, url and data", i)
		}
	}
	for name, text := range map[string]string{"messageId": m.ID, "contextId": m.ContextID} {
		if len(text) > maxID {
			return fault(sdk.ErrInvalidParams, "message.%s is longer than %d bytes", name, maxID)
		}
	}
	return nil
}

// maxID is how many bytes an id of a client may have.
const maxID = 1024

// hashOf tells messages apart by all that they say.
func hashOf(m *sdk.Message) (string, error) {
	text, err := json.Marshal(m)
	if err != nil {
		return "", fault(sdk.ErrInvalidParams, "message: %v", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// inputOf returns what a message gives a new run: the texts and files are one message of the user; data
// is in the context (contract 7.6), and if there is nothing else, the text of the message too.
func (s *Server) inputOf(m *sdk.Message) (in react.Input, err error) {
	user := message.NewUserBlocks()
	var data []json.RawMessage
	for i, p := range m.Parts {
		switch c := p.Content.(type) {
		case sdk.Text:
			user.Content = append(user.Content, message.Text{Value: string(c)})
		case sdk.Data:
			text, err := wire.Marshal(c.Value)
			if err != nil {
				return in, fault(sdk.ErrInvalidParams, "message.parts[%d].data: %v", i, err)
			}
			data = append(data, text)
		default:
			block, err := s.media(i, p)
			if err != nil {
				return in, err
			}
			user.Content = append(user.Content, block)
		}
	}
	if len(data) > 0 {
		value := json.RawMessage(bytes.Join([][]byte{[]byte("["), join(data), []byte("]")}, nil))
		if len(data) == 1 {
			value = data[0]
		}
		if in.Context, err = wire.Marshal(map[string]json.RawMessage{"a2a_input": value}); err != nil {
			return in, err
		}
		if len(user.Content) == 0 {
			user.Content = []message.Block{message.Text{Value: string(value)}}
		}
	}
	if user.Metadata, err = wire.Marshal(map[string]any{"a2a": map[string]string{"message_id": m.ID}}); err != nil {
		return in, err
	}
	in.Messages = []message.Message{user}
	if tools, ok := m.Metadata[ToolsExtension]; ok {
		if in.Tools, err = clientTools(tools); err != nil {
			return in, err
		}
	}
	return in, nil
}

func join(parts []json.RawMessage) []byte {
	texts := make([][]byte, len(parts))
	for i, p := range parts {
		texts[i] = p
	}
	return bytes.Join(texts, []byte(","))
}

// media returns the block of a file.
func (s *Server) media(i int, p *sdk.Part) (message.Block, error) {
	kind, _, err := mime.ParseMediaType(p.MediaType)
	if err != nil {
		return nil, fault(sdk.ErrInvalidParams, "message.parts[%d].mediaType: %q is no media type", i, p.MediaType)
	}
	if !slices.ContainsFunc(s.opts.InputModes, func(mode string) bool { return accepts(mode, kind) }) {
		return nil, fault(sdk.ErrUnsupportedContentType, "message.parts[%d]: the agent takes no %s, but %s", i, kind, strings.Join(s.opts.InputModes, ", "))
	}
	block := message.Media{Kind: message.Document, MediaType: p.MediaType}
	switch family, _, _ := strings.Cut(kind, "/"); family {
	case "image", "audio", "video":
		block.Kind = message.MediaKind(family)
	}
	switch c := p.Content.(type) {
	case sdk.URL:
		if u, err := url.Parse(string(c)); err != nil || !u.IsAbs() {
			return nil, fault(sdk.ErrInvalidParams, "message.parts[%d].url: %q is no absolute URL", i, c)
		}
		block.Source = message.Source{Type: message.SourceURL, Value: string(c)}
	case sdk.Raw:
		block.Source = message.Source{Type: message.SourceBase64, Value: base64.StdEncoding.EncodeToString(c)}
	}
	return block, nil
}

// accepts reports whether a media type is one of a mode, such as image/png or image/*.
func accepts(mode, kind string) bool {
	family, ok := strings.CutSuffix(mode, "*")
	return mode == kind || ok && strings.HasPrefix(kind, family)
}

// ToolsExtension is the extension by which a client brings tools of its own. In the metadata of a
// message, under this URI, stands an object whose member tools lists them: name, description and
// parameters, a JSON schema. They stay until a message of the context brings others. A call of such a
// tool is asked as any other question.
const ToolsExtension = "https://github.com/everstep-go/everstep/tree/main/httpapi/a2a#tools-v1"

func clientTools(value any) (tools react.Optional[[]message.ToolSpec], err error) {
	text, err := wire.Marshal(value)
	if err == nil {
		var brought struct {
			Tools []message.ToolSpec `json:"tools"`
		}
		if err = json.Unmarshal(text, &brought); err == nil {
			return react.Set(brought.Tools), nil
		}
	}
	return tools, fault(sdk.ErrInvalidParams, "message.metadata[%q]: %v", ToolsExtension, err)
}

// asking is how a client is asked: in words for a person, and as data with what an answer needs to
// name.
func asking(open []item) []*sdk.Part {
	var words []string
	var ask struct {
		Questions []graph.Question   `json:"questions,omitempty"`
		ToolCalls []message.ToolCall `json:"tool_calls,omitempty"`
	}
	for _, i := range open {
		if i.call != nil {
			ask.ToolCalls = append(ask.ToolCalls, *i.call)
			words = append(words, fmt.Sprintf("Please call %s with %s.", i.call.Name, i.call.Arguments))
			continue
		}
		ask.Questions = append(ask.Questions, *i.question)
		words = append(words, wordsOf(*i.question))
	}
	return []*sdk.Part{sdk.NewTextPart(strings.Join(words, "\n")), sdk.NewDataPart(ask)}
}

// wordsOf puts a question into words.
func wordsOf(q graph.Question) string {
	if a, ok := approvalOf(q); ok {
		return fmt.Sprintf("May the agent call %s with %s?", a.Tool, a.Arguments)
	}
	var text string
	if json.Unmarshal(q.Payload, &text) == nil {
		return text
	}
	var known struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(q.Payload, &known) == nil && known.Message != "" {
		return known.Message
	}
	return string(q.Payload)
}

// approvalOf returns what a question wants approved.
func approvalOf(q graph.Question) (a react.ApprovalRequest, ok bool) {
	d := json.NewDecoder(bytes.NewReader(q.Payload))
	d.DisallowUnknownFields()
	return a, d.Decode(&a) == nil && a.Tool != "" && len(a.Arguments) > 0
}

// wantsAuthorization reports whether a question is one of another agent that needs credentials.
func wantsAuthorization(i item) bool {
	var asked foreignQuestion
	return i.question != nil && json.Unmarshal(i.question.Payload, &asked) == nil && asked.State == sdk.TaskStateAuthRequired
}

// answer reads a message as the answer to what is open. Data whose members are named like questions and
// calls answers those. Anything else is the answer to the only one: data as it is, text as a text.
func (n *turn) answer(open []item, m *sdk.Message) error {
	byID, err := answers(open, m)
	if err != nil {
		return err
	}
	replies := map[string]json.RawMessage{}
	for _, i := range open {
		value, ok := byID[i.id()]
		switch {
		case !ok:
		case i.call != nil:
			if n.Results == nil {
				n.Results = map[string]json.RawMessage{}
			}
			n.Results[i.call.ID] = value
		default:
			if _, approval := approvalOf(*i.question); approval {
				if value, err = approvalIn(value); err != nil {
					return err
				}
			}
			replies[i.question.ID] = value
		}
	}
	if len(replies) > 0 {
		n.Resume, err = wire.Marshal(replies)
	}
	return err
}

func answers(open []item, m *sdk.Message) (map[string]json.RawMessage, error) {
	var data []json.RawMessage
	var words []string
	for i, p := range m.Parts {
		switch c := p.Content.(type) {
		case sdk.Data:
			text, err := wire.Marshal(c.Value)
			if err != nil {
				return nil, fault(sdk.ErrInvalidParams, "message.parts[%d].data: %v", i, err)
			}
			data = append(data, text)
		case sdk.Text:
			words = append(words, string(c))
		default:
			return nil, fault(sdk.ErrUnsupportedContentType, "message.parts[%d]: an answer is text or data", i)
		}
	}
	ids := make([]string, len(open))
	for i := range open {
		ids[i] = open[i].id()
	}
	if len(data) == 1 {
		var byID map[string]json.RawMessage
		if json.Unmarshal(data[0], &byID) == nil && len(byID) > 0 {
			known := 0
			for id := range byID {
				if slices.Contains(ids, id) {
					known++
				}
			}
			if known == len(byID) {
				return byID, nil
			}
			if known > 0 {
				return nil, fault(sdk.ErrInvalidParams, "the answer has members that are not asked for: these are: %q", ids)
			}
		}
	}
	if len(open) > 1 || len(data) > 1 {
		return nil, fault(sdk.ErrInvalidParams, "%d answers are needed: send one data part, an object with the members %q", len(open), ids)
	}
	if len(data) == 1 {
		return map[string]json.RawMessage{ids[0]: data[0]}, nil
	}
	text, err := wire.Marshal(strings.Join(words, "\n"))
	return map[string]json.RawMessage{ids[0]: text}, err
}

// approvalIn reads an approval, which a person may have given in a word.
func approvalIn(value json.RawMessage) (json.RawMessage, error) {
	var word string
	if json.Unmarshal(value, &word) == nil {
		switch strings.ToLower(strings.Trim(word, " \t\r\n.!")) {
		case "yes", "y", "ok", "approve", "approved":
			return wire.Marshal(react.Approval{Approved: true})
		case "no", "n", "reject", "rejected", "deny", "denied":
			return wire.Marshal(react.Approval{})
		}
		return nil, fault(sdk.ErrInvalidParams, `whether the call is approved is not clear: answer yes or no, or send the data {"approved":true} or {"approved":false,"reason":"…"}`)
	}
	var a react.Approval
	if err := json.Unmarshal(value, &a); err != nil {
		return nil, fault(sdk.ErrInvalidParams, `an approval is {"approved":true} or {"approved":false,"reason":"…"}`)
	}
	return value, nil
}

// textArtifact is one text of the agent. Texts are numbered within the task: one that is said again
// after a crash has the number of the one that was lost.
func textArtifact(number int, text string) *sdk.Artifact {
	return &sdk.Artifact{ID: textArtifactID(number), Name: "Agent Response", Parts: sdk.ContentParts{sdk.NewTextPart(text)}}
}

func textArtifactID(number int) sdk.ArtifactID {
	if number == 1 {
		return "response"
	}
	return sdk.ArtifactID(fmt.Sprintf("response-%d", number))
}

// contextArtifact is the context of the session, nil if there is nothing in it.
func contextArtifact(context json.RawMessage) *sdk.Artifact {
	if text := string(context); text == "" || text == "{}" || text == "null" {
		return nil
	}
	return &sdk.Artifact{ID: "state", Name: "Final State", Parts: sdk.ContentParts{sdk.NewDataPart(context)}}
}
