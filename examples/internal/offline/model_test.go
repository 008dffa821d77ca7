package offline_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/examples/internal/offline"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
)

var _ react.Model = (*offline.Model)(nil)

// ask returns the deltas of a reply, and the error that it breaks with.
func ask(t *testing.T, m *offline.Model, messages ...message.Message) (deltas []message.Delta, err error) {
	t.Helper()
	for d, err := range m.Generate(t.Context(), &message.Request{Messages: messages}) {
		if err != nil {
			return deltas, err
		}
		deltas = append(deltas, d)
	}
	return deltas, nil
}

func reply(t *testing.T, messages ...message.Message) message.Reply {
	t.Helper()
	r, err := message.Collect(offline.New().Generate(t.Context(), &message.Request{Messages: messages}))
	require.NoError(t, err)
	return r
}

// round appends a round: a reply's calls, and a result for each.
func round(messages []message.Message, r message.Reply, results ...*message.Tool) []message.Message {
	said := message.NewAssistant(r.Text, r.ToolCalls...)
	said.ID = uuid.New()
	messages = append(messages, said)
	for i, result := range results {
		result.ID, result.ToolCallID = uuid.New(), r.ToolCalls[i].ID
		messages = append(messages, result)
	}
	return messages
}

func TestReply(t *testing.T) {
	type call struct{ Name, Arguments string }
	for _, tt := range []struct {
		name, script string
		text         string
		think        []string
		calls        []call
	}{
		{name: "say", script: "/say Hello there", text: "Hello there"},
		{name: "says are joined by a newline", script: "/say one\n/say\n/say three", text: "one\n\nthree"},
		{name: "spaces are kept", script: "/say  two  spaces ", text: " two  spaces "},
		{name: "other lines are ignored", script: "Please.\n/say yes\n /say indented\n/unknown x\n/sayings", text: "yes"},
		{name: "carriage returns are no text", script: "/say a\r\n/say b\r\n", text: "a\nb"},
		{name: "only the first stage", script: "/say first\n/then\n/say second", text: "first"},
		{name: "empty stage", script: "/then\n/say second", text: ""},
		{name: "think", script: "/think let me see\n/say done\n/think again", text: "done", think: []string{"let me see", "again"}},
		{name: "calls", script: "/call add {\"a\":1,\"b\":2}\n/call echo {\"text\":\"a b\"}", calls: []call{{"add", `{"a":1,"b":2}`}, {"echo", `{"text":"a b"}`}}},
		{name: "call without arguments", script: "/call vault", calls: []call{{"vault", `{}`}}},
		{name: "text and calls", script: "/say wait\n/call vault {}", text: "wait", calls: []call{{"vault", `{}`}}},
		{name: "loop", script: "/loop vault {}", calls: []call{{"vault", `{}`}}},
		{name: "no command", script: "Good morning!", text: "You said: Good morning!"},
		{name: "no command, lines", script: "Good\nmorning!", text: "You said: Good\nmorning!"},
		{name: "unknown command", script: "/help me", text: "You said: /help me"},
		{name: "nothing", script: "", text: "You said: "},
		{name: "plus", script: "Tell me, what is 2 plus 40?", calls: []call{{"add", `{"a":2,"b":40}`}}},
		{name: "plus, signs and fractions", script: "What is -1.50 plus 0.25", calls: []call{{"add", `{"a":-1.50,"b":0.25}`}}},
		{name: "plus something else", script: "what is 007 plus love", text: "You said: what is 007 plus love"},
		{name: "weather", script: "How is the weather in New York?", calls: []call{{"weather", `{"city":"New York"}`}}},
		{name: "weather, quotes", script: `weather in "Oslo".`, calls: []call{{"weather", `{"city":"\"Oslo\""}`}}},
		{name: "weather, nowhere", script: "the weather in", text: "You said: the weather in"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := reply(t, message.NewUser(tt.script))
			require.Equal(t, tt.text, r.Text)
			var think []string
			for _, b := range r.Reasoning {
				require.Equal(t, "offline", b.Signature)
				think = append(think, b.Text)
			}
			require.Equal(t, tt.think, think)
			var calls []call
			for _, c := range r.ToolCalls {
				calls = append(calls, call{c.Name, string(c.Arguments)})
			}
			require.Equal(t, tt.calls, calls)
			reason := message.FinishStop
			if tt.calls != nil {
				reason = message.FinishToolCalls
			}
			require.Equal(t, reason, r.FinishReason)
		})
	}
}

