package agui_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/httpapi"
	"github.com/everstep-go/everstep/httpapi/agui"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
)

// left stands for a member that is left out.
type left struct{}

// The table of contract 7.3, a cell each: what a run that comes later makes of what the thread has.
func TestWhatIsLeftOutEmptyNullOrGiven(t *testing.T) {
	t.Parallel()
	model := &react.ModelConfig{Override: &react.ModelOverride{Model: "large"}}
	other := &react.ModelConfig{Override: &react.ModelOverride{Model: "small"}}
	extend := &react.CapabilityOverride{Strategy: "extend", Capabilities: []string{"a"}}
	replace := &react.CapabilityOverride{Strategy: "replace", Capabilities: []string{"b"}}
	spec := message.ToolSpec{Name: "look", Description: "Looks.", Parameters: json.RawMessage(`{"type":"object"}`)}
	seen := message.ToolSpec{Name: "see", Description: "Sees.", Parameters: json.RawMessage(`{"type":"object","properties":{}}`)}
	lang := react.ContextVar{Description: "language", Value: "French"}
	unit := react.ContextVar{Description: "unit", Value: "metres"}
	tools := func(s react.State) any { return s.Tools }
	vars := func(s react.State) any { return s.ContextVars }
	models := func(s react.State) any { return s.Model }
	overrides := func(s react.State) any { return s.CapabilityOverride }
	none := []message.ToolSpec(nil)
	noVars := []react.ContextVar(nil)
	for _, c := range []struct {
		member string
		cell   string
		value  any
		of     func(react.State) any
		want   any // nil: the request is refused
	}{
		{"tools", "omitted clears", left{}, tools, none},
		{"tools", "[] clears", []any{}, tools, none},
		{"tools", "null is as omitted: it clears", nil, tools, none},
		{"tools", "a value replaces", []object{{"name": "see", "description": "Sees."}}, tools, []message.ToolSpec{seen}},
		{"context", "omitted clears", left{}, vars, noVars},
		{"context", "[] clears", []any{}, vars, noVars},
		{"context", "null is as omitted: it clears", nil, vars, noVars},
		{"context", "a value replaces", []object{{"description": "unit", "value": "metres"}}, vars, []react.ContextVar{unit}},
		{"forwardedProps.model", "omitted keeps", left{}, models, model},
		{"forwardedProps.model", "[] is refused", []any{}, models, nil},
		{"forwardedProps.model", "null clears", nil, models, (*react.ModelConfig)(nil)},
		{"forwardedProps.model", "a value replaces", object{"override": object{"model": "small"}}, models, other},
		{"forwardedProps.capability_override", "omitted keeps", left{}, overrides, extend},
		{"forwardedProps.capability_override", "[] is refused", []any{}, overrides, nil},
		{"forwardedProps.capability_override", "null clears", nil, overrides, (*react.CapabilityOverride)(nil)},
		{"forwardedProps.capability_override", "a value replaces", object{"strategy": "replace", "capabilities": []string{"b"}}, overrides, replace},
	} {
		t.Run(c.member+": "+c.cell, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t, steps(say("one"), say("two")))
			first := input("t", user("m", "hello"))
			first["tools"], first["context"] = look, []object{{"description": "language", "value": "French"}}
			first["forwardedProps"] = object{"model": model, "capability_override": extend}
			look := []message.ToolSpec{spec}
			look[0].Description = "Looks."
			b.run(first)
			before := b.state("t")
			require.Equal(t, []any{look, []react.ContextVar{lang}, model, extend}, []any{before.Tools, before.ContextVars, before.Model, before.CapabilityOverride})

			second := input("t", user("m2", "again"))
			into := second
			name, inner, nested := strings.Cut(c.member, ".")
			if nested {
				into = object{}
				second[name], name = into, inner
			}
			if c.value == (left{}) {
				delete(into, name)
			} else {
				into[name] = c.value
			}
			if c.want == nil {
				e := b.refused(second)
				assert.Equal(t, httpapi.CodeWrongShape, e.Code)
				assert.Contains(t, e.Message, c.member)
				assert.Equal(t, before, b.state("t"), "nothing was written")
				return
			}
			b.run(second)
			got := c.of(b.state("t"))
			if len(mustJSON(t, c.want)) <= len("null") {
				assert.Empty(t, got)
			} else {
				assert.Equal(t, c.want, got)
			}
		})
	}
}

