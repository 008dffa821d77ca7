package wire_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/internal/wire"
)

var texts = []string{
	"", "plain", "Schöne Grüße, 世界 🙂", "a\"b\\c", "\x00\n\t\x1f", "\x7f", "<b>&</b>", "\u2028", "a\u2029", "\u2027\u202a", "\xff", "\xed\xa0\x80", "\xe2\x80",
}

func TestAppendTextPrintsWhatMarshalDoes(t *testing.T) {
	t.Parallel()
	for _, text := range texts {
		want, err := wire.Marshal(text)
		require.NoError(t, err)
		assert.Equal(t, "x"+string(want), string(wire.AppendText([]byte("x"), text)))
	}
}

func TestPlainTextIsWhatAPersonReads(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]string{
		`"text"`: "text", `"a\"b"`: `a"b`, `"é"`: "é", `7`: "7", `{"a":1}`: `{"a":1}`, `null`: "null", `""`: "", ``: "", `"`: `"`, "\"\xff\"": "\ufffd",
	} {
		assert.Equal(t, want, wire.PlainText(json.RawMessage(data)), data)
	}
}

func FuzzAppendText(f *testing.F) {
	for _, text := range texts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		want, err := wire.Marshal(text)
		require.NoError(t, err)
		require.Equal(t, string(want), string(wire.AppendText(nil, text)))
	})
}
