package main

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/examples/internal/programtest"
	"github.com/everstep-go/everstep/internal/pgserver/pgtest"
)

func TestMain(m *testing.M) { programtest.Main(m, main) }

func TestTheOthersFinishWhatTwoReplicasBegan(t *testing.T) {
	pgtest.Start(t, nil) // or there is nothing to test
	out, err := programtest.Start(t, t.TempDir())
	if failed, ok := err.(*exec.ExitError); ok {
		t.Log(string(failed.Stderr))
	}
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Equal(t, "red is killed, green is frozen", lines[0])
	n, moved := 0, map[string]bool{}
	for _, line := range lines {
		m := regexp.MustCompile(`^run \d, begun on (red|green|blue): +steps on (\w+(?:, \w+)*): (.*)$`).FindStringSubmatch(line)
		if m == nil {
			continue
		}
		n++
		where := strings.Split(m[2], ", ")
		require.Len(t, where, steps, line)
		// On a busy machine a replica may lose a run before anything is wrong with it.
		if where[0] == m[1] && where[steps-1] == "blue" {
			moved[m[1]] = true
		}
		require.Equal(t, "completed", m[3], line)
	}
	require.Equal(t, 3*runs, n)
	require.True(t, moved["red"] && moved["green"], "what they had begun was finished elsewhere")
}
