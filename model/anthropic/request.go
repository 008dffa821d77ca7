package anthropic

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/anthropics/anthropic-sdk-go/v2/packages/param"

	"github.com/everstep-go/everstep/internal/provider"
	"github.com/everstep-go/everstep/message"
)

// sampling are members that the version of the API which the SDK speaks has no more.
var sampling = []string{"temperature", "top_p", "top_k"}

// request returns what is sent for req.
func (m *Model) request(req *message.Request) (sdk.MessageNewParams, []option.RequestOption, error) {
	var params sdk.MessageNewParams
	if m.opts.APIKey == "" {
		return params, nil, &message.ProviderError{
			Provider: m.adapter.Name, Message: "no key: set Options.APIKey or ANTHROPIC_API_KEY", Kind: message.ErrUnauthorized,
		}
	}
	if err := req.Validate(); err != nil {
		return params, nil, fmt.Errorf("anthropic: %w", err)
	}
	if err := m.adapter.CheckURL(m.opts.BaseURL); err != nil {
		return params, nil, err
	}
	if err := m.adapter.Without(req.Params, "frequency_penalty", "presence_penalty", "seed"); err != nil {
		return params, nil, err
	}
	members, err := m.members(req)
	if err != nil {
		return params, nil, err
	}
	params = sdk.MessageNewParams{
		Model:         req.Model,
		MaxTokens:     m.opts.MaxTokens,
		StopSequences: req.Params.StopSequences,
		Tools:         tools(req.Tools),
	}
	if req.Params.MaxTokens != nil {
		params.MaxTokens = int64(min(*req.Params.MaxTokens, math.MaxInt64))
	}
	if !blank(req.System) {
		params.System = []sdk.TextBlockParam{{Text: req.System}}
	}
	if params.Messages, err = turns(req.Turns()); err != nil {
		return params, nil, err
	}
	if m.opts.CacheControl {
		markForCache(&params)
	}
	return params, members, nil
}

// members returns the settings that put into the body what the SDK has no fields for. They are in a fixed
// order, for the same request to be the same bytes.
func (m *Model) members(req *message.Request) ([]option.RequestOption, error) {
	body := map[string]any{}
	if p := req.Params.Temperature; p != nil {
		body["temperature"] = *p
	}
	if p := req.Params.TopP; p != nil {
		body["top_p"] = *p
	}
	if p := req.Params.TopK; p != nil {
		body["top_k"] = *p
	}
	given, err := m.adapter.Params(req.Params.ProviderParams, "model", "messages", "system", "tools", "stream")
	if err != nil {
		return nil, err
	}
	for name, value := range given {
		body[name] = value
	}
	var settings []option.RequestOption
	for _, name := range slices.Sorted(maps.Keys(body)) {
		settings = append(settings, option.WithJSONSet(param.EscapeSJSONKey(name), body[name]))
		if slices.Contains(sampling, name) {
			settings = append(settings, option.WithHeader("anthropic-version", "2023-06-01"))
		}
	}
	if req.Output != nil {
		// It joins the rest of an output_config, such as effort, that provider_params may have.
		format := map[string]any{"type": "json_schema", "schema": req.Output}
		settings = append(settings, option.WithJSONSet("output_config.format", format))
	}
	return settings, nil
}

func tools(specs []message.ToolSpec) []sdk.ToolUnionParam {
	var all []sdk.ToolUnionParam
	for _, spec := range specs {
		schema := spec.Parameters
		if len(schema) == 0 {
			schema = json.RawMessage(`{"type":"object"}`)
		}
		tool := &sdk.ToolParam{Name: spec.Name, InputSchema: param.Override[sdk.ToolInputSchemaParam](schema)}
		if spec.Description != "" {
			tool.Description = sdk.String(spec.Description)
		}
		all = append(all, sdk.ToolUnionParam{OfTool: tool})
	}
	return all
}

// turns returns a conversation whose speakers alternate and which the user ends.
func turns(all []message.Turn) ([]sdk.MessageParam, error) {
	var (
		messages []sdk.MessageParam
		content  []sdk.ContentBlockParamUnion
		user     bool // speaks
	)
	flush := func() {
		switch {
		case len(content) == 0:
		case user:
			messages = append(messages, sdk.NewUserMessage(content...))
		default:
			messages = append(messages, sdk.NewAssistantMessage(content...))
		}
		content = nil
	}
	for _, turn := range all {
		blocks, err := contentOf(turn)
		if err != nil {
			return nil, err
		}
		if len(blocks) == 0 {
			continue
		}
		_, isUser := turn.(message.UserTurn)
		if isUser != user {
			flush()
		}
		user, content = isUser, append(content, blocks...)
	}
	if flush(); !user {
		return nil, fmt.Errorf("anthropic: %w: the last user message is blank", message.ErrInvalidRequest)
	}
	return messages, nil
}