func mustJSON(t testing.TB, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}

func TestForwardedPropsMayBeAnything(t *testing.T) {
	t.Parallel()
	for _, props := range []any{left{}, nil, "text", 7, []any{1}, true, object{"anything": object{"model": 7}, "command": 7}} {
		b := newBundle(t, steps(say("hi")))
		body := with(input("t", user("m", "hello")), "forwardedProps", props)
		if props == (left{}) {
			delete(body, "forwardedProps")
		}
		assert.Equal(t, "hi", textOf(b.run(body)))
	}
}

// What is wrong with a request is said before the stream, and nothing was written.
func TestBadInputIsRefusedWithWhatIsWrong(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1025)
	ok := input("t", user("m", "hello"))
	say := func(message object) object { return with(ok, "messages", []object{message}) }
	part := func(part any) object { return say(object{"id": "m", "role": "user", "content": []any{part}}) }
	for name, c := range map[string]struct {
		body any
		code int
		want string // in the answer
	}{
		"no JSON":                              {"{", httpapi.CodeInvalidJSON, "at byte 1"},
		"nothing":                              {"", httpapi.CodeInvalidJSON, "not valid JSON"},
		"no UTF-8":                             {"{\"threadId\":\"\xff\"}", httpapi.CodeInvalidJSON, "UTF-8"},
		"nested without end":                   {strings.Repeat("[", 600) + strings.Repeat("]", 600), httpapi.CodeInvalidJSON, "nested"},
		"no object":                            {"[]", httpapi.CodeWrongShape, "must be an object"},
		"null":                                 {"null", httpapi.CodeWrongShape, "must be an object"},
		"no messages":                          {without(ok, "messages"), httpapi.CodeWrongShape, "messages: must be an array"},
		"messages that are null":               {with(ok, "messages", nil), httpapi.CodeWrongShape, "messages: must be an array"},
		"messages that are no list":            {with(ok, "messages", "hello"), httpapi.CodeWrongShape, "messages: must be an array"},
		"a message that is no object":          {with(ok, "messages", []any{"hello"}), httpapi.CodeWrongShape, "messages[0]: must be an object"},
		"a message without id":                 {say(object{"role": "user", "content": "x"}), httpapi.CodeWrongShape, "messages[0].id"},
		"a message with an empty id":           {say(user("", "x")), httpapi.CodeWrongShape, "messages[0].id"},
		"a message without role":               {say(object{"id": "m", "content": "x"}), httpapi.CodeWrongShape, "messages[0].role"},
		"a message of an unknown role":         {say(object{"id": "m", "role": "god", "content": "x"}), httpapi.CodeWrongShape, `"god" is none of`},
		"a user message without content":       {say(object{"id": "m", "role": "user"}), httpapi.CodeWrongShape, "messages[0].content"},
		"a user message with a number":         {say(object{"id": "m", "role": "user", "content": 7}), httpapi.CodeWrongShape, "messages[0].content"},
		"a part that is no object":             {part("x"), httpapi.CodeWrongShape, "messages[0].content[0]"},
		"a part without type":                  {part(object{"text": "x"}), httpapi.CodeWrongShape, "messages[0].content[0].type"},
		"a text part without text":             {part(object{"type": "text"}), httpapi.CodeWrongShape, "messages[0].content[0].text"},
		"an image without source":              {part(object{"type": "image"}), httpapi.CodeWrongShape, "messages[0].content[0].source"},
		"an image that is no base64":           {part(object{"type": "image", "source": object{"type": "data", "value": "?", "mimeType": "image/png"}}), httpapi.CodeWrongShape, "messages[0].content[0].source.value: must be base64"},
		"an image without its type":            {part(object{"type": "image", "source": object{"type": "data", "value": "AAAA"}}), httpapi.CodeWrongShape, "source.mimeType"},
		"an image of no URL":                   {part(object{"type": "image", "source": object{"type": "url", "value": "cat.png"}}), httpapi.CodeWrongShape, "must be an absolute URL"},
		"a result without its call":            {say(object{"id": "m", "role": "tool", "content": "x"}), httpapi.CodeWrongShape, "messages[0].toolCallId"},
		"metadata that is no object":           {say(object{"id": "m", "role": "user", "content": "x", "metadata": "y"}), httpapi.CodeWrongShape, "messages[0].metadata"},
		"a thread that is a number":            {with(ok, "threadId", 7), httpapi.CodeWrongShape, "threadId: must be a string"},
		"a thread that is empty":               {with(ok, "threadId", ""), httpapi.CodeWrongShape, "threadId: must not be empty"},
		"a thread that is too long":            {with(ok, "threadId", long), httpapi.CodeInvalid, "threadId"},
		"a run that is empty":                  {with(ok, "runId", ""), httpapi.CodeWrongShape, "runId: must not be empty"},
		"a run that is too long":               {with(ok, "runId", long), httpapi.CodeInvalid, "runId"},
		"a message id that is too long":        {say(user(long, "x")), httpapi.CodeInvalid, "messages[0].id"},
		"a version that is a number":           {with(ok, "protocolVersion", 1), httpapi.CodeWrongShape, "protocolVersion"},
		"state that is no object":              {with(ok, "state", []int{1}), httpapi.CodeWrongShape, "state: must be an object"},
		"tools that are no list":               {with(ok, "tools", object{}), httpapi.CodeWrongShape, "tools: must be an array"},
		"a tool without name":                  {with(ok, "tools", []object{{"description": "d"}}), httpapi.CodeWrongShape, "tools[0].name"},
		"a tool without description":           {with(ok, "tools", []object{{"name": "d"}}), httpapi.CodeWrongShape, "tools[0].description"},
		"a tool whose parameters are a text":   {with(ok, "tools", []object{{"name": "d", "description": "", "parameters": "x"}}), httpapi.CodeWrongShape, "tools[0].parameters"},
		"a tool with a name that nobody takes": {with(ok, "tools", []object{{"name": "a b", "description": "d"}}), httpapi.CodeInvalid, "tools[0].name"},
		"two tools of one name":                {with(ok, "tools", []object{{"name": "a", "description": "d"}, {"name": "a", "description": "d"}}), httpapi.CodeInvalid, "tools[1].name"},
		"context that is no list":              {with(ok, "context", object{"a": "b"}), httpapi.CodeWrongShape, "context: must be an array"},
		"context without value":                {with(ok, "context", []object{{"description": "d"}}), httpapi.CodeWrongShape, "context[0].value"},
		"resume that is no list":               {with(ok, "resume", object{}), httpapi.CodeWrongShape, "resume: must be an array"},
		"resume without status":                {with(ok, "resume", []object{{"interruptId": "i"}}), httpapi.CodeWrongShape, "resume[0].status"},
		"resume of an unknown status":          {with(ok, "resume", []object{{"interruptId": "i", "status": "maybe"}}), httpapi.CodeWrongShape, "resume[0].status"},
		"resume without interrupt":             {with(ok, "resume", []object{{"status": "resolved"}}), httpapi.CodeWrongShape, "resume[0].interruptId"},
		"resume of one interrupt twice":        {with(ok, "resume", []object{{"interruptId": "i", "status": "resolved"}, {"interruptId": "i", "status": "cancelled"}}), httpapi.CodeInvalid, "resume[1].interruptId"},
		"a model that is a text":               {with(ok, "forwardedProps", object{"model": "gpt"}), httpapi.CodeWrongShape, "forwardedProps.model"},
		"a model of an unknown provider":       {with(ok, "forwardedProps", object{"model": object{"override": object{"provider": "x"}}}), httpapi.CodeInvalid, "forwardedProps.model.override.provider"},
		"a timeout of nothing":                 {with(ok, "forwardedProps", object{"model": object{"timeout": 0}}), httpapi.CodeInvalid, "forwardedProps.model.timeout"},
		"capabilities by an unknown strategy":  {with(ok, "forwardedProps", object{"capability_override": object{"strategy": "x"}}), httpapi.CodeWrongShape, "forwardedProps.capability_override"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			e := b.refused(c.body)
			assert.Equal(t, c.code, e.Code)
			assert.Contains(t, mustJSON(t, &e), strings.ReplaceAll(c.want, `"`, `\"`))
			var list struct{ Count int }
			b.v1("GET", "/v1/sessions", nil, &list)
			assert.Zero(t, list.Count, "nothing was written")
		})
	}
}

