package openai_test

import (
	"cmp"
	"os"
	"testing"

	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/model/modeltest"
	"github.com/everstep-go/everstep/model/openai"
)

func TestLive(t *testing.T) {
	if os.Getenv("OPENAI_API_KEY") == "" {
		t.Skip("OPENAI_API_KEY is not set: OpenAI itself was not asked")
	}
	apis := dialects
	if os.Getenv("OPENAI_BASE_URL") != "" {
		apis = dialects[1:]
	}
	for _, api := range apis {
		t.Run(string(api), func(t *testing.T) {
			req := &message.Request{Model: cmp.Or(os.Getenv("OPENAI_TEST_MODEL"), "gpt-5-nano")}
			modeltest.RunLive(t, openai.New(&openai.Options{API: api}), req)
		})
	}
}
