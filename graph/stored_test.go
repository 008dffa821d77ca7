package graph

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/store"
)

// Whatever a stored row holds, it is read or refused: never a panic.
func FuzzStored(f *testing.F) {
	f.Add([]byte(`{"resume":{"a":1},"has_input":true,"version":1,"document":{"a":1},"messages":[{"role":"user","content":"hi"}]}`),
		[]byte(`{"interrupt_payload":{"interrupts":[{"id":"a","name":"n","payload":1},{"id":"b"}]}}`), []byte(`{"a":1}`), []byte(`[{"op":"add","path":"/x","value":1}]`))
	f.Add([]byte(`null`), []byte(`[]`), []byte(``), []byte(`{`))
	runner := &Runner[map[string]any]{opts: RunnerOptions[map[string]any]{Codec: checkpoint.JSON[map[string]any]{}}}
	f.Fuzz(func(t *testing.T, saved, metadata, document, patch []byte) {
		_, _, _ = runner.savedInput(saved)
		c := &checkpoint.Checkpoint{Reason: checkpoint.Interrupt, Metadata: metadata}
		open := Questions(c)
		answers, err := answersTo(open, json.RawMessage(document))
		if err != nil {
			require.ErrorIs(t, err, ErrInvalidResume)
		}
		for id := range answers {
			require.Contains(t, idsOf(open), id, "an answer answers a question")
		}
		h, err := runner.decode(&store.Position{
			Checkpoint: c, Documents: []store.Document{{Body: document}, {Patch: true, Body: patch}},
			Messages: []store.Message{{Role: "user", Body: saved}},
		})
		if err == nil {
			require.NotNil(t, h)
		}
	})
}

func idsOf(questions []Question) []string {
	ids := make([]string, len(questions))
	for i, q := range questions {
		ids[i] = q.ID
	}
	return ids
}
