package reflex_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The golden file is the drawing that the package was designed from. One edge was added to it.
func TestTheDrawingIsTheDesignsWithOneEdgeMore(t *testing.T) {
	t.Parallel()
	golden, err := os.ReadFile("testdata/reflex.mmd")
	require.NoError(t, err)
	want := strings.Split(string(golden), "\n")
	after := slices.Index(want, "  Scheme --> React")
	require.Positive(t, after)
	want = slices.Insert(want, after+1, "  Scheme -->|direct messages not opened| Done")
	require.Equal(t, strings.Join(want, "\n"), newBundle(t).engine.Mermaid())
}
