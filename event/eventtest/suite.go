package eventtest

import (
	"slices"
	"testing"
	"time"

	"github.com/everstep-go/everstep/event"
)

// Options are what a case wants of the buses that it is given.
type Options struct {
	// Bytes bounds the log of one run, as [event.Size] counts, roughly. Zero means the bus's default,
	// which must be 4 MiB at least.
	Bytes int
}

// A Pair is two buses that are connected, as those of two processes are. For a bus within one
// process they are the same.
type Pair struct {
	One, Other event.Bus
	// Pause puts what connects them out of reach, and Resume brings it back, with or without what
	// was kept there. If nil, nothing connects them that could be away.
	Pause, Resume func()
}

// A Harness opens the bus under test.
type Harness struct {
	// Open returns two buses without any runs, and closes them when the test ends. The suite waits until
	// they hear each other.
	// Closing them twice, or after the case did, must do no harm.
	Open func(t testing.TB, opts Options) Pair
	// Patience is how long a case waits for what must happen. Zero means ten seconds.
	Patience time.Duration
}

// Run runs all cases against the harness's bus.
func Run(t *testing.T, h Harness) {
	for _, c := range scenarios() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("%s defends: %s", c.name, c.defends)
				}
			})
			c.play(t, h)
		})
	}
}

// A scenario is one case of the suite.
type scenario struct {
	name    string
	defends string // the sentence
	options Options
	run     func(b *bundle)
}

func (c *scenario) play(t testing.TB, h Harness) {
	b := newBundle(t, h, c.options)
	defer b.stop()
	c.run(b)
}

// scenarios returns every case, in the order of a run's life.
func scenarios() []scenario {
	return slices.Concat(logScenarios, observerScenarios, gapScenarios, ownerScenarios, valueScenarios, lifeScenarios, signalScenarios)
}
