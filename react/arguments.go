package react

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"math/big"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/everstep-go/everstep/internal/wire"
	"github.com/everstep-go/everstep/state"
)

// ArgumentError says what is wrong with the arguments of a call, in words for the model.
type ArgumentError struct{ Reason string }

func (e *ArgumentError) Error() string { return "invalid arguments: " + e.Reason }

// validator validates the arguments of one tool, or the answers of an agent. It is safe for
// concurrent use.
type validator struct {
	schema  *jsonschema.Resolved
	shape   *shape                      // the schema, if it is plain: most calls need nothing else; may be nil
	decodes func(json.RawMessage) error // what else the arguments must go through; may be nil
}

// newValidator makes a validator of a schema of objects, such as a tool's parameters. Its errors
// are for whoever wrote that.
func newValidator(text json.RawMessage) (*validator, error) {
	data, err := wire.Clean(text)
	if err != nil {
		return nil, err
	}
	var schema jsonschema.Schema
	if err := json.Unmarshal(data, &schema); err != nil {
		return nil, err
	}
	if data[0] != '{' || schema.Type != "object" {
		return nil, errors.New(`a JSON schema with "type":"object" is needed`)
	}
	if err := checkReferences(&schema); err != nil {
		return nil, err
	}
	if schema.Schema, err = dialect(schema.Schema); err != nil {
		return nil, err
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		return nil, err
	}
	v := &validator{schema: resolved}
	if plain, ok := shapeOf(&schema); ok {
		v.shape = plain
	}
	return v, nil
}

// matches returns an [*ArgumentError] for arguments that do not fit the schema.
func (v *validator) matches(arguments json.RawMessage) error {
	data, err := cleanArguments(arguments)
	if err != nil {
		return err
	}
	if v.shape != nil && v.shape.fits(data) {
		return nil
	}
	instance, err := decodePlain(data)
	if err != nil {
		return &ArgumentError{Reason: brief(err.Error())}
	}
	if _, ok := instance.(map[string]any); !ok {
		return &ArgumentError{Reason: "they must be a JSON object, not " + brief(string(data))}
	}
	if err := v.schema.Validate(instance); err != nil {
		return &ArgumentError{Reason: brief(explain(err))}
	}
	return nil
}

// validate returns an [*ArgumentError] for arguments that the tool would refuse, also for reasons
// that no schema tells.
func (v *validator) validate(arguments json.RawMessage) error {
	if err := v.matches(arguments); err != nil || v.decodes == nil {
		return err
	}
	data, err := cleanArguments(arguments)
	if err != nil {
		return err
	}
	return v.decodes(data)
}

// cleanArguments returns arguments that can be decoded without loss; none at all are {}.
func cleanArguments(arguments json.RawMessage) (json.RawMessage, error) {
	if len(bytes.TrimSpace(arguments)) == 0 {
		return json.RawMessage("{}"), nil
	}
	data, err := wire.Clean(arguments)
	if err != nil {
		return nil, &ArgumentError{Reason: strings.TrimPrefix(err.Error(), "wire: ")}
	}
	return data, nil
}

// decodePlain decodes JSON into maps, slices and scalars. Numbers become int64 or uint64 if they are integers that fit,
// so exactly, else float64; those beyond its range become its largest.
func decodePlain(data json.RawMessage) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	return plainNumbers(v), nil
}

func plainNumbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, w := range v {
			v[key] = plainNumbers(w)
		}
	case []any:
		for i, w := range v {
			v[i] = plainNumbers(w)
		}
	case json.Number:
		if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			return n
		}
		if n, err := strconv.ParseUint(string(v), 10, 64); err == nil {
			return n
		}
		f, _ := strconv.ParseFloat(string(v), 64) // with an error it is infinite
		return max(min(f, math.MaxFloat64), -math.MaxFloat64)
	}
	return v
}

