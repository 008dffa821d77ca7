package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/examples/internal/programtest"
)

func TestMain(m *testing.M) { programtest.Main(m, main) }

func TestDrawingAndRun(t *testing.T) {
	require.Equal(t, `flowchart TD
  start([start]) --> n0
  n0["draft"]
  n1["review"]
  n0 --> n1
  n1 -->|"needs work"| n0
  n1 -->|"good"| finish([end])

(writing draft 1)
(writing draft 2)
(writing draft 3)
Tea is very very good.
`, programtest.Run(t, t.TempDir()))
}
