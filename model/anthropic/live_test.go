package anthropic_test

import (
	"cmp"
	"encoding/json"
	"os"
	"testing"

	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/model/anthropic"
	"github.com/everstep-go/everstep/model/modeltest"
)

func TestLive(t *testing.T) {
	if os.Getenv("ANTHROPIC_API_KEY") == "" {
		t.Skip("ANTHROPIC_API_KEY is not set: Anthropic itself was not asked")
	}
	modeltest.RunLive(t, anthropic.New(nil), &message.Request{
		Model:  cmp.Or(os.Getenv("ANTHROPIC_TEST_MODEL"), "claude-sonnet-4-5"),
		Params: message.Params{ProviderParams: json.RawMessage(`{"thinking":{"type":"enabled","budget_tokens":1024}}`)},
	})
}