func TestWhatTheTransportGetsWrongIsRefused(t *testing.T) {
	t.Parallel()
	b := newBundle(t, func(s *setup) { s.MaxBody = 1000 })
	body := mustJSON(t, input("t", user("m", "hello")))
	for name, c := range map[string]struct {
		body   string
		header []string
		code   int
	}{
		"no type":         {body, []string{"Content-Type", ""}, httpapi.CodeContentType},
		"a form":          {body, []string{"Content-Type", "application/x-www-form-urlencoded"}, httpapi.CodeContentType},
		"compressed":      {body, []string{"Content-Encoding", "gzip"}, httpapi.CodeContentType},
		"too large":       {mustJSON(t, input("t", user("m", strings.Repeat("x", 1000)))), nil, httpapi.CodeBodyTooLarge},
		"an empty tenant": {body, []string{httpapi.TenantHeader, ""}, httpapi.CodeBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, c.code, b.refused(c.body, c.header...).Code)
		})
	}
	var e httpapi.Error
	assert.Equal(t, 405, b.v1("GET", "/ag-ui", nil, &e))
	assert.Equal(t, httpapi.CodeMethodNotAllowed, e.Code)
}

func TestOptionsThatMakeNoSensePanic(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	assert.PanicsWithValue(t, `agui: OnDisconnect is "leave": it is agui.Cancel or agui.Keep`, func() { agui.New(b.agent, &agui.Options{OnDisconnect: "leave"}) })
	assert.PanicsWithValue(t, `agui: OnBusy is "queue": it is graph.Reject, graph.Wait or graph.Cancel`, func() { agui.New(b.agent, &agui.Options{OnBusy: "queue"}) })
}

