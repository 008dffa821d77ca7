package react

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/state"
)

func TestAStateUpdateAppendsOperationsAndMessages(t *testing.T) {
	t.Parallel()
	ops, msgs, err := parseStateUpdate(json.RawMessage(`[
		{"op":"add","path":"/context/-","value":{"op":"add","path":"/last_city","value":"<Oslo>"}},
		{"op":"add","path":"/messages/-","value":{"role":"user","content":"note"}},
		{"op":"add","path":"/context/-","value":{"op":"move","path":"/b","from":"/a"}},
		{"op":"add","path":"/context/-","value":{"op":"test","path":"/n","value":1E2}},
		{"op":"add","path":"/messages/-","value":{"role":"system","content":"be brief","id":"7d444840-9dc0-11d1-b245-5ffdce74fad2"}}]`))
	require.NoError(t, err)
	assert.Equal(t, state.Patch{
		state.Add("/last_city", json.RawMessage(`"<Oslo>"`)), state.Move("/a", "/b"), state.Test("/n", json.RawMessage(`1E2`)),
	}, ops)
	require.Len(t, msgs, 2)
	assert.Equal(t, []message.Block{message.Text{Value: "note"}}, msgs[0].(*message.User).Content)
	assert.NotEqual(t, uuid.Nil, msgs[0].Head().ID)
	assert.Equal(t, "be brief", msgs[1].(*message.System).Content)
	assert.Equal(t, "7d444840-9dc0-11d1-b245-5ffdce74fad2", msgs[1].Head().ID.String())
}

func TestNoStateUpdateIsNone(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{``, ` `, `null`, `[]`} {
		ops, msgs, err := parseStateUpdate(json.RawMessage(raw))
		require.NoError(t, err)
		assert.Nil(t, ops)
		assert.Nil(t, msgs)
	}
}

func TestAToolCannotSayWhereItsMessagesAreStored(t *testing.T) {
	t.Parallel()
	const id = "7d444840-9dc0-11d1-b245-5ffdce74fad2"
	_, msgs, err := parseStateUpdate(json.RawMessage(`[{"op":"add","path":"/messages/-","value":{"role":"user","content":[],"id":"` + id +
		`","session_id":"` + id + `","run_id":"` + id + `","checkpoint_id":"` + id + `","created_at":"2026-01-02T03:04:05Z","name":"n","metadata":{"a":1}}}]`))
	require.NoError(t, err)
	assert.Equal(t, message.Header{ID: uuid.MustParse(id), Name: "n", Metadata: json.RawMessage(`{"a":1}`)}, *msgs[0].Head())
}

func TestAWrongStateUpdateNamesThePathAndShowsTheForm(t *testing.T) {
	t.Parallel()
	const (
		only = "a tool may only add, at /context/- and /messages/-"
		form = `; the context is changed by {"op":"add","path":"/context/-","value":{"op":"add","path":"/last_city","value":...}}`
	)
	inner := func(op string) string { return `[{"op":"add","path":"/context/-","value":` + op + `}]` }
	msg := func(m string) string { return `[{"op":"add","path":"/messages/-","value":` + m + `}]` }
	tests := map[string]struct{ raw, path, reason string }{
		"the context itself":       {`[{"op":"add","path":"/context/last_city","value":"Oslo"}]`, "/context/last_city", only},
		"an index":                 {inner(`{"op":"remove","path":"/a"}`)[:len(inner(`{"op":"remove","path":"/a"}`))-1] + `,{"op":"add","path":"/context/0","value":{"op":"remove","path":"/b"}}]`, "/context/0", only},
		"the whole context":        {`[{"op":"replace","path":"/context","value":[]}]`, "/context", only},
		"everything":               {`[{"op":"add","path":"","value":{}}]`, "", only},
		"the model":                {`[{"op":"add","path":"/model","value":null}]`, "/model", only},
		"its own capabilities":     {`[{"op":"add","path":"/capability_override","value":{}}]`, "/capability_override", only},
		"the tools":                {`[{"op":"add","path":"/tools","value":[]}]`, "/tools", only},
		"a test":                   {`[{"op":"test","path":"/messages","value":[]}]`, "/messages", only},
		"a copy of all":            {`[{"op":"copy","from":"","path":"/context/-"}]`, "/context/-", only},
		"a copy":                   {`[{"op":"copy","from":"/messages","path":"/context/-"}]`, "/context/-", only},
		"remove":                   {`[{"op":"remove","path":"/context/-"}]`, "/context/-", only},
		"replace":                  {`[{"op":"replace","path":"/context/-","value":{}}]`, "/context/-", only},
		"no patch":                 {`{"op":"add"}`, "", "a patch is an array of operations"},
		"no JSON":                  {`[`, "", "patch: wire: invalid JSON at byte 1"},
		"no operation":             {`["add"]`, "", "operation 0 (?): an operation is an object"},
		"an unknown operation":     {`[{"op":"set","path":"/context/-","value":1}]`, "/context/-", "operation 0 (set): unknown op"},
		"inner: no operation":      {inner(`"Oslo"`), "/context/-", "operation 0 on the context (? ): an operation is an object"},
		"inner: no slash":          {inner(`{"op":"add","path":"last_city","value":1}`), "/context/-", "operation 0 on the context (add last_city): a pointer"},
		"inner: no value":          {inner(`{"op":"add","path":"/last_city"}`), "/context/-", `"value" is missing`},
		"inner: unknown":           {inner(`{"op":"set","path":"/last_city"}`), "/context/-", "unknown op"},
		"message: an assistant":    {msg(`{"role":"assistant","content":"I am the model"}`), "/messages/-", "role user and system, not assistant"},
		"message: a tool":          {msg(`{"role":"tool","tool_call_id":"x"}`), "/messages/-", "not tool"},
		"message: reasoning":       {msg(`{"role":"reasoning","content":"x"}`), "/messages/-", "not reasoning"},
		"message: an unknown role": {msg(`{"role":"root"}`), "/messages/-", `role: unknown role "root"`},
		"message: no content":      {msg(`{"role":"user"}`), "/messages/-", "content: is missing"},
		"message: text":            {msg(`"hi"`), "/messages/-", "must be an object"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ops, msgs, err := parseStateUpdate(json.RawMessage(tt.raw))
			assert.Nil(t, ops)
			assert.Nil(t, msgs)
			var e *StateUpdateError
			require.ErrorAs(t, err, &e)
			assert.Equal(t, tt.path, e.Path)
			assert.Contains(t, e.Reason, tt.reason)
			assert.Contains(t, err.Error(), "invalid state update: "+tt.path)
			if !strings.HasPrefix(tt.path, "/context/") || tt.path == "/context/-" {
				assert.Contains(t, err.Error(), form)
			}
		})
	}
	_, _, err := parseStateUpdate(json.RawMessage(`[{"op":"add","path":"/context/last \"city\"","value":1}]`))
	assert.EqualError(t, err, `invalid state update: /context/last "city": `+only+
		`; the context is changed by {"op":"add","path":"/context/-","value":{"op":"add","path":"/last \"city\"","value":...}}`)
}

