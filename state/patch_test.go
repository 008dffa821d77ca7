package state_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/internal/wire"
	"github.com/everstep-go/everstep/state"
)

func TestAnOperationPrintsExactlyTheMembersOfItsOp(t *testing.T) {
	t.Parallel()
	p := state.Patch{
		state.Add("/a", json.RawMessage(`null`)),
		state.Remove("/a"),
		state.Replace("/<b>", json.RawMessage(`"<&>"`)),
		state.Move("/a", "/b"),
		state.Copy("", "/b"),
		state.Test("/a", json.RawMessage(`1.0`)),
	}
	want := `[{"op":"add","path":"/a","value":null},` +
		`{"op":"remove","path":"/a"},` +
		`{"op":"replace","path":"/<b>","value":"<&>"},` +
		`{"op":"move","from":"/a","path":"/b"},` +
		`{"op":"copy","from":"","path":"/b"},` +
		`{"op":"test","path":"/a","value":1.0}]`
	data, err := wire.Marshal(p)
	require.NoError(t, err)
	assert.Equal(t, want, string(data))

	back, err := state.ParsePatch(data)
	require.NoError(t, err)
	assert.Equal(t, p, back)

	data, err = json.Marshal(state.Patch(nil))
	require.NoError(t, err)
	assert.Equal(t, `[]`, string(data))
}

func TestAWrongOperationIsNamedByIndexAndPath(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, patch, want string }{
		{"not an array", `{}`, "state: a patch is an array of operations"},
		{"null", `null`, "state: a patch is an array of operations"},
		{"not an object", `[1]`, `state: operation 0 (? ): an operation is an object`},
		{"null operation", `[null]`, `state: operation 0 (? ): an operation is an object`},
		{"no op", `[{"path":"/a"}]`, `state: operation 0 ( /a): "op" is missing`},
		{"unknown op", `[{"op":"remove","path":"/x"},{"op":"set","path":"/a"}]`,
			`state: operation 1 (set /a): unknown op; it is add, remove, replace, move, copy or test`},
		{"op by another spelling", `[{"OP":"remove","path":"/a"}]`, `state: operation 0 ( /a): "op" is missing`},
		{"no path", `[{"op":"remove"}]`, `state: operation 0 (remove ): "path" is missing`},
		{"null path", `[{"op":"remove","path":null}]`, `state: operation 0 (remove ): "path" is a string`},
		{"relative path", `[{"op":"remove","path":"a"}]`, `state: operation 0 (remove a): a pointer is empty or begins with "/"`},
		{"lone tilde", `[{"op":"remove","path":"/a~2"}]`, `state: operation 0 (remove /a~2): "~" in a pointer is written "~0"`},
		{"tilde at the end", `[{"op":"remove","path":"/a~"}]`, `state: operation 0 (remove /a~): "~" in a pointer is written "~0"`},
		{"no value", `[{"op":"add","path":"/a"}]`, `state: operation 0 (add /a): "value" is missing`},
		{"no value to test", `[{"op":"test","path":"/a"}]`, `state: operation 0 (test /a): "value" is missing`},
		{"no from", `[{"op":"move","path":"/a"}]`, `state: operation 0 (move /a): "from" is missing`},
		{"bad from", `[{"op":"copy","from":"b","path":"/a"}]`,
			`state: operation 0 (copy /a): "from" "b": a pointer is empty or begins with "/"`},
		{"move below itself", `[{"op":"move","from":"/a","path":"/a/b"}]`,
			`state: operation 0 (move /a/b): "/a" cannot move into itself`},
		{"remove everything", `[{"op":"remove","path":""}]`,
			`state: operation 0 (remove ): the whole document cannot be removed`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := state.ParsePatch([]byte(c.patch))
			assert.EqualError(t, err, c.want)
			var p state.Patch
			if c.name != "null" {
				assert.Error(t, json.Unmarshal([]byte(c.patch), &p))
			}
		})
	}
	_, err := state.ParsePatch([]byte(`[`))
	assert.ErrorIs(t, err, wire.ErrSyntax)
	_, err = state.ParsePatch([]byte("[{\"op\":\"remove\",\"path\":\"/\xff\"}]"))
	assert.ErrorIs(t, err, wire.ErrUTF8)
}

func TestMembersOfAnOperationThatTheRFCDoesNotHaveAreIgnored(t *testing.T) {
	t.Parallel()
	p, err := state.ParsePatch([]byte(`[{"op":"remove","path":"/a","value":1,"from":2,"xyz":3}]`))
	require.NoError(t, err)
	assert.Equal(t, state.Patch{state.Remove("/a")}, p)
}

func TestUnderMovesEachPathBelowThePrefix(t *testing.T) {
	t.Parallel()
	p := state.Patch{state.Move("/a", "/b"), state.Replace("", json.RawMessage(`1`))}
	assert.Equal(t, state.Patch{state.Move("/x/a", "/x/b"), state.Replace("/x", json.RawMessage(`1`))}, p.Under("/x"))
	assert.Equal(t, "/a", p[0].From, "the patch itself stays")
}

func TestMergeSetsTopLevelMembersInTheirOrder(t *testing.T) {
	t.Parallel()
	p, err := state.Merge(json.RawMessage(`{"z":1,"a/b~c":{"d":null},"":null,"z":1E2}`))
	require.NoError(t, err)
	assert.Equal(t, state.Patch{
		state.Add("/z", json.RawMessage(`1E2`)),
		state.Add("/a~1b~0c", json.RawMessage(`{"d":null}`)),
		state.Add("/", json.RawMessage(`null`)),
	}, p)
	doc, err := p.Apply(json.RawMessage(`{"a/b~c":{"e":1},"kept":0}`), nil)
	require.NoError(t, err)
	assert.Equal(t, `{"a/b~c":{"d":null},"kept":0,"z":1E2,"":null}`, string(doc))

	for _, wrong := range []string{`[]`, `null`, `1`, `"a"`, ``, `{`, `{"a"}`, `{"a":1`, `{} {}`, `{}x`} {
		_, err := state.Merge(json.RawMessage(wrong))
		assert.Error(t, err, wrong)
	}
	p, err = state.Merge(json.RawMessage(` {} `))
	require.NoError(t, err)
	assert.Empty(t, p)
}

func TestPointerEscapesItsTokens(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "", state.Pointer())
	assert.Equal(t, "/", state.Pointer(""))
	assert.Equal(t, "/a~1b/m~0n/~01", state.Pointer("a/b", "m~n", "~1"))
}
