package agui_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/httpapi"
	"github.com/everstep-go/everstep/httpapi/agui"
	"github.com/everstep-go/everstep/httpapi/agui/aguitest"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/store/memory"
)

// codes are those that a request alone can bring about.
var codes = map[int]bool{400000: true, 400001: true, 400002: true, 400011: true, 409010: true, 413000: true, 422000: true, 422001: true}

// Whatever a client sends, it gets an answer that keeps the rules: a refusal, or a stream that every client reads to
// its end.
func FuzzInput(f *testing.F) {
	parrot := func(_ context.Context, req *message.Request) (message.Reply, error) {
		switch last := req.Messages[len(req.Messages)-1].(type) {
		case *message.User:
			if len(req.Tools) > 0 && strings.Contains(last.Text(), "call") {
				return message.Reply{ToolCalls: []message.ToolCall{{Name: req.Tools[0].Name, Arguments: json.RawMessage("{}")}}}, nil
			}
			return message.Reply{Text: last.Text(), FinishReason: message.FinishStop}, nil
		}
		return message.Reply{Text: "ok", FinishReason: message.FinishStop}, nil
	}
	for _, body := range []string{
		`{"threadId":"t","runId":"r","protocolVersion":"1.0","messages":[{"id":"m","role":"user","content":"hello"}],"tools":[],"context":[],"state":{},"forwardedProps":{}}`,
		`{"threadId":"t","runId":"r2","messages":[{"id":"m","role":"user","content":"call"},{"id":"a","role":"assistant","toolCalls":[]},{"id":"x","role":"tool","toolCallId":"c","content":[{"type":"text","text":"x"}],"error":"e"}],
			"tools":[{"name":"look","description":"d","parameters":{"type":"object"}}],"context":[{"description":"d","value":"v"}]}`,
		`{"messages":[],"resume":[{"interruptId":"i","status":"resolved","payload":{"a":1}},{"interruptId":"j","status":"cancelled"}],"state":{"a":[1e99,-0]}}`,
		`{"messages":[{"id":"é","role":"user","metadata":{"ag_ui_id":"x"},"content":[{"type":"image","source":{"type":"url","value":"https://example.com/a.png"}},{"type":"binary","mimeType":"a/b","data":"AAAA"},{"type":"audio","source":{"type":"file","value":"f"}}]}],
			"forwardedProps":{"model":{"override":{"model":"m"},"timeout":5},"capability_override":{"strategy":"extend","capabilities":["a"]},"command":{"resume":1}}}`,
		`{"threadId":"00000000-0000-0000-0000-000000000000","runId":"{0199d8a4-0000-4000-8000-000000000001}","parentRunId":"p","messages":[{"id":"s","role":"system","content":"x"},{"id":"d","role":"developer"}]}`,
		"{\"threadId\":\"\\ud800\",\"messages\":[],\"\x00\":1}", `[[[`, ``,
	} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		agent, err := react.New(react.Config{ // a new one each time, or the thread grows without end
			Name: "fuzzed", Model: react.ModelFunc(parrot), Store: memory.New(nil), Logger: slog.New(slog.DiscardHandler), CapabilityPolicy: react.PolicyExtensible,
		})
		require.NoError(t, err)
		h := agui.New(agent, &agui.Options{Logger: slog.New(slog.DiscardHandler)})
		for range 2 { // the second time the thread is there, and perhaps the run
			r := httptest.NewRequestWithContext(t.Context(), "POST", "/", strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != 200 {
				var e httpapi.Error
				require.NoError(t, json.Unmarshal(w.Body.Bytes(), &e), "%d %s", w.Code, w.Body)
				require.True(t, codes[e.Code], "%s", w.Body)
				require.Equal(t, w.Code, e.Code/1000)
				return
			}
			var in struct {
				ProtocolVersion *string `json:"protocolVersion"`
			}
			require.NoError(t, json.Unmarshal([]byte(body), &in))
			d := aguitest.V1
			if in.ProtocolVersion == nil || *in.ProtocolVersion == "" {
				d = aguitest.V0
			}
			_, err := aguitest.Read(w.Body, d)
			require.NoError(t, err, "%s", body)
		}
	})
}