func TestNewestUserMessage(t *testing.T) {
	r := reply(t, message.NewUser("/say old"), message.NewAssistant("old"), message.NewUserBlocks(
		message.Text{Value: "/say new"}, message.Media{Kind: message.Image}, message.Text{Value: "/say blocks"},
	))
	require.Equal(t, "new\nblocks", r.Text)
}

func TestWordsAreDeltas(t *testing.T) {
	deltas, err := ask(t, offline.New(), message.NewUser("/think so it is\n/say one  two\n/say three\n/call echo {\"text\": \"a b\"}"))
	require.NoError(t, err)
	call, ok := deltas[7].(message.ToolCallDelta)
	require.True(t, ok)
	require.Regexp(t, `^call_[0-9a-f]{16}$`, call.ID)
	require.Equal(t, []message.Delta{
		message.ReasoningDelta{Text: "so"}, message.ReasoningDelta{Text: " it"}, message.ReasoningDelta{Text: " is"},
		message.ReasoningDone{Signature: "offline"},
		message.TextDelta{Text: "one"}, message.TextDelta{Text: "  two"}, message.TextDelta{Text: "\nthree"},
		message.ToolCallDelta{Index: 0, ID: call.ID, Name: "echo", Arguments: `{"text": "a b"}`},
		message.Done{Usage: message.Usage{InputTokens: 14, OutputTokens: 10, ReasoningTokens: 3}, FinishReason: message.FinishToolCalls},
	}, deltas)
}

func TestArgumentsThatAreNoJSON(t *testing.T) {
	deltas, err := ask(t, offline.New(), message.NewUser("/call add not json {"))
	require.NoError(t, err)
	require.Equal(t, "not json {", deltas[0].(message.ToolCallDelta).Arguments)
	require.JSONEq(t, `"not json {"`, string(reply(t, message.NewUser("/call add not json {")).ToolCalls[0].Arguments))
}

func TestStages(t *testing.T) {
	m := []message.Message{message.NewUser("/call a {}\n/call b {}\n/then\n/say and\n/call c {}\n/then\n/say the end")}
	m = round(m, reply(t, m...), message.NewTool("", "A"), message.NewTool("", "B"))
	second := reply(t, m...)
	require.Equal(t, "and", second.Text)
	require.Len(t, second.ToolCalls, 1)
	m = round(m, second, message.NewTool("", "C"))
	require.Equal(t, "the end", reply(t, m...).Text)
	m = append(m, message.NewAssistant("the end"), message.NewUser("/say next"))
	require.Equal(t, "next", reply(t, m...).Text)
}

func TestResultsAreListed(t *testing.T) {
	silent := &message.Tool{Header: message.Header{ID: uuid.New()}}
	m := []message.Message{message.NewUser("/call a {}\n/then\n/call b {}\n/call c {}\n/call d {}")}
	m = round(m, reply(t, m...), message.NewTool("", "not of the last round"))
	m = round(m, reply(t, m...), message.NewTool("", `{"city":"Oslo"}`), message.NewToolError("", "it is closed"), silent)
	require.Equal(t, "b: {\"city\":\"Oslo\"}\nc: error: it is closed\nd: ", reply(t, m...).Text)
	require.Equal(t, message.FinishStop, reply(t, m...).FinishReason)
}

func TestResultsOfPlainMessages(t *testing.T) {
	m := []message.Message{message.NewUser("weather in Oslo")}
	m = round(m, reply(t, m...), message.NewTool("", "rain"))
	require.Equal(t, "weather: rain", reply(t, m...).Text)
}

