package openai

import (
	"bytes"
	"cmp"
	"encoding/json"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"github.com/everstep-go/everstep/internal/provider"
	"github.com/everstep-go/everstep/message"
)

// chatParams returns the request in the dialect of Chat Completions.
func (m *Model) chatParams(req *message.Request) (sdk.ChatCompletionNewParams, error) {
	p := sdk.ChatCompletionNewParams{
		Model:         req.Model,
		StreamOptions: sdk.ChatCompletionStreamOptionsParam{IncludeUsage: param.NewOpt(true)},
	}
	more, err := m.extras(req.Params)
	if err != nil {
		return p, err
	}
	if req.System != "" {
		p.Messages = append(p.Messages, sdk.SystemMessage(req.System))
	}
	for _, turn := range req.Turns() {
		messages, err := m.chatMessages(turn)
		if err != nil {
			return p, err
		}
		p.Messages = append(p.Messages, messages...)
	}
	for _, t := range req.Tools {
		f := shared.FunctionDefinitionParam{Name: t.Name, Description: optional(t.Description)}
		f.SetExtraFields(map[string]any{"parameters": schema(t.Parameters)})
		p.Tools = append(p.Tools, sdk.ChatCompletionFunctionTool(f))
	}
	if req.Output != nil {
		format := shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "reply", Schema: req.Output}
		if strict(req.Output) {
			format.Strict = param.NewOpt(true)
		}
		p.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{JSONSchema: format}
	}
	p.SetExtraFields(m.tuneChat(&p, req.Params, more))
	return p, nil
}

// tuneChat sets the parameters: those that OpenAI has in p, the others in more, unless it has them.
func (m *Model) tuneChat(p *sdk.ChatCompletionNewParams, params message.Params, more map[string]any) map[string]any {
	p.Temperature, p.TopP = given(params.Temperature), given(params.TopP)
	p.FrequencyPenalty, p.PresencePenalty = given(params.FrequencyPenalty), given(params.PresencePenalty)
	if params.Seed != nil {
		p.Seed = param.NewOpt(limited(*params.Seed))
	}
	if len(params.StopSequences) > 0 {
		p.Stop.OfStringArray = params.StopSequences
	}
	extra := map[string]any{}
	if params.MaxTokens != nil {
		extra[m.opts.MaxTokensName] = limited(*params.MaxTokens)
	}
	if params.TopK != nil {
		extra["top_k"] = *params.TopK // OpenAI refuses it; other servers know it
	}
	for name, value := range more {
		extra[name] = value
	}
	return extra
}

func (m *Model) chatMessages(turn message.Turn) ([]sdk.ChatCompletionMessageParamUnion, error) {
	switch turn := turn.(type) {
	case message.AssistantTurn:
		return []sdk.ChatCompletionMessageParamUnion{m.chatAssistant(turn)}, nil
	case message.UserTurn:
		return chatUser(turn)
	}
	return nil, nil
}

func (m *Model) chatAssistant(turn message.AssistantTurn) sdk.ChatCompletionMessageParamUnion {
	var a sdk.ChatCompletionAssistantMessageParam
	if turn.Text != "" {
		a.Content.OfString = param.NewOpt(turn.Text)
	}
	for _, c := range turn.ToolCalls {
		a.ToolCalls = append(a.ToolCalls, sdk.ChatCompletionMessageToolCallUnionParam{
			OfFunction: &sdk.ChatCompletionMessageFunctionToolCallParam{
				ID:       c.ID,
				Function: sdk.ChatCompletionMessageFunctionToolCallFunctionParam{Name: c.Name, Arguments: string(provider.Arguments(c.Arguments))},
			},
		})
	}
	if thought := reasoningText(turn.Reasoning); m.opts.ReasoningName != "" && thought != "" {
		a.SetExtraFields(map[string]any{m.opts.ReasoningName: thought})
	}
	return sdk.ChatCompletionMessageParamUnion{OfAssistant: &a}
}

func reasoningText(blocks []*message.Reasoning) (all string) {
	for _, r := range blocks {
		all += r.Content
	}
	return all
}

// chatUser returns a message for each tool result, or one for all that the user says.
func chatUser(turn message.UserTurn) ([]sdk.ChatCompletionMessageParamUnion, error) {
	var (
		results []sdk.ChatCompletionMessageParamUnion
		parts   []sdk.ChatCompletionContentPartUnionParam
	)
	for _, part := range turn.Parts {
		switch part := part.(type) {
		case message.ToolResult:
			results = append(results, sdk.ToolMessage(part.Content, part.CallID))
		case message.Text:
			parts = append(parts, sdk.TextContentPart(part.Value))
		case message.Media:
			media, err := chatMedia(part)
			if err != nil {
				return nil, err
			}
			parts = append(parts, media)
		}
	}
	switch {
	case len(results) > 0:
		return results, nil
	case len(parts) == 0:
		return []sdk.ChatCompletionMessageParamUnion{sdk.UserMessage("")}, nil
	case len(parts) == 1 && parts[0].OfText != nil:
		// Some servers know no other form.
		return []sdk.ChatCompletionMessageParamUnion{sdk.UserMessage(parts[0].OfText.Text)}, nil
	}
	return []sdk.ChatCompletionMessageParamUnion{sdk.UserMessage(parts)}, nil
}

