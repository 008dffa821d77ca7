package react

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/internal/wire"
	"github.com/everstep-go/everstep/message"
)

type place struct {
	City  string   `json:"city" jsonschema:"city name, such as <Oslo>"`
	Days  int      `json:"days,omitempty"`
	Tags  []string `json:"tags,omitempty"`
	Small int8     `json:"small,omitzero"`
	Stop  *struct {
		Name string `json:"name"`
	} `json:"stop,omitempty"`
}

func echo[T any](_ context.Context, in T) (T, error) { return in, nil }

// handmade is a tool that does not come from NewTool.
type handmade ToolSpec

func (t handmade) Spec() ToolSpec { return ToolSpec(t) }

func (t handmade) Call(context.Context, ToolCall) (ToolResult, error) { return ToolResult{}, nil }

func handmadeTool(name, parameters string) handmade {
	return handmade{ToolSpec: message.ToolSpec{Name: name, Parameters: json.RawMessage(parameters)}}
}

func callTool(t testing.TB, tool Tool, arguments string) (ToolResult, error) {
	t.Helper()
	return tool.Call(t.Context(), ToolCall{ID: "c", Name: tool.Spec().Name, Arguments: json.RawMessage(arguments)})
}

func TestNewToolInfersTheSchemaOfItsInput(t *testing.T) {
	t.Parallel()
	tool := NewTool("weather", "The weather.", echo[place])
	require.NoError(t, checkTool(tool))
	spec := tool.Spec()
	assert.Equal(t, "weather", spec.Name)
	assert.Equal(t, "The weather.", spec.Description)
	assert.JSONEq(t, `{
		"type":"object","required":["city"],"additionalProperties":false,
		"properties":{
			"city":{"type":"string","description":"city name, such as <Oslo>"},
			"days":{"type":"integer"},
			"tags":{"type":["null","array"],"items":{"type":"string"}},
			"small":{"type":"integer","minimum":-128,"maximum":127},
			"stop":{"type":["null","object"],"required":["name"],"additionalProperties":false,
				"properties":{"name":{"type":"string"}}}}}`, string(spec.Parameters))
	for range 20 { // a prompt cache needs the same bytes every time
		assert.Equal(t, string(spec.Parameters), string(NewTool("weather", "", echo[place]).Spec().Parameters))
	}
}

func TestNewToolTakesTypesThatHaveAJSONOfTheirOwn(t *testing.T) {
	t.Parallel()
	type input struct {
		ID    uuid.UUID         `json:"id"`
		When  time.Time         `json:"when"`
		Raw   json.RawMessage   `json:"raw"`
		Num   json.Number       `json:"num"`
		Big   *big.Int          `json:"big"`
		Bytes []byte            `json:"bytes"`
		Map   map[string]any    `json:"map"`
		IDs   []uuid.UUID       `json:"ids"`
		Ratio map[string]*int64 `json:"ratio"`
	}
	tool := NewTool("own", "", echo[input])
	require.NoError(t, checkTool(tool))
	const arguments = `{"id":"7d444840-9dc0-11d1-b245-5ffdce74fad2","when":"2026-01-02T03:04:05Z",` +
		`"raw":{"any":[1E2]},"num":1.10,"big":123456789012345678901234567890,"bytes":"aGk=","map":{"<":1},` +
		`"ids":["7d444840-9dc0-11d1-b245-5ffdce74fad2"],"ratio":{"a":null,"b":9007199254740993}}`
	got, err := callTool(t, tool, arguments)
	require.NoError(t, err)
	assert.Equal(t, arguments, string(got.Output), "and nothing was lost")
}

type tolerant struct {
	Text string `json:"text"`
}

// UnmarshalJSON ignores case.
func (v *tolerant) UnmarshalJSON(data []byte) error {
	type plain tolerant
	err := json.Unmarshal(data, (*plain)(v))
	v.Text = strings.ToLower(v.Text)
	return err
}