func TestLoop(t *testing.T) {
	m := []message.Message{message.NewUser("/call once {}\n/then\n/say looping\n/loop again {\"x\":1}\n/then\n/say still")}
	m = round(m, reply(t, m...), message.NewTool("", "ok"))
	ids := map[string]bool{}
	for n := range 5 {
		r := reply(t, m...)
		require.Len(t, r.ToolCalls, 1)
		require.Equal(t, "again", r.ToolCalls[0].Name)
		require.Equal(t, []string{"looping", "still", "", "", ""}[n], r.Text)
		ids[r.ToolCalls[0].ID] = true
		m = round(m, r, message.NewTool("", "ok"))
	}
	require.Len(t, ids, 5)
}

func TestCallIDs(t *testing.T) {
	session := uuid.New()
	user := func(script string) *message.User {
		u := message.NewUser(script)
		u.ID = uuid.New()
		u.SessionID = session
		return u
	}
	first := user("/call a {}\n/call a {}\n/then\n/call a {}")
	m := []message.Message{first}
	seen := map[string]bool{}
	for range 2 {
		r := reply(t, m...)
		require.Equal(t, r, reply(t, m...), "another process gives the same reply")
		results := make([]*message.Tool, len(r.ToolCalls))
		for i, c := range r.ToolCalls {
			require.False(t, seen[c.ID])
			seen[c.ID] = true
			results[i] = message.NewTool("", "ok")
		}
		m = round(m, r, results...)
	}
	for _, c := range reply(t, append(m, user("/call a {}"))...).ToolCalls {
		require.False(t, seen[c.ID])
	}
	// A branch that leaves after the first round has other ids from there on.
	branch := round([]message.Message{first}, reply(t, first), message.NewTool("", "other"), message.NewTool("", "other"))
	require.False(t, seen[reply(t, branch...).ToolCalls[0].ID])
}

func TestError(t *testing.T) {
	deltas, err := ask(t, offline.New(), message.NewUser("/say one two\n/error the line is dead\n/say never"))
	require.EqualError(t, err, "the line is dead")
	require.Equal(t, []message.Delta{message.TextDelta{Text: "one"}, message.TextDelta{Text: " two"}}, deltas)
	var transient *message.TransientError
	require.False(t, errors.As(err, &transient))
}

func TestFlaky(t *testing.T) {
	m, other := offline.New(), message.NewUser("/say other\n/flaky 1")
	user := message.NewUser("/say at last\n/flaky 2")
	other.ID, user.ID = uuid.New(), uuid.New()
	for range 2 {
		deltas, err := ask(t, m, user)
		require.Empty(t, deltas)
		_, ok := errors.AsType[*message.TransientError](err)
		require.True(t, ok, "%v", err)
	}
	for range 2 {
		_, err := ask(t, m, user)
		require.NoError(t, err)
	}
	_, err := ask(t, m, other)
	require.Error(t, err, "each user message has its own count")
	elsewhere := *user
	elsewhere.SessionID = uuid.New()
	_, err = ask(t, m, &elsewhere)
	require.Error(t, err, "each session has its own count")
	_, err = ask(t, offline.New(), user)
	require.Error(t, err, "each process has its own count")
}

func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var at []time.Duration
		req := &message.Request{Messages: []message.Message{message.NewUser("/say at once\n/slow 250\n/say one two\n/call a {}\n/slow 0\n/say done")}}
		for _, err := range offline.New().Generate(t.Context(), req) {
			require.NoError(t, err)
			at = append(at, time.Since(start)/time.Millisecond)
		}
		require.Equal(t, []time.Duration{0, 0, 250, 500, 750, 750, 750}, at)
	})
}

func TestSlowGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := errors.New("the client is gone")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, gone)
		defer cancel()
		start := time.Now()
		r, err := message.Collect(offline.New().Generate(ctx, &message.Request{Messages: []message.Message{message.NewUser("/slow 600\n/say one two three")}}))
		require.ErrorIs(t, err, gone)
		require.Equal(t, "one", r.Text)
		require.Equal(t, time.Second, time.Since(start))
	})
}