// explain puts what the schema package says about an instance into the words of someone who does not see the
// schema: "validating root: validating /properties/a: …" becomes "a: …".
func explain(err error) string {
	text := err.Error()
	var where strings.Builder
	last := ""
	for {
		rest, ok := strings.CutPrefix(text, "validating ")
		if !ok {
			break
		}
		path, after, ok := strings.Cut(rest, ": ")
		if !ok {
			break
		}
		// Only a step to a schema below the last one goes to a part of the instance: others follow a
		// reference.
		step, below := strings.CutPrefix(path, last+"/")
		tokens := strings.Split(step, "/")
		switch {
		case !below:
		case tokens[0] == "properties" && len(tokens) == 2:
			if where.Len() > 0 {
				where.WriteByte('.')
			}
			where.WriteString(tokens[1])
		case tokens[0] == "prefixItems" && len(tokens) == 2:
			where.WriteString("[" + tokens[1] + "]")
		case tokens[0] == "items":
			where.WriteString("[]")
		case tokens[0] == "additionalProperties":
			where.WriteString("{}")
		}
		if last = path; path == "root" {
			last = ""
		}
		text = after
	}
	// It prints Go's idea of null, and numbers as fractions.
	text = strings.ReplaceAll(text, "<invalid reflect.Value>", "null")
	text = strings.TrimSuffix(wholeNumber.ReplaceAllString(text, "$1 "), ".000000")
	if where.Len() > 0 {
		return where.String() + ": " + text
	}
	return text
}

var wholeNumber = regexp.MustCompile(`^(\w+: -?[0-9]+)/1 `)

// unfit says that arguments do not fit the Go type, without its name, which means nothing to a model.
func unfit(err error) error {
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		reason := fmt.Sprintf("a %s does not fit %s", brief(e.Value), e.Type.Kind())
		if e.Field != "" {
			reason = e.Field + ": " + reason
		}
		return &ArgumentError{Reason: reason}
	}
	return &ArgumentError{Reason: brief(strings.TrimPrefix(err.Error(), "json: "))}
}

