// Package graph runs typed graphs durably: nodes over a state, with the moves between them
// declared, and every step kept in a store, so that a run survives whatever kills its process.
//
// A node is a struct. Its fields are what it needs and where it can go:
//
//	type review struct {
//		Draft graph.Edge[review, draft] `when:"needs work"`
//		Done  graph.End[review]         `when:"good"`
//	}
//
//	func (n *review) Run(ctx context.Context, d Doc) (Doc, graph.Next[review], error) {
//		if len(d.Text) < 100 {
//			return d, n.Draft.Next(), nil
//		}
//		return d, n.Done.Next(), nil
//	}
//
// A move that is not declared does not compile; [New] refuses a graph that has loose ends, and
// [Graph.Mermaid] draws it. A [Runner] runs it:
//
//	essay, err := graph.New("essay", graph.Node("draft", &draft{}), graph.Node("review", &review{}))
//	runner, err := graph.NewRunner(essay, st, nil)
//	go runner.Serve(ctx) // takes up what a dead process left unfinished
//	run, err := runner.Start(ctx, graph.StartParams[Doc]{Session: id, Input: &Doc{Title: "Oslo"}})
//	doc, err := run.Wait(ctx)
//
// Inside a node, on its plain context, [Task] does something once, [Interrupt] asks the
// outside, [Emit] tells observers, [Keep] saves a part of the work. Outside a run they do the
// ordinary thing, so that a node is tested by calling it.
//
// # Guarantees
//
//   - When [Runner.Start] returns, the run is recorded. From then on some process finishes it.
//   - A step that was recorded is never executed again, nor is a task whose result was.
//     What was not recorded when the process died is executed again: a node from its top, a
//     task with the same idempotency key, unless it is marked AtMostOnce.
//   - What the outside hears of a run is true by then: an event about something durable is
//     sent after the write. What a node emits while it works, such as the text of a model as it
//     comes, is live.
//   - One process at a time advances a run. One that lost it, frozen perhaps, can write nothing
//     more; the context of its node is cancelled with the cause store.ErrLost.
//   - One run at a time continues a session; see [OnBusy]. Runs that start from an explicit
//     checkpoint are branches and run beside it.
//   - A failed write stops the run before its next side effect. It does not fail the run, which
//     is taken up again when the store is back.
//   - Events of a run are numbered in the order in which observers see them. A slow observer
//     slows nobody down and is told when it missed something.
//
// # Errors
//
// A node's error ends its run as failed. [Fail] gives it a code and a text for clients, [Retry]
// asks for another attempt instead. A panic is an error. [Run.Wait] returns a [*RunError], an
// [*InterruptedError] or [ErrCancelled]; starting returns errors of package store besides.
//
// # Testing
//
// Package graph/graphtest has the coverage of edges and a store that fails at any one call.
package graph
