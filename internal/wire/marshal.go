package wire

import (
	"bytes"
	"encoding/json"
)

// Marshal is json.Marshal without the HTML escapes: "<", ">" and "&" are printed as they are.
func Marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	// Encode ends every value with a newline, which no caller wants.
	return buf.Bytes()[:buf.Len()-1], nil
}
