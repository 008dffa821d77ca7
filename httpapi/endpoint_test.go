package httpapi_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/httpapi"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/store/memory"
)

const (
	missing = "00000000-0000-4000-8000-00000000dead"
	other   = "X-Tenant-ID: other"
)

func TestAWrongRequestGetsTheCodeOfTheContractAndWritesNothing(t *testing.T) {
	t.Parallel()
	b := newBundle(t, func(s *setup) {
		s.MaxBody = 2000
		s.AllowModel = func(_, model string) bool { return model != "forbidden" }
		s.Provider = "house"
	})
	run := b.detached(says("hello", object{"session_id": uuid.New()}))
	require.Equal(t, "completed", b.status(run.Run))
	session := "/v1/sessions/" + run.Session.String()
	question := b.list(session + "/messages?roles=user").Items[0]["id"].(string)
	checkpoint := b.list(session + "/checkpoints").ids()[0]
	busy := b.detached(says("hold on"))
	asked := b.detached(says("call ask {\"name\":\"a\"}\ncall ask {\"name\":\"b\"}"))
	require.Equal(t, "interrupted", b.status(asked.Run))
	deep := strings.Repeat("[", 600) + strings.Repeat("]", 600)
	user := func(more string) string {
		return `{"messages":[{"role":"user","content":"hi"}]` + more + `}`
	}
	tool := func(more string) string {
		return user(`,"tools":[{"name":"look","description":"","parameters":{}` + more + `}]`)
	}

	for name, c := range map[string]struct {
		method, path string
		body         any
		headers      []string
		code         int
	}{
		"an unknown route":                       {"GET", "/v1/nothing", nil, nil, 404000},
		"an unknown route with a body":           {"POST", "/nothing", `{`, nil, 404000},
		"a slash at the end":                     {"GET", "/v1/sessions/", nil, nil, 404000},
		"a slash too many":                       {"GET", "/v1//sessions", nil, nil, 404000},
		"a path with dots":                       {"GET", "/v1/x/../sessions", nil, nil, 404000},
		"a method that is not allowed":           {"PATCH", "/v1/sessions", nil, nil, 405000},
		"a method before the tenant":             {"POST", "/v1/runs/" + missing, nil, []string{"X-Tenant-ID:"}, 405000},
		"POST to cancel":                         {"POST", "/v1/runs/" + run.Run.String() + "/cancel", nil, nil, 405000},
		"GET of the start":                       {"GET", "/v1/runs/start", nil, nil, 405000},
		"OPTIONS, which is for middleware":       {"OPTIONS", "/v1/sessions", nil, nil, 405000},
		"an empty tenant":                        {"GET", "/v1/sessions", nil, []string{"X-Tenant-ID:"}, 400000},
		"an empty tenant before the body":        {"POST", "/v1/runs", `{`, []string{"X-Tenant-ID:"}, 400000},
		"a session id that is none":              {"GET", "/v1/sessions/42", nil, nil, 400000},
		"a session id in wrong braces":           {"GET", "/v1/sessions/x" + missing + "x", nil, nil, 400000},
		"a message id that is none":              {"GET", "/v1/messages/%00", nil, nil, 400000},
		"a run id that is none":                  {"GET", "/v1/runs/%F0%9F%92%A3", nil, nil, 400000},
		"a checkpoint id that is none":           {"GET", "/v1/checkpoints/x", nil, nil, 400000},
		"a run id to cancel that is none":        {"PUT", "/v1/runs/x/cancel", nil, nil, 400000},
		"a run id to observe that is none":       {"GET", "/v1/runs/x/events", nil, nil, 400000},
		"a message to delete that is none":       {"DELETE", "/v1/messages/x", nil, nil, 400000},
		"a session to delete that is none":       {"DELETE", "/v1/sessions/x", nil, nil, 400000},
		"runs of a session that is none":         {"GET", "/v1/sessions/x/runs", nil, nil, 400000},
		"checkpoints of a session that is none":  {"GET", "/v1/sessions/x/checkpoints", nil, nil, 400000},
		"messages of a session that is none":     {"GET", "/v1/sessions/x/messages", nil, nil, 400000},
		"a message for a session that is none":   {"POST", "/v1/sessions/x/messages", `{}`, nil, 400000},
		"a query string that is none":            {"GET", "/v1/sessions?a=%zz", nil, nil, 400000},
		"a query string with a semicolon":        {"GET", "/v1/sessions?a=1;b=2", nil, nil, 400000},
		"a filter that is no UUID":               {"GET", "/v1/sessions?ids[]=x", nil, nil, 400000},
		"a filter that is no time":               {"GET", "/v1/sessions?created_after=yesterday", nil, nil, 400000},
		"a filter before all time":               {"GET", "/v1/sessions?created_before=0001-01-01T00:00:00Z", nil, nil, 400000},
		"a status that does not exist":           {"GET", session + "/runs?statuses[]=asleep", nil, nil, 400000},
		"a role that does not exist":             {"GET", session + "/messages?roles=god", nil, nil, 400000},
		"a reason that does not exist":           {"GET", session + "/checkpoints?reasons[0]=none", nil, nil, 400000},
		"per_page that is no number":             {"GET", "/v1/sessions?per_page=x", nil, nil, 400000},
		"per_page that is empty":                 {"GET", "/v1/sessions?per_page=", nil, nil, 400000},
		"per_page too small":                     {"GET", "/v1/sessions?per_page=0", nil, nil, 422001},
		"per_page too large":                     {"GET", "/v1/sessions?per_page=101", nil, nil, 422001},
		"per_page negative":                      {"GET", session + "/messages?per_page=-1", nil, nil, 422001},
		"a cursor that is none":                  {"GET", "/v1/sessions?page=x", nil, nil, 400000},
		"Last-Event-ID that is no number":        {"GET", "/v1/runs/" + run.Run.String() + "/events", nil, []string{"Last-Event-ID: x"}, 400000},
		"Last-Event-ID that is negative":         {"GET", "/v1/runs/" + run.Run.String() + "/events", nil, []string{"Last-Event-ID: -1"}, 400000},
		"no content type":                        {"POST", "/v1/sessions", `{}`, []string{"Content-Type:"}, 400001},
		"a wrong content type":                   {"POST", "/v1/sessions", `{}`, []string{"Content-Type: text/plain"}, 400001},
		"a content type that is none":            {"POST", "/v1/runs", `{}`, []string{"Content-Type: ;;"}, 400001},
		"a charset that JSON does not have":      {"POST", "/v1/runs", `{}`, []string{"Content-Type: application/json; charset=latin1"}, 400001},
		"a body that is zipped":                  {"POST", "/v1/runs", `{}`, []string{"Content-Encoding: gzip"}, 400001},
		"a content type before the size":         {"POST", "/v1/runs", strings.Repeat("x", 2001), []string{"Content-Type: text/plain"}, 400001},
		"no body":                                {"POST", "/v1/sessions", nil, []string{"Content-Type: application/json"}, 400002},
		"a body that is no JSON":                 {"POST", "/v1/runs", `{"a":}`, nil, 400002},
		"two documents":                          {"POST", "/v1/sessions", `{}{}`, nil, 400002},
		"a body that is not UTF-8":               {"POST", "/v1/sessions", "{\"a\":\"\xff\"}", nil, 400002},
		"a body that is too deep":                {"POST", "/v1/sessions", `{"a":` + deep + `}`, nil, 400002},
		"a body that is too large":               {"POST", "/v1/runs", `{"a":"` + strings.Repeat("x", 2000) + `"}`, nil, 413000},
		"too large before no JSON":               {"POST", "/v1/runs/start", strings.Repeat("x", 2001), nil, 413000},
		"a body that is an array":                {"POST", "/v1/sessions", `[]`, nil, 422000},
		"a body that is null":                    {"POST", "/v1/runs", `null`, nil, 422000},
		"a session that is taken":                {"POST", "/v1/sessions", object{"id": run.Session}, nil, 400010},
		"a session id of a wrong type":           {"POST", "/v1/sessions", `{"id":1}`, nil, 422000},
		"a session id that is nobody's":          {"POST", "/v1/sessions", object{"id": uuid.Nil}, nil, 422000},
		"an unknown session":                     {"GET", "/v1/sessions/" + missing, nil, nil, 404010},
		"another's session":                      {"GET", session, nil, []string{other}, 404010},
		"to delete an unknown session":           {"DELETE", "/v1/sessions/" + missing, nil, nil, 404010},
		"to delete another's session":            {"DELETE", session, nil, []string{other}, 404010},
		"messages of an unknown session":         {"GET", "/v1/sessions/" + missing + "/messages", nil, nil, 404010},
		"messages of another's session":          {"GET", session + "/messages", nil, []string{other}, 404010},
		"runs of an unknown session":             {"GET", "/v1/sessions/" + missing + "/runs", nil, nil, 404010},
		"runs of another's session":              {"GET", session + "/runs", nil, []string{other}, 404010},
		"runs by other sessions of an unknown":   {"GET", "/v1/sessions/" + missing + "/runs?session_ids[]=" + run.Session.String(), nil, nil, 404010},
		"checkpoints of an unknown session":      {"GET", "/v1/sessions/" + missing + "/checkpoints", nil, nil, 404010},
		"checkpoints of another's session":       {"GET", session + "/checkpoints", nil, []string{other}, 404010},
		"a message for an unknown session":       {"POST", "/v1/sessions/" + missing + "/messages", `{"role":"user","content":"hi"}`, nil, 404010},
		"a message for another's session":        {"POST", session + "/messages", `{"role":"user","content":"hi"}`, []string{other}, 404010},
		"an unknown message":                     {"GET", "/v1/messages/" + missing, nil, nil, 404012},
		"another's message":                      {"GET", "/v1/messages/" + question, nil, []string{other}, 404012},
		"to delete an unknown message":           {"DELETE", "/v1/messages/" + missing, nil, nil, 404012},
		"to delete another's message":            {"DELETE", "/v1/messages/" + question, nil, []string{other}, 404012},
		"a message that is there already":        {"POST", session + "/messages", object{"id": question, "role": "user", "content": "x"}, nil, 400012},
		"a message without a role":               {"POST", session + "/messages", `{"content":"x"}`, nil, 422000},
		"a message of an assistant":              {"POST", session + "/messages", `{"role":"assistant","content":"x"}`, nil, 422000},
		"a message of reasoning":                 {"POST", session + "/messages", `{"role":"reasoning","content":"x"}`, nil, 422000},
		"a message of nobody":                    {"POST", session + "/messages", `{"role":"god","content":"x"}`, nil, 422000},
		"a message with a number for content":    {"POST", session + "/messages", `{"role":"user","content":7}`, nil, 422000},
		"a system message of blocks":             {"POST", session + "/messages", `{"role":"system","content":[]}`, nil, 422000},
		"a block of an unknown type":             {"POST", session + "/messages", `{"role":"user","content":[{"type":"smell","value":"x"}]}`, nil, 422000},
		"an image without a source":              {"POST", session + "/messages", `{"role":"user","content":[{"type":"image","media_type":"image/png"}]}`, nil, 422000},
		"a tool message without its call":        {"POST", session + "/messages", `{"role":"tool","content":"x"}`, nil, 422000},
		"a tool message of an object":            {"POST", session + "/messages", `{"role":"tool","tool_call_id":"c","content":{}}`, nil, 422000},
		"a tool message of no parent":            {"POST", session + "/messages", `{"role":"tool","tool_call_id":"c","parent_message_id":"x"}`, nil, 422000},
		"metadata that is no object":             {"POST", session + "/messages", `{"role":"user","content":"x","metadata":[]}`, nil, 422000},
		"an unknown run":                         {"GET", "/v1/runs/" + missing, nil, nil, 404011},
		"another's run":                          {"GET", "/v1/runs/" + run.Run.String(), nil, []string{other}, 404011},
		"to cancel an unknown run":               {"PUT", "/v1/runs/" + missing + "/cancel", nil, nil, 404011},
		"to cancel another's run":                {"PUT", "/v1/runs/" + busy.Run.String() + "/cancel", nil, []string{other}, 404011},
		"to observe an unknown run":              {"GET", "/v1/runs/" + missing + "/events", nil, nil, 404011},
		"to observe another's run":               {"GET", "/v1/runs/" + busy.Run.String() + "/events", nil, []string{other, "Last-Event-ID: 0"}, 404011},
		"to observe a run that has ended":        {"GET", "/v1/runs/" + run.Run.String() + "/events", nil, nil, 409013},
		"an unknown checkpoint":                  {"GET", "/v1/checkpoints/" + missing, nil, nil, 404013},
		"another's checkpoint":                   {"GET", "/v1/checkpoints/" + checkpoint, nil, []string{other}, 404013},
		"a run without messages":                 {"POST", "/v1/runs", `{}`, nil, 422001},
		"a run with null for messages":           {"POST", "/v1/runs", `{"messages":null}`, nil, 422001},
		"a run with no messages":                 {"POST", "/v1/runs", `{"messages":[]}`, nil, 422001},
		"messages that are no array":             {"POST", "/v1/runs", `{"messages":{}}`, nil, 422000},
		"a message that is no object":            {"POST", "/v1/runs", `{"messages":["hi"]}`, nil, 422000},
		"a message that is null":                 {"POST", "/v1/runs", `{"messages":[null]}`, nil, 422000},
		"a run with an assistant's message":      {"POST", "/v1/runs", `{"messages":[{"role":"assistant","content":"x"}]}`, nil, 422000},
		"a message id that is none in a run":     {"POST", "/v1/runs", `{"messages":[{"role":"user","content":"x","id":"x"}]}`, nil, 422000},
		"two messages of one id":                 {"POST", "/v1/runs", `{"messages":[{"role":"user","content":"x","id":"` + missing + `"},{"role":"user","content":"y","id":"` + missing + `"}]}`, nil, 422001},
		"a session of a wrong type in a run":     {"POST", "/v1/runs", user(`,"session_id":true`), nil, 422000},
		"a run id that is taken":                 {"POST", "/v1/runs", says("x", object{"run_id": run.Run}), nil, 400011},
		"a run id that is taken before the rest": {"POST", "/v1/runs/start", says("x", object{"run_id": run.Run, "checkpoint_id": missing}), nil, 400011},
		"a checkpoint that does not exist":       {"POST", "/v1/runs", says("x", object{"session_id": run.Session, "checkpoint_id": missing}), nil, 404013},
		"a checkpoint of another session":        {"POST", "/v1/runs", says("x", object{"session_id": busy.Session, "checkpoint_id": checkpoint}), nil, 404013},
		"a checkpoint of no session":             {"POST", "/v1/runs/start", says("x", object{"checkpoint_id": checkpoint}), nil, 404013},
		"a checkpoint of another tenant":         {"POST", "/v1/runs", says("x", object{"session_id": run.Session, "checkpoint_id": checkpoint}), []string{other}, 404013},
		"a busy session":                         {"POST", "/v1/runs", says("x", object{"session_id": busy.Session}), nil, 409010},
		"a busy session, detached":               {"POST", "/v1/runs/start", says("x", object{"session_id": busy.Session, "on_busy": "reject"}), nil, 409010},
		"a busy session before a wrong answer":   {"POST", "/v1/runs", object{"session_id": busy.Session, "resume_payload": 1}, nil, 409010},
		"on_busy of an unknown value":            {"POST", "/v1/runs", user(`,"on_busy":"shout"`), nil, 422000},
		"on_busy of a wrong type":                {"POST", "/v1/runs", user(`,"on_busy":1`), nil, 422000},
		"an answer to nothing":                   {"POST", "/v1/runs", object{"session_id": run.Session, "resume_payload": "yes"}, nil, 422001},
		"an answer to nothing in a new session":  {"POST", "/v1/runs", object{"resume_payload": "yes"}, nil, 422001},
		"one answer to two questions":            {"POST", "/v1/runs", object{"session_id": asked.Session, "resume_payload": "yes"}, nil, 422001},
		"an answer and a question":               {"POST", "/v1/runs", says("x", object{"session_id": asked.Session, "resume_payload": "yes"}), nil, 422001},
		"a context that is no object":            {"POST", "/v1/runs", user(`,"context":[]`), nil, 422000},
		"a model that is no object":              {"POST", "/v1/runs", user(`,"model":1`), nil, 422000},
		"a model timeout that is text":           {"POST", "/v1/runs", user(`,"model":{"timeout":"soon"}`), nil, 422000},
		"a model timeout of nothing":             {"POST", "/v1/runs", user(`,"model":{"timeout":0}`), nil, 422001},
		"a retry without all its parts":          {"POST", "/v1/runs", user(`,"model":{"retry":{"max_attempts":1}}`), nil, 422000},
		"a retry out of range":                   {"POST", "/v1/runs", user(`,"model":{"retry":{"max_attempts":0,"initial_backoff":0,"max_backoff":-1}}`), nil, 422001},
		"parameters of a wrong type":             {"POST", "/v1/runs", user(`,"model":{"override":{"inference_params":{"max_tokens":-1}}}`), nil, 422000},
		"an unknown provider":                    {"POST", "/v1/runs", user(`,"model":{"override":{"provider":"nobody"}}`), nil, 422001},
		"a model that is not allowed":            {"POST", "/v1/runs", user(`,"model":{"override":{"model":"forbidden"}}`), nil, 422001},
		"an override without a strategy":         {"POST", "/v1/runs", user(`,"capability_override":{}`), nil, 422000},
		"an override of an unknown strategy":     {"POST", "/v1/runs", user(`,"capability_override":{"strategy":"steal"}`), nil, 422000},
		"an override without its list":           {"POST", "/v1/runs", user(`,"capability_override":{"strategy":"extend"}`), nil, 422000},
		"variables that are no array":            {"POST", "/v1/runs", user(`,"context_vars":{}`), nil, 422000},
		"a variable without a value":             {"POST", "/v1/runs", user(`,"context_vars":[{"description":"x"}]`), nil, 422000},
		"a variable of a number":                 {"POST", "/v1/runs", user(`,"context_vars":[{"description":"x","value":1}]`), nil, 422000},
		"tools that are no array":                {"POST", "/v1/runs", user(`,"tools":"all"`), nil, 422000},
		"a tool without parameters":              {"POST", "/v1/runs", user(`,"tools":[{"name":"look","description":"d"}]`), nil, 422000},
		"a tool without a description":           {"POST", "/v1/runs", user(`,"tools":[{"name":"look","parameters":{}}]`), nil, 422000},
		"a tool whose parameters are no object":  {"POST", "/v1/runs", tool(`,"parameters":true`), nil, 422000},
		"a tool of a bad name":                   {"POST", "/v1/runs", tool(`,"name":"look around"`), nil, 422001},
		"two tools of one name":                  {"POST", "/v1/runs", user(`,"tools":[{"name":"a","description":"","parameters":{}},{"name":"a","description":"","parameters":{}}]`), nil, 422001},
	} {
		t.Run(name, func(t *testing.T) {
			b := *b
			b.T = t
			before := b.list("/v1/sessions")
			a := b.do(c.method, c.path, c.body, c.headers...)
			assert.Equal(t, c.code, a.code(t), "%s", a.body)
			assert.Equal(t, "application/json", a.header.Get("Content-Type"))
			assert.NotContains(t, string(a.body), "react:", "no text of the inside")
			assert.NotContains(t, string(a.body), "json:", "no text of the inside")
			if c.code == 422001 {
				assert.Contains(t, string(a.body), `"fields":[{"field":"`)
			} else {
				var e struct{ Message string }
				require.NoError(t, json.Unmarshal(a.body, &e))
				assert.NotEmpty(t, e.Message)
			}
			if c.code == 405000 {
				assert.NotEmpty(t, a.header.Get("Allow"))
			}
			assert.Equal(t, before, b.list("/v1/sessions"), "nothing is written")
		})
	}
	assert.NotContains(t, b.log.String(), "unexpected error")
}

