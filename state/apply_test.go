package state_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/state"
)

func apply(t testing.TB, doc, patch string, limits *state.Limits) (string, error) {
	t.Helper()
	p, err := state.ParsePatch([]byte(patch))
	require.NoError(t, err)
	out, err := p.Apply(json.RawMessage(doc), limits)
	if err != nil {
		assert.Nil(t, out, "a document beside an error")
	}
	return string(out), err
}

// The examples of RFC 6902, appendix A. An empty result is an error. A.11 is about members that are
// ignored, A.13 about an operation with two ops.
func TestTheExamplesOfRFC6902(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, doc, patch, want string }{
		{"A.1 adding an object member", `{"foo":"bar"}`, `[{"op":"add","path":"/baz","value":"qux"}]`, `{"baz":"qux","foo":"bar"}`},
		{"A.2 adding an array element", `{"foo":["bar","baz"]}`, `[{"op":"add","path":"/foo/1","value":"qux"}]`, `{"foo":["bar","qux","baz"]}`},
		{"A.3 removing an object member", `{"baz":"qux","foo":"bar"}`, `[{"op":"remove","path":"/baz"}]`, `{"foo":"bar"}`},
		{"A.4 removing an array element", `{"foo":["bar","qux","baz"]}`, `[{"op":"remove","path":"/foo/1"}]`, `{"foo":["bar","baz"]}`},
		{"A.5 replacing a value", `{"baz":"qux","foo":"bar"}`, `[{"op":"replace","path":"/baz","value":"boo"}]`, `{"baz":"boo","foo":"bar"}`},
		{"A.6 moving a value", `{"foo":{"bar":"baz","waldo":"fred"},"qux":{"corge":"grault"}}`, `[{"op":"move","from":"/foo/waldo","path":"/qux/thud"}]`, `{"foo":{"bar":"baz"},"qux":{"corge":"grault","thud":"fred"}}`},
		{"A.7 moving an array element", `{"foo":["all","grass","cows","eat"]}`, `[{"op":"move","from":"/foo/1","path":"/foo/3"}]`, `{"foo":["all","cows","eat","grass"]}`},
		{"A.8 testing a value: success", `{"baz":"qux","foo":["a",2,"c"]}`, `[{"op":"test","path":"/baz","value":"qux"},{"op":"test","path":"/foo/1","value":2}]`, `{"baz":"qux","foo":["a",2,"c"]}`},
		{"A.9 testing a value: error", `{"baz":"qux"}`, `[{"op":"test","path":"/baz","value":"bar"}]`, ``},
		{"A.10 adding a nested member object", `{"foo":"bar"}`, `[{"op":"add","path":"/child","value":{"grandchild":{}}}]`, `{"foo":"bar","child":{"grandchild":{}}}`},
		{"A.11 ignoring unrecognized elements", `{"foo":"bar"}`, `[{"op":"add","path":"/baz","value":"qux","xyz":123}]`, `{"foo":"bar","baz":"qux"}`},
		{"A.12 adding to a nonexistent target", `{"foo":"bar"}`, `[{"op":"add","path":"/baz/bat","value":"qux"}]`, ``},
		{"A.13 invalid patch document", `{"foo":"bar"}`, `[{"op":"add","path":"/baz","value":"qux","op":"remove"}]`, ``},
		{"A.14 ~ escape ordering", `{"/":9,"~1":10}`, `[{"op":"test","path":"/~01","value":10}]`, `{"/":9,"~1":10}`},
		{"A.15 comparing strings and numbers", `{"/":9,"~1":10}`, `[{"op":"test","path":"/~01","value":"10"}]`, ``},
		{"A.16 adding an array value", `{"foo":["bar"]}`, `[{"op":"add","path":"/foo/-","value":["abc","def"]}]`, `{"foo":["bar",["abc","def"]]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := apply(t, c.doc, c.patch, nil)
			if c.want == "" {
				assert.Error(t, err)
				return
			}
			require.NoError(t, err)
			assert.JSONEq(t, c.want, got)
		})
	}
}

func TestApplyHoldsToTheRFCWhereItsEngineDoesNot(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, doc, patch, want string }{
		{"numbers keep their spelling", `{"a":1E2,"b":-0,"c":9007199254740993,"d":0.1234567890123456789012345678901234567890}`,
			`[{"op":"add","path":"/e","value":1.50},{"op":"copy","from":"/c","path":"/f"},{"op":"move","from":"/a","path":"/a"}]`,
			`{"a":1E2,"b":-0,"c":9007199254740993,"d":0.1234567890123456789012345678901234567890,"e":1.50,"f":9007199254740993}`},
		{"HTML stays as it is", `{"<a>":"&"}`, `[{"op":"add","path":"/<b>","value":"</b>"}]`, `{"<a>":"&","<b>":"</b>"}`},
		{"a negative index is refused", `[1,2]`, `[{"op":"remove","path":"/-1"}]`, ``},
		{"an index with a leading zero is refused", `[1,2]`, `[{"op":"replace","path":"/01","value":3}]`, ``},
		{"an index with a sign is refused", `[1,2]`, `[{"op":"replace","path":"/+1","value":3}]`, ``},
		{"a negative zero is refused", `[1,2]`, `[{"op":"replace","path":"/-0","value":3}]`, ``},
		{"index 0 is no leading zero", `[1,2]`, `[{"op":"replace","path":"/0","value":3}]`, `[3,2]`},
		{"a key may look like a wrong index", `{"01":{"-1":1}}`, `[{"op":"replace","path":"/01/-1","value":{"00":2}}]`, `{"01":{"-1":{"00":2}}}`},
		{"an index past the end is refused", `[1,2]`, `[{"op":"add","path":"/3","value":3}]`, ``},
		{"an index at the end appends", `[1,2]`, `[{"op":"add","path":"/2","value":3}]`, `[1,2,3]`},
		{"there is no element at -", `[1,2]`, `[{"op":"remove","path":"/-"}]`, ``},
		{"an index past all integers is refused", `[1,2]`, `[{"op":"add","path":"/99999999999999999999","value":3}]`, ``},
		{"a test for null where nothing is fails", `{}`, `[{"op":"test","path":"/a","value":null}]`, ``},
		{"a test for null where null is holds", `{"a":null,"b":[null]}`, `[{"op":"test","path":"/a","value":null},{"op":"test","path":"/b/0","value":null}]`, `{"a":null,"b":[null]}`},
		{"null is not a missing parent's value", `{"a":null}`, `[{"op":"add","path":"/a/b","value":1}]`, ``},
		{"a test compares numbers by value", `{"a":[1.0,-0,1e400]}`, `[{"op":"test","path":"/a","value":[10E-1,0,10e399]}]`, `{"a":[1.0,-0,1e400]}`},
		{"a test does not take a number for a near one", `{"a":9007199254740993}`, `[{"op":"test","path":"/a","value":9007199254740992}]`, ``},
		{"a test ignores the order of members", `{"a":{"b":1,"c":2}}`, `[{"op":"test","path":"/a","value":{"c":2,"b":1}}]`, `{"a":{"b":1,"c":2}}`},
		{"a test ignores the spelling of strings", `{"a":"A/"}`, `[{"op":"test","path":"/a","value":"\u0041\/"}]`, `{"a":"A/"}`},
		{"a test sees the operations before it", `{"a":1}`, `[{"op":"replace","path":"/a","value":2},{"op":"test","path":"","value":{"a":2}},{"op":"replace","path":"/a","value":3}]`, `{"a":3}`},
		{"an array is not an empty object", `{"a":[]}`, `[{"op":"test","path":"/a","value":{}}]`, ``},
		{"the empty key is a key", `{"":{"":1},"a":2}`, `[{"op":"test","path":"//","value":1},{"op":"copy","from":"/","path":"//b"},{"op":"replace","path":"//","value":3}]`, `{"":{"":3,"b":{"":1}},"a":2}`},
		{"a missing empty key is missing", `{"a":2}`, `[{"op":"replace","path":"/","value":1}]`, ``},
		{"the empty key can be removed", `{"":1}`, `[{"op":"remove","path":"/"}]`, `{}`},
		{"add at the root replaces", `{"a":1}`, `[{"op":"add","path":"","value":7}]`, `7`},
		{"replace at the root takes a scalar", `{"a":1}`, `[{"op":"replace","path":"","value":null}]`, `null`},
		{"the document may be a scalar", `7`, `[{"op":"test","path":"","value":7.0},{"op":"replace","path":"","value":[]},{"op":"add","path":"/-","value":1}]`, `[1]`},
		{"a copy of the root is as it is now", `{"a":1}`, `[{"op":"replace","path":"/a","value":2},{"op":"copy","from":"","path":"/b"}]`, `{"a":2,"b":{"a":2}}`},
		{"the root moved to itself stays", `{"a":1}`, `[{"op":"move","from":"","path":""}]`, `{"a":1}`},
		{"a copy is no alias", `{"a":{"x":1}}`, `[{"op":"copy","from":"/a","path":"/b"},{"op":"replace","path":"/b/x","value":2}]`, `{"a":{"x":1},"b":{"x":2}}`},
		{"a sibling may share the prefix of a move", `{"a":1}`, `[{"op":"move","from":"/a","path":"/ab"}]`, `{"ab":1}`},
		{"a repeated key has its last value", `{"a":1,"a":2,"b":{"c":1,"\u0063":2}}`, `[{"op":"test","path":"/a","value":2},{"op":"remove","path":"/a"}]`, `{"b":{"c":2}}`},
		{"white space does not count", " {\r\n\"a\" : [ 1 ,\t2 ] } ", `[{"op":"remove","path":"/a/0"}]`, `{"a":[2]}`},
		{"members keep their places", `{"a":1,"\u0062":{"x":{"y":1}},"c":3,"d":4}`,
			`[{"op":"add","path":"/e","value":5},{"op":"remove","path":"/c"},{"op":"replace","path":"/b/x/y","value":2},{"op":"remove","path":"/a"},{"op":"add","path":"/a","value":6}]`,
			`{"a":6,"b":{"x":{"y":2}},"d":4,"e":5}`},
		{"a member deep below keeps its neighbours", `{"a":{"b":{"c":1,"d":2},"e":3},"f":4}`, `[{"op":"replace","path":"/a/b/c","value":5},{"op":"move","from":"/a/b/d","path":"/a/b/g"}]`,
			`{"a":{"b":{"c":5,"g":2},"e":3},"f":4}`},
		{"a member that is emptied stays", `{"a":{"b":1}}`, `[{"op":"remove","path":"/a/b"}]`, `{"a":{}}`},
		{"no operation returns the document", ` {"a" : 1} `, `[]`, `{"a":1}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := apply(t, c.doc, c.patch, nil)
			if c.want == "" {
				var e *state.Error
				assert.ErrorAs(t, err, &e)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
		})
	}
}

