package message_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/everstep-go/everstep/internal/wire"
	"github.com/everstep-go/everstep/message"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	id1 = uuid.MustParse("00000000-0000-4000-8000-000000000001")
	id2 = uuid.MustParse("00000000-0000-4000-8000-00000000000a")
	id3 = uuid.MustParse("00000000-0000-4000-8000-000000000003")
	id4 = uuid.MustParse("00000000-0000-4000-8000-000000000004")
)

// full returns a header without a zero field.
func full() message.Header {
	return message.Header{
		ID: id1, SessionID: id2, RunID: id3, CheckpointID: id4,
		CreatedAt: time.Date(2026, 3, 4, 5, 6, 7, 250_000_000, time.UTC),
		Name:      "forecaster",
		Metadata:  json.RawMessage(`{"n":12345678901234567890.10}`),
	}
}

const fullHead = `"id":"00000000-0000-4000-8000-000000000001","session_id":"00000000-0000-4000-8000-00000000000a",` +
	`"run_id":"00000000-0000-4000-8000-000000000003","checkpoint_id":"00000000-0000-4000-8000-000000000004",` +
	`"created_at":"2026-03-04T05:06:07.25Z"`

const bareHead = `"id":"00000000-0000-4000-8000-000000000001","session_id":"00000000-0000-4000-8000-00000000000a",` +
	`"run_id":null,"checkpoint_id":null,"created_at":"2026-03-04T05:06:07.25Z"`

func bare() message.Header {
	h := full()
	h.RunID, h.CheckpointID, h.Name, h.Metadata = uuid.Nil, uuid.Nil, "", nil
	return h
}

