package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/everstep-go/everstep/store"
)

// Options are what a case wants of the store that it is given.
type Options struct {
	// Now is the store's clock. It is never nil and may be called by any goroutine.
	Now func() time.Time
}

// A Harness opens the driver under test.
type Harness struct {
	// Open returns an empty store and closes it when the test ends. Closing it twice, or after
	// the case did, must do no harm.
	Open func(t testing.TB, opts Options) store.Store
	// Reopen closes a store that Open returned and opens again what it kept, as a new process
	// would. If nil, the store does not outlive its process, and is not reopened.
	Reopen func(t testing.TB, s store.Store, opts Options) store.Store
	// Rows returns how many rows each table has that holds what belongs to sessions, to prove
	// that a deletion leaves none. If nil, that is only tested by what the store shows.
	Rows func(t testing.TB, s store.Store) map[string]int
}

// Run runs all cases against the harness's driver.
func Run(t *testing.T, h Harness) {
	for _, c := range scenarios() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("%s defends: %s", c.name, c.defends)
				}
			})
			c.run(newBundle(t, h))
		})
	}
}

// A scenario is one case of the suite.
type scenario struct {
	name    string
	defends string // the sentence
	run     func(b *bundle)
}

// scenarios returns every case, in the order of a run's life.
func scenarios() []scenario {
	return slices.Concat(
		beginScenarios, headScenarios, lineScenarios, commitScenarios, fenceScenarios,
		messageScenarios, documentScenarios, taskScenarios, sequenceScenarios, waitScenarios,
		leaseScenarios, cancelScenarios, loadScenarios, listScenarios, pageScenarios,
		sessionScenarios, valueScenarios, tenantScenarios, lifeScenarios, recordScenarios,
	)
}
