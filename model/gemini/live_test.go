package gemini_test

import (
	"cmp"
	"encoding/json"
	"os"
	"testing"

	"google.golang.org/genai"

	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/model/gemini"
	"github.com/everstep-go/everstep/model/modeltest"
)

func TestLive(t *testing.T) {
	if cmp.Or(os.Getenv("GOOGLE_API_KEY"), os.Getenv("GEMINI_API_KEY")) == "" {
		t.Skip("GEMINI_API_KEY is not set: Google itself was not asked")
	}
	modeltest.RunLive(t, newModel(t, &gemini.Options{Backend: genai.BackendGeminiAPI}), &message.Request{
		Model:  cmp.Or(os.Getenv("GEMINI_TEST_MODEL"), "gemini-2.5-flash"),
		Params: message.Params{ProviderParams: json.RawMessage(`{"generationConfig":{"thinkingConfig":{"includeThoughts":true}}}`)},
	})
}
