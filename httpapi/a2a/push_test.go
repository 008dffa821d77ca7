package a2a_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/httpapi/a2a"
)

// hook is a client's webhook.
type hook struct {
	*httptest.Server
	mu     sync.Mutex // guards what follows
	header http.Header
	got    []sdk.Event
	status []int  // of the next answers; then 204
	before func() // if not nil, called for each request
}

func newHook(t testing.TB, status ...int) *hook {
	t.Helper()
	h := &hook{status: status}
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.before != nil {
		h.before()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.status) > 0 {
		w.WriteHeader(h.status[0])
		h.status = h.status[1:]
		return
	}
	body, _ := io.ReadAll(r.Body)
	var e sdk.StreamResponse
	if err := json.Unmarshal(body, &e); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	h.header = r.Header.Clone()
	h.got = append(h.got, e.Event)
	w.WriteHeader(http.StatusNoContent)
}

// states returns the states that were told, and the texts before each.
func (h *hook) told() (states []sdk.TaskState, texts []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.got {
		switch e := e.(type) {
		case *sdk.TaskStatusUpdateEvent:
			states = append(states, e.Status.State)
		case *sdk.TaskArtifactUpdateEvent:
			texts = append(texts, e.Artifact.Parts[0].Text())
		}
	}
	return states, texts
}

func (h *hook) wait(t testing.TB, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		states, _ := h.told()
		return len(states) >= n
	}, testWait, testTick)
}

func TestClientsAreNotified(t *testing.T) {
	t.Parallel()
	eachBinding(t, func(t *testing.T, b *bundle, c *a2aclient.Client) {
		h := newHook(t, 500, 302, 429) // which are no answers that count
		req := ask("one moment\ncall ask {}")
		req.Config = &sdk.SendMessageConfig{PushConfig: &sdk.PushConfig{
			URL: h.URL, Token: "token", Auth: &sdk.PushAuthInfo{Scheme: "Bearer", Credentials: "secret"},
		}}
		task := send(t, c, req)
		h.wait(t, 1)
		send(t, c, about(ask("red"), task.ID, ""))
		h.wait(t, 2)
		states, texts := h.told()
		assert.Equal(t, []sdk.TaskState{sdk.TaskStateInputRequired, sdk.TaskStateCompleted}, states)
		assert.Equal(t, []string{"one moment", "red"}, texts)
		assert.Equal(t, "Bearer secret", h.header.Get("Authorization"))
		assert.Equal(t, "token", h.header.Get("X-A2A-Notification-Token"))
		assert.Equal(t, "application/json", h.header.Get("Content-Type"))
	}, pushSoon)
}

func pushSoon(c *a2a.ServerConfig) { c.Push.Backoff = testTick }

func TestPushConfigsAreKept(t *testing.T) {
	t.Parallel()
	eachBinding(t, func(t *testing.T, b *bundle, c *a2aclient.Client) {
		h := newHook(t)
		task := send(t, c, ask("hello"))
		first, err := c.CreateTaskPushConfig(t.Context(), &sdk.PushConfig{TaskID: task.ID, ID: "mine", URL: h.URL, Token: "old"})
		require.NoError(t, err)
		assert.Equal(t, "mine", first.ID)
		h.wait(t, 1) // the task had ended: who configures it too late hears of it
		replaced, err := c.CreateTaskPushConfig(t.Context(), &sdk.PushConfig{TaskID: task.ID, ID: "mine", URL: h.URL, Token: "new"})
		require.NoError(t, err)
		second, err := c.CreateTaskPushConfig(t.Context(), &sdk.PushConfig{TaskID: task.ID, URL: h.URL})
		require.NoError(t, err)
		assert.NotEmpty(t, second.ID)
		got, err := c.GetTaskPushConfig(t.Context(), &sdk.GetTaskPushConfigRequest{TaskID: task.ID, ID: "mine"})
		require.NoError(t, err)
		assert.Equal(t, replaced, got)
		assert.Equal(t, "new", got.Token)
		all, err := c.ListTaskPushConfigs(t.Context(), &sdk.ListTaskPushConfigRequest{TaskID: task.ID})
		require.NoError(t, err)
		assert.ElementsMatch(t, []*sdk.PushConfig{got, second}, all)
		for range 2 { // it is idempotent
			require.NoError(t, c.DeleteTaskPushConfig(t.Context(), &sdk.DeleteTaskPushConfigRequest{TaskID: task.ID, ID: "mine"}))
		}
		_, err = c.GetTaskPushConfig(t.Context(), &sdk.GetTaskPushConfigRequest{TaskID: task.ID, ID: "mine"})
		require.ErrorIs(t, err, sdk.ErrTaskNotFound)
		for range 15 {
			_, err = c.CreateTaskPushConfig(t.Context(), &sdk.PushConfig{TaskID: task.ID, URL: h.URL})
			require.NoError(t, err)
		}
		_, err = c.CreateTaskPushConfig(t.Context(), &sdk.PushConfig{TaskID: task.ID, URL: h.URL})
		require.ErrorIs(t, err, sdk.ErrInvalidParams, "each notification goes to all of them")
	})
}
