package a2a_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/httpapi/a2a"
	"github.com/everstep-go/everstep/react"
)

// Whatever an agent of others answers is a result of the call, or an error that the model can read.
func TestWhateverAnAgentAnswersIsAResult(t *testing.T) {
	t.Parallel()
	task := func(state, more string) string {
		return `{"id":"t","contextId":"c","status":{"state":"TASK_STATE_` + state + `"}` + more + `}`
	}
	for name, tt := range map[string]struct {
		send, get string // what it answers
		want      string
	}{
		"a message":              {`{"message":{"messageId":"1","contextId":"c","role":"ROLE_AGENT","parts":[{"text":"hi"},{"data":{"n":1}}]}}`, "", `{"context_id":"c","text":"hi","data":[{"n":1}]}`},
		"a message of nothing":   {`{"message":{"messageId":"1","role":"ROLE_AGENT","parts":null}}`, "", `{}`},
		"a task of nulls":        {`{"task":` + task("COMPLETED", `,"artifacts":[null,{"parts":null},{"parts":[null,{"text":"hi"}]}],"history":[null]`) + `}`, "", `"text":"hi"`},
		"files":                  {`{"task":` + task("COMPLETED", `,"artifacts":[{"parts":[{"raw":"aGVsbG8=","filename":"a.png","mediaType":"image/png"},{"url":"https://example.com/b"}]}]`) + `}`, "", `"files":[{"name":"a.png","media_type":"image/png","bytes":5},{"url":"https://example.com/b"}]`},
		"a rejected task":        {`{"task":` + task("REJECTED", "") + `}`, "", "is rejected: it does not say why"},
		"nothing":                {`null`, "", "Error: a2a"},
		"an empty object":        {`{}`, "", "Error: a2a"},
		"two things":             {`{"task":` + task("COMPLETED", "") + `,"message":{}}`, "", "Error: a2a"},
		"a text":                 {`"done"`, "", "Error: a2a"},
		"a task that is a list":  {`{"task":[]}`, "", "Error: a2a"},
		"no task afterwards":     {`{"task":` + task("WORKING", "") + `}`, `null`, "Error: a2a"},
		"another task later":     {`{"task":` + task("WORKING", "") + `}`, `{"id":7}`, "Error: a2a"},
		"a part of an odd kind":  {`{"task":` + task("COMPLETED", `,"artifacts":[{"parts":[{"hologram":"x"}]}]`) + `}`, "", "Error: a2a"},
		"a state of tomorrow":    {`{"task":` + task("DREAMING", "") + `}`, task("COMPLETED", ""), `"state":"completed"`},
		"more text than is kept": {`{"task":` + task("COMPLETED", `,"artifacts":[{"parts":[{"text":"`+strings.Repeat("x", 2<<20)+`"}]}]`) + `}`, "", "[cut: the output has"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var url string
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if r.URL.Path == a2a.WellKnown {
					fmt.Fprintf(w, `{"name":"x","description":%q,"supportedInterfaces":[{"url":%q,"protocolBinding":"JSONRPC","protocolVersion":"1.0"}]}`, strings.Repeat("long ", 10_000), url)
					return
				}
				var req struct {
					ID     string `json:"id"`
					Method string `json:"method"`
				}
				_ = json.NewDecoder(r.Body).Decode(&req)
				result := tt.send
				if req.Method == "GetTask" {
					result = tt.get
					if result == "" {
						result = strings.TrimSuffix(strings.TrimPrefix(tt.send, `{"task":`), "}")
					}
				}
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%q,"result":%s}`, req.ID, result)
			}))
			t.Cleanup(web.Close)
			url = web.URL
			c := connect(t, url)
			assert.Less(t, len(c.Tools()[0].Spec().Description), 4<<10, "however long the card is")
			state, err := do(t, caller(t, c), react.Ask(uuid.New(), "hello"))
			require.NoError(t, err)
			assert.Contains(t, state.Reply(), tt.want)
		})
	}
}
