package reacttest

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"sync"

	"github.com/everstep-go/everstep/message"
)

// A Script is a model that gives prepared replies in turn, and remembers what it was asked. It
// streams texts word by word. It is safe for concurrent use; runs that share it take turns as
// they come.
type Script struct {
	mu       sync.Mutex // guards what follows
	steps    []Step
	requests []*message.Request
}

// A Step is one reply of a [Script]: deltas, and an error at their end if Err is set.
type Step struct {
	Deltas []message.Delta
	Err    error
	// Before, if set, is called before anything is streamed. Its error is the step's.
	Before func(ctx context.Context, req *message.Request) error
}

// NewScript returns a model that takes the steps one after the other. Asked once more, it fails.
func NewScript(steps ...Step) *Script { return &Script{steps: steps} }

// Say is a reply of text, streamed word by word.
func Say(text string) Step {
	return Step{Deltas: append(Words(text), message.Done{FinishReason: message.FinishStop})}
}

// Words are the deltas of a text: a word each, with the space before it.
func Words(text string) []message.Delta {
	var deltas []message.Delta
	for len(text) > 0 {
		n := strings.IndexByte(text[1:], ' ') + 1
		if n == 0 {
			n = len(text)
		}
		deltas = append(deltas, message.TextDelta{Text: text[:n]})
		text = text[n:]
	}
	return deltas
}

// Call is a reply of tool calls, made with [ToolCall].
func Call(calls ...message.ToolCall) Step {
	var deltas []message.Delta
	for i, c := range calls {
		deltas = append(deltas, message.ToolCallDelta{Index: i, ID: c.ID, Name: c.Name, Arguments: string(c.Arguments)})
	}
	return Step{Deltas: append(deltas, message.Done{FinishReason: message.FinishToolCalls})}
}

// ToolCall is a call for a [Call] step. Arguments that are no string of JSON are made into JSON.
func ToolCall(id, name string, arguments any) message.ToolCall {
	if text, ok := arguments.(string); ok {
		return message.ToolCall{ID: id, Name: name, Arguments: json.RawMessage(text)}
	}
	data, err := json.Marshal(arguments)
	if err != nil {
		panic(fmt.Sprintf("reacttest: arguments of %s: %v", name, err))
	}
	return message.ToolCall{ID: id, Name: name, Arguments: data}
}

// Fail is a reply that breaks with an error before it begins.
func Fail(err error) Step { return Step{Err: err} }

// Generate streams the next step.
func (s *Script) Generate(ctx context.Context, req *message.Request) iter.Seq2[message.Delta, error] {
	return func(yield func(message.Delta, error) bool) {
		s.mu.Lock()
		n := len(s.requests)
		s.requests = append(s.requests, req)
		if n >= len(s.steps) {
			s.mu.Unlock()
			yield(nil, fmt.Errorf("reacttest: the script has %d replies and was asked for one more", n))
			return
		}
		step := s.steps[n]
		s.mu.Unlock()
		if step.Before != nil {
			if err := step.Before(ctx, req); err != nil {
				yield(nil, err)
				return
			}
		}
		for _, d := range step.Deltas {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			if !yield(d, nil) {
				return
			}
		}
		if step.Err != nil {
			yield(nil, step.Err)
		}
	}
}

// Requests returns what the model was asked so far.
func (s *Script) Requests() []*message.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*message.Request(nil), s.requests...)
}
