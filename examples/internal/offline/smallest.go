package offline

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// smallest returns the smallest JSON value that a schema allows: null before anything else, objects with their
// required members and nothing more, the shortest lists and texts, the first value of an enum, the minimum of a
// number or else what is nearest to zero, and of alternatives the first that works, those that refer to a
// definition last.
//
// It does not look at patterns, at dependencies of members and at what is forbidden by not: a value under such a
// keyword may not satisfy it.
func smallest(text json.RawMessage) (json.RawMessage, error) {
	var root any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // so that constants keep their spelling
	err := d.Decode(&root)
	if err == nil {
		var value json.RawMessage
		if value, err = (&builder{root: root}).value(root); err == nil {
			return value, nil
		}
	}
	return nil, fmt.Errorf("offline: output schema: %w", err)
}

// builder builds values for the parts of a schema.
type builder struct {
	root  any
	steps int
}

type object = map[string]any

// What takes more is not small, or needs itself without an end.
const (
	maxSteps  = 10_000
	maxLength = 1 << 20
)

func (b *builder) value(schema any) (json.RawMessage, error) {
	b.steps++
	s, ok := schema.(object)
	switch {
	case b.steps > maxSteps:
		return nil, errors.New("it needs itself without an end, or a very long list: make a member on the way optional")
	case schema == false:
		return nil, errors.New("it demands something that it forbids")
	case !ok:
		return json.RawMessage("null"), nil // true allows anything
	}
	if ref, ok := s["$ref"].(string); ok {
		target, err := b.resolve(ref)
		if err != nil {
			return nil, err
		}
		return b.value(both(without(s, "$ref"), target))
	}
	if all, ok := s["allOf"].([]any); ok {
		var whole any = without(s, "allOf")
		for _, part := range all {
			whole = both(whole, part)
		}
		return b.value(whole)
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		if alternatives, ok := s[keyword].([]any); ok {
			return b.first(without(s, keyword), alternatives)
		}
	}
	if constant, ok := s["const"]; ok {
		return json.Marshal(constant)
	}
	if enum, ok := s["enum"].([]any); ok && len(enum) > 0 {
		return json.Marshal(enum[0])
	}
	switch kind := kindOf(s); kind {
	case "null":
		return json.RawMessage("null"), nil
	case "boolean":
		return json.RawMessage("false"), nil
	case "integer", "number":
		return number(s, kind == "integer")
	case "string":
		return shortText(s)
	case "array":
		return b.array(s)
	case "object":
		return b.object(s)
	default:
		return nil, fmt.Errorf("type %q does not exist", kind)
	}
}

// first returns the value of the first alternative that has one.
func (b *builder) first(rest object, alternatives []any) (json.RawMessage, error) {
	cost := func(a any) int {
		s, _ := a.(object)
		switch {
		case s["type"] == "null":
			return 0
		case s["$ref"] == nil:
			return 1
		}
		return 2 // it may lead back here
	}
	alternatives = slices.SortedStableFunc(slices.Values(alternatives), func(x, y any) int { return cost(x) - cost(y) })
	err := errors.New("it has no alternatives")
	var value json.RawMessage
	for _, a := range alternatives {
		if value, err = b.value(both(rest, a)); err == nil {
			return value, nil
		}
	}
	return nil, err
}

func (b *builder) array(s object) (json.RawMessage, error) {
	prefix, _ := s["prefixItems"].([]any)
	items := []json.RawMessage{}
	for i := range int(limit(s, "minItems", 0)) {
		item, ok := s["items"]
		if i < len(prefix) {
			item = prefix[i]
		} else if !ok {
			item = true
		}
		value, err := b.value(item)
		if err != nil {
			return nil, err
		}
		items = append(items, value)
	}
	return json.Marshal(items)
}

