package anthropic_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/model/anthropic"
	"github.com/everstep-go/everstep/model/modeltest"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/react/reacttest"
)

var _ react.Model = (*anthropic.Model)(nil)

func TestModel(t *testing.T) {
	reacttest.RunModel(t, func(t testing.TB, s reacttest.Scenario) react.Model {
		return serve(t, scenario(s)).model()
	})
}

func scenario(s reacttest.Scenario) http.HandlerFunc {
	switch {
	case s.Transient:
		return failed(529, "overloaded_error", "Overloaded")
	case s.Permanent:
		return failed(400, "invalid_request_error", "tools.0.name: invalid")
	case s.Cut:
		all := stream(s.Reply)
		return func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, sse(all[:4]...))
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
	case s.Silent:
		return silent
	}
	return events(stream(s.Reply)...)
}

func silent(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func TestModelOnAMockThatOthersWrote(t *testing.T) {
	mock := modeltest.Start(t)
	reacttest.RunModel(t, func(t testing.TB, s reacttest.Scenario) react.Model {
		bigNumber := len(s.Reply.ToolCalls) == 1 && s.Reply.ToolCalls[0].Name == "count"
		if bigNumber || !mock.Play(t, s) { // its numbers are JavaScript's
			return nil
		}
		return anthropic.New(&anthropic.Options{APIKey: key, BaseURL: mock.URL})
	})
	t.Run("the mock understands a whole conversation", func(t *testing.T) {
		mock.Play(t, reacttest.Scenario{Reply: message.Reply{Text: "Yes.", FinishReason: message.FinishStop}})
		_, err := message.Collect(anthropic.New(&anthropic.Options{APIKey: key, BaseURL: mock.URL}).Generate(t.Context(), everything()))
		require.NoError(t, err)
		require.Equal(t, "/v1/messages", mock.Requests(t)[0].Path)
	})
}

func TestFaultsOfTheServer(t *testing.T) {
	mock := modeltest.Start(t)
	modeltest.RunFaults(t, mock, anthropic.New(&anthropic.Options{APIKey: key, BaseURL: mock.URL}), "claude-sonnet-4-5")
}
