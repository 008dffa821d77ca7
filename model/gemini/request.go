package gemini

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"

	"google.golang.org/genai"

	"github.com/everstep-go/everstep/internal/provider"
	"github.com/everstep-go/everstep/message"
)

// newBody returns the members of the body that a request becomes, or says what the API cannot take.
func (m *Model) newBody(req *message.Request) (map[string]any, error) {
	if err := req.Validate(); err != nil {
		return nil, fmt.Errorf("gemini: %w", err)
	}
	body := requestBody{Tools: declarations(req.Tools)}
	if req.System != "" {
		body.SystemInstruction = &content{Parts: []part{textPart(req.System)}}
	}
	for i, turn := range req.Turns() {
		c, err := newContent(turn)
		if err != nil {
			return nil, fmt.Errorf("gemini: turn %d, %w", i, err)
		}
		if len(c.Parts) > 0 { // the API refuses a content without parts
			body.Contents = append(body.Contents, c)
		}
	}
	if body.Contents == nil {
		return nil, fmt.Errorf("gemini: %w: the conversation is empty", message.ErrInvalidRequest)
	}
	var err error
	if body.GenerationConfig, err = newConfig(req); err != nil {
		return nil, err
	}
	data, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("gemini: %w: %w", message.ErrInvalidRequest, err)
	}
	return m.withParams(data, req.Params.ProviderParams)
}

func newContent(turn message.Turn) (content, error) {
	switch turn := turn.(type) {
	case message.AssistantTurn:
		return content{Role: genai.RoleModel, Parts: modelParts(turn)}, nil
	case message.UserTurn:
		c := content{Role: genai.RoleUser}
		for i, p := range turn.Parts {
			if p == (message.Text{}) {
				continue // the API refuses empty texts
			}
			sent, err := userPart(p)
			if err != nil {
				return content{}, fmt.Errorf("block %d: %w", i, err)
			}
			c.Parts = append(c.Parts, sent)
		}
		return c, nil
	}
	return content{}, fmt.Errorf("%w: %T", message.ErrUnsupported, turn)
}

// modelParts are the model's own words, with their signatures. Thoughts without one are summaries
// for people, which the model does not need back.
func modelParts(turn message.AssistantTurn) []part {
	var (
		parts  []part
		signed signatures
	)
	for _, r := range turn.Reasoning {
		if !signed.add(r) && r.Signature != "" {
			thought := textPart(r.Content)
			thought.Thought, thought.ThoughtSignature = true, r.Signature
			parts = append(parts, thought)
		}
	}
	parts = append(parts, signed.split(turn.Text)...)
	for i, c := range turn.ToolCalls {
		parts = append(parts, part{
			ThoughtSignature: signed.calls[i],
			FunctionCall:     &functionCall{ID: c.ID, Name: c.Name, Args: provider.Arguments(c.Arguments)},
		})
	}
	return parts
}

func userPart(p message.Part) (part, error) {
	switch p := p.(type) {
	case message.Text:
		return textPart(p.Value), nil
	case message.Media:
		return mediaPart(p)
	case message.ToolResult:
		return part{FunctionResponse: &functionResponse{ID: p.CallID, Name: p.Name, Response: outcome(p)}}, nil
	}
	return part{}, fmt.Errorf("%w: %T", message.ErrUnsupported, p)
}

func mediaPart(m message.Media) (part, error) {
	unsupported := func(why string) (part, error) {
		return part{}, fmt.Errorf("%w: %s %s", message.ErrUnsupported, m.Kind, why)
	}
	if !slices.Contains([]message.MediaKind{message.Image, message.Audio, message.Video, message.Document}, m.Kind) {
		return unsupported("blocks")
	}
	if m.MediaType == "" {
		return unsupported("without a media type")
	}
	switch m.Source.Type {
	case message.SourceBase64:
		return part{InlineData: &inlineData{MIMEType: m.MediaType, Data: m.Source.Value}}, nil
	case message.SourceURL:
		u, err := url.Parse(m.Source.Value)
		if err != nil || !slices.Contains([]string{"https", "http", "gs"}, u.Scheme) {
			return unsupported("by a URL that is neither https, http nor gs")
		}
		return part{FileData: &fileData{MIMEType: m.MediaType, FileURI: m.Source.Value}}, nil
	}
	return unsupported(fmt.Sprintf("from a source of type %q", m.Source.Type))
}

