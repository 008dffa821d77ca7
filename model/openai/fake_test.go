package openai_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/model/openai"
	"github.com/everstep-go/everstep/react/reacttest"
)

// fake starts a server that does what the scenario says, in both dialects.
func fake(t testing.TB, s reacttest.Scenario) *httptest.Server {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		switch {
		case s.Transient:
			w.WriteHeader(http.StatusServiceUnavailable)
		case s.Permanent:
			http.Error(w, `{"error":{"code":"invalid_value","message":"This makes no sense."}}`, http.StatusBadRequest)
		case s.Silent:
			<-r.Context().Done()
		default:
			events := chatEvents(s.Reply)
			if strings.HasSuffix(r.URL.Path, "/responses") {
				events = responsesEvents(s.Reply)
			}
			w.Header().Set("Content-Type", "text/event-stream")
			for i, e := range events {
				if s.Cut && i == len(events)/2 {
					panic(http.ErrAbortHandler)
				}
				_, _ = io.WriteString(w, "data: "+e+"\n\n")
				_ = http.NewResponseController(w).Flush()
			}
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// pieces cuts a text in pieces, between characters.
func pieces(text string) (all []string) {
	for r := []rune(text); len(r) > 0; {
		n := min(5, len(r))
		all, r = append(all, string(r[:n])), r[n:]
	}
	return all
}

func chatEvents(r message.Reply) (events []string) {
	delta := func(d any) {
		events = append(events, object("choices", []any{object("index", 0, "delta", d)}).String())
	}
	for _, thought := range r.Reasoning {
		delta(object("reasoning_content", thought.Text))
	}
	for _, text := range pieces(r.Text) {
		delta(object("content", text))
	}
	for i, c := range r.ToolCalls {
		delta(object("tool_calls", []any{object("index", i, "id", c.ID, "type", "function", "function", object("name", c.Name, "arguments", ""))}))
	}
	for i, c := range r.ToolCalls { // the calls come at the same time
		for _, text := range pieces(string(c.Arguments)) {
			delta(object("tool_calls", []any{object("index", i, "function", object("arguments", text))}))
		}
	}
	events = append(events, object("choices", []any{object("index", 0, "delta", object(), "finish_reason", r.FinishReason)}).String())
	events = append(events, object("choices", []any{}, "usage", object(
		"prompt_tokens", r.Usage.InputTokens, "completion_tokens", r.Usage.OutputTokens,
		"prompt_tokens_details", object("cached_tokens", r.Usage.CachedInputTokens),
		"completion_tokens_details", object("reasoning_tokens", r.Usage.ReasoningTokens),
	)).String())
	return append(events, "[DONE]")
}

func responsesEvents(r message.Reply) (events []string) {
	event := func(kind string, members ...any) {
		events = append(events, object(append([]any{"type", kind}, members...)...).String())
	}
	event("response.created", "response", object("status", "in_progress"))
	at := 0
	for _, thought := range r.Reasoning {
		event("response.output_item.added", "output_index", at, "item", object("type", "reasoning", "summary", []any{}))
		for _, text := range pieces(thought.Text) {
			event("response.reasoning_summary_text.delta", "output_index", at, "summary_index", 0, "delta", text)
		}
		event("response.output_item.done", "output_index", at, "item", object("type", "reasoning", "encrypted_content", thought.Signature,
			"summary", []any{object("type", "summary_text", "text", thought.Text)}))
		at++
	}
	if r.Text != "" {
		event("response.output_item.added", "output_index", at, "item", object("type", "message", "content", []any{}))
		for _, text := range pieces(r.Text) {
			event("response.output_text.delta", "output_index", at, "content_index", 0, "delta", text)
		}
		event("response.output_item.done", "output_index", at, "item", object("type", "message",
			"content", []any{object("type", "output_text", "text", r.Text)}))
		at++
	}
	for i, c := range r.ToolCalls {
		event("response.output_item.added", "output_index", at+i, "item", object("type", "function_call", "call_id", c.ID, "name", c.Name, "arguments", ""))
	}
	for i, c := range r.ToolCalls {
		for _, text := range pieces(string(c.Arguments)) {
			event("response.function_call_arguments.delta", "output_index", at+i, "delta", text)
		}
		event("response.output_item.done", "output_index", at+i, "item", object("type", "function_call", "call_id", c.ID, "name", c.Name, "arguments", string(c.Arguments)))
	}
	event("response.completed", "response", object("status", "completed", "usage", object(
		"input_tokens", r.Usage.InputTokens, "output_tokens", r.Usage.OutputTokens,
		"input_tokens_details", object("cached_tokens", r.Usage.CachedInputTokens),
		"output_tokens_details", object("reasoning_tokens", r.Usage.ReasoningTokens),
	)))
	return events
}

type members map[string]any

// object returns a JSON object of names and values that follow each other.
func object(pairs ...any) members {
	o := members{}
	for i := 0; i < len(pairs); i += 2 {
		o[pairs[i].(string)] = pairs[i+1]
	}
	return o
}

func (o members) String() string {
	text, err := json.Marshal(map[string]any(o))
	if err != nil {
		panic(err)
	}
	return string(text)
}

// transport answers requests without a network.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answering returns a model of a server that answers everything with the same.
func answering(api openai.API, status int, header http.Header, body io.Reader) *openai.Model {
	return openai.New(&openai.Options{APIKey: key, BaseURL: "http://localhost/v1", API: api, HTTPClient: &http.Client{
		Transport: transport(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(body), Request: r}, nil
		}),
	}})
}

const key = "sk-very-secret"

// stream is the body of a reply of these events.
func stream(events ...string) io.Reader { return strings.NewReader(body(events...)) }

func body(events ...string) string {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "data: %s\n\n", e)
	}
	return b.String()
}

// ask is the shortest request.
func ask() *message.Request {
	return &message.Request{Model: "gpt-5.2", Messages: []message.Message{message.NewUser("Oslo?")}}
}

// collect asks and reads the whole reply.
func collect(t testing.TB, m *openai.Model, req *message.Request) (message.Reply, error) {
	t.Helper()
	return message.Collect(m.Generate(t.Context(), req))
}

// failure asks and returns the error that the server answers.
func failure(t testing.TB, m *openai.Model) (*message.ProviderError, error) {
	t.Helper()
	_, err := collect(t, m, ask())
	require.Error(t, err)
	require.NotContains(t, err.Error(), key)
	said, _ := err.(*message.ProviderError)
	if passing, ok := err.(*message.TransientError); ok {
		said, _ = passing.Err.(*message.ProviderError)
	}
	return said, err
}
