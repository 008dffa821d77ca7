package reflex_test

import (
	"context"
	"fmt"

	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/react/reacttest"
	"github.com/everstep-go/everstep/reflex"
	"github.com/everstep-go/everstep/store/memory"
)

// An agent asks for an approval, and the pass ends. The answer, days later and perhaps in another process, starts
// the pass that goes on.
func ExampleEngine_Kick_answer() {
	ctx := context.Background()
	st := memory.New(nil)
	pay := react.NewTool("pay", "Pays.", func(_ context.Context, in struct {
		To string `json:"to"`
	}) (string, error) {
		return "paid " + in.To, nil
	}, &react.ToolOptions{Approval: true})
	clerk, err := react.New(react.Config{
		Name: "clerk", Store: st, Tools: append(reflex.ControlTools(), pay),
		Model: reacttest.NewScript(
			reacttest.Call(reacttest.ToolCall("c1", "pay", map[string]string{"to": "the baker"})),
			reacttest.Say("The baker has his money."),
		),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	engine, err := reflex.New(reflex.Config{
		Store: st, Channels: []reflex.Channel{newChat("lobby", "clerk")},
		Agents: []reflex.Agent{reflex.NewReactAgent(clerk, &reflex.ReactAgentOptions{Store: st})},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Shutdown(ctx)

	at := reflex.Address{Channel: "lobby", Type: reflex.DM, Chat: "ada", User: "ada"}
	outcome, err := engine.Say(ctx, at, reflex.Inbound{User: "ada", Segments: reflex.Text("Pay the baker.")})
	fmt.Println(outcome.Kind, err)

	batch, err := engine.Books().Batches.Batch(ctx, outcome.Batch)
	if err != nil {
		fmt.Println(err)
		return
	}
	action := batch.Actions[0]
	fmt.Println(action.Tool, string(action.Arguments))
	outcome, err = engine.Kick(ctx, reflex.BatchSignal{BatchAnswer: reflex.BatchAnswer{
		Batch:     batch.ID,
		Responder: reflex.Profile{Channel: "lobby", ID: "ada"},
		Verdicts:  map[string]reflex.Verdict{action.ID: {Approved: true}},
	}})
	fmt.Println(outcome.Text(), err)
	// Output:
	// suspended <nil>
	// pay {"to":"the baker"}
	// The baker has his money. <nil>
}

// A console watches a thread: what happens there, and what was asked there, wherever it goes on.
func ExampleBus_Subscribe() {
	ctx := context.Background()
	st := memory.New(nil)
	clerk, err := react.New(react.Config{Name: "clerk", Model: reacttest.NewScript(reacttest.Say("Good morning.")), Store: st})
	if err != nil {
		fmt.Println(err)
		return
	}
	engine, err := reflex.New(reflex.Config{
		Store: st, Channels: []reflex.Channel{newChat("lobby", "clerk")}, Agents: []reflex.Agent{reflex.NewReactAgent(clerk, nil)},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Shutdown(ctx)

	at := reflex.Address{Channel: "lobby", Type: reflex.Group, Chat: "team", User: "ada", Shared: true}
	console := engine.Bus().Subscribe(reflex.Filter{Threads: []string{at.ID()}})
	defer console.Close()
	if _, err := engine.Say(ctx, at, reflex.Inbound{User: "ada", Segments: reflex.Text("Good morning!")}); err != nil {
		fmt.Println(err)
		return
	}
	for e := range console.Events(ctx) {
		switch data := e.Data.(type) {
		case reflex.ReplyGiven:
			fmt.Println("row", data.Row.Seq, "says", data.Output[0].Text)
		case reflex.Lag:
			fmt.Println("missed", data.Missed) // engine.Missed has them
		case reflex.ReflexAsleep:
			fmt.Println("asleep:", data.Outcome)
			return
		}
	}
	// Output:
	// row 2 says Good morning.
	// asleep: result
}
