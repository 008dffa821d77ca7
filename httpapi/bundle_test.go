package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/httpapi"
	"github.com/everstep-go/everstep/httpapi/httpapitest"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/react/reacttest"
	"github.com/everstep-go/everstep/state"
	"github.com/everstep-go/everstep/store/memory"
)

// model does what the newest user message says, and says "done" to results of tools:
//
//	call NAME JSON   one tool call a line
//	think TEXT       a block of reasoning before the answer
//	hold TEXT        the first word, the rest when the gate of the bundle lets it
//	fail             an error
//	anything else    is said again, word by word
type model struct{ gate <-chan struct{} }

func (m model) Generate(ctx context.Context, req *message.Request) iter.Seq2[message.Delta, error] {
	return func(yield func(message.Delta, error) bool) {
		if err := m.answer(ctx, req, func(d message.Delta) bool { return yield(d, nil) }); err != nil {
			yield(nil, err)
		}
	}
}

func (m model) answer(ctx context.Context, req *message.Request, emit func(message.Delta) bool) error {
	say := func(text string) bool {
		for _, d := range reacttest.Words(text) {
			if !emit(d) {
				return false
			}
		}
		return true
	}
	if req.Messages[len(req.Messages)-1].Role() == message.RoleTool {
		_ = say("done") && emit(message.Done{FinishReason: message.FinishStop})
		return nil
	}
	user, ok := req.Messages[len(req.Messages)-1].(*message.User)
	if !ok {
		return errors.New("the conversation does not end in a question")
	}
	for i, line := range strings.Split(user.Text(), "\n") {
		command, rest, _ := strings.Cut(line, " ")
		switch command {
		case "call":
			name, arguments, _ := strings.Cut(rest, " ")
			id := fmt.Sprintf("call_%d_%d", len(req.Messages), i)
			if !emit(message.ToolCallDelta{Index: i, ID: id, Name: name, Arguments: arguments}) {
				return nil
			}
		case "think":
			if !emit(message.ReasoningDelta{Text: rest}) || !emit(message.ReasoningDone{Signature: "s"}) {
				return nil
			}
		case "hold":
			words := reacttest.Words(rest)
			if !emit(words[0]) {
				return nil
			}
			select {
			case <-m.gate:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			for _, d := range words[1:] {
				if !emit(d) {
					return nil
				}
			}
		case "fail":
			return errors.New("a secret of the provider")
		default:
			if !say(line) {
				return nil
			}
		}
	}
	emit(message.Done{FinishReason: message.FinishStop})
	return nil
}

// bundle is a server with an agent.
type bundle struct {
	*testing.T
	agent *react.Agent
	url   string
	log   *logged
	// gate lets one held reply or tool go on for each value.
	gate chan struct{}
}

type setup struct {
	react.Config
	httpapi.Options
	// unchecked: answers are not held against the OpenAPI document.
	unchecked bool
}

func newBundle(t *testing.T, change ...func(*setup)) *bundle {
	t.Helper()
	b := &bundle{T: t, log: &logged{}, gate: make(chan struct{})}
	logger := slog.New(slog.NewTextHandler(b.log, nil))
	s := setup{
		Config: react.Config{
			Name: "tester", Model: model{b.gate}, Store: memory.New(nil), Tools: b.tools(), Logger: logger,
			Capabilities: []string{"math"}, CapabilityPolicy: react.PolicyExtensible,
		},
		Options: httpapi.Options{Logger: logger, Version: "1.2.3"},
	}
	for _, c := range change {
		c(&s)
	}
	var err error
	b.agent, err = react.New(s.Config)
	require.NoError(t, err)
	h := httpapi.New(b.agent, &s.Options)
	if !s.unchecked {
		h = conforming(t, h)
	}
	server := httptest.NewServer(h)
	b.url = server.URL
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		cancel() // what still runs is given up
		_ = b.agent.Shutdown(ctx)
		server.Close()
	})
	return b
}

// logged is a log that tests look into.
type logged struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

type named struct {
	Name string `json:"name"`
}

func (b *bundle) tools() []react.Tool {
	return []react.Tool{
		react.NewTool("greet", "Greets.", func(_ context.Context, in named) (string, error) { return "hello " + in.Name, nil }),
		react.NewTool("refuse", "Fails.", func(context.Context, struct{}) (string, error) { return "", errors.New("no") }),
		react.NewTool("explode", "Panics.", func(context.Context, struct{}) (string, error) { panic("a secret of the tool") }),
		react.NewTool("remember", "Changes the context.", func(ctx context.Context, in named) (string, error) {
			value, _ := json.Marshal(in.Name)
			return "ok", react.UpdateContext(ctx, state.Add("/name", value))
		}),
		react.NewTool("progress", "Shows progress.", func(ctx context.Context, _ struct{}) (string, error) {
			react.EmitActivity(ctx, "progress", state.Patch{state.Replace("/done", json.RawMessage("1"))})
			return "ok", nil
		}),
		react.NewTool("ask", "Asks.", func(ctx context.Context, in named) (string, error) {
			return graph.Interrupt[string](ctx, "", map[string]string{"question": in.Name})
		}),
		react.NewTool("wait", "Waits for the gate.", func(ctx context.Context, _ struct{}) (string, error) {
			select {
			case <-b.gate:
				return "waited", nil
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		}),
	}
}

// answer is what the server answered.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) code(t testing.TB) int {
	t.Helper()
	var e httpapi.Error
	require.NoError(t, json.Unmarshal(a.body, &e), "%d %s", a.status, a.body)
	assert.Equal(t, a.status, e.Code/1000)
	return e.Code
}

