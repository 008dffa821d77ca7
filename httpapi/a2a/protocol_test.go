package a2a_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/httpapi/a2a"
)

// response is what a server answers, in either binding.
type response struct {
	status int
	kind   string
	header http.Header
	body   string

	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Status  string `json:"status"`
		Message string `json:"message"`
		Data    []info `json:"data"`
		Details []info `json:"details"`
	} `json:"error"`
}

type info struct {
	Type   string `json:"@type"`
	Reason string `json:"reason"`
	Domain string `json:"domain"`
}

// reason returns the reason of an error, in either binding.
func (r *response) reason() string {
	if r.Error == nil {
		return ""
	}
	for _, i := range append(r.Error.Data, r.Error.Details...) {
		if i.Type == "type.googleapis.com/google.rpc.ErrorInfo" && i.Domain == "a2a-protocol.org" {
			return i.Reason
		}
	}
	return "none"
}

// do makes a request. Headers are pairs; an empty value removes one.
func (b *bundle) do(t testing.TB, method, path, body string, headers ...string) *response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, b.url+path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("A2A-Version", "1.0")
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
		if headers[i+1] == "" {
			req.Header.Del(headers[i])
		}
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	r := &response{status: res.StatusCode, kind: res.Header.Get("Content-Type"), header: res.Header, body: string(text)}
	if data, ok := bytes.CutPrefix(text, []byte("data: ")); ok {
		text = data
	}
	_ = json.Unmarshal(bytes.TrimSpace(text), r) // what is no JSON shows
	return r
}

// rpc makes a request of JSON-RPC.
func (b *bundle) rpc(t testing.TB, method, params string, headers ...string) *response {
	t.Helper()
	return b.do(t, "POST", "/", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params), headers...)
}

