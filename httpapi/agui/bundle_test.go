package agui_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/httpapi"
	"github.com/everstep-go/everstep/httpapi/agui"
	"github.com/everstep-go/everstep/httpapi/agui/aguitest"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/react/reacttest"
	"github.com/everstep-go/everstep/state"
	"github.com/everstep-go/everstep/store"
	"github.com/everstep-go/everstep/store/memory"
)

// bundle is a server with an agent whose model follows a script. It serves /ag-ui and /v1.
type bundle struct {
	*testing.T
	agent  *react.Agent
	script *reacttest.Script
	store  store.Store
	url    string
	log    *logged
	// gate lets one call of the tool wait, or one held reply, go on for each value.
	gate chan struct{}
}

type setup struct {
	react.Config
	agui.Options
	steps []reacttest.Step
}

// steps are what the model says.
func steps(s ...reacttest.Step) func(*setup) { return func(o *setup) { o.steps = s } }

func newBundle(t *testing.T, change ...func(*setup)) *bundle {
	t.Helper()
	b := &bundle{T: t, log: &logged{}, gate: make(chan struct{})}
	logger := slog.New(slog.NewTextHandler(b.log, nil))
	s := setup{
		Config: react.Config{
			Name: "tester", Store: memory.New(nil), Tools: b.tools(), Logger: logger,
			Capabilities: []string{"math"}, CapabilityPolicy: react.PolicyExtensible,
		},
		Options: agui.Options{Logger: logger},
	}
	for _, c := range change {
		c(&s)
	}
	b.script, b.store = reacttest.NewScript(s.steps...), s.Store
	if s.Model == nil {
		s.Model = b.script
	}
	var err error
	b.agent, err = react.New(s.Config)
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle("/", httpapi.New(b.agent, &httpapi.Options{Logger: logger}))
	mux.Handle("/ag-ui", agui.New(b.agent, &s.Options))
	server := httptest.NewServer(mux)
	b.url = server.URL
	t.Cleanup(func() {
		b.shutdown()
		server.Close()
	})
	return b
}

