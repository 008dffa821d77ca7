package memory_test

import (
	"testing"

	"github.com/everstep-go/everstep/store/storetest"
)

func FuzzStore(f *testing.F) { storetest.Fuzz(f, harness) }

func TestTapes(t *testing.T) {
	t.Parallel()
	storetest.RunTapes(t, harness, 1, 300)
}