func TestBadRequestsGetTheErrorsOfTheSpecification(t *testing.T) {
	t.Parallel()
	b := serve(t, parrot(t, nil), func(c *a2a.ServerConfig) { c.MaxBody = 10_000 })
	c := b.client(t, sdk.TransportProtocolJSONRPC)
	done := send(t, c, ask("hello"))
	working := send(t, c, atOnce(ask("call sleep {}")))
	open := send(t, c, ask("call ask {}"))
	nobody := uuid.NewString()
	part := `"role":"ROLE_USER","parts":[{"text":"hello"}]`
	message := func(members string) string { return `{"message":{` + members + `}}` }

	// What is wrong with parameters is the same in both bindings. REST is empty if the binding has no such request.
	for name, tt := range map[string]struct {
		method, params string
		rest           string // verb and path
		code           int
		reason         string
		status         int
		says           string
	}{
		"no message":                 {"SendMessage", `{}`, "POST /message:send", -32602, "INVALID_PARAMS", 400, "message is missing"},
		"no parameters":              {"SendMessage", `[]`, "POST /message:send", -32602, "INVALID_PARAMS", 400, "must be an object"},
		"a number as a message":      {"SendMessage", `{"message":7}`, "POST /message:send", -32602, "INVALID_PARAMS", 400, "message"},
		"no message id":              {"SendMessage", message(part), "POST /message:send", -32602, "INVALID_PARAMS", 400, "messageId"},
		"no parts":                   {"SendMessage", message(`"messageId":"1","role":"ROLE_USER","parts":[]`), "POST /message:send", -32602, "INVALID_PARAMS", 400, "parts"},
		"a part that is null":        {"SendMessage", message(`"messageId":"1","role":"ROLE_USER","parts":[null]`), "POST /message:send", -32602, "INVALID_PARAMS", 400, "parts[0]"},
		"a part of nothing":          {"SendMessage", message(`"messageId":"1","role":"ROLE_USER","parts":[{}]`), "POST /message:send", -32602, "INVALID_PARAMS", 400, "part"},
		"a part of two things":       {"SendMessage", message(`"messageId":"1","role":"ROLE_USER","parts":[{"text":"a","url":"b"}]`), "POST /message:send", -32602, "INVALID_PARAMS", 400, "exactly one"},
		"an agent as the sender":     {"SendMessage", message(`"messageId":"1","role":"ROLE_AGENT","parts":[{"text":"a"}]`), "POST /message:send", -32602, "INVALID_PARAMS", 400, "role"},
		"no role":                    {"SendMessage", message(`"messageId":"1","parts":[{"text":"a"}]`), "POST /message:send", -32602, "INVALID_PARAMS", 400, "role"},
		"a message id without end":   {"SendMessage", message(`"messageId":"` + strings.Repeat("1", 2000) + `",` + part), "POST /message:send", -32602, "INVALID_PARAMS", 400, "longer than"},
		"a negative history":         {"SendMessage", `{"message":{"messageId":"1",` + part + `},"configuration":{"historyLength":-1}}`, "POST /message:send", -32602, "INVALID_PARAMS", 400, "historyLength"},
		"a file":                     {"SendMessage", message(`"messageId":"1","role":"ROLE_USER","parts":[{"raw":"aGVsbG8=","mediaType":"image/png"}]`), "POST /message:send", -32005, "CONTENT_TYPE_NOT_SUPPORTED", 400, "image/png"},
		"a file without a type":      {"SendMessage", message(`"messageId":"1","role":"ROLE_USER","parts":[{"url":"https://example.com/a"}]`), "POST /message:send", -32602, "INVALID_PARAMS", 400, "mediaType"},
		"tools that are none":        {"SendMessage", message(`"messageId":"1",` + part + `,"metadata":{"` + a2a.ToolsExtension + `":7}`), "POST /message:send", -32602, "INVALID_PARAMS", 400, "metadata"},
		"a tool without a name":      {"SendMessage", message(`"messageId":"1",` + part + `,"metadata":{"` + a2a.ToolsExtension + `":{"tools":[{}]}}`), "POST /message:send", -32602, "INVALID_PARAMS", 400, "tools[0].name"},
		"an unknown task":            {"SendMessage", message(`"messageId":"1","taskId":"` + nobody + `",` + part), "POST /message:send", -32001, "TASK_NOT_FOUND", 404, nobody},
		"a task id that is none":     {"SendMessage", message(`"messageId":"1","taskId":"7",` + part), "POST /message:send", -32001, "TASK_NOT_FOUND", 404, "7"},
		"a task that has ended":      {"SendMessage", message(`"messageId":"1","taskId":"` + string(done.ID) + `",` + part), "POST /message:send", -32004, "UNSUPPORTED_OPERATION", 400, "has ended"},
		"a task that works":          {"SendMessage", message(`"messageId":"1","taskId":"` + string(working.ID) + `",` + part), "POST /message:send", -32004, "UNSUPPORTED_OPERATION", 400, "while it works"},
		"another task's context":     {"SendMessage", message(`"messageId":"1","taskId":"` + string(open.ID) + `","contextId":"other",` + part), "POST /message:send", -32602, "INVALID_PARAMS", 400, "contextId"},
		"a stream to an ended task":  {"SendStreamingMessage", message(`"messageId":"1","taskId":"` + string(done.ID) + `",` + part), "POST /message:stream", -32004, "UNSUPPORTED_OPERATION", 400, "has ended"},
		"a stream of nothing":        {"SendStreamingMessage", `{}`, "POST /message:stream", -32602, "INVALID_PARAMS", 400, "message is missing"},
		"a hook inside":              {"SendMessage", `{"message":{"messageId":"1",` + part + `},"configuration":{"taskPushNotificationConfig":{"url":"ftp://x"}}}`, "POST /message:send", -32602, "INVALID_PARAMS", 400, "url"},
		"getting an unknown task":    {"GetTask", `{"id":"` + nobody + `"}`, "GET /tasks/" + nobody, -32001, "TASK_NOT_FOUND", 404, nobody},
		"getting nothing":            {"GetTask", `{}`, "", -32001, "TASK_NOT_FOUND", 404, "not found"},
		"getting less than nothing":  {"GetTask", `{"id":"` + string(done.ID) + `","historyLength":-1}`, "GET /tasks/" + string(done.ID) + "?historyLength=-1", -32602, "INVALID_PARAMS", 400, "historyLength"},
		"cancelling an unknown task": {"CancelTask", `{"id":"` + nobody + `"}`, "POST /tasks/" + nobody + ":cancel", -32001, "TASK_NOT_FOUND", 404, nobody},
		"cancelling an ended task":   {"CancelTask", `{"id":"` + string(done.ID) + `"}`, "POST /tasks/" + string(done.ID) + ":cancel", -32002, "TASK_NOT_CANCELABLE", 400, "has ended"},
		"subscribing to nobody":      {"SubscribeToTask", `{"id":"` + nobody + `"}`, "POST /tasks/" + nobody + ":subscribe", -32001, "TASK_NOT_FOUND", 404, nobody},
		"subscribing by GET":         {"SubscribeToTask", `{"id":"` + nobody + `"}`, "GET /tasks/" + nobody + ":subscribe", -32001, "TASK_NOT_FOUND", 404, nobody},
		"subscribing to an ended":    {"SubscribeToTask", `{"id":"` + string(done.ID) + `"}`, "POST /tasks/" + string(done.ID) + ":subscribe", -32004, "UNSUPPORTED_OPERATION", 400, "nothing to subscribe"},
		"a page of no tasks":         {"ListTasks", `{"pageSize":-1}`, "GET /tasks?pageSize=0", -32602, "INVALID_PARAMS", 400, "pageSize"},
		"too large a page":           {"ListTasks", `{"pageSize":101}`, "GET /tasks?pageSize=101", -32602, "INVALID_PARAMS", 400, "pageSize"},
		"a page size that is none":   {"ListTasks", `{"pageSize":"x"}`, "GET /tasks?pageSize=x", -32602, "INVALID_PARAMS", 400, "pageSize"},
		"no page token":              {"ListTasks", `{"pageToken":"%%"}`, "GET /tasks?pageToken=%25%25", -32602, "INVALID_PARAMS", 400, "pageToken"},
		"an unknown state":           {"ListTasks", `{"status":"TASK_STATE_BORED"}`, "GET /tasks?status=TASK_STATE_BORED", -32602, "INVALID_PARAMS", 400, "BORED"},
		"a time that is none":        {"ListTasks", `{"statusTimestampAfter":"noon"}`, "GET /tasks?statusTimestampAfter=noon", -32602, "INVALID_PARAMS", 400, "noon"},
		"a hook of nobody's":         {"CreateTaskPushNotificationConfig", `{"taskId":"` + nobody + `","url":"https://example.com/"}`, "", -32001, "TASK_NOT_FOUND", 404, nobody},
		"a hook without a host":      {"CreateTaskPushNotificationConfig", `{"taskId":"` + string(done.ID) + `","url":"https:///x"}`, "", -32602, "INVALID_PARAMS", 400, "url"},
		"a hook with a user":         {"CreateTaskPushNotificationConfig", `{"taskId":"` + string(done.ID) + `","url":"https://a:b@example.com/"}`, "", -32602, "INVALID_PARAMS", 400, "url"},
		"a header in a token":        {"CreateTaskPushNotificationConfig", `{"taskId":"` + string(done.ID) + `","url":"https://example.com/","token":"a\r\nX: y"}`, "", -32602, "INVALID_PARAMS", 400, "control"},
		"an unknown hook":            {"GetTaskPushNotificationConfig", `{"taskId":"` + string(done.ID) + `","id":"x"}`, "GET /tasks/" + string(done.ID) + "/pushNotificationConfigs/x", -32001, "TASK_NOT_FOUND", 404, `"x"`},
		"the extended card":          {"GetExtendedAgentCard", `{}`, "GET /extendedAgentCard", -32004, "UNSUPPORTED_OPERATION", 400, "extended card"},
	} {
		t.Run(name, func(t *testing.T) {
			r := b.rpc(t, tt.method, tt.params)
			require.NotNil(t, r.Error, r.body)
			assert.Equal(t, 200, r.status)
			assert.Equal(t, tt.code, r.Error.Code, r.body)
			assert.Equal(t, tt.reason, r.reason())
			assert.Contains(t, r.Error.Message, tt.says)
			if tt.rest == "" {
				return
			}
			verb, path, _ := strings.Cut(tt.rest, " ")
			body := ""
			if verb == "POST" && strings.HasPrefix(path, "/message") {
				body = tt.params
			}
			r = b.do(t, verb, path, body)
			require.NotNil(t, r.Error, r.body)
			assert.Equal(t, tt.status, r.status)
			assert.Equal(t, tt.status, r.Error.Code)
			assert.Equal(t, tt.reason, r.reason())
			assert.Equal(t, "application/json", r.kind)
		})
	}

	// What is wrong with the request itself.
	for name, tt := range map[string]struct {
		method, path, body string
		headers            []string
		status, code       int
		says               string
	}{
		"no JSON":                {"POST", "/", "{", nil, 200, -32700, "not valid JSON"},
		"no UTF-8":               {"POST", "/", "\"\xff\"", nil, 200, -32700, "not valid JSON"},
		"hostile nesting":        {"POST", "/", strings.Repeat("[", 5000), nil, 200, -32700, "not valid JSON"},
		"a batch":                {"POST", "/", `[{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{}}]`, nil, 200, -32600, "batches"},
		"a text":                 {"POST", "/", `"GetTask"`, nil, 200, -32600, "no request"},
		"no id":                  {"POST", "/", `{"jsonrpc":"2.0","method":"GetTask","params":{}}`, nil, 200, -32600, "id"},
		"an id that is an array": {"POST", "/", `{"jsonrpc":"2.0","id":[],"method":"GetTask","params":{}}`, nil, 200, -32600, "id"},
		"another JSON-RPC":       {"POST", "/", `{"jsonrpc":"1.0","id":1,"method":"GetTask","params":{}}`, nil, 200, -32600, "2.0"},
		"no method":              {"POST", "/", `{"jsonrpc":"2.0","id":1}`, nil, 200, -32600, "method"},
		"an unknown method":      {"POST", "/", `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{}}`, nil, 200, -32601, "message/send"},
		"a form":                 {"POST", "/", `{}`, []string{"Content-Type", "application/x-www-form-urlencoded"}, 200, -32600, "Content-Type"},
		"zipped":                 {"POST", "/", `{}`, []string{"Content-Encoding", "gzip"}, 200, -32600, "gzip"},
		"too large":              {"POST", "/", `"` + strings.Repeat("x", 10_000) + `"`, nil, 200, -32600, "more than 10000 bytes"},
		"too large, REST":        {"POST", "/message:send", `"` + strings.Repeat("x", 10_000) + `"`, nil, 413, 413, "more than 10000 bytes"},
		"no JSON, REST":          {"POST", "/message:send", "{", nil, 400, 400, "not valid JSON"},
		"an unknown path":        {"GET", "/nowhere", "", nil, 404, 404, "/nowhere"},
		"an unknown verb":        {"POST", "/tasks/x:paint", "", nil, 404, 404, "x:paint"},
		"a wrong method":         {"DELETE", "/tasks", "", nil, 405, 405, "GET"},
		"a damaged path":         {"GET", "/tasks/%zz", "", nil, 400, 0, ""},
		"version 9.0":            {"POST", "/", `{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{}}`, []string{"A2A-Version", "9.0"}, 200, -32009, `"9.0"`},
		"no version":             {"POST", "/", `{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{}}`, []string{"A2A-Version", ""}, 200, -32009, "0.3"},
		"version 1.0.1":          {"GET", "/tasks", "", []string{"A2A-Version", "1.0.1"}, 200, 0, ""},
		"version 1.1":            {"GET", "/tasks", "", []string{"A2A-Version", "1.1"}, 400, 400, `"1.1"`},
		"version 9.0, REST":      {"GET", "/tasks", "", []string{"A2A-Version", "9.0"}, 400, 400, `"9.0"`},
		"no version, REST":       {"GET", "/tasks", "", []string{"A2A-Version", ""}, 400, 400, "0.3"},
		"an empty tenant":        {"GET", "/tasks", "", []string{"X-Tenant-ID", "\t"}, 400, 400, "X-Tenant-ID"},
		"a NUL in the tenant":    {"GET", "/a%00b/tasks", "", nil, 400, 400, "NUL"},
		"a tenant without end":   {"GET", "/" + strings.Repeat("x", 2000) + "/tasks", "", nil, 400, 400, "at most"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "a damaged path" { // Go's client would not send it
				rec := httptest.NewRecorder()
				req := httptest.NewRequest(tt.method, "/tasks/x", nil)
				req.URL.RawPath, req.URL.Path = "/tasks/%2", "/tasks/%2"
				b.server.ServeHTTP(rec, req)
				assert.GreaterOrEqual(t, rec.Code, 400)
				return
			}
			r := b.do(t, tt.method, tt.path, tt.body, tt.headers...)
			assert.Equal(t, tt.status, r.status, r.body)
			if tt.code == 0 {
				return
			}
			require.NotNil(t, r.Error, r.body)
			assert.Equal(t, tt.code, r.Error.Code, r.body)
			assert.Contains(t, r.Error.Message, tt.says)
		})
	}
	list, err := c.ListTasks(t.Context(), &sdk.ListTasksRequest{})
	require.NoError(t, err)
	assert.Equal(t, 3, list.TotalSize, "nothing that was refused has left anything")
	_, err = c.CancelTask(t.Context(), &sdk.CancelTaskRequest{ID: working.ID})
	require.NoError(t, err)
}