// forms are messages with both of their forms.
func forms() map[string]struct {
	m          message.Message
	json, body string
} {
	const fullTail = `,"name":"forecaster","metadata":{"n":12345678901234567890.10}}`
	const bareTail = `,"name":null,"metadata":null}`
	text, empty := "9 degrees", ""
	media := func(k message.MediaKind, t message.SourceType, v, mime string) message.Media {
		return message.Media{Kind: k, Source: message.Source{Type: t, Value: v}, MediaType: mime}
	}
	blocks := []message.Block{
		message.Text{Value: "look"},
		media(message.Image, message.SourceURL, "https://example.com/a.png", "image/png"),
		media(message.Audio, message.SourceBase64, "QUJD", "audio/wav"),
		media(message.Video, message.SourceURL, "https://example.com/a.mp4", "video/mp4"),
		media(message.Document, message.SourceBase64, "", ""),
		message.Text{},
	}
	const blocksJSON = `"content":[{"type":"text","value":"look"},` +
		`{"type":"image","source":{"type":"url","value":"https://example.com/a.png"},"media_type":"image/png"},` +
		`{"type":"audio","source":{"type":"base64","value":"QUJD"},"media_type":"audio/wav"},` +
		`{"type":"video","source":{"type":"url","value":"https://example.com/a.mp4"},"media_type":"video/mp4"},` +
		`{"type":"document","source":{"type":"base64","value":""},"media_type":""},{"type":"text","value":""}]`
	call := message.ToolCall{ID: "call_1", Name: "weather", Arguments: json.RawMessage(`{"city":"Oslo","n":1E400}`)}
	return map[string]struct {
		m          message.Message
		json, body string
	}{
		"system": {
			&message.System{Header: full(), Content: "Be <brief> & kind.\n"},
			`{"role":"system",` + fullHead + `,"content":"Be <brief> & kind.\n"` + fullTail,
			`{"content":"Be <brief> & kind.\n"` + fullTail,
		},
		"system, empty": {
			&message.System{Header: bare()},
			`{"role":"system",` + bareHead + `,"content":""` + bareTail,
			`{}`,
		},
		"user": {
			&message.User{Header: full(), Content: blocks},
			`{"role":"user",` + fullHead + `,` + blocksJSON + fullTail,
			`{` + blocksJSON + fullTail,
		},
		"user, one text": {
			&message.User{Header: bare(), Content: []message.Block{message.Text{Value: "Umbrella?\x00"}}},
			`{"role":"user",` + bareHead + `,"content":[{"type":"text","value":"Umbrella?\u0000"}]` + bareTail,
			`{"content":"Umbrella?\u0000"}`,
		},
		"user, empty": {
			&message.User{Header: bare()},
			`{"role":"user",` + bareHead + `,"content":[]` + bareTail,
			`{}`,
		},
		"assistant": {
			&message.Assistant{Header: full(), Content: "I look.", ToolCalls: []message.ToolCall{call, {ID: "call_2", Name: "now", Arguments: json.RawMessage("null")}}},
			`{"role":"assistant",` + fullHead + `,"content":"I look.","tool_calls":[` +
				`{"id":"call_1","name":"weather","arguments":{"city":"Oslo","n":1E400}},` +
				`{"id":"call_2","name":"now","arguments":null}]` + fullTail,
			`{"content":"I look.","tool_calls":[{"id":"call_1","name":"weather","arguments":{"city":"Oslo","n":1E400}},` +
				`{"id":"call_2","name":"now","arguments":null}]` + fullTail,
		},
		"assistant, empty": {
			&message.Assistant{Header: bare()},
			`{"role":"assistant",` + bareHead + `,"content":null,"tool_calls":[]` + bareTail,
			`{}`,
		},
		"tool": {
			&message.Tool{Header: full(), ToolCallID: "call_1", ParentMessageID: id2, Content: &text, Error: "late"},
			`{"role":"tool",` + fullHead + `,"tool_call_id":"call_1","parent_message_id":"00000000-0000-4000-8000-00000000000a",` +
				`"content":"9 degrees","error":"late"` + fullTail,
			`{"tool_call_id":"call_1","parent_message_id":"00000000-0000-4000-8000-00000000000a",` +
				`"content":"9 degrees","error":"late"` + fullTail,
		},
		"tool, without output": {
			&message.Tool{Header: bare(), ToolCallID: "call_1"},
			`{"role":"tool",` + bareHead + `,"tool_call_id":"call_1","parent_message_id":null,"content":null,"error":null` + bareTail,
			`{"tool_call_id":"call_1"}`,
		},
		"tool, with empty output": {
			&message.Tool{Header: bare(), ToolCallID: "call_1", Content: &empty},
			`{"role":"tool",` + bareHead + `,"tool_call_id":"call_1","parent_message_id":null,"content":"","error":null` + bareTail,
			`{"tool_call_id":"call_1","content":""}`,
		},
		"reasoning": {
			&message.Reasoning{Header: full(), Content: "hm", Signature: "c2ln"},
			`{"role":"reasoning",` + fullHead + `,"content":"hm","signature":"c2ln"` + fullTail,
			`{"content":"hm","signature":"c2ln"` + fullTail,
		},
		"reasoning, opaque": {
			&message.Reasoning{Header: bare(), Signature: "c2ln"},
			`{"role":"reasoning",` + bareHead + `,"content":"","signature":"c2ln"` + bareTail,
			`{"signature":"c2ln"}`,
		},
	}
}

func TestMessagesSurviveThePublicFormAndTheStoredForm(t *testing.T) {
	t.Parallel()
	for name, tt := range forms() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data, err := wire.Marshal(tt.m)
			require.NoError(t, err)
			assert.Equal(t, tt.json, string(data), "public form")
			back, err := message.Unmarshal(data)
			require.NoError(t, err)
			assert.Equal(t, tt.m, back, "after the public form")

			body, err := message.EncodeBody(tt.m)
			require.NoError(t, err)
			assert.Equal(t, tt.body, string(body), "stored form")
			back, err = message.DecodeBody(tt.m.Role(), *tt.m.Head(), body)
			require.NoError(t, err)
			assert.Equal(t, tt.m, back, "after the stored form")
		})
	}
}

func TestDecodeBodyReadsBodiesThatAStoreHasReformatted(t *testing.T) {
	t.Parallel()
	m, err := message.DecodeBody(message.RoleUser, bare(), []byte("{ \"content\" : \"hi\" }\n"))
	require.NoError(t, err)
	assert.Equal(t, &message.User{Header: bare(), Content: []message.Block{message.Text{Value: "hi"}}}, m)
}

func TestConstructorsLeaveTheIDToTheSession(t *testing.T) {
	t.Parallel()
	for _, m := range []message.Message{
		message.NewSystem("a"), message.NewUser("a"), message.NewUserBlocks(), message.NewAssistant("a"),
		message.NewTool("c", "a"), message.NewToolError("c", "a"), message.NewReasoning("a", ""),
	} {
		assert.Zero(t, m.Head().ID, "%T", m)
	}
}

