package react

import (
	"encoding/json"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/message"
)

// Whatever a stored row holds, it is read or refused: never a panic, and what was read can be
// kept and run again.
func FuzzStoredState(f *testing.F) {
	f.Add(1, []byte(`{"context":{"a":1},"tools":[{"name":"t","parameters":{}}],"model":{"override":{"provider":"p"}}}`), []byte(`{"tool_calls":[{"id":"a","name":"t","arguments":{}}]}`), "assistant")
	f.Add(1, []byte(`{"input":{"messages":[],"context":[{"op":"add","path":"/a","value":1}],"model":null}}`), []byte(`{"content":[]}`), "user")
	f.Add(2, []byte(`{"context":[]}`), []byte(`{}`), "tool")
	agent, err := New(Config{Name: "fuzzed", Model: ModelFunc(nil)})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, version int, document, body []byte, role string) {
		m, err := message.DecodeBody(message.Role(role), message.Header{ID: uuid.New()}, body)
		var messages []message.Message
		if err == nil {
			messages = append(messages, m)
		}
		s, err := codec{agent}.Decode(version, json.RawMessage(document), messages)
		if err != nil || !json.Valid(s.Context) && s.input == nil {
			return
		}
		s.pending()
		s.answerable()
		s.Reply()
		for _, node := range []string{"call_model", "call_tools", "exit", "route_next"} {
			require.NotEmpty(t, agent.startAt(graph.Origin[State]{Entry: "entrypoint", Forked: true, Checkpoint: &checkpoint.Checkpoint{Node: node}, State: s}))
		}
		change, err := codec{agent}.Encode(nil, State{}, s)
		if err == nil && change.Document != nil {
			_, _ = change.Document()
		}
		_, _ = codec{agent}.Merge(&checkpoint.Checkpoint{Reason: checkpoint.Interrupt}, s, State{input: &Update{Messages: messages}})
	})
}
