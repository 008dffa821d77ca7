package wire_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/everstep-go/everstep/internal/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCleanKeepsWhatIsAcceptable(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ in, want string }{
		"numbers keep their spelling":     {`[1E2, -0, 12345678901234567890.10]`, `[1E2,-0,12345678901234567890.10]`},
		"NUL is kept":                     {`"a\u0000b"`, `"a\u0000b"`},
		"a lone high surrogate":           {`"\ud800"`, `"\ufffd"`},
		"a lone low surrogate":            {`"a\uDC00b"`, `"a\ufffdb"`},
		"a pair is kept":                  {`"\ud83d\uDE00"`, `"\ud83d\uDE00"`},
		"a high surrogate before a pair":  {`"\ud800\ud83d\ude00"`, `"\ufffd\ud83d\ude00"`},
		"a high surrogate before text":    {`"\ud800x\udc00"`, `"\ufffdx\ufffd"`},
		"a lone surrogate in a key":       {`{"\ud800":1}`, `{"\ufffd":1}`},
		"an escaped backslash before u":   {`"\\ud800"`, `"\\ud800"`},
		"repeated keys are left":          {`{"a": 1, "a": 2}`, `{"a":1,"a":2}`},
		"white space within text is kept": {" { \"a b\" :\t[ ] }\r\n", `{"a b":[]}`},
		"no HTML escapes":                 {`"<a href='&'>"`, `"<a href='&'>"`},
		"line separators stay":            {"\"\u2028\"", "\"\u2028\""},
		"literals":                        {`[true,false,null]`, `[true,false,null]`},
		"as deep as allowed":              {strings.Repeat("[", 512) + strings.Repeat("]", 512), strings.Repeat("[", 512) + strings.Repeat("]", 512)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := wire.Clean([]byte(tt.in))
			require.NoError(t, err)
			assert.Equal(t, tt.want, string(got))
		})
	}
}

