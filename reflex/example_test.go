package reflex_test

import (
	"context"
	"fmt"

	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/react/reacttest"
	"github.com/everstep-go/everstep/reflex"
	"github.com/everstep-go/everstep/store/memory"
)

func Example() {
	ctx := context.Background()
	st := memory.New(nil)
	clerk, err := react.New(react.Config{Name: "clerk", Model: reacttest.NewScript(reacttest.Say("Good morning, Ada.")), Store: st})
	if err != nil {
		fmt.Println(err)
		return
	}
	lobby := newChat("lobby", "clerk") // any Channel
	engine, err := reflex.New(reflex.Config{
		Store: st, Channels: []reflex.Channel{lobby}, Agents: []reflex.Agent{reflex.NewReactAgent(clerk, nil)},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Shutdown(ctx)
	at := reflex.Address{Channel: "lobby", Type: reflex.DM, Chat: "ada", User: "ada"}
	outcome, err := engine.Say(ctx, at, reflex.Inbound{User: "ada", Segments: reflex.Text("Good morning!")})
	fmt.Println(outcome.Text(), err)
	fmt.Println(outcome.Path)
	// Output:
	// Good morning, Ada. <nil>
	// [awake route react]
}
