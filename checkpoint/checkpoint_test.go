package checkpoint_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
)

var (
	id      = uuid.MustParse("11111111-1111-4111-8111-111111111111")
	session = uuid.MustParse("22222222-2222-4222-8222-222222222222")
	run     = uuid.MustParse("33333333-3333-4333-8333-333333333333")
	parent  = uuid.MustParse("44444444-4444-4444-8444-444444444444")
)

func TestACheckpointPrintsTheResource(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 30, 0, 123456789, time.FixedZone("CET", 3600))
	for name, c := range map[string]struct {
		checkpoint checkpoint.Checkpoint
		want       string
	}{
		"everything": {checkpoint.Checkpoint{
			ID: id, SessionID: session, RunID: run, Node: "call <model>", Status: checkpoint.Interrupted, Reason: checkpoint.Interrupt,
			ParentID: parent, Metadata: json.RawMessage(`{"a":1.0}`), CreatedAt: at,
			Seq: 7, Line: 2, Next: "secret", Document: 3, Version: 4,
		}, `{"id":"11111111-1111-4111-8111-111111111111","session_id":"22222222-2222-4222-8222-222222222222",` +
			`"run_id":"33333333-3333-4333-8333-333333333333","node":"call \u003cmodel\u003e","status":"interrupted","reason":"interrupt",` +
			`"parent_checkpoint_id":"44444444-4444-4444-8444-444444444444","metadata":{"a":1.0},"created_at":"2026-03-01T11:30:00.123456789Z"}`},
		"what may be null": {checkpoint.Checkpoint{ID: id, SessionID: session, RunID: run, Node: "n", Status: checkpoint.Running, Reason: checkpoint.Input, CreatedAt: at.Truncate(time.Second)},
			`{"id":"11111111-1111-4111-8111-111111111111","session_id":"22222222-2222-4222-8222-222222222222",` +
				`"run_id":"33333333-3333-4333-8333-333333333333","node":"n","status":"running","reason":"input",` +
				`"parent_checkpoint_id":null,"metadata":null,"created_at":"2026-03-01T11:30:00Z"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, v := range []any{c.checkpoint, &c.checkpoint} {
				got, err := json.Marshal(v)
				require.NoError(t, err)
				assert.Equal(t, c.want, string(got))
			}
			var back checkpoint.Checkpoint
			require.NoError(t, json.Unmarshal([]byte(c.want), &back))
			want := c.checkpoint
			want.CreatedAt = want.CreatedAt.UTC()
			want.Seq, want.Line, want.Next, want.Document, want.Version = 0, 0, "", 0, 0
			assert.Equal(t, want, back)
		})
	}
}

func TestAResourceOfALaterVersionIsRead(t *testing.T) {
	t.Parallel()
	c := checkpoint.Checkpoint{Next: "old", Seq: 9}
	require.NoError(t, json.Unmarshal([]byte(`{"id":"11111111-1111-4111-8111-111111111111","status":"paused","shape":"new"}`), &c))
	assert.Equal(t, checkpoint.Checkpoint{ID: id, Status: checkpoint.Failed}, c)
	assert.Error(t, json.Unmarshal([]byte(`{"id":7}`), &c))
}

func TestAnUnknownStatusCountsAsFailed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]checkpoint.Status{
		"running": checkpoint.Running, "interrupted": checkpoint.Interrupted, "completed": checkpoint.Completed,
		"failed": checkpoint.Failed, "cancelled": checkpoint.Cancelled,
		"": checkpoint.Failed, "Running": checkpoint.Failed, "canceled": checkpoint.Failed,
	} {
		assert.Equal(t, want, checkpoint.ParseStatus(text), text)
		assert.Equal(t, want != checkpoint.Running, want.Ended())
	}
}
