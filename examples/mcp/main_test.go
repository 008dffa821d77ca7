package main

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// env tells the test binary to be the program.
const env = "EVERSTEP_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(env) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestTheAnswerReachesTheServer(t *testing.T) {
	binary, err := os.Executable()
	require.NoError(t, err)
	const asks = `desk__book asks: {"mode":"form","message":"Which seat?","requestedSchema":{"properties":{"seat":{"type":"string"}},"required":["seat"],"type":"object"}}` + "\n"
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, "The desk says: no seat, no ticket\n"},
		{[]string{"-seat", "7A"}, "The desk says: a ticket to Oslo, seat 7A\n"},
	} {
		cmd := exec.CommandContext(t.Context(), binary, tt.args...)
		cmd.Env = append(os.Environ(), env+"=1", "GORACE=atexit_sleep_ms=0")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		require.Equal(t, asks+tt.want, string(out))
	}
}
