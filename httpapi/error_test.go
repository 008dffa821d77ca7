package httpapi_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/httpapi"
	"github.com/everstep-go/everstep/react"
)

func TestAnErrorHasOneOfTwoShapes(t *testing.T) {
	t.Parallel()
	for text, e := range map[string]*httpapi.Error{
		`{"code":404000,"message":"not found"}`: {Code: 404000, Message: "not found"},
		`{"code":409010,"message":""}`:          {Code: 409010},
		`{"code":422001,"fields":[
			{"field":"a","errors":[{"code":"range","message":"too much","params":{"max":1}},{"code":"unique","message":"twice"}]},
			{"field":"b","errors":[{"code":"unknown","message":""}]}]}`: {Code: 422001, Fields: []react.FieldError{
			{Field: "a", Code: "range", Message: "too much", Params: map[string]any{"max": 1.0}},
			{Field: "a", Code: "unique", Message: "twice"}, {Field: "b", Code: "unknown"},
		}},
	} {
		printed, err := json.Marshal(e)
		require.NoError(t, err)
		assert.JSONEq(t, text, string(printed))
		var back httpapi.Error
		require.NoError(t, json.Unmarshal(printed, &back))
		assert.Equal(t, e, &back)
		assert.Equal(t, e.Code/1000, e.Status())
		assert.NotEmpty(t, e.Error())
	}
}
