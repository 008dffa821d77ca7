package gemini_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"

	"google.golang.org/genai"

	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/model/gemini"
)

func Example() {
	// In place of Google's, so that the example needs no key: an API that always says the same.
	api := httptest.NewServer(stream(parts(`{"text":"Take one "}`), parts(`{"text":"with you."}`), finish("STOP")))
	defer api.Close()

	ctx := context.Background()
	model, err := gemini.New(ctx, &gemini.Options{APIKey: "none", BaseURL: api.URL, Backend: genai.BackendGeminiAPI})
	if err != nil {
		log.Fatal(err)
	}
	for d, err := range model.Generate(ctx, &message.Request{
		Model:    "gemini-3-pro",
		Messages: []message.Message{message.NewUser("Umbrella in Oslo?")},
	}) {
		if err != nil {
			log.Fatal(err)
		}
		switch d := d.(type) {
		case message.TextDelta:
			fmt.Print(d.Text)
		case message.Done:
			fmt.Printf("\n%s, %d tokens\n", d.FinishReason, d.Usage.OutputTokens)
		}
	}
	// Output:
	// Take one with you.
	// stop, 2 tokens
}
