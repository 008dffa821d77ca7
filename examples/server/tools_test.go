package main

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/react"
)

func TestTools(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir, "-ledger", "ledger.txt")
	for _, tt := range []struct {
		name, call string
		want       string // stored content
		code       string // of the error, empty if the call succeeds
	}{
		{"add", `add {"a":2,"b":3}`, "5", ""},
		{"add beyond 2^53", `add {"a":9007199254740993,"b":1}`, "9007199254740994", ""},
		{"add beyond 2^64", `add {"a":123456789012345678901234567890,"b":-1}`, "123456789012345678901234567889", ""},
		{"add decimals", `add {"a":0.1,"b":0.2}`, "0.3", ""},
		{"add decimals to an integer", `add {"a":10.50,"b":-0.5}`, "10", ""},
		{"add exponents", `add {"a":1e3,"b":1.5}`, "1001.5", ""},
		{"add nothing", `add {"a":-0.0,"b":0}`, "0", ""},
		{"add text", `add {"a":"2","b":3}`, `invalid arguments: a: type: 2 has type "string", want "number"`, "invalid_arguments"},
		{"add no JSON", `add 2 and 3`, "", "invalid_arguments"},
		{"echo", `echo {"text":"héllo <b> \"q\""}`, `héllo <b> "q"`, ""},
		{"weather", `weather {"city":"Oslo"}`, `{"city":"Oslo","celsius":25,"sky":"sun"}`, ""},
		{"sleep", `sleep {"ms":1}`, "slept 1 ms", ""},
		{"sleep backwards", `sleep {"ms":-1}`, "", "invalid_arguments"},
		{"fail", `fail {"message":"no luck"}`, "no luck", "execution"},
		{"panic", `panic {"message":"oh"}`, "panic: oh", "panic"},
		{"remember", `remember {"key":"a/b","value":{"n":1E2}}`, "ok", ""},
		{"patch", `patch {"ops":[{"op":"add","path":"/context/-","value":{"op":"add","path":"/x","value":1}}]}`, "patched", ""},
		{"patch wrong", `patch {"ops":[{"op":"add","path":"/context/x","value":1}]}`, "patched", "invalid_state_update"},
		{"patch nonsense", `patch {"ops":"what"}`, "patched", "invalid_state_update"},
		{"progress", `progress {"steps":2}`, "done", ""},
		{"ledger", `ledger {"line":"one","ms":0}`, "one", ""},
		{"ledger_once", `ledger_once {"line":"two","ms":1}`, "two", ""},
		{"vault", `vault {}`, "", "denied"},
		{"unknown", `dance {}`, "", "not_found"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			session := uuid.New()
			events := s.run(script(session, "/call "+tt.call))
			require.EqualValues(t, "completed", last[event.RunFinished](t, events).Status)
			got := s.messages(session, "?roles=tool")
			require.Len(t, got, 1)
			require.Equal(t, strings.Fields(tt.call)[0], *got[0].Name)
			if tt.want != "" {
				require.Equal(t, tt.want, got[0].Content)
			}
			if tt.code == "" {
				require.Nil(t, got[0].Error)
				one[event.ToolCallResult](t, events)
				return
			}
			e := one[event.ToolCallError](t, events)
			require.Equal(t, tt.code, e.Code)
			require.Equal(t, e.Error, *got[0].Error)
		})
	}
	ledger := lines(t, filepath.Join(dir, "ledger.txt"))
	require.Len(t, ledger, 2)
	for i, want := range []string{"one", "two"} {
		require.Len(t, ledger[i], 2, "a line and its key")
		require.Equal(t, want, ledger[i][0])
		require.NotEmpty(t, ledger[i][1])
	}
}

func TestWhatToolsSayBesidesTheirResult(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir())

	t.Run("remember and patch change the context", func(t *testing.T) {
		events := s.run(script(uuid.New(),
			`/call remember {"key":"a/b","value":1.50}`, `/then`,
			`/call patch {"ops":[{"op":"add","path":"/context/-","value":{"op":"add","path":"/city","value":"Oslo"}}]}`,
		))
		deltas := every[event.StateDelta](events)
		require.Len(t, deltas, 2)
		require.Equal(t, "/a~1b", deltas[0].Delta[0].Path)
		require.Equal(t, `{"a/b":1.50,"city":"Oslo"}`, string(last[event.RunFinished](t, events).Result))
	})

	t.Run("progress", func(t *testing.T) {
		deltas := every[event.ActivityDelta](s.run(script(uuid.New(), `/call progress {"steps":40}`)))
		require.Len(t, deltas, 40)
		for _, d := range deltas {
			require.Equal(t, "progress", d.ActivityType)
			require.Len(t, d.Patch, 1)
			require.Equal(t, "replace", d.Patch[0].Op)
			require.Equal(t, "/done", d.Patch[0].Path)
		}
		require.JSONEq(t, "1", string(deltas[0].Patch[0].Value))
		require.JSONEq(t, "40", string(deltas[39].Patch[0].Value))
	})

	t.Run("no ledger", func(t *testing.T) {
		e := one[event.ToolCallError](t, s.run(script(uuid.New(), `/call ledger {"line":"x","ms":0}`)))
		require.Equal(t, "there is no ledger: start the server with -ledger FILE", e.Error)
	})

	t.Run("sleep stops when it is cancelled", func(t *testing.T) {
		run := s.detach(script(uuid.New(), `/call sleep {"ms":3600000}`))
		stream := s.observe(run)
		until[event.ToolCallEnd](t, stream)
		s.call(http.StatusNoContent, "PUT", run+"/cancel", nil, nil)
		events := s.rest(stream)
		require.Equal(t, "cancelled", one[event.ToolCallError](t, events).Code)
		require.EqualValues(t, "cancelled", last[event.RunFinished](t, events).Status)
	})
}