// contentOf returns the blocks of a turn, none if it says nothing.
func contentOf(turn message.Turn) ([]sdk.ContentBlockParamUnion, error) {
	if said, ok := turn.(message.AssistantTurn); ok {
		return assistant(said), nil
	}
	var blocks []sdk.ContentBlockParamUnion
	for _, p := range turn.(message.UserTurn).Parts {
		block, err := part(p)
		if err != nil {
			return nil, err
		}
		if block != nil {
			blocks = append(blocks, *block)
		}
	}
	return blocks, nil
}

// part returns a piece of a user turn, nil if it is blank.
func part(p message.Part) (*sdk.ContentBlockParamUnion, error) {
	var block sdk.ContentBlockParamUnion
	switch p := p.(type) {
	case message.Text:
		if blank(p.Value) {
			return nil, nil
		}
		block = sdk.NewTextBlock(p.Value)
	case message.Media:
		return media(p)
	case message.ToolResult:
		result := &sdk.ToolResultBlockParam{ToolUseID: callID(p.CallID)}
		if !blank(p.Content) {
			result.Content = []sdk.ToolResultBlockParamContentUnion{{OfText: &sdk.TextBlockParam{Text: p.Content}}}
		}
		if p.Failed {
			result.IsError = sdk.Bool(true)
		}
		block.OfToolResult = result
	}
	return &block, nil
}

func media(m message.Media) (*sdk.ContentBlockParamUnion, error) {
	var (
		block    sdk.ContentBlockParamUnion
		isURL    = m.Source.Type == message.SourceURL
		mimeType = strings.ToLower(m.MediaType)
	)
	if mimeType == "image/jpg" {
		mimeType = "image/jpeg"
	}
	switch {
	case m.Kind == message.Image && isURL:
		block = sdk.NewImageBlock(sdk.URLImageSourceParam{URL: m.Source.Value})
	case m.Kind == message.Image && slices.Contains([]string{"image/jpeg", "image/png", "image/gif", "image/webp"}, mimeType):
		block = sdk.NewImageBlockBase64(mimeType, m.Source.Value)
	case m.Kind == message.Document && mimeType == "application/pdf" && isURL:
		block = sdk.NewDocumentBlock(sdk.URLPDFSourceParam{URL: m.Source.Value})
	case m.Kind == message.Document && mimeType == "application/pdf":
		block = sdk.NewDocumentBlock(sdk.Base64PDFSourceParam{Data: m.Source.Value})
	default:
		return nil, fmt.Errorf("anthropic: %w: %s of type %q", message.ErrUnsupported, m.Kind, m.MediaType)
	}
	return &block, nil
}

func assistant(turn message.AssistantTurn) []sdk.ContentBlockParamUnion {
	if blank(turn.Text) && len(turn.ToolCalls) == 0 {
		return nil
	}
	var blocks []sdk.ContentBlockParamUnion
	for _, r := range turn.Reasoning {
		if data, ok := strings.CutPrefix(r.Signature, redacted); ok && r.Content == "" {
			blocks = append(blocks, sdk.NewRedactedThinkingBlock(data))
		} else if r.Signature != "" {
			blocks = append(blocks, sdk.NewThinkingBlock(r.Signature, r.Content))
		}
	}
	if !blank(turn.Text) {
		blocks = append(blocks, sdk.NewTextBlock(turn.Text))
	}
	for _, call := range turn.ToolCalls {
		blocks = append(blocks, sdk.NewToolUseBlock(callID(call.ID), provider.Arguments(call.Arguments), call.Name))
	}
	return blocks
}

// callID returns id in the alphabet that the API insists on.
func callID(id string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, id)
}

// markForCache marks the ends of what the next request will repeat, in the order in which the provider reads
// them: tools, system text, turns.
func markForCache(params *sdk.MessageNewParams) {
	mark := sdk.NewCacheControlEphemeralParam()
	if n := len(params.Tools); n > 0 {
		params.Tools[n-1].OfTool.CacheControl = mark
	}
	if n := len(params.System); n > 0 {
		params.System[n-1].CacheControl = mark
	}
	content := params.Messages[len(params.Messages)-1].OfUser.Content
	*content[len(content)-1].GetCacheControl() = mark
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }
