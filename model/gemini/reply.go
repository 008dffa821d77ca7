package gemini

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"iter"
	"time"

	"google.golang.org/genai"

	"github.com/everstep-go/everstep/internal/provider"
	"github.com/everstep-go/everstep/message"
)

// read yields the deltas of a reply. It reads to the end even when the model has said why it
// stopped, because usage may come later.
func (m *Model) read(ctx context.Context, stream io.Reader, yield func(message.Delta, error) bool) {
	var r reply
	for event, err := range events(stream) {
		var (
			deltas  []message.Delta
			failure *message.ProviderError
		)
		switch {
		case err == nil:
			deltas, failure = r.take(event)
		case err == io.EOF, r.finish != "": // if the connection broke, all was said
			deltas, failure = r.end()
		default:
			failure = provider.CutOff(err)
		}
		for _, d := range deltas {
			if ctx.Err() != nil {
				yield(nil, ctx.Err())
				return
			}
			if !yield(d, nil) {
				return
			}
		}
		if failure != nil {
			failure.RequestID = r.id
			yield(nil, m.adapter.Broken(ctx, failure, r.wait))
			return
		}
	}
}

// maxEvent limits the size of one event.
const maxEvent = 64 << 20

// events returns the data of server-sent events, and at last an error, io.EOF if nothing went
// wrong. What stands there as plain JSON counts as well: so the API reports that something broke
// in the middle.
func events(stream io.Reader) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		lines := bufio.NewScanner(stream)
		lines.Buffer(nil, maxEvent)
		var data []byte
		plain := false
		for lines.Scan() {
			line := lines.Bytes()
			text, isData := bytes.CutPrefix(line, []byte("data:"))
			switch {
			case len(line) == 0:
				if len(data) > 0 && !yield(data, nil) {
					return
				}
				data, plain = nil, false
			case len(data)+len(line) > maxEvent:
				yield(nil, bufio.ErrTooLong)
				return
			case isData:
				data = append(append(data, text...), '\n')
			case plain, line[0] == '{':
				plain = true
				data = append(append(data, line...), '\n')
			}
		}
		err := lines.Err()
		if err == nil && len(data) > 0 && !yield(data, nil) {
			return
		}
		yield(nil, cmp.Or(err, io.EOF))
	}
}

// reply is what is known of a reply so far.
type reply struct {
	id       string
	model    string
	thinking bool // a block of reasoning is open
	text     int  // bytes
	calls    int
	usage    message.Usage
	finish   genai.FinishReason // empty: it has not ended yet
	why      string             // more about the end
	wait     time.Duration      // that an error asks for
}

// take returns what a chunk adds, or the error that it is.
func (r *reply) take(data []byte) ([]message.Delta, *message.ProviderError) {
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, provider.Malformed(err)
	}
	r.id, r.model = cmp.Or(c.ResponseID, r.id), cmp.Or(c.Model, r.model)
	if c.Error != nil {
		r.wait = retryDelay(c.Error)
		return nil, newFailure(c.Error)
	}
	if u := c.Usage; u != nil { // each chunk has the sum
		r.usage = message.Usage{
			InputTokens: u.Prompt + u.ToolUsePrompt, CachedInputTokens: u.Cached,
			OutputTokens: u.Candidates + u.Thoughts, ReasoningTokens: u.Thoughts,
		}
	}
	if f := c.PromptFeedback; f != nil && f.BlockReason != "" {
		return nil, &message.ProviderError{Code: f.BlockReason, Message: f.BlockReasonMessage, Kind: message.ErrRefused}
	}
	var deltas []message.Delta
	for _, candidate := range c.Candidates {
		if candidate.Index != 0 {
			continue // nobody asked for more than one
		}
		for i := range candidate.Content.Parts {
			deltas = r.add(deltas, &candidate.Content.Parts[i])
		}
		if f := candidate.FinishReason; f != "" && f != genai.FinishReasonUnspecified {
			r.finish, r.why = f, candidate.FinishMessage
		}
	}
	return deltas, nil
}

// add adds a part to the deltas.
func (r *reply) add(deltas []message.Delta, p *part) []message.Delta {
	text := ""
	if p.Text != nil {
		text = *p.Text
	}
	if p.Thought {
		if text != "" {
			r.thinking = true
			deltas = append(deltas, message.ReasoningDelta{Text: text})
		}
		if p.ThoughtSignature != "" {
			r.thinking = false
			deltas = append(deltas, message.ReasoningDone{Signature: p.ThoughtSignature})
		}
		return deltas
	}
	deltas = r.thought(deltas)
	if call := p.FunctionCall; call != nil {
		deltas = append(deltas, message.ToolCallDelta{Index: r.calls, ID: call.ID, Name: call.Name, Arguments: string(call.Args)})
		if p.ThoughtSignature != "" {
			deltas = append(deltas, signedCall(r.calls, p.ThoughtSignature))
		}
		r.calls++
		return deltas
	}
	if text != "" {
		deltas = append(deltas, message.TextDelta{Text: text})
	}
	if p.ThoughtSignature != "" {
		deltas = append(deltas, signedText(r.text, r.text+len(text), p.ThoughtSignature))
	}
	r.text += len(text)
	return deltas
}

// thought closes the block of reasoning, if one is open.
func (r *reply) thought(deltas []message.Delta) []message.Delta {
	if r.thinking {
		r.thinking = false
		deltas = append(deltas, message.ReasoningDone{})
	}
	return deltas
}

// end returns what ends a reply, when its stream has ended.
func (r *reply) end() ([]message.Delta, *message.ProviderError) {
	var reason message.FinishReason
	switch r.finish {
	case "":
		return nil, provider.CutOff(nil)
	case "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE", "CONTINUATION":
		// Next time it may do better.
		return nil, &message.ProviderError{Code: string(r.finish), Message: r.why, Kind: message.ErrCutOff}
	case "MISSING_THOUGHT_SIGNATURE":
		return nil, &message.ProviderError{Code: string(r.finish), Message: r.why, Kind: message.ErrInvalidRequest}
	case "STOP":
		reason = message.FinishStop
		if r.calls > 0 {
			reason = message.FinishToolCalls
		}
	case "FUNCTION_CALL": // Google does not say that, servers that imitate it do
		reason = message.FinishToolCalls
	case "MAX_TOKENS":
		reason = message.FinishLength
	case "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII",
		"IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION":
		reason = message.FinishContentFilter
	default:
		reason = message.FinishUnknown
	}
	return append(r.thought(nil), message.Done{Usage: r.usage, FinishReason: reason, Model: r.model}), nil
}
