// Package reflex orchestrates several agents on several chat channels: a signal comes in, and one
// durable pass of a graph decides which agent runs, where and with what context, and what happens
// when it stops to ask, hands over or moves.
//
//	engine, err := reflex.New(reflex.Config{
//		Store:    st, // with store.Records: every driver of this module
//		Channels: []reflex.Channel{lobby},
//		Agents:   []reflex.Agent{reflex.NewReactAgent(clerk, nil)},
//	})
//	go engine.Serve(ctx) // reports and takes up what a dead process left
//	row, err := engine.Receive(ctx, address, reflex.Inbound{User: "ada", Segments: reflex.Text("Hello")})
//	outcome, err := engine.Kick(ctx, reflex.MessageSignal{Address: address, Messages: …, Trigger: row.ID})
//
// # Words
//
// A [Signal] is what comes in: a message, the answers to a batch, a command, a hand-over or move
// that a person or a session elsewhere asked for. [Engine.Kick] makes one pass for it. A [Channel]
// is a connection to a chat platform; a [Thread] is a place there: a room, where people talk without
// end, or a thread with one piece of work. A [Conversation] is what one agent remembers in one
// thread. The [Ledger] holds the visible messages, by surface: a room, or a thread of the platform.
// A [Batch] is what a run asks people, answered as a unit.
//
// # Guarantees
//
//   - A surface has one pass at a time, in all processes on a store: another one is refused with
//     [ErrBusy] and has changed nothing. Its message is part of the next pass's prompt. A pass that hands
//     over or moves to another surface has that one too, until it ends.
//   - A delivery is one row, and once an agent has it, it is not answered again.
//   - A pass has one numbered stream of events, from reflex_awake to reflex_asleep, whatever
//     happens: an error, a panic, the end of a context. What an event shows was recorded before.
//   - No listener changes an outcome, however slow or broken; one that is too slow gets a [Lag], and
//     finds what it missed with [Engine.Missed]. Channels that draw do so by themselves.
//   - A move whose place could not be opened copied nothing, handed over nothing, announced nothing.
//   - A batch is resumed at most once at a time, its first answers win, and a restart loses none. The
//     answers of a live one reach its run in whatever process that waits, or are refused with
//     [ErrNotWaiting]; they never start another run.
//   - A command is dispatched at most once for its delivery id, after its receipt was written.
//   - After a crash a pass goes on from its last checkpoint, but an agent's run and a command are
//     not repeated: the pass ends with [ErrInterrupted], and messages that no run took up stay pending.
//
// # Several processes
//
// Engines of the same configuration may share a store that several processes open, such as
// PostgreSQL. Each hears the events of its own passes on its [Bus]: a channel is connected to the
// process that gets its messages. [Config.Signals] makes answers and cancels reach the others at once.
//
// # Housekeeping
//
// Everything is kept until [Engine.Prune] and store.Store.Prune remove what is old; a program calls
// them now and then, with the same time. [Directories.Prune] removes old workspaces.
//
// # Errors
//
// Every refusal is one of the Err variables, wrapped with what it is about.
package reflex
