package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/examples/internal/programtest"
)

func TestMain(m *testing.M) { programtest.Main(m, main) }

// booked returns what was really booked, in alphabetical order.
func booked(output string) map[string]int {
	times := map[string]int{}
	for line := range strings.Lines(output) {
		if what, ok := strings.CutPrefix(line, "    (booking the "); ok {
			times[strings.TrimSuffix(what, ")\n")]++
		}
	}
	return times
}

func TestGoesOn(t *testing.T) {
	dir := t.TempDir()
	first := programtest.Run(t, dir)
	require.True(t, strings.HasPrefix(first, "you:   Book my holiday, please.\n"), first)
	require.True(t, strings.HasSuffix(first, "clerk: Everything is booked. Have a good time!\n"), first)
	require.FileExists(t, dir+"/everstep.db")
	second := programtest.Run(t, dir)
	require.Equal(t, "We have talked before. I said: Everything is booked. Have a good time!\n", second[:strings.Index(second, "you:")])
}

func TestKilledRunIsFinishedWithoutRepeatingWhatWasDone(t *testing.T) {
	dir := t.TempDir()
	killed, err := programtest.Start(t, dir, "-kill", "-db", "trip.db")
	_, ok := err.(*exec.ExitError)
	require.True(t, ok, "it should have been killed: %v\n%s", err, killed)
	require.Equal(t, map[string]int{"train": 1, "hotel": 1}, booked(killed))
	require.NotContains(t, killed, "clerk:")

	next := programtest.Run(t, dir, "-db", "trip.db")
	finished, further, ok := strings.Cut(next, "you:   Book my holiday, please.\n")
	require.True(t, ok, next)
	require.True(t, strings.HasPrefix(finished, "I was killed. I go on where I was:\n"), finished)
	require.Equal(t, map[string]int{"boat": 1}, booked(finished))
	for _, what := range []string{"train", "hotel", "boat"} {
		require.Equal(t, 1, strings.Count(finished, `  ← "the `+what+` is booked"`), "every call has its result:\n%s", finished)
	}
	require.Contains(t, finished, "clerk: Everything is booked. Have a good time!\n")
	require.Equal(t, map[string]int{"train": 1, "hotel": 1, "boat": 1}, booked(further))
}