func TestFieldsThatBreakARuleAreNamedTogether(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	a := b.post("/v1/runs", `{"messages":[{"role":"user","content":"hi"}],
		"model":{"timeout":0,"retry":{"max_attempts":0,"initial_backoff":1,"max_backoff":1}},
		"tools":[{"name":"a b","description":"","parameters":{}},{"name":"a b","description":"","parameters":{}}]}`)
	assert.JSONEq(t, `{"code":422001,"fields":[
		{"field":"model.timeout","errors":[{"code":"range","message":"must be at least 1","params":{"min":1,"value":0}}]},
		{"field":"model.retry.max_attempts","errors":[{"code":"range","message":"must be at least 1","params":{"min":1,"value":0}}]},
		{"field":"tools[0].name","errors":[{"code":"pattern","message":"\"a b\" must match ^[a-zA-Z0-9_-]{1,64}$"}]},
		{"field":"tools[1].name","errors":[{"code":"pattern","message":"\"a b\" must match ^[a-zA-Z0-9_-]{1,64}$"}]}]}`, string(a.body))
	a = b.get("/v1/sessions?per_page=1000")
	assert.JSONEq(t, `{"code":422001,"fields":[{"field":"per_page","errors":[
		{"code":"range","message":"must be 1 to 100","params":{"min":1,"max":100,"value":1000}}]}]}`, string(a.body))
	a = b.post("/v1/runs", `{}`)
	assert.JSONEq(t, `{"code":422001,"fields":[{"field":"messages","errors":[
		{"code":"length","message":"must have at least one message, unless there is a resume_payload or a checkpoint_id","params":{"min":1,"value":0}}]}]}`, string(a.body))
	a = b.post("/v1/runs", `{"messages":[{"role":"user","content":[{"type":"text","value":"x"},{"type":"image","source":{"type":"url"},"media_type":"image/png"}]}]}`)
	assert.JSONEq(t, `{"code":422000,"message":"messages[0].content[1].source.value: is missing"}`, string(a.body))
}

