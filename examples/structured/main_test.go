package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/examples/internal/programtest"
)

func TestMain(m *testing.M) { programtest.Main(m, main) }

func TestTheAnswerIsAValue(t *testing.T) {
	require.Equal(t, "{Number: Total:0 Overdue:false}\n8 tokens in, 1 out\n", programtest.Run(t, t.TempDir()))
}
