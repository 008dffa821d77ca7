// Timetravel has a conversation, goes back to a moment in it, and says something else there. Both branches stay;
// what they have in common is stored once.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/examples/internal/offline"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/store"
	"github.com/everstep-go/everstep/store/memory"
)

type place struct {
	City string `json:"city" jsonschema:"city name, such as Oslo"`
}

func weather(_ context.Context, in place) (string, error) { return "rain in " + in.City, nil }

func main() {
	ctx := context.Background()
	agent, err := react.New(react.Config{
		Name: "guide", Model: offline.New(), Store: memory.New(nil),
		Tools: []react.Tool{react.NewTool("weather", "Current weather in a city.", weather)},
	})
	check(err)
	defer agent.Shutdown(ctx)

	session := uuid.New()
	say := func(in react.Input) react.State {
		run, err := agent.Start(ctx, in)
		check(err)
		state, err := run.Wait(ctx)
		check(err)
		return state
	}
	say(react.Ask(session, "How is the weather in Oslo?"))
	first := say(react.Ask(session, "Then I stay at home."))

	page, err := agent.Checkpoints(ctx, store.CheckpointQuery{Session: session})
	check(err)
	var answered uuid.UUID // the moment after the first answer: the older finish
	fmt.Println("Checkpoints, the newest first:")
	for _, c := range page.Items {
		fmt.Printf("  %-7s %s\n", c.Reason, c.Node)
		if c.Reason == checkpoint.Finish {
			answered = c.ID
		}
	}
	other := react.Ask(session, "Then how is the weather in Rome?")
	other.Checkpoint = answered
	second := say(other)

	fmt.Println("\nBranches:")
	for i := range max(len(first.Messages), len(second.Messages)) {
		fmt.Printf("  %-38s | %s\n", line(first.Messages, i), line(second.Messages, i))
	}
}

// line returns a message on one line.
func line(messages []message.Message, i int) string {
	if i >= len(messages) {
		return ""
	}
	switch m := messages[i].(type) {
	case *message.User:
		return "you: " + m.Content[0].(message.Text).Value
	case *message.Assistant:
		for _, call := range m.ToolCalls {
			return fmt.Sprintf("call: %s %s", call.Name, call.Arguments)
		}
		return "guide: " + m.Content
	case *message.Tool:
		return "result: " + m.Text()
	}
	return ""
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
