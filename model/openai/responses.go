package openai

import (
	"encoding/json"
	"strings"

	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"

	"github.com/everstep-go/everstep/internal/provider"
	"github.com/everstep-go/everstep/message"
)

// responsesParams returns the request in the dialect of Responses. Nothing is stored there: the
// session has the history, and the model's reasoning comes and goes encrypted.
func (m *Model) responsesParams(req *message.Request) (responses.ResponseNewParams, error) {
	p := responses.ResponseNewParams{
		Model:        req.Model,
		Instructions: optional(req.System),
		Store:        param.NewOpt(false),
		Temperature:  given(req.Params.Temperature),
		TopP:         given(req.Params.TopP),
	}
	if mayReason(req.Model) {
		p.Include = []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent}
	}
	more, err := m.extras(req.Params)
	if err != nil {
		return p, err
	}
	if err := m.adapter.Without(req.Params, "top_k", "stop_sequences", "frequency_penalty", "presence_penalty", "seed"); err != nil {
		return p, err
	}
	if req.Params.MaxTokens != nil {
		p.MaxOutputTokens = param.NewOpt(limited(*req.Params.MaxTokens))
	}
	for _, turn := range req.Turns() {
		items, err := responsesItems(turn)
		if err != nil {
			return p, err
		}
		p.Input.OfInputItemList = append(p.Input.OfInputItemList, items...)
	}
	for _, t := range req.Tools {
		// Here tools are strict unless they say that they are not.
		f := responses.FunctionToolParam{Name: t.Name, Description: optional(t.Description), Strict: param.NewOpt(false)}
		f.SetExtraFields(map[string]any{"parameters": schema(t.Parameters)})
		p.Tools = append(p.Tools, responses.ToolUnionParam{OfFunction: &f})
	}
	if req.Output != nil {
		format := responses.ResponseFormatTextJSONSchemaConfigParam{Name: "reply", Strict: param.NewOpt(strict(req.Output))}
		format.SetExtraFields(map[string]any{"schema": req.Output})
		p.Text.Format.OfJSONSchema = &format
	}
	p.SetExtraFields(more)
	return p, nil
}

// mayReason reports whether to ask for encrypted reasoning, which the server refuses for models
// that do not reason. Those are the old ones: new ones need no new release of this package.
func mayReason(model string) bool {
	model = strings.TrimPrefix(model, "ft:")
	for _, old := range []string{"gpt-3", "gpt-4", "chatgpt-"} {
		if strings.HasPrefix(model, old) {
			return false
		}
	}
	return !strings.Contains(model, "-chat")
}

func responsesItems(turn message.Turn) (responses.ResponseInputParam, error) {
	switch turn := turn.(type) {
	case message.AssistantTurn:
		return responsesAssistant(turn), nil
	case message.UserTurn:
		return responsesUser(turn)
	}
	return nil, nil
}

func responsesAssistant(turn message.AssistantTurn) (items responses.ResponseInputParam) {
	for _, r := range turn.Reasoning {
		if r.Signature == "" {
			continue // without it the server would look for what it has not stored
		}
		item := responses.ResponseReasoningItemParam{
			Summary:          []responses.ResponseReasoningItemSummaryParam{},
			EncryptedContent: param.NewOpt(r.Signature),
		}
		if r.Content != "" {
			item.Summary = append(item.Summary, responses.ResponseReasoningItemSummaryParam{Text: r.Content})
		}
		item.SetExtraFields(map[string]any{"id": param.Omit}) // ids are of stored items
		items = append(items, responses.ResponseInputItemUnionParam{OfReasoning: &item})
	}
	if turn.Text != "" {
		items = append(items, responses.ResponseInputItemParamOfMessage(turn.Text, responses.EasyInputMessageRoleAssistant))
	}
	for _, c := range turn.ToolCalls {
		items = append(items, responses.ResponseInputItemParamOfFunctionCall(string(provider.Arguments(c.Arguments)), c.ID, c.Name))
	}
	return items
}