func TestAWrongAnswerLeavesTheQuestion(t *testing.T) {
	t.Parallel()
	b := serve(t, parrot(t, nil))
	c := b.client(t, sdk.TransportProtocolJSONRPC)
	asked := send(t, c, ask(`call pay {"Amount":7}`))
	for _, part := range []*sdk.Part{
		sdk.NewTextPart("perhaps"), sdk.NewDataPart([]any{1}), sdk.NewDataPart(map[string]any{"c1": true, "c2": true}),
		sdk.NewFileURLPart("https://example.com/", "text/plain"),
	} {
		_, err := c.SendMessage(t.Context(), about(&sdk.SendMessageRequest{Message: sdk.NewMessage(sdk.MessageRoleUser, part)}, asked.ID, ""))
		require.Error(t, err)
	}
	done := send(t, c, about(ask("yes"), asked.ID, asked.ContextID))
	assert.Equal(t, []string{"paid 7"}, texts(done))
	assert.Len(t, done.History, 3)
}

func TestTheMediaTypesOfTheBindings(t *testing.T) {
	t.Parallel()
	b := serve(t, parrot(t, nil), func(c *a2a.ServerConfig) { c.Unversioned = true })
	body := `{"message":{"messageId":"1","role":"ROLE_USER","parts":[{"text":"hello"}]}}`
	r := b.do(t, "POST", "/message:send", body, "Content-Type", "application/a2a+json", "A2A-Version", "")
	assert.Equal(t, 200, r.status, r.body)
	assert.Equal(t, "application/a2a+json", r.kind)
	r = b.rpc(t, "SendMessage", body)
	assert.Equal(t, "application/json", r.kind)
	assert.Equal(t, "text/event-stream", b.do(t, "POST", "/message:stream", body).kind)
	assert.Equal(t, "text/event-stream", b.rpc(t, "SendStreamingMessage", body).kind)
	r = b.do(t, "GET", "/tasks?A2A-Version=1.0", "", "A2A-Version", "")
	assert.Contains(t, r.body, `"nextPageToken":""`)
	assert.NotContains(t, r.body, "artifacts")
}