func TestCapabilities(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir())
	for _, tt := range []struct {
		name, call, override string
		granted              []string
		want                 string
	}{
		{"extended", "/call vault {}", "extend", []string{"vault"}, "vault: 42"},
		{"extended with something else", "/call vault {}", "extend", []string{"vault::write"}, ""},
		{"replaced", `/call add {"a":1,"b":1}`, "replace", []string{"vault"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			session := uuid.New()
			body := script(session, tt.call)
			body["capability_override"] = object{"strategy": tt.override, "capabilities": tt.granted}
			events := s.run(body)
			if tt.want == "" {
				require.Equal(t, "denied", one[event.ToolCallError](t, events).Code)
				return
			}
			got := s.messages(session, "?roles=assistant")
			require.Equal(t, tt.want, got[len(got)-1].Content)
		})
	}
}

// asked returns the only question that a run ended with.
func asked(t *testing.T, events []event.Event) string {
	t.Helper()
	end := last[event.RunFinished](t, events)
	require.EqualValues(t, "interrupted", end.Status)
	return string(end.InterruptPayload)
}

func TestQuestions(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir())
	for _, tt := range []struct {
		name, call string
		payload    string // of the question
		answer     any
		want       string
	}{
		{
			"answered", `/call ask {"question":"Which colour?"}`, `"name":"ask","payload":{"question":"Which colour?"}`,
			"red", "ask: red",
		}, {
			"answered with an object", `/call ask {"question":"Which colour?"}`, `"payload":{"question":"Which colour?"}`,
			object{"colour": "red"}, `ask: {"colour":"red"}`,
		}, {
			"approved", `/call approve {"action":"launch"}`, `"name":"approve","payload":{"tool":"approve","arguments":{"action":"launch"}}`,
			object{"approved": true}, "approve: did launch",
		}, {
			"refused", `/call approve {"action":"launch"}`, `"arguments":{"action":"launch"}`,
			object{"approved": false, "reason": "too windy"}, "approve: error: too windy",
		}, {
			"refused without a reason", `/call approve {"action":"launch"}`, `"arguments":{"action":"launch"}`,
			object{"approved": false}, "approve: error: the call was rejected",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			session := uuid.New()
			require.Contains(t, asked(t, s.run(script(session, tt.call))), tt.payload)
			events := s.run(object{"session_id": session, "resume_payload": tt.answer})
			require.EqualValues(t, "completed", last[event.RunFinished](t, events).Status)
			got := s.messages(session, "?roles=assistant")
			require.Equal(t, tt.want, got[len(got)-1].Content)
			if strings.HasPrefix(tt.name, "refused") {
				require.Equal(t, "rejected", one[event.ToolCallError](t, events).Code)
			}
		})
	}
}

func TestToolOfTheClient(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir())
	session := uuid.New()
	body := script(session, `/call confirm {"what":"all"}`, `/call echo {"text":"mine"}`)
	body["tools"] = []object{{"name": "confirm", "description": "Asks in the browser.", "parameters": object{"type": "object"}}}
	events := s.run(body)
	require.EqualValues(t, "completed", last[event.RunFinished](t, events).Status)
	one[event.ToolCallResult](t, events) // of echo
	id := ""
	for _, start := range every[event.ToolCallStart](events) {
		if start.ToolName == "confirm" {
			id = start.ToolCallID
		}
	}
	require.NotEmpty(t, id)

	events = s.run(object{"session_id": session, "messages": []object{{"role": "tool", "tool_call_id": id, "content": "yes"}}})
	require.Empty(t, every[event.ToolCallStart](events), "nothing is called again")
	got := s.messages(session, "?roles=assistant")
	require.Equal(t, "confirm: yes\necho: mine", got[len(got)-1].Content)
}

func TestContextVariablesAreInThePrompt(t *testing.T) {
	text, err := react.TextPrompt(prompt).Render(t.Context(), react.PromptVars{
		AgentName: "demo", ContextVars: []react.ContextVar{{Description: "Mood", Value: "good"}, {Description: "Town", Value: "Oslo"}},
	})
	require.NoError(t, err)
	require.Equal(t, "You are demo.\nMood: good\nTown: Oslo", text)
}
