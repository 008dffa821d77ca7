package message_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/everstep-go/everstep/internal/wire"
	"github.com/everstep-go/everstep/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestARequestMustEndInAUserTurn(t *testing.T) {
	t.Parallel()
	ok := [][]message.Message{
		{message.NewUser("a")},
		{message.NewUser("a"), message.NewAssistant("b", call("c")), message.NewTool("c", "d")},
	}
	for _, msgs := range ok {
		require.NoError(t, (&message.Request{Messages: msgs}).Validate())
	}
	bad := map[string][]message.Message{
		"no messages":        nil,
		"role assistant":     {message.NewUser("a"), message.NewAssistant("b")},
		"role reasoning":     {message.NewUser("a"), message.NewReasoning("b", "")},
		"message 0":          {message.NewSystem("a"), message.NewUser("b")},
		"message 1 does":     {message.NewUser("a"), message.NewAssistant("b", call("c")), message.NewUser("d")},
		"message 1 does not": {message.NewUser("a"), message.NewTool("c", "d")},
	}
	for want, msgs := range bad {
		err := (&message.Request{Messages: msgs}).Validate()
		require.ErrorIs(t, err, message.ErrInvalidRequest)
		require.ErrorContains(t, err, want)
	}
}

func TestParamsThatAreSetWin(t *testing.T) {
	t.Parallel()
	var base, over, want message.Params
	require.NoError(t, json.Unmarshal([]byte(`{"max_tokens":1,"temperature":0.5,"top_p":0.5,"top_k":1,
		"stop_sequences":["a"],"frequency_penalty":0.5,"presence_penalty":0.5,"seed":1,"provider_params":{"a":1,"b":2}}`), &base))
	require.NoError(t, json.Unmarshal([]byte(`{"temperature":0,"stop_sequences":[],"seed":9,"provider_params":{"a":3}}`), &over))
	require.NoError(t, json.Unmarshal([]byte(`{"max_tokens":1,"temperature":0,"top_p":0.5,"top_k":1,
		"stop_sequences":[],"frequency_penalty":0.5,"presence_penalty":0.5,"seed":9,"provider_params":{"a":3}}`), &want))
	assert.Equal(t, want, over.Over(base))
	assert.Equal(t, base, message.Params{}.Over(base))
	assert.Equal(t, base, base.Over(message.Params{}))
	assert.Equal(t, base, base.Over(base))
	assert.Equal(t, base, message.Params{ProviderParams: json.RawMessage("null")}.Over(base))
}

func TestParamsThatAreNotSetAreNotPrinted(t *testing.T) {
	t.Parallel()
	data, err := wire.Marshal(message.Params{})
	require.NoError(t, err)
	assert.Equal(t, `{}`, string(data))
	data, err = wire.Marshal(message.Params{Temperature: new(0.0), StopSequences: []string{}})
	require.NoError(t, err)
	assert.Equal(t, `{"temperature":0,"stop_sequences":[]}`, string(data))
}

func TestTransientErrorsKeepTheirCause(t *testing.T) {
	t.Parallel()
	cause := errors.New("429")
	err := message.Transient(cause, time.Second)
	require.ErrorIs(t, err, cause)
	require.EqualError(t, err, "429")
	e, ok := errors.AsType[*message.TransientError](err)
	require.True(t, ok)
	assert.Equal(t, time.Second, e.RetryAfter)
	require.NoError(t, message.Transient(nil, time.Second))
}
