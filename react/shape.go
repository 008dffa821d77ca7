package react

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"

	"github.com/google/jsonschema-go/jsonschema"
)

// A shape is a JSON schema of the plain kind that is inferred from Go types, made to be checked
// on the text itself. It only ever says "surely valid": what does not fit, or is beyond it, the
// schema package decides. The nil shape is that of anything.
type shape struct {
	kinds    kinds
	enum     []string // if not nil, the texts that fit; other values of an enum never do
	least    *float64 // of numbers, as in the schema of an int8; nil: no limit
	most     *float64
	items    *shape
	members  map[string]member
	others   *shape // of members that are not listed
	required uint64 // bits of members
}

// member is a member of an object.
type member struct {
	shape *shape
	bit   uint64 // zero: it is not required
}

// kinds is a set of JSON types.
type kinds uint8

const (
	ofNull kinds = 1 << iota
	ofBoolean
	ofInteger
	ofFraction // a number that is not written as an integer
	ofText
	ofArray
	ofObject

	ofAll = ofNull | ofBoolean | ofInteger | ofFraction | ofText | ofArray | ofObject
)

var kindsOf = map[string]kinds{
	"null": ofNull, "boolean": ofBoolean, "integer": ofInteger, "number": ofInteger | ofFraction,
	"string": ofText, "array": ofArray, "object": ofObject,
}

// shapeOf returns the shape of a whole schema; ok is false if it uses other keywords than a
// shape knows.
func shapeOf(schema *jsonschema.Schema) (s *shape, ok bool) {
	root := *schema
	root.ID, root.Schema = "", "" // the keywords that a shape knows are the same in all drafts
	return subshape(&root)
}

func subshape(schema *jsonschema.Schema) (s *shape, ok bool) {
	if schema == nil {
		return nil, true
	}
	rest := *schema
	// These say nothing about what is valid.
	rest.Title, rest.Description, rest.Comment, rest.Default, rest.Examples = "", "", "", nil, nil
	rest.Deprecated, rest.ReadOnly, rest.WriteOnly = false, false, false
	rest.Format, rest.ContentEncoding, rest.ContentMediaType, rest.PropertyOrder = "", "", "", nil
	if reflect.ValueOf(rest).IsZero() {
		return nil, true
	}
	s = &shape{kinds: ofAll, least: rest.Minimum, most: rest.Maximum}
	if rest.Not != nil && reflect.ValueOf(*rest.Not).IsZero() { // the long form of "false"
		s.kinds, rest.Not = 0, nil
	}
	if rest.Type != "" || rest.Types != nil {
		allowed := kindsOf[rest.Type]
		for _, name := range rest.Types {
			allowed |= kindsOf[name]
		}
		s.kinds &= allowed
	}
	if rest.Enum != nil {
		s.enum = []string{}
		for _, value := range rest.Enum {
			if text, ok := value.(string); ok {
				s.enum = append(s.enum, text)
			}
		}
	}
	if s.items, ok = subshape(rest.Items); !ok {
		return nil, false
	}
	if !s.addMembers(&rest) {
		return nil, false
	}
	rest.Type, rest.Types, rest.Enum, rest.Minimum, rest.Maximum, rest.Items = "", nil, nil, nil, nil, nil
	rest.Properties, rest.AdditionalProperties, rest.Required = nil, nil, nil
	return s, reflect.ValueOf(rest).IsZero()
}

// addMembers reads what a schema says about objects, and reports whether a shape can say it.
func (s *shape) addMembers(schema *jsonschema.Schema) (ok bool) {
	if s.others, ok = subshape(schema.AdditionalProperties); !ok {
		return false
	}
	s.members = make(map[string]member, len(schema.Properties))
	for name, property := range schema.Properties {
		var m member
		if m.shape, ok = subshape(property); !ok {
			return false
		}
		s.members[name] = m
	}
	bit := uint64(1)
	for _, name := range schema.Required {
		m, known := s.members[name]
		if !known {
			m.shape = s.others
		}
		if m.bit != 0 {
			continue
		}
		if bit == 0 {
			return false // more than there are bits
		}
		m.bit = bit
		s.members[name] = m
		s.required |= bit
		bit <<= 1
	}
	return true
}

