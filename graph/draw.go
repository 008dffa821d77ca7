package graph

import (
	"fmt"
	"strings"
)

// Mermaid draws the graph as a Mermaid flowchart, in the order of its nodes and edges.
func (g *Graph[S]) Mermaid() string {
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	fmt.Fprintf(&b, "  start([start]) --> n0\n")
	for i, n := range g.nodes {
		fmt.Fprintf(&b, "  n%d[\"%s\"]\n", i, mermaidText(n.name))
	}
	for _, m := range g.moves {
		to := "finish([end])"
		if m.To != "" {
			to = fmt.Sprintf("n%d", g.index[m.To])
		}
		label := ""
		if m.When != "" {
			label = fmt.Sprintf("|\"%s\"|", mermaidText(m.When))
		}
		fmt.Fprintf(&b, "  n%d -->%s %s\n", g.index[m.From], label, to)
	}
	return b.String()
}

// mermaidText writes what would end a quoted text as the entity that Mermaid knows for it.
func mermaidText(s string) string {
	return strings.NewReplacer(`#`, "#35;", `"`, "#quot;", "\n", " ", "\r", " ").Replace(s)
}

// DOT draws the graph in the language of Graphviz, in the order of its nodes and edges.
func (g *Graph[S]) DOT() string {
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %s {\n", dotText(g.name))
	b.WriteString("  start [shape=circle label=\"\"]\n  end [shape=doublecircle label=\"\"]\n")
	for i, n := range g.nodes {
		fmt.Fprintf(&b, "  n%d [shape=box label=%s]\n", i, dotText(n.name))
	}
	b.WriteString("  start -> n0\n")
	for _, m := range g.moves {
		to := "end"
		if m.To != "" {
			to = fmt.Sprintf("n%d", g.index[m.To])
		}
		label := ""
		if m.When != "" {
			label = " [label=" + dotText(m.When) + "]"
		}
		fmt.Fprintf(&b, "  n%d -> %s%s\n", g.index[m.From], to, label)
	}
	b.WriteString("}\n")
	return b.String()
}

func dotText(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", "").Replace(s) + `"`
}
