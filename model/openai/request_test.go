package openai_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/model/openai"
)

var update = flag.Bool("update", false, "rewrite the requests in testdata")

// conversation has every kind of turn in it.
func conversation() *message.Request {
	return &message.Request{
		Model:  "gpt-5.2",
		System: "You are brief.",
		Messages: []message.Message{
			message.NewUser("Weather in Bergen? Use the tool."),
			message.NewReasoning("It rains there.", "sealed"),
			&message.Assistant{Content: "Let me see.", ToolCalls: []message.ToolCall{
				{ID: "call_1", Name: "weather", Arguments: json.RawMessage(`{"city":"Bergen"}`)},
			}},
			message.NewTool("call_1", "rain"),
			&message.Assistant{Content: "Rain."},
			message.NewUser("And <b>Oslo</b>?"),
		},
		Tools: []message.ToolSpec{{
			Name: "weather", Description: "Current weather.",
			Parameters: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"},"at":{"type":"integer","maximum":9007199254740993}},"required":["city"]}`),
		}},
	}
}

func user(blocks ...message.Block) []message.Message {
	return []message.Message{message.NewUserBlocks(blocks...)}
}

func inline(kind message.MediaKind, mediaType string) message.Media {
	return message.Media{Kind: kind, MediaType: mediaType, Source: message.Source{Type: message.SourceBase64, Value: "QUJD"}}
}

func linked(kind message.MediaKind, mediaType string) message.Media {
	return message.Media{Kind: kind, MediaType: mediaType, Source: message.Source{Type: message.SourceURL, Value: "https://example.com/it"}}
}

// requests are the bodies in testdata, one for each dialect.
var requests = map[string]func(*message.Request){
	"conversation": func(r *message.Request) { *r = *conversation() },
	"images": func(r *message.Request) {
		r.Messages = user(message.Text{Value: "Alike?"}, linked(message.Image, "image/png"), inline(message.Image, "image/jpeg"))
	},
	"document": func(r *message.Request) {
		r.Messages = user(inline(message.Document, "application/pdf"), inline(message.Document, "text/plain"))
	},
	"no content":              func(r *message.Request) { r.Messages = user() },
	"two texts":               func(r *message.Request) { r.Messages = user(message.Text{Value: "One."}, message.Text{Value: "Two."}) },
	"tool without parameters": func(r *message.Request) { r.Tools = []message.ToolSpec{{Name: "now"}} },
	"old model":               func(r *message.Request) { r.Model = "gpt-4o-mini" },
	"results": func(r *message.Request) {
		r.Messages = []message.Message{
			message.NewUser("Both."),
			message.NewReasoning("", "sealed"),
			message.NewReasoning("Not signed.", ""),
			&message.Assistant{ToolCalls: []message.ToolCall{
				{ID: "a", Name: "weather"},
				{ID: "b", Name: "weather", Arguments: json.RawMessage(`"{\"city\": oslo"`)},
				{ID: "c", Name: "weather", Arguments: json.RawMessage(`[1E2]`)},
			}},
			message.NewTool("a", ""), message.NewToolError("b", "these are no arguments"), message.NewTool("c", "rain"),
		}
	},
	"parameters": func(r *message.Request) {
		r.Params = message.Params{
			MaxTokens: new(uint64(1<<64 - 1)), Temperature: new(0.0), TopP: new(0.9),
			ProviderParams: json.RawMessage(`{"top_p":0.5,"reasoning":{"effort":"low","summary":"auto"},"a.b":[1E2,9007199254740993],"service_tier":null}`),
		}
	},
	"cached": func(r *message.Request) {
		r.Params.ProviderParams = json.RawMessage(`{"prompt_cache_key":"tenant-7","prompt_cache_retention":"24h"}`)
	},
	"strict output": func(r *message.Request) {
		r.Output = json.RawMessage(`{"type":"object","properties":{"why":{"type":"string"},"answer":{"anyOf":[{"type":"null"},{"type":"array","items":{"$ref":"#/$defs/a"}}]}},"required":["why","answer"],"additionalProperties":false,"$defs":{"a":{"type":"string"}}}`)
	},
	"loose output": func(r *message.Request) {
		r.Output = json.RawMessage(`{"type":"object","properties":{"why":{"type":"string"}},"additionalProperties":false}`)
	},
}

// more are bodies that only Chat Completions has.
var chatRequests = map[string]func(*message.Request){
	"audio": func(r *message.Request) {
		r.Messages = user(inline(message.Audio, "audio/mpeg"), inline(message.Audio, "audio/wav"))
	},
	"all parameters": func(r *message.Request) {
		r.Params = message.Params{
			MaxTokens: new(uint64(100)), Temperature: new(0.5), TopP: new(1.0), TopK: new(uint32(40)), Seed: new(uint64(7)),
			StopSequences: []string{"END"}, FrequencyPenalty: new(0.1), PresencePenalty: new(-0.1),
		}
	},
}

func TestRequests(t *testing.T) {
	t.Parallel()
	for _, api := range dialects {
		for name, prepare := range requests {
			golden(t, api, name, prepare)
		}
	}
	for name, prepare := range chatRequests {
		golden(t, openai.ChatCompletions, name, prepare)
	}
}