func TestContentOfAllKindsComesBack(t *testing.T) {
	t.Parallel()
	b := newBundle(t, steps(say("hi")))
	events := b.run(input("t",
		object{"id": "s", "role": "system", "content": "Be brief.", "metadata": object{"a": 1}},
		object{"id": "d", "role": "developer", "content": "The agent's prompt is the agent's."},
		object{"id": "u", "role": "user", "name": "Ann", "content": []object{
			{"type": "text", "text": "Look:"},
			{"type": "image", "source": object{"type": "url", "value": "https://example.com/cat.png"}},
			{"type": "image", "source": object{"type": "url", "value": "https://example.com/cat", "mimeType": "image/webp"}},
			{"type": "audio", "source": object{"type": "data", "value": "AAAA", "mimeType": "audio/wav"}},
			{"type": "document", "source": object{"type": "file", "value": "file-1", "provider": "somebody"}},
			{"type": "hologram", "source": object{}},
			{"type": "binary", "mimeType": "application/pdf", "data": "AAAA", "filename": "a.pdf"},
			{"type": "binary", "mimeType": "video/mp4", "url": "https://example.com/cat.mp4"},
			{"type": "binary", "mimeType": "video/mp4", "id": "somewhere"},
		}},
	))
	said := conversation(t, events)
	require.Len(t, said, 3)
	assert.Equal(t, object{"id": "s", "role": "system", "content": "Be brief.", "metadata": object{"a": 1.0}}, normal(t, said[0]))
	data := func(kind, media string) object {
		return object{"type": kind, "source": object{"type": "data", "value": "AAAA", "mimeType": media}}
	}
	url := func(kind, value, media string) object {
		return object{"type": kind, "source": object{"type": "url", "value": value, "mimeType": media}}
	}
	assert.Equal(t, []any{
		object{"type": "text", "text": "Look:"},
		url("image", "https://example.com/cat.png", "image/png"), url("image", "https://example.com/cat", "image/webp"),
		data("audio", "audio/wav"), data("document", "application/pdf"), url("video", "https://example.com/cat.mp4", "video/mp4"),
	}, normal(t, said[1])["content"])
}

// normal is an object as encoding/json decodes it.
func normal(t testing.TB, o object) (out object) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(mustJSON(t, o)), &out))
	return out
}

