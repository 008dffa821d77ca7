// Package event holds what happens in a run, as numbered events of 21 kinds, and the [Bus] that carries
// them from the process that runs the run to whoever observes it.
//
//	bus := event.NewMemory(nil)
//	bus.Publish(event.Event{Seq: 1, Time: time.Now(), Tenant: "acme", Run: run, Data: event.RunStarted{}})
//	for e, err := range bus.Subscribe(ctx, "acme", run, 0) {
//		if err != nil {
//			return err // the stream broke; how the run ended is an event
//		}
//		switch d := e.Data.(type) {
//		case event.TextMessageContent:
//			fmt.Print(d.Delta)
//		case event.RunFinished:
//			fmt.Println(d.Status)
//		}
//	}
//
// An [Event] is an envelope around [Data]: a sealed set of plain value types. Its JSON is one flat
// object on one line.
//
// # Guarantees
//
//   - An observer sees the events of a run in the order of their numbers, each once, and nothing after
//     the terminal one. It never misses one silently: it gets a [*GapError] instead.
//   - Publishing never waits, whatever the observers do. A slow observer loses its place in the end, not
//     the run its pace.
//   - The log of a run is bounded in bytes, and goes a while after the run has ended. Events are not
//     durable: what they tell is in the store.
//   - A run of another tenant looks like none.
//   - Events are shared between all observers: nobody may change what their data refers to, neither the
//     publisher afterwards nor an observer.
//   - All methods of [Memory] are safe for concurrent use. It starts no goroutine.
package event
