package gemini_test

import (
	"context"
	"encoding/json"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/store/memory"
)

func TestAnAgentGivesBackWhatItWasGiven(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			stream(
				parts(`{"text":"A summary.","thought":true}`),
				parts(`{"text":"Let me see.","thoughtSignature":"QQ=="}`),
				parts(`{"functionCall":{"name":"weather","args":{"city":"Oslo"}},"thoughtSignature":"Qg=="}`, `{"functionCall":{"name":"weather","args":{"city":"Bergen"}}}`),
				finish("STOP"),
			)(w, r)
			return
		}
		stream(parts(`{"text":"Rain in both."}`), finish("STOP"))(w, r)
	})
	type place struct {
		City string `json:"city"`
	}
	agent, err := react.New(react.Config{
		Name: "forecaster", Model: f.model(t), ModelName: "gemini-3-pro", Store: memory.New(nil),
		Tools: []react.Tool{react.NewTool("weather", "Current weather.", func(_ context.Context, in place) (string, error) {
			return "rain in " + in.City, nil
		})},
	})
	require.NoError(t, err)
	for _, err := range agent.Run(t.Context(), react.Ask(uuid.New(), "Rain?")) {
		require.NoError(t, err)
	}

	require.Len(t, f.bodies, 2)
	var second struct {
		Contents []struct {
			Role  string
			Parts []struct {
				Text, ThoughtSignature string
				FunctionCall           struct{ ID, Name string }
				FunctionResponse       struct {
					ID, Name string
					Response json.RawMessage
				}
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(f.bodies[1]), &second))
	require.Len(t, second.Contents, 3)
	said, heard := second.Contents[1].Parts, second.Contents[2].Parts
	require.Len(t, said, 3)
	require.Len(t, heard, 2)
	assert.Equal(t, "Let me see.", said[0].Text)
	assert.Equal(t, []string{"QQ==", "Qg==", ""}, []string{said[0].ThoughtSignature, said[1].ThoughtSignature, said[2].ThoughtSignature})
	for i, city := range []string{"Oslo", "Bergen"} {
		assert.NotEmpty(t, heard[i].FunctionResponse.ID)
		assert.Equal(t, said[i+1].FunctionCall.ID, heard[i].FunctionResponse.ID)
		assert.Equal(t, "weather", heard[i].FunctionResponse.Name)
		assert.Contains(t, string(heard[i].FunctionResponse.Response), "rain in "+city)
	}
}
