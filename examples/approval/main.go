// Approval is an agent that asks before it acts. The first start ends with a question; the answer, given days
// later or by another process, goes on from there:
//
//	go run ./examples/approval
//	go run ./examples/approval -approve
//	go run ./examples/approval -reject -reason "too much"
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
	db      = flag.String("db", "approval.db", "file that keeps the conversation")
	approve = flag.Bool("approve", false, "agree to what the agent asked")
	reject  = flag.Bool("reject", false, "refuse what the agent asked")
	reason  = flag.String("reason", "", "why it is refused, for the agent to hear")
	session = uuid.MustParse("0199d8a4-0000-7000-8000-000000000002")
)

// The offline model obeys the line with a slash. A real one would read the first.
const question = `Pay Ada what we owe her.
/call pay {"to":"Ada","amount":100}`

type payment struct {
	To     string `json:"to"`
	Amount int    `json:"amount" jsonschema:"in euros"`
}

func pay(_ context.Context, in payment) (string, error) {
	fmt.Printf("(paying %d to %s)\n", in.Amount, in.To)
	return fmt.Sprintf("%s has got %d euros", in.To, in.Amount), nil
}

func main() {
	flag.Parse()
	ctx := context.Background()
	st, err := sqlite.Open(*db, nil)
	check(err)
	defer st.Close()
	agent, err := react.New(react.Config{
		Name: "cashier", Model: offline.New(), Store: st,
		Tools: []react.Tool{react.NewTool("pay", "Pays money to somebody.", pay, &react.ToolOptions{Approval: true})},
	})
	check(err)
	defer agent.Shutdown(ctx)

	in := react.Ask(session, question)
	if *approve || *reject {
		in = react.Answer(session, react.Approval{Approved: *approve, Reason: *reason})
	}
	run, err := agent.Start(ctx, in)
	check(err)
	state, err := run.Wait(ctx)
	if asked, ok := errors.AsType[*graph.InterruptedError](err); ok {
		for _, q := range asked.Questions {
			fmt.Printf("The agent wants to call %s: %s\n", q.Name, q.Payload)
		}
		fmt.Println("Answer with -approve, or with -reject and perhaps a -reason.")
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
