package openapitest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/pb33f/libopenapi-validator/config"
	"github.com/pb33f/libopenapi-validator/content"
	v3 "github.com/pb33f/libopenapi/datamodel/high/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/httpapi"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/state"
	"github.com/everstep-go/everstep/store/memory"
)

const maxBody = 8 << 10

// think is a model that does what the last message says.
func think(ctx context.Context, req *message.Request) (message.Reply, error) {
	user, ok := req.Messages[len(req.Messages)-1].(*message.User)
	if !ok {
		return message.Reply{Text: "done"}, nil
	}
	call := func(names ...string) (calls []message.ToolCall) {
		for _, name := range names {
			calls = append(calls, message.ToolCall{ID: name, Name: name, Arguments: json.RawMessage(`{}`)})
		}
		return calls
	}
	switch user.Text() {
	case "work":
		return message.Reply{
			Reasoning: []message.ReasoningDone{{Text: "hm", Signature: "x"}}, Text: "let me see", ToolCalls: call("look", "fail"),
		}, nil
	case "ask", "draw":
		return message.Reply{ToolCalls: call(user.Text())}, nil
	case "wait":
		<-ctx.Done()
		return message.Reply{}, ctx.Err()
	}
	return message.Reply{}, errors.New("broken")
}

type nothing struct{}

var tools = []react.Tool{
	react.NewTool("look", "Looks out of the window.", func(ctx context.Context, _ nothing) (map[string]string, error) {
		react.EmitActivity(ctx, "progress", state.Patch{state.Replace("/done", json.RawMessage(`0.5`)), state.Move("/a", "/b"), state.Remove("/c")})
		return map[string]string{"sky": "grey"}, react.UpdateContext(ctx, state.Add("/sky", json.RawMessage(`"grey"`)))
	}),
	react.NewTool("fail", "Fails.", func(context.Context, nothing) (string, error) { return "", errors.New("no") }),
	react.NewTool("ask", "Asks.", func(ctx context.Context, _ nothing) (bool, error) {
		return graph.Interrupt[bool](ctx, "", map[string]string{"question": "shall I?"})
	}),
}

// A server is a real one, with a client that has every exchange validated.
type server struct {
	*httptest.Server
	t         *testing.T
	store     *memory.Store
	model     *v3.Document
	validator validator.Validator
	seen      map[string]bool // "GET /v1/runs/{run_id} 200", and kinds of events
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{t: t, store: memory.New(nil), seen: map[string]bool{}}
	agent, err := react.New(react.Config{
		Name: "forecaster", Model: react.ModelFunc(think), Tools: tools, Store: s.store,
		CapabilityPolicy: react.PolicyExtensible, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = agent.Shutdown(context.Background()) }) // the store may be closed
	s.Server = httptest.NewServer(httpapi.New(agent, &httpapi.Options{Tenant: tenant, MaxBody: maxBody, Logger: slog.New(slog.DiscardHandler)}))
	t.Cleanup(s.Close)

	res, err := http.Get(s.URL + "/.well-known/openapi.json")
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	document, err := libopenapi.NewDocument(text)
	require.NoError(t, err)
	model, err := document.BuildV3Model()
	require.NoError(t, err)
	s.model = &model.Model
	var faults []error
	s.validator, faults = validator.NewValidator(document,
		config.WithFormatAssertions(), config.WithRejectUnsupportedBodyContent(),
		config.WithBodyDecoder("text/event-stream", content.JSONDecoder()), // one event at a time; see events
		config.WithBodyDecoder("text/html", content.TextDecoder()))
	require.Empty(t, faults)
	return s
}

func tenant(r *http.Request) (string, error) {
	if r.Header.Get(httpapi.TenantHeader) == "nobody" {
		return "", errors.New("nobody")
	}
	return httpapi.HeaderTenant(graph.DefaultTenant)(r)
}

// A call is a request and the status that it wants. Kind is the content type of the body, JSON by
// default.
type call struct {
	method, path string
	header       map[string]string
	kind, body   string
	status       int
	undocumented bool // the document forbids the request
}