func TestAnOperationThatDoesNotFitIsNamedAndNothingApplies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, patch, want string }{
		{"missing parent", `[{"op":"add","path":"/ok","value":1},{"op":"add","path":"/no/x","value":1},{"op":"remove","path":"/no"}]`,
			"state: operation 1 (add /no/x): the parent is missing or holds no members"},
		{"nothing below a member", `[{"op":"test","path":"/a","value":1},{"op":"add","path":"/a/b/c","value":1}]`,
			"state: operation 1 (add /a/b/c): the parent is missing or holds no members"},
		{"a wrong place below one member", `[{"op":"add","path":"/list/-","value":{}},{"op":"remove","path":"/list/0/a"}]`,
			"state: operation 1 (remove /list/0/a): there is nothing"},
		{"a name in an array", `[{"op":"add","path":"/list/last_city","value":1}]`,
			"state: operation 0 (add /list/last_city): an array has indices 0, 1, … and, to append, -"},
		{"past the end", `[{"op":"add","path":"/list/5","value":1}]`, "state: operation 0 (add /list/5): the array is not that long"},
		{"nothing to remove", `[{"op":"remove","path":"/no"}]`, "state: operation 0 (remove /no): there is nothing"},
		{"nothing to move", `[{"op":"move","from":"/no","path":"/a"}]`, `state: operation 0 (move /a): "/no" or the parent of the path is missing`},
		{"a test fails before what comes later", `[{"op":"test","path":"/a","value":2},{"op":"remove","path":"/no"}]`,
			"state: operation 0 (test /a): the value there is another"},
		{"a test fails after what came before", `[{"op":"remove","path":"/no"},{"op":"test","path":"/a","value":2}]`,
			"state: operation 0 (remove /no): there is nothing"},
		{"nothing to test", `[{"op":"test","path":"/no","value":null}]`, "state: operation 0 (test /no): there is nothing"},
		{"odd keys are shown as they are", `[{"op":"add","path":"/a","value":1},{"op":"remove","path":"//01"}]`, "state: operation 1 (remove //01): there is nothing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			doc := `{"a":1,"list":[]}`
			_, err := apply(t, doc, c.patch, nil)
			assert.EqualError(t, err, c.want)
		})
	}
	_, err := apply(t, `{"a":1}`, `[{"op":"test","path":"/a","value":2}]`, nil)
	assert.ErrorIs(t, err, state.ErrTest)
}

