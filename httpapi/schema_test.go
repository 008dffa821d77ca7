package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/httpapi"
	"github.com/everstep-go/everstep/httpapi/httpapitest"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/react/reacttest"
	"github.com/everstep-go/everstep/store/memory"
)

// conforming wraps the handler of an agent and fails the test if an exchange is not what the
// handler's OpenAPI document says: its status, its content type, its body, each event of a stream.
// What is written passes through at once. Events are checked as they pass, so that a stream may be
// of any length; after the first that is wrong those of the same stream are only counted.
//
// Answers to clients that are gone, and those after the end of the test, are not looked at. The
// codes that an Options.Tenant makes up are in no document: do not wrap a handler that has one.
func conforming(t testing.TB, h http.Handler) http.Handler {
	t.Helper()
	c := &checker{t: t, doc: fetchDocument(t, h)}
	t.Cleanup(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.over = true
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := &exchange{ResponseWriter: w, doc: c.doc, op: c.doc.operation(r)}
		h.ServeHTTP(e, r)
		if err := e.finish(); err != nil && r.Context().Err() == nil {
			c.fail("%s %s: %d: %v", r.Method, r.URL.Path, e.status, err)
		}
	})
}

type checker struct {
	t   testing.TB
	doc *document

	mu   sync.Mutex // guards over
	over bool       // the test
}

func (c *checker) fail(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over {
		c.t.Errorf("not in the OpenAPI document: "+format, args...)
	}
}

// A document is what the tests read of an OpenAPI document.
type document struct {
	Paths      map[string]map[string]*documented
	Components struct {
		Schemas map[string]*jsonschema.Schema
	}
	mux      *http.ServeMux
	mu       sync.Mutex // guards resolved
	resolved map[string]*jsonschema.Resolved
}

// A documented operation.
type documented struct {
	Responses map[string]struct {
		Description string
		Content     map[string]struct{ Schema *jsonschema.Schema }
	}
}

// documents are those that were fetched, by their text: most tests have the same.
var documents sync.Map

func fetchDocument(t testing.TB, h http.Handler) *document {
	t.Helper()
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/.well-known/openapi.json", nil))
	if d, ok := documents.Load(rec.Body.String()); ok {
		return d.(*document)
	}
	// Validators take a format for a remark. As a pattern it counts.
	text := strings.NewReplacer(
		`"format":"uuid"`, `"format":"uuid","pattern":"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"`,
		`"format":"date-time"`, `"format":"date-time","pattern":"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?Z$"`,
		`"#/components/schemas/`, `"#/$defs/`,
	).Replace(rec.Body.String())
	d := &document{mux: http.NewServeMux(), resolved: map[string]*jsonschema.Resolved{}}
	require.NoError(t, json.Unmarshal([]byte(text), d))
	for template, methods := range d.Paths {
		if template == "/" {
			template = "/{$}"
		}
		for method := range methods {
			d.mux.Handle(strings.ToUpper(method)+" "+template, http.NotFoundHandler())
		}
	}
	documents.Store(rec.Body.String(), d)
	return d
}

// operation returns the operation that a request is for, nil if there is none.
func (d *document) operation(r *http.Request) *documented {
	if path.Clean(r.URL.Path) != r.URL.Path {
		return nil // which a mux would repair
	}
	_, pattern := d.mux.Handler(r)
	method, template, _ := strings.Cut(pattern, " ")
	if d.Paths[r.URL.Path] != nil && template != r.URL.Path && template != r.URL.Path+"{$}" {
		return nil // a path without a parameter comes first, whatever its methods
	}
	return d.Paths[strings.TrimSuffix(template, "{$}")][strings.ToLower(method)]
}

// validate reports what is wrong with a value that should be of the component. What is printed has
// no members but those that are documented.
func (d *document) validate(component string, text []byte) error {
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return err
	}
	if object, ok := value.(map[string]any); ok {
		component = d.variant(component, object)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.resolved[component] == nil {
		resolved, err := d.closed(component).Resolve(nil)
		if err != nil {
			return err
		}
		d.resolved[component] = resolved
	}
	if err := d.resolved[component].Validate(value); err != nil {
		return fmt.Errorf("no %s: %w in %.500s", component, err, text)
	}
	return nil
}

