package openapitest_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheDocumentIsValid(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	ok, faults := s.validator.ValidateDocument()
	assert.True(t, ok, "%v", faults)
}

// TestAServerDoesWhatTheDocumentSays asks for everything that is documented, once and more.
func TestAServerDoesWhatTheDocumentSays(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	const (
		none    = "00000000-0000-4000-8000-000000000000"
		session = "6f1c2a54-8f6b-4d8e-9d53-0b5c7d1f4c11"
	)
	say := func(text string) string {
		return `{"session_id":"` + session + `","messages":[{"role":"user","content":"` + text + `"}]}`
	}

	s.get("/", 200)
	s.get("/health", 200)
	s.get("/.well-known/openapi.json", 200)
	s.get("/.well-known/docs", 200)

	s.post("/v1/sessions", `{"id":"`+session+`"}`, 201)
	s.post("/v1/sessions", `{"id":"`+session+`"}`, 400)
	s.post("/v1/sessions", `{"id":null}`, 201)
	s.get("/v1/sessions/"+session, 200)
	s.get("/v1/sessions/"+none, 404)
	s.post("/v1/sessions/"+none+"/messages", `{"role":"system","content":"x"}`, 404)

	s.post("/v1/sessions/"+session+"/messages", `{"role":"system","content":"be brief","metadata":{"a":[1]}}`, 201)
	s.post("/v1/sessions/"+session+"/messages", `{"role":"tool","tool_call_id":"x","content":null,"error":"broken"}`, 201)
	posted := s.post("/v1/sessions/"+session+"/messages", `{"role":"user","content":[
		{"type":"text","value":"look"},
		{"type":"image","source":{"type":"url","value":"https://example.com/a.png"},"media_type":"image/png"},
		{"type":"audio","value":{"source":{"type":"base64","value":"AAAA"},"media_type":"audio/mpeg"}}]}`, 201)
	s.get("/v1/messages/"+member(t, posted, "id"), 200)
	s.get("/v1/messages/"+none, 404)
	s.delete("/v1/messages/"+member(t, posted, "id"), 204)
	s.delete("/v1/messages/"+none, 404)

	s.post("/v1/runs", say("work"), 200)
	s.post("/v1/runs", say("break"), 200)
	s.post("/v1/runs", say("ask"), 200)
	s.post("/v1/runs", `{"session_id":"`+session+`","resume_payload":{"unknown":1,"ask":true}}`, 422)
	s.post("/v1/runs", `{"session_id":"`+session+`","resume_payload":true}`, 200)
	s.post("/v1/runs", `{"session_id":"`+session+`","run_id":null,"checkpoint_id":null,"messages":[{"role":"user","content":"draw"}],
		"tools":[{"name":"draw","description":"","parameters":{"type":"object"}}],"context":{"place":"Oslo"},"on_busy":"wait",
		"model":{"override":{"model":"big","inference_params":{"max_tokens":10,"stop_sequences":[],"provider_params":{}}},"timeout":1000,
			"retry":{"max_attempts":2,"initial_backoff":1,"max_backoff":2}},
		"capability_override":{"strategy":"extend","capabilities":["a"]},"context_vars":[{"description":"a","value":"b"}]}`, 200)
	s.post("/v1/runs", `{"session_id":"`+session+`","model":null,"capability_override":null,"tools":null,"context_vars":[],"context":null,"on_busy":null,
		"messages":[{"role":"tool","tool_call_id":"call","content":"a line"}]}`, 200)
	s.post("/v1/runs", `{"session_id":"`+session+`","checkpoint_id":"`+none+`"}`, 404)
	s.post("/v1/runs", `{"session_id":"`+session+`"}`, 422)

	started := s.post("/v1/runs/start", say("wait"), 202)
	run := member(t, started, "run_id")
	s.post("/v1/runs/start", say("hello"), 409)
	s.get("/v1/runs/"+run, 200)
	s.get("/v1/runs/"+none, 404)
	s.send(call{method: http.MethodPut, path: "/v1/runs/" + run + "/cancel", status: 204})
	s.send(call{method: http.MethodPut, path: "/v1/runs/" + none + "/cancel", status: 404})
	s.send(call{method: http.MethodGet, path: "/v1/runs/" + run + "/events", header: map[string]string{"Last-Event-ID": "0"}, status: 200})
	s.get("/v1/runs/"+run+"/events", 409)
	s.get("/v1/runs/"+none+"/events", 404)

	s.get("/v1/sessions?per_page=1&ids[]="+session+"&ids[]="+none+"&created_after=2026-01-02T15:04:05Z", 200)
	next := s.get("/v1/sessions/"+session+"/messages?per_page=2&roles[]=user&roles[]=assistant", 200)
	s.get("/v1/sessions/"+session+"/messages?per_page=2&roles[]=user&roles[]=assistant&page="+member(t, next, "next_page"), 200)
	s.get("/v1/sessions/"+session+"/messages", 200)
	s.get("/v1/sessions/"+session+"/messages?page=x", 400)
	s.get("/v1/sessions/"+session+"/runs?statuses[]=completed&statuses[]=cancelled", 200)
	s.get("/v1/sessions/"+none+"/runs", 404)
	checkpoints := s.get("/v1/sessions/"+session+"/checkpoints?reasons[]=finish", 200)
	var page struct{ Items []json.RawMessage }
	require.NoError(t, json.Unmarshal(checkpoints, &page))
	for _, c := range page.Items {
		s.get("/v1/checkpoints/"+member(t, c, "id"), 200)
	}
	s.get("/v1/checkpoints/"+none, 404)
	s.send(call{method: http.MethodGet, path: "/v1/sessions", header: map[string]string{"X-Tenant-ID": "acme"}, status: 200})
	s.send(call{method: http.MethodGet, path: "/v1/sessions", header: map[string]string{"X-Tenant-ID": "nobody"}, status: 403})

	// What the document forbids the server refuses.
	s.send(call{method: http.MethodGet, path: "/v1/sessions/x", status: 400, undocumented: true})
	s.send(call{method: http.MethodGet, path: "/v1/sessions?created_after=yesterday", status: 400, undocumented: true})
	s.send(call{method: http.MethodGet, path: "/v1/sessions?per_page=101", status: 422, undocumented: true})
	s.send(call{method: http.MethodGet, path: "/v1/sessions/" + session + "/messages?roles[]=robot", status: 400, undocumented: true})
	s.send(call{method: http.MethodPost, path: "/v1/sessions", kind: "text/plain", body: `{}`, status: 400, undocumented: true})
	s.send(call{method: http.MethodPost, path: "/v1/sessions", body: `{`, status: 400, undocumented: true})
	s.send(call{method: http.MethodPost, path: "/v1/sessions", body: `[]`, status: 422, undocumented: true})
	s.send(call{method: http.MethodPost, path: "/v1/sessions", body: `{"id":"x"}`, status: 422, undocumented: true})
	s.send(call{method: http.MethodPost, path: "/v1/sessions/" + session + "/messages", body: `{"role":"assistant","content":"x"}`, status: 422, undocumented: true})
	s.send(call{method: http.MethodPost, path: "/v1/runs", body: `{"messages":[{"role":"user"}]}`, status: 422, undocumented: true})
	s.send(call{method: http.MethodPost, path: "/v1/runs", body: `{"on_busy":"hurry"}`, status: 422, undocumented: true})
	s.post("/v1/sessions", `{"padding":"`+strings.Repeat("x", maxBody)+`"}`, 413)

	s.delete("/v1/sessions/"+session, 204)
	s.delete("/v1/sessions/"+session, 404)

	require.NoError(t, s.store.Close())
	s.get("/health", 503)
	s.get("/v1/sessions", 503)

	s.checkThatNothingIsLeftOut()
}
