package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/examples/internal/programtest"
)

func TestMain(m *testing.M) { programtest.Main(m, main) }

func TestTheAnswerFindsItsWayToTheAgentThatAsked(t *testing.T) {
	dir := t.TempDir()
	require.Equal(t, "scout asks: {\"question\":\"North or south?\"}\nAnswer with -answer.\n", programtest.Run(t, dir))
	require.Equal(t, "scout: Then it is Bergen.\n", programtest.Run(t, dir, "-answer", "North"))
}