func TestNewToolTakesTheFieldsOfAnInputThatDecodesItself(t *testing.T) {
	t.Parallel()
	tool := NewTool("t", "", echo[tolerant])
	require.NoError(t, checkTool(tool))
	got, err := callTool(t, tool, `{"text":"LOUD"}`)
	require.NoError(t, err)
	assert.Equal(t, `{"text":"loud"}`, string(got.Output))
	_, err = callTool(t, tool, `{"text":1}`)
	assert.ErrorContains(t, err, "invalid arguments: text: ")
}

func TestNewToolDecodesArgumentsAndPrintsTheResult(t *testing.T) {
	t.Parallel()
	type none struct{}
	tests := map[string]struct {
		tool            Tool
		arguments, want string
	}{
		"a struct":              {NewTool("t", "", echo[place]), ` {"city":"Oslo"} `, `{"city":"Oslo"}`},
		"a pointer to a struct": {NewTool("t", "", echo[*place]), `{"city":"Oslo","days":2}`, `{"city":"Oslo","days":2}`},
		"a map":                 {NewTool("t", "", echo[map[string]json.RawMessage]), `{"a":1.0}`, `{"a":1.0}`},
		"no HTML escapes":       {NewTool("t", "", echo[map[string]string]), `{"a":"<&>"}`, `{"a":"<&>"}`},
		"no arguments":          {NewTool("t", "", echo[none]), ``, `{}`},
		"white space":           {NewTool("t", "", echo[map[string]any]), " \n", `{}`},
		"a string":              {NewTool("t", "", func(context.Context, none) (string, error) { return "x", nil }), `{}`, `"x"`},
		"nothing":               {NewTool("t", "", func(context.Context, none) (any, error) { return nil, nil }), `{}`, `null`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.NoError(t, checkTool(tt.tool))
			got, err := callTool(t, tt.tool, tt.arguments)
			require.NoError(t, err)
			assert.Equal(t, tt.want, string(got.Output))
			assert.Nil(t, got.StateUpdate)
		})
	}
}

func TestNewToolPassesAToolResultOnAsItIs(t *testing.T) {
	t.Parallel()
	want := ToolResult{Output: json.RawMessage(`1E2`), StateUpdate: json.RawMessage(`[]`)}
	got, err := callTool(t, NewTool("t", "", func(context.Context, map[string]any) (ToolResult, error) { return want, nil }), `{}`)
	require.NoError(t, err)
	assert.Equal(t, want, got)
}

func TestNewToolReportsAResultWithoutJSON(t *testing.T) {
	t.Parallel()
	tool := NewTool("t", "", func(context.Context, map[string]any) (float64, error) { return math.Inf(1), nil })
	require.NoError(t, checkTool(tool))
	_, err := callTool(t, tool, `{}`)
	assert.ErrorContains(t, err, `react: tool "t": output:`)
}

func TestArgumentsAreValidatedBeforeTheCall(t *testing.T) {
	t.Parallel()
	called := false
	tool := NewTool("t", "", func(context.Context, place) (any, error) { called = true; return nil, nil })
	tests := map[string]struct{ arguments, want string }{
		"missing":                 {`{}`, `required: missing properties: ["city"]`},
		"unknown":                 {`{"city":"Oslo","town":1}`, `unexpected additional properties ["town"]`},
		"other case":              {`{"city":"Oslo","City":"Bergen"}`, `unexpected additional properties ["City"]`},
		"wrong type":              {`{"city":5}`, `city: type: 5 has type "integer", want "string"`},
		"not an integer":          {`{"city":"Oslo","days":1.5}`, `days: type: 1.5 has type "number", want "integer"`},
		"null":                    {`{"city":null}`, `city: type: null has type "null", want "string"`},
		"in an array":             {`{"city":"Oslo","tags":["a",1]}`, `tags[]: type: 1 has type "integer", want "string"`},
		"in an object":            {`{"city":"Oslo","stop":{"name":1}}`, `stop.name: type: 1 has type "integer", want "string"`},
		"too large for the type":  {`{"city":"Oslo","small":1000}`, `small: maximum: 1000 is greater than 127`},
		"too large for every int": {`{"city":"Oslo","days":12345678901234567890123}`, `days: a number 12345678901234567890123 does not fit int`},
		"1.0 is no Go integer":    {`{"city":"Oslo","days":1.0}`, `days: a number 1.0 does not fit int`},
		"a list":                  {`[1]`, `they must be a JSON object, not [1]`},
		"nothing":                 {`null`, `they must be a JSON object, not null`},
		"text that is no JSON":    {`"{city: Oslo"`, `they must be a JSON object, not "{city: Oslo"`},
		"broken":                  {`{"city":`, `invalid JSON at byte 8`},
		"bad UTF-8":               {"{\"city\":\"\xff\"}", `invalid UTF-8 at byte 9`},
		"deep":                    {`{"city":` + strings.Repeat("[", 600), `more than 512 nested containers at byte 519`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := callTool(t, tool, tt.arguments)
			var e *ArgumentError
			require.ErrorAs(t, err, &e)
			assert.Equal(t, "invalid arguments: "+tt.want, err.Error())
			assert.False(t, called)

			v, err := validatorOf(tool)
			require.NoError(t, err)
			assert.Equal(t, e, v.validate(json.RawMessage(tt.arguments)), "known before the call")
		})
	}
}

