package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/examples/internal/programtest"
)

func TestMain(m *testing.M) { programtest.Main(m, main) }

func TestTheWorkIsDoneOnce(t *testing.T) {
	require.Equal(t, `the worker is killed
the boss is killed
the boss says: the worker has dug 4 steps deep
tasks of the worker: 1
steps, and how often each was done: step 1: 1, step 2: 1, step 3: 1, step 4: 1
`, programtest.Run(t, t.TempDir()))
}
