package a2a_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/httpapi/a2a"
)

// FuzzRequests sends whatever it finds to every operation, by both bindings. Each answer is one that the
// specification has: valid JSON, and never an error of ours.
func FuzzRequests(f *testing.F) {
	agent := parrot(f, nil)
	server, err := a2a.NewServer(agent, a2a.ServerConfig{URL: "https://example.com", Logger: quiet})
	require.NoError(f, err)
	web := httptest.NewServer(server)
	f.Cleanup(web.Close)
	asks := send(f, (&bundle{url: web.URL}).client(f, sdk.TransportProtocolJSONRPC), ask("call ask {}"))
	id := string(asks.ID)
	for _, seed := range []string{
		`{}`, `[]`, `null`, `{"message":{"messageId":"1","role":"ROLE_USER","parts":[{"text":"hello"}]}}`,
		`{"message":{"messageId":"1","role":"ROLE_USER","parts":[{"data":{"a":[1e400,"\ud800"]}},{"raw":"aGk=","mediaType":"a/b"},{"url":"x"}]}}`,
		`{"message":{"messageId":"1","taskId":"` + id + `","role":"ROLE_USER","parts":[{"data":{"c1":null}}]},"configuration":{"historyLength":1,"taskPushNotificationConfig":{"url":"http://127.0.0.1"}}}`,
		`{"message":{"messageId":"1","contextId":"\u0000","role":"ROLE_USER","parts":[{"text":""}],"metadata":{"` + a2a.ToolsExtension + `":{"tools":[{"name":"x","parameters":{}}]}}}}`,
		`{"id":"` + id + `","taskId":"` + id + `","historyLength":2,"url":"https://example.com","authentication":{"scheme":"Bearer"}}`,
		`{"contextId":"x","status":"TASK_STATE_WORKING","pageSize":3,"pageToken":"AAAA","statusTimestampAfter":"2026-01-01T00:00:00Z","tenant":"t"}`,
	} {
		for op := range byte(11) {
			f.Add(op, seed)
		}
	}
	methods := []string{
		"SendMessage", "GetTask", "ListTasks", "CancelTask", "SendStreamingMessage", "SubscribeToTask", "CreateTaskPushNotificationConfig",
		"GetTaskPushNotificationConfig", "ListTaskPushNotificationConfigs", "DeleteTaskPushNotificationConfig", "GetExtendedAgentCard",
	}
	paths := []string{"/message:send", "/message:stream", "/tasks/" + id + "/pushNotificationConfigs", "/t/message:send"}
	f.Fuzz(func(t *testing.T, op byte, params string) {
		if strings.Contains(params, "sleep") {
			return // the parrot would
		}
		body := `{"jsonrpc":"2.0","id":1,"method":"` + methods[int(op)%len(methods)] + `","params":` + params + `}`
		for path, body := range map[string]string{"/": body, paths[int(op)%len(paths)]: params} {
			ctx, cancel := context.WithTimeout(t.Context(), testWait)
			defer cancel()
			req := httptest.NewRequest("POST", path, strings.NewReader(body)).WithContext(ctx)
			req.Header.Set("A2A-Version", "1.0")
			req.Header.Set("Content-Type", "application/json")
			rec := httptest.NewRecorder()
			server.ServeHTTP(rec, req)
			if ctx.Err() != nil {
				t.Fatalf("%s %s: no answer", path, body)
			}
			if rec.Code >= 500 || path == "/" && rec.Code != http.StatusOK {
				t.Fatalf("%s %s: %d %s", path, body, rec.Code, rec.Body)
			}
			for line := range strings.SplitSeq(rec.Body.String(), "\n") {
				line = strings.TrimPrefix(line, "data: ")
				if line == "" || strings.HasPrefix(line, "event: ") || strings.HasPrefix(line, ":") {
					continue
				}
				if !json.Valid([]byte(line)) || strings.Contains(line, "INTERNAL_ERROR") {
					t.Fatalf("%s %s: %s", path, body, line)
				}
			}
		}
	})
}
