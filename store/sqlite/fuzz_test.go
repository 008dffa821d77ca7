package sqlite

import (
	"testing"

	"github.com/everstep-go/everstep/store/storetest"
)

func FuzzStore(f *testing.F) { storetest.Fuzz(f, harness(Options{Readers: 1})) }

func TestTapes(t *testing.T) {
	t.Parallel()
	storetest.RunTapes(t, harness(Options{Readers: 1}), 1, 100)
}
