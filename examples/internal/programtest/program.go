// Package programtest runs the program under test as a process of its own, so that a test can kill it and start
// it again. The process is the test binary, which becomes the program: nothing else has to be built.
//
//	func TestMain(m *testing.M) { programtest.Main(m, main) }
package programtest

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// env tells a test binary to be the program.
const env = "EVERSTEP_PROGRAM"

// Main runs the tests, or in a process that [Command], [Start] or [Run] began the program.
func Main(m *testing.M, program func()) {
	if os.Getenv(env) != "" {
		program()
		return
	}
	os.Exit(m.Run())
}

// Start runs the program in dir until its end, and returns its standard output and how it ended: nil, or an
// [*exec.ExitError] with its standard error.
func Start(t testing.TB, dir string, args ...string) (output string, err error) {
	t.Helper()
	out, err := Command(t, dir, args...).Output()
	return string(out), err
}

// Command is the program in dir as a command that has yet to be started. It is killed at the end of the test.
func Command(t testing.TB, dir string, args ...string) *exec.Cmd {
	t.Helper()
	binary, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Dir = dir
	// The race detector sleeps a second at the end of each process unless told otherwise.
	cmd.Env = append(os.Environ(), env+"=1", "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	return cmd
}

// Run is Start for a program that must end well.
func Run(t testing.TB, dir string, args ...string) (output string) {
	t.Helper()
	output, err := Start(t, dir, args...)
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		t.Logf("%s%s", output, ended.Stderr)
	}
	require.NoError(t, err)
	return output
}
