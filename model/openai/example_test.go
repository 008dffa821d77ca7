package openai_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/model/openai"
)

// A local server that speaks OpenAI's dialect, such as Ollama. For OpenAI itself it is New(nil).
func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"choices":[{"delta":{"content":"Rain, "}}]}

data: {"choices":[{"delta":{"content":"as ever."},"finish_reason":"stop"}]}

data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4}}

data: [DONE]

`)
	}))
	defer server.Close()

	model := openai.New(&openai.Options{BaseURL: server.URL + "/v1"})
	request := &message.Request{
		Model:    "qwen3",
		Messages: []message.Message{message.NewUser("Weather in Bergen?")},
	}
	for delta, err := range model.Generate(context.Background(), request) {
		if err != nil {
			fmt.Println(err)
			return
		}
		switch d := delta.(type) {
		case message.TextDelta:
			fmt.Print(d.Text)
		case message.Done:
			fmt.Printf(" (%d tokens)", d.Usage.OutputTokens)
		}
	}
	// Output: Rain, as ever. (4 tokens)
}