func chatMedia(m message.Media) (sdk.ChatCompletionContentPartUnionParam, error) {
	switch inline := m.Source.Type == message.SourceBase64; {
	case m.Kind == message.Image:
		return sdk.ImageContentPart(sdk.ChatCompletionContentPartImageImageURLParam{URL: link(m)}), nil
	case m.Kind == message.Audio && inline && audioFormats[m.MediaType] != "":
		return sdk.InputAudioContentPart(sdk.ChatCompletionContentPartInputAudioInputAudioParam{
			Data: m.Source.Value, Format: audioFormats[m.MediaType],
		}), nil
	case m.Kind == message.Document && inline:
		return sdk.FileContentPart(sdk.ChatCompletionContentPartFileFileParam{
			FileData: param.NewOpt(link(m)), Filename: param.NewOpt(filename(m)),
		}), nil
	}
	return sdk.ChatCompletionContentPartUnionParam{}, unsupported("Chat Completions", "%s of type %q by %s", m.Kind, m.MediaType, m.Source.Type)
}

var audioFormats = map[string]string{
	"audio/wav": "wav", "audio/wave": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3",
}

// optional leaves out what is empty.
func optional(s string) param.Opt[string] {
	if s == "" {
		return param.Opt[string]{}
	}
	return param.NewOpt(s)
}

// given leaves out what is nil.
func given(f *float64) param.Opt[float64] {
	if f == nil {
		return param.Opt[float64]{}
	}
	return param.NewOpt(*f)
}

// chatParser reads a stream of Chat Completions.
type chatParser struct {
	thinking bool // a reasoning block is open
	called   bool
	refused  bool
	done     message.Done
}

// chatChunk is what we read of an event.
type chatChunk struct {
	Model   string
	Choices []chatChoice
	Usage   *struct {
		PromptTokens        int64 `json:"prompt_tokens"`
		CompletionTokens    int64 `json:"completion_tokens"`
		PromptTokensDetails struct {
			CachedTokens int64 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
		CompletionTokensDetails struct {
			ReasoningTokens int64 `json:"reasoning_tokens"`
		} `json:"completion_tokens_details"`
		PromptCacheHitTokens int64 `json:"prompt_cache_hit_tokens"` // DeepSeek's cached tokens
	}
	Error json.RawMessage
}

type chatChoice struct {
	Index int
	Delta struct {
		Content, Refusal string
		// Two names for the same, which OpenAI itself does not have.
		Reasoning        string
		ReasoningContent string `json:"reasoning_content"`
		ToolCalls        []struct {
			Index    *int
			ID       string
			Function struct{ Name, Arguments string }
		} `json:"tool_calls"`
	}
	FinishReason string `json:"finish_reason"`
}

func (p *chatParser) parse(data []byte) ([]message.Delta, *message.ProviderError) {
	if bytes.Equal(bytes.TrimSpace(data), []byte("[DONE]")) {
		return append(p.endThought(nil), p.finish()), nil
	}
	var chunk chatChunk
	err := json.Unmarshal(data, &chunk)
	switch {
	case len(chunk.Error) > 0 && string(chunk.Error) != "null":
		return nil, parseFailure(data)
	case err != nil:
		return nil, provider.Malformed(err)
	}
	p.done.Model = cmp.Or(chunk.Model, p.done.Model)
	if u := chunk.Usage; u != nil {
		p.done.Usage = message.Usage{
			InputTokens: u.PromptTokens, OutputTokens: u.CompletionTokens,
			CachedInputTokens: cmp.Or(u.PromptTokensDetails.CachedTokens, u.PromptCacheHitTokens),
			ReasoningTokens:   u.CompletionTokensDetails.ReasoningTokens,
		}
	}
	var deltas []message.Delta
	for _, c := range chunk.Choices {
		if c.Index == 0 { // others are alternatives that somebody asked for in provider_params
			deltas = p.choice(deltas, c)
		}
	}
	return deltas, nil
}

// choice appends the deltas of the one choice there is.
func (p *chatParser) choice(deltas []message.Delta, c chatChoice) []message.Delta {
	if thought := cmp.Or(c.Delta.ReasoningContent, c.Delta.Reasoning); thought != "" {
		p.thinking = true
		deltas = append(deltas, message.ReasoningDelta{Text: thought})
	}
	for _, said := range []string{c.Delta.Content, c.Delta.Refusal} {
		if said != "" {
			deltas = append(p.endThought(deltas), message.TextDelta{Text: said})
		}
	}
	p.refused = p.refused || c.Delta.Refusal != ""
	for i, call := range c.Delta.ToolCalls {
		if call.Index != nil {
			i = *call.Index
		}
		p.called = true
		deltas = append(p.endThought(deltas), message.ToolCallDelta{
			Index: i, ID: call.ID, Name: call.Function.Name, Arguments: call.Function.Arguments,
		})
	}
	if c.FinishReason != "" {
		p.done.FinishReason = chatReason(c.FinishReason)
	}
	return deltas
}

func (p *chatParser) endThought(deltas []message.Delta) []message.Delta {
	if p.thinking {
		p.thinking = false
		deltas = append(deltas, message.ReasoningDone{})
	}
	return deltas
}

func chatReason(reason string) message.FinishReason {
	switch reason {
	case "stop", "length", "tool_calls", "content_filter":
		return message.FinishReason(reason)
	case "function_call":
		return message.FinishToolCalls
	}
	return message.FinishUnknown
}

// finish returns the end of the reply. Some servers stop, they say, when they call tools.
func (p *chatParser) finish() message.Done {
	if stopped := p.done.FinishReason == message.FinishStop; stopped && p.refused {
		p.done.FinishReason = message.FinishRefusal
	} else if stopped && p.called {
		p.done.FinishReason = message.FinishToolCalls
	}
	return p.done
}
