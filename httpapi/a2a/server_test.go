package a2a_test

import (
	"iter"
	"slices"
	"sync"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/httpapi/a2a"
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

// updates collects a stream.
func updates(t *testing.T, stream iter.Seq2[sdk.Event, error]) (all []sdk.Event) {
	t.Helper()
	for e, err := range stream {
		require.NoError(t, err)
		all = append(all, e)
	}
	return all
}

// replay applies updates to the task that comes first, as a client does.
func replay(t *testing.T, all []sdk.Event) *sdk.Task {
	t.Helper()
	require.NotEmpty(t, all)
	task, ok := all[0].(*sdk.Task)
	require.True(t, ok, "the first is the task")
	for _, e := range all[1:] {
		switch e := e.(type) {
		case *sdk.TaskStatusUpdateEvent:
			task.Status = e.Status
		case *sdk.TaskArtifactUpdateEvent:
			i := slices.IndexFunc(task.Artifacts, func(a *sdk.Artifact) bool { return a.ID == e.Artifact.ID })
			switch {
			case i < 0 && e.Append:
				t.Errorf("artifact %s begins with a piece to append", e.Artifact.ID)
			case i < 0:
				task.Artifacts = append(task.Artifacts, e.Artifact)
			case e.Append:
				task.Artifacts[i].Parts = append(task.Artifacts[i].Parts, e.Artifact.Parts...)
			default:
				task.Artifacts[i] = e.Artifact
			}
		default:
			t.Errorf("a stream of a task has no %T", e)
		}
	}
	return task
}

func TestAStreamEndsWhereGetIs(t *testing.T) {
	t.Parallel()
	eachBinding(t, func(t *testing.T, b *bundle, c *a2aclient.Client) {
		for _, say := range []string{"hello", "fail", "one moment\ncall ask {}", "one\ncall note {\"Text\":\"two\"}"} {
			all := updates(t, c.SendStreamingMessage(t.Context(), ask(say)))
			task := replay(t, all)
			got, err := c.GetTask(t.Context(), &sdk.GetTaskRequest{ID: task.ID})
			require.NoError(t, err)
			assert.Equal(t, got.Status, task.Status)
			assert.Equal(t, texts(got), texts(task))
			assert.Equal(t, got.History, task.History)
			assert.Len(t, task.Artifacts, len(got.Artifacts))
			if got.Status.State == sdk.TaskStateInputRequired {
				more := replay(t, updates(t, c.SendStreamingMessage(t.Context(), about(ask("red"), task.ID, ""))))
				assert.Equal(t, []string{"one moment", "red"}, texts(more))
				assert.Equal(t, sdk.TaskStateCompleted, more.Status.State)
			}
		}
	})
}

func TestATaskCanBeLeftAndSubscribedTo(t *testing.T) {
	t.Parallel()
	eachBinding(t, func(t *testing.T, b *bundle, c *a2aclient.Client) {
		task := send(t, c, atOnce(ask("one moment\ncall sleep {}")))
		assert.False(t, task.Status.State.Terminal())
		var streams [2][]sdk.Event
		var wg, here sync.WaitGroup
		here.Add(len(streams))
		for i := range streams {
			wg.Go(func() {
				for e, err := range c.SubscribeToTask(t.Context(), &sdk.SubscribeToTaskRequest{ID: task.ID}) {
					if assert.NoError(t, err) {
						streams[i] = append(streams[i], e)
					}
					if len(streams[i]) <= 1 {
						here.Done()
					}
				}
			})
		}
		here.Wait()
		require.Eventually(t, func() bool {
			got, err := c.GetTask(t.Context(), &sdk.GetTaskRequest{ID: task.ID})
			return err == nil && got.Status.State == sdk.TaskStateWorking && len(got.Artifacts) > 0
		}, testWait, testTick)
		cancelled, err := c.CancelTask(t.Context(), &sdk.CancelTaskRequest{ID: task.ID})
		require.NoError(t, err)
		assert.Equal(t, sdk.TaskStateCanceled, cancelled.Status.State)
		wg.Wait()
		for _, stream := range streams {
			task := replay(t, stream)
			assert.Equal(t, sdk.TaskStateCanceled, task.Status.State)
			assert.Equal(t, []string{"one moment"}, texts(task))
		}
		_, err = c.CancelTask(t.Context(), &sdk.CancelTaskRequest{ID: task.ID})
		require.ErrorIs(t, err, sdk.ErrTaskNotCancelable)
		for _, err := range c.SubscribeToTask(t.Context(), &sdk.SubscribeToTaskRequest{ID: task.ID}) {
			require.ErrorIs(t, err, sdk.ErrUnsupportedOperation)
		}
		next := send(t, c, about(ask("hello"), "", task.ContextID))
		assert.Equal(t, sdk.TaskStateCompleted, next.Status.State)
	})
}

func TestATaskThatAsksCanBeCancelled(t *testing.T) {
	t.Parallel()
	eachBinding(t, func(t *testing.T, b *bundle, c *a2aclient.Client) {
		task := send(t, c, ask("call ask {}"))
		cancelled, err := c.CancelTask(t.Context(), &sdk.CancelTaskRequest{ID: task.ID})
		require.NoError(t, err)
		assert.Equal(t, sdk.TaskStateCanceled, cancelled.Status.State)
		_, err = c.SendMessage(t.Context(), about(ask("red"), task.ID, ""))
		require.ErrorIs(t, err, sdk.ErrUnsupportedOperation)
		next := send(t, c, about(ask("hello"), "", task.ContextID))
		assert.Equal(t, sdk.TaskStateCompleted, next.Status.State)
	})
}

func TestANewMessageLeavesAQuestionBehind(t *testing.T) {
	t.Parallel()
	eachBinding(t, func(t *testing.T, b *bundle, c *a2aclient.Client) {
		left := send(t, c, ask("call ask {}"))
		next := send(t, c, about(ask("hello"), "", left.ContextID))
		assert.Equal(t, sdk.TaskStateCompleted, next.Status.State)
		got, err := c.GetTask(t.Context(), &sdk.GetTaskRequest{ID: left.ID})
		require.NoError(t, err)
		assert.Equal(t, sdk.TaskStateCanceled, got.Status.State)
	})
}

func TestAMessageThatIsSentAgainIsTheSameTask(t *testing.T) {
	t.Parallel()
	eachBinding(t, func(t *testing.T, b *bundle, c *a2aclient.Client) {
		req := ask("call ask {}")
		first, second := send(t, c, req), send(t, c, req)
		assert.Equal(t, first.ID, second.ID)
		assert.Equal(t, first.ContextID, second.ContextID)
		answer := about(ask("red"), first.ID, "")
		for range 2 {
			done := send(t, c, answer)
			assert.Equal(t, []string{"red"}, texts(done))
		}
		all := replay(t, updates(t, c.SendStreamingMessage(t.Context(), answer)))
		assert.Equal(t, []string{"red"}, texts(all))
		other := ask("call ask {}")
		other.Message.ID = req.Message.ID
		other.Message.Parts = sdk.ContentParts{sdk.NewTextPart("hello")}
		assert.NotEqual(t, first.ID, send(t, c, other).ID, "another message is another task, whatever it is called")
	})
}

func TestClientsBringTools(t *testing.T) {
	t.Parallel()
	eachBinding(t, func(t *testing.T, b *bundle, c *a2aclient.Client) {
		req := ask(`call screen {"page":1}`)
		req.Message.SetMeta(a2a.ToolsExtension, map[string]any{"tools": []any{map[string]any{
			"name": "screen", "description": "Shows a page.", "parameters": map[string]any{"type": "object"},
		}}})
		asked := send(t, c, req)
		require.Equal(t, sdk.TaskStateInputRequired, asked.Status.State)
		assert.Equal(t, `Please call screen with {"page":1}.`, words(asked.Status.Message))
		assert.Equal(t, map[string]any{"tool_calls": []any{map[string]any{"id": "c1", "name": "screen", "arguments": map[string]any{"page": 1.}}}},
			asked.Status.Message.Parts[1].Data())
		answer := &sdk.SendMessageRequest{Message: sdk.NewMessage(sdk.MessageRoleUser, sdk.NewDataPart(map[string]any{"c1": map[string]any{"shown": true}}))}
		done := send(t, c, about(answer, asked.ID, ""))
		assert.Equal(t, sdk.TaskStateCompleted, done.Status.State)
		assert.Equal(t, []string{`{"shown":true}`}, texts(done))

		left := send(t, c, about(ask(`call screen {"page":2}`), "", asked.ContextID))
		require.Equal(t, sdk.TaskStateInputRequired, left.Status.State, "the tools stay")
		send(t, c, about(ask("hello"), "", asked.ContextID))
		got, err := c.GetTask(t.Context(), &sdk.GetTaskRequest{ID: left.ID})
		require.NoError(t, err)
		assert.Equal(t, sdk.TaskStateCompleted, got.Status.State, "the call was left to nobody")
	})
}