// shutdown gives up what still runs.
func (b *bundle) shutdown() {
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	cancel()
	_ = b.agent.Shutdown(ctx)
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
		react.NewTool("weigh", "Weighs.", func(context.Context, struct{}) (map[string]int, error) { return map[string]int{"kg": 7}, nil }),
		react.NewTool("refuse", "Fails.", func(context.Context, struct{}) (string, error) { return "", errors.New("no") }),
		react.NewTool("remember", "Changes the context.", func(ctx context.Context, in named) (string, error) {
			value, _ := json.Marshal(in.Name)
			return "ok", react.UpdateContext(ctx, state.Add("/name", value))
		}),
		react.NewTool("progress", "Shows progress.", func(ctx context.Context, _ struct{}) (string, error) {
			for _, ops := range []state.Patch{
				{state.Replace("/done", json.RawMessage("1"))},
				{state.Replace("/done", json.RawMessage("2"))},
				{state.Remove("/nothing")},
			} {
				react.EmitActivity(ctx, "progress", ops)
			}
			return "ok", nil
		}),
		react.NewTool("ask", "Asks.", func(ctx context.Context, in named) (string, error) {
			return graph.Interrupt[string](ctx, "", map[string]string{"question": in.Name})
		}),
		react.NewTool("launch", "Needs an approval.", func(_ context.Context, in named) (string, error) { return "launched " + in.Name, nil },
			&react.ToolOptions{Approval: true}),
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

// say is a reply of the model.
func say(text string) reacttest.Step { return reacttest.Say(text) }

// call is a reply of one call of a tool; its id is the tool's name with a 1.
func call(name string, arguments any) reacttest.Step {
	return reacttest.Call(reacttest.ToolCall(name+"1", name, arguments))
}

func calls(list ...message.ToolCall) reacttest.Step { return reacttest.Call(list...) }

// both is a reply of text and calls.
func both(text string, list ...message.ToolCall) reacttest.Step {
	s := reacttest.Call(list...)
	s.Deltas = append(reacttest.Words(text), s.Deltas...)
	return s
}

// object is a JSON object.
type object = map[string]any

// input is a RunAgentInput of a client of 1.0 on the thread of that name.
func input(thread string, messages ...object) object {
	if messages == nil {
		messages = []object{}
	}
	return object{
		"threadId": thread, "runId": uuid.NewString(), "protocolVersion": "1.0", "messages": messages,
		"tools": []object{}, "context": []object{}, "state": object{}, "forwardedProps": object{},
	}
}

// with returns the object with another member.
func with(o object, name string, value any) object {
	out := maps.Clone(o)
	out[name] = value
	return out
}

func without(o object, names ...string) object {
	out := maps.Clone(o)
	for _, name := range names {
		delete(out, name)
	}
	return out
}

func user(id, text string) object { return object{"id": id, "role": "user", "content": text} }

func toolResult(id, call, text string) object {
	return object{"id": id, "role": "tool", "toolCallId": call, "content": text}
}

// look is a tool of the frontend.
var look = []object{{"name": "look", "description": "Looks.", "parameters": object{"type": "object"}}}

// post sends a request. Headers are names and values in turn; a body that is no string is made into JSON.
func (b *bundle) post(ctx context.Context, body any, header ...string) *http.Response {
	b.Helper()
	text, ok := body.(string)
	if !ok {
		data, err := json.Marshal(body)
		require.NoError(b, err)
		text = string(data)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url+"/ag-ui", strings.NewReader(text))
	require.NoError(b, err)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(b, err)
	b.Cleanup(func() { res.Body.Close() })
	return res
}

// dialect is the one that a request speaks.
func dialect(body any) aguitest.Dialect {
	if o, ok := body.(object); ok && o["protocolVersion"] == nil {
		return aguitest.V0
	}
	return aguitest.V1
}

// run makes a run and returns its events, which keep the rules.
func (b *bundle) run(body any, header ...string) []aguitest.Event {
	b.Helper()
	res := b.post(b.Context(), body, header...)
	return b.events(res, dialect(body))
}

func (b *bundle) events(res *http.Response, d aguitest.Dialect) []aguitest.Event {
	b.Helper()
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(res.Body)
		require.Equal(b, http.StatusOK, res.StatusCode, "%s", text)
	}
	require.Equal(b, "text/event-stream", res.Header.Get("Content-Type"))
	events, err := aguitest.Read(res.Body, d)
	require.NoError(b, err)
	return events
}

// refused sends a request that must be refused.
func (b *bundle) refused(body any, header ...string) (e httpapi.Error) {
	b.Helper()
	res := b.post(b.Context(), body, header...)
	text, err := io.ReadAll(res.Body)
	require.NoError(b, err)
	require.GreaterOrEqual(b, res.StatusCode, 400, "%s", text)
	require.Equal(b, "application/json", res.Header.Get("Content-Type"))
	require.NoError(b, json.Unmarshal(text, &e), "%s", text)
	require.Equal(b, res.StatusCode, e.Status())
	return e
}

// stream is an answer that is read event by event.
type stream struct {
	*bundle
	next  chan aguitest.Event
	leave context.CancelFunc
	err   error // once next is closed
}

// open makes a run and returns its events as they come.
func (b *bundle) open(body any) *stream {
	b.Helper()
	ctx, leave := context.WithCancel(b.Context())
	s := &stream{bundle: b, next: make(chan aguitest.Event), leave: leave}
	res := b.post(ctx, body)
	require.Equal(b, http.StatusOK, res.StatusCode)
	go func() {
		defer close(s.next)
		for e, err := range aguitest.Events(res.Body, dialect(body)) {
			if s.err = err; err != nil {
				return
			}
			select {
			case s.next <- e:
			case <-ctx.Done():
				return
			}
		}
	}()
	b.Cleanup(leave)
	return s
}

// until reads up to the first event of a type.
func (s *stream) until(kind string) aguitest.Event {
	s.Helper()
	for e := range s.next {
		if e.Type() == kind {
			return e
		}
	}
	require.Failf(s, "the stream ended", "without %s: %v", kind, s.err)
	return nil
}

// rest reads to the end.
func (s *stream) rest() (events []aguitest.Event) {
	s.Helper()
	for e := range s.next {
		events = append(events, e)
	}
	require.NoError(s, s.err)
	return events
}

