package checkpoint_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/state"
)

type essay struct {
	Title string            `json:"title"`
	Notes map[string]string `json:"notes"`
	Page  *int              `json:"page,omitempty"`
}

func TestAChangeIsWhatAStateAddsToTheOneBefore(t *testing.T) {
	t.Parallel()
	codec := checkpoint.JSON[essay]{}
	page := 7
	before := essay{Title: "<a>", Notes: map[string]string{"x": "1", "y": "2"}}
	for name, c := range map[string]struct {
		after essay
		patch string
		whole string
	}{
		"nothing":          {before, "", ""},
		"a member":         {essay{Title: "b", Notes: before.Notes}, `[{"op":"replace","path":"/title","value":"b"}]`, `{"title":"b","notes":{"x":"1","y":"2"}}`},
		"below a member":   {essay{Title: "<a>", Notes: map[string]string{"x": "1", "y": "&"}}, `[{"op":"replace","path":"/notes/y","value":"&"}]`, `{"title":"<a>","notes":{"x":"1","y":"&"}}`},
		"a member is gone": {essay{Title: "<a>", Notes: map[string]string{"y": "2"}}, `[{"op":"remove","path":"/notes/x"}]`, `{"title":"<a>","notes":{"y":"2"}}`},
		"a new member":     {essay{Title: "<a>", Notes: before.Notes, Page: &page}, `[{"op":"add","path":"/page","value":7}]`, `{"title":"<a>","notes":{"x":"1","y":"2"},"page":7}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			document, err := codec.Result(before)
			require.NoError(t, err)
			change, err := codec.Encode(document, before, c.after)
			require.NoError(t, err)
			assert.Empty(t, change.Messages)
			if c.patch == "" {
				assert.Nil(t, change.Document)
				assert.Nil(t, change.Patch)
				return
			}
			whole, err := change.Document()
			require.NoError(t, err)
			assert.Equal(t, c.whole, string(whole), "as encoding/json prints it, without escapes for HTML")
			patch, err := json.Marshal(change.Patch)
			require.NoError(t, err)
			assert.JSONEq(t, c.patch, string(patch))
			back, err := codec.Decode(1, whole, nil)
			require.NoError(t, err)
			assert.Equal(t, c.after, back)
		})
	}
	t.Run("against the zero state a session begins with", func(t *testing.T) {
		t.Parallel()
		change, err := codec.Encode(nil, essay{}, essay{})
		require.NoError(t, err)
		assert.Nil(t, change.Document)
		back, err := codec.Decode(1, nil, nil)
		require.NoError(t, err)
		assert.Equal(t, essay{}, back, "no document is the zero state")
	})
	t.Run("a state that is no object is kept whole", func(t *testing.T) {
		t.Parallel()
		change, err := checkpoint.JSON[[]int]{}.Encode(json.RawMessage(`[1]`), []int{1}, []int{1, 2})
		require.NoError(t, err)
		assert.Nil(t, change.Patch)
		whole, err := change.Document()
		require.NoError(t, err)
		assert.Equal(t, "[1,2]", string(whole))
	})
	t.Run("a state without JSON is an error", func(t *testing.T) {
		t.Parallel()
		_, err := checkpoint.JSON[any]{}.Encode(nil, nil, func() {})
		assert.ErrorContains(t, err, "checkpoint: encode func()")
		_, err = checkpoint.JSON[any]{}.Result(func() {})
		assert.Error(t, err)
	})
	t.Run("a document of another shape is an error", func(t *testing.T) {
		t.Parallel()
		_, err := codec.Decode(1, json.RawMessage(`{"title":7}`), nil)
		assert.ErrorContains(t, err, "checkpoint: decode checkpoint_test.essay")
	})
	result, err := codec.Result(before)
	require.NoError(t, err)
	assert.Equal(t, `{"title":"<a>","notes":{"x":"1","y":"2"}}`, string(result))
	assert.Equal(t, 1, codec.Version())
}

// A patch of the codec, applied to the document before, is the document after.
func TestAPatchLeadsToTheStateAfter(t *testing.T) {
	t.Parallel()
	codec := checkpoint.JSON[map[string]any]{}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 2))
		var value func(depth int) any
		object := func(depth int) map[string]any {
			m := make(map[string]any)
			for range r.IntN(5) {
				m[[]string{"a", "b/c", "d~e", "", "ü", "0", "-"}[r.IntN(7)]] = value(depth - 1)
			}
			return m
		}
		value = func(depth int) any {
			switch n := r.IntN(6); {
			case depth > 0 && n < 3:
				return object(depth)
			case n == 3:
				return []any{r.IntN(3), nil, "x"}
			case n == 4:
				return nil
			}
			return fmt.Sprint(r.IntN(3))
		}
		before, after := object(4), object(4)
		document, err := codec.Result(before)
		require.NoError(t, err)
		change, err := codec.Encode(document, before, after)
		require.NoError(t, err)
		if change.Document == nil {
			continue
		}
		whole, err := change.Document()
		require.NoError(t, err)
		old, err := json.Marshal(before)
		require.NoError(t, err)
		got, err := change.Patch.Apply(old, nil)
		require.NoError(t, err)
		if !assert.True(t, state.Equal(whole, got), "seed %d: %s is not %s", seed, got, whole) {
			return
		}
	}
}

type sum int

func (s sum) Merge(input sum) (sum, error) {
	if input < 0 {
		return 0, errors.New("negative")
	}
	return s + input, nil
}

func TestAnInputReplacesTheStateUnlessTheStateSaysHowToMerge(t *testing.T) {
	t.Parallel()
	got, err := checkpoint.JSON[int]{}.Merge(&checkpoint.Checkpoint{}, 3, 4)
	require.NoError(t, err)
	assert.Equal(t, 4, got)
	merged, err := checkpoint.JSON[sum]{}.Merge(nil, 3, 4)
	require.NoError(t, err)
	assert.Equal(t, sum(7), merged)
	_, err = checkpoint.JSON[sum]{}.Merge(nil, 3, -4)
	assert.EqualError(t, err, "negative")
}