func TestTheFirstThingOfAWrongShapeIsNamed(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	a := b.post("/v1/runs", `{"on_busy":1,"messages":7,"run_id":2,"session_id":"x"}`)
	assert.JSONEq(t, `{"code":422000,"message":"session_id: must be a UUID"}`, string(a.body))
	a = b.get("/v1/sessions?ids=x&created_after=y&per_page=z")
	assert.JSONEq(t, `{"code":400000,"message":"ids: \"x\" is not a UUID"}`, string(a.body))
}

func TestALockedAgentRefusesToBeOverridden(t *testing.T) {
	t.Parallel()
	b := newBundle(t, func(s *setup) { s.CapabilityPolicy = react.PolicyLocked })
	a := b.post("/v1/runs", says("hi", object{"capability_override": object{"strategy": "replace", "capabilities": []string{"root"}}}))
	assert.Equal(t, 422001, a.code(t))
	assert.Contains(t, string(a.body), `"field":"capability_override"`)
	assert.Zero(t, b.list("/v1/sessions").Count)
	assert.NotEmpty(t, b.attached(says("hi", object{"capability_override": object{"strategy": "inherit"}})))
}

func TestWhatAClientMayLeaveOutMayBeNull(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	events := b.attached(`{"session_id":null,"run_id":null,"checkpoint_id":null,"resume_payload":null,"model":null,"capability_override":null,
		"messages":[{"role":"user","id":null,"content":"hi","metadata":null}],"context_vars":null,"context":null,"tools":null,"on_busy":null}`)
	assert.Equal(t, "hi", textOf(events))
	s := decode[object](t, b.post("/v1/sessions", `{"id":null}`))
	a := b.post("/v1/sessions/"+s["id"].(string)+"/messages", `{"id":null,"role":"tool","tool_call_id":"c","parent_message_id":null,"content":null,"error":null}`)
	assert.Equal(t, http.StatusCreated, a.status)
}

