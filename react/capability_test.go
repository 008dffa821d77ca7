package react

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestACapabilityCoversItselfAndWhatIsBelowIt(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		required, granted []string
		want              bool
	}{
		"nothing required":           {nil, nil, true},
		"nothing granted":            {[]string{"math"}, nil, false},
		"the same":                   {[]string{"math::add"}, []string{"math::add"}, true},
		"a parent":                   {[]string{"math::add"}, []string{"math"}, true},
		"a grandparent":              {[]string{"math::add::int"}, []string{"math"}, true},
		"a child does not cover":     {[]string{"math"}, []string{"math::add"}, false},
		"a prefix is no segment":     {[]string{"math"}, []string{"mat"}, false},
		"nor one before a segment":   {[]string{"maths::add"}, []string{"math"}, false},
		"one colon is no separator":  {[]string{"math:add"}, []string{"math"}, false},
		"case counts":                {[]string{"Math"}, []string{"math"}, false},
		"all are needed":             {[]string{"math::add", "bash"}, []string{"math"}, false},
		"by different ones":          {[]string{"math::add", "bash"}, []string{"bash", "math"}, true},
		"an empty one covers nobody": {[]string{"math"}, []string{""}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tt.want, allowed(tt.required, tt.granted))
		})
	}
}

func TestAnOverrideAppliesOnlyUnderTheExtensiblePolicy(t *testing.T) {
	t.Parallel()
	base := make([]string, 2, 9) // with room, in which an append would write
	copy(base, []string{"math", "bash"})
	extend := &CapabilityOverride{Strategy: OverrideExtend, Capabilities: []string{"bash", "vault", "vault"}}
	replace := &CapabilityOverride{Strategy: OverrideReplace, Capabilities: []string{"vault"}}
	tests := map[string]struct {
		policy   CapabilityPolicy
		override *CapabilityOverride
		want     []string
		permits  bool
	}{
		"locked, none":         {PolicyLocked, nil, base, true},
		"locked, inherit":      {PolicyLocked, &CapabilityOverride{Strategy: OverrideInherit}, base, true},
		"locked, extend":       {PolicyLocked, extend, base, false},
		"locked, replace":      {PolicyLocked, replace, base, false},
		"the default, replace": {"", replace, base, false},
		"unknown, replace":     {"Extensible", replace, base, false},
		"extensible, none":     {PolicyExtensible, nil, base, true},
		"extensible, inherit":  {PolicyExtensible, &CapabilityOverride{Strategy: OverrideInherit, Capabilities: []string{"x"}}, base, true},
		"extensible, extend":   {PolicyExtensible, extend, []string{"math", "bash", "vault"}, true},
		"extensible, replace":  {PolicyExtensible, replace, []string{"vault"}, true},
		"extensible, by none":  {PolicyExtensible, &CapabilityOverride{Strategy: OverrideReplace}, nil, true},
		"extensible, unknown":  {PolicyExtensible, &CapabilityOverride{Strategy: "all", Capabilities: []string{"x"}}, base, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.want, granted(tt.policy, base, tt.override))
			assert.Equal(t, tt.permits, tt.policy.permits(tt.override))
			assert.Equal(t, []string{"", ""}, base[2:4], "the agent's list is not written to")
		})
	}
	assert.NoError(t, PolicyLocked.check())
	assert.NoError(t, PolicyExtensible.check())
	assert.NoError(t, CapabilityPolicy("").check())
	assert.EqualError(t, CapabilityPolicy("open").check(), `react: unknown capability policy "open"; it is locked or extensible`)
}

func TestACapabilityOverrideKeepsItsWireForm(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`null`,
		`{"strategy":"inherit"}`,
		`{"strategy":"extend","capabilities":["a::<b>"]}`,
		`{"strategy":"replace","capabilities":[]}`,
	} {
		var o *CapabilityOverride
		require.NoError(t, json.Unmarshal([]byte(text), &o))
		got, err := json.Marshal(o)
		require.NoError(t, err)
		assert.JSONEq(t, text, string(got))
	}
	data, err := json.Marshal(CapabilityOverride{Strategy: OverrideReplace})
	require.NoError(t, err)
	assert.Equal(t, `{"strategy":"replace","capabilities":[]}`, string(data))
}

func TestAWrongCapabilityOverrideIsRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{}`:                     `"strategy" is missing`,
		`{"Strategy":"inherit"}`: `"strategy" is missing`,
		`[]`:                     `it is an object`,
		`{"strategy":null}`:      `"strategy" is a string`,
		`{"strategy":"all"}`:     `unknown strategy "all"; it is inherit, extend or replace`,
		`{"strategy":""}`:        `unknown strategy ""`,
		`{"kind":"extend"}`:      `"strategy" is missing`,
		`{"strategy":"extend"}`:  `extend needs "capabilities"`,
		`{"strategy":"replace"}`: `replace needs "capabilities"`,
		`{"strategy":"replace","capabilities":null}`:   `"capabilities" is an array of strings`,
		`{"strategy":"extend","capabilities":"a"}`:     `"capabilities" is an array of strings`,
		`{"strategy":"extend","capabilities":["a",1]}`: `"capabilities" is an array of strings`,
		`{"strategy":"extend","capabilities":[null]}`:  `"capabilities" is an array of strings`,
	} {
		o := CapabilityOverride{Strategy: "before"}
		assert.ErrorContains(t, json.Unmarshal([]byte(text), &o), "react: capability override: "+want, text)
		assert.Equal(t, "before", o.Strategy)
	}
}