func TestCleanSaysWhatIsWrongAndWhere(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		in     string
		want   error
		offset int
	}{
		"nothing":                  {"", wire.ErrSyntax, 0},
		"only white space":         {"  ", wire.ErrSyntax, 2},
		"a byte order mark":        {"\ufeff{}", wire.ErrSyntax, 0},
		"an open array":            {`[1`, wire.ErrSyntax, 2},
		"the wrong bracket":        {`[1}`, wire.ErrSyntax, 2},
		"a trailing comma":         {`[1,]`, wire.ErrSyntax, 3},
		"a trailing comma, object": {`{"a":1,}`, wire.ErrSyntax, 7},
		"a key that is no text":    {`{1:2}`, wire.ErrSyntax, 1},
		"no colon":                 {`{"a" 1}`, wire.ErrSyntax, 5},
		"two documents":            {`{} {}`, wire.ErrSyntax, 3},
		"a leading zero":           {`01`, wire.ErrSyntax, 1},
		"a lone minus":             {`-`, wire.ErrSyntax, 1},
		"no digits after the dot":  {`1.e2`, wire.ErrSyntax, 2},
		"no digits in exponent":    {`1e+`, wire.ErrSyntax, 3},
		"a broken literal":         {`nul`, wire.ErrSyntax, 3},
		"an open string":           {`"a`, wire.ErrSyntax, 2},
		"an open escape":           {`"\`, wire.ErrSyntax, 2},
		"an unknown escape":        {`"\x"`, wire.ErrSyntax, 2},
		"a short unicode escape":   {`"\u12"`, wire.ErrSyntax, 1},
		"a control character":      {"\"\x00\"", wire.ErrSyntax, 1},
		"a line end in text":       {"\"\n\"", wire.ErrSyntax, 1},
		"the last control":         {"\"\x1f\"", wire.ErrSyntax, 1},
		"NUL between values":       {"[1\x00]", wire.ErrSyntax, 2},
		"bad UTF-8 in text":        {"\"a\xff\"", wire.ErrUTF8, 2},
		"bad UTF-8 in a key":       {"{\"\xc3\":1}", wire.ErrUTF8, 2},
		"bad UTF-8 elsewhere":      {"[\xff]", wire.ErrUTF8, 1},
		"a surrogate in UTF-8":     {"\"\xed\xa0\x80\"", wire.ErrUTF8, 1},
		"too deep":                 {strings.Repeat("[", 513) + strings.Repeat("]", 513), wire.ErrDepth, 512},
		"too deep, objects":        {strings.Repeat(`{"a":`, 600), wire.ErrDepth, 512 * 5},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := wire.Clean([]byte(tt.in))
			assert.Nil(t, got)
			require.ErrorIs(t, err, tt.want)
			var e *wire.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, tt.offset, e.Offset, "%v", err)
		})
	}
}

func TestCleanRefusesHostileNestingAtOnce(t *testing.T) {
	t.Parallel()
	_, err := wire.Clean(bytes.Repeat([]byte("["), 10<<20))
	require.ErrorIs(t, err, wire.ErrDepth)
	assert.EqualError(t, err, "wire: more than 512 nested containers at byte 512")
}

func TestCleanOfCleanInputIsTheInputWithoutAllocation(t *testing.T) {
	in := []byte(`{"a":[1,{"b":"\ud83d\ude00 é"}],"c":null}`)
	got, err := wire.Clean(in)
	require.NoError(t, err)
	assert.Same(t, &in[0], &got[0])
	assert.Zero(t, testing.AllocsPerRun(100, func() { _, _ = wire.Clean(in) }))
}

func TestCleanNeverWritesToItsInput(t *testing.T) {
	t.Parallel()
	const text = ` [ "\ud800" ] `
	in := []byte(text)
	_, err := wire.Clean(in)
	require.NoError(t, err)
	assert.Equal(t, text, string(in))
}

func FuzzClean(f *testing.F) {
	for _, s := range []string{
		``, ` `, `{}`, `[]`, `{"a":{"b":[1,-2.5e+3,true,false,null,"x"]}}`, `[[],{},[{}]]`, "\t[ 1 , 2 ]\n",
		`"\ud800"`, `"\ud83d\ude00"`, `"\ud800\ud800\udc00"`, `"\\ud800\"\/\b\f\n\r\t\u0000"`, "\"\u2028<>&\"",
		"\"\xff\"", `{"a":1,"a":2}`, `01`, `1.`, `[1,]`, `{"a"}`, strings.Repeat("[", 600),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		got, err := wire.Clean(in)
		if err != nil {
			deep := bytes.Count(in, []byte("["))+bytes.Count(in, []byte("{")) > wire.MaxDepth
			if json.Valid(in) && utf8.Valid(in) && !deep {
				t.Fatalf("refused valid JSON %q: %v", in, err)
			}
			return
		}
		if !json.Valid(got) || !utf8.Valid(got) {
			t.Fatalf("Clean(%q) = %q, which is not valid", in, got)
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, in); err != nil {
			t.Fatalf("accepted %q: %v", in, err)
		}
		if len(got) != compact.Len() {
			t.Fatalf("Clean(%q) = %q, want the length of %q", in, got, compact.Bytes())
		}
		if !bytes.Contains(bytes.ToLower(in), []byte(`\ud`)) && !bytes.Equal(got, compact.Bytes()) {
			t.Fatalf("Clean(%q) = %q, want %q", in, got, compact.Bytes())
		}
		// encoding/json has the same rule for lone surrogates, so both mean the same value.
		var a, b any
		if json.Unmarshal(in, &a) == nil {
			if err := json.Unmarshal(got, &b); err != nil {
				t.Fatal(err)
			}
			assert.Equal(t, a, b)
		}
		again, err := wire.Clean(got)
		if err != nil || len(again) != len(got) || &again[0] != &got[0] {
			t.Fatalf("Clean(%q) = %q, %v: not idempotent", got, again, err)
		}
	})
}

func BenchmarkClean(b *testing.B) {
	in := []byte(`{"content":"Umbrella in Oslo?","metadata":{"n":[1,2,3],"s":"\u0000"},"tool_calls":[{"id":"call_1","name":"weather","arguments":{"city":"Oslo"}}]}`)
	b.SetBytes(int64(len(in)))
	for b.Loop() {
		if _, err := wire.Clean(in); err != nil {
			b.Fatal(err)
		}
	}
}