func (b *builder) object(s object) (json.RawMessage, error) {
	required, _ := s["required"].([]any)
	properties, _ := s["properties"].(object)
	var out bytes.Buffer
	out.WriteByte('{')
	for i, name := range required {
		name, _ := name.(string)
		property, ok := properties[name]
		if !ok {
			property = true
		}
		value, err := b.value(property)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			out.WriteByte(',')
		}
		out.Write(quote(name))
		out.WriteByte(':')
		out.Write(value)
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// resolve follows a reference within the schema.
func (b *builder) resolve(ref string) (any, error) {
	at := b.root
	for name := range strings.SplitSeq(strings.TrimPrefix(strings.TrimPrefix(ref, "#"), "/"), "/") {
		if name == "" {
			continue
		}
		s, _ := at.(object)
		next, ok := s[strings.NewReplacer("~1", "/", "~0", "~").Replace(name)]
		if !ok || !strings.HasPrefix(ref, "#") {
			return nil, fmt.Errorf("$ref %q leads nowhere: the offline model follows those of the form #/$defs/NAME", ref)
		}
		at = next
	}
	return at, nil
}

// both returns a schema that demands what x and y demand. Where they disagree on a keyword x wins, except for
// those that add up: members, which of them are required, references and parts.
func both(x, y any) any {
	s, ok := x.(object)
	t, more := y.(object)
	switch {
	case x == false || y == false:
		return false
	case !ok:
		return y
	case !more:
		return x
	}
	out := maps.Clone(t)
	maps.Copy(out, s)
	if required, ok := t["required"].([]any); ok {
		mine, _ := s["required"].([]any)
		for _, name := range required {
			if !slices.Contains(mine, name) {
				mine = append(slices.Clip(mine), name)
			}
		}
		out["required"] = mine
	}
	var all []any
	for _, schema := range []object{s, t} {
		parts, _ := schema["allOf"].([]any)
		all = append(all, parts...)
	}
	if ref, ok := t["$ref"]; ok && s["$ref"] != nil {
		all = append(all, object{"$ref": ref})
	}
	if all != nil {
		out["allOf"] = all
	}
	if properties, ok := t["properties"].(object); ok {
		mine, _ := s["properties"].(object)
		merged := maps.Clone(properties)
		for name, p := range mine {
			merged[name] = p
			if other, ok := properties[name]; ok {
				merged[name] = both(p, other)
			}
		}
		out["properties"] = merged
	}
	return out
}

func without(s object, keyword string) object {
	s = maps.Clone(s)
	delete(s, keyword)
	return s
}

// kindOf returns the type of the smallest value.
func kindOf(s object) string {
	switch t := s["type"].(type) {
	case string:
		return t
	case []any:
		if slices.Contains(t, "null") || len(t) == 0 {
			return "null"
		}
		return fmt.Sprint(t[0])
	}
	for _, hint := range []struct{ keyword, kind string }{
		{"properties", "object"}, {"required", "object"}, {"items", "array"}, {"prefixItems", "array"},
	} {
		if _, ok := s[hint.keyword]; ok {
			return hint.kind
		}
	}
	return "null"
}

func limit(s object, keyword string, none float64) float64 {
	if n, ok := s[keyword].(json.Number); ok {
		if f, err := n.Float64(); err == nil {
			return f
		}
	}
	return none
}

func number(s object, whole bool) (json.RawMessage, error) {
	step := limit(s, "multipleOf", 0)
	if whole {
		step = max(step, 1)
	}
	low, high := limit(s, "minimum", math.Inf(-1)), limit(s, "maximum", math.Inf(1))
	over, under := limit(s, "exclusiveMinimum", math.Inf(-1)), limit(s, "exclusiveMaximum", math.Inf(1))
	if step > 0 {
		low = max(math.Ceil(low/step), math.Floor(over/step)+1) * step
		high = min(math.Floor(high/step), math.Ceil(under/step)-1) * step
	} else {
		gap := min(1, (min(high, under)-max(low, over))/2)
		low, high = max(low, over+gap), min(high, under-gap)
	}
	if low > high || low == over && !math.IsInf(over, -1) || high == under && !math.IsInf(under, 1) {
		return nil, errors.New("no number is within its bounds")
	}
	n := low
	if math.IsInf(n, -1) {
		n = min(0, high)
	}
	return json.Marshal(n + 0) // never -0
}

// formats are the shortest texts of some formats.
var formats = map[string]string{
	"date-time": "1970-01-01T00:00:00Z", "date": "1970-01-01", "time": "00:00:00Z",
	"email": "a@b", "hostname": "a", "ipv4": "0.0.0.0", "ipv6": "::", "uri": "a:", "uuid": "00000000-0000-0000-0000-000000000000",
}

func shortText(s object) (json.RawMessage, error) {
	format, _ := s["format"].(string)
	out := formats[format]
	missing := limit(s, "minLength", 0) - float64(len(out))
	if missing > maxLength {
		return nil, errors.New("it demands a very long text")
	}
	return quote(out + strings.Repeat("a", int(max(0, missing)))), nil
}

func quote(s string) []byte {
	data, _ := json.Marshal(s) // of a string, which cannot fail
	return data
}
