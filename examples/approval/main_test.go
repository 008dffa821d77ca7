package main

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/examples/internal/programtest"
)

func TestMain(m *testing.M) { programtest.Main(m, main) }

func TestAnswerAfterARestart(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer []string
		want   string
	}{
		{"approved", []string{"-approve"}, "(paying 100 to Ada)\npay: Ada has got 100 euros\n"},
		{"rejected", []string{"-reject"}, "pay: error: the call was rejected\n"},
		{"rejected with a reason", []string{"-reject", "-reason", "too much"}, "pay: error: too much\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			require.Equal(t, `The agent wants to call pay: {"tool":"pay","arguments":{"to":"Ada","amount":100}}
Answer with -approve, or with -reject and perhaps a -reason.
`, programtest.Run(t, dir))
			require.Equal(t, tt.want, programtest.Run(t, dir, tt.answer...))
		})
	}
}

func TestNothingToAnswer(t *testing.T) {
	_, err := programtest.Start(t, t.TempDir(), "-approve")
	ended, ok := err.(*exec.ExitError)
	require.True(t, ok)
	require.Contains(t, string(ended.Stderr), "invalid resume: nothing is interrupted")
}