func TestNumbersInDataKeepTheirSpelling(t *testing.T) {
	t.Parallel()
	b := serve(t, parrot(t, nil))
	r := b.rpc(t, "SendMessage", `{"message":{"messageId":"1","role":"ROLE_USER","parts":[{"text":"hello"},{"data":{"n":12345678901234567890}}]}}`)
	assert.Contains(t, r.body, `"data":{"n":12345678901234567890}`, "in the history")
	assert.Contains(t, r.body, `"a2a_input":{"n":12345678901234567890}`, "in the context")
	r = b.rpc(t, "SendMessage", `{"message":{"messageId":"2","role":"ROLE_USER","parts":[{"data":[1E2]}]}}`)
	assert.Contains(t, r.body, `[1E2] (1)`, "data alone is what the agent hears")
}

func TestTheCardIsCached(t *testing.T) {
	t.Parallel()
	b := serve(t, parrot(t, nil), func(c *a2a.ServerConfig) {
		c.Card = func(card *sdk.AgentCard) {
			card.Provider = &sdk.AgentProvider{Org: "Birds", URL: "https://example.com"}
		}
	})
	r := b.do(t, "GET", a2a.WellKnown, "", "A2A-Version", "")
	require.Equal(t, 200, r.status)
	assert.Equal(t, "public, max-age=3600", r.header.Get("Cache-Control"))
	etag := r.header.Get("ETag")
	require.NotEmpty(t, etag)
	var card sdk.AgentCard
	require.NoError(t, json.Unmarshal([]byte(r.body), &card))
	assert.Equal(t, "Birds", card.Provider.Org)
	assert.True(t, card.Capabilities.Streaming && card.Capabilities.PushNotifications)
	require.Len(t, card.SupportedInterfaces, 2)
	assert.Equal(t, b.url+"/", card.SupportedInterfaces[0].URL)
	for tag, status := range map[string]int{etag: 304, "W/" + etag: 304, `"x", ` + etag: 304, "*": 304, `"x"`: 200} {
		r := b.do(t, "GET", a2a.WellKnown, "", "If-None-Match", tag)
		assert.Equal(t, status, r.status, tag)
		assert.Equal(t, status == 304, r.body == "")
	}
	assert.Equal(t, 405, b.do(t, "POST", a2a.WellKnown, "{}").status)
	other := serve(t, parrot(t, nil))
	assert.NotEqual(t, etag, other.do(t, "GET", a2a.WellKnown, "").header.Get("ETag"))
}