func TestApplyChecksWhatDidNotComeThroughParse(t *testing.T) {
	t.Parallel()
	for _, op := range []state.Operation{
		{}, {Op: "add", Path: "/a"}, {Op: "add", Path: "/a", Value: json.RawMessage(`{`)},
		{Op: "copy", From: "a", Path: "/a"}, {Op: "test", Path: ""}, {Op: "add", Path: "a", Value: json.RawMessage(`1`)},
	} {
		_, err := state.Patch{op}.Apply(json.RawMessage(`{}`), nil)
		var e *state.Error
		assert.ErrorAs(t, err, &e, "%+v", op)
	}
	for _, doc := range []string{``, `{`, `{}{}`, `nul`} {
		_, err := state.Patch{}.Apply(json.RawMessage(doc), nil)
		assert.Error(t, err, doc)
	}
}

func TestNoPatchGetsPastTheLimits(t *testing.T) {
	t.Parallel()
	repeat := func(op string, n int) string {
		return "[" + strings.TrimSuffix(strings.Repeat(op+",", n), ",") + "]"
	}
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	small := &state.Limits{Bytes: 1000, Depth: 10, Operations: 100}
	for _, c := range []struct{ name, doc, patch string }{
		{"a large value", `{}`, `[{"op":"add","path":"/a","value":"` + strings.Repeat("x", 1000) + `"}]`},
		{"a copy bomb", `{"a":"0123456789"}`, repeat(`{"op":"copy","from":"","path":"/b"}`, 100)},
		{"copies that are removed again", `{"a":"` + strings.Repeat("x", 100) + `"}`,
			repeat(`{"op":"copy","from":"/a","path":"/b"},{"op":"remove","path":"/b"}`, 50)},
		{"many operations", `[]`, repeat(`{"op":"add","path":"/-","value":1}`, 101)},
		{"a deep document", nested(11), `[]`},
		{"a deep value", `[]`, `[{"op":"add","path":"/-","value":` + nested(11) + `}]`},
		{"a deep result", nested(6), `[{"op":"add","path":"/0/0/0/0/0/-","value":` + nested(6) + `}]`},
		{"a deep result below one member", `{"a":{"b":` + nested(4) + `}}`, `[{"op":"add","path":"/a/b/0/0/0/-","value":` + nested(5) + `}]`},
		{"a deep pointer", `{}`, `[{"op":"add","path":"` + strings.Repeat("/a", 11) + `","value":1}]`},
		{"a move bomb", `{"a":{}}`, repeat(`{"op":"add","path":"/b","value":{}},{"op":"move","from":"/a","path":"/b/a"},{"op":"move","from":"/b","path":"/a"}`, 33)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := apply(t, c.doc, c.patch, small)
			assert.ErrorIs(t, err, state.ErrLimit)
		})
	}
	t.Run("moves that would nest millions of levels do not exhaust the stack", func(t *testing.T) {
		t.Parallel()
		deep := strings.Repeat("/a", 500)
		value := json.RawMessage(strings.Repeat(`{"a":`, 500) + `{}` + strings.Repeat(`}`, 500))
		var p state.Patch
		for range 3000 {
			p = append(p, state.Move("/x", "/y"+deep), state.Add("/z", value), state.Move("/y", "/x"), state.Move("/z", "/y"))
		}
		_, err := p.Apply(json.RawMessage(`{"x":{},"y":`+string(value)+`}`), &state.Limits{Operations: len(p)})
		assert.ErrorIs(t, err, state.ErrLimit)
	})
	t.Run("a document that is too large may be made smaller", func(t *testing.T) {
		t.Parallel()
		got, err := apply(t, `{"a":"`+strings.Repeat("x", 1000)+`"}`, `[{"op":"remove","path":"/a"}]`, small)
		require.NoError(t, err)
		assert.Equal(t, `{}`, got)
	})
	t.Run("a test of the whole document is no growth", func(t *testing.T) {
		t.Parallel()
		doc := `{"a":"` + strings.Repeat("x", 900) + `"}`
		got, err := apply(t, doc, repeat(`{"op":"test","path":"","value":`+doc+`}`, 100), small)
		require.NoError(t, err)
		assert.Equal(t, doc, got)
	})
}

