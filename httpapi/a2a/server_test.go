package a2a_test

import (
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAMessageIsATask(t *testing.T) {
	t.Parallel()
	eachBinding(t, func(t *testing.T, b *bundle, c *a2aclient.Client) {
		first := send(t, c, ask("hello"))
		assert.Equal(t, sdk.TaskStateCompleted, first.Status.State)
		assert.Equal(t, []string{"hello (1)"}, texts(first))
		require.Len(t, first.History, 1)
		assert.Equal(t, "hello", first.History[0].Parts[0].Text())
		assert.NotEmpty(t, first.ContextID)

		second := send(t, c, about(ask("again"), "", first.ContextID))
		assert.NotEqual(t, first.ID, second.ID)
		assert.Equal(t, first.ContextID, second.ContextID)
		assert.Equal(t, []string{"again (3)"}, texts(second))

		got, err := c.GetTask(t.Context(), &sdk.GetTaskRequest{ID: first.ID})
		require.NoError(t, err)
		assert.Equal(t, first, got)

		failed := send(t, c, ask("fail"))
		assert.Equal(t, sdk.TaskStateFailed, failed.Status.State)
		assert.Contains(t, words(failed.Status.Message), "model_error")
	})
}

func TestAQuestionIsAnswered(t *testing.T) {
	t.Parallel()
	eachBinding(t, func(t *testing.T, b *bundle, c *a2aclient.Client) {
		for name, tt := range map[string]struct {
			say    string
			asks   string
			answer *sdk.Part
			want   string
		}{
			"in words":              {"call ask {}", "Which colour?", sdk.NewTextPart("red"), "red"},
			"by id":                 {"call ask {}", "Which colour?", sdk.NewDataPart(map[string]any{"c1": "blue"}), "blue"},
			"approval in a word":    {`call pay {"Amount":7}`, `May the agent call pay with {"Amount":7}?`, sdk.NewTextPart("Yes."), "paid 7"},
			"approval as data":      {`call pay {"Amount":7}`, `May the agent call pay with {"Amount":7}?`, sdk.NewDataPart(map[string]any{"approved": true}), "paid 7"},
			"no approval, a reason": {`call pay {"Amount":7}`, `May the agent call pay`, sdk.NewDataPart(map[string]any{"c1": map[string]any{"approved": false, "reason": "too much"}}), "Error: too much"},
		} {
			t.Run(name, func(t *testing.T) {
				asked := send(t, c, ask("one moment\n"+tt.say))
				require.Equal(t, sdk.TaskStateInputRequired, asked.Status.State)
				assert.Contains(t, words(asked.Status.Message), tt.asks)
				assert.Equal(t, []string{"one moment"}, texts(asked))

				req := about(&sdk.SendMessageRequest{Message: sdk.NewMessage(sdk.MessageRoleUser, tt.answer)}, asked.ID, "")
				done := send(t, c, req)
				assert.Equal(t, sdk.TaskStateCompleted, done.Status.State)
				assert.Equal(t, asked.ID, done.ID)
				assert.Equal(t, []string{"one moment", tt.want}, texts(done))
				require.Len(t, done.History, 3)
				assert.Equal(t, sdk.MessageRoleAgent, done.History[1].Role)

				_, err := c.SendMessage(t.Context(), about(ask("more"), asked.ID, ""))
				require.ErrorIs(t, err, sdk.ErrUnsupportedOperation)
			})
		}
	})
}
