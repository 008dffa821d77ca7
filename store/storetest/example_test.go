package storetest_test

import (
	"testing"

	"github.com/everstep-go/everstep/store"
	"github.com/everstep-go/everstep/store/memory"
	"github.com/everstep-go/everstep/store/storetest"
)

// A driver's test is a few lines. One that outlives its process sets Reopen too, and one that
// can count its rows sets Rows.
func ExampleRun() {
	_ = func(t *testing.T) { // TestConformance of the driver
		storetest.Run(t, storetest.Harness{
			Open: func(t testing.TB, opts storetest.Options) store.Store {
				s := memory.New(&memory.Options{Now: opts.Now})
				t.Cleanup(func() { s.Close() })
				return s
			},
		})
	}
}
