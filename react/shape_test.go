package react

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/internal/wire"
)

// requireAgreement checks that the shape of a validator takes nothing that the schema package
// refuses. It reports what each of them says.
func requireAgreement(t *testing.T, v *validator, document json.RawMessage) (fits, valid bool) {
	t.Helper()
	data, err := wire.Clean(document)
	require.NoError(t, err)
	instance, err := decodePlain(data)
	require.NoError(t, err)
	refusal := v.schema.Validate(instance)
	fits = v.shape != nil && v.shape.fits(data)
	if fits {
		require.NoError(t, refusal, "a shape takes %s", data)
	}
	return fits, refusal == nil
}

func TestAShapeTakesWhatIsPlainlyValidAndNothingElse(t *testing.T) {
	t.Parallel()
	const person = `{"type":"object","required":["name","extra"],"properties":{
		"name":{"type":"string","description":"who","enum":["a","b",1,null]},
		"age":{"type":["integer","null"],"default":3},
		"size":{"type":"number"},
		"tags":{"type":["null","array"],"items":{"type":"string"}},
		"any":{},"never":false,
		"inner":{"type":"object","properties":{"deep":{"type":"boolean"}},"additionalProperties":{"type":"integer"}}}}`
	const limited = `{"type":"object","properties":{"a":{"minimum":-128,"maximum":127},"b":{"minimum":0}}}`
	const closed = `{"type":"object","properties":{"a":true},"additionalProperties":false}`
	tests := []struct {
		schema, document string
		fits             bool
	}{
		{person, `{"name":"a","extra":{"x":[1,{"y":"}\"]"}]}}`, true},
		{person, `{"extra":0, "name":"b", "age":12345678901234567890123, "size":-1.5e3}`, true},
		{person, `{"extra":0,"name":"b","age":null,"size":7,"tags":["x","\n"],"any":[[],{}]}`, true},
		{person, `{"extra":0,"name":"b","tags":[],"inner":{"deep":true,"x":-1}}`, true},
		{person, `{"extra":0,"name":"a","name":"b"}`, true},
		{person, `{"extra":0,"name":"\u0061"}`, false}, // valid, but not for a shape to say
		{person, `{"extra":0,"name":"a","age":1.0}`, false},
		{person, `{"extra":0,"name":1}`, false},
		{person, `{"extra":0,"name":"c"}`, false},
		{person, `{"extra":0,"name":"c","name":"a"}`, false},
		{person, `{"name":"a"}`, false},
		{person, `{"extra":0,"name":"a","age":"1"}`, false},
		{person, `{"extra":0,"name":"a","tags":["x",1]}`, false},
		{person, `{"extra":0,"name":"a","never":null}`, false},
		{person, `{"extra":0,"name":"a","inner":{"deep":1}}`, false},
		{person, `{"extra":0,"name":"a","inner":{"x":true}}`, false},
		{closed, `{}`, true},
		{closed, `{"a":null}`, true},
		{closed, `{"b":null}`, false},
		{closed, `[]`, false},
		{`{"type":"object","title":"t","$id":"urn:x","$schema":"http://json-schema.org/draft-07/schema#"}`, `{"a":1}`, true},
		{limited, `{"a":-128,"b":0}`, true},
		{limited, `{"a":127,"b":"text"}`, true},
		{limited, `{"a":128}`, false},
		{limited, `{"a":-129}`, false},
		{limited, `{"a":1.5}`, false}, // valid, but who writes that?
		{limited, `{"b":1234567890123456}`, false},
		{limited, `{"b":-1}`, false},
		{`{"type":"object","minProperties":0}`, `{}`, false}, // no shape knows that keyword
		{`{"type":"object","properties":{"a":{"items":{"minLength":1}}}}`, `{}`, false},
	}
	for _, tt := range tests {
		v, err := newValidator(json.RawMessage(tt.schema))
		require.NoError(t, err)
		fits, _ := requireAgreement(t, v, json.RawMessage(tt.document))
		assert.Equal(t, tt.fits, fits, tt.document)
	}
}

func TestInferredSchemasHaveShapes(t *testing.T) {
	t.Parallel()
	type everything struct {
		place
		When    time.Time         `json:"when"`
		Raw     json.RawMessage   `json:"raw"`
		Bytes   []byte            `json:"bytes"`
		Map     map[string]*place `json:"map"`
		Nested  []struct{ X, Y float64 }
		Any     any
		Pointer *bool
	}
	tool := NewTool("t", "", echo[everything]).(*typedTool[everything, everything])
	require.NotNil(t, tool.validator.shape)
	fits, valid := requireAgreement(t, tool.validator, json.RawMessage(`{"city":"Oslo","when":"2026-01-01T00:00:00Z",
		"raw":[1],"bytes":"AA==","map":{"x":{"city":"Bergen"}},"Nested":[{"X":1,"Y":2.5}],"Any":{},"Pointer":null}`))
	assert.True(t, fits)
	assert.True(t, valid)
}

