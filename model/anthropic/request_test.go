package anthropic_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/model/anthropic"
)

var update = flag.Bool("update", false, "write testdata")

var weather = message.ToolSpec{
	Name: "weather", Description: "Current weather.",
	Parameters: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer","maximum":9007199254740993}},"required":["city"]}`),
}

func image(source message.SourceType, value, mediaType string) message.Media {
	return message.Media{Kind: message.Image, Source: message.Source{Type: source, Value: value}, MediaType: mediaType}
}

func document(source message.SourceType, value, mediaType string) message.Media {
	return message.Media{Kind: message.Document, Source: message.Source{Type: source, Value: value}, MediaType: mediaType}
}

func call(id, arguments string) message.ToolCall {
	return message.ToolCall{ID: id, Name: "weather", Arguments: json.RawMessage(arguments)}
}

// everything is a conversation with every kind of turn.
func everything() *message.Request {
	return &message.Request{
		Model:  "claude-sonnet-4-5",
		System: "You are brief.",
		Messages: []message.Message{
			message.NewUser("Oslo and Bergen?"),
			message.NewReasoning("Two calls.", "sealed"),
			message.NewReasoning("", "redacted_thinking:opaque"),
			message.NewAssistant("Let me see.", call("a", `{"city":"Oslo"}`), call("b", `{"city":"Bergen"}`)),
			message.NewTool("a", "rain"),
			message.NewToolError("b", "no such city"),
			message.NewUser("Well?"),
			message.NewUserBlocks(message.Text{Value: "And here?"}, image(message.SourceBase64, "aGk=", "image/png")),
		},
		Tools: []message.ToolSpec{weather, {Name: "now"}},
	}
}

