// Structured asks for answers of a Go type: the model is told its JSON schema, an answer that does not fit is asked
// for once more, and the program gets a value.
//
//	go run ./examples/structured
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/examples/internal/offline"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/store/memory"
)

// An invoice is what the agent reads out of a text.
type invoice struct {
	Number  string  `json:"number" jsonschema:"as it is printed"`
	Total   float64 `json:"total" jsonschema:"in euros"`
	Overdue bool    `json:"overdue"`
}

func main() {
	ctx := context.Background()
	agent, err := react.New(react.Config{
		// The offline model reads nothing: it answers with the smallest invoice that there can be.
		Name: "clerk", Model: offline.New(), Store: memory.New(nil),
		Output: react.OutputOf[invoice](),
	})
	check(err)
	defer agent.Shutdown(ctx)

	run, err := agent.Start(ctx, react.Ask(uuid.New(), "Invoice 2026-117, 48.50 euros, was due last week."))
	check(err)
	state, err := run.Wait(ctx)
	check(err)
	got, err := react.OutputAs[invoice](state)
	check(err)
	fmt.Printf("%+v\n", got)
	usage := state.Usage(run.ID())
	fmt.Printf("%d tokens in, %d out\n", usage.InputTokens, usage.OutputTokens)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