// variant returns the component that the discriminator of a component says the object is: errors
// that name it are shorter than errors about all of them.
func (d *document) variant(component string, object map[string]any) string {
	discriminator, _ := d.Components.Schemas[component].Extra["discriminator"].(map[string]any)
	member, _ := discriminator["propertyName"].(string)
	mapping, _ := discriminator["mapping"].(map[string]any)
	value, _ := object[member].(string)
	if to, ok := mapping[value].(string); ok {
		return strings.TrimPrefix(to, "#/$defs/")
	}
	return component
}

// closed returns the schema of a component, without members that it does not name.
func (d *document) closed(component string) *jsonschema.Schema {
	root := (&jsonschema.Schema{Ref: "#/$defs/" + component, Defs: maps.Clone(d.Components.Schemas)}).CloneSchemas()
	for _, s := range root.Defs {
		for _, s := range append(append([]*jsonschema.Schema{s}, s.AnyOf...), s.OneOf...) {
			if s.Properties != nil {
				s.AdditionalProperties = &jsonschema.Schema{Not: &jsonschema.Schema{}}
			}
		}
	}
	return root
}

// An exchange is one answer on its way to the client.
type exchange struct {
	http.ResponseWriter
	doc *document
	op  *documented

	mu     sync.Mutex // guards what follows
	status int
	body   []byte // that is not yet checked
	last   int    // the id of the last event
	faults int
	fault  error // the first
	gone   bool  // a write failed
}

// Unwrap is for http.ResponseController.
func (e *exchange) Unwrap() http.ResponseWriter { return e.ResponseWriter }

func (e *exchange) WriteHeader(status int) {
	e.mu.Lock()
	if e.status == 0 {
		e.status = status
	}
	e.mu.Unlock()
	e.ResponseWriter.WriteHeader(status)
}

func (e *exchange) Write(b []byte) (int, error) {
	n, err := e.ResponseWriter.Write(b)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.status == 0 {
		e.status = http.StatusOK
	}
	e.gone = e.gone || err != nil && !errors.Is(err, http.ErrBodyNotAllowed)
	e.body = append(e.body, b...)
	if e.kind() == "text/event-stream" {
		for !e.gone {
			frame, rest, ok := bytes.Cut(e.body, []byte("\n\n"))
			if !ok {
				break
			}
			e.found(e.event(string(frame)))
			e.body = rest
		}
	}
	return n, err
}

func (e *exchange) kind() string {
	kind, _, _ := mime.ParseMediaType(e.Header().Get("Content-Type"))
	return kind
}

func (e *exchange) found(err error) {
	if err == nil {
		return
	}
	if e.fault == nil {
		e.fault = err
	}
	e.faults++
}

// finish reports what is wrong with the answer, now that it is complete.
func (e *exchange) finish() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.gone || e.status == 0 && e.op == nil {
		return nil
	}
	if e.status == 0 {
		e.status = http.StatusOK
	}
	if e.fault == nil {
		e.found(e.check())
	}
	if e.faults > 1 {
		return fmt.Errorf("%w (and %d more)", e.fault, e.faults-1)
	}
	return e.fault
}

func (e *exchange) check() error {
	if e.op == nil {
		if e.status != http.StatusNotFound && e.status != http.StatusMethodNotAllowed {
			return errors.New("no such path or method")
		}
		return e.error("404000: 405000:")
	}
	response, ok := e.op.Responses[strconv.Itoa(e.status)]
	if !ok {
		return errors.New("no such status")
	}
	if len(response.Content) == 0 {
		if len(e.body) > 0 || e.kind() != "" {
			return fmt.Errorf("there is a body: %.500s", e.body)
		}
		return nil
	}
	content, ok := response.Content[e.kind()]
	switch {
	case !ok:
		return fmt.Errorf("no such content type: %q", e.kind())
	case e.kind() == "text/event-stream":
		if len(e.body) > 0 {
			return fmt.Errorf("the stream ends within an event: %.500s", e.body)
		}
		return nil
	case e.kind() == "text/html":
		return nil
	case e.status >= 400:
		return e.error(response.Description)
	}
	return e.doc.validate(strings.TrimPrefix(content.Schema.Ref, "#/$defs/"), e.body)
}