// responsesUser returns an item for each tool result, or one for all that the user says.
func responsesUser(turn message.UserTurn) (items responses.ResponseInputParam, err error) {
	var parts responses.ResponseInputMessageContentListParam
	for _, part := range turn.Parts {
		switch part := part.(type) {
		case message.ToolResult:
			items = append(items, responses.ResponseInputItemParamOfFunctionCallOutput(part.Content))
			items[len(items)-1].OfFunctionCallOutput.CallID = param.NewOpt(part.CallID)
		case message.Text:
			parts = append(parts, responses.ResponseInputContentParamOfInputText(part.Value))
		case message.Media:
			media, err := responsesMedia(part)
			if err != nil {
				return nil, err
			}
			parts = append(parts, media)
		}
	}
	switch {
	case len(items) > 0:
		return items, nil
	case len(parts) == 0:
		parts = append(parts, responses.ResponseInputContentParamOfInputText(""))
	}
	return append(items, responses.ResponseInputItemParamOfMessage(parts, responses.EasyInputMessageRoleUser)), nil
}

func responsesMedia(m message.Media) (responses.ResponseInputContentUnionParam, error) {
	switch m.Kind {
	case message.Image:
		return responses.ResponseInputContentUnionParam{OfInputImage: &responses.ResponseInputImageParam{
			Detail: responses.ResponseInputImageDetailAuto, ImageURL: param.NewOpt(link(m)),
		}}, nil
	case message.Document:
		file := responses.ResponseInputFileParam{FileURL: param.NewOpt(m.Source.Value)}
		if m.Source.Type == message.SourceBase64 {
			file = responses.ResponseInputFileParam{FileData: param.NewOpt(link(m)), Filename: param.NewOpt(filename(m))}
		}
		return responses.ResponseInputContentUnionParam{OfInputFile: &file}, nil
	}
	return responses.ResponseInputContentUnionParam{}, unsupported("Responses", "%s of type %q", m.Kind, m.MediaType)
}

// responsesParser reads a stream of Responses.
type responsesParser struct {
	streamed map[int]bool // output items whose content came in pieces
	called   bool
	refused  bool
}

func newResponsesParser() *responsesParser { return &responsesParser{streamed: map[int]bool{}} }

// responsesEvent is what we read of an event.
type responsesEvent struct {
	Type         string
	Delta        json.RawMessage // a string in the events that we know
	Item         responsesItem
	OutputIndex  int `json:"output_index"`
	SummaryIndex int `json:"summary_index"`
	Response     struct {
		Model             string
		Error             json.RawMessage
		IncompleteDetails struct{ Reason string } `json:"incomplete_details"`
		Usage             struct {
			InputTokens        int64 `json:"input_tokens"`
			OutputTokens       int64 `json:"output_tokens"`
			InputTokensDetails struct {
				CachedTokens int64 `json:"cached_tokens"`
			} `json:"input_tokens_details"`
			OutputTokensDetails struct {
				ReasoningTokens int64 `json:"reasoning_tokens"`
			} `json:"output_tokens_details"`
		}
	}
	Error json.RawMessage // of proxies, in an event of any type
}

type responsesItem struct {
	Type             string
	CallID           string `json:"call_id"`
	Name, Arguments  string
	EncryptedContent string `json:"encrypted_content"`
	Summary          []struct{ Text string }
	Content          []struct{ Type, Text, Refusal string }
}

