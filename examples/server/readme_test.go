package main

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/httpapi/httpapitest"
)

// needs skips a test for want of a program. Where everything must be tested that is a failure.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, program := range programs {
		if _, err := exec.LookPath(program); err == nil {
			continue
		}
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s is missing: install it", program)
		}
		t.Skipf("%s is missing", program)
	}
}

var shellBlock = regexp.MustCompile("(?s)\n```sh\n(.*?)```\n")

// blocks returns the commands of the README's section about the server.
func blocks(t *testing.T) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(text), "\n## Serve it\n")
	require.True(t, ok)
	section, _, _ = strings.Cut(section, "\n## ")
	require.Contains(t, section, "\n```\ngo run ./examples/server\n```\n")
	for _, m := range shellBlock.FindAllStringSubmatch(section, -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

// TestREADME pastes the README's commands into one shell, one after the other.
func TestREADME(t *testing.T) {
	t.Parallel()
	needs(t, "bash", "curl")
	s := start(t, t.TempDir())
	const mark = "-- end of the block --"
	pasted := strings.Join(blocks(t), "\necho '"+mark+"'\n")
	require.Equal(t, 1, strings.Count(pasted, "http://127.0.0.1:8080"))
	cmd := exec.CommandContext(t.Context(), "bash", "-eu")
	cmd.Stdin = strings.NewReader(strings.Replace(pasted, "http://127.0.0.1:8080", s.url, 1))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	answers := strings.Split(string(out), mark+"\n")
	require.Len(t, answers, 6, "%s", out)
	run, messages, checkpoints, fork, started, cancelled := answers[0], answers[1], answers[2], answers[3], answers[4], answers[5]

	require.Equal(t, []event.Kind{
		"run_started", "state_snapshot", "tool_call_start", "tool_call_args", "tool_call_end", "tool_call_result",
		"text_message_start", "text_message_content", "text_message_content", "text_message_end", "messages_snapshot", "run_finished",
	}, kinds(t, run))

	var said struct{ Items []stored }
	decode(t, messages, &said)
	require.Len(t, said.Items, 4)
	require.Equal(t, "add: 5", said.Items[0].Content)

	var kept struct {
		Items []struct {
			ID     uuid.UUID
			Reason string
			Parent *uuid.UUID `json:"parent_checkpoint_id"`
		}
	}
	decode(t, checkpoints, &kept)
	require.Len(t, kept.Items, 7)
	first := kept.Items[6]
	require.Equal(t, "input", first.Reason)
	require.Nil(t, first.Parent)

	require.Contains(t, fork, `"tool_name":"weather"`)
	require.Contains(t, kinds(t, fork), event.KindRunFinished)
	var forked struct {
		Items []struct {
			Parent *uuid.UUID `json:"parent_checkpoint_id"`
		}
	}
	s.call(http.StatusOK, "GET", "/v1/sessions/0199d8a4-0000-7000-8000-000000000003/checkpoints", nil, &forked)
	children := 0
	for _, c := range forked.Items {
		if c.Parent != nil && *c.Parent == first.ID {
			children++
		}
	}
	require.Equal(t, 2, children, "the conversation has two branches now")

	require.Contains(t, started, `"status":"running"`)
	require.Contains(t, cancelled, `"status":"cancelled"`)
	require.Contains(t, kinds(t, cancelled), event.KindRunFinished)
}

func kinds(t *testing.T, stream string) []event.Kind {
	t.Helper()
	kinds, err := httpapitest.Kinds(strings.NewReader(stream))
	require.NoError(t, err, "%s", stream)
	return kinds
}

func decode(t *testing.T, text string, out any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), out), "%s", text)
}
