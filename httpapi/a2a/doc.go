// Package a2a connects agents with the Agent2Agent protocol, version 1.0, in both directions: an agent is served to
// clients of A2A, and an agent of others becomes tools of ours.
//
//	server, err := a2a.NewServer(agent, a2a.ServerConfig{URL: "https://agents.example.com/a2a"})
//	mux.Handle("/a2a/", http.StripPrefix("/a2a", server))
//	mux.Handle(a2a.WellKnown, server)
//	go agent.Serve(ctx)
//	go server.Serve(ctx)
//
//	planner, err := a2a.Connect(ctx, a2a.Config{Name: "planner", URL: "https://planner.example.com"})
//	agent, err := react.New(react.Config{Name: "clerk", Model: model, Tools: planner.Tools()})
//
// # Serving
//
// A context is a session, and a task a chain of its runs: the first has the id of the task, and each answer to a
// question leads to another one. So what is said by A2A is there for /v1 too, and the other way round: any run of the
// agent is a task, and a question is answered by who comes first. Ids of contexts may be any text.
//
// Text and files of a message are what the user says; data is in the context, under a2a_input. Each text of the agent
// is an artifact, response, response-2 and so on, and the context, if there is something in it, the artifact state.
//
// What the agent asks, by graph.Interrupt or for an approval, makes the task TASK_STATE_INPUT_REQUIRED; so do calls of tools
// that only the client has ([ToolsExtension]). The status message says it in words, and in a data part with the ids:
//
//	{"questions":[{"id":"call_1","name":"pay","payload":…}],"tool_calls":[{"id":"call_2","name":"screen","arguments":{…}}]}
//
// The next message of the task answers: data whose members are named by those ids, or if one thing is open, any data or
// text. Yes and no will do for an approval. A new message of the context, without the task, leaves the questions
// unanswered, and the task is canceled.
//
// A message to a context in which a task works makes a task that waits for it, TASK_STATE_SUBMITTED. A task that has
// ended takes no message.
//
// # Calling
//
// A [Client] has four tools: to send a message and wait for what comes of it, and to wait for, look at and cancel a task.
// What the agent says on its way are activities of the types a2a_task, a2a_task_status, a2a_artifact and a2a_message.
//
// What the agent asks, the run asks, so that a person answers: the payload of the question has its words (message), its
// data, its state and which agent asks. The reply goes back: a text as text, anything else as data. [Config.AskModel]
// gives the question to the model instead, which answers with another call.
//
// A model can only name tasks and contexts that the tools have told it of in the same conversation. Names, descriptions
// and answers are texts of the agent, which the model reads: connect to agents that you trust.
//
// # Guarantees
//
//   - A message that was accepted is recorded, and is one task, which some process that has the agent finishes, whatever dies.
//     A message that is sent again, with the same id and content, is the same task.
//   - Any process serves any task. A stream has every text of the run whole, whatever process has the run; one that has to
//     end before the task rests ends with an error.
//   - Notifications are sent at least once, from the store, in order, of each time that a task comes to rest: its new
//     artifacts, then its status. A process that dies, or a client that is away for less than a day, loses none.
//   - No notification goes to an address that is not public, unless [PushConfig] allows it. Addresses are looked at when
//     they are dialled, and no redirect is followed.
//   - A call of a tool that is made again, after a crash or with an answer, finds the task that it made. If the process
//     died before the task was known, it is looked for among those of the context, which only this call knows. An agent that
//     neither lists its tasks nor knows messages again can be told twice.
//   - The end of a call's context cancels the task, unless the process is shutting down.
//
// # Errors
//
// Clients get the errors of the specification, with a text that says what to do, and no text of an internal error: that
// is in the log. All errors of a [Client] name the agent.
package a2a
