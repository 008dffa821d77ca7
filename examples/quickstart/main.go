// Quickstart is a conversation with an agent that has a tool, kept in a SQLite file. Run it again and the
// conversation goes on. Run it with -kill and it dies in the middle of the tool calls: the next run finishes
// them, and what was done is not done again.
package main

import (
	"context"
	"flag"
	"fmt"
	"iter"
	"log"
	"os"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/examples/internal/offline"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/store/sqlite"
)

var (
	db      = flag.String("db", "everstep.db", "file that keeps the conversation")
	kill    = flag.Bool("kill", false, "die in the middle of the tool calls")
	session = uuid.MustParse("0199d8a4-0000-7000-8000-000000000001")
)

// The offline model obeys the lines with a slash. A real one would read the first.
const question = `Book my holiday, please.
/call book {"what":"train"}
/call book {"what":"hotel"}
/call book {"what":"boat"}
/then
/say Everything is booked. Have a good time!`

type order struct {
	What string `json:"what" jsonschema:"what to book, such as train"`
}

func book(ctx context.Context, in order) (string, error) {
	if *kill && in.What == "boat" {
		select {} // nobody answers the phone
	}
	fmt.Printf("    (booking the %s)\n", in.What)
	return "the " + in.What + " is booked", nil
}

func main() {
	flag.Parse()
	ctx := context.Background()
	st, err := sqlite.Open(*db, nil)
	check(err)
	defer st.Close()
	agent, err := react.New(react.Config{
		Name: "clerk", Model: offline.New(), Store: st,
		Tools: []react.Tool{react.NewTool("book", "Books something.", book)},
	})
	check(err)
	defer agent.Shutdown(ctx)

	left, err := agent.Active(ctx, "", session)
	check(err)
	go agent.Serve(ctx) // takes over what dead processes left unfinished
	if left != nil {
		fmt.Println("I was killed. I go on where I was:")
		show(left.Events(ctx, 0))
	}
	talk, err := agent.State(ctx, "", session)
	check(err)
	if len(talk.Messages) > 0 {
		fmt.Println("We have talked before. I said:", talk.Reply())
	}
	fmt.Println("you:   Book my holiday, please.")
	run, err := agent.Start(ctx, react.Ask(session, question))
	check(err)
	show(run.Events(ctx, 0))
}

// show prints the events of a run as they come.
func show(events iter.Seq2[event.Event, error]) {
	tool, results := "", 0
	for e, err := range events {
		check(err)
		switch d := e.Data.(type) {
		case event.TextMessageStart:
			fmt.Print("clerk: ")
		case event.TextMessageContent:
			fmt.Print(d.Delta)
		case event.TextMessageEnd:
			fmt.Println()
		case event.ToolCallStart:
			tool = d.ToolName
		case event.ToolCallArgs:
			fmt.Printf("  → %s %s\n", tool, d.Delta)
		case event.ToolCallResult:
			fmt.Printf("  ← %s\n", d.Content)
			if results++; *kill && results == 2 {
				self, _ := os.FindProcess(os.Getpid())
				self.Kill() // like kill -9: two calls are done, the third is not
			}
		case event.RunError:
			log.Fatal(d.Error)
		}
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
