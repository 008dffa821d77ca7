package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/examples/internal/programtest"
	"github.com/everstep-go/everstep/httpapi"
	"github.com/everstep-go/everstep/httpapi/httpapitest"
)

func TestMain(m *testing.M) { programtest.Main(m, main) }

// server is the program as a process of its own.
type server struct {
	t      *testing.T
	url    string
	cmd    *exec.Cmd
	stderr bytes.Buffer
}

// launch starts the program and returns the first line that it prints, empty if it ends without one.
func launch(t *testing.T, dir string, args ...string) (s *server, line string) {
	t.Helper()
	s = &server{t: t, cmd: programtest.Command(t, dir, append([]string{"-addr", "127.0.0.1:0"}, args...)...)}
	s.cmd.Stderr = &s.stderr
	stdout, err := s.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, s.cmd.Start())
	t.Cleanup(func() {
		s.stop(syscall.SIGKILL)
		if t.Failed() {
			t.Logf("the server said:\n%s", s.stderr.String())
		}
	})
	line, _ = bufio.NewReader(stdout).ReadString('\n')
	return s, line
}

// start returns when the server says that it listens.
func start(t *testing.T, dir string, args ...string) *server {
	t.Helper()
	s, line := launch(t, dir, args...)
	url, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "listening on ")
	require.True(t, ok, "it printed %q", line)
	s.url = url
	return s
}

// refused runs a server that must not start, and returns what it says.
func refused(t *testing.T, dir string, args ...string) (code int, stderr string) {
	t.Helper()
	s, line := launch(t, dir, args...)
	require.Empty(t, line)
	code = s.stop(0)
	return code, s.stderr.String()
}

// stop sends the signal, none if it is 0, and returns the exit code, -1 if the process did not end by itself.
func (s *server) stop(signal syscall.Signal) int {
	if s.cmd.ProcessState == nil {
		_ = s.cmd.Process.Signal(signal)
		defer time.AfterFunc(client.Timeout, func() { _ = s.cmd.Process.Kill() }).Stop()
		_ = s.cmd.Wait()
	}
	return s.cmd.ProcessState.ExitCode()
}

// object is JSON on its way to or from the server.
type object = map[string]any

// client gives a server up that does not come to an end.
var client = &http.Client{Timeout: time.Minute}

// do sends a request. Header are names and values in turn.
func (s *server) do(method, path string, body any, header ...string) *http.Response {
	s.t.Helper()
	text, err := json.Marshal(body)
	require.NoError(s.t, err)
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, bytes.NewReader(text))
	require.NoError(s.t, err)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := client.Do(req)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { res.Body.Close() })
	return res
}

// call sends a request and decodes what comes back into out, unless that is nil.
func (s *server) call(status int, method, path string, body, out any, header ...string) {
	s.t.Helper()
	res := s.do(method, path, body, header...)
	text, err := io.ReadAll(res.Body)
	require.NoError(s.t, err)
	require.Equal(s.t, status, res.StatusCode, "%s", text)
	if out != nil {
		require.NoError(s.t, json.Unmarshal(text, out), "%s", text)
	}
}

// script is the body of a run in a session with one user message.
func script(session uuid.UUID, lines ...string) object {
	return object{"session_id": session, "messages": []object{{"role": "user", "content": strings.Join(lines, "\n")}}}
}

// run makes an attached run and returns its events.
func (s *server) run(body object, header ...string) []event.Event {
	s.t.Helper()
	res := s.do("POST", "/v1/runs", body, header...)
	require.Equal(s.t, http.StatusOK, res.StatusCode)
	return s.rest(res.Body)
}

func (s *server) rest(stream io.Reader) (events []event.Event) {
	s.t.Helper()
	for e, err := range httpapitest.Events(stream) {
		require.NoError(s.t, err)
		events = append(events, e)
	}
	return events
}

// detach starts a detached run and returns its path.
func (s *server) detach(body object) (path string) {
	s.t.Helper()
	var started struct {
		RunID string `json:"run_id"`
	}
	s.call(http.StatusAccepted, "POST", "/v1/runs/start", body, &started)
	return "/v1/runs/" + started.RunID
}