func TestAPatchIsSharedBetweenGoroutines(t *testing.T) {
	t.Parallel()
	p, err := state.ParsePatch([]byte(`[{"op":"add","path":"/a","value":{"":[1]}},{"op":"add","path":"/a//-","value":2},{"op":"test","path":"/a","value":{"":[1,2]}}]`))
	require.NoError(t, err)
	doc := json.RawMessage(`{ "b":1 }`)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			got, err := p.Apply(doc, nil)
			assert.NoError(t, err)
			assert.Equal(t, `{"b":1,"a":{"":[1,2]}}`, string(got))
		})
	}
	wg.Wait()
	assert.Equal(t, `{ "b":1 }`, string(doc))
	assert.Equal(t, `{"":[1]}`, string(p[0].Value))
}

func FuzzApplyNeverPanicsNorPassesItsLimits(f *testing.F) {
	for _, doc := range []string{`{}`, `{"a":{"b":[1,2,{"":null}]},"":1}`, `[[],[1e2]]`, `null`, `"x"`, `{"a":1,"a":{"01":2}}`} {
		for _, patch := range []string{
			`[{"op":"add","path":"/a","value":1}]`,
			`[{"op":"copy","from":"","path":"/a/b/-"},{"op":"copy","from":"","path":"/b"}]`,
			`[{"op":"move","from":"/a","path":"/b"},{"op":"test","path":"/b/b/0","value":1.0}]`,
			`[{"op":"replace","path":"","value":[[]]},{"op":"move","from":"/0","path":"/-"},{"op":"remove","path":"/0"}]`,
			`[{"op":"add","path":"/01","value":{}},{"op":"add","path":"/01/","value":{}},{"op":"move","from":"/01/","path":"/a"}]`,
		} {
			f.Add([]byte(doc), []byte(patch))
		}
	}
	lim := &state.Limits{Bytes: 500, Depth: 8, Operations: 20}
	f.Fuzz(func(t *testing.T, doc, patch []byte) {
		before := string(doc)
		p, err := state.ParsePatch(patch)
		if err != nil {
			return
		}
		out, err := p.Apply(doc, lim)
		require.Equal(t, before, string(doc))
		if err != nil {
			require.Nil(t, out)
			var e *state.Error
			if errors.As(err, &e) {
				require.Less(t, e.Index, len(p))
				require.Equal(t, p[e.Index].Path, e.Path)
			}
			return
		}
		require.True(t, json.Valid(out), "%s", out)
		require.LessOrEqual(t, len(out), lim.Bytes)
		depth, deepest, inString := 0, 0, false
		for i := 0; i < len(out); i++ {
			switch c := out[i]; {
			case inString && c == '\\':
				i++
			case c == '"':
				inString = !inString
			case !inString && (c == '{' || c == '['):
				depth++
				deepest = max(deepest, depth)
			case !inString && (c == '}' || c == ']'):
				depth--
			}
		}
		require.LessOrEqual(t, deepest, lim.Depth)
		again, err := state.Patch{state.Test("", out)}.Apply(out, lim)
		require.NoError(t, err)
		require.Equal(t, string(out), string(again), "the result is a document as Apply prints it")
	})
}

func BenchmarkApply(b *testing.B) {
	for _, members := range []int{1, 1000, 50_000} {
		var doc strings.Builder
		doc.WriteString(`{"m":0`)
		for i := range members {
			fmt.Fprintf(&doc, `,"member%d":{"city":"Oslo","n":[1,2,3]}`, i)
		}
		doc.WriteString(`}`)
		raw := json.RawMessage(doc.String())
		p := state.Patch{state.Add("/member0/city", json.RawMessage(`"Rome"`)), state.Test("/m", json.RawMessage(`0`))}
		b.Run(fmt.Sprintf("bytes=%d", len(raw)), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Apply(raw, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
