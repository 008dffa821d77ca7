package anthropic_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/model/anthropic"
)

const key = "sk-ant-secret"

// api is a fake of the Messages API. It keeps the last request.
type api struct {
	*httptest.Server
	mu     sync.Mutex // guards the rest
	header http.Header
	body   []byte
}

func serve(t testing.TB, answer http.HandlerFunc) *api {
	t.Helper()
	a := &api{}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		a.mu.Lock()
		a.header, a.body = r.Header, body
		a.mu.Unlock()
		if r.Method != http.MethodPost || r.URL.Path != "/v1/messages" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Request-Id", "req_1")
		answer(w, r)
	}))
	t.Cleanup(a.Close)
	return a
}

func (a *api) model() *anthropic.Model { return a.with(anthropic.Options{}) }

func (a *api) with(opts anthropic.Options) *anthropic.Model {
	opts.APIKey, opts.BaseURL, opts.HTTPClient = key, a.URL, a.Client()
	return anthropic.New(&opts)
}

// events answers with a stream of server-sent events, each named by its type.
func events(all ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		_, _ = io.WriteString(w, sse(all...))
	}
}

func sse(all ...string) string {
	var b strings.Builder
	for _, data := range all {
		var e struct{ Type string }
		_ = json.Unmarshal([]byte(data), &e)
		fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", e.Type, data)
	}
	return b.String()
}

// failed answers with an error of the API.
func failed(status int, kind, text string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"type":"error","error":{"type":%q,"message":%q},"request_id":"req_1"}`, kind, text)
	}
}

const (
	messageStart = `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,"cache_creation_input_tokens":5,"cache_read_input_tokens":100,"output_tokens":1,"service_tier":"standard"}}}`
	messageStop  = `{"type":"message_stop"}`
	ping         = `{"type":"ping"}`
)

// ended is the end of a stream.
func ended(reason string) []string {
	return []string{
		fmt.Sprintf(`{"type":"message_delta","delta":{"stop_reason":%q,"stop_sequence":null},"usage":{"output_tokens":42}}`, reason),
		messageStop,
	}
}

func start(index int, block string) string {
	return fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":%s}`, index, block)
}

func delta(index int, kind, field, text string) string {
	value, _ := json.Marshal(text)
	return fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":{"type":%q,%q:%s}}`, index, kind, field, value)
}

func textDelta(index int, text string) string { return delta(index, "text_delta", "text", text) }

func inputDelta(index int, text string) string {
	return delta(index, "input_json_delta", "partial_json", text)
}

func stop(index int) string {
	return fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, index)
}

// stream is a reply as the API sends it, its texts and arguments in small pieces.
func stream(r message.Reply) []string {
	all := []string{messageStart}
	index := 0
	block := func(open string, deltas ...string) {
		all = append(all, start(index, open))
		all = append(all, deltas...)
		all = append(all, stop(index))
		index++
	}
	pieces := func(text string, piece func(int, string) string) (deltas []string) {
		for runes := []rune(text); len(runes) > 0; {
			n := min(5, len(runes))
			deltas = append(deltas, piece(index, string(runes[:n])))
			runes = runes[n:]
		}
		return deltas
	}
	for _, t := range r.Reasoning {
		deltas := pieces(t.Text, func(i int, s string) string { return delta(i, "thinking_delta", "thinking", s) })
		block(`{"type":"thinking","thinking":"","signature":""}`, append(deltas, delta(index, "signature_delta", "signature", t.Signature))...)
	}
	if r.Text != "" {
		block(`{"type":"text","text":""}`, append([]string{ping}, pieces(r.Text, textDelta)...)...)
	}
	for _, c := range r.ToolCalls {
		block(fmt.Sprintf(`{"type":"tool_use","id":%q,"name":%q,"input":{}}`, c.ID, c.Name), append([]string{inputDelta(index, "")}, pieces(string(c.Arguments), inputDelta)...)...)
	}
	reason := map[message.FinishReason]string{message.FinishStop: "end_turn", message.FinishToolCalls: "tool_use"}[r.FinishReason]
	return append(all, ended(reason)...)
}

// say asks what anybody would.
func say(t testing.TB, m *anthropic.Model) (message.Reply, error) {
	t.Helper()
	return message.Collect(m.Generate(t.Context(), hello()))
}

func hello() *message.Request {
	return &message.Request{Model: "claude-sonnet-4-5", Messages: []message.Message{message.NewUser("Hello.")}}
}

func reply(t testing.TB, all ...string) message.Reply {
	t.Helper()
	r, err := say(t, serve(t, events(all...)).model())
	require.NoError(t, err)
	return r
}