func TestTheTextOfAUserMessageIsItsTextBlocksOneALine(t *testing.T) {
	t.Parallel()
	m := message.NewUserBlocks(message.Text{Value: "look"}, message.Media{Kind: message.Image}, message.Text{Value: "here"})
	assert.Equal(t, "look\nhere", m.Text())
	assert.Empty(t, message.NewUserBlocks().Text())
}

func TestTextConstructorMakesOneTextBlock(t *testing.T) {
	t.Parallel()
	assert.Equal(t, []message.Block{message.Text{Value: "hi"}}, message.NewUser("hi").Content)
}

func TestAFailedResultHasItsErrorAsContent(t *testing.T) {
	t.Parallel()
	m := message.NewToolError("call_1", "no such city")
	assert.Equal(t, "no such city", m.Error)
	assert.Equal(t, "no such city", *m.Content)
}

func TestUnmarshalIsLenientAboutFormNotAboutMeaning(t *testing.T) {
	t.Parallel()
	image := message.Media{Kind: message.Image, Source: message.Source{Type: message.SourceURL, Value: "https://x.test/a"}, MediaType: "image/png"}
	tests := map[string]struct {
		in   string
		want message.Message
	}{
		"plain text is a user's content": {`{"role":"user","content":"hi"}`,
			&message.User{Content: []message.Block{message.Text{Value: "hi"}}}},
		"media may be nested": {`{"role":"user","content":[{"type":"image","value":{"source":{"type":"url","value":"https://x.test/a"},"media_type":"image/png"}}]}`,
			&message.User{Content: []message.Block{image}}},
		"media may be flat": {`{"role":"user","content":[{"type":"image","source":{"type":"url","value":"https://x.test/a"},"media_type":"image/png"}]}`,
			&message.User{Content: []message.Block{image}}},
		"unknown fields are ignored": {`{"role":"system","content":"a","x":{"role":"user"},"y":[1,[2]]}`,
			&message.System{Content: "a"}},
		"null ids are no ids": {`{"role":"system","content":"a","id":null,"session_id":null,"run_id":null,"checkpoint_id":null,"created_at":null,"name":null,"metadata":null}`,
			&message.System{Content: "a"}},
		"any spelling of a UUID": {`{"role":"system","content":"a","id":"{0000000000004000-8000-00000000000A}"}`, nil},
		"a UUID without hyphens": {`{"role":"system","content":"a","id":"0000000000004000800000000000000A"}`,
			&message.System{Header: message.Header{ID: id2}, Content: "a"}},
		"a UUID as URN": {`{"role":"system","content":"a","id":"urn:uuid:00000000-0000-4000-8000-00000000000A"}`,
			&message.System{Header: message.Header{ID: id2}, Content: "a"}},
		"a UUID in braces": {`{"role":"system","content":"a","id":"{00000000-0000-4000-8000-00000000000A}"}`,
			&message.System{Header: message.Header{ID: id2}, Content: "a"}},
		"times are turned to UTC": {`{"role":"system","content":"a","created_at":"2026-03-04T07:06:07.25+02:00"}`,
			&message.System{Header: message.Header{CreatedAt: full().CreatedAt}, Content: "a"}},
		"the last of repeated keys wins": {`{"role":"user","role":"system","content":1,"content":"a"}`,
			&message.System{Content: "a"}},
		"escaped keys":              {`{"r\u006fle":"system","content":"a"}`, &message.System{Content: "a"}},
		"lone surrogates":           {`{"role":"system","content":"\ud800"}`, &message.System{Content: "\ufffd"}},
		"NUL":                       {`{"role":"system","content":"\u0000"}`, &message.System{Content: "\x00"}},
		"calls without arguments":   {`{"role":"assistant","tool_calls":[{"id":"a","name":"b"}]}`, &message.Assistant{ToolCalls: []message.ToolCall{{ID: "a", Name: "b"}}}},
		"calls may be null":         {`{"role":"assistant","content":null,"tool_calls":null}`, &message.Assistant{}},
		"arguments are any JSON":    {`{"role":"assistant","tool_calls":[{"id":"a","name":"b","arguments":[ 9007199254740993 , "\udc00" ]}]}`, &message.Assistant{ToolCalls: []message.ToolCall{{ID: "a", Name: "b", Arguments: json.RawMessage(`[9007199254740993,"\ufffd"]`)}}}},
		"brackets and quotes in it": {`{"x":"]}\"{[","role":"system","content":"\"}\\"}`, &message.System{Content: `"}\`}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := message.Unmarshal([]byte(tt.in))
			if tt.want == nil {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tt.want, got)
		})
	}
}

func TestUnmarshalNamesTheFieldThatIsWrong(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		`[]`:                               "message: must be an object",
		`{}`:                               "message: role: is missing",
		`{"role":1}`:                       "message: role: must be a string",
		`{"role":"robot"}`:                 `message: role: unknown role "robot"`,
		`{"role":"system"}`:                "message: content: is missing",
		`{"role":"system","content":null}`: "message: content: must be a string",
		`{"role":"user","content":1}`:      "message: content: must be an array",
		`{"role":"user"}`:                  "message: content: is missing",
		`{"role":"user","content":["a"]}`:  "message: content[0]: must be an object",
		`{"role":"user","content":[{"type":"text","value":"a"},{"type":"text"}]}`:           "message: content[1].value: is missing",
		`{"role":"user","content":[{"type":"poem"}]}`:                                       "message: content[0].type: must be text, image, audio, video or document",
		`{"role":"user","content":[{"type":"image"}]}`:                                      "message: content[0].source: is missing",
		`{"role":"user","content":[{"type":"image","source":"a"}]}`:                         "message: content[0].source: must be an object",
		`{"role":"user","content":[{"type":"image","source":{"type":"x"}}]}`:                "message: content[0].source.type: must be url or base64",
		`{"role":"user","content":[{"type":"image","source":{"type":"url"}}]}`:              "message: content[0].source.value: is missing",
		`{"role":"user","content":[{"type":"image","source":{"type":"url","value":"a"}}]}`:  "message: content[0].media_type: is missing",
		`{"role":"assistant","content":1}`:                                                  "message: content: must be a string",
		`{"role":"assistant","tool_calls":{}}`:                                              "message: tool_calls: must be an array",
		`{"role":"assistant","tool_calls":[1]}`:                                             "message: tool_calls[0]: must be an object",
		`{"role":"assistant","tool_calls":[{"id":"a","name":null}]}`:                        "message: tool_calls[0].name: must be a string",
		`{"role":"tool","content":"a"}`:                                                     "message: tool_call_id: is missing",
		`{"role":"tool","tool_call_id":"a","parent_message_id":"a"}`:                        "message: parent_message_id: must be a UUID",
		`{"role":"tool","tool_call_id":"a","content":{}}`:                                   "message: content: must be a string",
		`{"role":"tool","tool_call_id":"a","error":{}}`:                                     "message: error: must be a string",
		`{"role":"reasoning","content":"a","signature":1}`:                                  "message: signature: must be a string",
		`{"role":"system","content":"a","id":""}`:                                           "message: id: must be a UUID",
		`{"role":"system","content":"a","session_id":1}`:                                    "message: session_id: must be a UUID",
		`{"role":"system","content":"a","created_at":"now"}`:                                "message: created_at: must be an RFC 3339 time",
		`{"role":"system","content":"a","created_at":"9999-12-31T23:59:59-01:00"}`:          "message: created_at: must be an RFC 3339 time",
		`{"role":"system","content":"a","name":1}`:                                          "message: name: must be a string",
		`{"role":"system","content":"a","metadata":[]}`:                                     "message: metadata: must be an object",
		`{"role":"system","content":"a"`:                                                    "message: wire: invalid JSON at byte 30",
		"{\"role\":\"system\",\"content\":\"\xff\"}":                                        "message: wire: invalid UTF-8 at byte 28",
		`{"role":"system","x":` + strings.Repeat("[", 512) + strings.Repeat("]", 512) + `}`: "message: wire: more than 512 nested containers at byte 532",
	}
	for in, want := range tests {
		m, err := message.Unmarshal([]byte(in))
		assert.Nil(t, m, in)
		assert.EqualError(t, err, want, in)
	}
}

func TestWhatCannotBeDecodedIsNotEncoded(t *testing.T) {
	t.Parallel()
	tests := map[string]message.Message{
		"nil":                     nil,
		"metadata, broken":        &message.System{Header: message.Header{Metadata: json.RawMessage(`{`)}},
		"metadata, not an object": &message.System{Header: message.Header{Metadata: json.RawMessage(`[]`)}},
		"arguments, broken":       message.NewAssistant("", message.ToolCall{ID: "a", Arguments: json.RawMessage(`{"a":`)}),
		"no block":                message.NewUserBlocks(nil),
		"unknown kind":            message.NewUserBlocks(message.Media{Source: message.Source{Type: message.SourceURL}}),
		"unknown source":          message.NewUserBlocks(message.Media{Kind: message.Image}),
	}
	for name, m := range tests {
		_, err := message.EncodeBody(m)
		require.Error(t, err, name)
	}
	_, err := wire.Marshal(&message.System{Header: message.Header{CreatedAt: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}})
	require.ErrorContains(t, err, "year 10000")
}

func TestTimesArePrintedInUTC(t *testing.T) {
	t.Parallel()
	m := &message.System{Header: bare()}
	m.CreatedAt = m.CreatedAt.In(time.FixedZone("", 2*60*60))
	data, err := wire.Marshal(m)
	require.NoError(t, err)
	assert.Equal(t, `{"role":"system",`+bareHead+`,"content":"","name":null,"metadata":null}`, string(data))
}

func TestListsDecodeAndPrintEveryRole(t *testing.T) {
	t.Parallel()
	var in message.List
	for _, tt := range forms() {
		in = append(in, tt.m)
	}
	data, err := wire.Marshal(in)
	require.NoError(t, err)
	var out message.List
	require.NoError(t, json.Unmarshal(data, &out))
	assert.Equal(t, in, out)

	data, err = wire.Marshal(struct{ L message.List }{})
	require.NoError(t, err)
	assert.Equal(t, `{"L":[]}`, string(data))
	require.NoError(t, json.Unmarshal([]byte(" [ ] "), &out))
	assert.Empty(t, out)
}

func TestListsNameTheMessageThatIsWrong(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		`{}`:                               "message: must be an array",
		`[{"role":"user","content":[1]}]`:  "message: [0].content[0]: must be an object",
		`[{"role":"user","content":[]},1]`: "message: [1]: must be an object",
		`[{"role":"robot"}]`:               `message: [0].role: unknown role "robot"`,
	}
	for in, want := range tests {
		var l message.List
		assert.EqualError(t, l.UnmarshalJSON([]byte(in)), want, in)
	}
}

func TestAMessageDecodesOnlyItsOwnRole(t *testing.T) {
	t.Parallel()
	var m message.User
	require.NoError(t, json.Unmarshal([]byte(`{"role":"user","content":"a"}`), &m))
	assert.Equal(t, []message.Block{message.Text{Value: "a"}}, m.Content)
	require.EqualError(t, json.Unmarshal([]byte(`{"role":"system","content":"b"}`), &m), "message: role: must be user")
	assert.Equal(t, []message.Block{message.Text{Value: "a"}}, m.Content, "after the error")
}

func TestDecodedMessagesDoNotShareTheInput(t *testing.T) {
	t.Parallel()
	data := []byte(`{"role":"assistant","tool_calls":[{"id":"a","name":"b","arguments":{"c":1}}],"metadata":{"d":2}}`)
	m, err := message.Unmarshal(data)
	require.NoError(t, err)
	clear(data)
	assert.Equal(t, `{"c":1}`, string(m.(*message.Assistant).ToolCalls[0].Arguments))
	assert.Equal(t, `{"d":2}`, string(m.Head().Metadata))
}

func FuzzUnmarshal(f *testing.F) {
	for _, tt := range forms() {
		f.Add([]byte(tt.json))
	}
	f.Add([]byte(`{"role":"user","content":"\ud800"}`))
	f.Add([]byte(`{"role":"user","content":[{"type":"image","value":{"source":{"type":"url","value":"a"},"media_type":"b"}}]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		m, err := message.Unmarshal(in)
		if err != nil {
			if m != nil {
				t.Fatalf("%v beside %v", m, err)
			}
			return
		}
		first, err := wire.Marshal(m)
		require.NoError(t, err)
		again, err := message.Unmarshal(first)
		require.NoError(t, err)
		second, err := wire.Marshal(again)
		require.NoError(t, err)
		require.Equal(t, string(first), string(second))

		body, err := message.EncodeBody(m)
		require.NoError(t, err)
		stored, err := message.DecodeBody(m.Role(), *m.Head(), body)
		require.NoError(t, err)
		third, err := wire.Marshal(stored)
		require.NoError(t, err)
		require.Equal(t, string(first), string(third))
	})
}

// FuzzBody checks that any text survives the stored form, and that it is quoted as encoding/json does it.
func FuzzBody(f *testing.F) {
	f.Add("", "", []byte(nil))
	f.Add("a<b>&\"\\\n\x00\x7f\u2028\u2029é😀", "x", []byte(`{"a": 1E2}`))
	f.Add(`\"\\\/\b\f\n\r\t\u00e9\ud83d\uDE00\ud800\u0000`, "", []byte("1"))
	f.Add("\xff\xed\xa0\x80", "\xc3", []byte(`{"\ud800":[]}`))
	f.Fuzz(func(t *testing.T, text, other string, raw []byte) {
		h := message.Header{Name: other, Metadata: raw}
		for _, m := range []message.Message{
			&message.System{Header: h, Content: text},
			&message.User{Header: h, Content: []message.Block{message.Text{Value: text}}},
			&message.User{Header: h, Content: []message.Block{message.Text{Value: text}, message.Text{Value: other}}},
			&message.Assistant{Header: h, Content: text, ToolCalls: []message.ToolCall{{ID: other, Name: text, Arguments: raw}}},
			&message.Tool{Header: h, ToolCallID: other, Content: &text, Error: other},
			&message.Reasoning{Header: h, Content: text, Signature: other},
		} {
			body, err := message.EncodeBody(m)
			if err != nil {
				continue // raw is not an object
			}
			back, err := message.DecodeBody(m.Role(), message.Header{}, body)
			require.NoError(t, err, "%s", body)
			again, err := message.EncodeBody(back)
			require.NoError(t, err)
			// Not the same bytes: what was no UTF-8 is an escape the first time and a character from then on.
			same, err := message.DecodeBody(m.Role(), message.Header{}, again)
			require.NoError(t, err, "%s", again)
			require.Equal(t, back, same)
			require.Equal(t, strings.ToValidUTF8(other, "\ufffd") == "", back.Head().Name == "")
		}
		// The text taken for the inside of a JSON string: whatever it says, encoding/json reads the same.
		inside := []byte(`{"content":"` + text + `"}`)
		if m, err := message.DecodeBody(message.RoleSystem, message.Header{}, inside); err == nil {
			var want map[string]any
			require.NoError(t, json.Unmarshal(inside, &want))
			if want, ok := want["content"].(string); ok {
				require.Equal(t, want, m.(*message.System).Content)
			}
		}
		body, err := message.EncodeBody(&message.System{Content: "x" + text})
		require.NoError(t, err)
		want, err := wire.Marshal(map[string]string{"content": "x" + text})
		require.NoError(t, err)
		require.Equal(t, string(want), string(body))
	})
}

func FuzzDecodeBody(f *testing.F) {
	for _, tt := range forms() {
		f.Add(string(tt.m.Role()), []byte(tt.body))
	}
	f.Fuzz(func(t *testing.T, role string, body []byte) {
		m, err := message.DecodeBody(message.Role(role), message.Header{}, body)
		if err != nil {
			return
		}
		_, err = message.EncodeBody(m)
		require.NoError(t, err)
	})
}

func BenchmarkBody(b *testing.B) {
	text := "9 degrees and rain in Oslo, so yes: take an umbrella.\nAnd a coat."
	for _, m := range []message.Message{
		message.NewUser(text),
		message.NewAssistant("I look.", message.ToolCall{ID: "call_1", Name: "weather", Arguments: json.RawMessage(`{"city":"Oslo"}`)}),
		&message.Tool{ToolCallID: "call_1", ParentMessageID: id1, Content: &text, Header: message.Header{Name: "weather"}},
	} {
		body, err := message.EncodeBody(m)
		require.NoError(b, err)
		b.Run("encode "+string(m.Role()), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = message.EncodeBody(m)
			}
		})
		b.Run("decode "+string(m.Role()), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = message.DecodeBody(m.Role(), *m.Head(), body)
			}
		})
	}
}