// error checks the body of an error. Codes is where its code must be named.
func (e *exchange) error(codes string) error {
	var body struct{ Code int }
	if err := json.Unmarshal(e.body, &body); err != nil {
		return err
	}
	if body.Code/1000 != e.status || !strings.Contains(codes, strconv.Itoa(body.Code)+":") {
		return fmt.Errorf("no such code: %d", body.Code)
	}
	return e.doc.validate("Error", e.body)
}

// event checks a server-sent event.
func (e *exchange) event(frame string) error {
	fields := map[string]string{}
	for line := range strings.SplitSeq(frame, "\n") {
		name, value, ok := strings.Cut(line, ": ")
		if _, twice := fields[name]; !ok || twice {
			return fmt.Errorf("no line of an event: %.500q", line)
		}
		fields[name] = value
	}
	if _, comment := fields[""]; comment && len(fields) == 1 {
		return nil
	}
	if fields["event"] == "error" {
		return e.doc.validate("Error", []byte(fields["data"]))
	}
	id, err := strconv.Atoi(fields["id"])
	snapshot := strings.HasSuffix(fields["event"], "_snapshot") // of what was missed, under the number of its end
	if err != nil || id < e.last || id == e.last && !snapshot {
		return fmt.Errorf("id %q after %d", fields["id"], e.last)
	}
	e.last = id
	var data struct{ Kind string }
	if err := json.Unmarshal([]byte(fields["data"]), &data); err != nil || data.Kind != fields["event"] {
		return fmt.Errorf("an event %q with the data %.500s", fields["event"], fields["data"])
	}
	return e.doc.validate("Event", []byte(fields["data"]))
}

// A recorder is a testing.TB that keeps what would fail it.
type recorder struct {
	testing.TB
	mu     sync.Mutex // guards errors
	errors []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func TestConformingFindsWhatTheDocumentDoesNotSay(t *testing.T) {
	t.Parallel()
	agent := httpapi.New(newAgent(t, reacttest.NewScript()), nil)
	const session = `{"id":"6f1c2a54-8f6b-4d8e-9d53-0b5c7d1f4c11","created_at":"2026-01-02T15:04:05Z","updated_at":"2026-01-02T15:04:05.5Z"}`
	const started = `{"kind":"run_started","timestamp":1.5,"session_id":"6f1c2a54-8f6b-4d8e-9d53-0b5c7d1f4c11","run_id":"6f1c2a54-8f6b-4d8e-9d53-0b5c7d1f4c11"}`
	for name, c := range map[string]struct {
		method, path string
		status       int
		kind, body   string
		want         string // empty: nothing
	}{
		"what it says":         {"GET", "/v1/sessions/x", 200, "application/json", session, ""},
		"an error":             {"GET", "/v1/sessions/x", 404, "application/json", `{"code":404010,"message":"gone"}`, ""},
		"no route":             {"GET", "/v2", 404, "application/json", `{"code":404000,"message":"not found"}`, ""},
		"another status":       {"GET", "/v1/sessions/x", 201, "application/json", session, "no such status"},
		"another type":         {"GET", "/v1/sessions/x", 200, "text/plain", session, "no such content type"},
		"a member too few":     {"GET", "/v1/sessions/x", 200, "application/json", `{"id":"6f1c2a54-8f6b-4d8e-9d53-0b5c7d1f4c11"}`, "required"},
		"a member too many":    {"GET", "/v1/sessions/x", 200, "application/json", strings.Replace(session, "{", `{"tenant_id":"a",`, 1), "tenant_id"},
		"no UUID":              {"GET", "/v1/sessions/x", 200, "application/json", strings.Replace(session, "6f", "6F", 1), "pattern"},
		"no UTC":               {"GET", "/v1/sessions/x", 200, "application/json", strings.Replace(session, "5Z", "5+02:00", 1), "pattern"},
		"no JSON":              {"GET", "/v1/sessions/x", 200, "application/json", session + "x", "invalid character"},
		"another code":         {"GET", "/v1/sessions/x", 404, "application/json", `{"code":404012,"message":"gone"}`, "no such code"},
		"a code of elsewhere":  {"GET", "/v1/sessions/x", 404, "application/json", `{"code":400000,"message":"gone"}`, "no such code"},
		"an error unlike them": {"GET", "/v1/sessions/x", 404, "application/json", `{"code":404010}`, "no Error"},
		"a route too many":     {"GET", "/v2", 200, "application/json", `{}`, "no such path"},
		"a body too many":      {"DELETE", "/v1/sessions/x", 204, "", "x", "there is a body"},
		"events":               {"POST", "/v1/runs", 200, "text/event-stream", "id: 1\nevent: run_started\ndata: " + started + "\n\n: keep-alive\n\n", ""},
		"another event":        {"POST", "/v1/runs", 200, "text/event-stream", "id: 1\nevent: run_started\ndata: " + strings.Replace(started, "run_id", "run", 1) + "\n\n", "no RunStartedEvent"},
		"another name":         {"POST", "/v1/runs", 200, "text/event-stream", "id: 1\nevent: run_error\ndata: " + started + "\n\n", "an event"},
		"an id twice":          {"POST", "/v1/runs", 200, "text/event-stream", strings.Repeat("id: 1\nevent: run_started\ndata: "+started+"\n\n", 3), "after 1 (and 1 more)"},
		"half an event":        {"POST", "/v1/runs", 200, "text/event-stream", "id: 1\n", "ends within"},
		"the end of a stream":  {"POST", "/v1/runs", 200, "text/event-stream", "event: error\ndata: {\"code\":503000,\"message\":\"x\"}\n\n", ""},
		"an end unlike it":     {"POST", "/v1/runs", 200, "text/event-stream", "event: error\ndata: {\"message\":\"x\"}\n\n", "no Error"},
	} {
		rec := &recorder{TB: t}
		h := conforming(rec, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/.well-known/openapi.json" {
				agent.ServeHTTP(w, r)
				return
			}
			if c.kind != "" {
				w.Header().Set("Content-Type", c.kind)
			}
			w.WriteHeader(c.status)
			for b := range strings.SplitAfterSeq(c.body, ",") { // whatever the pieces
				_, _ = w.Write([]byte(b))
			}
		}))
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(c.method, c.path, nil))
		if c.want == "" {
			assert.Empty(t, rec.errors, name)
		} else if assert.Len(t, rec.errors, 1, name) {
			assert.Contains(t, rec.errors[0], c.want, name)
		}
	}
}

