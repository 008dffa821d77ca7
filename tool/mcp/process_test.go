package mcp_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/tool/mcp"
)

const (
	testWait = 10 * time.Second
	testTick = time.Millisecond
)

func TestAProcess(t *testing.T) {
	t.Parallel()
	client, err := mcp.Connect(t.Context(), program(t, "echo"))
	require.NoError(t, err)
	got, err := call(t.Context(), client, "echo__echo", `{"text":"hi"}`)
	require.NoError(t, err)
	assert.Equal(t, `"hi"`, got)
	// More than a pipe holds.
	long := strings.Repeat("x", 1<<20)
	got, err = call(t.Context(), client, "echo__echo", `{"text":"`+long+`"}`)
	require.NoError(t, err)
	assert.Len(t, got, len(long)+2)
	require.NoError(t, client.Close())
}

// A result that is longer than the SDK takes breaks the connection; the next call has another one.
func TestAResultThatIsTooLong(t *testing.T) {
	t.Parallel()
	config := program(t, "flood")
	config.Options = func(*sdk.Tool) react.ToolOptions { return react.ToolOptions{AtMostOnce: true} }
	client, err := mcp.Connect(t.Context(), config)
	require.NoError(t, err)
	_, err = call(t.Context(), client, "flood__flood", `{}`)
	require.ErrorContains(t, err, `mcp: server "flood": whether the tool did its work is unknown: the connection was lost`)
	got, err := call(t.Context(), client, "flood__echo", `{"text":"hi"}`)
	require.NoError(t, err)
	assert.Equal(t, `"hi"`, got)
	require.NoError(t, client.Close())
}

func TestProcessesThatAreNoServers(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"exit":    `mcp: server "exit": connecting: `,
		"garbage": `mcp: server "garbage": connecting: `,
		"silent":  `mcp: server "silent": not connected within 200ms`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := program(t, name)
			config.ConnectTimeout = 10 * time.Second
			if name == "silent" {
				config.ConnectTimeout = 200 * time.Millisecond
			}
			var log bytes.Buffer
			config.Stderr = &log
			start := time.Now()
			_, err := mcp.Connect(t.Context(), config)
			require.ErrorContains(t, err, want)
			assert.Less(t, time.Since(start), 5*time.Second)
		})
	}
}

func TestCloseKillsAProcessThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	config := program(t, "stubborn")
	config.Grace = 50 * time.Millisecond
	client, err := mcp.Connect(t.Context(), config)
	require.NoError(t, err)
	require.NoError(t, client.Close())
}

func TestAProcessOutlivesTheContextThatStartedIt(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	client, err := mcp.Connect(ctx, program(t, "echo"))
	require.NoError(t, err)
	cancel()
	got, err := call(t.Context(), client, "echo__echo", `{"text":"hi"}`)
	require.NoError(t, err)
	assert.Equal(t, `"hi"`, got)
	require.NoError(t, client.Close())
}