// TestRequest compares what reaches the server with testdata/requests, byte by byte but for white space.
func TestRequest(t *testing.T) {
	params := func(p message.Params) *message.Request {
		r := hello()
		r.Params = p
		return r
	}
	conversation := func(messages ...message.Message) *message.Request {
		r := hello()
		r.Messages = messages
		return r
	}
	output := hello()
	output.Output = json.RawMessage(`{"type":"object","properties":{"b":{"type":"integer"},"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`)
	effort := *output
	effort.Params.ProviderParams = json.RawMessage(`{"output_config":{"effort":"low"}}`)

	for _, c := range []struct {
		name    string
		request *message.Request
		options anthropic.Options
		version string // of the API, if it is not the SDK's
	}{
		{name: "text", request: hello()},
		{name: "everything", request: everything()},
		{name: "cached", request: everything(), options: anthropic.Options{CacheControl: true}},
		{name: "cached_text", request: hello(), options: anthropic.Options{CacheControl: true}},
		{name: "media", request: conversation(message.NewUserBlocks(
			image(message.SourceURL, "https://example.com/a.png", "image/png"),
			image(message.SourceBase64, "aGk=", "image/JPG"),
			document(message.SourceURL, "https://example.com/a.pdf", "application/pdf"),
			document(message.SourceBase64, "aGk=", "application/pdf"),
		))},
		{name: "thinking", request: conversation(
			message.NewUser("One?"),
			message.NewReasoning("Unsigned.", ""),
			message.NewReasoning("", "sealed without text"),
			message.NewReasoning("Told.", "redacted_thinking:not by us"),
			message.NewAssistant("Two."),
			message.NewUser("Three?"),
		)},
		{name: "blanks", request: conversation(
			message.NewUser("One?"),
			message.NewReasoning("Nothing to say.", "sealed"),
			message.NewAssistant(" \n"),
			message.NewUserBlocks(message.Text{}, message.Text{Value: "Two?"}),
			message.NewAssistant("", call("a", "")),
			message.NewTool("a", ""),
		)},
		{name: "assistants_merge", request: conversation(
			message.NewUser("One?"), message.NewAssistant("One."), message.NewAssistant("Two."), message.NewUser("Three?"),
		)},
		{name: "odd_calls", request: conversation(
			message.NewUser("One?"),
			message.NewAssistant("", call("functions.weather:0", `"{\"city\": "`), call("b", `{"n":9007199254740993,"html":"<a&b>"}`)),
			message.NewTool("functions.weather:0", "rain"),
			message.NewTool("b", "<b>& \"quotes\"\u2028"),
		)},
		{name: "params", version: "2023-06-01", request: params(message.Params{
			MaxTokens: new(uint64(100)), Temperature: new(0.7), TopP: new(0.9), TopK: new(uint32(40)), StopSequences: []string{"END"},
		})},
		{name: "params_empty", request: params(message.Params{StopSequences: []string{}, ProviderParams: json.RawMessage(`{}`)})},
		{name: "params_huge", request: params(message.Params{MaxTokens: new(^uint64(0))})},
		{name: "max_tokens", request: hello(), options: anthropic.Options{MaxTokens: 100}},
		{name: "provider_params", request: params(message.Params{
			MaxTokens: new(uint64(100)),
			ProviderParams: json.RawMessage(`{"thinking":{"type":"enabled","budget_tokens":2048},"max_tokens":8000,
				"tool_choice":{"type":"any"},"metadata":{"user_id":"9007199254740993"},"odd.name":9007199254740993}`),
		})},
		{name: "output", request: output},
		{name: "output_with_effort", request: &effort},
	} {
		t.Run(c.name, func(t *testing.T) {
			fake := serve(t, events(stream(message.Reply{})...))
			_, err := message.Collect(fake.with(c.options).Generate(t.Context(), c.request))
			require.NoError(t, err)
			var got bytes.Buffer
			require.NoError(t, json.Indent(&got, fake.body, "", "  "))
			got.WriteByte('\n')
			file := filepath.Join("testdata", "requests", c.name+".json")
			if *update {
				require.NoError(t, os.WriteFile(file, got.Bytes(), 0o644))
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, string(want), got.String())
			require.Equal(t, "application/json", fake.header.Get("Content-Type"))
			if c.version != "" {
				require.Equal(t, c.version, fake.header.Get("Anthropic-Version"))
			} else {
				require.NotEqual(t, "2023-06-01", fake.header.Get("Anthropic-Version"))
			}
		})
	}
}

func TestTheSameRequestIsTheSameBytes(t *testing.T) {
	fake := serve(t, events(stream(message.Reply{})...))
	request := everything()
	request.Params = message.Params{Temperature: new(1.0), TopK: new(uint32(1)), ProviderParams: json.RawMessage(`{"a":1,"b":2,"c":3,"d":4}`)}
	_, err := message.Collect(fake.model().Generate(t.Context(), request))
	require.NoError(t, err)
	first := fake.body
	for range 8 {
		_, err := message.Collect(fake.model().Generate(t.Context(), request))
		require.NoError(t, err)
		require.Equal(t, string(first), string(fake.body))
	}
}

func TestTheKeyIsSent(t *testing.T) {
	t.Run("of the options", func(t *testing.T) {
		fake := serve(t, events(stream(message.Reply{})...))
		_, err := say(t, fake.model())
		require.NoError(t, err)
		require.Contains(t, fake.header.Get("Authorization")+fake.header.Get("X-Api-Key"), key)
	})
	t.Run("of the environment", func(t *testing.T) {
		t.Setenv("ANTHROPIC_API_KEY", "from the environment")
		fake := serve(t, events(stream(message.Reply{})...))
		t.Setenv("ANTHROPIC_BASE_URL", fake.URL)
		_, err := say(t, anthropic.New(nil))
		require.NoError(t, err)
		require.Contains(t, fake.header.Get("Authorization")+fake.header.Get("X-Api-Key"), "from the environment")
	})
}

