package state

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"math/big"
	"strings"
	"unicode/utf8"

	"github.com/everstep-go/everstep/internal/wire"
)

// member is one of an object.
type member struct {
	key   []byte // as JSON
	value []byte
}

func (m member) name() string {
	if bytes.IndexByte(m.key, '\\') < 0 {
		return string(m.key[1 : len(m.key)-1])
	}
	var s string
	_ = json.Unmarshal(m.key, &s) // it is valid
	return s
}

// split returns the members of an object as [compact] returns it, without a copy.
func split(doc []byte) []member {
	var list []member
	for i := 1; doc[i-1] != '}' && doc[i] != '}'; i++ {
		var m member
		end := skip(doc, i)
		m.key, i = doc[i:end:end], end+1
		end = skip(doc, i)
		m.value, i = doc[i:end:end], end
		list = append(list, m)
	}
	return list
}

func byName(list []member) map[string][]byte {
	values := make(map[string][]byte, len(list))
	for _, m := range list {
		values[m.name()] = m.value
	}
	return values
}

// skip returns where the value that begins at doc[i] ends, in valid compact JSON.
func skip(doc []byte, i int) int {
	for depth := 0; i < len(doc); i++ {
		switch doc[i] {
		case '"':
			for i++; doc[i] != '"'; i++ {
				if doc[i] == '\\' {
					i++
				}
			}
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 { // after a number or a word
				return i
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',':
			if depth == 0 {
				return i
			}
		}
	}
	return i
}

// compact checks that doc is one JSON value, not nested deeper than depth, and returns it without
// white space and without repeated keys.
func compact(doc json.RawMessage, depth int) ([]byte, error) {
	var b bytes.Buffer
	b.Grow(len(doc))
	if err := json.Compact(&b, doc); err != nil {
		return nil, err
	}
	d, plain := survey(b.Bytes())
	if d > depth {
		return nil, fmt.Errorf("nested %d deep, more than %d: %w", d, depth, ErrLimit)
	}
	if plain {
		return b.Bytes(), nil
	}
	return rekey(b.Bytes(), func(key string) string { return key })
}

// survey returns how deep compact JSON is nested, and whether it is plain: no object can repeat a key.
// Keys with an escape, or bytes that decoding would replace, count as repeated: comparing those is left
// to [rekey].
func survey(doc []byte) (depth int, plain bool) {
	var levels []keySet
	n := 0 // levels in use; those beyond keep their memory
	plain = true
	for i := 0; i < len(doc); i++ {
		switch doc[i] {
		case '{', '[':
			if n == len(levels) {
				levels = append(levels, keySet{})
			}
			levels[n].reset()
			n++
			depth = max(depth, n)
		case '}', ']':
			n--
		case '"':
			start := i + 1
			escaped := false
			for i++; doc[i] != '"'; i++ {
				if doc[i] == '\\' {
					escaped = true
					i++
				}
			}
			if plain && i+1 < len(doc) && doc[i+1] == ':' {
				key := doc[start:i]
				plain = !escaped && utf8.Valid(key) && levels[n-1].add(key)
			}
		}
	}
	return depth, plain
}

// keySet is made for the many small objects of a document: hashing only pays from some size on.
type keySet struct {
	few  [][]byte
	many map[uint64]struct{}
}

var keySeed = maphash.MakeSeed()

func (s *keySet) reset() {
	s.few = s.few[:0]
	s.many = nil
}

// add reports whether the key is new. It may take a new key for an old one, hardly ever.
func (s *keySet) add(key []byte) bool {
	if s.many == nil && len(s.few) < 16 {
		for _, k := range s.few {
			if bytes.Equal(k, key) {
				return false
			}
		}
		s.few = append(s.few, key)
		return true
	}
	if s.many == nil {
		s.many = make(map[uint64]struct{}, 64)
		for _, k := range s.few {
			s.many[maphash.Bytes(keySeed, k)] = struct{}{}
		}
	}
	n := len(s.many)
	s.many[maphash.Bytes(keySeed, key)] = struct{}{}
	return len(s.many) > n
}

// object is an object of a tree: what [decode] returns beside []any, string, json.Number, bool and nil.
type object struct {
	keys   []string
	values map[string]any
}

// decode reads a tree. The caller has checked the depth.
func decode(doc []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	return decodeNext(dec)
}

func decodeNext(dec *json.Decoder) (any, error) {
	t, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('{'):
		obj := &object{values: map[string]any{}}
		for dec.More() {
			k, err := dec.Token()
			if err != nil {
				return nil, err
			}
			v, err := decodeNext(dec)
			if err != nil {
				return nil, err
			}
			key := k.(string)
			if _, again := obj.values[key]; !again {
				obj.keys = append(obj.keys, key)
			}
			obj.values[key] = v
		}
		_, err := dec.Token()
		return obj, err
	case json.Delim('['):
		list := []any{}
		for dec.More() {
			v, err := decodeNext(dec)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := dec.Token()
		return list, err
	}
	return t, nil
}

// rekey returns the document with every key rewritten, each once per object with its last value.
func rekey(doc []byte, f func(string) string) ([]byte, error) {
	tree, err := decode(doc)
	if err != nil {
		return nil, err
	}
	return appendTree(make([]byte, 0, len(doc)), tree, f)
}

func appendTree(b []byte, tree any, f func(string) string) ([]byte, error) {
	var err error
	switch v := tree.(type) {
	case *object:
		b = append(b, '{')
		for i, key := range v.keys {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = appendTree(b, f(key), f); err != nil {
				return nil, err
			}
			b = append(b, ':')
			if b, err = appendTree(b, v.values[key], f); err != nil {
				return nil, err
			}
		}
		return append(b, '}'), nil
	case []any:
		b = append(b, '[')
		for i, item := range v {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = appendTree(b, item, f); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	case json.Number:
		return append(b, v...), nil
	default:
		data, err := wire.Marshal(v)
		return append(b, data...), err
	}
}

// Equal reports whether two documents are the same JSON value: members in any order, numbers by value.
// What is not JSON equals nothing.
func Equal(a, b json.RawMessage) bool {
	limit := DefaultLimits().Depth
	ca, err := compact(a, limit)
	if err != nil {
		return false
	}
	cb, err := compact(b, limit)
	if err != nil {
		return false
	}
	return equalCompact(ca, cb)
}

func equalCompact(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	ta, err := decode(a)
	if err != nil {
		return false
	}
	tb, err := decode(b)
	return err == nil && equalTrees(ta, tb)
}

func equalTrees(a, b any) bool {
	switch a := a.(type) {
	case *object:
		b, ok := b.(*object)
		if !ok || len(a.values) != len(b.values) {
			return false
		}
		for key, v := range a.values {
			w, ok := b.values[key]
			if !ok || !equalTrees(v, w) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !equalTrees(a[i], b[i]) {
				return false
			}
		}
		return true
	case json.Number:
		b, ok := b.(json.Number)
		return ok && (a == b || newDecimal(a).equal(newDecimal(b)))
	default:
		// A container on the other side is never equal to a scalar, and must not be compared: == on two
		// slices panics.
		switch b.(type) {
		case *object, []any:
			return false
		}
		return a == b
	}
}

// decimal is a number as 0.digits × 10^exp without zeros at either end. Its exponent has no bound: a
// number such as 1e999999999 must not be expanded to be compared.
type decimal struct {
	negative bool
	digits   string
	exp      *big.Int
}

func newDecimal(n json.Number) decimal {
	s, negative := strings.CutPrefix(string(n), "-")
	exp := new(big.Int)
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		exp.SetString(strings.TrimPrefix(s[i+1:], "+"), 10)
		s = s[:i]
	}
	whole, fraction, _ := strings.Cut(s, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	point := int64(len(whole) - (len(whole) + len(fraction) - len(digits)))
	digits = strings.TrimRight(digits, "0")
	if digits == "" {
		return decimal{exp: new(big.Int)} // zero has no sign
	}
	return decimal{negative, digits, exp.Add(exp, big.NewInt(point))}
}

func (d decimal) equal(o decimal) bool {
	return d.negative == o.negative && d.digits == o.digits && d.exp.Cmp(o.exp) == 0
}
