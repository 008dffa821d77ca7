// Package react is an agent that reasons and acts: a model that answers or calls tools, the
// tools, and a durable session around them. It is a graph of four nodes on a graph.Runner.
//
//	weather := func(ctx context.Context, in Place) (string, error) { … }
//
//	agent, err := react.New(react.Config{
//		Name:  "forecaster",
//		Model: model, // any Model: one streaming method
//		Tools: []react.Tool{react.NewTool("weather", "Current weather in a city.", weather)},
//		Store: st,
//	})
//	for e, err := range agent.Run(ctx, react.Ask(session, "Umbrella in Oslo?")) {
//		…
//	}
//
// [Agent.Run] is an attached run: it lives as long as somebody reads its events. [Agent.Start]
// begins a detached one, which is finished whatever dies. A session goes on with the next run;
// [Input.Checkpoint] starts from an earlier moment instead, on a branch of its own.
//
// A tool is a func over two types ([NewTool]) or a [Tool]. Its error goes to the model, [Abort]
// fails the run, graph.Interrupt asks a human. Inside a tool there are [StateFrom],
// [UpdateContext] and [EmitActivity].
//
// # Guarantees
//
//   - Tools of one reply run in parallel, and the result of each is kept the moment it ends. One
//     that is kept is never lost, and its tool not called again. What was not kept when the
//     process died is called again with the same idempotency key, unless the tool is AtMostOnce.
//   - The reply that made the calls is durable before the first of its tools starts, a result
//     before it is heard.
//   - The context changes in the order in which tools finish. That order is kept with the
//     results, and is the order of the state_delta events: a client that applies them ends
//     with the server's context.
//   - Requests to the model are well formed whatever the history holds: each call is followed
//     directly by one result.
//   - Whatever a model, a tool or a client does, a panic included, becomes a result that the
//     model sees, an error that the client sees, or the end of the run with a code.
//
// # Testing
//
// Package react/reacttest has a model that follows a script, and the suite for adapters.
package react