// last is the last event of a run.
func last(events []aguitest.Event) aguitest.Event { return events[len(events)-1] }

// every returns the events of a type.
func every(events []aguitest.Event, kind string) (all []aguitest.Event) {
	for _, e := range events {
		if e.Type() == kind {
			all = append(all, e)
		}
	}
	return all
}

// brief is what was said, without the steps, the ends and the pieces.
func brief(events []aguitest.Event) (types []string) {
	for _, e := range events {
		switch e.Type() {
		case "STEP_STARTED", "STEP_FINISHED", "TEXT_MESSAGE_CONTENT", "REASONING_MESSAGE_CONTENT":
		default:
			types = append(types, e.Type())
		}
	}
	return types
}

func textOf(events []aguitest.Event) (text string) {
	for _, e := range every(events, "TEXT_MESSAGE_CONTENT") {
		text += e.Text("delta")
	}
	return text
}

// outcome is how a run says that it ended.
func outcome(events []aguitest.Event) string {
	o, _ := last(events)["outcome"].(object)
	kind, _ := o["type"].(string)
	return kind
}

// interrupts are what a run asks.
func interrupts(events []aguitest.Event) (all []object) {
	o, _ := last(events)["outcome"].(object)
	list, _ := o["interrupts"].([]any)
	for _, i := range list {
		all = append(all, i.(object))
	}
	return all
}

// conversation is the last snapshot of the messages.
func conversation(t testing.TB, events []aguitest.Event) (messages []object) {
	t.Helper()
	all := every(events, "MESSAGES_SNAPSHOT")
	require.NotEmpty(t, all)
	for _, m := range last(all)["messages"].([]any) {
		messages = append(messages, m.(object))
	}
	return messages
}

// state is where the thread stands in the store.
func (b *bundle) state(thread string, tenant ...string) react.State {
	b.Helper()
	s, err := b.agent.State(b.Context(), strings.Join(tenant, ""), agui.SessionID(thread))
	require.NoError(b, err)
	return s
}

// said is the conversation of a thread in the store: role and text.
func (b *bundle) said(thread string) (lines []string) {
	b.Helper()
	for _, m := range b.state(thread).Messages {
		lines = append(lines, line(m))
	}
	return lines
}

func line(m message.Message) string {
	switch m := m.(type) {
	case *message.System:
		return "system " + m.Content
	case *message.User:
		return "user " + m.Text()
	case *message.Assistant:
		parts := []string{"assistant"}
		if m.Content != "" {
			parts = append(parts, m.Content)
		}
		for _, c := range m.ToolCalls {
			parts = append(parts, c.ID)
		}
		return strings.Join(parts, " ")
	case *message.Tool:
		return "tool " + m.ToolCallID + " " + m.Text()
	case *message.Reasoning:
		return "reasoning " + m.Content
	}
	return ""
}

// asked is what the model was asked the last time.
func (b *bundle) asked() (lines []string) {
	b.Helper()
	all := b.script.Requests()
	require.NotEmpty(b, all)
	for _, m := range all[len(all)-1].Messages {
		lines = append(lines, line(m))
	}
	return lines
}

// status waits until a run has ended and returns how.
func (b *bundle) status(thread, run string) string {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 10*time.Second)
	defer cancel()
	handle, err := b.agent.Attach(ctx, "", agui.RunID(thread, run))
	require.NoError(b, err)
	_, _ = handle.Wait(ctx)
	kept, err := b.agent.RunRecord(ctx, "", agui.RunID(thread, run))
	require.NoError(b, err)
	return string(kept.Status)
}

// v1 asks /v1.
func (b *bundle) v1(method, path string, body any, out any) int {
	b.Helper()
	text, err := json.Marshal(body)
	require.NoError(b, err)
	req, err := http.NewRequestWithContext(b.Context(), method, b.url+path, bytes.NewReader(text))
	require.NoError(b, err)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	require.NoError(b, err)
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	require.NoError(b, err)
	if out != nil {
		require.NoError(b, json.Unmarshal(answer, out), "%s", answer)
	}
	return res.StatusCode
}
