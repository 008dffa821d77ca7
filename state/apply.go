package state

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
)

// Limits bound what a patch may do to a document. A field that is zero has its default.
type Limits struct {
	Bytes      int // size of the result, and of all that copy operations add; 4 MiB
	Depth      int // nested containers, in the document, the values and the result; 512
	Operations int // operations in one patch; 10,000
}

// DefaultLimits returns the limits that hold where none are given.
func DefaultLimits() Limits {
	return Limits{Bytes: 4 << 20, Depth: 512, Operations: 10_000}
}

func (l *Limits) orDefault() Limits {
	d := DefaultLimits()
	if l == nil {
		return d
	}
	if l.Bytes > 0 {
		d.Bytes = l.Bytes
	}
	if l.Depth > 0 {
		d.Depth = l.Depth
	}
	if l.Operations > 0 {
		d.Operations = l.Operations
	}
	return d
}

// Apply returns the document that the patch makes of doc, compact, or an error: then nothing of the
// patch counts. Nil limits are the defaults. A document may be larger than the limit if the patch makes
// it small enough.
func (p Patch) Apply(doc json.RawMessage, limits *Limits) (json.RawMessage, error) {
	lim := limits.orDefault()
	if len(p) > lim.Operations {
		return nil, fmt.Errorf("state: patch of %d operations, more than %d: %w", len(p), lim.Operations, ErrLimit)
	}
	cur, err := compact(doc, lim.Depth)
	if err != nil {
		return nil, fmt.Errorf("state: document: %w", err)
	}
	ops, isOdd, err := p.prepare(lim)
	if err != nil {
		return nil, err
	}

	// Where the engine reads a key differently from the RFC, it sees a longer one. The mark is random so
	// that no document can hold it.
	mark := ""
	if isOdd {
		mark = rand.Text()
		if cur, err = ops.mark(cur, mark); err != nil {
			return nil, err
		}
	}
	if cur, err = ops.apply(cur, p, lim, focusDepth); err != nil {
		return nil, err
	}
	if isOdd {
		cur, err = rekey(cur, func(key string) string { return strings.TrimPrefix(key, mark) })
		if err != nil {
			return nil, fmt.Errorf("state: result: %w", err)
		}
	}
	if len(cur) > lim.Bytes {
		return nil, fmt.Errorf("state: result of %d bytes, more than %d: %w", len(cur), lim.Bytes, ErrLimit)
	}
	return cur, nil
}

// prepare checks the operations and returns them with compact values. isOdd is whether a pointer has a
// token that must be hidden from the engine.
func (p Patch) prepare(lim Limits) (ops operations, isOdd bool, err error) {
	ops = make(operations, len(p))
	for i, op := range p {
		fail := func(err error) error {
			return &Error{Index: i, Op: op.Op, Path: op.Path, Reason: err.Error(), Err: errors.Unwrap(err)}
		}
		if err := op.check(); err != nil {
			return nil, false, fail(err)
		}
		if max(strings.Count(op.Path, "/"), strings.Count(op.From, "/")) > lim.Depth {
			return nil, false, fail(fmt.Errorf("a pointer deeper than %d: %w", lim.Depth, ErrLimit))
		}
		if op.hasValue() {
			if op.Value, err = compact(op.Value, lim.Depth); err != nil {
				return nil, false, fail(fmt.Errorf(`"value": %w`, err))
			}
		}
		isOdd = isOdd || hasOddToken(op.Path) || op.hasFrom() && hasOddToken(op.From)
		ops[i] = op
	}
	return ops, isOdd, nil
}

// operations are checked ones with compact values.
type operations []Operation

// mark puts the mark before every odd key of the pointers, the values and the document.
func (ops operations) mark(doc []byte, mark string) ([]byte, error) {
	hide := func(key string) string {
		if odd(key) {
			return mark + key
		}
		return key
	}
	var err error
	for i := range ops {
		ops[i].Path = mapTokens(ops[i].Path, hide)
		if ops[i].hasFrom() {
			ops[i].From = mapTokens(ops[i].From, hide)
		}
		if ops[i].hasValue() {
			if ops[i].Value, err = rekey(ops[i].Value, hide); err != nil {
				return nil, fmt.Errorf("state: %w", err)
			}
		}
	}
	if doc, err = rekey(doc, hide); err != nil {
		return nil, fmt.Errorf("state: document: %w", err)
	}
	return doc, nil
}

