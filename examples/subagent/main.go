// Subagent is an agent that has another one as a tool. What the inner one asks, the outer one asks; the answer finds
// its way to the inner one, over restarts too: run it again with the answer.
//
//	go run ./examples/subagent
//	go run ./examples/subagent -answer Oslo
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/examples/internal/offline"
	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/store/sqlite"
)

var (
	db      = flag.String("db", "subagent.db", "file that keeps the conversations of both")
	answer  = flag.String("answer", "", "the answer to what was asked")
	session = uuid.MustParse("0199d8a4-0000-7000-8000-000000000004")
)

// The offline models obey the lines with a slash. Real ones would read the rest, and decide for themselves.
const question = `Where should I go next weekend?
/call scout {"task":"Find a city for a weekend.\n/call ask {\"question\":\"North or south?\"}\n/then\n/say Then it is Bergen."}`

type inquiry struct {
	Question string `json:"question"`
}

func ask(ctx context.Context, in inquiry) (string, error) {
	return graph.Interrupt[string](ctx, "", in)
}

func main() {
	flag.Parse()
	ctx := context.Background()
	st, err := sqlite.Open(*db, nil)
	check(err)
	defer st.Close()
	scout, err := react.New(react.Config{
		Name: "scout", Description: "Finds places.", Model: offline.New(), Store: st,
		Tools: []react.Tool{react.NewTool("ask", "Asks the user.", ask)},
	})
	check(err)
	defer scout.Shutdown(ctx)
	guide, err := react.New(react.Config{
		Name: "guide", Model: offline.New(), Store: st,
		Tools: []react.Tool{react.AsTool(scout)},
	})
	check(err)
	defer guide.Shutdown(ctx)

	in := react.Ask(session, question)
	if *answer != "" {
		in = react.Answer(session, *answer)
	}
	run, err := guide.Start(ctx, in)
	check(err)
	state, err := run.Wait(ctx)
	if asked, ok := errors.AsType[*graph.InterruptedError](err); ok {
		for _, q := range asked.Questions {
			fmt.Printf("%s asks: %s\n", q.Name, q.Payload)
		}
		fmt.Println("Answer with -answer.")
		return
	}
	check(err)
	fmt.Println(state.Reply())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
