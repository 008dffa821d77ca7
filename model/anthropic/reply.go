package anthropic

import (
	"errors"
	"fmt"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/everstep-go/everstep/message"
)

// redacted begins the signature of thinking that only the provider can read. Thinking whose text was just left
// out has a signature too, so the text does not tell them apart.
const redacted = "redacted_thinking:"

var finishReasons = map[sdk.StopReason]message.FinishReason{
	sdk.StopReasonEndTurn:                    message.FinishStop,
	sdk.StopReasonStopSequence:               message.FinishStop,
	sdk.StopReasonToolUse:                    message.FinishToolCalls,
	sdk.StopReasonMaxTokens:                  message.FinishLength,
	sdk.StopReasonModelContextWindowExceeded: message.FinishLength,
	sdk.StopReasonRefusal:                    message.FinishRefusal,
	sdk.StopReasonPauseTurn:                  message.FinishUnknown, // of tools that run at the provider
}

// reply is what has arrived of one.
type reply struct {
	model  string
	blocks map[int64]block // by index
	tokens tokens
	reason sdk.StopReason
}

// block is a content block.
type block struct{ kind, signature string }

// read returns what an event tells, nil if it is nothing.
func (r *reply) read(e sdk.MessageStreamEventUnion) (message.Delta, error) {
	// The SDK makes nothing of what is of another type.
	if e.Type == "" && !strings.HasPrefix(strings.TrimSpace(e.RawJSON()), "{") {
		return nil, errors.New("it is not an object")
	}
	switch e.Type {
	case "message_start":
		u := e.Message.Usage
		r.model = e.Message.Model
		r.tokens.count(u.InputTokens, u.CacheReadInputTokens, u.CacheCreationInputTokens, u.OutputTokens, u.OutputTokensDetails.ThinkingTokens)
	case "content_block_start":
		return r.start(e.Index, e.ContentBlock), nil
	case "content_block_delta":
		return r.more(e.Index, e.Delta)
	case "content_block_stop":
		if b := r.blocks[e.Index]; b.kind == "thinking" {
			return message.ReasoningDone{Signature: b.signature}, nil
		}
	case "message_delta":
		u := e.Usage
		r.tokens.count(u.InputTokens, u.CacheReadInputTokens, u.CacheCreationInputTokens, u.OutputTokens, u.OutputTokensDetails.ThinkingTokens)
		r.reason = e.Delta.StopReason
	case "message_stop":
		return message.Done{Usage: r.tokens.usage(), FinishReason: r.finish(), Model: r.model}, nil
	}
	return nil, nil
}

func (r *reply) start(index int64, content sdk.ContentBlockStartEventContentBlockUnion) message.Delta {
	r.blocks[index] = block{content.Type, content.Signature}
	switch content.Type {
	case "text":
		return text(content.Text)
	case "thinking":
		return thinking(content.Thinking)
	case "redacted_thinking":
		return message.ReasoningDone{Signature: redacted + content.Data}
	case "tool_use":
		return message.ToolCallDelta{Index: int(index), ID: content.ID, Name: content.Name}
	}
	return nil
}

func (r *reply) more(index int64, delta sdk.MessageStreamEventUnionDelta) (message.Delta, error) {
	b := r.blocks[index]
	piece := delta.JSON.Text
	var d message.Delta
	switch delta.Type {
	case "text_delta":
		d = text(delta.Text)
	case "thinking_delta":
		d, piece = thinking(delta.Thinking), delta.JSON.Thinking
	case "signature_delta":
		piece = delta.JSON.Signature
		b.signature += delta.Signature
		r.blocks[index] = b
	case "input_json_delta":
		piece = delta.JSON.PartialJSON
		if b.kind == "tool_use" && delta.PartialJSON != "" {
			d = message.ToolCallDelta{Index: int(index), Arguments: delta.PartialJSON}
		}
	default:
		return nil, nil
	}
	if !piece.Valid() {
		return nil, fmt.Errorf("%s without its text", delta.Type)
	}
	return d, nil
}

func text(s string) message.Delta {
	if s == "" {
		return nil
	}
	return message.TextDelta{Text: s}
}

func thinking(s string) message.Delta {
	if s == "" {
		return nil
	}
	return message.ReasoningDelta{Text: s}
}

// finish returns why the model stopped; empty, for the collector to decide, if the API did not say.
func (r *reply) finish() message.FinishReason {
	if reason, ok := finishReasons[r.reason]; ok || r.reason == "" {
		return reason
	}
	return message.FinishUnknown
}

// tokens are counted from the beginning of the message in each event that has them, but not every event has all
// of them. So the largest number is the last.
type tokens struct{ input, read, written, output, thinking int64 }

func (t *tokens) count(input, read, written, output, thinking int64) {
	t.input, t.read, t.written = max(t.input, input), max(t.read, read), max(t.written, written)
	t.output, t.thinking = max(t.output, output), max(t.thinking, thinking)
}

func (t *tokens) usage() message.Usage {
	return message.Usage{
		InputTokens:       t.input + t.read + t.written,
		CachedInputTokens: t.read,
		OutputTokens:      t.output,
		ReasoningTokens:   t.thinking,
	}
}