// brief keeps a model that sent a megabyte from being sent it back.
func brief(text string) string {
	const most = 500
	if len(text) <= most {
		return text
	}
	end := most
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// dialect returns the spelling of a "$schema" that the schema package knows.
func dialect(uri string) (string, error) {
	switch strings.TrimSuffix(strings.Replace(uri, "http://", "https://", 1), "#") {
	case "":
		return "", nil
	case "https://json-schema.org/draft-07/schema":
		return "http://json-schema.org/draft-07/schema#", nil
	case "https://json-schema.org/draft/2020-12/schema":
		return "https://json-schema.org/draft/2020-12/schema", nil
	}
	return "", fmt.Errorf("$schema %q is not supported; draft 7 and draft 2020-12 are", uri)
}

// checkReferences refuses a schema that applies itself to the same value over and over: the schema package would
// follow it until the process runs out of stack, and schemas may come from foreign servers. To be sure where a
// reference leads, it must be one of the plain forms within the schema.
func checkReferences(root *jsonschema.Schema) error {
	at := map[string]*jsonschema.Schema{} // by JSON Pointer
	named := map[string][]*jsonschema.Schema{}
	var walk func(path string, s *jsonschema.Schema) error
	walk = func(path string, s *jsonschema.Schema) (err error) {
		if s.ID != "" && s != root {
			return fmt.Errorf("#%s: $id %q: only the whole schema may have one", path, brief(s.ID))
		}
		at[path] = s
		for _, name := range []string{s.Anchor, s.DynamicAnchor} {
			if name != "" {
				named[name] = append(named[name], s)
			}
		}
		for step, sub := range subschemas(s) {
			err = errors.Join(err, walk(path+step, sub))
		}
		return err
	}
	if err := walk("", root); err != nil {
		return err
	}
	const open, done = 1, 2
	progress := map[*jsonschema.Schema]int{}
	var visit func(s *jsonschema.Schema) error
	visit = func(s *jsonschema.Schema) error {
		if progress[s] == done {
			return nil
		}
		if progress[s] == open {
			return errors.New("a schema refers to itself without end")
		}
		progress[s] = open
		next := inPlace(s)
		for _, ref := range []string{s.Ref, s.DynamicRef} {
			if ref == "" {
				continue
			}
			fragment, isLocal := strings.CutPrefix(ref, "#")
			if text, err := url.PathUnescape(fragment); err == nil {
				fragment = text
			}
			found := named[fragment]
			if sub := at[fragment]; sub != nil {
				found = append(found, sub)
			}
			if !isLocal || len(found) == 0 {
				return fmt.Errorf("reference %q: there is no such place in the schema", brief(ref))
			}
			next = append(next, found...)
		}
		for _, sub := range next {
			if err := visit(sub); err != nil {
				return err
			}
		}
		progress[s] = done
		return nil
	}
	for _, s := range at {
		if err := visit(s); err != nil {
			return err
		}
	}
	return nil
}

// inPlace returns the subschemas that apply to the same value as s.
func inPlace(s *jsonschema.Schema) []*jsonschema.Schema {
	list := slices.Concat(s.AllOf, s.AnyOf, s.OneOf)
	list = slices.AppendSeq(list, maps.Values(s.DependentSchemas))
	list = slices.AppendSeq(list, maps.Values(s.DependencySchemas))
	list = append(list, s.Not, s.If, s.Then, s.Else)
	return slices.DeleteFunc(list, func(s *jsonschema.Schema) bool { return s == nil })
}

// subschemas yields all that stand in s, with the rest of their JSON Pointers.
func subschemas(s *jsonschema.Schema) iter.Seq2[string, *jsonschema.Schema] {
	return func(yield func(string, *jsonschema.Schema) bool) {
		for key, sub := range map[string]*jsonschema.Schema{
			"not": s.Not, "if": s.If, "then": s.Then, "else": s.Else, "items": s.Items, "contains": s.Contains,
			"additionalItems": s.AdditionalItems, "unevaluatedItems": s.UnevaluatedItems,
			"additionalProperties": s.AdditionalProperties, "propertyNames": s.PropertyNames,
			"unevaluatedProperties": s.UnevaluatedProperties, "contentSchema": s.ContentSchema,
		} {
			if sub != nil && !yield(state.Pointer(key), sub) {
				return
			}
		}
		for key, list := range map[string][]*jsonschema.Schema{
			"allOf": s.AllOf, "anyOf": s.AnyOf, "oneOf": s.OneOf, "items": s.ItemsArray, "prefixItems": s.PrefixItems,
		} {
			for i, sub := range list {
				if sub != nil && !yield(state.Pointer(key, strconv.Itoa(i)), sub) {
					return
				}
			}
		}
		for key, byName := range map[string]map[string]*jsonschema.Schema{
			"properties": s.Properties, "patternProperties": s.PatternProperties, "$defs": s.Defs,
			"definitions": s.Definitions, "dependentSchemas": s.DependentSchemas, "dependencies": s.DependencySchemas,
		} {
			for name, sub := range byName {
				if sub != nil && !yield(state.Pointer(key, name), sub) {
					return
				}
			}
		}
	}
}

// infer makes the JSON schema of a type that arguments are decoded into.
func infer(t reflect.Type) (parameters json.RawMessage, err error) {
	defer func() {
		if v := recover(); v != nil { // a fault of the schema package must not panic in a variable's declaration
			parameters, err = nil, fmt.Errorf("arguments of type %v: %v", t, v)
		}
	}()
	root := t
	if root.Kind() == reflect.Pointer {
		root = root.Elem()
	}
	if root.Kind() != reflect.Struct && root.Kind() != reflect.Map {
		return nil, fmt.Errorf("arguments of type %v: a struct or a map is needed, because arguments are a JSON object", t)
	}
	own := ownJSON{}
	own.find(root)
	delete(own, root)
	schema, err := jsonschema.ForType(root, &jsonschema.ForOptions{TypeSchemas: own})
	if err != nil {
		return nil, fmt.Errorf("arguments of type %v: %w", t, err)
	}
	return wire.Marshal(schema)
}

// ownJSON holds the schemas of types whose JSON is not that of their fields. The schema package knows only a few
// of them, and takes an id that is written as text for an array of bytes.
type ownJSON map[reflect.Type]*jsonschema.Schema

var (
	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// find adds the types that t is made of. A type that it has seen has an entry, which is nil if the schema package
// is to look at the fields.
func (own ownJSON) find(t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if _, seen := own[t]; seen {
		return
	}
	own[t] = nil
	switch p := reflect.PointerTo(t); {
	case t == reflect.TypeFor[time.Time]():
		own[t] = &jsonschema.Schema{Type: "string", Format: "date-time"}
	case t == reflect.TypeFor[big.Int]():
		own[t] = &jsonschema.Schema{Type: "integer"}
	case t == reflect.TypeFor[json.Number]():
		own[t] = &jsonschema.Schema{Type: "number"}
	case p.Implements(jsonUnmarshaler):
		own[t] = &jsonschema.Schema{} // anything
	case p.Implements(textUnmarshaler):
		own[t] = &jsonschema.Schema{Type: "string"}
	case t == reflect.TypeFor[[]byte]():
		own[t] = &jsonschema.Schema{Types: []string{"null", "string"}, ContentEncoding: "base64"}
	}
	switch t.Kind() {
	case reflect.Struct:
		for f := range t.Fields() {
			if f.IsExported() || f.Anonymous {
				own.find(f.Type)
			}
		}
	case reflect.Map, reflect.Slice, reflect.Array:
		own.find(t.Elem())
	}
}