func TestBreakingOff(t *testing.T) {
	for range offline.New().Generate(t.Context(), &message.Request{Messages: []message.Message{message.NewUser("/say one two")}}) {
		break
	}
}

func TestMistakes(t *testing.T) {
	for script, want := range map[string]string{
		"/slow soon": `offline: /slow "soon": the milliseconds of a pause must be a whole number that is not negative`,
		"/slow -1":   `offline: /slow "-1": the milliseconds of a pause must be a whole number that is not negative`,
		"/flaky":     `offline: /flaky "": how many attempts fail must be a whole number that is not negative`,
		"/call":      `offline: /call "": name a tool, as in /call NAME JSON`,
	} {
		_, err := ask(t, offline.New(), message.NewUser(script))
		require.EqualError(t, err, want)
	}
	_, err := ask(t, offline.New())
	require.ErrorIs(t, err, message.ErrInvalidRequest)
	_, err = ask(t, offline.New(), message.NewUser("hi"), message.NewAssistant("hello"))
	require.ErrorIs(t, err, message.ErrInvalidRequest)
}

func TestUsage(t *testing.T) {
	m := []message.Message{message.NewUser("what is 1 plus 2")}
	m = round(m, reply(t, m...), message.NewTool("", "3"))
	m = append(m, message.NewReasoning("easy", "offline"), message.NewAssistant("add: 3"), message.NewUser("thank you"))
	r, err := message.Collect(offline.New().Generate(t.Context(), &message.Request{System: "You are demo.", Messages: m}))
	require.NoError(t, err)
	// prompt 3, question 5, call 2, result 1, reasoning 1, answer 2, thanks 2
	require.Equal(t, message.Usage{InputTokens: 16, OutputTokens: 4}, r.Usage)
}

