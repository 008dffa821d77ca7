package openai_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/model/openai"
)

func TestOutputIsStrictWhereThatIsPossible(t *testing.T) {
	t.Parallel()
	const closed = `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`
	within := func(s string) string {
		return `{"type":"object","properties":{"in":` + s + `},"required":["in"],"additionalProperties":false}`
	}
	for schema, want := range map[string]bool{
		closed:         true,
		within(closed): true,
		within(`{"type":["object","null"],"properties":{},"additionalProperties":false}`): true,
		within(`{"anyOf":[{"type":"null"},` + closed + `]}`):                              true,
		within(`{"type":"array","items":` + closed + `}`):                                 true,

		`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`:             false, // any member
		`{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}`: false, // may be absent
		within(`{"type":["object","null"]}`):                                                  false,
		within(`{"type":"array","items":{"type":"object"}}`):                                  false,
		within(`{"anyOf":[{"type":"object"}]}`):                                               false,
		within(`{"type":"string","default":"x"}`):                                             false, // a word that it does not know
		within(`{"allOf":[]}`):                                                                false,
		within(`true`):                                                                        false,
		within(`{"anyOf":{}}`):                                                                false,
		`{"type":"object","properties":[],"additionalProperties":false}`:                      false,
		`{"type":"object","anyOf":[],"properties":{},"additionalProperties":false}`:           false,
		`{"type":"object","$defs":{"b":{"type":"object"}},"additionalProperties":false}`:      false,
		`{"type":"array","items":` + closed + `}`:                                             false,
		`true`: false,
	} {
		req := ask()
		req.Output = json.RawMessage(schema)
		body := string(sent(t, openai.Options{API: openai.ChatCompletions}, req))
		require.Equal(t, want, strings.Contains(body, `"strict":true`), schema)
	}
}
