package modeltest_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/model/modeltest"
	"github.com/everstep-go/everstep/react/reacttest"
)

// ask posts a question in the dialect of Chat Completions.
func ask(ctx context.Context, mock *modeltest.Mock) (res *http.Response, body string, err error) {
	question := `{"model":"any","stream":true,"messages":[{"role":"user","content":"Oslo?"}]}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, mock.URL+"/v1/chat/completions", strings.NewReader(question))
	if err != nil {
		return nil, "", err
	}
	req.Header.Set("Authorization", "Bearer secret")
	req.Header.Set("Content-Type", "application/json")
	res, err = http.DefaultClient.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	return res, string(data), err
}

func TestAnswers(t *testing.T) {
	mock := modeltest.Start(t)
	rain := message.Reply{Text: "It rains in Oslo today.", FinishReason: message.FinishStop}

	t.Run("a reply arrives in pieces, with its usage", func(t *testing.T) {
		counted := rain
		counted.Usage = message.Usage{InputTokens: 12, OutputTokens: 34}
		mock.Answer(t, modeltest.Answer{Reply: counted, ChunkSize: 4})
		_, body, err := ask(t.Context(), mock)
		require.NoError(t, err)
		require.Contains(t, body, `"content":"It r"`)
		require.True(t, strings.HasSuffix(body, "data: [DONE]\n\n"))
	})
	t.Run("answers come in order, the last one stays", func(t *testing.T) {
		mock.Answer(t, modeltest.Answer{Status: 429, RetryAfter: 7, Message: "Slow down."}, modeltest.Answer{Status: 529}, modeltest.Answer{Reply: rain})
		for _, status := range []int{429, 529, 200, 200} {
			res, _, err := ask(t.Context(), mock)
			require.NoError(t, err)
			require.Equal(t, status, res.StatusCode)
			if status == 429 {
				require.Equal(t, "7", res.Header.Get("Retry-After"))
			}
		}
	})
	t.Run("a reply is cut after some of its chunks", func(t *testing.T) {
		mock.Play(t, reacttest.Scenario{Reply: rain, Cut: true})
		_, body, err := ask(t.Context(), mock)
		require.Error(t, err)
		require.Contains(t, body, "It rains")
		require.NotContains(t, body, "[DONE]")
	})
	t.Run("a slow first chunk outlasts the caller", func(t *testing.T) {
		mock.Answer(t, modeltest.Answer{Reply: rain, Delay: time.Hour})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, _, err := ask(ctx, mock)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
	t.Run("requests can be read", func(t *testing.T) {
		mock.Play(t, reacttest.Scenario{Reply: rain})
		_, _, err := ask(t.Context(), mock)
		require.NoError(t, err)
		requests := mock.Requests(t)
		require.Len(t, requests, 1)
		require.Equal(t, "/v1/chat/completions", requests[0].Path)
		require.Equal(t, "application/json", requests[0].Header["content-type"])
		require.NotContains(t, requests[0].Header["authorization"], "secret")
		var body struct {
			Messages []struct{ Role, Content string }
		}
		require.NoError(t, json.Unmarshal(requests[0].Body, &body))
		require.Equal(t, "Oslo?", body.Messages[0].Content)
	})
}