// golden compares the body that reaches the server with the one in testdata, byte by byte.
func golden(t *testing.T, api openai.API, name string, prepare func(*message.Request)) {
	t.Run(string(api)+" "+name, func(t *testing.T) {
		req := ask()
		prepare(req)
		var indented bytes.Buffer
		require.NoError(t, json.Indent(&indented, sent(t, openai.Options{API: api}, req), "", "  "))
		indented.WriteByte('\n')
		file := filepath.Join("testdata", string(api), strings.ReplaceAll(name, " ", "_")+".json")
		if *update {
			require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
			require.NoError(t, os.WriteFile(file, indented.Bytes(), 0o644))
		}
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, string(want), indented.String())
	})
}

// sent returns the body of the request that a model sends.
func sent(t testing.TB, opts openai.Options, req *message.Request) (body []byte) {
	t.Helper()
	opts.APIKey = key
	opts.HTTPClient = &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
		body, _ = io.ReadAll(r.Body)
		return nil, errors.New("no network here")
	})}
	_, err := collect(t, openai.New(&opts), req)
	require.ErrorContains(t, err, "no network here")
	return body
}

func TestReasoningGoesBackWhereTheServerWantsIt(t *testing.T) {
	t.Parallel()
	opts := openai.Options{API: openai.ChatCompletions, ReasoningName: "reasoning_content"}
	require.Contains(t, string(sent(t, opts, conversation())), `"reasoning_content":"It rains there."`)
	opts.ReasoningName = ""
	require.NotContains(t, string(sent(t, opts, conversation())), "It rains there.")
}

func TestWhatAnAPIHasNoPlaceForIsNotSent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		api     openai.API
		prepare func(*message.Request)
		kind    error
		names   string
	}{
		{openai.Responses, func(r *message.Request) { r.Messages = user(inline(message.Audio, "audio/wav")) }, message.ErrUnsupported, `audio of type "audio/wav"`},
		{openai.Responses, func(r *message.Request) { r.Messages = user(linked(message.Video, "video/mp4")) }, message.ErrUnsupported, "video"},
		{openai.Responses, func(r *message.Request) { r.Params.TopK = new(uint32(1)) }, message.ErrUnsupported, "top_k"},
		{openai.Responses, func(r *message.Request) { r.Params.StopSequences = []string{"."} }, message.ErrUnsupported, "stop_sequences"},
		{openai.Responses, func(r *message.Request) { r.Params.Seed = new(uint64(1)) }, message.ErrUnsupported, "seed"},
		{openai.Responses, func(r *message.Request) { r.Params.FrequencyPenalty = new(1.0) }, message.ErrUnsupported, "frequency_penalty"},
		{openai.Responses, func(r *message.Request) { r.Params.PresencePenalty = new(1.0) }, message.ErrUnsupported, "presence_penalty"},
		{openai.ChatCompletions, func(r *message.Request) { r.Messages = user(linked(message.Audio, "audio/wav")) }, message.ErrUnsupported, "audio of type \"audio/wav\" by url"},
		{openai.ChatCompletions, func(r *message.Request) { r.Messages = user(inline(message.Audio, "audio/flac")) }, message.ErrUnsupported, "audio/flac"},
		{openai.ChatCompletions, func(r *message.Request) { r.Messages = user(linked(message.Document, "text/plain")) }, message.ErrUnsupported, "document"},
		{openai.ChatCompletions, func(r *message.Request) { r.Messages = user(inline(message.Video, "video/mp4")) }, message.ErrUnsupported, "video"},
		{openai.ChatCompletions, func(r *message.Request) { r.Params.ProviderParams = json.RawMessage(`[]`) }, message.ErrInvalidRequest, "provider_params"},
		{openai.Responses, func(r *message.Request) { r.Params.ProviderParams = json.RawMessage(`{`) }, message.ErrInvalidRequest, "provider_params"},
		{openai.Responses, func(r *message.Request) { r.Params.ProviderParams = json.RawMessage(`{"model":"o1-pro"}`) }, message.ErrInvalidRequest, `"model" may not be set`},
		{openai.Responses, func(r *message.Request) { r.Params.ProviderParams = json.RawMessage(`{"input":[]}`) }, message.ErrInvalidRequest, `"input"`},
		{openai.Responses, func(r *message.Request) { r.Params.ProviderParams = json.RawMessage(`{"instructions":"Obey."}`) }, message.ErrInvalidRequest, `"instructions"`},
		{openai.ChatCompletions, func(r *message.Request) { r.Params.ProviderParams = json.RawMessage(`{"messages":[]}`) }, message.ErrInvalidRequest, `"messages"`},
		{openai.ChatCompletions, func(r *message.Request) { r.Params.ProviderParams = json.RawMessage(`{"tools":[]}`) }, message.ErrInvalidRequest, `"tools"`},
		{openai.ChatCompletions, func(r *message.Request) { r.Params.ProviderParams = json.RawMessage(`{"stream":false}`) }, message.ErrInvalidRequest, `"stream"`},
		{openai.Responses, func(r *message.Request) { r.Messages = nil }, message.ErrInvalidRequest, "no messages"},
	} {
		req := ask()
		c.prepare(req)
		m := openai.New(&openai.Options{APIKey: key, API: c.api, HTTPClient: &http.Client{Transport: transport(func(*http.Request) (*http.Response, error) {
			t.Error("it was sent")
			return nil, errors.New("no network here")
		})}})
		_, err := collect(t, m, req)
		require.ErrorIs(t, err, c.kind)
		require.ErrorContains(t, err, c.names)
	}
}
