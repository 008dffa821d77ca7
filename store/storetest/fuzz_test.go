package storetest

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

var keep = flag.Bool("storetest.keep", false, "choose the tapes of testdata/tapes anew")

// mustReach are the calls and their outcomes that the kept tapes make.
var mustReach = []string{
	"Begin", "Begin, branch", "Begin, ends", "Begin, waits", "Begin, store: already exists", "Begin, store: not found",
	"Begin, store: position has moved on", "Begin, store: session is busy", "Begin again",
	"Claim", "Claim, limited", "Claim, some",
	"Commit", "Commit, after a takeover", "Commit, branch", "Commit, ends", "Commit, tasks", "Commit, store: not found",
	"Commit, store: position has moved on", "Commit, store: run is to be cancelled", "Commit, store: the run is no longer this owner's",
	"Commit again", "Commit again, after a takeover", "Commit again, after its end",
	"CreateMessage", "CreateMessage, store: already exists", "CreateMessage, store: not found",
	"CreateSession", "CreateSession, store: already exists",
	"DeleteMessage", "DeleteMessage, store: not found", "DeleteSession", "DeleteSession, store: not found",
	"Promote", "Promote, active", "Promote, its turn", "Promote, not its turn", "Promote, store: not found", "Promote, store: the run is no longer this owner's",
	"Prune", "Prune, some", "Prune, only a waiting run",
	"Release", "Release, store: not found", "Release, store: the run is no longer this owner's",
	"Renew", "Renew, cancels", "Renew, held", "Renew, lost",
	"RequestCancel", "RequestCancel, store: not found", "RequestCancel, waits",
	"SaveTask", "SaveTask, store: not found", "SaveTask, store: position has moved on", "SaveTask, store: the run is no longer this owner's",
	"the clock goes back",
}

func TestTheKeptTapesReachEverything(t *testing.T) {
	t.Parallel()
	if *keep {
		chooseTapes(t)
		return
	}
	reached := map[string]bool{}
	for _, bytes := range tapes(t) {
		maps.Copy(reached, play(t, harness(nil, false), bytes))
	}
	require.Subset(t, slices.Collect(maps.Keys(reached)), mustReach, "choose them anew: go test -storetest.keep")
}

// chooseTapes takes each time the random tape that reaches most of what is not reached yet.
func chooseTapes(t *testing.T) {
	all := map[uint64]map[string]bool{}
	for i := range uint64(2000) {
		all[i] = play(t, harness(nil, false), randomTape(0, i))
	}
	require.NoError(t, os.RemoveAll("testdata/tapes"))
	require.NoError(t, os.MkdirAll("testdata/tapes", 0o755))
	missing := slices.Clone(mustReach)
	for len(missing) > 0 {
		best, most := uint64(0), 0
		for i := range uint64(len(all)) {
			n := 0
			for _, m := range missing {
				if all[i][m] {
					n++
				}
			}
			if n > most {
				best, most = i, n
			}
		}
		require.NotZero(t, most, "no tape reaches %q", missing)
		missing = slices.DeleteFunc(missing, func(m string) bool { return all[best][m] })
		require.NoError(t, os.WriteFile(filepath.Join("testdata/tapes", fmt.Sprintf("random-%04d", best)), randomTape(0, best), 0o644))
	}
}
