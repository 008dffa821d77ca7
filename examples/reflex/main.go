// Reflex is two agents in two chats of one person, with everything in one file: type to them, kill the program,
// start it again.
//
//	go run ./examples/reflex
//
// A line goes to the clerk in the direct messages of the lobby, a line with # before it to a group there. "yes"
// and "no" answer what was asked last, and !status is a command. The agents have an offline model that obeys
// lines with a slash; \n begins a new one:
//
//	/call summon {"agent":"coder","brief":"/say Hello, I write the code."}
//	/call deploy {"what":"the site"}\n/then\n/say It is out.
//	/call teleport {"channel":"desk","hint":"Off to the desk","project":"site"}\n/then\n/say Here we are.
//	#/call scheme {"brief":"/say Just between us.","hint":"Let us go on here."}
//
// With -draw it prints the graph of a pass.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/reflex"
)

var (
	dir  = flag.String("dir", ".", "directory that keeps everything")
	draw = flag.Bool("draw", false, "print the graph and end")
)

func main() {
	flag.Parse()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	o, err := open(*dir, os.Stdout)
	check(err)
	defer o.close()
	if *draw {
		fmt.Print(o.engine.Mermaid())
		return
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		check(o.engine.Serve(ctx))
	}()
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		if err := o.enter(ctx, strings.ReplaceAll(in.Text(), `\n`, "\n")); err != nil {
			fmt.Println("!", err)
		}
	}
	cancel()
	<-served
}

// enter does what the person typed.
func (o *office) enter(ctx context.Context, line string) error {
	first, rest, _ := strings.Cut(line, " ")
	switch {
	case line == "":
		return nil
	case first == "yes" || first == "no":
		return o.answerLast(ctx, reflex.Verdict{Approved: first == "yes", Reason: rest})
	case strings.HasPrefix(line, "!"):
		return o.command(ctx, reflex.Command{Name: strings.TrimPrefix(first, "!"), Arguments: rest}, uuid.NewString())
	}
	at := private("lobby", ada.ID)
	if text, ok := strings.CutPrefix(line, "#"); ok {
		at, line = team, text
	}
	_, err := o.say(ctx, at, line)
	return err
}

// answerLast decides everything that was asked last.
func (o *office) answerLast(ctx context.Context, v reflex.Verdict) error {
	open, err := o.engine.Books().Batches.Open(ctx, "")
	if err != nil {
		return err
	}
	for i := len(open) - 1; i >= 0; i-- {
		if open[i].Status == reflex.BatchPending {
			_, err := o.engine.Kick(ctx, verdict(open[i], ada, v))
			return err
		}
	}
	return errors.New("nothing is asked")
}

// command commands the clerk, in the conversation that it had in the group last.
func (o *office) command(ctx context.Context, c reflex.Command, delivery string) error {
	rows, err := o.engine.Books().Ledger.Rows(ctx, reflex.RowQuery{Surface: team.ID(), Descending: true})
	if err != nil {
		return err
	}
	for _, r := range rows {
		if r.Agent == "clerk" && r.Bound != nil {
			_, err := o.engine.Kick(ctx, reflex.CommandSignal{
				Conversation: r.Bound.Conversation, Agent: "clerk", Profile: ada, Address: team, Command: c, Delivery: delivery,
			})
			return err
		}
	}
	return errors.New("say something to the #group first")
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
