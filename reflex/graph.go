package reflex

import (
	"fmt"
	"strings"

	"github.com/everstep-go/everstep/graph"
)

// The nodes, with their edges in the order of the drawing. Each is one in a file of its own.
type (
	intake struct {
		e *Engine

		Route    graph.Edge[intake, router]         `when:"user message"`
		Command  graph.Edge[intake, runCommand]     `when:"explicit command"`
		Resume   graph.Edge[intake, resumeDeferred] `when:"resolved batch"`
		Scheme   graph.Edge[intake, privateHandoff] `when:"native scheme"`
		Summon   graph.Edge[intake, handoff]        `when:"thread summon API"`
		Teleport graph.Edge[intake, relocate]       `when:"thread teleport API"`
	}
	router struct {
		e *Engine

		React graph.Edge[router, runAgent]
	}
	runAgent struct {
		e *Engine

		Summon   graph.Edge[runAgent, handoff]        `when:"summon"`
		Scheme   graph.Edge[runAgent, privateHandoff] `when:"scheme"`
		Teleport graph.Edge[runAgent, relocate]       `when:"teleport"`
		Deferred graph.End[runAgent]                  `when:"waiting on a batch"`
		Done     graph.End[runAgent]                  `when:"done"`
	}
	runCommand struct {
		e *Engine

		Done     graph.End[runCommand]                  `when:"direct outcome or completed run"`
		Summon   graph.Edge[runCommand, handoff]        `when:"summon"`
		Scheme   graph.Edge[runCommand, privateHandoff] `when:"scheme"`
		Teleport graph.Edge[runCommand, relocate]       `when:"teleport"`
		Deferred graph.End[runCommand]                  `when:"waiting on a batch"`
	}
	handoff struct {
		e *Engine

		React graph.Edge[handoff, runAgent]
	}
	privateHandoff struct {
		e *Engine

		React graph.Edge[privateHandoff, runAgent]
		Done  graph.End[privateHandoff] `when:"direct messages not opened"`
	}
	relocate struct {
		e *Engine

		React graph.Edge[relocate, runAgent] `when:"resumed where it landed"`
		Done  graph.End[relocate]            `when:"landed, not resumed"`
	}
	resumeDeferred struct {
		e *Engine

		Deferred graph.End[resumeDeferred]            `when:"batch still incomplete"`
		Done     graph.End[resumeDeferred]            `when:"already resumed"`
		React    graph.Edge[resumeDeferred, runAgent] `when:"answers as tool results"`
	}
)

// newGraph makes the graph of an engine. Its names are stored with every pass. Route and Summon only
// read, so they are done again from the checkpoint before them. What the others must not do twice is a
// task in them, or has an id by which the store knows it again.
func newGraph(e *Engine) (*graph.Graph[State], error) {
	reads := &graph.NodeOptions{Repeatable: true}
	return graph.New("reflex",
		graph.Node("awake", &intake{e: e}),
		graph.Node("route", &router{e: e}, reads),
		graph.Node("react", &runAgent{e: e}),
		graph.Node("command", &runCommand{e: e}),
		graph.Node("summon", &handoff{e: e}, reads),
		graph.Node("scheme", &privateHandoff{e: e}),
		graph.Node("teleport", &relocate{e: e}),
		graph.Node("resume_deferred", &resumeDeferred{e: e}),
	)
}

// Mermaid draws the graph: its nodes, its two ends, and the door beside it by which answers reach
// a live run.
func (e *Engine) Mermaid() string { return mermaid(e.graph.Moves()) }

func mermaid(moves []graph.Move) string {
	ends := map[string]string{"Deferred": "Deferred([End: suspended])", "Done": "Done([End: result])"}
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	b.WriteString("  START([kick]) -->|message, command or resume batch| Awake\n")
	b.WriteString("  START -->|live batch| Live[Deliver to the owning request]\n")
	for _, m := range moves {
		to := title(m.To)
		if m.To == "" {
			to = m.Edge
			if shape, ok := ends[to]; ok {
				to = shape
				delete(ends, m.Edge)
			}
		}
		label := ""
		if m.When != "" {
			label = "|" + m.When + "|"
		}
		fmt.Fprintf(&b, "  %s -->%s %s\n", title(m.From), label, to)
	}
	return b.String()
}

// title writes the name of a node as the drawing has it: ResumeDeferred.
func title(name string) string {
	out := ""
	for part := range strings.SplitSeq(name, "_") {
		if part != "" {
			out += strings.ToUpper(part[:1]) + part[1:]
		}
	}
	return out
}