func TestMoreRequiredMembersThanAShapeCanCount(t *testing.T) {
	t.Parallel()
	for n, has := range map[int]bool{64: true, 65: false} {
		schema := &jsonschema.Schema{Type: "object"}
		var document []string
		for i := range n {
			schema.Required = append(schema.Required, fmt.Sprint(i))
			document = append(document, fmt.Sprintf(`"%d":0`, i))
		}
		s, ok := shapeOf(schema)
		require.Equal(t, has, ok)
		if ok {
			assert.True(t, s.fits(json.RawMessage("{"+strings.Join(document, ",")+"}")))
			assert.False(t, s.fits(json.RawMessage("{"+strings.Join(document[1:], ",")+"}")))
		}
	}
}

// dice makes schemas and documents for them by chance, from few names and values, so that they
// often meet.
type dice struct{ *rand.Rand }

func (d dice) pick(list ...string) string { return list[d.IntN(len(list))] }

func (d dice) name() string { return d.pick(`"a"`, `"b"`, `"c"`, `"é"`, `"x\"y"`, `"\u0061"`, `""`) }

func (d dice) kind() string {
	return d.pick(`"null"`, `"boolean"`, `"integer"`, `"number"`, `"string"`, `"array"`, `"object"`)
}

func (d dice) several(most int, one func() string) string {
	list := make([]string, d.IntN(most+1))
	for i := range list {
		list[i] = one()
	}
	return strings.Join(list, ",")
}

func (d dice) schema(depth int) string {
	if depth == 0 || d.IntN(8) == 0 {
		return d.pick("true", "false", "{}", `{"type":`+d.kind()+`}`, `{"not":{}}`)
	}
	below := func() string { return d.schema(depth - 1) }
	keywords := []string{
		`"type":` + d.kind(),
		`"type":[` + d.several(3, d.kind) + `]`,
		`"enum":[` + d.several(3, func() string { return d.value(1) }) + `]`,
		`"items":` + below(),
		`"properties":{` + d.several(3, func() string { return d.name() + ":" + below() }) + `}`,
		`"additionalProperties":` + below(),
		`"required":[` + d.several(2, d.name) + `]`,
		`"minimum":` + d.pick("0", "-7.5", "1e2", "-9223372036854775808") + `,"maximum":` + d.pick("0", "1.5", "9007199254740993", "1e300"),
		`"title":"t","description":"d","default":` + d.value(1),
		`"format":"date","readOnly":true`,
		d.pick(`"not":`, `"minLength":1,"if":`, `"minItems":1,"else":`, `"propertyNames":`) + below(), // mostly beyond a shape
	}
	var own []string
	for i, keyword := range keywords {
		if seldom := i == len(keywords)-1; d.IntN(3) == 0 && (!seldom || d.IntN(10) == 0) && !(i == 1 && len(own) > 0) {
			own = append(own, keyword)
		}
	}
	return "{" + strings.Join(own, ",") + "}"
}

func (d dice) value(depth int) string {
	if depth > 0 {
		switch d.IntN(3) {
		case 0:
			return "[" + d.several(3, func() string { return d.value(depth - 1) }) + "]"
		case 1:
			return "{" + d.several(4, func() string { return d.name() + ":" + d.value(depth-1) }) + "}"
		}
	}
	return d.pick("null", "true", "false", "0", "-0", "1", "-7", "1.0", "1.5", "1e2", "1E-400", "1e400", "0e0",
		"18446744073709551616", "-9223372036854775809", "9007199254740993", "-999999999999999", d.name(), `"{]\\"`)
}

// FuzzShape checks that a shape takes nothing that the schema package refuses.
func FuzzShape(f *testing.F) {
	for seed := range uint64(500) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		d := dice{rand.New(rand.NewPCG(seed, 0))}
		text := d.schema(4)
		if text[0] != '{' {
			return
		}
		text = strings.Replace(text, "{", `{"type":"object",`, 1)
		text = strings.Replace(text, ",}", "}", 1)
		v, err := newValidator(json.RawMessage(text))
		if err != nil {
			return
		}
		for range 50 {
			requireAgreement(t, v, json.RawMessage(d.value(4)))
		}
	})
}

// A shape that refused everything would agree with the schema package too.
func TestMostThatIsValidFitsItsShape(t *testing.T) {
	t.Parallel()
	var schemas, shapes, valid, fit int
	for seed := range uint64(2000) {
		d := dice{rand.New(rand.NewPCG(seed, 1))}
		v, err := newValidator(json.RawMessage(`{"type":"object","properties":{"a":` + d.schema(3) + `}}`))
		if err != nil {
			continue
		}
		schemas++
		if v.shape == nil {
			continue
		}
		shapes++
		for range 10 {
			fits, ok := requireAgreement(t, v, json.RawMessage(`{"a":`+d.value(3)+`}`))
			if ok {
				valid++
			}
			if fits {
				fit++
			}
		}
	}
	t.Logf("%d schemas, %d shapes; %d valid, %d of them fit", schemas, shapes, valid, fit)
	assert.Greater(t, shapes, schemas/2)
	assert.Greater(t, valid, 1000)
	assert.Greater(t, fit, valid/2)
}
