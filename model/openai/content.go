package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/everstep-go/everstep/message"
)

// unsupported is the error for what an API has no place for.
func unsupported(api, format string, args ...any) error {
	return fmt.Errorf("openai: %w: %s does not take %s", message.ErrUnsupported, api, fmt.Sprintf(format, args...))
}

// link returns the media's URL, or its bytes as a data URL.
func link(m message.Media) string {
	if m.Source.Type == message.SourceURL {
		return m.Source.Value
	}
	return "data:" + m.MediaType + ";base64," + m.Source.Value
}

// filename makes up a name, which the API insists on.
func filename(m message.Media) string {
	_, kind, _ := strings.Cut(m.MediaType, "/")
	if kind == "plain" || kind == "" {
		kind = "txt"
	}
	return "document." + kind
}

// limited returns n as the client's type for it.
func limited(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

// extras returns the provider's own parameters, member by member.
func (m *Model) extras(p message.Params) (map[string]any, error) {
	given, err := m.adapter.Params(p.ProviderParams, "model", "messages", "input", "instructions", "tools", "stream")
	members := make(map[string]any, len(given))
	for name, value := range given {
		members[name] = value
	}
	return members, err
}

// schema returns a JSON schema as it was written: models fill in properties in their order, which
// a map would lose.
func schema(raw json.RawMessage) json.RawMessage {
	if len(bytes.TrimSpace(raw)) == 0 {
		return json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return raw
}
