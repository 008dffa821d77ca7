// Package redis is an [event.Bus] between the processes that use a Redis server or cluster: for
// more events than a database should carry.
//
//	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
//	bus := eventredis.NewBus(client, nil)
//	defer bus.Close()
//	runner, err := graph.NewRunner(g, &graph.RunnerOptions[S]{Store: st, Bus: bus})
//
// Here redis is the client's package, and eventredis this one. The client stays the caller's to
// close, after the bus. Redis 6.2 or Valkey is needed.
//
// # How it works
//
// Each run has a stream of its own. Its entries are the events of some milliseconds; a script
// adds them, so that what comes twice, or from a former owner of the run, is not added. What
// was added is published on one channel, and who observes a run in another process reads its
// stream from where it is. All observers of a process share one reader and one subscription.
//
// # Guarantees
//
//   - Those of package event, as [event.Relay] keeps them. Observers in the process that executes a
//     run do not depend on Redis.
//   - While Redis is away, events wait, within the bytes of event.RelayOptions.QueueBytes. What is
//     lost, on the way or with the server's memory, shows as an [event.GapError] elsewhere, never
//     as silence; then observers and signals go on.
//   - The stream of a run is bounded in bytes, goes a while after the run has ended, and goes after an
//     hour without an event. Nothing must be cleaned up.
//
// Whoever can reach the server can read and forge events and signals: give it to the processes of one
// application, and give each application its own prefix.
package redis