func TestArgumentErrorsAreShort(t *testing.T) {
	t.Parallel()
	tool := NewTool("t", "", echo[place])
	for _, value := range []string{`{"city":["` + strings.Repeat("é", 1e5) + `"]}`, `"` + strings.Repeat("é", 1e5) + `"`, `"x` + strings.Repeat("é", 1e5) + `"`, `{"city":"x","days":` + strings.Repeat("1", 1e5) + `}`} {
		_, err := callTool(t, tool, value)
		require.Error(t, err)
		assert.Less(t, len(err.Error()), 700)
		assert.True(t, utf8.ValidString(err.Error()))
		assert.True(t, strings.HasPrefix(err.Error(), "invalid arguments: "))
	}
}

func TestNumbersOfAnyPrecisionAreValidated(t *testing.T) {
	t.Parallel()
	v, err := newValidator(json.RawMessage(`{"type":"object","properties":{
		"int":{"type":"integer","minimum":-9223372036854775808},"num":{"type":"number","exclusiveMaximum":2},
		"one":{"enum":[1]},"set":{"type":"array","uniqueItems":true}}}`))
	require.NoError(t, err)
	for _, ok := range []string{
		`{"int":9007199254740993}`, `{"int":18446744073709551615}`, `{"int":123456789012345678901234567890}`, `{"int":1.0}`,
		`{"int":1E2}`, `{"int":-0}`, `{"int":1e999999999}`, `{"num":1e-999999999}`, `{"num":-1e999999999}`, `{"one":1.0}`,
		`{"set":[9007199254740992,9007199254740993]}`, `{"set":[-9007199254740992,-9007199254740993]}`,
		`{"set":[18446744073709551614,18446744073709551615]}`,
	} {
		assert.NoError(t, v.validate(json.RawMessage(ok)), ok)
	}
	for _, wrong := range []string{
		`{"int":0.5}`, `{"int":-1e30}`, `{"int":"1"}`, `{"num":2.0}`, `{"num":1e999999999}`, `{"one":2}`,
		`{"set":[1,1.0]}`, `{"set":[9007199254740993,9007199254740993]}`,
	} {
		assert.Error(t, v.validate(json.RawMessage(wrong)), wrong)
	}
}

func TestValidatorSaysWhereAReferenceLed(t *testing.T) {
	t.Parallel()
	v, err := newValidator(json.RawMessage(`{"type":"object","properties":{"root":{"$ref":"#/$defs/node"}},
		"$defs":{"node":{"type":"object","properties":{"v":{"type":"integer"},"next":{"$ref":"#/$defs/node"}},
			"additionalProperties":{"type":"string"}}}}`))
	require.NoError(t, err)
	assert.NoError(t, v.validate(json.RawMessage(`{"root":{"v":1,"next":{"v":2,"next":{}}}}`)))
	assert.EqualError(t, v.validate(json.RawMessage(`{"root":{"next":{"next":{"v":"x"}}}}`)),
		`invalid arguments: root.next.next.v: type: x has type "string", want "integer"`)
	assert.EqualError(t, v.validate(json.RawMessage(`{"root":{"other":1}}`)),
		`invalid arguments: root{}: type: 1 has type "integer", want "string"`)
}

