package httpapi_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/httpapi"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/store/memory"
)

// codes are those that a request alone can bring about.
var codes = map[int]bool{
	400000: true, 400001: true, 400002: true, 400010: true, 400011: true, 400012: true, 404000: true, 404010: true, 404011: true,
	404012: true, 404013: true, 405000: true, 409010: true, 409013: true, 413000: true, 422000: true, 422001: true,
}

// fuzzed serves an agent that a fuzzer may ask anything.
func fuzzed(tb testing.TB) http.Handler {
	tb.Helper()
	agent, err := react.New(react.Config{
		Name: "fuzzed", Model: model{}, Store: memory.New(nil), Logger: slog.New(slog.DiscardHandler), CapabilityPolicy: react.PolicyExtensible,
	})
	require.NoError(tb, err)
	return httpapi.New(agent, &httpapi.Options{Logger: slog.New(slog.DiscardHandler)})
}

// check wants an answer of the contract.
func check(t *testing.T, h http.Handler, r *http.Request) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code < 300 {
		return
	}
	var e httpapi.Error
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &e), "%d %s", w.Code, w.Body)
	require.True(t, codes[e.Code], "%s", w.Body)
	require.Equal(t, w.Code, e.Code/1000)
	require.True(t, e.Message != "" || len(e.Fields) > 0, "%s", w.Body)
}

func FuzzBody(f *testing.F) {
	h := fuzzed(f)
	for i := range uint8(4) {
		for _, body := range []string{
			`{"id":"0199d8a4-0000-4000-8000-000000000001"}`,
			`{"role":"user","content":[{"type":"image","media_type":"image/png","source":{"type":"url","value":"https://example.com"}}],"metadata":{}}`,
			`{"role":"tool","tool_call_id":"c","content":"x","error":null,"parent_message_id":null}`,
			`{"messages":[{"role":"user","content":"hi"}],"context":{"a":[1e99,-0]},"context_vars":[{"description":"d","value":"v"}],"on_busy":"wait",
				"tools":[{"name":"look","description":"d","parameters":{"type":"object"}}],"resume_payload":null,
				"model":{"override":{"model":"m","inference_params":{"max_tokens":1,"stop_sequences":[]}},"timeout":5,"retry":{"max_attempts":1,"initial_backoff":1,"max_backoff":2}},
				"capability_override":{"strategy":"extend","capabilities":["a"]}}`,
			`{"messages":[],"checkpoint_id":"0199d8a4-0000-4000-8000-000000000001","resume_payload":{"a":1}}`,
			"{\"\\ud800\":\"\x00\"}", `[[[`, ``,
		} {
			f.Add(i, body)
		}
	}
	f.Fuzz(func(t *testing.T, endpoint uint8, body string) {
		session := uuid.NewString()
		path := []string{"/v1/sessions", "/v1/sessions/" + session + "/messages", "/v1/runs", "/v1/runs/start"}[endpoint%4]
		if endpoint%4 == 1 {
			create := httptest.NewRequest("POST", "/v1/sessions", strings.NewReader(`{"id":"`+session+`"}`))
			create.Header.Set("Content-Type", "application/json")
			check(t, h, create)
		}
		r := httptest.NewRequestWithContext(t.Context(), "POST", path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		check(t, h, r)
	})
}

func FuzzRequest(f *testing.F) {
	h := fuzzed(f)
	session := uuid.NewString()
	create := httptest.NewRequest("POST", "/v1/runs", strings.NewReader(`{"session_id":"`+session+`","messages":[{"role":"user","content":"hi"}]}`))
	create.Header.Set("Content-Type", "application/json")
	h.ServeHTTP(httptest.NewRecorder(), create)
	for _, path := range []string{"/v1/sessions", "/v1/sessions/S", "/v1/sessions/S/messages", "/v1/sessions/S/runs", "/v1/sessions/S/checkpoints", "/v1/runs/S", "/x"} {
		for _, query := range []string{
			"per_page=7&page=x", "ids[]=x&ids[0]=" + session, "created_after=2026-01-02T15:04:05Z", "statuses[]=failed&roles=user&reasons=step", "a=%zz;", "%5B%5D=",
		} {
			f.Add("GET", path, query, "default", "0")
		}
	}
	f.Add("PUT", "/v1/runs/S/cancel", "", "", "-1")
	f.Add("DELETE", "/v1/messages/S", "", "\xff", "99999999999999999999")
	f.Fuzz(func(t *testing.T, method, path, query, tenant, last string) {
		r := &http.Request{
			Method: method, Header: http.Header{"X-Tenant-Id": {tenant}, "Last-Event-Id": {last}}, Body: http.NoBody,
			URL: &url.URL{Path: strings.Replace(path, "S", session, 1), RawQuery: query},
		}
		check(t, h, r.WithContext(t.Context()))
	})
}