func TestTheExtendedCardIsForWhoIsKnown(t *testing.T) {
	t.Parallel()
	b := serve(t, parrot(t, nil), func(c *a2a.ServerConfig) {
		c.ExtendedCard = func(r *http.Request) (*sdk.AgentCard, error) {
			if r.Header.Get("Authorization") == "" {
				return nil, errors.New("who are you?")
			}
			return &sdk.AgentCard{Name: "parrot, extended"}, nil
		}
	})
	assert.Contains(t, b.rpc(t, "GetExtendedAgentCard", "{}", "Authorization", "me").body, "parrot, extended")
	assert.Contains(t, b.do(t, "GET", "/extendedAgentCard", "", "Authorization", "me").body, "parrot, extended")
	assert.Equal(t, -31401, b.rpc(t, "GetExtendedAgentCard", "{}").Error.Code)
	assert.Equal(t, 401, b.do(t, "GET", "/extendedAgentCard", "").status)
}

func TestWhatTheCardDoesNotPromiseIsRefused(t *testing.T) {
	t.Parallel()
	b := serve(t, parrot(t, nil), func(c *a2a.ServerConfig) {
		c.Push.Disabled = true
		c.Card = func(card *sdk.AgentCard) { card.Capabilities.Streaming = false }
	})
	id := uuid.NewString()
	for method, code := range map[string]int{
		"SendStreamingMessage": -32004, "SubscribeToTask": -32004, "CreateTaskPushNotificationConfig": -32003,
		"GetTaskPushNotificationConfig": -32003, "ListTaskPushNotificationConfigs": -32003, "DeleteTaskPushNotificationConfig": -32003,
	} {
		r := b.rpc(t, method, `{"id":"`+id+`","taskId":"`+id+`","url":"https://example.com"}`)
		require.NotNil(t, r.Error, r.body)
		assert.Equal(t, code, r.Error.Code, method)
	}
}

