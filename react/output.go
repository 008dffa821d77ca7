package react

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"strings"

	"github.com/everstep-go/everstep/message"
)

// Output is what the answers of an agent look like, if they are not free text: JSON objects that
// satisfy a schema. See [Config.Output], [OutputOf] and [OutputAs].
type Output struct {
	// Schema is a JSON schema of type object. Models get it as message.Request.Output.
	Schema json.RawMessage

	err error // what is wrong with the type it was made from
}

// OutputOf returns the output whose schema is that of T, a struct, made as by [NewTool]. What is
// wrong with T, [New] says.
func OutputOf[T any]() *Output {
	schema, err := infer(reflect.TypeFor[T]())
	return &Output{Schema: schema, err: err}
}

// OutputAs returns the answer that a conversation ends in, as an agent with [OutputOf] of the
// same type gives it.
func OutputAs[T any](s State) (value T, err error) {
	a, ok := s.last().(*message.Assistant)
	if !ok || len(a.ToolCalls) > 0 {
		return value, errors.New("react: the conversation does not end in an answer")
	}
	if err := json.Unmarshal([]byte(a.Content), &value); err != nil {
		return value, fmt.Errorf("react: answer as %T: %w", value, err)
	}
	return value, nil
}

func (o *Output) validator() (*validator, error) {
	if o.err != nil {
		return nil, o.err
	}
	return newValidator(o.Schema)
}

// misfit returns what is wrong with the answer, nil if it is as it should be or not an answer:
// a reply with calls, or one that was cut off or refused.
func (a *Agent) misfit(r *message.Reply) error {
	if a.output == nil || len(r.ToolCalls) > 0 {
		return nil
	}
	switch r.FinishReason {
	case message.FinishLength, message.FinishContentFilter, message.FinishRefusal:
		return nil
	}
	if strings.TrimSpace(r.Text) == "" {
		return errors.New("there is none")
	}
	err := a.output.matches(json.RawMessage(r.Text))
	if e, ok := errors.AsType[*ArgumentError](err); ok {
		return errors.New(e.Reason)
	}
	return err
}

// repair returns the request that asks once more for an answer that fits.
func repair(req *message.Request, r *message.Reply, misfit error) *message.Request {
	again := *req
	again.Messages = append(again.Messages[:len(again.Messages):len(again.Messages)],
		message.NewAssistant(r.Text),
		message.NewUser("Your answer does not fit the JSON schema: "+misfit.Error()+". Answer again, with nothing but JSON that does."),
	)
	return &again
}

// answerTool is the tool of [AnswerByTool].
const answerTool = "final_answer"

// AnswerByTool returns a model for agents with an [Output] whose provider has no mode for that:
// it is offered a tool for its answer, whose arguments become the text of the reply. Other
// requests it gets as they are.
func AnswerByTool(m Model) Model { return byTool{m} }

type byTool struct{ model Model }

// Generate implements [Model].
func (m byTool) Generate(ctx context.Context, req *message.Request) iter.Seq2[message.Delta, error] {
	if req.Output == nil {
		return m.model.Generate(ctx, req)
	}
	asked := *req
	asked.Output = nil
	asked.Tools = append(req.Tools[:len(req.Tools):len(req.Tools)], message.ToolSpec{
		Name: answerTool, Description: "Gives the final answer. Call it once, alone, when you have everything you need.", Parameters: req.Output,
	})
	return func(yield func(message.Delta, error) bool) {
		t := &toolAnswer{yield: yield, calls: map[int]bool{}}
		for delta, err := range m.model.Generate(ctx, &asked) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !t.take(delta) {
				return
			}
		}
	}
}

// toolAnswer turns a reply that answers by the tool into one that answers in text.
type toolAnswer struct {
	yield func(message.Delta, error) bool
	calls map[int]bool    // by index: whether it is that of the tool
	said  []message.Delta // text, which does not count if the tool is called
	found bool
	other bool
}

func (t *toolAnswer) take(delta message.Delta) bool {
	switch d := delta.(type) {
	case message.TextDelta:
		t.said = append(t.said, d)
		return true
	case message.ToolCallDelta:
		if _, known := t.calls[d.Index]; !known || d.Name != "" {
			t.calls[d.Index] = d.Name == answerTool
		}
		if !t.calls[d.Index] {
			t.other = true
			break
		}
		t.found = true
		return t.other || t.yield(message.TextDelta{Text: d.Arguments}, nil)
	case message.Done:
		if t.found && !t.other {
			d.FinishReason = message.FinishStop
			return t.yield(d, nil)
		}
		for _, said := range t.said {
			if !t.yield(said, nil) {
				return false
			}
		}
	}
	return t.yield(delta, nil)
}
