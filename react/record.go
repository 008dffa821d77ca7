package react

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"
	"time"

	"github.com/everstep-go/everstep/internal/wire"
	"github.com/everstep-go/everstep/message"
)

// Record returns a model that writes each of its calls to w, one line of JSON with the request and
// the reply as it came, for [Replay]. Nothing is left out: what the conversations hold is in there.
// A line that cannot be written fails the call that it is of. W is used by one call at a time.
func Record(m Model, w io.Writer) Model { return &recorder{model: m, w: w} }

type recorder struct {
	model Model
	mu    sync.Mutex // guards w
	w     io.Writer
}

// Generate implements [Model].
func (r *recorder) Generate(ctx context.Context, req *message.Request) iter.Seq2[message.Delta, error] {
	return func(yield func(message.Delta, error) bool) {
		call := recorded{Request: newRecordedRequest(req)}
		for delta, err := range r.model.Generate(ctx, req) {
			if err != nil {
				call.fail(err)
				yield(nil, errors.Join(err, r.write(&call)))
				return
			}
			call.Reply = append(call.Reply, newRecordedDelta(delta))
			if _, done := delta.(message.Done); done {
				if err := r.write(&call); err != nil {
					yield(nil, err)
					return
				}
			}
			if !yield(delta, nil) {
				return
			}
		}
	}
}

func (r *recorder) write(call *recorded) error {
	line, err := wire.Marshal(call)
	if err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		_, err = r.w.Write(append(line, '\n'))
	}
	if err != nil {
		return fmt.Errorf("react: record: %w", err)
	}
	return nil
}

// Replay returns a model that answers as the recorded one did, without it. A request is answered by
// the reply to the same conversation: to what was said, whatever its ids, times and prompt. What was
// recorded several times is replayed in that order, and its last reply again and again. A request
// that was not recorded is an error.
func Replay(r io.Reader) (Model, error) {
	p := &player{replies: map[string][]*recorded{}}
	lines := bufio.NewReader(r)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			call := &recorded{}
			if err := json.Unmarshal(line, call); err != nil {
				return nil, fmt.Errorf("react: replay: line %d: %w", n, err)
			}
			key := call.Request.key()
			p.replies[key] = append(p.replies[key], call)
		}
		if errors.Is(err, io.EOF) {
			return p, nil
		}
		if err != nil {
			return nil, fmt.Errorf("react: replay: %w", err)
		}
	}
}

type player struct {
	mu      sync.Mutex // guards replies
	replies map[string][]*recorded
}

// Generate implements [Model].
func (p *player) Generate(ctx context.Context, req *message.Request) iter.Seq2[message.Delta, error] {
	return func(yield func(message.Delta, error) bool) {
		call, err := p.next(newRecordedRequest(req))
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			yield(nil, err)
			return
		}
		for _, d := range call.Reply {
			if !yield(d.delta(), nil) {
				return
			}
		}
		if call.Error != nil {
			yield(nil, call.Error.err())
		}
	}
}

func (p *player) next(req recordedRequest) (*recorded, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := req.key()
	calls := p.replies[key]
	if len(calls) == 0 {
		return nil, fmt.Errorf("react: replay: no reply was recorded to this conversation: %s", brief(key))
	}
	if len(calls) > 1 {
		p.replies[key] = calls[1:]
	}
	return calls[0], nil
}

// recorded is one call of a model.
type recorded struct {
	Request recordedRequest `json:"request"`
	Reply   []recordedDelta `json:"reply"`
	Error   *recordedError  `json:"error,omitempty"`
}

type recordedRequest struct {
	Model    string             `json:"model"`
	System   string             `json:"system,omitempty"`
	Messages message.List       `json:"messages"`
	Tools    []message.ToolSpec `json:"tools,omitempty"`
	Params   message.Params     `json:"params,omitzero"`
	Output   json.RawMessage    `json:"output,omitempty"`
}

func newRecordedRequest(r *message.Request) recordedRequest {
	return recordedRequest{r.Model, r.System, r.Messages, r.Tools, r.Params, r.Output}
}

// key is what tells a request from others: the model and what was said.
func (r *recordedRequest) key() string {
	said := []any{r.Model}
	for _, m := range r.Messages {
		switch m := m.(type) {
		case *message.User:
			said = append(said, "user", m.Content)
		case *message.Assistant:
			said = append(said, "assistant", m.Content)
			for _, c := range m.ToolCalls {
				said = append(said, c.Name, c.Arguments)
			}
		case *message.Tool:
			said = append(said, "tool", m.Text())
		case *message.Reasoning:
			said = append(said, "reasoning", m.Content, m.Signature)
		}
	}
	text, _ := wire.Marshal(said) // which was read from JSON, or is about to be written as JSON
	return string(text)
}

// recordedDelta is one of its members.
type recordedDelta struct {
	Text      *string            `json:"text,omitempty"`
	Reasoning *string            `json:"reasoning,omitempty"`
	Thought   *recordedThought   `json:"reasoning_done,omitempty"`
	ToolCall  *recordedCallDelta `json:"tool_call,omitempty"`
	Done      *recordedDone      `json:"done,omitempty"`
}

type recordedThought struct {
	Text      string `json:"text,omitempty"`
	Signature string `json:"signature,omitempty"`
}

type recordedCallDelta struct {
	Index     int    `json:"index"`
	ID        string `json:"id,omitempty"`
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments,omitempty"`
}

type recordedDone struct {
	Usage        message.Usage        `json:"usage"`
	FinishReason message.FinishReason `json:"finish_reason"`
	Model        string               `json:"model,omitempty"`
}

func newRecordedDelta(d message.Delta) (r recordedDelta) {
	switch d := d.(type) {
	case message.TextDelta:
		r.Text = &d.Text
	case message.ReasoningDelta:
		r.Reasoning = &d.Text
	case message.ReasoningDone:
		r.Thought = (*recordedThought)(&d)
	case message.ToolCallDelta:
		r.ToolCall = (*recordedCallDelta)(&d)
	case message.Done:
		r.Done = (*recordedDone)(&d)
	}
	return r
}

func (r recordedDelta) delta() message.Delta {
	switch {
	case r.Text != nil:
		return message.TextDelta{Text: *r.Text}
	case r.Reasoning != nil:
		return message.ReasoningDelta{Text: *r.Reasoning}
	case r.Thought != nil:
		return message.ReasoningDone(*r.Thought)
	case r.ToolCall != nil:
		return message.ToolCallDelta(*r.ToolCall)
	case r.Done != nil:
		return message.Done(*r.Done)
	}
	return nil
}

type recordedError struct {
	Text       string `json:"text"`
	Transient  bool   `json:"transient,omitempty"`
	RetryAfter int64  `json:"retry_after,omitempty"` // milliseconds
}

func (c *recorded) fail(err error) {
	c.Error = &recordedError{Text: err.Error()}
	if e, ok := errors.AsType[*message.TransientError](err); ok {
		c.Error.Transient, c.Error.RetryAfter = true, e.RetryAfter.Milliseconds()
	}
}

func (e *recordedError) err() error {
	if e.Transient {
		return message.Transient(errors.New(e.Text), time.Duration(e.RetryAfter)*time.Millisecond)
	}
	return errors.New(e.Text)
}
