//go:build unix

package chaos_test

import (
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/internal/chaos"
	"github.com/everstep-go/everstep/internal/pgserver"
)

var (
	seed   = flag.Uint64("seed", 0, "of the plan and the clients; 0: a new one")
	events = flag.Int("events", 0, "`how many` things go wrong; 0: 8, and 50 if the variable CI is true")
	build  = flag.String("build", "", "more `arguments` for go build of the server, such as -race")
)

func TestNothingIsLostOrDoneTwiceWhateverGoesWrong(t *testing.T) {
	if testing.Short() {
		t.Skip("kills servers for a while: not in short mode")
	}
	o := chaos.Options{Seed: *seed, Events: *events, Build: strings.Fields(*build), Log: t.Output()}
	if o.Seed == 0 {
		o.Seed = uint64(time.Now().UnixNano())
	}
	if o.Events == 0 {
		if o.Events = 8; os.Getenv("CI") == "true" {
			o.Events = 50
		}
	}
	t.Logf("-seed %d -events %d", o.Seed, o.Events)
	dir := t.TempDir()
	if keep := os.Getenv("CHAOS_DIR"); keep != "" {
		dir = keep // the logs of the servers are kept there
	}
	h, err := chaos.Run(t.Context(), dir, o)
	if errors.Is(err, pgserver.ErrMissing) && os.Getenv("CI") != "true" {
		t.Skipf("needs PostgreSQL: %v", err)
	}
	require.NoError(t, err)
	h.Report(t.Output())
	for _, v := range h.Check() {
		assert.Fail(t, v)
	}
}
