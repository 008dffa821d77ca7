package wire

import (
	"bytes"
	"encoding/json"
	"strings"
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
	if !plain(s) {
		text, _ := Marshal(s) // of a string that cannot fail
		return append(b, text...)
	}
	return append(append(append(b, '"'), s...), '"')
}

// plain reports whether a text needs no escape, as most do not: going through encoding/json costs several
// allocations.
func plain(s string) bool {
	ascii := true
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ', c == '"', c == '\\':
			return false
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return ascii || utf8.ValidString(s) && !strings.ContainsAny(s, "\u2028\u2029")
}
