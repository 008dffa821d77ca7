package powercut

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/store/sqlite"
)

var (
	cuts = flag.Int("powercut.cuts", 50, "how many cuts are made in each mode")
	seed = flag.Uint64("powercut.seed", 1, "what is written, and where and how it is cut")
)

// A life is a store's whole life under one mode, and what may come of cutting it.
type life struct {
	opts  sqlite.Options
	crowd bool
	liar  bool
}

// A result is what came of the cuts of a life.
type result struct {
	cuts, losing, lost, worst int // cuts that lost something, what they lost in all, and at most
	damaged                   []string
}

func (r result) String() string {
	return fmt.Sprintf("%d cuts: %d lost something, %d acknowledged writes in all, %d at most; %d damaged", r.cuts, r.losing, r.lost, r.worst, len(r.damaged))
}

// run records the life once and cuts it many times.
func (l life) run(t *testing.T, cuts int) result {
	h := live(t, l.opts, *seed, 2, 4, 30, l.crowd) // enough for the log to be checkpointed on the way
	chance := rand.New(rand.NewPCG(*seed, 0))
	var places []int
	for range cuts {
		places = append(places, chance.IntN(len(h.ops)+1))
	}
	return h.cutAt(t, l, places)
}

// cutAt cuts the history at places of the record and examines what is left.
func (h *history) cutAt(t *testing.T, l life, places []int) result {
	slices.Sort(places)
	d := newDisk(l.liar)
	at := 0
	r := result{cuts: len(places)}
	dir := filepath.Join(t.TempDir(), "cut")
	for i, place := range places {
		for ; at < place; at++ {
			d.do(h.ops[at])
		}
		require.NoError(t, os.RemoveAll(dir))
		require.NoError(t, os.Mkdir(dir, 0o755))
		files := d.cut(rand.New(rand.NewPCG(*seed, uint64(1+i))))
		lost, err := h.examine(dir, files, place, l.opts)
		if err != nil {
			r.damaged = append(r.damaged, fmt.Sprintf("seed %d, cut %d at %d of %d: %v", *seed, i, place, len(h.ops), err))
			continue
		}
		r.lost += lost
		r.worst = max(r.worst, lost)
		if lost > 0 {
			r.losing++
		}
	}
	t.Logf("%d operations of the disk, %d acknowledged writes; %v", len(h.ops), len(h.facts), r)
	return r
}

// The birth of a database is short and delicate: it begins without a log. So it is cut everywhere.
func TestADatabaseIsBornWhole(t *testing.T) {
	h := live(t, sqlite.Options{}, *seed, 1, 1, 2, false)
	var places []int
	for place := range min(h.facts[0].acked+10, len(h.ops)) {
		places = append(places, slices.Repeat([]int{place}, 4)...)
	}
	r := h.cutAt(t, life{}, places)
	require.Empty(t, r.damaged)
	require.Zero(t, r.lost, "acknowledged writes are gone")
}

func TestFullLosesNothing(t *testing.T) {
	r := life{}.run(t, *cuts)
	require.Empty(t, r.damaged)
	require.Zero(t, r.lost, "acknowledged writes are gone")
}

func TestFullLosesNothingInACrowd(t *testing.T) {
	r := life{crowd: true}.run(t, *cuts)
	require.Empty(t, r.damaged)
	require.Zero(t, r.lost, "acknowledged writes are gone")
}

func TestNormalLosesTheEndAndIsNeverDamaged(t *testing.T) {
	r := life{opts: sqlite.Options{Synchronous: sqlite.Normal}}.run(t, *cuts)
	require.Empty(t, r.damaged)
	require.NotZero(t, r.losing, "no cut lost anything: are the cuts seen at all?")
}

func TestADiskThatDoesNotFlushIsDamaged(t *testing.T) {
	r := life{liar: true}.run(t, max(*cuts/3, 30))
	require.NotEmpty(t, r.damaged, "the control is sound: these tests see no damage")
	first, _, _ := strings.Cut(r.damaged[0], "\n")
	t.Log(first)
}

func TestTheRecordIsTheSameEachTime(t *testing.T) {
	one := live(t, sqlite.Options{}, *seed, 1, 2, 5, false)
	two := live(t, sqlite.Options{}, *seed, 1, 2, 5, false)
	require.Equal(t, len(one.ops), len(two.ops))
	for i := range one.ops {
		require.Equal(t, one.ops[i], two.ops[i], "operation %d", i)
	}
}