func TestAResultIsTextForTheModel(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		result object
		want   string
	}{
		"a text":               {object{"content": "cat"}, "cat"},
		"parts":                {object{"content": []object{{"type": "text", "text": "a"}, {"type": "image", "source": object{"type": "url", "value": "https://example.com/a.png"}}, {"type": "text", "text": "b"}}}, "a\nb"},
		"parts without text":   {object{"content": []object{{"type": "image", "source": object{"type": "url", "value": "https://example.com/a.png"}}}}, ""},
		"an error":             {object{"content": "", "error": "no camera"}, "Error: no camera"},
		"an error with output": {object{"content": "half a cat", "error": "no camera"}, "Error: no camera"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t, steps(call("look", "{}"), say("ok")))
			copied := conversation(t, b.run(with(input("t", user("m", "hello")), "tools", look)))
			result := with(with(with(c.result, "id", "r"), "role", "tool"), "toolCallId", "look1")
			b.run(with(input("t", append(copied, result)...), "tools", look))
			assert.Equal(t, "tool look1 "+c.want, b.asked()[2])
		})
	}
}

func TestIDsAreMappedStably(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "ee84050b-1b17-5fe8-9f71-0983f1fceccc", agui.SessionID("thread-1").String(), "contract 7.1")
	id := uuid.New()
	for _, spelled := range []string{id.String(), strings.ToUpper(id.String()), "{" + id.String() + "}", "urn:uuid:" + id.String()} {
		assert.Equal(t, id, agui.SessionID(spelled))
		assert.Equal(t, id, agui.MessageID(spelled))
		assert.Equal(t, id, agui.RunID("thread-1", spelled))
	}
	assert.NotEqual(t, uuid.Nil, agui.SessionID(uuid.Nil.String()), "which would stand for a new one")
	assert.NotEqual(t, agui.RunID("a", "run-1"), agui.RunID("b", "run-1"), "clients number the runs of each thread")
	assert.NotEqual(t, agui.SessionID("a"), agui.SessionID("a\x00"))
}

func TestHostileMessageIDsHarmNobody(t *testing.T) {
	t.Parallel()
	b := newBundle(t, steps(call("greet", `{"name":"x"}`), say("one"), say("two"), say("three")))
	copied := conversation(t, b.run(input("t", user("m", "hello"))))
	// A message under the id of one of the agent's: it is known.
	b.run(input("t", user(copied[1]["id"].(string), "I am the agent"), user("m2", "again")))
	// One under what another id is mapped to: the conversation has it.
	b.run(input("t", user(agui.MessageID("m2").String(), "again?"), user("m3", "and again"), user("m3", "twice")))
	assert.Equal(t, []string{
		"user hello", "assistant greet1", "tool greet1 hello x", "assistant one", "user again", "assistant two", "user and again", "assistant three",
	}, b.said("t"))
	// The label of another id is no label.
	b = newBundle(t, steps(say("hi")))
	forged := object{"id": uuid.NewString(), "role": "user", "content": "x", "metadata": object{"ag_ui_id": "m"}}
	assert.Equal(t, forged["id"], conversation(t, b.run(input("t", forged)))[0]["id"])
}

func TestTenantsAreApart(t *testing.T) {
	t.Parallel()
	b := newBundle(t, steps(say("one"), say("two")))
	body := with(input("t", user("m", "hello")), "runId", "r")
	assert.Equal(t, "one", textOf(b.run(body, httpapi.TenantHeader, "a")))
	assert.Equal(t, "two", textOf(b.run(body, httpapi.TenantHeader, "b")), "the same run of somebody else is another one")
	assert.Len(t, b.state("t", "a").Messages, 2)
	assert.Empty(t, b.state("t").Messages)
}

func TestAMessageThatWasDeletedDoesNotComeBack(t *testing.T) {
	t.Parallel()
	b := newBundle(t, steps(say("one"), say("two")))
	copied := conversation(t, b.run(input("t", user("m", "a secret"))))
	require.Equal(t, 204, b.v1("DELETE", "/v1/messages/"+agui.MessageID("m").String(), nil, nil))
	events := b.run(input("t", append(copied, user("m2", "again"))...))
	assert.Equal(t, []string{"assistant one", "user again", "assistant two"}, b.said("t"))
	assert.Len(t, every(events, "MESSAGES_SNAPSHOT"), 2, "the client hears at once that its copy is not right")
}
