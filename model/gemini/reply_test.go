package gemini_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/message"
)

func TestCallsWithoutAnIDAreCallsOfTheirOwn(t *testing.T) {
	t.Parallel()
	reply, err := ask(t, serve(t, stream(
		parts(`{"functionCall":{"name":"weather","args":{"city":"Oslo"}}}`, `{"functionCall":{"name":"weather","args":{"city":"Bergen"}}}`),
		parts(`{"functionCall":{"name":"time"}}`),
		finish("STOP"),
	)).model(t))
	require.NoError(t, err)
	require.Len(t, reply.ToolCalls, 3)
	var args []string
	ids := map[string]bool{}
	for _, c := range reply.ToolCalls {
		args = append(args, c.Name+string(c.Arguments))
		ids[c.ID] = true
	}
	assert.Equal(t, []string{`weather{"city":"Oslo"}`, `weather{"city":"Bergen"}`, `time{}`}, args)
	assert.Len(t, ids, 3)
	assert.Equal(t, message.FinishToolCalls, reply.FinishReason)
}

func TestThoughtsAreReasoning(t *testing.T) {
	t.Parallel()
	reply, err := ask(t, serve(t, stream(
		parts(`{"text":"It ","thought":true}`),
		parts(`{"text":"rains.","thought":true}`),
		parts(`{"text":"Yes."}`),
		parts(`{"text":"Or","thought":true}`, `{"text":"","thought":true,"thoughtSignature":"c2ln"}`),
		parts(`{"text":"","thought":true,"thoughtSignature":"b3BhcXVl"}`),
		parts(`{"text":"Still.","thought":true}`),
		finish("STOP"),
	)).model(t))
	require.NoError(t, err)
	assert.Equal(t, []message.ReasoningDone{
		{Text: "It rains."}, {Text: "Or", Signature: "c2ln"}, {Signature: "b3BhcXVl"}, {Text: "Still."},
	}, reply.Reasoning)
	assert.Equal(t, "Yes.", reply.Text)
}

func TestReasoningIsClosedBeforeWhatFollowsIt(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		chunks []string
		want   []message.Delta
	}{
		{
			[]string{parts(`{"text":"Hm.","thought":true}`), parts(`{"text":"Yes."}`)},
			[]message.Delta{message.ReasoningDelta{Text: "Hm."}, message.ReasoningDone{}, message.TextDelta{Text: "Yes."}},
		},
		{
			[]string{parts(`{"text":"Hm.","thought":true}`), parts(`{"functionCall":{"id":"a","name":"f"},"thoughtSignature":"QQ=="}`)},
			[]message.Delta{
				message.ReasoningDelta{Text: "Hm."}, message.ReasoningDone{},
				message.ToolCallDelta{ID: "a", Name: "f"}, message.ReasoningDone{Signature: "call:0:QQ=="},
			},
		},
		{
			[]string{parts(`{"text":"Hm.","thought":true}`)},
			[]message.Delta{message.ReasoningDelta{Text: "Hm."}, message.ReasoningDone{}},
		},
	} {
		var got []message.Delta
		m := serve(t, stream(append(test.chunks, finish("STOP"))...)).model(t)
		for d, err := range m.Generate(t.Context(), greeting()) {
			require.NoError(t, err)
			got = append(got, d)
		}
		assert.Equal(t, test.want, got[:len(got)-1])
	}
}