// observe returns the stream of a run from its first event.
func (s *server) observe(run string) io.Reader {
	s.t.Helper()
	res := s.do("GET", run+"/events", nil, "Last-Event-ID", "0")
	require.Equal(s.t, http.StatusOK, res.StatusCode)
	return res.Body
}

// until reads a stream up to the first event of that type, and returns the path of its run.
func until[E event.Data](t *testing.T, stream io.Reader) (run string) {
	t.Helper()
	for e, err := range httpapitest.Events(unbuffered{stream}) {
		require.NoError(t, err)
		if e.Run != uuid.Nil {
			run = "/v1/runs/" + e.Run.String()
		}
		if _, ok := e.Data.(E); ok {
			return run
		}
	}
	require.FailNow(t, "the stream ended without it")
	return ""
}

// unbuffered reads bytes one by one, so that what is not asked for stays in the stream.
type unbuffered struct{ io.Reader }

func (r unbuffered) Read(p []byte) (int, error) { return r.Reader.Read(p[:min(len(p), 1)]) }

func last[E event.Data](t *testing.T, events []event.Event) E {
	t.Helper()
	require.NotEmpty(t, events)
	d, ok := events[len(events)-1].Data.(E)
	require.True(t, ok, "%#v", events[len(events)-1].Data)
	return d
}

// one returns the only event of that type.
func one[E event.Data](t *testing.T, events []event.Event) E {
	t.Helper()
	all := every[E](events)
	require.Len(t, all, 1)
	return all[0]
}

func every[E event.Data](events []event.Event) (all []E) {
	for _, e := range events {
		if d, ok := e.Data.(E); ok {
			all = append(all, d)
		}
	}
	return all
}

// stored is a message as the server returns it.
type stored struct {
	Role    string
	Name    *string
	Content any
	Error   *string
}

// messages returns the messages of a session, oldest first.
func (s *server) messages(session uuid.UUID, filter string, header ...string) []stored {
	s.t.Helper()
	var page struct{ Items []stored }
	s.call(http.StatusOK, "GET", "/v1/sessions/"+session.String()+"/messages"+filter, nil, &page, header...)
	for i, j := 0, len(page.Items)-1; i < j; i, j = i+1, j-1 {
		page.Items[i], page.Items[j] = page.Items[j], page.Items[i]
	}
	return page.Items
}

// status returns the status of a run.
func (s *server) status(run string) string {
	s.t.Helper()
	var kept struct{ Status string }
	s.call(http.StatusOK, "GET", run, nil, &kept)
	return kept.Status
}

// lines returns the lines of a ledger, each cut at the tab.
func lines(t *testing.T, file string) (all [][]string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		all = append(all, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
	}
	return all
}

// awaitLines waits until a ledger has that many lines: nothing but the file tells.
func awaitLines(t *testing.T, file string, n int) [][]string {
	t.Helper()
	require.Eventually(t, func() bool { return len(lines(t, file)) >= n }, client.Timeout, 5*time.Millisecond)
	all := lines(t, file)
	require.Len(t, all, n)
	return all
}

// count returns how often each line is in a ledger, and its idempotency keys.
func count(ledger [][]string) (times map[string]int, keys map[string][]string) {
	times, keys = map[string]int{}, map[string][]string{}
	for _, line := range ledger {
		times[line[0]]++
		keys[line[0]] = append(keys[line[0]], line[1])
	}
	return times, keys
}

func TestHealthAndAbout(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	var answer struct{ Status, Name string }
	s.call(http.StatusOK, "GET", "/health", nil, &answer)
	require.Equal(t, "ok", answer.Status)
	s.call(http.StatusOK, "GET", "/", nil, &answer)
	require.Equal(t, "demo", answer.Name)
	require.FileExists(t, filepath.Join(dir, "everstep.db"))
}

