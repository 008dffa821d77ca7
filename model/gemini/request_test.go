package gemini_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/message"
)

func call(id, name, args string) message.ToolCall {
	return message.ToolCall{ID: id, Name: name, Arguments: json.RawMessage(args)}
}

func media(kind message.MediaKind, mime string, from message.SourceType, value string) message.Media {
	return message.Media{Kind: kind, MediaType: mime, Source: message.Source{Type: from, Value: value}}
}

func conversation(msgs ...message.Message) message.Request { return message.Request{Messages: msgs} }

func TestWhatIsSent(t *testing.T) {
	t.Parallel()
	weather := message.ToolSpec{
		Name: "weather", Description: "Current weather.",
		Parameters: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string","maxLength":9007199254740993}}}`),
	}
	hello := message.NewUser("Hello.")
	for _, test := range []struct {
		name string
		req  message.Request
		want string
	}{
		{"a text", conversation(hello), `{"contents":[{"role":"user","parts":[{"text":"Hello."}]}]}`},
		{
			"a system text",
			message.Request{System: "Be brief.\nBe kind.", Messages: []message.Message{hello}},
			`{"systemInstruction":{"parts":[{"text":"Be brief.\nBe kind."}]},"contents":[{"role":"user","parts":[{"text":"Hello."}]}]}`,
		},
		{
			"turns",
			conversation(hello, message.NewAssistant("Hi."), message.NewUser("Rain?"), message.NewUser("Today?")),
			`{"contents":[
				{"role":"user","parts":[{"text":"Hello."}]},
				{"role":"model","parts":[{"text":"Hi."}]},
				{"role":"user","parts":[{"text":"Rain?"}]},
				{"role":"user","parts":[{"text":"Today?"}]}]}`,
		},
		{
			"media",
			conversation(message.NewUserBlocks(
				message.Text{Value: "Look:"},
				media(message.Image, "image/png", message.SourceBase64, "aW1n"),
				media(message.Audio, "audio/wav", message.SourceBase64, "d2F2"),
				media(message.Video, "video/mp4", message.SourceURL, "https://example.com/a.mp4"),
				media(message.Document, "application/pdf", message.SourceURL, "gs://bucket/a.pdf"),
			)),
			`{"contents":[{"role":"user","parts":[
				{"text":"Look:"},
				{"inlineData":{"mimeType":"image/png","data":"aW1n"}},
				{"inlineData":{"mimeType":"audio/wav","data":"d2F2"}},
				{"fileData":{"mimeType":"video/mp4","fileUri":"https://example.com/a.mp4"}},
				{"fileData":{"mimeType":"application/pdf","fileUri":"gs://bucket/a.pdf"}}]}]}`,
		},
		{
			"nothing empty",
			conversation(message.NewUserBlocks(), hello, message.NewUserBlocks(message.Text{}, message.Text{Value: "You?"})),
			`{"contents":[{"role":"user","parts":[{"text":"Hello."}]},{"role":"user","parts":[{"text":"You?"}]}]}`,
		},
		{
			"calls and their results",
			conversation(
				hello,
				message.NewAssistant("Let me see.", call("a", "weather", `{"n":9007199254740993}`), call("b", "time", ``), call("c", "weather", `"half {"`), call("d", "weather", `nonsense`)),
				message.NewTool("a", `{"temperature":9007199254740993}`), message.NewTool("b", "noon"), message.NewToolError("c", "no such city"), message.NewTool("d", "[1]"),
			),
			`{"contents":[
				{"role":"user","parts":[{"text":"Hello."}]},
				{"role":"model","parts":[
					{"text":"Let me see."},
					{"functionCall":{"id":"a","name":"weather","args":{"n":9007199254740993}}},
					{"functionCall":{"id":"b","name":"time","args":{}}},
					{"functionCall":{"id":"c","name":"weather","args":{"arguments":"half {"}}},
					{"functionCall":{"id":"d","name":"weather","args":{"arguments":"nonsense"}}}]},
				{"role":"user","parts":[
					{"functionResponse":{"id":"a","name":"weather","response":{"output":{"temperature":9007199254740993}}}},
					{"functionResponse":{"id":"b","name":"time","response":{"output":"noon"}}},
					{"functionResponse":{"id":"c","name":"weather","response":{"error":"no such city"}}},
					{"functionResponse":{"id":"d","name":"weather","response":{"output":"[1]"}}}]}]}`,
		},
		{
			"signatures",
			conversation(
				hello, message.NewReasoning("A summary.", ""), message.NewReasoning("Hm.", "dA=="), message.NewReasoning("", "text:3-4:dGV4dA=="),
				message.NewReasoning("", "call:1:Y2FsbA=="), message.NewReasoning("", "call:7:bm93aGVyZQ=="), message.NewReasoning("", "text:2-5:b3Zlcmxhcw=="), message.NewReasoning("", "text:90-99:bm93aGVyZQ=="),
				message.NewAssistant("So be it.", call("a", "f", `{}`), call("b", "f", `{}`)), message.NewTool("a", "1"), message.NewTool("b", "2"),
			),
			`{"contents":[
				{"role":"user","parts":[{"text":"Hello."}]},
				{"role":"model","parts":[
					{"text":"Hm.","thought":true,"thoughtSignature":"dA=="},
					{"text":"So "},{"text":"b","thoughtSignature":"dGV4dA=="},{"text":"e it."},
					{"functionCall":{"id":"a","name":"f","args":{}}},
					{"functionCall":{"id":"b","name":"f","args":{}},"thoughtSignature":"Y2FsbA=="}]},
				{"role":"user","parts":[
					{"functionResponse":{"id":"a","name":"f","response":{"output":"1"}}},
					{"functionResponse":{"id":"b","name":"f","response":{"output":"2"}}}]}]}`,
		},
		{
			"tools",
			message.Request{Messages: []message.Message{hello}, Tools: []message.ToolSpec{weather, {Name: "time"}}},
			`{"contents":[{"role":"user","parts":[{"text":"Hello."}]}],"tools":[{"functionDeclarations":[
				{"name":"weather","description":"Current weather.",
				 "parametersJsonSchema":{"type":"object","properties":{"city":{"type":"string","maxLength":9007199254740993}}}},
				{"name":"time"}]}]}`,
		},
		{
			"parameters",
			message.Request{Messages: []message.Message{hello}, Params: message.Params{
				MaxTokens: new(uint64(100)), Temperature: new(0.7), TopP: new(0.9), TopK: new(uint32(40)), StopSequences: []string{"END"},
				FrequencyPenalty: new(0.1), PresencePenalty: new(-0.2), Seed: new(uint64(2147483647)),
			}},
			`{"contents":[{"role":"user","parts":[{"text":"Hello."}]}],"generationConfig":{
				"maxOutputTokens":100,"temperature":0.7,"topP":0.9,"topK":40,"stopSequences":["END"],
				"frequencyPenalty":0.1,"presencePenalty":-0.2,"seed":2147483647}}`,
		},
		{
			"an output schema",
			message.Request{Messages: []message.Message{hello}, Output: json.RawMessage(`{"type":"object"}`)},
			`{"contents":[{"role":"user","parts":[{"text":"Hello."}]}],
				"generationConfig":{"responseMimeType":"application/json","responseJsonSchema":{"type":"object"}}}`,
		},
		{
			"a cache",
			message.Request{Messages: []message.Message{hello}, Params: message.Params{ProviderParams: json.RawMessage(`{"cachedContent":"cachedContents/7"}`)}},
			`{"contents":[{"role":"user","parts":[{"text":"Hello."}]}],"cachedContent":"cachedContents/7"}`,
		},
		{
			"the provider's own parameters",
			message.Request{Messages: []message.Message{hello}, Tools: []message.ToolSpec{{Name: "time"}}, Params: message.Params{
				Temperature: new(0.7), TopP: new(0.5),
				ProviderParams: json.RawMessage(`{
					"generationConfig":{"temperature":1,"thinkingConfig":{"includeThoughts":true,"thinkingBudget":9007199254740993}},
					"safetySettings":[{"category":"HARM_CATEGORY_HARASSMENT","threshold":"BLOCK_NONE"}],
					"tools":[{"googleSearch":{}}]}`),
			}},
			`{"contents":[{"role":"user","parts":[{"text":"Hello."}]}],
				"tools":[{"functionDeclarations":[{"name":"time"}]},{"googleSearch":{}}],
				"generationConfig":{"temperature":1,"topP":0.5,"thinkingConfig":{"includeThoughts":true,"thinkingBudget":9007199254740993}},
				"safetySettings":[{"category":"HARM_CATEGORY_HARASSMENT","threshold":"BLOCK_NONE"}]}`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := serve(t, stream(finish("STOP")))
			test.req.Model = "gemini-3-pro"
			_, err := message.Collect(f.model(t).Generate(t.Context(), &test.req))
			require.NoError(t, err)
			require.Equal(t, normal(t, test.want), normal(t, f.body(t)))
		})
	}
}

