package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func TestATaskOfA2AIsARun(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), "-store", "memory:")
	var card struct {
		SupportedInterfaces []struct{ URL, ProtocolBinding string }
	}
	s.call(http.StatusOK, "GET", "/.well-known/agent-card.json", nil, &card)
	require.Len(t, card.SupportedInterfaces, 2)
	for _, i := range card.SupportedInterfaces {
		require.Equal(t, s.url+"/a2a", strings.TrimSuffix(i.URL, "/"))
	}
	var answer struct {
		Result struct {
			Task struct {
				ID, ContextID uuid.UUID
				Status        struct{ State string }
			}
		}
	}
	ask := func(tenant string, header ...string) {
		message := object{"messageId": uuid.NewString(), "role": "ROLE_USER", "parts": []object{{"text": "What is 2 plus 3?"}}}
		s.call(http.StatusOK, "POST", "/a2a", object{
			"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": object{"tenant": tenant, "message": message},
		}, &answer, append(header, "A2A-Version", "1.0")...)
		require.Equal(t, "TASK_STATE_COMPLETED", answer.Result.Task.Status.State)
	}
	ask("")
	require.Equal(t, "completed", s.status("/v1/runs/"+answer.Result.Task.ID.String()))
	got := s.messages(answer.Result.Task.ContextID, "?roles=assistant")
	require.Equal(t, "add: 5", got[len(got)-1].Content)

	for _, named := range []bool{true, false} {
		if tenant := "acme"; named {
			ask(tenant)
		} else {
			ask("", "X-Tenant-ID", tenant)
		}
		run := "/v1/runs/" + answer.Result.Task.ID.String()
		s.call(http.StatusNotFound, "GET", run, nil, nil)
		s.call(http.StatusOK, "GET", run, nil, nil, "X-Tenant-ID", "acme")
	}
}
