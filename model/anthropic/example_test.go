package anthropic_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/model/anthropic"
)

// The server stands for Anthropic's: leave BaseURL out, and put the key into ANTHROPIC_API_KEY.
func Example() {
	server := httptest.NewServer(http.HandlerFunc(events(stream(message.Reply{Text: "It rains in Oslo.", FinishReason: message.FinishStop})...)))
	defer server.Close()

	model := anthropic.New(&anthropic.Options{APIKey: "secret", BaseURL: server.URL})
	for delta, err := range model.Generate(context.Background(), &message.Request{
		Model:    "claude-sonnet-4-5",
		System:   "You are brief.",
		Messages: []message.Message{message.NewUser("Umbrella in Oslo?")},
	}) {
		if err != nil {
			log.Fatal(err)
		}
		switch d := delta.(type) {
		case message.TextDelta:
			fmt.Print(d.Text)
		case message.Done:
			fmt.Printf("\n%s, %d tokens\n", d.FinishReason, d.Usage.OutputTokens)
		}
	}
	// Output:
	// It rains in Oslo.
	// stop, 42 tokens
}
