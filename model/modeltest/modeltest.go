package modeltest

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react/reacttest"
)

// A Mock is a running server that answers like the providers do.
type Mock struct {
	// URL is where it listens, without a path: clients of OpenAI want URL + "/v1", others URL.
	URL string
}

// Start starts a mock that runs until the test ends. It answers nothing before [Mock.Answer] or
// [Mock.Play].
func Start(t testing.TB) *Mock {
	t.Helper()
	dir := folder(t)
	cmd := exec.Command("node", "aimock.mjs", "--port", "0", "--fixtures", empty(t))
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")} // no keys: nothing here may call a provider
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	require.NoError(t, cmd.Start())
	drained := make(chan struct{})
	t.Cleanup(func() {
		_ = stdin.Close()
		<-drained
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if _, url, ok := strings.Cut(lines.Text(), "listening on "); ok {
			go func() {
				defer close(drained)
				_, _ = io.Copy(io.Discard, stdout)
			}()
			return &Mock{URL: url}
		}
	}
	close(drained)
	_ = stdin.Close()
	_ = cmd.Wait()
	t.Fatalf("modeltest: aimock did not start: %s", &stderr)
	return nil
}

// folder returns this package's folder, in which npm has installed aimock.
func folder(t testing.TB) string {
	t.Helper()
	_, file, _, _ := runtime.Caller(0)
	dir := filepath.Dir(file)
	_, err := os.Stat(filepath.Join(dir, "node_modules", "@copilotkit", "aimock"))
	if err == nil {
		_, err = exec.LookPath("node")
	}
	switch {
	case err == nil:
		return dir
	case os.Getenv("CI") == "true":
		t.Fatalf("modeltest: %v: run npm ci in model/modeltest first", err)
	default:
		t.Skipf("modeltest: %v: run npm ci in model/modeltest first", err)
	}
	return ""
}

func empty(t testing.TB) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "fixtures.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"fixtures":[]}`), 0o600))
	return file
}

// An Answer is what the mock does with one request.
type Answer struct {
	Reply      message.Reply // of its reasoning only the first block; usage only if it is not zero
	Status     int           // an error instead of a reply, if not zero
	Code       string        // of the error
	Message    string        // of the error
	RetryAfter int           // seconds, for status 429
	CutAfter   int           // the connection breaks after so many chunks, if not zero
	Delay      time.Duration // before the first chunk; headers do not come earlier
	ChunkSize  int           // of texts and arguments, in characters; zero means 8
}

// Answer replaces what the mock does and forgets the requests so far: the first request gets the
// first answer and so on, those after the last get the last one again.
func (m *Mock) Answer(t testing.TB, answers ...Answer) {
	t.Helper()
	fixtures := make([]map[string]any, len(answers))
	for i, a := range answers {
		fixtures[i] = a.fixture()
		if i < len(answers)-1 {
			fixtures[i]["match"] = map[string]any{"sequenceIndex": i}
		}
	}
	m.call(t, http.MethodPost, "/reset", nil, nil)
	m.call(t, http.MethodPost, "/fixtures", map[string]any{"fixtures": fixtures}, nil)
}

// Play makes the mock do what the scenario says, for every request. It reports false for what the
// mock cannot do in any dialect: an empty reply.
func (m *Mock) Play(t testing.TB, s reacttest.Scenario) bool {
	t.Helper()
	a := Answer{Reply: s.Reply}
	switch {
	case s.Transient:
		a = Answer{Status: http.StatusTooManyRequests, Code: "rate_limit_exceeded", Message: "Slow down."}
	case s.Permanent:
		a = Answer{Status: http.StatusBadRequest, Code: "invalid_value", Message: "This makes no sense."}
	case s.Cut:
		a.CutAfter = 4
	case s.Silent:
		a = Answer{Reply: message.Reply{Text: "Too late."}, Delay: time.Hour}
	case s.Reply.Text == "" && len(s.Reply.ToolCalls) == 0:
		return false
	}
	m.Answer(t, a)
	return true
}

// fixture returns the answer as aimock wants it.
func (a Answer) fixture() map[string]any {
	f := map[string]any{"match": map[string]any{}, "chunkSize": 8}
	if a.ChunkSize > 0 {
		f["chunkSize"] = a.ChunkSize
	}
	if a.CutAfter > 0 {
		// Without a pause between chunks it breaks the connection before the first one is sent.
		f["truncateAfterChunks"], f["latency"] = a.CutAfter, 20
	}
	if a.Delay > 0 {
		f["streamingProfile"] = map[string]any{"ttft": a.Delay.Milliseconds()}
	}
	f["response"] = response(a.Reply)
	if a.Status != 0 {
		f["response"] = map[string]any{
			"error":  map[string]any{"message": cmp.Or(a.Message, http.StatusText(a.Status), "error"), "code": a.Code, "type": a.Code},
			"status": a.Status, "retryAfter": a.RetryAfter,
		}
	}
	return f
}

func response(r message.Reply) map[string]any {
	out := map[string]any{}
	if r.Text != "" || len(r.ToolCalls) == 0 {
		out["content"] = r.Text
	}
	if len(r.ToolCalls) > 0 {
		var calls []map[string]any
		for _, c := range r.ToolCalls {
			calls = append(calls, map[string]any{"id": c.ID, "name": c.Name, "arguments": string(c.Arguments)})
		}
		out["toolCalls"] = calls
	}
	if len(r.Reasoning) > 0 {
		out["reasoning"], out["reasoningSignature"] = r.Reasoning[0].Text, r.Reasoning[0].Signature
	}
	if r.FinishReason != "" {
		out["finishReason"] = r.FinishReason
	}
	if u := r.Usage; u != (message.Usage{}) {
		// Each dialect takes its own names and leaves the others.
		out["usage"] = map[string]any{
			"prompt_tokens": u.InputTokens, "completion_tokens": u.OutputTokens,
			"input_tokens": u.InputTokens, "output_tokens": u.OutputTokens,
			"promptTokenCount": u.InputTokens, "candidatesTokenCount": u.OutputTokens,
		}
	}
	return out
}

// A Request is one that reached the mock.
type Request struct {
	Method string            `json:"method"`
	Path   string            `json:"path"`
	Header map[string]string `json:"headers"` // names in lower case; keys are left out
	Body   json.RawMessage   `json:"body"`    // as aimock understood it, in the form of Chat Completions
}

// Requests returns what reached the mock since the last [Mock.Answer] or [Mock.Play].
func (m *Mock) Requests(t testing.TB) []Request {
	t.Helper()
	var all []Request
	m.call(t, http.MethodGet, "/journal", nil, &all)
	return all
}

// call asks the mock's own interface.
func (m *Mock) call(t testing.TB, method, path string, in, out any) {
	t.Helper()
	body, err := json.Marshal(in)
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), method, m.URL+"/__aimock"+path, bytes.NewReader(body))
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, res.StatusCode, "%s %s: %s", method, path, answer)
	if out != nil {
		require.NoError(t, json.Unmarshal(answer, out))
	}
}