// focusDepth is how many levels of objects are left out of what the engine sees.
const focusDepth = 8

// apply lets the engine see only the members that a pointer names, because it pays for each member it
// sees and most patches change a little of a large document.
func (ops operations) apply(doc []byte, given Patch, lim Limits, levels int) ([]byte, error) {
	heads, all := ops.heads()
	if levels == 0 || doc[0] != '{' || all {
		return ops.applyWhole(doc, given, lim)
	}
	members := split(doc)
	is := func(m member) bool {
		if bytes.IndexByte(m.key, '\\') >= 0 {
			return heads[m.name()]
		}
		return heads[string(m.key[1:len(m.key)-1])] // without making a string of each key
	}
	var named []member
	for _, m := range members {
		if is(m) {
			named = append(named, m)
		}
	}
	if below := ops.below(heads); below != nil && len(named) == 1 {
		lim.Depth--
		value, err := below.apply(named[0].value, given, lim, levels-1)
		if err != nil {
			return nil, err
		}
		named = []member{{named[0].key, value}}
	} else {
		part, err := ops.applyWhole(join(named, 0), given, lim)
		if err != nil {
			return nil, err
		}
		named = split(part)
	}
	// Members keep their places, new ones come last.
	after := byName(named)
	out := make([]member, 0, len(members)+len(named))
	for _, m := range members {
		if is(m) {
			key := m.name()
			value, stays := after[key]
			if !stays {
				continue
			}
			delete(after, key)
			m.value = value
		}
		out = append(out, m)
	}
	for _, m := range named {
		if _, isNew := after[m.name()]; isNew {
			out = append(out, m)
		}
	}
	return join(out, len(doc)), nil
}

// join is the reverse of [split]. The size is a guess.
func join(members []member, size int) []byte {
	b := append(make([]byte, 0, size+2), '{')
	for i, m := range members {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, m.key...), ':'), m.value...)
	}
	return append(b, '}')
}

// heads returns the first tokens of all pointers, or that one is to the whole document.
func (ops operations) heads() (heads map[string]bool, all bool) {
	heads = map[string]bool{}
	for _, op := range ops {
		for _, p := range op.pointers() {
			if p == "" {
				return nil, true
			}
			head, _, _ := strings.Cut(p[1:], "/")
			heads[unescaper.Replace(head)] = true
		}
	}
	return heads, false
}

// below returns the operations relative to the one member that all of them go into, nil if they do not.
func (ops operations) below(heads map[string]bool) operations {
	if len(heads) != 1 {
		return nil
	}
	prefix := ""
	for key := range heads {
		prefix = Pointer(key)
	}
	below := slices.Clone(ops)
	for i := range below {
		op := &below[i]
		if op.Path == prefix || op.hasFrom() && op.From == prefix {
			return nil
		}
		op.Path = op.Path[len(prefix):]
		op.From = strings.TrimPrefix(op.From, prefix)
	}
	return below
}

// applyWhole lets the engine see the document.
func (ops operations) applyWhole(doc []byte, given Patch, lim Limits) ([]byte, error) {
	size := len(doc)
	var err error
	for first := 0; first < len(ops); {
		next := first + ops[first:].stretch(4*lim.Depth)
		if doc, err = ops.run(doc, first, next, given, lim.Bytes); err != nil {
			return nil, err
		}
		if d, _ := survey(doc); d > lim.Depth {
			return nil, fmt.Errorf("state: result nested %d deep, more than %d: %w", d, lim.Depth, ErrLimit)
		}
		if next < len(ops) && len(doc) > lim.Bytes+size {
			return nil, fmt.Errorf("state: document of %d bytes after operation %d, more than %d: %w",
				len(doc), next-1, lim.Bytes, ErrLimit)
		}
		first = next
	}
	return doc, nil
}

// stretch returns how many operations may run before the depth of the document is looked at again:
// moving a subtree below another, over and over, would otherwise nest without bound, and the engine
// prints by recursion.
func (ops operations) stretch(levels int) int {
	for i, op := range ops {
		if op.hasFrom() {
			levels -= strings.Count(op.Path, "/")
		}
		if levels < 0 && i > 0 {
			return i
		}
	}
	return len(ops)
}