func TestTenantsSeeTheirOwn(t *testing.T) {
	t.Parallel()
	b := serve(t, parrot(t, nil))
	body := `{"message":{"messageId":"1","contextId":"ctx-1","role":"ROLE_USER","parts":[{"text":"hello"}]}}`
	var id struct {
		Task sdk.Task `json:"task"`
	}
	r := b.do(t, "POST", "/red/message:send", body)
	require.NoError(t, json.Unmarshal([]byte(r.body), &id))
	task := string(id.Task.ID)
	require.NotEmpty(t, task)
	assert.Equal(t, "ctx-1", id.Task.ContextID)
	for name, r := range map[string]*response{
		"in the path":            b.do(t, "GET", "/red/tasks/"+task, ""),
		"in the header":          b.do(t, "GET", "/tasks/"+task, "", "X-Tenant-ID", "red"),
		"path before header":     b.do(t, "GET", "/red/tasks/"+task, "", "X-Tenant-ID", "blue"),
		"in the parameters":      b.rpc(t, "GetTask", `{"tenant":"red","id":"`+task+`"}`),
		"parameters before":      b.rpc(t, "GetTask", `{"tenant":"red","id":"`+task+`"}`, "X-Tenant-ID", "blue"),
		"an answer that is none": b.do(t, "GET", "/red/tasks", ""),
	} {
		assert.Nil(t, r.Error, name)
		assert.Contains(t, r.body, task, name)
	}
	for name, r := range map[string]*response{
		"nobody's":  b.do(t, "GET", "/tasks/"+task, ""),
		"another's": b.do(t, "GET", "/blue/tasks/"+task, ""),
		"by RPC":    b.rpc(t, "GetTask", `{"tenant":"blue","id":"`+task+`"}`),
		"cancel":    b.rpc(t, "CancelTask", `{"tenant":"blue","id":"`+task+`"}`),
		"hooks":     b.rpc(t, "ListTaskPushNotificationConfigs", `{"tenant":"blue","taskId":"`+task+`"}`),
	} {
		assert.Equal(t, "TASK_NOT_FOUND", r.reason(), name)
	}
	assert.NotContains(t, b.do(t, "GET", "/blue/tasks", "").body, task)
	second := b.do(t, "POST", "/blue/message:send", body)
	assert.NotContains(t, second.body, task, "the same message of another tenant is another task")
	assert.Contains(t, second.body, "hello (1)", "in another conversation")

	strict := serve(t, parrot(t, nil), func(c *a2a.ServerConfig) {
		c.Tenant = func(r *http.Request, named string) (string, error) {
			who := r.Header.Get("Authorization")
			switch {
			case who == "":
				return "", sdk.ErrUnauthenticated
			case named != "" && named != who:
				return "", errors.New("not yours")
			}
			return who, nil
		}
	})
	assert.Equal(t, 401, strict.do(t, "GET", "/red/tasks", "").status)
	assert.Equal(t, 403, strict.do(t, "GET", "/red/tasks", "", "Authorization", "blue").status)
	assert.Equal(t, 200, strict.do(t, "GET", "/red/tasks", "", "Authorization", "red").status)
	assert.Equal(t, -31403, strict.rpc(t, "ListTasks", `{"tenant":"red"}`, "Authorization", "blue").Error.Code)
	assert.NotContains(t, strict.do(t, "GET", "/red/tasks", "", "Authorization", "blue").body, "not yours")
}