func (s *server) get(path string, status int) []byte {
	s.t.Helper()
	return s.send(call{method: http.MethodGet, path: path, status: status})
}

func (s *server) delete(path string, status int) {
	s.t.Helper()
	s.send(call{method: http.MethodDelete, path: path, status: status})
}

func (s *server) post(path, body string, status int) []byte {
	s.t.Helper()
	return s.send(call{method: http.MethodPost, path: path, body: body, status: status})
}

// send sends a request and wants it and its answer to be as documented. It returns the body.
func (s *server) send(c call) []byte {
	s.t.Helper()
	request := func() *http.Request {
		r, err := http.NewRequestWithContext(s.t.Context(), c.method, s.URL+c.path, strings.NewReader(c.body))
		require.NoError(s.t, err)
		if c.body != "" {
			r.Header.Set("Content-Type", "application/json")
		}
		if c.kind != "" {
			r.Header.Set("Content-Type", c.kind)
		}
		for name, value := range c.header {
			r.Header.Set(name, value)
		}
		return r
	}
	what := fmt.Sprintf("%s %s %.200s", c.method, c.path, c.body)
	ok, faults := s.validator.ValidateHttpRequest(request())
	assert.Equal(s.t, !c.undocumented, ok, "the request %s: %v", what, faults)

	res, err := http.DefaultClient.Do(request())
	require.NoError(s.t, err, what)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(s.t, err, what)
	require.Equal(s.t, c.status, res.StatusCode, "%s: %s", what, body)
	s.seen[s.operation(request())+fmt.Sprintf(" %d", res.StatusCode)] = true

	parts := [][]byte{body}
	if res.Header.Get("Content-Type") == "text/event-stream" {
		parts = s.events(body)
	}
	for _, part := range parts {
		res.Body = io.NopCloser(bytes.NewReader(part))
		ok, faults := s.validator.ValidateHttpResponse(request(), res)
		assert.True(s.t, ok, "the answer to %s: %s: %v", what, part, faults)
	}
	return body
}

// events returns the data of the events of a stream, and remembers their kinds.
func (s *server) events(stream []byte) (all [][]byte) {
	for frame := range strings.SplitSeq(string(stream), "\n\n") {
		for line := range strings.SplitSeq(frame, "\n") {
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				all = append(all, []byte(data))
				s.seen[member(s.t, []byte(data), "kind")] = true
			}
		}
	}
	assert.NotEmpty(s.t, all)
	return all
}

// operation returns the method and the documented path of a request.
func (s *server) operation(r *http.Request) string {
	mux := http.NewServeMux()
	for path := range s.model.Paths.PathItems.FromOldest() {
		if path == "/" {
			path = "/{$}"
		}
		mux.Handle(path, http.NotFoundHandler())
	}
	_, pattern := mux.Handler(r)
	return r.Method + " " + strings.TrimSuffix(pattern, "{$}")
}

// checkThatNothingIsLeftOut wants every documented operation to have answered with each success
// that is documented, and every kind of event to have been sent.
func (s *server) checkThatNothingIsLeftOut() {
	s.t.Helper()
	for path, item := range s.model.Paths.PathItems.FromOldest() {
		for method, op := range item.GetOperations().FromOldest() {
			for status := range op.Responses.Codes.FromOldest() {
				if what := strings.ToUpper(method) + " " + path + " " + status; status < "400" {
					assert.True(s.t, s.seen[what], "nothing was answered by %s", what)
				}
			}
		}
	}
	for _, kind := range event.Kinds() {
		assert.True(s.t, s.seen[string(kind)], "no event of kind %s", kind)
	}
}

// member returns a text in a JSON object.
func member(t *testing.T, object []byte, name string) string {
	t.Helper()
	var members map[string]any
	require.NoError(t, json.Unmarshal(object, &members), "%s", object)
	text, ok := members[name].(string)
	require.True(t, ok, "%s of %s", name, object)
	return text
}