// TestRefusedHere lists requests that are never sent.
func TestRefusedHere(t *testing.T) {
	media := func(kind message.MediaKind, mediaType string) []message.Message {
		source := message.Source{Type: message.SourceBase64, Value: "aGk="}
		return []message.Message{message.NewUserBlocks(message.Media{Kind: kind, Source: source, MediaType: mediaType})}
	}
	for _, c := range []struct {
		name   string
		change func(*message.Request)
		kind   error
		text   string
	}{
		{"audio", func(r *message.Request) { r.Messages = media(message.Audio, "audio/wav") }, message.ErrUnsupported, `audio of type "audio/wav"`},
		{"video", func(r *message.Request) { r.Messages = media(message.Video, "video/mp4") }, message.ErrUnsupported, `video of type "video/mp4"`},
		{"an image of another type", func(r *message.Request) { r.Messages = media(message.Image, "image/tiff") }, message.ErrUnsupported, `image of type "image/tiff"`},
		{"a document of another type", func(r *message.Request) { r.Messages = media(message.Document, "text/csv") }, message.ErrUnsupported, `document of type "text/csv"`},
		{"a linked document of another type", func(r *message.Request) {
			r.Messages = []message.Message{message.NewUserBlocks(document(message.SourceURL, "https://example.com", "text/html"))}
		}, message.ErrUnsupported, `document of type "text/html"`},
		{"a frequency penalty", func(r *message.Request) { r.Params.FrequencyPenalty = new(0.5) }, message.ErrUnsupported, "frequency_penalty"},
		{"a presence penalty", func(r *message.Request) { r.Params.PresencePenalty = new(0.5) }, message.ErrUnsupported, "presence_penalty"},
		{"a seed", func(r *message.Request) { r.Params.Seed = new(uint64(7)) }, message.ErrUnsupported, "there is no parameter seed"},
		{"nothing to answer", func(r *message.Request) { r.Messages = nil }, message.ErrInvalidRequest, ""},
		{"a blank question", func(r *message.Request) { r.Messages = []message.Message{message.NewUser(" ")} }, message.ErrInvalidRequest, "blank"},
		{"a blank question after an answer", func(r *message.Request) {
			r.Messages = append(r.Messages, message.NewAssistant("Hi."), message.NewUser(""))
		}, message.ErrInvalidRequest, "blank"},
		{"a history that is not well formed", func(r *message.Request) { r.Messages = append(r.Messages, message.NewTool("a", "")) }, message.ErrInvalidRequest, ""},
		{"provider_params that are no object", func(r *message.Request) { r.Params.ProviderParams = json.RawMessage(`[]`) }, message.ErrInvalidRequest, "provider_params"},
		{"another model by provider_params", func(r *message.Request) { r.Params.ProviderParams = json.RawMessage(`{"model":"claude-opus"}`) }, message.ErrInvalidRequest, `"model"`},
		{"another prompt by provider_params", func(r *message.Request) { r.Params.ProviderParams = json.RawMessage(`{"system":"Obey."}`) }, message.ErrInvalidRequest, `"system"`},
		{"a nameless provider_param", func(r *message.Request) { r.Params.ProviderParams = json.RawMessage(`{"":1}`) }, message.ErrInvalidRequest, `""`},
	} {
		t.Run(c.name, func(t *testing.T) {
			fake := serve(t, events(stream(message.Reply{})...))
			request := hello()
			c.change(request)
			_, err := message.Collect(fake.model().Generate(t.Context(), request))
			require.ErrorIs(t, err, c.kind)
			require.ErrorContains(t, err, c.text)
			_, transient := asTransient(err)
			require.False(t, transient)
			require.Nil(t, fake.body, "it was sent")
		})
	}
	t.Run("without a key", func(t *testing.T) {
		t.Setenv("ANTHROPIC_API_KEY", "")
		_, err := say(t, anthropic.New(nil))
		require.ErrorIs(t, err, message.ErrUnauthorized)
		require.ErrorContains(t, err, "ANTHROPIC_API_KEY")
	})
}
