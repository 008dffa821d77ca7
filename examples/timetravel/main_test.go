package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/examples/internal/programtest"
)

func TestMain(m *testing.M) { programtest.Main(m, main) }

func TestBothBranches(t *testing.T) {
	require.Equal(t, `Checkpoints, the newest first:
  finish  exit
  step    exit
  step    call_model
  step    entrypoint
  input   entrypoint
  finish  exit
  step    exit
  step    call_model
  step    call_tools
  step    call_model
  step    entrypoint
  input   entrypoint

Branches:
  you: How is the weather in Oslo?       | you: How is the weather in Oslo?
  call: weather {"city":"Oslo"}          | call: weather {"city":"Oslo"}
  result: rain in Oslo                   | result: rain in Oslo
  guide: weather: rain in Oslo           | guide: weather: rain in Oslo
  you: Then I stay at home.              | you: Then how is the weather in Rome?
  guide: You said: Then I stay at home.  | call: weather {"city":"Rome"}
                                         | result: rain in Rome
                                         | guide: weather: rain in Rome
`, programtest.Run(t, t.TempDir()))
}
