package openai

import (
	"encoding/json"
	"slices"
)

// strictWords are the keywords that strict mode knows. The server refuses a strict schema with any
// other.
var strictWords = []string{
	"type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "$ref", "$defs",
	"title", "description", "pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
	"multipleOf", "minItems", "maxItems",
}

// strict reports whether a schema may be strict, so that the reply is sure to satisfy it: an
// object at the root, and no object with members that may be absent or have any name.
func strict(schema json.RawMessage) bool {
	var root map[string]any
	return json.Unmarshal(schema, &root) == nil && root["type"] == "object" && root["anyOf"] == nil && strictSchema(root)
}

func strictSchema(s any) bool {
	schema, ok := s.(map[string]any)
	if !ok {
		return false
	}
	for word, value := range schema {
		if !slices.Contains(strictWords, word) {
			return false
		}
		switch word {
		case "properties", "$defs":
			named, ok := value.(map[string]any)
			if !ok {
				return false
			}
			for _, s := range named {
				if !strictSchema(s) {
					return false
				}
			}
		case "anyOf":
			choices, ok := value.([]any)
			if !ok || slices.ContainsFunc(choices, func(s any) bool { return !strictSchema(s) }) {
				return false
			}
		case "items":
			if !strictSchema(value) {
				return false
			}
		}
	}
	return !isObject(schema["type"]) || closed(schema)
}

// isObject reports whether a type is object, alone or among others.
func isObject(t any) bool {
	types, _ := t.([]any)
	return t == "object" || slices.Contains(types, any("object"))
}

// closed reports whether an object has all of its members, and no others.
func closed(schema map[string]any) bool {
	properties, _ := schema["properties"].(map[string]any)
	required, _ := schema["required"].([]any)
	for name := range properties {
		if !slices.Contains(required, any(name)) {
			return false
		}
	}
	return schema["additionalProperties"] == false
}
