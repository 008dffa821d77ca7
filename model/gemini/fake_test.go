package gemini_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genai"

	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/model/gemini"
)

const key = "AIza-secret"

// fake is a fake of the API. It keeps what it was sent.
type fake struct {
	*httptest.Server
	mu     sync.Mutex // guards what follows
	bodies []string
	paths  []string
	keys   []string
}

// serve starts a fake that answers each request with answer.
func serve(t testing.TB, answer http.HandlerFunc) *fake {
	t.Helper()
	f := &fake{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		f.mu.Lock()
		f.bodies = append(f.bodies, string(body))
		f.paths = append(f.paths, r.Method+" "+r.URL.RequestURI())
		f.keys = append(f.keys, r.Header.Get("X-Goog-Api-Key"))
		f.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

func (f *fake) model(t testing.TB) *gemini.Model {
	t.Helper()
	return newModel(t, &gemini.Options{APIKey: key, BaseURL: f.URL, Backend: genai.BackendGeminiAPI})
}

func newModel(t testing.TB, opts *gemini.Options) *gemini.Model {
	t.Helper()
	m, err := gemini.New(t.Context(), opts)
	require.NoError(t, err)
	return m
}

// body returns the body of the only request there was.
func (f *fake) body(t testing.TB) string {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	require.Len(t, f.bodies, 1)
	return f.bodies[0]
}

// stream answers with events of the given data.
func stream(data ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, d := range data {
			fmt.Fprintf(w, "data: %s\r\n\r\n", d)
			w.(http.Flusher).Flush()
		}
	}
}

// sse is a stream of events of the given data.
func sse(data ...string) string { return "data: " + strings.Join(data, "\n\ndata: ") + "\n\n" }

// refuse answers with an error.
func refuse(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

// parts is a chunk of a reply.
func parts(list ...string) string {
	return fmt.Sprintf(`{"candidates":[{"content":{"role":"model","parts":[%s]},"index":0}],"responseId":"r-1"}`, strings.Join(list, ","))
}

// finish is a chunk that ends a reply.
func finish(reason string) string {
	return fmt.Sprintf(`{"candidates":[{"content":{"role":"model","parts":[]},"finishReason":%q,"index":0}],`+
		`"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":2,"totalTokenCount":12},"modelVersion":"gemini-3-pro-001","responseId":"r-1"}`, reason)
}

// script is a reply as the API streams it, a part a chunk.
func script(r message.Reply) []string {
	var all []string
	add := func(p map[string]any) {
		data, err := json.Marshal(p)
		if err != nil {
			panic(err)
		}
		all = append(all, parts(string(data)))
	}
	for _, t := range r.Reasoning {
		add(map[string]any{"text": t.Text, "thought": true, "thoughtSignature": t.Signature})
	}
	for text := range strings.SplitAfterSeq(r.Text, " ") {
		if text != "" {
			add(map[string]any{"text": text})
		}
	}
	for _, c := range r.ToolCalls {
		add(map[string]any{"functionCall": map[string]any{"id": c.ID, "name": c.Name, "args": c.Arguments}})
	}
	return append(all, finish("STOP"))
}

// ask asks for a reply to a greeting.
func ask(t testing.TB, m *gemini.Model) (message.Reply, error) {
	t.Helper()
	return message.Collect(m.Generate(t.Context(), greeting()))
}

func greeting() *message.Request {
	return &message.Request{Model: "gemini-3-pro", Messages: []message.Message{message.NewUser("Hello.")}}
}

// again returns the request that follows a reply, with a result for each of its calls or the next question.
func again(req *message.Request, r message.Reply) *message.Request {
	next := *req
	for _, block := range r.Reasoning {
		next.Messages = append(next.Messages, message.NewReasoning(block.Text, block.Signature))
	}
	next.Messages = append(next.Messages, message.NewAssistant(r.Text, r.ToolCalls...))
	for _, c := range r.ToolCalls {
		next.Messages = append(next.Messages, message.NewTool(c.ID, "done"))
	}
	if len(r.ToolCalls) == 0 {
		next.Messages = append(next.Messages, message.NewUser("And then?"))
	}
	return &next
}

// transient returns how an error asks to be tried again, nil if it does not.
func transient(err error) *time.Duration {
	for ; err != nil; err = unwrap(err) {
		if t, ok := err.(*message.TransientError); ok {
			return &t.RetryAfter
		}
	}
	return nil
}

func unwrap(err error) error {
	if u, ok := err.(interface{ Unwrap() error }); ok {
		return u.Unwrap()
	}
	return nil
}
