package wire

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// PlainText returns what a person or a model reads of JSON: a text without its quotes, anything else as it is.
func PlainText(data json.RawMessage) string {
	if len(data) < 2 || data[0] != '"' {
		return string(data)
	}
	if inner := data[1 : len(data)-1]; !bytes.ContainsRune(inner, '\\') && utf8.Valid(inner) {
		return string(inner)
	}
	var text string
	if json.Unmarshal(data, &text) != nil {
		return string(data)
	}
	return text
}

// AppendText appends a text as JSON, as [Marshal] prints it.
func AppendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			text, _ := Marshal(s) // of a string that cannot fail
			return append(b, text...)
		}
	}
	// Most strings need no escape, and going through encoding/json costs several allocations.
	return append(append(append(b, '"'), s...), '"')
}
