package memory_test

import (
	"testing"

	"github.com/everstep-go/everstep/store"
	"github.com/everstep-go/everstep/store/memory"
	"github.com/everstep-go/everstep/store/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, storetest.Harness{
		Open: func(_ testing.TB, opts storetest.Options) store.Store {
			return memory.New(&memory.Options{Now: opts.Now})
		},
	})
}
