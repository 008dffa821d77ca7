// Graph is a graph without a language model: a draft goes to a review and back until it is good. Its drawing is
// read off the fields of its nodes, and its run is kept in a SQLite file, step by step.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"strings"

	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/store/sqlite"
)

// Doc is the state: what the nodes hand on, and what is kept.
type Doc struct {
	Subject string `json:"subject"`
	Text    string `json:"text"`
	Drafts  int    `json:"drafts"`
}

// A Writer writes the next draft of a document.
type Writer interface {
	Write(ctx context.Context, d Doc) (string, error)
}

// draft writes. Its fields are what it needs, and where it can lead.
type draft struct {
	Writer Writer
	Review graph.Edge[draft, review]
}

func (n *draft) Run(ctx context.Context, d Doc) (_ Doc, next graph.Next[draft], err error) {
	// A task is done once: what it returns is kept at once, and survives if the process dies before the step ends.
	d.Text, err = graph.Task(ctx, "write", func(ctx context.Context) (string, error) { return n.Writer.Write(ctx, d) })
	if err != nil {
		return d, next, err
	}
	d.Drafts++
	return d, n.Review.Next(), nil
}

// review decides.
type review struct {
	Draft graph.Edge[review, draft] `when:"needs work"`
	Done  graph.End[review]         `when:"good"`
}

func (n *review) Run(_ context.Context, d Doc) (Doc, graph.Next[review], error) {
	if d.Drafts < 3 {
		return d, n.Draft.Next(), nil
	}
	return d, n.Done.Next(), nil
}

// typist is a writer without imagination.
type typist struct{}

func (typist) Write(_ context.Context, d Doc) (string, error) {
	fmt.Printf("(writing draft %d)\n", d.Drafts+1)
	return fmt.Sprintf("%s is %sgood.", d.Subject, strings.Repeat("very ", d.Drafts)), nil
}

func main() {
	db := flag.String("db", "graph.db", "file that keeps the run")
	flag.Parse()
	ctx := context.Background()

	essay, err := graph.New("essay", graph.Node("draft", &draft{Writer: typist{}}), graph.Node("review", &review{}))
	check(err)
	fmt.Println(essay.Mermaid())

	st, err := sqlite.Open(*db, nil)
	check(err)
	defer st.Close()
	runner, err := graph.NewRunner(essay, st, nil)
	check(err)
	defer runner.Shutdown(ctx)
	run, err := runner.Start(ctx, graph.StartParams[Doc]{Input: &Doc{Subject: "Tea"}})
	check(err)
	doc, err := run.Wait(ctx)
	check(err)
	fmt.Println(doc.Text)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