func TestSignaturesGoBackOnThePartTheyCameWith(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name       string
		came, sent []string // parts
	}{
		{
			name: "the first of parallel calls, after a summary",
			came: []string{
				`{"text":"Hm.","thought":true}`,
				`{"functionCall":{"id":"a","name":"f","args":{"n":1}},"thoughtSignature":"QQ=="}`,
				`{"functionCall":{"id":"b","name":"f","args":{"n":2}}}`,
			},
			sent: []string{
				`{"functionCall":{"id":"a","name":"f","args":{"n":1}},"thoughtSignature":"QQ=="}`,
				`{"functionCall":{"id":"b","name":"f","args":{"n":2}}}`,
			},
		},
		{
			name: "each of two calls",
			came: []string{
				`{"functionCall":{"id":"a","name":"f","args":{}},"thoughtSignature":"QQ=="}`,
				`{"functionCall":{"id":"b","name":"f","args":{}},"thoughtSignature":"Qg=="}`,
			},
			sent: []string{
				`{"functionCall":{"id":"a","name":"f","args":{}},"thoughtSignature":"QQ=="}`,
				`{"functionCall":{"id":"b","name":"f","args":{}},"thoughtSignature":"Qg=="}`,
			},
		},
		{
			name: "an empty text at the end",
			came: []string{`{"text":"So "}`, `{"text":"be it."}`, `{"text":"","thoughtSignature":"QQ=="}`},
			sent: []string{`{"text":"So be it."}`, `{"text":"","thoughtSignature":"QQ=="}`},
		},
		{
			name: "a part without anything else",
			came: []string{`{"text":"So."}`, `{"thoughtSignature":"QQ=="}`},
			sent: []string{`{"text":"So."}`, `{"text":"","thoughtSignature":"QQ=="}`},
		},
		{
			name: "texts in the middle, in bytes",
			came: []string{`{"text":"Ås: "}`, `{"text":"regn","thoughtSignature":"QQ=="}`, `{"text":"! "}`, `{"text":"Ok.","thoughtSignature":"Qg=="}`},
			sent: []string{`{"text":"Ås: "}`, `{"text":"regn","thoughtSignature":"QQ=="}`, `{"text":"! "}`, `{"text":"Ok.","thoughtSignature":"Qg=="}`},
		},
		{
			name: "thought, text and call",
			came: []string{
				`{"text":"Hm.","thought":true,"thoughtSignature":"QQ=="}`,
				`{"text":"Let me see.","thoughtSignature":"Qg=="}`,
				`{"functionCall":{"id":"a","name":"f","args":{}},"thoughtSignature":"Qw=="}`,
			},
			sent: []string{
				`{"text":"Hm.","thought":true,"thoughtSignature":"QQ=="}`,
				`{"text":"Let me see.","thoughtSignature":"Qg=="}`,
				`{"functionCall":{"id":"a","name":"f","args":{}},"thoughtSignature":"Qw=="}`,
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var chunks []string
			for _, p := range test.came {
				chunks = append(chunks, parts(p))
			}
			reply, err := ask(t, serve(t, stream(append(chunks, finish("STOP"))...)).model(t))
			require.NoError(t, err)

			f := serve(t, stream(finish("STOP")))
			_, err = message.Collect(f.model(t).Generate(t.Context(), again(greeting(), reply)))
			require.NoError(t, err)
			var body struct {
				Contents []struct{ Parts json.RawMessage }
			}
			require.NoError(t, json.Unmarshal([]byte(f.body(t)), &body))
			assert.JSONEq(t, "["+strings.Join(test.sent, ",")+"]", string(body.Contents[1].Parts))
		})
	}
}

func TestTheReasonToStopIsTranslated(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]message.FinishReason{
		"STOP": message.FinishStop, "MAX_TOKENS": message.FinishLength, "FUNCTION_CALL": message.FinishToolCalls,
		"SAFETY": message.FinishContentFilter, "RECITATION": message.FinishContentFilter, "BLOCKLIST": message.FinishContentFilter,
		"PROHIBITED_CONTENT": message.FinishContentFilter, "SPII": message.FinishContentFilter, "IMAGE_SAFETY": message.FinishContentFilter,
		"OTHER": message.FinishUnknown, "SOMETHING_NEW": message.FinishUnknown,
	} {
		reply, err := ask(t, serve(t, stream(finish(reason))).model(t))
		require.NoError(t, err, reason)
		assert.Equal(t, want, reply.FinishReason, reason)
	}
}

func TestUsageIsCounted(t *testing.T) {
	t.Parallel()
	reply, err := ask(t, serve(t, stream(
		`{"candidates":[{"content":{"parts":[{"text":"a"}]}}],"usageMetadata":{"promptTokenCount":7,"candidatesTokenCount":1}}`,
		finish("STOP"),
		`{"usageMetadata":{"promptTokenCount":100,"toolUsePromptTokenCount":20,"cachedContentTokenCount":64,"candidatesTokenCount":5,"thoughtsTokenCount":30}}`,
	)).model(t))
	require.NoError(t, err)
	assert.Equal(t, message.Usage{InputTokens: 120, CachedInputTokens: 64, OutputTokens: 35, ReasoningTokens: 30}, reply.Usage)
	assert.Equal(t, "gemini-3-pro-001", reply.Model)
}

func TestOnlyTheFirstCandidateCounts(t *testing.T) {
	t.Parallel()
	reply, err := ask(t, serve(t, stream(
		`{"candidates":[{"index":0,"content":{"parts":[{"text":"a"}]}},{"index":1,"content":{"parts":[{"text":"b"}]},"finishReason":"SAFETY"}]}`,
		finish("STOP"),
	)).model(t))
	require.NoError(t, err)
	assert.Equal(t, "a", reply.Text)
	assert.Equal(t, message.FinishStop, reply.FinishReason)
}

