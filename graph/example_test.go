package graph_test

import (
	"context"
	"fmt"
	"log"

	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/store/memory"
)

// Letter is the state: what has to be remembered between the steps.
type Letter struct {
	To, Text string
	Drafts   int
}

type write struct {
	Style string // a dependency
	Read  graph.Edge[write, read]
}

func (n *write) Run(ctx context.Context, l Letter) (Letter, graph.Next[write], error) {
	// A task is done once: if the process dies after it, its result is still there.
	text, err := graph.Task(ctx, "compose", func(context.Context) (string, error) {
		return fmt.Sprintf("%s %s, draft %d", n.Style, l.To, l.Drafts+1), nil
	})
	if err != nil {
		return l, graph.Next[write]{}, err
	}
	l.Text, l.Drafts = text, l.Drafts+1
	return l, n.Read.Next(), nil
}

type read struct {
	Again graph.Edge[read, write] `when:"not good enough"`
	Send  graph.End[read]         `when:"good"`
}

func (n *read) Run(_ context.Context, l Letter) (Letter, graph.Next[read], error) {
	if l.Drafts < 2 {
		return l, n.Again.Next(), nil
	}
	return l, n.Send.Next(), nil
}

func Example() {
	g, err := graph.New("letter",
		graph.Node("write", &write{Style: "Dear"}),
		graph.Node("read", &read{}),
	)
	if err != nil {
		log.Fatal(err)
	}
	runner, err := graph.NewRunner(g, memory.New(nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	run, err := runner.Start(ctx, graph.StartParams[Letter]{Input: &Letter{To: "Ada"}})
	if err != nil {
		log.Fatal(err)
	}
	letter, err := run.Wait(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(letter.Text)
	// Output: Dear Ada, draft 2
}

func ExampleGraph_Mermaid() {
	g := graph.Must(graph.New("letter", graph.Node("write", &write{}), graph.Node("read", &read{})))
	fmt.Print(g.Mermaid())
	// Output:
	// flowchart TD
	//   start([start]) --> n0
	//   n0["write"]
	//   n1["read"]
	//   n0 --> n1
	//   n1 -->|"not good enough"| n0
	//   n1 -->|"good"| finish([end])
}

// approve asks somebody before it goes on.
type approve struct {
	Done graph.End[approve]
}

func (n *approve) Run(ctx context.Context, l Letter) (Letter, graph.Next[approve], error) {
	yes, err := graph.Interrupt[bool](ctx, "send", "Send it to "+l.To+"?")
	if err != nil {
		return l, graph.Next[approve]{}, err
	}
	l.Text = fmt.Sprint("approved: ", yes)
	return l, n.Done.Next(), nil
}

func ExampleInterrupt() {
	g := graph.Must(graph.New("approval", graph.Node("approve", &approve{})))
	runner, err := graph.NewRunner(g, memory.New(nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	run, err := runner.Start(ctx, graph.StartParams[Letter]{Input: &Letter{To: "Ada"}})
	if err != nil {
		log.Fatal(err)
	}
	_, err = run.Wait(ctx)
	fmt.Println(err)

	// Later, in another process perhaps: the answer is a new run of the session.
	run, err = runner.Start(ctx, graph.StartParams[Letter]{Session: run.Session(), Resume: []byte("true")})
	if err != nil {
		log.Fatal(err)
	}
	letter, err := run.Wait(ctx)
	fmt.Println(letter.Text, err)
	// Output:
	// graph: run interrupted, it waits for "send"
	// approved: true <nil>
}

// A node is tested by calling it: outside a run its task just runs, and nobody is asked.
func ExampleWithReply() {
	n := &approve{}
	ctx := graph.WithReply(context.Background(), "send", true)
	letter, next, err := n.Run(ctx, Letter{To: "Ada"})
	fmt.Println(letter.Text, next == n.Done.Next(), err)
	// Output: approved: true true <nil>
}
