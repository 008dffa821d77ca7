package a2a_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/react"
)

// peers returns the folder with what others wrote. Without it, tests are skipped; where everything must be tested that
// is a failure.
func peers(t *testing.T) string {
	t.Helper()
	missing := func(format string, a ...any) {
		if os.Getenv("CI") == "true" {
			t.Fatalf(format, a...)
		}
		t.Skipf(format, a...)
	}
	if _, err := exec.LookPath("node"); err != nil {
		missing("node is missing: install it")
	}
	if _, err := os.Stat(filepath.Join("peertest", "node_modules")); err != nil {
		missing("the peers are missing: run npm ci in httpapi/a2a/peertest")
	}
	dir, err := filepath.Abs("peertest")
	require.NoError(t, err)
	return dir
}

func TestTheJavaScriptClient(t *testing.T) {
	dir := peers(t)
	for _, binding := range bindings {
		t.Run(string(binding), func(t *testing.T) {
			t.Parallel()
			b := serve(t, parrot(t, nil), pushSoon)
			out, err := exec.CommandContext(t.Context(), "node", filepath.Join(dir, "client.js"), string(binding), b.web.URL).CombinedOutput()
			require.NoError(t, err, string(out))
			assert.Contains(t, string(out), "all good")
		})
	}
}

func TestTheJavaScriptServer(t *testing.T) {
	dir := peers(t)
	for _, binding := range bindings {
		t.Run(string(binding), func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), "node", filepath.Join(dir, "server.js"), string(binding))
			cmd.Stderr = os.Stderr
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			t.Cleanup(func() { _ = cmd.Wait() })
			lines := bufio.NewScanner(out)
			require.True(t, lines.Scan())
			agent, session := caller(t, connect(t, lines.Text())), uuid.New()

			state, err := do(t, agent, react.Ask(session, "hello"))
			require.NoError(t, err)
			assert.Equal(t, "hello!", reported(t, state).Text)
			require.True(t, lines.Scan())
			assert.Equal(t, "hello", lines.Text())

			_, err = do(t, agent, react.Ask(session, "ask"))
			require.ErrorIs(t, err, graph.ErrInterrupted)
			state, err = do(t, agent, react.Answer(session, "red"))
			require.NoError(t, err)
			r := reported(t, state)
			assert.Equal(t, "red!", r.Text)
			assert.Equal(t, stateName(sdk.TaskStateCompleted), r.State)
			for _, heard := range []string{"ask", "red"} {
				require.True(t, lines.Scan())
				assert.Equal(t, heard, lines.Text(), "each once")
			}
		})
	}
}

func stateName(s sdk.TaskState) string {
	return strings.ToLower(strings.TrimPrefix(string(s), "TASK_STATE_"))
}