func TestWrongCommandLine(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"-store", "postgres://nobody:secret@127.0.0.1:1/everstep"}, "-store postgres://...: postgres: "},
		{[]string{"-store", "sqlite:"}, "-store sqlite:: no such store; use memory:, sqlite:PATH or postgres://URL"},
		{[]string{"-store", "everstep.db"}, "-store everstep.db: no such store; use memory:, sqlite:PATH or postgres://URL"},
		{[]string{"-store", "memory:x"}, "-store memory:x: no such store"},
		{[]string{"-store", "sqlite:missing/everstep.db"}, "-store sqlite:missing/everstep.db: "},
		{[]string{"-model", "openai"}, "-model openai: it is offline or PROVIDER:NAME"},
		{[]string{"-model", "offlin"}, "-model offlin: it is offline or PROVIDER:NAME"},
		{[]string{"-model", "skynet:2"}, "-model skynet:2: no such provider; there are openai, anthropic and gemini"},
		{[]string{"-addr", "nowhere"}, "nowhere: missing port"},
		{[]string{"-max-steps", "-1"}, "MaxSteps"},
		{[]string{"-lease", "-1s"}, "Lease"},
		{[]string{"-lease", "soon"}, `invalid value "soon" for flag -lease`},
		{[]string{"-on-disconnect", "stay"}, "-on-disconnect stay: it is cancel or keep"},
		{[]string{"-port", "80"}, "flag provided but not defined: -port"},
		{[]string{"serve"}, `unexpected argument "serve"`},
	} {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			t.Parallel()
			code, stderr := refused(t, t.TempDir(), append([]string{"-store", "memory:"}, tt.args...)...)
			require.Positive(t, code)
			require.Contains(t, stderr, tt.want)
		})
	}
}

func TestOneServerPerFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start(t, dir, "-store", "sqlite:one.db")
	code, stderr := refused(t, dir, "-store", "sqlite:one.db")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "-store sqlite:one.db: ")
	require.Contains(t, stderr, "in use by another process")
}

func TestTenants(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), "-store", "memory:", "-tenant-default", "acme")
	session := uuid.New()
	s.run(script(session, "hello"))
	path := "/v1/sessions/" + session.String()
	require.Len(t, s.messages(session, ""), 2)
	require.Len(t, s.messages(session, "", httpapi.TenantHeader, "acme"), 2)
	s.call(http.StatusNotFound, "GET", path, nil, nil, httpapi.TenantHeader, "default")
	s.call(http.StatusBadRequest, "GET", path, nil, nil, httpapi.TenantHeader, "")

	s.run(script(session, "hello again"), httpapi.TenantHeader, "umbrella")
	got := s.messages(session, "", httpapi.TenantHeader, "umbrella")
	require.Equal(t, "You said: hello again", got[1].Content)
	require.Len(t, s.messages(session, ""), 2)
}

func TestStepLimit(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), "-store", "memory:", "-max-steps", "7")
	events := s.run(script(uuid.New(), `/loop add {"a":1,"b":1}`))
	require.Equal(t, "max_steps", last[event.RunError](t, events).Code)
	require.Len(t, every[event.ToolCallResult](events), 3)
}

func TestKilledRunIsFinishedWithoutRepeatingWhatWasDone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "ledger.txt")
	args := []string{"-store", "sqlite:kill.db", "-ledger", "ledger.txt"}
	session := uuid.New()

	s := start(t, dir, args...)
	run := s.detach(script(session,
		`/call ledger {"line":"done","ms":0}`,
		`/call ledger {"line":"open","ms":4000}`,
		`/call ledger_once {"line":"once","ms":4000}`,
		`/then`,
		`/say All is written.`,
	))
	until[event.ToolCallResult](t, s.observe(run)) // of the first, so it is durable
	before, keys := count(awaitLines(t, file, 3))
	require.Equal(t, map[string]int{"done": 1, "open": 1, "once": 1}, before)
	require.Equal(t, -1, s.stop(syscall.SIGKILL))

	s = start(t, dir, args...)
	events := s.rest(s.observe(run))
	require.EqualValues(t, "completed", last[event.RunFinished](t, events).Status)
	after, all := count(lines(t, file))
	require.Equal(t, map[string]int{"done": 1, "open": 2, "once": 1}, after)
	require.Equal(t, keys["open"][0], all["open"][1], "the same call has the same key")
	require.NotEmpty(t, keys["open"][0])
	require.NotEqual(t, keys["open"], keys["done"])

	got := s.messages(session, "")
	require.Len(t, got, 6)
	require.Equal(t, []any{"done", "open"}, []any{got[2].Content, got[3].Content})
	require.NotNil(t, got[4].Error, "nobody knows what became of the call of ledger_once")
	require.Equal(t, "All is written.", got[5].Content)
	require.Equal(t, "outcome_unknown", one[event.ToolCallError](t, events).Code)
}