func TestAReplyThatEndsBadlyIsAnError(t *testing.T) {
	t.Parallel()
	begun := parts(`{"text":"Well"}`)
	for _, test := range []struct {
		name   string
		answer http.HandlerFunc
		kind   error
		passes *time.Duration
		text   string
	}{
		{"no reason", stream(begun), message.ErrCutOff, new(time.Duration(0)), "gemini: the reply was cut off (request r-1)"},
		{"no candidates", stream(`{"candidates":[]}`, `{}`, `null`), message.ErrCutOff, new(time.Duration(0)), ""},
		{"an unspecified reason", stream(begun, finish("FINISH_REASON_UNSPECIFIED")), message.ErrCutOff, new(time.Duration(0)), ""},
		{"half a chunk", raw("data: " + begun + "\n\ndata: {\"candidates\":[{\"con"), message.ErrCutOff, new(time.Duration(0)), ""},
		{"no JSON", stream(begun, `<html>`), message.ErrCutOff, new(time.Duration(0)), "gemini: a piece of the reply cannot be read: invalid character '<' looking for beginning of value (request r-1)"},
		{"another shape", stream(`{"candidates":{"0":1}}`), message.ErrCutOff, new(time.Duration(0)), ""},
		{"the connection breaks", func(w http.ResponseWriter, r *http.Request) {
			stream(begun)(w, r)
			panic(http.ErrAbortHandler)
		}, message.ErrCutOff, new(time.Duration(0)), "gemini: the reply was cut off: unexpected EOF (request r-1)"},
		{"a malformed call", stream(`{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL","finishMessage":"f(("}]}`),
			message.ErrCutOff, new(time.Duration(0)), "gemini: MALFORMED_FUNCTION_CALL: f(("},
		{"a stream that the API would go on with", stream(finish("CONTINUATION")), message.ErrCutOff, new(time.Duration(0)), ""},
		{"a missing signature", stream(finish("MISSING_THOUGHT_SIGNATURE")), message.ErrInvalidRequest, nil, ""},
		{"a blocked prompt", stream(`{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":4}}`),
			message.ErrRefused, nil, "gemini: SAFETY"},
		{"an error event", stream(begun, `{"error":{"code":503,"message":"Busy.","status":"UNAVAILABLE"}}`),
			message.ErrOverloaded, new(time.Duration(0)), "gemini: UNAVAILABLE: Busy. (request r-1)"},
		{"an internal error", stream(begun, `{"error":{"code":500,"message":"Oops.","status":"INTERNAL"}}`),
			message.ErrCutOff, new(time.Duration(0)), "gemini: INTERNAL: Oops. (request r-1)"},
		{"a limit, with a hint", stream(begun, `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"2.5s"}]}}`),
			message.ErrRateLimited, new(2500 * time.Millisecond), ""},
		{"an error that is not an event", raw("data: " + begun + "\n\n{\n  \"error\": {\n    \"code\": 503,\n    \"status\": \"UNAVAILABLE\"\n  }\n}\n"),
			message.ErrOverloaded, new(time.Duration(0)), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var last message.Delta
			var err error
			for d, e := range serve(t, test.answer).model(t).Generate(t.Context(), greeting()) {
				if err = e; e == nil {
					last = d
				}
			}
			require.Error(t, err)
			if test.kind != nil {
				require.ErrorIs(t, err, test.kind)
			}
			assert.Equal(t, test.passes, transient(err), "%v", err)
			if test.text != "" {
				assert.EqualError(t, err, test.text)
			}
			_, done := last.(message.Done)
			assert.False(t, done)
		})
	}
}

// raw answers with these bytes.
func raw(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, body) }
}

func TestAReplyIsWholeWhateverEndsItsStream(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"comments and other fields": raw(": ping\n\nevent: message\nid: 1\ndata: " + parts(`{"text":"Well"}`) + "\n\n: ping\ndata: " + finish("STOP") + "\n\n"),
		"no empty line at the end":  raw("data: " + parts(`{"text":"Well"}`) + "\n\ndata: " + finish("STOP")),
		"an event of several lines": raw("data: {\"candidates\":[{\"content\":{\ndata: \"parts\":[{\"text\":\"Well\"}]}}]}\n\ndata: " + finish("STOP") + "\n\n"),
		"the connection breaks late": func(w http.ResponseWriter, r *http.Request) {
			stream(parts(`{"text":"Well"}`), finish("STOP"))(w, r)
			panic(http.ErrAbortHandler)
		},
	} {
		reply, err := ask(t, serve(t, answer).model(t))
		require.NoError(t, err, name)
		assert.Equal(t, "Well", reply.Text, name)
	}
}
