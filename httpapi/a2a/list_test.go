package a2a_test

import (
	"fmt"
	"testing"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/react"
)

// pages reads a list to its end.
func pages(t testing.TB, c *a2aclient.Client, q sdk.ListTasksRequest) (all []*sdk.Task, total int) {
	t.Helper()
	for {
		page, err := c.ListTasks(t.Context(), &q)
		require.NoError(t, err)
		all, total = append(all, page.Tasks...), page.TotalSize
		if q.PageToken = page.NextPageToken; q.PageToken == "" {
			return all, total
		}
	}
}

func TestAThousandTasksAreListedInPages(t *testing.T) {
	t.Parallel()
	const tasks, contexts = 1000, 4
	b := serve(t, parrot(t, nil))
	c := b.client(t, sdk.TransportProtocolJSONRPC)
	for i := range tasks {
		say := "hello"
		if i%10 == 0 {
			say = "fail"
		}
		send(t, c, about(ask(say), "", fmt.Sprint("context ", i%contexts)))
	}
	begin := time.Now()
	for _, binding := range bindings {
		c := b.client(t, binding)
		all, total := pages(t, c, sdk.ListTasksRequest{PageSize: 37})
		assert.Equal(t, tasks, total)
		require.Len(t, all, tasks)
		seen := map[sdk.TaskID]bool{}
		for i, task := range all {
			assert.False(t, seen[task.ID], "once")
			seen[task.ID] = true
			assert.Nil(t, task.Artifacts)
			if i > 0 {
				assert.False(t, task.Status.Timestamp.After(*all[i-1].Status.Timestamp), "the last one first")
			}
		}
	}
	t.Logf("2 lists of %d tasks in pages of 37: %v", tasks, time.Since(begin))

	failed, total := pages(t, c, sdk.ListTasksRequest{Status: sdk.TaskStateFailed, PageSize: 100})
	assert.Equal(t, tasks/10, total)
	assert.Len(t, failed, tasks/10)
	of, total := pages(t, c, sdk.ListTasksRequest{ContextID: "context 1", IncludeArtifacts: true, HistoryLength: new(int)})
	assert.Equal(t, tasks/contexts, total)
	for _, task := range of {
		assert.Equal(t, "context 1", task.ContextID)
		assert.NotNil(t, task.Artifacts)
		assert.Empty(t, task.History)
	}
	late := *failed[9].Status.Timestamp
	newer, _ := pages(t, c, sdk.ListTasksRequest{Status: sdk.TaskStateFailed, StatusTimestampAfter: &late})
	assert.GreaterOrEqual(t, len(newer), 9)
	assert.LessOrEqual(t, len(newer), 10, "times are printed in milliseconds")

	page, err := c.ListTasks(t.Context(), &sdk.ListTasksRequest{PageSize: 10})
	require.NoError(t, err)
	send(t, c, ask("a new one"))
	next, err := c.ListTasks(t.Context(), &sdk.ListTasksRequest{PageSize: 10, PageToken: page.NextPageToken})
	require.NoError(t, err)
	assert.NotEqual(t, page.Tasks[9].ID, next.Tasks[0].ID, "a new task does not move the pages")
	_, err = c.ListTasks(t.Context(), &sdk.ListTasksRequest{ContextID: "context 1", PageToken: page.NextPageToken})
	require.ErrorIs(t, err, sdk.ErrInvalidParams, "a token goes with its filters")
}

func TestATaskMovesUpWhenItIsUpdated(t *testing.T) {
	t.Parallel()
	eachBinding(t, func(t *testing.T, b *bundle, c *a2aclient.Client) {
		asked := send(t, c, ask("call ask {}"))
		send(t, c, ask("hello"))
		send(t, c, about(ask("red"), asked.ID, ""))
		all, total := pages(t, c, sdk.ListTasksRequest{})
		require.Equal(t, 2, total)
		assert.Equal(t, asked.ID, all[0].ID)
		open, _ := pages(t, c, sdk.ListTasksRequest{Status: sdk.TaskStateInputRequired})
		assert.Empty(t, open)
	})
}

// What is said by one way is there by the other: sessions are contexts, runs are tasks.
func TestRunsOfOthersAreTasks(t *testing.T) {
	t.Parallel()
	eachBinding(t, func(t *testing.T, b *bundle, c *a2aclient.Client) {
		session := uuid.New()
		_, err := do(t, b.agent, react.Ask(session, "hello"))
		require.NoError(t, err)
		second := send(t, c, about(ask("again"), "", session.String()))
		assert.Equal(t, []string{"again (3)"}, texts(second))

		in := react.Ask(session, "call ask {}")
		in.Run = uuid.New()
		_, err = do(t, b.agent, in)
		require.Error(t, err)
		id := sdk.TaskID(in.Run.String())
		asked, err := c.GetTask(t.Context(), &sdk.GetTaskRequest{ID: id})
		require.NoError(t, err)
		assert.Equal(t, sdk.TaskStateInputRequired, asked.Status.State)
		assert.Equal(t, session.String(), asked.ContextID)
		done := send(t, c, about(ask("red"), id, ""))
		assert.Equal(t, sdk.TaskStateCompleted, done.Status.State)
		assert.Equal(t, []string{"red"}, texts(done))

		// And the other way round: what a client of A2A was asked, somebody else answers.
		open := send(t, c, about(ask("call ask {}"), "", session.String()))
		require.Equal(t, sdk.TaskStateInputRequired, open.Status.State)
		_, err = do(t, b.agent, react.Answer(session, "blue"))
		require.NoError(t, err)
		got, err := c.GetTask(t.Context(), &sdk.GetTaskRequest{ID: open.ID})
		require.NoError(t, err)
		assert.Equal(t, sdk.TaskStateCompleted, got.Status.State)
		assert.Equal(t, []string{"blue"}, texts(got))

		require.NoError(t, b.agent.DeleteSession(t.Context(), "", session))
		_, err = c.GetTask(t.Context(), &sdk.GetTaskRequest{ID: open.ID})
		require.ErrorIs(t, err, sdk.ErrTaskNotFound)
		_, total := pages(t, c, sdk.ListTasksRequest{ContextID: session.String()})
		assert.LessOrEqual(t, total, 2, "what is looked at is forgotten")
		_, total = pages(t, c, sdk.ListTasksRequest{ContextID: session.String()})
		assert.Zero(t, total)
	})
}

func TestATaskWaitsForItsContext(t *testing.T) {
	t.Parallel()
	eachBinding(t, func(t *testing.T, b *bundle, c *a2aclient.Client) {
		first := send(t, c, atOnce(ask("call sleep {}")))
		second := send(t, c, atOnce(about(ask("hello"), "", first.ContextID)))
		assert.Equal(t, sdk.TaskStateSubmitted, second.Status.State)
		_, err := c.CancelTask(t.Context(), &sdk.CancelTaskRequest{ID: first.ID})
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			got, err := c.GetTask(t.Context(), &sdk.GetTaskRequest{ID: second.ID})
			return err == nil && got.Status.State == sdk.TaskStateCompleted
		}, testWait, testTick)
	})
}
