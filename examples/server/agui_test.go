package main

import (
	"iter"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/httpapi/agui"
	"github.com/everstep-go/everstep/httpapi/agui/aguitest"
)

// frontend is a client of AG-UI with its copy of a thread.
type frontend struct {
	*server
	thread   string
	messages []any
}

// answer is what a frontend hears.
type answer struct {
	*frontend
	next func() (aguitest.Event, error, bool)
}

// say adds a user message and sends the thread.
func (f *frontend) say(lines ...string) *answer {
	f.t.Helper()
	f.messages = append(f.messages, object{"id": uuid.NewString(), "role": "user", "content": strings.Join(lines, "\n")})
	res := f.do("POST", "/ag-ui", object{"threadId": f.thread, "runId": uuid.NewString(), "protocolVersion": "1.0", "messages": f.messages})
	require.Equal(f.t, http.StatusOK, res.StatusCode)
	next, stop := iter.Pull2(aguitest.Events(res.Body, aguitest.V1))
	f.t.Cleanup(stop)
	return &answer{f, next}
}

// until reads up to the first event of a type, or to the end if there is none, and returns what it read.
func (a *answer) until(kind string) (events []aguitest.Event, err error) {
	for {
		e, err, more := a.next()
		if !more || err != nil {
			return events, err
		}
		events = append(events, e)
		if e.Type() == "MESSAGES_SNAPSHOT" {
			a.messages = e["messages"].([]any)
		}
		if e.Type() == kind {
			return events, nil
		}
	}
}

func TestAFrontendGoesOnWhereAKilledServerLeftIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "ledger.txt")
	args := []string{"-store", "sqlite:kill.db", "-ledger", "ledger.txt"}
	f := &frontend{server: start(t, dir, args...), thread: "the thread"}
	res := f.say(
		`/say I write`,
		`/call ledger {"line":"done","ms":0}`,
		`/call ledger {"line":"open","ms":3600000}`,
	)
	events, err := res.until("TOOL_CALL_RESULT")
	require.NoError(t, err)
	text := events[len(events)-1].Text("content")
	require.Equal(t, "done", text)
	awaitLines(t, file, 2)
	require.Equal(t, -1, f.stop(syscall.SIGKILL))
	_, err = res.until("the end")
	require.Error(t, err, "the answer has an end")

	// What the client has now: a partial answer with a call of which it has no result.
	var reply aguitest.Event
	for _, e := range events {
		if e.Type() == "TOOL_CALL_START" {
			reply = e
		}
	}
	f.messages = append(f.messages, object{"id": reply.Text("parentMessageId"), "role": "assistant", "content": "I write"})
	f.server = start(t, dir, args...)
	events, err = f.say("are you there?").until("the end")
	require.NoError(t, err)
	require.Equal(t, "RUN_FINISHED", events[len(events)-1].Type())
	got := f.server.messages(agui.SessionID(f.thread), "")
	require.Len(t, got, 5)
	require.Equal(t, []any{"done", "You said: are you there?"}, []any{got[2].Content, got[4].Content})
	times, _ := count(lines(t, file))
	require.Equal(t, map[string]int{"done": 1, "open": 1}, times, "nothing is done twice")
	require.Len(t, f.messages, len(got), "and the client has it all")
}

func TestAFrontendHearsThatTheServerShutsDown(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := &frontend{server: start(t, dir, "-ledger", "ledger.txt"), thread: "the thread"}
	res := f.say(`/call ledger {"line":"open","ms":3600000}`)
	_, err := res.until("TOOL_CALL_END")
	require.NoError(t, err)
	awaitLines(t, filepath.Join(dir, "ledger.txt"), 1)
	require.NoError(t, f.cmd.Process.Signal(syscall.SIGTERM))
	rest, err := res.until("the end")
	require.NoError(t, err, "and the answer ends as it should")
	end := rest[len(rest)-1]
	require.Equal(t, []string{"RUN_ERROR", "503000"}, []string{end.Text("type"), end.Text("code")})
	require.Equal(t, 0, f.stop(0))
}