// normal returns JSON with its members in order and the digits of its numbers.
func normal(t *testing.T, text string) string {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	require.NoError(t, d.Decode(&v))
	data, err := json.MarshalIndent(v, "", "  ")
	require.NoError(t, err)
	return string(data)
}

func TestTheSameRequestHasTheSameBytes(t *testing.T) {
	t.Parallel()
	f := serve(t, stream(finish("STOP")))
	m := f.model(t)
	for range 3 {
		req := greeting()
		req.Params.ProviderParams = json.RawMessage(`{"b":{"d":1,"c":2},"a":1,"generationConfig":{"y":1,"x":2}}`)
		_, err := message.Collect(m.Generate(t.Context(), req))
		require.NoError(t, err)
	}
	assert.Equal(t, f.bodies[0], f.bodies[1])
	assert.Equal(t, f.bodies[1], f.bodies[2])
}

func TestWhatCannotBeTakenIsNotSent(t *testing.T) {
	t.Parallel()
	with := func(b message.Block) message.Request {
		return conversation(message.NewUser("Look."), message.NewUserBlocks(message.Text{Value: "Here:"}, b))
	}
	params := func(p message.Params) message.Request {
		return message.Request{Messages: []message.Message{message.NewUser("Hello.")}, Params: p}
	}
	for _, test := range []struct {
		req  message.Request
		kind error
		text string
	}{
		{with(media(message.Image, "", message.SourceBase64, "aW1n")), message.ErrUnsupported,
			"gemini: turn 1, block 1: message: unsupported by the model: image without a media type"},
		{with(media(message.Image, "image/png", message.SourceURL, "file:///etc/passwd")), message.ErrUnsupported,
			"gemini: turn 1, block 1: message: unsupported by the model: image by a URL that is neither https, http nor gs"},
		{with(media("hologram", "model/stl", message.SourceBase64, "aW1n")), message.ErrUnsupported,
			"gemini: turn 1, block 1: message: unsupported by the model: hologram blocks"},
		{with(media(message.Audio, "audio/wav", "tape", "x")), message.ErrUnsupported,
			`gemini: turn 1, block 1: message: unsupported by the model: audio from a source of type "tape"`},
		{params(message.Params{Seed: new(uint64(2147483648))}), message.ErrUnsupported,
			"gemini: message: unsupported by the model: seed 2147483648 is more than 2147483647"},
		{params(message.Params{MaxTokens: new(uint64(1 << 40))}), message.ErrUnsupported,
			"gemini: message: unsupported by the model: max_tokens 1099511627776 is more than 2147483647"},
		{params(message.Params{ProviderParams: json.RawMessage(`[1]`)}), message.ErrInvalidRequest,
			"gemini: message: invalid request: provider_params: json: cannot unmarshal array into Go value of type map[string]json.RawMessage"},
		{params(message.Params{ProviderParams: json.RawMessage(`{"contents":[]}`)}), message.ErrInvalidRequest,
			`gemini: message: invalid request: provider_params: "contents" may not be set`},
		{params(message.Params{ProviderParams: json.RawMessage(`{"systemInstruction":{}}`)}), message.ErrInvalidRequest,
			`gemini: message: invalid request: provider_params: "systemInstruction" may not be set`},
		{params(message.Params{ProviderParams: json.RawMessage(`{"system_instruction":{}}`)}), message.ErrInvalidRequest,
			`gemini: message: invalid request: provider_params: "system_instruction" may not be set`},
		{conversation(message.NewUser("Hello."), message.NewTool("a", "")), message.ErrInvalidRequest,
			"gemini: message: invalid request: message 1 does not fit; see WellFormed"},
		{conversation(message.NewUserBlocks()), message.ErrInvalidRequest,
			"gemini: message: invalid request: the conversation is empty"},
	} {
		f := serve(t, stream(finish("STOP")))
		test.req.Model = "gemini-3-pro"
		_, err := message.Collect(f.model(t).Generate(t.Context(), &test.req))
		require.ErrorIs(t, err, test.kind)
		assert.EqualError(t, err, test.text)
		assert.Nil(t, transient(err))
		assert.Empty(t, f.bodies)
	}
}
