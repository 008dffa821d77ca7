package mcp_test

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/react/reacttest"
	"github.com/everstep-go/everstep/tool/mcp"
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
		missing("the peers are missing: run npm ci in tool/mcp/peertest")
	}
	dir, err := filepath.Abs("peertest")
	require.NoError(t, err)
	return dir
}

// everything is the reference server, by each transport.
func everything(t *testing.T) map[string]mcp.Config {
	t.Helper()
	dir := peers(t)
	script := filepath.Join(dir, "node_modules", "@modelcontextprotocol", "server-everything", "dist", "index.js")

	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := l.Addr().(*net.TCPAddr).Port
	require.NoError(t, l.Close())
	cmd := exec.CommandContext(t.Context(), "node", script, "streamableHttp")
	cmd.Env = append(os.Environ(), "PORT="+strconv.Itoa(port))
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() })
	address := "127.0.0.1:" + strconv.Itoa(port)
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
		}
		return err == nil
	}, 3*testWait, 10*testTick)

	return map[string]mcp.Config{
		"stdio": {Name: "all", Command: "node", Args: []string{script, "stdio"}},
		"HTTP":  {Name: "all", URL: "http://" + address + "/mcp"},
	}
}

func TestTheReferenceServer(t *testing.T) {
	for transport, config := range everything(t) {
		t.Run(transport, func(t *testing.T) {
			client, err := mcp.Connect(t.Context(), config)
			require.NoError(t, err)
			defer func() { require.NoError(t, client.Close()) }()
			require.NoError(t, client.Refused())
			require.Subset(t, toolNames(client), []string{"all__echo", "all__get-sum", "all__get-tiny-image", "all__trigger-elicitation-request"})

			got, err := call(t.Context(), client, "all__get-sum", `{"a":2,"b":3}`)
			require.NoError(t, err)
			assert.Equal(t, `"The sum of 2 and 3 is 5."`, got)

			got, err = call(t.Context(), client, "all__get-structured-content", `{"location":"Chicago"}`)
			require.NoError(t, err)
			assert.JSONEq(t, `{"temperature":36,"conditions":"Light rain / drizzle","humidity":82}`, got)

			got, err = call(t.Context(), client, "all__get-tiny-image", `{}`)
			require.NoError(t, err)
			var content []struct{ Type, Text, Data, MIMEType string }
			require.NoError(t, json.Unmarshal([]byte(got), &content))
			require.Len(t, content, 3)
			assert.Equal(t, "image", content[1].Type)
			assert.Equal(t, "image/png", content[1].MIMEType)
			assert.True(t, strings.HasPrefix(content[1].Data, "iVBORw0KGgo"), "a PNG")

			_, err = call(t.Context(), client, "all__get-sum", `{"a":"two"}`)
			require.ErrorContains(t, err, "Input validation error")

			agent := newAgent(t, reacttest.NewScript(
				reacttest.Call(
					reacttest.ToolCall("c1", "all__trigger-long-running-operation", `{"duration":0.2,"steps":4}`),
					reacttest.ToolCall("c2", "all__trigger-elicitation-request", `{}`),
				),
				reacttest.Say("well"),
			), client.Tools())
			session := uuid.New()
			events, questions := run(t, agent, react.Ask(session, "go"))
			// The last one may come too late.
			assert.GreaterOrEqual(t, len(of[event.ActivityDelta](events)), 3)
			require.Len(t, questions, 1)
			assert.Contains(t, questions[0].ID, "c2:")
			assert.Contains(t, string(questions[0].Payload), `"firstLine"`)
			events, questions = run(t, agent, react.Answer(session, json.RawMessage(`{"action":"accept","content":{"name":"Ada"}}`)))
			require.Empty(t, questions)
			results := of[event.ToolCallResult](events)
			require.Len(t, results, 1)
			assert.Contains(t, string(results[0].Content), "Ada")
		})
	}
}

func TestTheReferenceClient(t *testing.T) {
	dir := peers(t)
	server := serveParrot(t, nil, nil)
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
	t.Cleanup(func() {
		for session := range server.Sessions() {
			session.Close()
		}
		web.Close()
	})
	process := program(t, "agent")
	for transport, args := range map[string][]string{
		"stdio": {"stdio", process.Command},
		"HTTP":  {"http", web.URL},
	} {
		t.Run(transport, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "node", append([]string{filepath.Join(dir, "client.js")}, args...)...)
			cmd.Env = append(os.Environ(), process.Env...)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, string(out))
			assert.Contains(t, string(out), "all good")
		})
	}
}