func TestConformingHoldsNothingBack(t *testing.T) {
	t.Parallel()
	heard := make(chan struct{})
	agent := newAgent(t, react.ModelFunc(func(context.Context, *message.Request) (message.Reply, error) {
		<-heard
		return message.Reply{Text: "hello"}, nil
	}))
	server := httptest.NewServer(conforming(t, httpapi.New(agent, nil)))
	t.Cleanup(server.Close)
	res, err := http.Post(server.URL+"/v1/runs", "application/json", strings.NewReader(`{"messages":[{"role":"user","content":"hi"}]}`))
	require.NoError(t, err)
	defer res.Body.Close()
	n := 0
	for _, err := range httpapitest.Events(res.Body) {
		require.NoError(t, err)
		if n++; n == 1 {
			close(heard)
		}
	}
	assert.Greater(t, n, 5)
}

// newAgent returns an agent that keeps everything in memory.
func newAgent(t testing.TB, model react.Model) *react.Agent {
	t.Helper()
	agent, err := react.New(react.Config{
		Name: "forecaster", Model: model, Store: memory.New(nil), CapabilityPolicy: react.PolicyExtensible,
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, agent.Shutdown(context.Background())) })
	return agent
}

// TestBodiesAreReadAsDocumented changes every member of bodies that are read, at any depth, and
// wants the handler and the document to agree on what comes out.
func TestBodiesAreReadAsDocumented(t *testing.T) {
	t.Parallel()
	h := httpapi.New(newAgent(t, reacttest.NewScript(reacttest.Say("hello"))), nil)
	checked := conforming(t, h)
	doc := fetchDocument(t, h)
	post := func(path, body string) (code int) {
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		rec := httptest.NewRecorder()
		checked.ServeHTTP(rec, r)
		var e struct{ Code int }
		_ = json.Unmarshal(rec.Body.Bytes(), &e)
		return e.Code
	}
	const id = "6f1c2a54-8f6b-4d8e-9d53-0b5c7d1f4c11"
	require.Zero(t, post("/v1/runs/start", `{"session_id":"`+id+`","run_id":"`+id+`","messages":[{"role":"user","content":"hi"}]}`))
	media := `{"type":"image","source":{"type":"url","value":"https://example.com/a.png"},"media_type":"image/png"}`
	nested := `{"type":"audio","value":{"source":{"type":"base64","value":"AAAA"},"media_type":"audio/mp3"}}`
	user := `{"role":"user","id":"` + id + `","content":[{"type":"text","value":"hi"},` + media + `,` + nested + `],"metadata":{"a":1}}`
	tool := `{"role":"tool","id":null,"tool_call_id":"c","parent_message_id":"` + id + `","content":"x","error":"y","metadata":null}`
	system := `{"role":"system","content":"x"}`
	for _, c := range []struct{ path, component, body string }{
		{"/v1/sessions", "CreateSession", `{"id":"` + id + `"}`},
		{"/v1/sessions/" + id + "/messages", "CreateMessage", user},
		{"/v1/sessions/" + id + "/messages", "CreateMessage", tool},
		{"/v1/sessions/" + id + "/messages", "CreateMessage", system},
		// The run exists already, so that what can be read is refused only then.
		{"/v1/runs/start", "StartRun", `{"session_id":"` + id + `","run_id":"` + id + `","checkpoint_id":"` + id + `","on_busy":"wait",
			"messages":[` + user + `,` + tool + `,` + system + `],"context":{"a":1},
			"model":{"timeout":1,"retry":{"max_attempts":1,"initial_backoff":0,"max_backoff":0},
				"override":{"provider":"","model":"m","inference_params":{"max_tokens":1,"temperature":0.5,"top_p":1,"top_k":1,"stop_sequences":["a"],
				"frequency_penalty":1,"presence_penalty":1,"seed":1,"provider_params":{"a":1}}}},
			"capability_override":{"strategy":"extend","capabilities":["a"]},"context_vars":[{"description":"a","value":"b"}],
			"tools":[{"name":"t","description":"d","parameters":{"type":"object"}}]}`},
		{"/v1/runs/start", "StartRun", `{"run_id":"` + id + `","checkpoint_id":"` + id + `","resume_payload":{"a":1},"capability_override":{"strategy":"inherit"}}`},
	} {
		schema, err := (&jsonschema.Schema{Ref: "#/$defs/" + c.component, Defs: doc.Components.Schemas}).CloneSchemas().Resolve(nil)
		require.NoError(t, err)
		var whole any
		require.NoError(t, json.Unmarshal([]byte(c.body), &whole))
		n := 0
		for place := range variations(whole) {
			n++
			text, err := json.Marshal(whole)
			require.NoError(t, err)
			documented := schema.Validate(whole)
			if code := post(c.path, string(text)); documented == nil && code == httpapi.CodeWrongShape {
				t.Errorf("%s: %s is documented but refused: %s", c.path, place, text)
			} else if documented != nil && code/1000 != 422 {
				t.Errorf("%s: %s is read (%d) but not documented: %s: %v", c.path, place, code, text, documented)
			}
		}
		assert.Greater(t, n, 10)
	}
}

// variations changes a JSON value in place, one place at a time, and yields where.
func variations(whole any) func(func(string) bool) {
	others := []any{nil, true, 1.0, -1.0, 1.5, "", "x", "2fb0a0a1-0d5e-4b55-a4a3-6a3a9f0ff001", []any{}, []any{nil}, []any{"x"}, map[string]any{}}
	return func(yield func(string) bool) {
		var walk func(place string, v any) bool
		try := func(place string, was any, set func(any)) bool {
			for _, other := range others {
				set(other)
				if !yield(fmt.Sprintf("%s = %v", place, other)) {
					return false
				}
			}
			set(was)
			return walk(place, was)
		}
		walk = func(place string, v any) bool {
			switch v := v.(type) {
			case map[string]any:
				for _, name := range slices.Sorted(maps.Keys(v)) {
					was := v[name]
					delete(v, name)
					if !yield("no " + place + "." + name) {
						return false
					}
					if !try(place+"."+name, was, func(other any) { v[name] = other }) {
						return false
					}
				}
			case []any:
				for i, was := range v {
					if !try(fmt.Sprintf("%s[%d]", place, i), was, func(other any) { v[i] = other }) {
						return false
					}
				}
			}
			return true
		}
		walk("", whole)
	}
}
