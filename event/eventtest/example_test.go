package eventtest_test

import (
	"testing"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/event/eventtest"
)

// The test of a bus is a few lines. One that connects processes opens two instances, and sets Pause
// and Resume if what connects them can be taken away.
func ExampleRun() {
	_ = func(t *testing.T) { // TestConformance of the bus
		eventtest.Run(t, eventtest.Harness{
			Open: func(t testing.TB, opts eventtest.Options) eventtest.Pair {
				bus := event.NewMemory(&event.MemoryOptions{Bytes: opts.Bytes})
				t.Cleanup(func() { bus.Close() })
				return eventtest.Pair{One: bus, Other: bus}
			},
		})
	}
}
