// Package redis is an [event.Bus] over the processes that use a Redis server, version 6.2 or later, or
// Valkey: for programs whose runs say more than a database should carry.
//
//	bus, err := redis.Open(ctx, "redis://events.example.com:6379/0", nil)
//	if err != nil {
//		return err
//	}
//	defer bus.Close()
//
// The bus goes to a graph.Runner or a react.Agent as its Bus. It is a module of its own, on
// github.com/redis/go-redis/v9.
//
// # Guarantees
//
// Besides those of package event:
//
//   - Each run has a stream, of chunks of events, bounded in bytes. It goes a while after the run has ended, and
//     after a longer while without news.
//   - What a process says of a run after another one took it over, or after the run has ended, is not added.
//   - Events are written some milliseconds after they were published, by one goroutine, for all runs
//     in one pipeline. While the server is away they wait, within bounds; what does not fit is gone,
//     and observers in other processes get an [event.GapError].
//   - Nothing has to survive the server: after it was started empty, observers get an
//     [event.GapError] or [event.ErrNoLog], and begin again with a snapshot from the store.
//   - Signals, and that there are new events, go by publish and subscribe.
//
// Each run has one key, so a cluster can be used as it is. Whoever can reach the server can read and
// forge events and signals: it is for the processes of one application, or one prefix.
package redis