func TestCheckToolSaysAllThatIsWrong(t *testing.T) {
	t.Parallel()
	type recursive struct{ Next *recursive }
	nilFunc := (func(context.Context, place) (place, error))(nil)
	const object = `{"type":"object"}`
	tests := map[string]struct {
		tool Tool
		want string // "" for none
	}{
		"nil":                    {nil, "react: a tool is nil"},
		"fine":                   {handmadeTool("a_B-9", object), ""},
		"no name":                {handmadeTool("", object), `react: tool "": a name is 1 to 64 letters`},
		"a dot":                  {handmadeTool("a.b", object), `react: tool "a.b": a name`},
		"a newline":              {handmadeTool("a\n", object), `a name`},
		"64":                     {handmadeTool(strings.Repeat("a", 64), object), ""},
		"65":                     {handmadeTool(strings.Repeat("a", 65), object), "a name"},
		"no parameters":          {handmadeTool("t", ``), "parameters: wire: invalid JSON"},
		"null":                   {handmadeTool("t", `null`), `"type":"object" is needed`},
		"true":                   {handmadeTool("t", `true`), `"type":"object" is needed`},
		"no schema":              {handmadeTool("t", `{"type":5}`), "parameters: "},
		"another type":           {handmadeTool("t", `{"type":"array"}`), `"type":"object" is needed`},
		"no type":                {handmadeTool("t", `{}`), `"type":"object" is needed`},
		"a bad pattern":          {handmadeTool("t", `{"type":"object","properties":{"a":{"pattern":"("}}}`), "pattern"},
		"a null property":        {handmadeTool("t", `{"type":"object","properties":{"a":null}}`), "parameters: "},
		"draft 7":                {handmadeTool("t", `{"type":"object","$schema":"http://json-schema.org/draft-07/schema"}`), ""},
		"draft 2020-12":          {handmadeTool("t", `{"type":"object","$schema":"https://json-schema.org/draft/2020-12/schema#"}`), ""},
		"an old draft":           {handmadeTool("t", `{"type":"object","$schema":"http://json-schema.org/draft-04/schema#"}`), "is not supported"},
		"a missing reference":    {handmadeTool("t", `{"type":"object","properties":{"a":{"$ref":"#/$defs/x"}}}`), "there is no such place"},
		"a remote reference":     {handmadeTool("t", `{"type":"object","properties":{"a":{"$ref":"https://x.org/s"}}}`), "there is no such place"},
		"a recursive reference":  {handmadeTool("t", `{"type":"object","properties":{"a":{"$ref":"#"},"b":{"items":{"anyOf":[{"$ref":"#"}]}}}}`), ""},
		"an endless reference":   {handmadeTool("t", `{"type":"object","$ref":"#"}`), "refers to itself without end"},
		"endless, in two steps":  {handmadeTool("t", `{"type":"object","$defs":{"a":{"allOf":[{"$ref":"#/$defs/b"}]},"b":{"not":{"$ref":"#/$defs/a"}}}}`), "without end"},
		"endless, by an anchor":  {handmadeTool("t", `{"type":"object","$anchor":"x","if":{"$REF":"#x"}}`), "without end"},
		"endless, dynamic":       {handmadeTool("t", `{"type":"object","$dynamicAnchor":"x","anyOf":[{"$dynamicRef":"#x"}]}`), "without end"},
		"endless, dependent":     {handmadeTool("t", `{"type":"object","dependentSchemas":{"a":{"$ref":"#"}}}`), "without end"},
		"endless, escaped":       {handmadeTool("t", `{"type":"object","$ref":"#/$defs/a~1b%20c","$defs":{"a/b c":{"$ref":"#"}}}`), "without end"},
		"endless, odd index":     {handmadeTool("t", `{"type":"object","allOf":[{"$ref":"#/allOf/00"}]}`), "there is no such place"},
		"endless, by an id":      {handmadeTool("t", `{"type":"object","$defs":{"a":{"$id":"https://x.org/a","$ref":"#"}}}`), "only the whole schema"},
		"a negative timeout":     {NewTool("t", "", echo[place], &ToolOptions{Timeout: -1}), "timeout -1ns is negative"},
		"an empty capability":    {NewTool("t", "", echo[place], &ToolOptions{Capabilities: []string{""}}), "a capability is empty"},
		"a needless Reconcile":   {NewTool("t", "", echo[place], &ToolOptions{Reconcile: func(context.Context, string) (r ToolResult, err error) { return }}), "Reconcile is for AtMostOnce"},
		"a scalar input":         {NewTool("t", "", echo[string]), "arguments of type string: a struct or a map is needed"},
		"an interface":           {NewTool("t", "", echo[any]), "a struct or a map is needed"},
		"raw JSON":               {NewTool("t", "", echo[json.RawMessage]), "a struct or a map is needed"},
		"a time":                 {NewTool("t", "", echo[time.Time]), `"type":"object" is needed`},
		"a recursive input":      {NewTool("t", "", echo[recursive]), "cycle detected"},
		"a func in the input":    {NewTool("t", "", echo[struct{ F func() }]), "arguments of type struct { F func() }"},
		"a func in a hidden one": {NewTool("t", "", echo[struct{ f func() }]), ""},
		"a map with number keys": {NewTool("t", "", echo[map[int]string]), "arguments of type map[int]string"},
		"a func as a result":     {NewTool("t", "", func(context.Context, place) (func(), error) { return nil, nil }), "a result of type func() has no JSON"},
		"no func":                {NewTool("t", "", nilFunc), "the func is nil"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := checkTool(tt.tool)
			if tt.want == "" {
				require.NoError(t, err)
				v, err := validatorOf(tt.tool)
				require.NoError(t, err)
				var e *ArgumentError
				if err := v.validate(json.RawMessage(`{"a":{"a":{}}}`)); err != nil {
					require.ErrorAs(t, err, &e)
				}
				return
			}
			require.ErrorContains(t, err, tt.want)
			assert.True(t, strings.HasPrefix(err.Error(), "react: "), err)
			if typed, ok := tt.tool.(interface{ check() error }); ok && typed.check() != nil {
				_, err := callTool(t, tt.tool, `{}`)
				assert.ErrorContains(t, err, tt.want, "and a call fails with it")
			}
		})
	}
	err := checkTool(NewTool("a b", "", echo[string], &ToolOptions{Timeout: -1}))
	assert.ErrorContains(t, err, "a name")
	assert.ErrorContains(t, err, "a struct or a map")
	assert.ErrorContains(t, err, "negative")
}

