package a2a_test

import (
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/httpapi/a2a"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/store/memory"
)

func TestAnyReplicaServesAnyTask(t *testing.T) {
	t.Parallel()
	for _, binding := range bindings {
		t.Run(string(binding), func(t *testing.T) {
			t.Parallel()
			st, bus := memory.New(nil), event.NewMemory(nil)
			shared := func(c *react.Config) { c.Store, c.Bus = st, bus }
			h := newHook(t)
			one, two := serve(t, parrot(t, shared), pushSoon).client(t, binding), serve(t, parrot(t, shared), pushSoon).client(t, binding)

			req := ask("one moment\ncall sleep {}")
			task := send(t, one, atOnce(req))
			again := send(t, two, req)
			assert.Equal(t, task.ID, again.ID, "the message is known there too")
			_, err := two.CreateTaskPushConfig(t.Context(), &sdk.PushConfig{TaskID: task.ID, URL: h.URL})
			require.NoError(t, err)
			var stream []sdk.Event
			for e, err := range two.SubscribeToTask(t.Context(), &sdk.SubscribeToTaskRequest{ID: task.ID}) {
				require.NoError(t, err)
				stream = append(stream, e)
				if u, ok := e.(*sdk.TaskArtifactUpdateEvent); ok && u.LastChunk {
					_, err := two.CancelTask(t.Context(), &sdk.CancelTaskRequest{ID: task.ID})
					require.NoError(t, err)
				}
			}
			followed := replay(t, stream)
			assert.Equal(t, sdk.TaskStateCanceled, followed.Status.State)
			assert.Equal(t, []string{"one moment"}, texts(followed))
			h.wait(t, 1)
			states, _ := h.told()
			assert.Equal(t, []sdk.TaskState{sdk.TaskStateCanceled}, states, "once")

			asked := send(t, one, ask("call ask {}"))
			done := send(t, two, about(ask("red"), asked.ID, ""))
			assert.Equal(t, []string{"red"}, texts(done))
			all, _ := pages(t, one, sdk.ListTasksRequest{})
			assert.Len(t, all, 2)
		})
	}
}

func TestAgentsThatShareAStoreHaveTheirOwnTasks(t *testing.T) {
	t.Parallel()
	st := memory.New(nil)
	one := serve(t, parrot(t, func(c *react.Config) { c.Store = st })).client(t, sdk.TransportProtocolJSONRPC)
	two := serve(t, parrot(t, func(c *react.Config) { c.Store, c.Name = st, "crow" })).client(t, sdk.TransportProtocolJSONRPC)
	task := send(t, one, ask("hello"))
	_, err := two.GetTask(t.Context(), &sdk.GetTaskRequest{ID: task.ID})
	require.ErrorIs(t, err, sdk.ErrTaskNotFound)
	_, total := pages(t, two, sdk.ListTasksRequest{})
	assert.Zero(t, total)
}

func TestClientsAreToldOfWhatIsLeftBehind(t *testing.T) {
	t.Parallel()
	b, h := serve(t, parrot(t, nil), pushSoon), newHook(t)
	c := b.client(t, sdk.TransportProtocolJSONRPC)
	req := ask("call ask {}")
	req.Config = &sdk.SendMessageConfig{PushConfig: &sdk.PushConfig{URL: h.URL}}
	left := send(t, c, req)
	h.wait(t, 1)
	send(t, c, about(ask("hello"), "", left.ContextID))
	_, err := c.GetTask(t.Context(), &sdk.GetTaskRequest{ID: left.ID})
	require.NoError(t, err)
	h.wait(t, 2)
	states, _ := h.told()
	assert.Equal(t, []sdk.TaskState{sdk.TaskStateInputRequired, sdk.TaskStateCanceled}, states)
}

func TestAMessageOfADeletedSessionBeginsAnew(t *testing.T) {
	t.Parallel()
	b := serve(t, parrot(t, nil))
	c := b.client(t, sdk.TransportProtocolJSONRPC)
	req := ask("hello")
	first := send(t, c, req)
	run, err := b.agent.RunRecord(t.Context(), "", uuid.MustParse(string(first.ID)))
	require.NoError(t, err)
	require.NoError(t, b.agent.DeleteSession(t.Context(), "", run.Session))
	second := send(t, c, req)
	assert.Equal(t, first.ID, second.ID)
	assert.Equal(t, []string{"hello (1)"}, texts(second))
}

func TestAServerNeedsWhatItNeeds(t *testing.T) {
	t.Parallel()
	for want, make := range map[string]func() (*a2a.Server, error){
		"ServerConfig.URL": func() (*a2a.Server, error) { return a2a.NewServer(parrot(t, nil), a2a.ServerConfig{URL: "/a2a"}) },
		"store.Records": func() (*a2a.Server, error) {
			return a2a.NewServer(parrot(t, func(c *react.Config) { c.Store = nil }), a2a.ServerConfig{URL: "https://example.com"})
		},
		"must not be negative": func() (*a2a.Server, error) {
			return a2a.NewServer(parrot(t, nil), a2a.ServerConfig{URL: "https://example.com", Push: a2a.PushConfig{Timeout: -1}})
		},
	} {
		_, err := make()
		require.ErrorContains(t, err, want)
	}
}