// fits reports whether a document that [wire.Clean] returned is surely valid.
func (s *shape) fits(document json.RawMessage) bool { return s.read(&shapeReader{data: document}) }

// read reads a value. After one that does not fit it matters no more where the reader stands.
func (s *shape) read(r *shapeReader) bool {
	if s == nil {
		r.skip()
		return true
	}
	if c := r.data[r.pos]; c == '"' {
		text, plain := r.text()
		return s.kinds&ofText != 0 && (s.enum == nil || plain && s.lists(text))
	} else if s.enum != nil {
		return false
	} else if c == '{' {
		return s.kinds&ofObject != 0 && s.readObject(r)
	} else if c == '[' {
		return s.kinds&ofArray != 0 && s.readArray(r)
	}
	kind, word := r.scalar()
	return s.kinds&kind != 0 && (kind&(ofInteger|ofFraction) == 0 || s.limits(word))
}

// limits reports whether a number is surely within the limits. With limits that can be said of
// integers that a float64 holds exactly.
func (s *shape) limits(number []byte) bool {
	if s.least == nil && s.most == nil {
		return true
	}
	const exact = 15 // digits, or a sign and one less
	if len(number) > exact {
		return false
	}
	n, err := strconv.Atoi(string(number))
	return err == nil && (s.least == nil || float64(n) >= *s.least) && (s.most == nil || float64(n) <= *s.most)
}

func (s *shape) lists(text []byte) bool {
	for _, value := range s.enum {
		if value == string(text) {
			return true
		}
	}
	return false
}

func (s *shape) readArray(r *shapeReader) bool {
	r.pos++
	for r.data[r.pos] != ']' {
		if r.data[r.pos] == ',' {
			r.pos++
		}
		if !s.items.read(r) {
			return false
		}
	}
	r.pos++
	return true
}

// readObject reads an object. Of members that repeat the last one counts, and here all must fit.
func (s *shape) readObject(r *shapeReader) bool {
	var seen uint64
	r.pos++
	for r.data[r.pos] != '}' {
		if r.data[r.pos] == ',' {
			r.pos++
		}
		name, plain := r.text()
		if !plain {
			return false
		}
		r.pos++ // the colon
		m, known := s.members[string(name)]
		if !known {
			m.shape = s.others
		}
		if !m.shape.read(r) {
			return false
		}
		seen |= m.bit
	}
	r.pos++
	return seen == s.required
}

// A shapeReader walks over a document that wire.Clean returned, so one that is valid and compact.
type shapeReader struct {
	data []byte
	pos  int
}

// text reads a text. It is plain if it stands there as it is, without escapes.
func (r *shapeReader) text() (text []byte, plain bool) {
	r.pos++
	start := r.pos
	for plain = true; r.data[r.pos] != '"'; r.pos++ {
		if r.data[r.pos] == '\\' {
			plain = false
			r.pos++
		}
	}
	r.pos++
	return r.data[start : r.pos-1], plain
}

// scalar reads a value that is neither text nor a container.
func (r *shapeReader) scalar() (kind kinds, word []byte) {
	start := r.pos
	for r.pos < len(r.data) && r.data[r.pos] != ',' && r.data[r.pos] != ']' && r.data[r.pos] != '}' {
		r.pos++
	}
	word = r.data[start:r.pos]
	switch {
	case word[0] == 'n':
		return ofNull, word
	case word[0] == 't', word[0] == 'f':
		return ofBoolean, word
	case bytes.ContainsAny(word, ".eE"):
		return ofFraction, word
	}
	return ofInteger, word
}

// skip reads a value, whatever it is.
func (r *shapeReader) skip() {
	for depth := 0; ; {
		switch r.data[r.pos] {
		case '{', '[':
			depth++
			r.pos++
		case '}', ']':
			depth--
			r.pos++
		case ',', ':':
			r.pos++
		case '"':
			r.text()
		default:
			r.scalar()
		}
		if depth == 0 {
			return
		}
	}
}