func TestNewToolKeepsTheLastOptions(t *testing.T) {
	t.Parallel()
	capabilities := []string{"math"}
	tool := NewTool("t", "", echo[place], nil, &ToolOptions{AtMostOnce: true},
		&ToolOptions{Capabilities: capabilities, Timeout: time.Second, Approval: true}, nil)
	capabilities[0] = "changed"
	spec := tool.Spec()
	assert.Equal(t, []string{"math"}, spec.Capabilities)
	assert.Equal(t, time.Second, spec.Timeout)
	assert.True(t, spec.Approval)
	assert.False(t, spec.AtMostOnce)
}

func TestErrorsOfToolsPassThroughAndAbortMarksThem(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for name, want := range map[string]error{"ordinary": boom, "abort": Abort(boom)} {
		tool := NewTool("t", "", func(context.Context, map[string]any) (any, error) { return nil, want })
		_, err := callTool(t, tool, `{}`)
		assert.Same(t, want, err, name)
	}
	var e *AbortError
	require.ErrorAs(t, Abort(boom), &e)
	assert.ErrorIs(t, Abort(boom), boom)
	assert.EqualError(t, Abort(boom), "react: aborted: boom")
	assert.NoError(t, Abort(nil))
}

func TestAToolResultSurvivesJSON(t *testing.T) {
	t.Parallel()
	for _, r := range []ToolResult{
		{Output: json.RawMessage(`1E2`)},
		{Output: json.RawMessage(`"x"`), StateUpdate: json.RawMessage(`[]`)},
	} {
		data, err := json.Marshal(r)
		require.NoError(t, err)
		var got ToolResult
		require.NoError(t, json.Unmarshal(data, &got))
		assert.Equal(t, r, got)
	}
}