func TestStructuredOutput(t *testing.T) {
	for _, tt := range []struct{ name, schema, want string }{
		{"anything", `{}`, `null`},
		{"true", `true`, `null`},
		{"null", `{"type":"null"}`, `null`},
		{"boolean", `{"type":"boolean"}`, `false`},
		{"string", `{"type":"string"}`, `""`},
		{"minLength", `{"type":"string","minLength":3}`, `"aaa"`},
		{"format", `{"type":"string","format":"date"}`, `"1970-01-01"`},
		{"nullable", `{"type":["string","null"]}`, `null`},
		{"first type", `{"type":["string","integer"]}`, `""`},
		{"integer", `{"type":"integer"}`, `0`},
		{"minimum", `{"type":"integer","minimum":7}`, `7`},
		{"negative minimum", `{"type":"number","minimum":-2.5}`, `-2.5`},
		{"fractional minimum", `{"type":"integer","minimum":6.5}`, `7`},
		{"exclusive minimum", `{"type":"integer","exclusiveMinimum":2.5}`, `3`},
		{"exclusive whole minimum", `{"type":"integer","exclusiveMinimum":2}`, `3`},
		{"exclusive bounds", `{"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1}`, `0.5`},
		{"negative maximum", `{"type":"integer","maximum":-3}`, `-3`},
		{"positive maximum", `{"type":"integer","maximum":3}`, `0`},
		{"exclusive maximum", `{"type":"integer","exclusiveMaximum":0}`, `-1`},
		{"multiple", `{"type":"integer","minimum":10,"multipleOf":4}`, `12`},
		{"enum", `{"enum":["low","high"]}`, `"low"`},
		{"constant", `{"const":12345678901234567890}`, `12345678901234567890`},
		{"array", `{"type":"array","items":{"type":"string"}}`, `[]`},
		{"minItems", `{"type":"array","items":{"type":"integer"},"minItems":2}`, `[0,0]`},
		{"tuple", `{"prefixItems":[{"type":"string"}],"items":{"type":"boolean"},"minItems":3}`, `["",false,false]`},
		{"object", `{"type":"object","properties":{"a":{"type":"string"}}}`, `{}`},
		{"required", `{"type":"object","properties":{"b":{"type":"integer"},"a":{"type":"string"},"c":{}},"required":["b","a"]}`, `{"b":0,"a":""}`},
		{"required, not described", `{"required":["a"]}`, `{"a":null}`},
		{"nested", `{"type":"object","properties":{"o":{"type":"object","properties":{"x":{"enum":[1]}},"required":["x"]}},"required":["o"]}`, `{"o":{"x":1}}`},
		{"anyOf", `{"anyOf":[{"type":"integer","minimum":3},{"type":"string"}]}`, `3`},
		{"anyOf with null", `{"anyOf":[{"type":"integer","minimum":3},{"type":"null"}]}`, `null`},
		{"oneOf beside a type", `{"type":"object","properties":{"a":{"type":"string"}},"oneOf":[{"required":["a"]}]}`, `{"a":""}`},
		{"anyOf, first is impossible", `{"anyOf":[false,{"type":"string"}]}`, `""`},
		{"allOf", `{"allOf":[{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},{"properties":{"a":{"minimum":2},"b":{"type":"boolean"}},"required":["b","a"]}]}`, `{"a":2,"b":false}`},
		{"allOf of references", `{"$defs":{"a":{"$ref":"#/$defs/c"},"b":{"type":"object","required":["b"]},"c":{"type":"object","required":["c"]}},"allOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/b"}]}`, `{"c":null,"b":null}`},
		{"reference", `{"$defs":{"a/b":{"type":"string"}},"type":"object","properties":{"x":{"$ref":"#/$defs/a~1b"}},"required":["x"]}`, `{"x":""}`},
		{"recursion that ends", `{"type":"object","properties":{"next":{"anyOf":[{"$ref":"#"},{"type":"null"}]}},"required":["next"]}`, `{"next":null}`},
		{"recursion that ends late", `{"$ref":"#/$defs/tree","$defs":{"tree":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"string"}]},"node":{"type":"object","properties":{"l":{"$ref":"#/$defs/tree"},"r":{"$ref":"#/$defs/tree"}},"required":["l","r"]}}}`, `""`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := message.Collect(offline.New().Generate(t.Context(), &message.Request{
				Messages: []message.Message{message.NewUser("/say something else")}, Output: json.RawMessage(tt.schema),
			}))
			require.NoError(t, err)
			require.True(t, json.Valid([]byte(r.Text)), r.Text)
			require.Equal(t, tt.want, r.Text)
		})
	}
}

func TestStructuredOutputThatCannotBe(t *testing.T) {
	for schema, want := range map[string]string{
		`false`: "offline: output schema: it demands something that it forbids",
		`{"type":"object","properties":{"x":{"$ref":"#"}},"required":["x"]}`: "offline: output schema: it needs itself without an end, or a very long list: make a member on the way optional",
		`{"type":"integer","minimum":2,"maximum":1}`:                         "offline: output schema: no number is within its bounds",
		`{"type":"integer","minimum":2,"exclusiveMaximum":2}`:                "offline: output schema: no number is within its bounds",
		`{"type":"number","exclusiveMinimum":2,"exclusiveMaximum":2}`:        "offline: output schema: no number is within its bounds",
		`{"type":"array","minItems":1000000000}`:                             "offline: output schema: it needs itself without an end, or a very long list: make a member on the way optional",
		`{"type":"string","minLength":1000000000000}`:                        "offline: output schema: it demands a very long text",
		`{"anyOf":[]}`:                   "offline: output schema: it has no alternatives",
		`{"$ref":"https://example.com"}`: `offline: output schema: $ref "https://example.com" leads nowhere: the offline model follows those of the form #/$defs/NAME`,
		`{"type":"whatever"}`:            `offline: output schema: type "whatever" does not exist`,
		`{`:                              "offline: output schema: unexpected EOF",
	} {
		_, err := message.Collect(offline.New().Generate(t.Context(), &message.Request{
			Messages: []message.Message{message.NewUser("hi")}, Output: json.RawMessage(schema),
		}))
		require.EqualError(t, err, want)
	}
}
