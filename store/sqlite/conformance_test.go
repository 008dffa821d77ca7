package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/store"
	"github.com/everstep-go/everstep/store/storetest"
)

func TestConformance(t *testing.T) { conform(t, Options{}) }

func TestConformanceOfAnExclusiveFile(t *testing.T) { conform(t, Options{Exclusive: true}) }

func conform(t *testing.T, o Options) { storetest.Run(t, harness(o)) }

// harness opens stores with the given options for the suite.
func harness(o Options) storetest.Harness {
	open := func(t testing.TB, path string, opts storetest.Options) store.Store {
		o := o
		o.Synchronous, o.Now, o.keepLeases = Normal, opts.Now, true
		s, err := Open(path, &o)
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, s.Close()) })
		return s
	}
	return storetest.Harness{
		Open: func(t testing.TB, opts storetest.Options) store.Store {
			return open(t, filepath.Join(t.TempDir(), "everstep.db"), opts)
		},
		Reopen: func(t testing.TB, s store.Store, opts storetest.Options) store.Store {
			require.NoError(t, s.Close())
			return open(t, s.(*Store).path, opts)
		},
		Rows: func(t testing.TB, s store.Store) map[string]int { return rows(t, s.(*Store)) },
	}
}