func TestApprovalAsksWithTheCallAndObeysTheAnswer(t *testing.T) {
	t.Parallel()
	call := ToolCall{ID: "c", Name: "pay", Arguments: json.RawMessage(`{"sum": 1E2, "to":"<x>"}`)}
	ask := func(ctx context.Context, call ToolCall) error {
		_, err := graph.Task(ctx, "c", func(ctx context.Context) (struct{}, error) { return struct{}{}, approve(ctx, call) })
		return err
	}
	err := ask(t.Context(), call)
	require.ErrorIs(t, err, graph.ErrInterrupted)
	var asked *graph.InterruptError
	require.ErrorAs(t, err, &asked)
	assert.Equal(t, "c", asked.Question.ID)
	assert.Equal(t, `{"tool":"pay","arguments":{"sum":1E2,"to":"<x>"}}`, string(asked.Question.Payload))

	require.ErrorAs(t, ask(t.Context(), ToolCall{ID: "c", Name: "pay"}), &asked)
	assert.Equal(t, `{"tool":"pay","arguments":{}}`, string(asked.Question.Payload))

	for answer, want := range map[string]string{
		`{"approved":true}`:                 "",
		`{"approved":true,"reason":"ok"}`:   "",
		`{"approved":false,"reason":"no!"}`: "no!",
		`{"approved":false}`:                "the call was rejected",
		`{"reason":"because"}`:              "because",
		`{}`:                                "the call was rejected",
		`null`:                              "the call was rejected",
		`true`:                              `the call was rejected: the answer is not of the form {"approved":true}`,
		`{"approved":"yes"}`:                `the call was rejected: the answer is not of the form {"approved":true}`,
	} {
		err := ask(graph.WithReply(t.Context(), "c", json.RawMessage(answer)), call)
		if want == "" {
			assert.NoError(t, err, answer)
			continue
		}
		var e *RejectedError
		if assert.ErrorAs(t, err, &e, answer) {
			assert.Equal(t, want, err.Error(), answer)
		}
	}
}

// What comes from foreign servers and models must not bring the process down.
func FuzzValidator(f *testing.F) {
	f.Add(`{"type":"object","properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"anyOf":[{"items":{"$ref":"#"}},{"enum":[1,null,"a",{}]}]}}}`, `{"a":[1,{"a":1e400}]}`)
	f.Add(`{"type":"object","allOf":[{"$ref":"#x"}],"not":{"$anchor":"x","not":{"multipleOf":0}}}`, `{"a":1}`)
	f.Add(`{"type":"object","$dynamicAnchor":"x","properties":{"a":{"$dynamicRef":"#x"}},"patternProperties":{"b":false},"unevaluatedProperties":{"uniqueItems":true}}`, `{"a":{},"c":[1,1.0,null]}`)
	f.Add(`{"type":"object","$schema":"http://json-schema.org/draft-07/schema#","definitions":{"a":{"items":[{}],"additionalItems":false}},"dependencies":{"a":["b"],"c":{"$ref":"#/definitions/a"}}}`, `{"c":[[]]}`)
	f.Add(`{"type":"object","$ref":"#/properties/a","properties":{"a":{"$ref":"#"}}}`, `"x"`)
	f.Fuzz(func(t *testing.T, parameters, arguments string) {
		v, err := newValidator(json.RawMessage(parameters))
		if err != nil {
			return
		}
		if err := v.validate(json.RawMessage(arguments)); err != nil {
			var e *ArgumentError
			require.ErrorAs(t, err, &e)
		}
		if data, err := wire.Clean([]byte(arguments)); err == nil {
			requireAgreement(t, v, data)
		}
	})
}
