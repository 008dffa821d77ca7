package mcp

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// outputOf returns what a result says, as JSON: the structured content if there is some, else the text, or the
// whole list of content if not all of it is text.
func outputOf(res *sdk.CallToolResult) (json.RawMessage, error) {
	text, onlyText := texts(res.Content)
	switch {
	case res.StructuredContent != nil:
		if exact, ok := spelled(text, res.StructuredContent); ok {
			return exact, nil
		}
		return marshal(res.StructuredContent)
	case len(res.Content) == 0:
		return nil, nil
	case onlyText:
		return marshal(text)
	}
	return marshal(res.Content)
}

// textOf returns the text of an error.
func textOf(content []sdk.Content) string {
	text, _ := texts(content)
	if text == "" && len(content) > 0 {
		data, _ := marshal(content) // as it came
		return string(data)
	}
	return text
}

// texts joins the texts of content, and reports whether there is nothing else.
func texts(content []sdk.Content) (text string, all bool) {
	all = true
	var parts []string
	for _, c := range content {
		if t, ok := c.(*sdk.TextContent); ok {
			parts = append(parts, t.Text)
		} else {
			all = false
		}
	}
	return strings.Join(parts, "\n"), all
}

// spelled returns text if it says the same as the structured content beside it, as it should: unlike the SDK's
// value of that it has the numbers as they were sent, integers past 2^53 too.
func spelled(text string, structured any) (json.RawMessage, bool) {
	var value any
	if json.Unmarshal([]byte(text), &value) != nil || !reflect.DeepEqual(value, structured) {
		return nil, false
	}
	var compact bytes.Buffer
	err := json.Compact(&compact, []byte(text))
	return compact.Bytes(), err == nil
}

// marshal is json.Marshal with <, > and & as they are.
func marshal(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}