func TestAttachedRunOfAKilledServerIsLost(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	res := s.do("POST", "/v1/runs", script(uuid.New(), `/call echo {"text":"kept"}`, `/call sleep {"ms":3600000}`))
	run := until[event.RunStarted](t, res.Body)
	until[event.ToolCallResult](t, res.Body)
	s.stop(syscall.SIGKILL)

	s = start(t, dir)
	events := s.rest(s.observe(run))
	require.Equal(t, "lost", last[event.RunError](t, events).Code)
	require.Equal(t, "failed", s.status(run))
}

func TestClientThatGoesCancelsItsRun(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir())
	res := s.do("POST", "/v1/runs", script(uuid.New(), `/call sleep {"ms":3600000}`))
	run := until[event.RunStarted](t, res.Body)
	until[event.ToolCallEnd](t, res.Body)
	observer := s.observe(run)
	require.NoError(t, res.Body.Close())
	require.EqualValues(t, "cancelled", last[event.RunFinished](t, s.rest(observer)).Status)
	require.Equal(t, "cancelled", s.status(run))
}

func TestShutdown(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run("idle, "+signal.String(), func(t *testing.T) {
			t.Parallel()
			s := start(t, t.TempDir())
			s.run(script(uuid.New(), "hello"))
			begin := time.Now()
			require.Equal(t, 0, s.stop(signal))
			assert.Less(t, time.Since(begin), grace, "nothing to wait for")
			require.Empty(t, s.stderr.String())
		})
	}

	t.Run("a short run finishes", func(t *testing.T) {
		t.Parallel()
		s := start(t, t.TempDir())
		res := s.do("POST", "/v1/runs", script(uuid.New(), `/call sleep {"ms":1000}`))
		until[event.ToolCallEnd](t, res.Body)
		require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
		events := s.rest(res.Body)
		require.EqualValues(t, "completed", last[event.RunFinished](t, events).Status)
		require.JSONEq(t, `"slept 1000 ms"`, string(one[event.ToolCallResult](t, events).Content))
		require.Equal(t, 0, s.stop(0))
	})

	t.Run("long runs go on after the restart", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		file := filepath.Join(dir, "ledger.txt")
		s := start(t, dir, "-ledger", "ledger.txt")
		detached := s.detach(script(uuid.New(), `/call ledger {"line":"detached","ms":3600000}`))
		res := s.do("POST", "/v1/runs", script(uuid.New(), `/call ledger {"line":"attached","ms":3600000}`))
		attached := until[event.RunStarted](t, res.Body)
		awaitLines(t, file, 2)
		require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))

		var refused *httpapi.Error
		for _, err := range httpapitest.Events(res.Body) {
			if err != nil {
				require.ErrorAs(t, err, &refused)
			}
		}
		require.NotNil(t, refused, "the stream says that it ends before the run")
		require.Equal(t, httpapi.CodeUnavailable, refused.Code)
		require.Equal(t, 0, s.stop(0))

		s = start(t, dir, "-ledger", "ledger.txt")
		times, keys := count(awaitLines(t, file, 4))
		require.Equal(t, map[string]int{"detached": 2, "attached": 2}, times)
		for _, line := range []string{"detached", "attached"} {
			require.Equal(t, keys[line][0], keys[line][1])
		}
		for _, run := range []string{detached, attached} {
			require.Equal(t, "running", s.status(run))
			s.call(http.StatusNoContent, "PUT", run+"/cancel", nil, nil)
			require.EqualValues(t, "cancelled", last[event.RunFinished](t, s.rest(s.observe(run))).Status)
		}
	})
}