// decode reads the answer of a request that must have succeeded.
func decode[T any](t testing.TB, a answer) (v T) {
	t.Helper()
	require.Less(t, a.status, 300, "%s", a.body)
	require.NoError(t, json.Unmarshal(a.body, &v), "%s", a.body)
	return v
}

// open sends a request. Headers are given as "Name: value"; a body that is no string is made into
// JSON.
func (b *bundle) open(ctx context.Context, method, path string, body any, headers ...string) (*http.Response, error) {
	b.Helper()
	var reader io.Reader
	if text, ok := body.(string); ok {
		reader = strings.NewReader(text)
	} else if body != nil {
		text, err := json.Marshal(body)
		require.NoError(b, err)
		reader = strings.NewReader(string(text))
	}
	req, err := http.NewRequestWithContext(ctx, method, b.url+path, reader)
	require.NoError(b, err)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if strings.HasSuffix(h, ":") {
			name, value = strings.TrimSuffix(h, ":"), ""
		}
		req.Header.Set(name, value)
	}
	return http.DefaultClient.Do(req)
}

func (b *bundle) do(method, path string, body any, headers ...string) answer {
	b.Helper()
	res, err := b.open(b.Context(), method, path, body, headers...)
	require.NoError(b, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(b, err)
	return answer{res.StatusCode, res.Header, text}
}

func (b *bundle) get(path string, headers ...string) answer {
	b.Helper()
	return b.do(http.MethodGet, path, nil, headers...)
}

func (b *bundle) post(path string, body any, headers ...string) answer {
	b.Helper()
	return b.do(http.MethodPost, path, body, headers...)
}

// object is a JSON object.
type object = map[string]any

// says is a run with one user message.
func says(text string, more ...object) object {
	o := object{"messages": []any{object{"role": "user", "content": text}}}
	for _, m := range more {
		for name, value := range m {
			o[name] = value
		}
	}
	return o
}

// attached starts an attached run and reads all of its events.
func (b *bundle) attached(body any, headers ...string) []event.Event {
	b.Helper()
	res, err := b.open(b.Context(), http.MethodPost, "/v1/runs", body, headers...)
	require.NoError(b, err)
	return b.events(res)
}

// events reads a whole stream.
func (b *bundle) events(res *http.Response) (events []event.Event) {
	b.Helper()
	defer res.Body.Close()
	require.Equal(b, http.StatusOK, res.StatusCode)
	require.Equal(b, "text/event-stream", res.Header.Get("Content-Type"))
	for e, err := range httpapitest.Events(res.Body) {
		require.NoError(b, err)
		events = append(events, e)
	}
	return events
}

type started struct {
	Run     uuid.UUID `json:"run_id"`
	Session uuid.UUID `json:"session_id"`
}

// detached starts a detached run.
func (b *bundle) detached(body any, headers ...string) started {
	b.Helper()
	a := b.post("/v1/runs/start", body, headers...)
	require.Equal(b, http.StatusAccepted, a.status, "%s", a.body)
	return decode[started](b, a)
}

// watch observes a run until it ends; last is the Last-Event-ID, empty for none.
func (b *bundle) watch(run uuid.UUID, last string) []event.Event {
	b.Helper()
	var headers []string
	if last != "" {
		headers = append(headers, "Last-Event-ID: "+last)
	}
	res, err := b.open(b.Context(), http.MethodGet, "/v1/runs/"+run.String()+"/events", nil, headers...)
	require.NoError(b, err)
	return b.events(res)
}

// status waits until a run has ended and returns how; tenant may name whose it is.
func (b *bundle) status(run uuid.UUID, tenant ...string) string {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 10*time.Second)
	defer cancel()
	handle, err := b.agent.Attach(ctx, strings.Join(tenant, ""), run)
	require.NoError(b, err)
	_, _ = handle.Wait(ctx)
	kept, err := b.agent.RunRecord(ctx, strings.Join(tenant, ""), run)
	require.NoError(b, err)
	return string(kept.Status)
}

// textOf joins the text of a stream.
func textOf(events []event.Event) string {
	var text strings.Builder
	for _, e := range events {
		if d, ok := e.Data.(event.TextMessageContent); ok {
			text.WriteString(d.Delta)
		}
	}
	return text.String()
}

func kinds(events []event.Event) []event.Kind {
	out := make([]event.Kind, len(events))
	for i, e := range events {
		out[i] = e.Data.Kind()
	}
	return out
}

// items are the items of a list, and its next_page.
type items struct {
	Items []object `json:"items"`
	Count int      `json:"count"`
	Next  *string  `json:"next_page"`
}

func (b *bundle) list(path string, headers ...string) items {
	b.Helper()
	return decode[items](b, b.get(path, headers...))
}

func (i items) ids() []string {
	out := []string{}
	for _, item := range i.Items {
		out = append(out, item["id"].(string))
	}
	return out
}
