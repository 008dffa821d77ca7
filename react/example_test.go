package react_test

import (
	"context"
	"fmt"
	"log"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/react/reacttest"
	"github.com/everstep-go/everstep/store/memory"
)

func Example() {
	type Place struct {
		City string `json:"city" jsonschema:"city name, such as Oslo"`
	}
	weather := func(_ context.Context, in Place) (string, error) {
		return "9 degrees and rain in " + in.City, nil
	}
	agent, err := react.New(react.Config{
		Name: "forecaster",
		Model: reacttest.NewScript( // in your program: an adapter of a real model
			reacttest.Call(reacttest.ToolCall("call_1", "weather", Place{"Oslo"})),
			reacttest.Say("Take an umbrella."),
		),
		Tools: []react.Tool{react.NewTool("weather", "Current weather in a city.", weather)},
		Store: memory.New(nil),
	})
	if err != nil {
		log.Fatal(err)
	}
	for e, err := range agent.Run(context.Background(), react.Ask(uuid.New(), "Umbrella in Oslo?")) {
		if err != nil {
			log.Fatal(err)
		}
		switch d := e.Data.(type) {
		case event.ToolCallResult:
			fmt.Printf("[%s]\n", d.Content)
		case event.TextMessageContent:
			fmt.Print(d.Delta)
		case event.RunFinished:
			fmt.Printf("\n%s\n", d.Status)
		}
	}
	// Output:
	// ["9 degrees and rain in Oslo"]
	// Take an umbrella.
	// completed
}
