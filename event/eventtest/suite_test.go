package eventtest

import (
	"testing"

	"github.com/everstep-go/everstep/event"
)

// openMemory opens the bus that is known to be sound.
func openMemory(t testing.TB, opts Options) Pair {
	m := event.NewMemory(&event.MemoryOptions{Bytes: opts.Bytes})
	t.Cleanup(func() { _ = m.Close() })
	return Pair{One: m, Other: m}
}

func TestASoundBusPasses(t *testing.T) {
	t.Parallel()
	Run(t, Harness{Open: openMemory})
}