func (p *responsesParser) parse(data []byte) ([]message.Delta, *message.ProviderError) {
	var e responsesEvent
	err := json.Unmarshal(data, &e)
	switch {
	case e.Type == "error" || len(e.Error) > 0 && string(e.Error) != "null":
		return nil, parseFailure(data)
	case err != nil:
		return nil, provider.Malformed(err)
	}
	switch e.Type {
	case "response.output_text.delta":
		return p.piece(e, message.TextDelta{Text: said(e.Delta)}), nil
	case "response.refusal.delta":
		p.refused = true
		return p.piece(e, message.TextDelta{Text: said(e.Delta)}), nil
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		return p.piece(e, message.ReasoningDelta{Text: said(e.Delta)}), nil
	case "response.reasoning_summary_part.added":
		if e.SummaryIndex > 0 {
			return p.piece(e, message.ReasoningDelta{Text: "\n\n"}), nil
		}
	case "response.output_item.added":
		if e.Item.Type == "function_call" {
			p.called = true
			return []message.Delta{message.ToolCallDelta{Index: e.OutputIndex, ID: e.Item.CallID, Name: e.Item.Name}}, nil
		}
	case "response.function_call_arguments.delta":
		return p.piece(e, message.ToolCallDelta{Index: e.OutputIndex, Arguments: said(e.Delta)}), nil
	case "response.output_item.done":
		return p.item(e.OutputIndex, e.Item), nil
	case "response.completed", "response.incomplete":
		return []message.Delta{p.finish(e)}, nil
	case "response.failed":
		return nil, parseFailure(e.Response.Error)
	}
	return nil, nil
}

// said returns the text of a delta. Events that we do not know may have deltas of another form.
func said(delta json.RawMessage) (text string) {
	_ = json.Unmarshal(delta, &text)
	return text
}

// piece returns the delta, and remembers that the item comes in pieces.
func (p *responsesParser) piece(e responsesEvent, d message.Delta) []message.Delta {
	p.streamed[e.OutputIndex] = true
	return []message.Delta{d}
}

// item returns what is still missing of an item that is complete: all of it, if it came whole.
func (p *responsesParser) item(index int, item responsesItem) []message.Delta {
	switch streamed := p.streamed[index]; {
	case item.Type == "reasoning":
		d := message.ReasoningDone{Text: summary(item), Signature: item.EncryptedContent}
		if streamed || d != (message.ReasoningDone{}) {
			return []message.Delta{d}
		}
	case item.Type == "function_call":
		p.called = true
		d := message.ToolCallDelta{Index: index, ID: item.CallID, Name: item.Name}
		if !streamed {
			d.Arguments = item.Arguments
		}
		return []message.Delta{d}
	case item.Type == "message" && !streamed:
		var deltas []message.Delta
		for _, part := range item.Content {
			p.refused = p.refused || part.Refusal != ""
			if whole := part.Text + part.Refusal; whole != "" {
				deltas = append(deltas, message.TextDelta{Text: whole})
			}
		}
		return deltas
	}
	return nil
}

// summary returns the text of a reasoning item as its deltas would add up to it.
func summary(item responsesItem) string {
	var parts []string
	for _, s := range item.Summary {
		parts = append(parts, s.Text)
	}
	if len(parts) == 0 {
		for _, c := range item.Content {
			parts = append(parts, c.Text)
		}
	}
	return strings.Join(parts, "\n\n")
}

func (p *responsesParser) finish(e responsesEvent) message.Done {
	u := e.Response.Usage
	d := message.Done{FinishReason: message.FinishStop, Model: e.Response.Model, Usage: message.Usage{
		InputTokens: u.InputTokens, OutputTokens: u.OutputTokens,
		CachedInputTokens: u.InputTokensDetails.CachedTokens, ReasoningTokens: u.OutputTokensDetails.ReasoningTokens,
	}}
	switch {
	case e.Type == "response.incomplete" && e.Response.IncompleteDetails.Reason == "max_output_tokens":
		d.FinishReason = message.FinishLength
	case e.Type == "response.incomplete" && e.Response.IncompleteDetails.Reason == "content_filter":
		d.FinishReason = message.FinishContentFilter
	case e.Type == "response.incomplete":
		d.FinishReason = message.FinishUnknown
	case p.called:
		d.FinishReason = message.FinishToolCalls
	case p.refused:
		d.FinishReason = message.FinishRefusal
	}
	return d
}
