package reacttest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/react/reacttest"
)

// endless repeats one step of a script.
func endless(step reacttest.Step) react.Model {
	return reacttest.NewScript(slices.Repeat([]reacttest.Step{step}, 100)...)
}

func TestAScriptIsAModel(t *testing.T) {
	t.Parallel()
	reacttest.RunModel(t, func(_ testing.TB, s reacttest.Scenario) react.Model {
		switch {
		case s.Transient:
			return endless(reacttest.Fail(message.Transient(errors.New("overloaded"), 0)))
		case s.Permanent:
			return endless(reacttest.Fail(errors.New("no such model")))
		case s.Cut:
			return endless(reacttest.Step{Deltas: reacttest.Words(s.Reply.Text)[:1], Err: errors.New("connection reset")})
		case s.Silent:
			return endless(reacttest.Step{Before: func(ctx context.Context, _ *message.Request) error {
				<-ctx.Done()
				return ctx.Err()
			}})
		}
		var deltas []message.Delta
		for _, r := range s.Reply.Reasoning {
			deltas = append(deltas, message.ReasoningDelta{Text: r.Text}, r)
		}
		deltas = append(deltas, reacttest.Words(s.Reply.Text)...)
		for i, c := range s.Reply.ToolCalls {
			deltas = append(deltas, message.ToolCallDelta{Index: i, ID: c.ID, Name: c.Name, Arguments: string(c.Arguments)})
		}
		return endless(reacttest.Step{Deltas: append(deltas, message.Done{FinishReason: s.Reply.FinishReason})})
	})
}

func TestAModelFuncIsAModel(t *testing.T) {
	t.Parallel()
	reacttest.RunModel(t, func(_ testing.TB, s reacttest.Scenario) react.Model {
		if s.Cut {
			return nil // it has whole replies only
		}
		return react.ModelFunc(func(ctx context.Context, _ *message.Request) (message.Reply, error) {
			switch {
			case s.Transient:
				return message.Reply{}, message.Transient(errors.New("overloaded"), 0)
			case s.Permanent:
				return message.Reply{}, errors.New("no such model")
			case s.Silent:
				<-ctx.Done()
				return message.Reply{}, ctx.Err()
			}
			return s.Reply, nil
		})
	})
}

func ExampleScript() {
	model := reacttest.NewScript(
		reacttest.Call(reacttest.ToolCall("call_1", "weather", `{"city":"Oslo"}`)),
		reacttest.Say("Take an umbrella."),
	)
	for range 2 {
		reply, err := message.Collect(model.Generate(context.Background(), &message.Request{}))
		fmt.Println(len(reply.ToolCalls), reply.Text, err)
	}
	fmt.Println(len(model.Requests()), "requests")
	// Output:
	// 1  <nil>
	// 0 Take an umbrella. <nil>
	// 2 requests
}