func TestResourcesArePrintedAsTheContractHasThem(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	session, run := uuid.New(), uuid.New()
	created := decode[object](t, b.post("/v1/sessions", object{"id": strings.ToUpper(session.String())}))
	assert.Equal(t, session.String(), created["id"])
	assert.ElementsMatch(t, []string{"id", "created_at", "updated_at"}, keysOf(created))
	b.attached(says("call greet {\"name\":\"<b>\"}\nthink hm", object{"session_id": session, "run_id": run, "context": object{"a": 1}}))

	kept := decode[object](t, b.get("/v1/runs/"+run.String()))
	assert.ElementsMatch(t, []string{"id", "session_id", "status", "created_at", "updated_at"}, keysOf(kept))
	assert.Equal(t, "completed", kept["status"])
	for _, field := range []string{"created_at", "updated_at"} {
		assert.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$`, kept[field])
	}

	common := []string{"role", "id", "session_id", "run_id", "checkpoint_id", "created_at", "name", "metadata"}
	fields := map[string][]string{
		"user": {"content"}, "reasoning": {"content", "signature"}, "assistant": {"content", "tool_calls"},
		"tool": {"tool_call_id", "content", "error", "parent_message_id"},
	}
	messages := b.list("/v1/sessions/" + session.String() + "/messages")
	require.Equal(t, 5, messages.Count)
	for _, m := range messages.Items {
		role := m["role"].(string)
		assert.ElementsMatch(t, append(common, fields[role]...), keysOf(m), role)
		assert.Equal(t, session.String(), m["session_id"])
		if role == "user" {
			assert.Equal(t, []any{object{"type": "text", "value": "call greet {\"name\":\"<b>\"}\nthink hm"}}, m["content"])
		}
		if role == "tool" {
			assert.Equal(t, "hello <b>", m["content"])
		}
		one := decode[object](t, b.get("/v1/messages/"+m["id"].(string)))
		assert.Equal(t, m, one)
	}

	checkpoints := b.list("/v1/sessions/" + session.String() + "/checkpoints")
	require.Equal(t, 7, checkpoints.Count)
	last := checkpoints.Items[0]
	assert.ElementsMatch(t, []string{"id", "session_id", "run_id", "node", "status", "reason", "parent_checkpoint_id", "metadata", "created_at"}, keysOf(last))
	assert.Nil(t, checkpoints.Items[6]["parent_checkpoint_id"])
	full := decode[object](t, b.get("/v1/checkpoints/"+last["id"].(string)))
	for name, value := range last {
		assert.Equal(t, value, full[name], "it is flat")
	}
	assert.Equal(t, object{"a": 1.0}, full["context"])
	assert.Len(t, full["messages"], 5)
	first := decode[object](t, b.get("/v1/checkpoints/"+checkpoints.Items[6]["id"].(string)))
	assert.Len(t, first["messages"], 1)

	assert.JSONEq(t, `{"name":"tester","version":"1.2.3"}`, string(b.get("/").body))
	assert.JSONEq(t, `{"status":"ok"}`, string(b.get("/health").body))
	assert.Contains(t, b.get("/v1/sessions/"+session.String()).header.Get("Content-Type"), "application/json")
	assert.NotContains(t, string(b.get("/v1/sessions/"+session.String()+"/messages").body), `\u003c`, "HTML is not escaped")
}

func TestAMessageIsTakenAsItIsSent(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	session := decode[object](t, b.post("/v1/sessions", `{}`))["id"].(string)
	id := uuid.NewString()
	a := b.post("/v1/sessions/"+session+"/messages", `{"role":"user","id":"`+id+`","content":"a\u0000\ud800 <é>","name":"me","run_id":"x","created_at":7,
		"metadata":{"n":12345678901234567890.10},"extra":true}`)
	require.Equal(t, http.StatusCreated, a.status, "%s", a.body)
	m := decode[object](t, a)
	assert.Equal(t, id, m["id"])
	assert.Equal(t, []any{object{"type": "text", "value": "a\x00\ufffd <é>"}}, m["content"])
	assert.Nil(t, m["name"], "names are ours to give")
	assert.Nil(t, m["run_id"])
	assert.Contains(t, string(a.body), "12345678901234567890.10")
	assert.Equal(t, m, decode[object](t, b.get("/v1/messages/"+id)))
	for body, want := range map[string]any{
		`{"role":"system","content":"s"}`:                         "s",
		`{"role":"tool","tool_call_id":"c","content":"t"}`:        "t",
		`{"role":"tool","tool_call_id":"c","error":"broken"}`:     nil,
		`{"role":"user","content":[]}`:                            []any{},
		`{"role":"user","content":[{"type":"text","value":"x"}]}`: []any{object{"type": "text", "value": "x"}},
		`{"role":"user","content":[{"type":"image","media_type":"image/png","source":{"type":"url","value":"https://example.com/a.png"}}]}`: []any{
			object{"type": "image", "media_type": "image/png", "source": object{"type": "url", "value": "https://example.com/a.png"}}},
		`{"role":"user","content":[{"type":"image","value":{"media_type":"image/png","source":{"type":"base64","value":"AA=="}}}]}`: []any{
			object{"type": "image", "media_type": "image/png", "source": object{"type": "base64", "value": "AA=="}}},
	} {
		assert.Equal(t, want, decode[object](t, b.post("/v1/sessions/"+session+"/messages", body))["content"], body)
	}
	require.Equal(t, http.StatusNoContent, b.do("DELETE", "/v1/messages/"+id, nil).status)
	assert.Equal(t, 404012, b.get("/v1/messages/"+id).code(t))
	assert.Equal(t, 404012, b.do("DELETE", "/v1/messages/"+id, nil).code(t))
}

func TestTheSameIDElsewhereIsAnotherThing(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	id := uuid.NewString()
	for _, tenant := range []string{"X-Tenant-ID: default", other} {
		for range 2 {
			session := decode[object](t, b.post("/v1/sessions", `{}`, tenant))["id"].(string)
			a := b.post("/v1/sessions/"+session+"/messages", object{"id": id, "role": "user", "content": session}, tenant)
			require.Equal(t, http.StatusCreated, a.status, "%s", a.body)
			got := decode[object](t, b.get("/v1/messages/"+id, tenant))
			assert.Equal(t, session, got["session_id"], "the one that was created last")
		}
	}
	run := uuid.New()
	b.attached(says("hi", object{"run_id": run}))
	b.attached(says("hi", object{"run_id": run}), other)
	assert.Equal(t, 400011, b.post("/v1/runs", says("hi", object{"run_id": run})).code(t))
}

func TestDeletingASessionEndsWhatRunsInItAndLeavesNothing(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	run := b.detached(says("hold on"))
	stream, err := b.open(t.Context(), "GET", "/v1/runs/"+run.Run.String()+"/events", nil, "Last-Event-ID: 0")
	require.NoError(t, err)
	session := "/v1/sessions/" + run.Session.String()
	require.Equal(t, http.StatusNoContent, b.do("DELETE", session, nil).status)
	events := b.events(stream)
	last := events[len(events)-1]
	assert.Contains(t, mustJSON(t, last), `"kind":"run_finished"`)
	assert.Contains(t, mustJSON(t, last), `"status":"cancelled"`)
	assert.Equal(t, 404010, b.get(session).code(t))
	assert.Equal(t, 404011, b.get("/v1/runs/"+run.Run.String()).code(t))
	assert.Equal(t, 404010, b.do("DELETE", session, nil).code(t))
	again := b.detached(says("hi", object{"session_id": run.Session}))
	b.status(again.Run)
	assert.Equal(t, 2, b.list(session+"/messages").Count)
}

func TestTenantsSeeNothingOfEachOther(t *testing.T) {
	t.Parallel()
	b := newBundle(t, func(s *setup) { s.Options.Tenant = httpapi.HeaderTenant("house") })
	mine := b.detached(says("hi"))
	require.Equal(t, "completed", b.status(mine.Run, "house"))
	assert.Equal(t, 1, b.list("/v1/sessions", "x-tenant-id: house").Count, "without a header it is the default, by any case")
	assert.Zero(t, b.list("/v1/sessions", other).Count)
	assert.Equal(t, 1, b.list("/v1/sessions", "X-Tenant-ID: \xff").Count, "one that is no text is the default")
	assert.NotContains(t, string(b.get("/v1/sessions/"+mine.Session.String()).body), "tenant")

	t.Run("two of them are refused", func(t *testing.T) {
		req, err := http.NewRequestWithContext(t.Context(), "GET", b.url+"/v1/sessions", nil)
		require.NoError(t, err)
		req.Header["X-Tenant-Id"] = []string{"a", "b"}
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		assert.Equal(t, http.StatusBadRequest, res.StatusCode)
	})
}

func TestTheTenantOfARequestIsTheProgramsToDecide(t *testing.T) {
	t.Parallel()
	b := newBundle(t, func(s *setup) {
		s.unchecked = true // it has a code of its own
		s.Options.Tenant = func(r *http.Request) (string, error) {
			switch user, _, ok := r.BasicAuth(); {
			case !ok:
				return "", &httpapi.Error{Code: 401000, Message: "who are you?"}
			case user == "mallory":
				return "", errors.New("a secret of the directory")
			default:
				return user, nil
			}
		}
	})
	assert.Equal(t, 401000, b.get("/v1/sessions").code(t))
	a := b.get("/v1/sessions", "Authorization: Basic bWFsbG9yeTp4")
	assert.Equal(t, 403000, a.code(t))
	assert.NotContains(t, string(a.body), "secret")
	assert.Contains(t, b.log.String(), "secret")
	assert.Equal(t, http.StatusOK, b.get("/v1/sessions", "Authorization: Basic YWxpY2U6eA==").status)
	for _, public := range []string{"/", "/health", "/.well-known/openapi.json", "/.well-known/docs"} {
		assert.Equal(t, http.StatusOK, b.get(public).status, "%s is for everybody", public)
	}
}

func TestTextsOfTheInsideStayInTheLog(t *testing.T) {
	t.Parallel()
	st := &broken{Store: memory.New(nil)}
	b := newBundle(t, func(s *setup) { s.Store = st })
	st.err = errors.New("a secret of the database")
	for _, path := range []string{"/v1/sessions", "/v1/runs/" + missing} {
		a := b.get(path)
		assert.Equal(t, 500000, a.code(t))
		assert.NotContains(t, string(a.body), "secret")
	}
	assert.Equal(t, 503000, b.get("/health").code(t))
	st.err = nil
	st.panics = true
	a := b.get("/v1/sessions")
	assert.Equal(t, 500000, a.code(t))
	assert.NotContains(t, string(a.body), "secret")
	assert.Contains(t, b.log.String(), "a secret of the database")
	assert.Contains(t, b.log.String(), "a secret of the panic")
	assert.Contains(t, b.log.String(), "broken_test.go", "with the stack of a panic")
}

func TestTheHandlerCanBeMountedAnywhere(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	mux := http.NewServeMux()
	mux.Handle("/agents/tester/", http.StripPrefix("/agents/tester", httpapi.New(b.agent, nil)))
	in := newServer(t, mux)
	for path, status := range map[string]int{
		"/agents/tester/v1/sessions":   200,
		"/agents/tester/":              200,
		"/agents/tester/v1/sessions/":  404,
		"/agents/tester/v1/sessions/x": 400,
	} {
		res, err := http.Get(in + path)
		require.NoError(t, err)
		res.Body.Close()
		assert.Equal(t, status, res.StatusCode, path)
	}
}

func TestHeadersOnlyForThoseWhoAskForThem(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	run := b.detached(says("hold on"))
	for _, path := range []string{"/v1/sessions", "/v1/runs/" + run.Run.String(), "/v1/runs/" + run.Run.String() + "/events", "/health"} {
		a := b.do(http.MethodHead, path, nil)
		assert.Equal(t, http.StatusOK, a.status, path)
		assert.Empty(t, a.body)
	}
}

func TestRequestsThatHTTPItselfRefusesWriteNothing(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	body := mustJSON(t, says("hi"))
	for name, text := range map[string]string{
		"two lengths":           fmt.Sprintf("POST /v1/runs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\nContent-Length: 5\r\n\r\n%s", len(body), body),
		"a length and chunks":   fmt.Sprintf("POST /v1/runs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body),
		"a length that is none": "POST /v1/runs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: many\r\n\r\n{}",
		"chunks that are none":  "POST /v1/runs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
		"a body that is cut":    fmt.Sprintf("POST /v1/runs HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body)+1, body),
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
			require.NoError(t, err)
			defer conn.Close()
			_, err = io.WriteString(conn, text)
			require.NoError(t, err)
			require.NoError(t, conn.(*net.TCPConn).CloseWrite())
			if res, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
				res.Body.Close()
				assert.GreaterOrEqual(t, res.StatusCode, 400)
				assert.Less(t, res.StatusCode, 502)
			}
		})
	}
	assert.Zero(t, b.list("/v1/sessions").Count)
}

func TestABodyOfUnknownLengthIsBoundedToo(t *testing.T) {
	t.Parallel()
	b := newBundle(t, func(s *setup) { s.MaxBody = 1000 })
	req, err := http.NewRequestWithContext(t.Context(), "POST", b.url+"/v1/runs", io.LimitReader(endless{}, 1<<20))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	assert.Equal(t, http.StatusRequestEntityTooLarge, res.StatusCode)
}

func TestTheLimitOfBodiesIsTwoMebibytes(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	fill := func(size int) string {
		body := mustJSON(t, says("hi", object{"padding": ""}))
		return strings.Replace(body, `"padding":""`, `"padding":"`+strings.Repeat("x", size-len(body))+`"`, 1)
	}
	assert.Equal(t, http.StatusAccepted, b.post("/v1/runs/start", fill(2<<20)).status)
	assert.Equal(t, 413000, b.post("/v1/runs/start", fill(2<<20+1)).code(t))
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func keysOf(o object) []string {
	var keys []string
	for key := range o {
		keys = append(keys, key)
	}
	return keys
}

func mustJSON(t testing.TB, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}