// run applies ops[first:next]. Errors speak in the words of the patch as it was given.
func (ops operations) run(doc []byte, first, next int, given Patch, limit int) ([]byte, error) {
	part := ops[first:next]
	engine, opts := part.engine(limit)
	out, cause := engine.ApplyWithOptions(wrap(doc), opts)
	failed := len(part)
	if cause != nil {
		// The engine does not say which operation it was.
		failed = sort.Search(len(engine)-1, func(i int) bool {
			_, err := engine[:i+1].ApplyWithOptions(wrap(doc), opts)
			return err != nil
		})
		_, cause = engine[:failed+1].ApplyWithOptions(wrap(doc), opts)
		var err error
		if out, err = engine[:failed].ApplyWithOptions(wrap(doc), opts); err != nil {
			return nil, fmt.Errorf("state: %w", err)
		}
	}
	doc, seen, err := unwrap(out)
	if err != nil {
		return nil, fmt.Errorf("state: result: %w", err)
	}
	// A test that comes first fails first.
	for i, op := range part[:failed] {
		if op.Op != "test" {
			continue
		}
		if !equalCompact(seen[0], op.Value) {
			failed, cause = i, ErrTest
			break
		}
		seen = seen[1:]
	}
	if cause != nil {
		op := given[first+failed]
		reason, err := explain(op, cause)
		return nil, &Error{Index: first + failed, Op: op.Op, Path: op.Path, Reason: reason, Err: err}
	}
	return doc, nil
}

// The engine gets the document as a member of an object, because it cannot hold a scalar at the root,
// copies what the root was at first, and treats "" apart. Beside it stands an array to which each test
// copies what it looks at, because its own test takes a missing value for null and compares numbers by
// spelling.
const (
	wrapped = "/d"
	looked  = "/t/-"
)

func wrap(doc []byte) []byte {
	return slices.Concat([]byte(`{"t":[],"d":`), doc, []byte(`}`))
}

func unwrap(out []byte) (doc []byte, seen []json.RawMessage, err error) {
	if rest, ok := bytes.CutPrefix(out, []byte(`{"t":[],"d":`)); ok {
		return rest[:len(rest)-1], nil, nil
	}
	var w struct {
		T []json.RawMessage `json:"t"`
		D json.RawMessage   `json:"d"`
	}
	err = json.Unmarshal(out, &w)
	return w.D, w.T, err
}

func (ops operations) engine(limit int) (jsonpatch.Patch, *jsonpatch.ApplyOptions) {
	opts := jsonpatch.NewApplyOptions()
	opts.SupportNegativeIndices = false
	opts.EscapeHTML = false
	opts.AccumulatedCopySizeLimit = int64(limit)

	text := func(s string) *json.RawMessage {
		data, _ := json.Marshal(s) // a string always has JSON
		return (*json.RawMessage)(&data)
	}
	patch := make(jsonpatch.Patch, len(ops))
	for i, op := range ops {
		e := jsonpatch.Operation{"op": text(op.Op), "path": text(wrapped + op.Path)}
		switch {
		case op.Op == "test":
			e["op"], e["path"], e["from"] = text("copy"), text(looked), text(wrapped+op.Path)
			// What a test looks at is not growth. It is about as long as the value, or the test fails.
			opts.AccumulatedCopySizeLimit += int64(8*len(op.Value) + 64)
		case op.hasValue():
			e["value"] = &ops[i].Value
		case op.hasFrom():
			e["from"] = text(wrapped + op.From)
		}
		patch[i] = e
	}
	return patch, opts
}

// explain puts the engine's error into words. Its own name the wrapped document.
func explain(op Operation, cause error) (reason string, err error) {
	var size *jsonpatch.AccumulatedCopySizeError
	switch {
	case errors.Is(cause, ErrTest):
		return "the value there is another", ErrTest
	case op.Op == "test" && errors.As(cause, &size):
		return "the value there is another", ErrTest
	case op.Op == "test":
		return "there is nothing", ErrTest
	case errors.As(cause, &size):
		return "copies too much: " + ErrLimit.Error(), ErrLimit
	case errors.Is(cause, strconv.ErrSyntax):
		return "an array has indices 0, 1, … and, to append, -", nil
	case errors.Is(cause, jsonpatch.ErrInvalidIndex), errors.Is(cause, strconv.ErrRange):
		return "the array is not that long", nil
	case op.hasFrom():
		return fmt.Sprintf("%q or the parent of the path is missing", op.From), nil
	case op.Op == "add":
		return "the parent is missing or holds no members", nil
	default:
		return "there is nothing", nil
	}
}
