package state_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/state"
)

func TestDiffChangesOnlyTheMembersThatDiffer(t *testing.T) {
	t.Parallel()
	p, ok := state.Diff(
		json.RawMessage(`{"same":[1,2],"gone":1,"in":{"a":1,"b":{"c":1},"spelled":1.0},"list":[1]}`),
		json.RawMessage(`{"new/":null,"in":{"b":{"c":2},"a":1,"spelled":1},"list":[1,2],"same":[ 1, 2 ]}`))
	require.True(t, ok)
	assert.Equal(t, state.Patch{
		state.Remove("/gone"),
		state.Add("/new~1", json.RawMessage(`null`)),
		state.Replace("/in/b/c", json.RawMessage(`2`)),
		state.Replace("/in/spelled", json.RawMessage(`1`)),
		state.Replace("/list", json.RawMessage(`[1,2]`)),
	}, p)

	p, ok = state.Diff(json.RawMessage(`{"a":1,"b":2}`), json.RawMessage(`{"b":2,"a":1}`))
	assert.True(t, ok)
	assert.Empty(t, p)
}

func TestDiffIsForObjectsOnly(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{{`[]`, `{}`}, {`{}`, `null`}, {`1`, `1`}, {`{`, `{}`}, {`{}`, ``}} {
		_, ok := state.Diff(json.RawMessage(c[0]), json.RawMessage(c[1]))
		assert.False(t, ok, "%s %s", c[0], c[1])
	}
}

func TestDiffOfDeepDocumentsIsBounded(t *testing.T) {
	t.Parallel()
	deep := func(v string) json.RawMessage {
		return json.RawMessage(strings.Repeat(`{"a":`, 500) + v + strings.Repeat(`}`, 500))
	}
	p, ok := state.Diff(deep(`1`), deep(`2`))
	require.True(t, ok)
	require.Len(t, p, 1)
	got, err := p.Apply(deep(`1`), nil)
	require.NoError(t, err)
	assert.Equal(t, string(deep(`2`)), string(got))

	_, ok = state.Diff(json.RawMessage(strings.Repeat(`{"a":`, 5000)+`1`+strings.Repeat(`}`, 5000)), deep(`1`))
	assert.False(t, ok)
}

func TestEqualComparesByValue(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{`1`, `1.0`, true}, {`1E2`, `100`, true}, {`100e-2`, `0.01E+2`, true}, {`-0`, `0.0e9`, true},
		{`1`, `-1`, false}, {`1e999999999999999999999`, `1e999999999999999999998`, false},
		{`1e999999999999999999999`, `10e999999999999999999998`, true},
		{`0.1`, `0.10000000000000000000000000000000001`, false}, {`12`, `21`, false}, {`10`, `1`, false},
		{`"1"`, `1`, false}, {`null`, `false`, false}, {`null`, ` null `, true},
		{`{"a":1,"b":2}`, `{"b":2,"a":1}`, true}, {`{"a":1}`, `{"a":1,"b":1}`, false}, {`{"a":1}`, `{"b":1}`, false},
		{`{"a":1,"a":2}`, `{"a":2}`, true}, {`[1,2]`, `[2,1]`, false}, {`[]`, `{}`, false}, {`[1]`, `[1,2]`, false},
		{`"\u00e9"`, `"é"`, true}, {`1`, `[1]`, false}, {`[]`, `1`, false}, {`{`, `{`, false},
	} {
		assert.Equal(t, c.want, state.Equal(json.RawMessage(c.a), json.RawMessage(c.b)), "%s %s", c.a, c.b)
		assert.Equal(t, c.want, state.Equal(json.RawMessage(c.b), json.RawMessage(c.a)), "%s %s", c.b, c.a)
	}
}

func FuzzApplyingADiffGivesTheOtherDocument(f *testing.F) {
	docs := []string{
		`{}`, `{"":{"":1},"a":[1,2]}`, `{"a":{"b":{"c":1E2}},"01":{"-0":1}}`, `{"a":{"b":null},"b":1,"b":2}`,
		`{"a/~":{"x":"\u0041"},"\u0061/~":1}`, `[]`,
	}
	for _, a := range docs {
		for _, b := range docs {
			f.Add([]byte(a), []byte(b))
		}
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		p, ok := state.Diff(a, b)
		if !ok {
			return
		}
		got, err := p.Apply(a, nil)
		require.NoError(t, err)
		require.True(t, state.Equal(got, b), "%s is not %s", got, b)
	})
}
