package state

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/everstep-go/everstep/internal/wire"
)

// Operation is one operation of RFC 6902. Its JSON has exactly the members that the RFC gives its op.
type Operation struct {
	Op    string          // add, remove, replace, move, copy or test
	Path  string          // JSON Pointer; see [Pointer]
	From  string          // move and copy only
	Value json.RawMessage // add, replace and test only
}

// Add sets a member of an object, inserts into an array before the index, or appends at "-".
func Add(path string, value json.RawMessage) Operation {
	return Operation{Op: "add", Path: path, Value: value}
}

// Remove takes away what is at path.
func Remove(path string) Operation { return Operation{Op: "remove", Path: path} }

// Replace puts value in the place of what is at path.
func Replace(path string, value json.RawMessage) Operation {
	return Operation{Op: "replace", Path: path, Value: value}
}

// Move takes what is at from and adds it at path.
func Move(from, path string) Operation { return Operation{Op: "move", Path: path, From: from} }

// Copy adds what is at from at path.
func Copy(from, path string) Operation { return Operation{Op: "copy", Path: path, From: from} }

// Test fails the patch unless value is what is at path. Numbers are compared by value.
func Test(path string, value json.RawMessage) Operation {
	return Operation{Op: "test", Path: path, Value: value}
}

func (o Operation) hasValue() bool { return o.Op == "add" || o.Op == "replace" || o.Op == "test" }

func (o Operation) hasFrom() bool { return o.Op == "move" || o.Op == "copy" }

func (o Operation) pointers() []string {
	if o.hasFrom() {
		return []string{o.Path, o.From}
	}
	return []string{o.Path}
}

// MarshalJSON prints the members of RFC 6902: value for add, replace and test, from for move and copy.
func (o Operation) MarshalJSON() ([]byte, error) {
	switch {
	case o.hasValue():
		return wire.Marshal(struct {
			Op    string          `json:"op"`
			Path  string          `json:"path"`
			Value json.RawMessage `json:"value"`
		}{o.Op, o.Path, o.Value})
	case o.hasFrom():
		return wire.Marshal(struct {
			Op   string `json:"op"`
			From string `json:"from"`
			Path string `json:"path"`
		}{o.Op, o.From, o.Path})
	default:
		return wire.Marshal(struct {
			Op   string `json:"op"`
			Path string `json:"path"`
		}{o.Op, o.Path})
	}
}

// UnmarshalJSON reads one operation and checks it as [ParsePatch] does.
func (o *Operation) UnmarshalJSON(data []byte) error {
	op, err := parseOperation(0, data)
	if err != nil {
		return err
	}
	*o = op
	return nil
}

// Patch is a list of operations, applied in order, all or none.
type Patch []Operation

// MarshalJSON prints an array, [] for nil.
func (p Patch) MarshalJSON() ([]byte, error) {
	if p == nil {
		return []byte("[]"), nil
	}
	return wire.Marshal([]Operation(p))
}

// UnmarshalJSON reads an array and checks each operation as [ParsePatch] does. As elsewhere in
// encoding/json, null leaves the patch as it is.
func (p *Patch) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	q, err := parsePatch(data)
	if err != nil {
		return err
	}
	*p = q
	return nil
}

// ParsePatch reads a patch that comes from outside. Each operation must be one of RFC 6902 with the
// members it needs; others are ignored, as the RFC wants. The first wrong one is an [*Error].
func ParsePatch(data []byte) (Patch, error) {
	clean, err := wire.Clean(data)
	if err != nil {
		return nil, fmt.Errorf("state: patch: %w", err)
	}
	return parsePatch(clean)
}

func parsePatch(data []byte) (Patch, error) {
	var items []json.RawMessage
	if err := json.Unmarshal(data, &items); err != nil || items == nil {
		return nil, errors.New("state: a patch is an array of operations")
	}
	p := make(Patch, len(items))
	for i, item := range items {
		op, err := parseOperation(i, item)
		if err != nil {
			return nil, err
		}
		p[i] = op
	}
	return p, nil
}

func parseOperation(index int, data []byte) (Operation, error) {
	var members map[string]json.RawMessage // not a struct: encoding/json would take "PATH" for path
	if err := json.Unmarshal(data, &members); err != nil || members == nil {
		return Operation{}, &Error{Index: index, Op: "?", Reason: "an operation is an object"}
	}
	var op Operation
	var err error
	text := func(name string) (s string) {
		raw, ok := members[name]
		switch {
		case !ok:
			err = cmp.Or(err, fmt.Errorf("%q is missing", name))
		case raw[0] != '"' || json.Unmarshal(raw, &s) != nil:
			err = cmp.Or(err, fmt.Errorf("%q is a string", name))
		}
		return s
	}
	op.Op = text("op")
	op.Path = text("path")
	if op.hasFrom() {
		op.From = text("from")
	}
	if op.hasValue() {
		op.Value = bytes.Clone(members["value"])
	}
	if err == nil {
		err = op.check()
	}
	if err != nil {
		return Operation{}, &Error{Index: index, Op: op.Op, Path: op.Path, Reason: err.Error()}
	}
	return op, nil
}

// check says what is wrong with the operation whatever the document.
func (o Operation) check() error {
	switch o.Op {
	case "add", "replace", "test":
		if len(o.Value) == 0 {
			return errors.New(`"value" is missing`)
		}
		if !json.Valid(o.Value) {
			return errors.New(`"value" is not JSON`)
		}
	case "move", "copy":
		if err := checkPointer(o.From); err != nil {
			return fmt.Errorf(`"from" %q: %w`, o.From, err)
		}
		if o.Op == "move" && strings.HasPrefix(o.Path, o.From+"/") {
			return fmt.Errorf("%q cannot move into itself", o.From)
		}
	case "remove":
		if o.Path == "" {
			return errors.New("the whole document cannot be removed")
		}
	default:
		return errors.New("unknown op; it is add, remove, replace, move, copy or test")
	}
	return checkPointer(o.Path)
}

// Under returns the patch for a document that has this patch's document at prefix.
func (p Patch) Under(prefix string) Patch {
	q := make(Patch, len(p))
	for i, o := range p {
		o.Path = prefix + o.Path
		if o.hasFrom() {
			o.From = prefix + o.From
		}
		q[i] = o
	}
	return q
}

// Merge returns the patch that sets each member of the object values, in its order. Members that are
// objects replace whole, and null is stored as null; nothing is taken away.
func Merge(values json.RawMessage) (Patch, error) {
	doc, err := compact(values, DefaultLimits().Depth)
	if err != nil {
		return nil, fmt.Errorf("state: merge: %w", err)
	}
	if doc[0] != '{' {
		return nil, errors.New("state: merge: an object is needed")
	}
	list := split(doc)
	p := make(Patch, len(list))
	for i, m := range list {
		p[i] = Add(Pointer(m.name()), m.value)
	}
	return p, nil
}