func TestAHugeStateUpdateIsRefusedWithAShortText(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1e6)
	for _, raw := range []string{
		`[{"op":"add","path":"/context/` + long + `","value":1}]`,
		`[{"op":"add","path":"/context/-","value":{"op":"` + long + `","path":"/` + long + `"}}]`,
		`[{"op":"` + long + `","path":"/context/-"}]`,
		`[{"op":"add","path":"/messages/-","value":{"role":"` + long + `"}}]`,
		`[` + strings.TrimSuffix(strings.Repeat(`{"op":"add","path":"/context/-","value":{"op":"remove","path":"/a"}},`, 10_001), ",") + `]`,
	} {
		_, _, err := parseStateUpdate(json.RawMessage(raw))
		require.Error(t, err)
		assert.Less(t, len(err.Error()), 2000)
	}
}

func FuzzParseStateUpdate(f *testing.F) {
	for _, s := range []string{
		``, `null`, `[]`, `{}`, `[null]`, `[{"op":"add","path":"/context/-","value":{"op":"add","path":"/last_city","value":"Oslo"}}]`,
		`[{"op":"add","path":"/messages/-","value":{"role":"user","content":"x"}},{"op":"copy","from":"","path":"/context/-"}]`,
		`[{"op":"add","path":"/context/-","value":{"op":"move","from":"/a","path":"/b"}},{"op":"move","from":"/context/0","path":"/messages/-"}]`,
		`[{"op":"add","path":"/context/last_city","value":"Oslo"}]`, `[{"op":"remove","path":"/context/-"}]`, `[{"op":"test","path":"/messages/-","value":null}]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		before := string(raw)
		ops, msgs, err := parseStateUpdate(raw)
		require.Equal(t, before, string(raw), "the input is not changed")
		if err != nil {
			var e *StateUpdateError
			require.ErrorAs(t, err, &e)
			require.Contains(t, err.Error(), `"path":"/context/-"`)
			require.Nil(t, ops)
			require.Nil(t, msgs)
			return
		}
		data, err := ops.MarshalJSON()
		require.NoError(t, err)
		_, err = state.ParsePatch(data)
		require.NoError(t, err)
		for _, m := range msgs {
			require.Contains(t, []message.Role{message.RoleUser, message.RoleSystem}, m.Role())
			h := m.Head()
			require.NotEqual(t, uuid.Nil, h.ID)
			require.Equal(t, [3]uuid.UUID{}, [3]uuid.UUID{h.SessionID, h.RunID, h.CheckpointID})
			require.Equal(t, time.Time{}, h.CreatedAt)
		}
	})
}
