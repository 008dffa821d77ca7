package message

import (
	"encoding/json"
	"iter"
	"slices"
	"strings"

	"github.com/everstep-go/everstep/internal/wire"
	"github.com/google/uuid"
)

// Reply is a model's whole reply: the sum of its deltas.
type Reply struct {
	Reasoning    []ReasoningDone // one for each block; blocks without text and signature are left out
	Text         string
	ToolCalls    []ToolCall // in the order in which they began
	Usage        Usage
	FinishReason FinishReason // never empty
	Model        string       // that answered, as its provider names it; may be empty
}

// Collector adds deltas up. The zero value is ready for use; it is not safe for concurrent use.
type Collector struct {
	text      strings.Builder
	reasoning []ReasoningDone
	thought   strings.Builder // text of the open reasoning block
	calls     []*partialCall
	done      Done
}

type partialCall struct {
	index     int
	id        string // as the provider sent it
	fresh     string // takes its place when it is missing or not unique
	name      string
	arguments strings.Builder
}

// Add takes the next delta. Nil is ignored.
func (c *Collector) Add(d Delta) {
	switch d := d.(type) {
	case TextDelta:
		c.text.WriteString(d.Text)
	case ReasoningDelta:
		c.thought.WriteString(d.Text)
	case ReasoningDone:
		if c.thought.Len() > 0 {
			d.Text = c.thought.String()
			c.thought.Reset()
		}
		if d != (ReasoningDone{}) {
			c.reasoning = append(c.reasoning, d)
		}
	case ToolCallDelta:
		c.addCall(d)
	case Done:
		c.done = d
	}
}

func (c *Collector) addCall(d ToolCallDelta) {
	call := c.lastAt(d.Index)
	if call == nil || d.ID != "" && call.id != "" && d.ID != call.id {
		call = &partialCall{index: d.Index}
		c.calls = append(c.calls, call)
	}
	if call.id == "" {
		call.id = d.ID
	}
	if call.name == "" {
		call.name = d.Name
	}
	call.arguments.WriteString(d.Arguments)
}

// lastAt returns the last call that began at an index. It is nearly always the last of all.
func (c *Collector) lastAt(index int) *partialCall {
	for _, call := range slices.Backward(c.calls) {
		if call.index == index {
			return call
		}
	}
	return nil
}

// Reply returns the sum of what has been added so far, so also the part of a reply that was cut off; a
// reasoning block that is still open counts.
//
// Call IDs that are missing or repeat are replaced by new ones, because results are found by them. Empty
// arguments are {}. Arguments that are not JSON the library accepts are kept as a JSON string of what the model
// wrote, which no tool takes for its arguments but which can be shown and sent back. Without a finish reason it
// is [FinishToolCalls] if there are calls, else [FinishUnknown].
func (c *Collector) Reply() Reply {
	r := Reply{
		Reasoning:    c.reasoning[:len(c.reasoning):len(c.reasoning)],
		Text:         c.text.String(),
		Usage:        c.done.Usage,
		FinishReason: c.done.FinishReason,
		Model:        c.done.Model,
	}
	if c.thought.Len() > 0 {
		r.Reasoning = append(r.Reasoning, ReasoningDone{Text: c.thought.String()})
	}
	seen := make(map[string]bool, len(c.calls))
	for _, call := range c.calls {
		id := call.id
		if id == "" || seen[id] {
			if call.fresh == "" {
				call.fresh = "call_" + uuid.NewString()
			}
			id = call.fresh
		}
		seen[id] = true
		r.ToolCalls = append(r.ToolCalls, ToolCall{ID: id, Name: call.name, Arguments: arguments(call.arguments.String())})
	}
	if r.FinishReason == "" {
		r.FinishReason = FinishUnknown
		if len(r.ToolCalls) > 0 {
			r.FinishReason = FinishToolCalls
		}
	}
	return r
}

func arguments(text string) json.RawMessage {
	if strings.TrimSpace(text) == "" {
		return json.RawMessage("{}")
	}
	clean, err := wire.Clean([]byte(text))
	if err != nil {
		return appendString(nil, text)
	}
	return clean
}

// Collect reads a whole reply. If the sequence ends with an error, Collect returns it and, as io.ReadAll does,
// what came before it.
func Collect(seq iter.Seq2[Delta, error]) (Reply, error) {
	var c Collector
	for d, err := range seq {
		if err != nil {
			return c.Reply(), err
		}
		c.Add(d)
	}
	return c.Reply(), nil
}