// outcome is what a function responded. Its members have meanings of their own to the API, so
// even an object is not sent bare.
func outcome(r message.ToolResult) map[string]any {
	if r.Failed {
		return map[string]any{"error": strings.TrimPrefix(r.Content, "Error: ")}
	}
	if raw := json.RawMessage(r.Content); isObject(raw) {
		return map[string]any{"output": raw}
	}
	return map[string]any{"output": r.Content}
}

func isObject(raw json.RawMessage) bool {
	return bytes.HasPrefix(bytes.TrimLeft(raw, " \t\r\n"), []byte("{")) && json.Valid(raw)
}

func declarations(specs []message.ToolSpec) []tools {
	if len(specs) == 0 {
		return nil
	}
	declared := make([]functionDeclaration, len(specs))
	for i, s := range specs {
		declared[i] = functionDeclaration(s)
	}
	return []tools{{declared}}
}

func newConfig(req *message.Request) (generationConfig, error) {
	p := req.Params
	for _, n := range []struct {
		name  string
		value *uint64
	}{{"max_tokens", p.MaxTokens}, {"seed", p.Seed}} {
		if n.value != nil && *n.value > math.MaxInt32 {
			return generationConfig{}, fmt.Errorf("gemini: %w: %s %d is more than %d", message.ErrUnsupported, n.name, *n.value, math.MaxInt32)
		}
	}
	c := generationConfig{
		MaxOutputTokens: p.MaxTokens, Temperature: p.Temperature, TopP: p.TopP, TopK: p.TopK, StopSequences: p.StopSequences,
		FrequencyPenalty: p.FrequencyPenalty, PresencePenalty: p.PresencePenalty, Seed: p.Seed,
	}
	if req.Output != nil {
		c.ResponseMIMEType, c.ResponseJSONSchema = "application/json", req.Output
	}
	return c, nil
}

// ours are the members of the body that are the agent's, in both spellings that the API knows.
var ours = []string{"model", "contents", "systemInstruction", "system_instruction"}

// withParams adds the provider's own parameters to a body.
func (m *Model) withParams(body, params json.RawMessage) (map[string]any, error) {
	given, err := m.adapter.Params(params, ours...)
	if err != nil {
		return nil, err
	}
	if len(given) > 0 {
		if body, err = merge(body, params); err != nil {
			return nil, fmt.Errorf("gemini: %w: provider_params: %w", message.ErrInvalidRequest, err)
		}
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return nil, err
	}
	all := make(map[string]any, len(members))
	for name, value := range members {
		all[name] = value
	}
	return all, nil
}

// merge returns the object base with the members of the object over. Objects are merged in turn,
// tools follow those that are there, everything else takes the place of what is there.
func merge(base, over json.RawMessage) (json.RawMessage, error) {
	var to, from map[string]json.RawMessage
	if err := json.Unmarshal(base, &to); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(over, &from); err != nil {
		return nil, err
	}
	for name, value := range from {
		there, ok := to[name]
		var err error
		switch {
		case ok && isObject(there) && isObject(value):
			value, err = merge(there, value)
		case ok && name == "tools":
			value, err = concat(there, value)
		}
		if err != nil {
			return nil, err
		}
		to[name] = value
	}
	return json.Marshal(to)
}

func concat(a, b json.RawMessage) (json.RawMessage, error) {
	var first, second []json.RawMessage
	if err := json.Unmarshal(a, &first); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, &second); err != nil {
		return nil, err
	}
	return json.Marshal(append(first, second...))
}
