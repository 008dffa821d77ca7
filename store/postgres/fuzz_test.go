package postgres

import (
	"testing"

	"github.com/everstep-go/everstep/internal/pgserver/pgtest"
	"github.com/everstep-go/everstep/store/storetest"
)

func FuzzStore(f *testing.F) { storetest.Fuzz(f, harness(f, pgtest.New(f), Options{})) }

func TestTapes(t *testing.T) {
	t.Parallel()
	storetest.RunTapes(t, harness(t, pgtest.New(t), Options{}), 1, 50)
}
