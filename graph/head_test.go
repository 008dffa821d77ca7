package graph

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/state"
)

// change is a change of a document of some size by a patch of about some other.
func change(whole, patch int) checkpoint.Change {
	c := checkpoint.Change{Document: func() (json.RawMessage, error) {
		return json.RawMessage(strings.Repeat("w", whole)), nil
	}}
	if patch > 0 {
		c.Patch = state.Patch{state.Replace("/x", json.RawMessage(`"`+strings.Repeat("p", patch)+`"`))}
	}
	return c
}

// links stores a change n times and returns what was stored, "w" for whole and "p" for a patch.
func links(t testing.TB, c chain, n int, ch checkpoint.Change) (string, chain) {
	t.Helper()
	var b strings.Builder
	for range n {
		doc, next, err := c.next(ch)
		require.NoError(t, err)
		if doc.Patch {
			b.WriteByte('p')
			assert.Equal(t, c.patches+1, next.patches)
			assert.Equal(t, c.bytes+len(doc.Body), next.bytes)
			assert.Equal(t, c.whole, next.whole)
		} else {
			b.WriteByte('w')
			assert.Equal(t, chain{whole: len(doc.Body)}, next)
		}
		c = next
	}
	return b.String(), c
}

func TestADocumentIsStoredWholeWhenItsPatchesAreAsLong(t *testing.T) {
	t.Parallel()
	runs := func(n int) string { return strings.Repeat("p", n) }
	for name, c := range map[string]struct {
		whole, patch int
		want         string
	}{
		"a small document has 32 patches at least":  {100, 10, "w" + runs(32) + "w" + runs(32) + "w"},
		"a large one until they have as many bytes": {10_000, 60, "w" + runs(100) + "w" + runs(100) + "w"},
		"but never more than 512":                   {10_000_000, 10, "w" + runs(512) + "w" + runs(512) + "w"},
		"a patch that is no shorter is not stored":  {50, 50, "wwwww"},
		"nor is a change without a patch":           {50, 0, "wwwww"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ch := change(c.whole, c.patch)
			if c.patch == 60 {
				body, err := json.Marshal(ch.Patch)
				require.NoError(t, err)
				ch = change(c.whole, c.patch+100-len(body)) // 100 bytes each
			}
			got, _ := links(t, chain{}, len(c.want), ch)
			assert.Equal(t, c.want, got)
		})
	}
}

func TestADocumentThatDidNotChangeIsNotStored(t *testing.T) {
	t.Parallel()
	before := chain{whole: 10, patches: 3, bytes: 7}
	doc, after, err := before.next(checkpoint.Change{})
	require.NoError(t, err)
	assert.Nil(t, doc)
	assert.Equal(t, before, after)

	failing := checkpoint.Change{Document: func() (json.RawMessage, error) { return nil, errors.New("broken") }}
	_, _, err = before.next(failing)
	assert.EqualError(t, err, "broken")
	doc, _, err = before.next(checkpoint.Change{Document: failing.Document, Patch: state.Patch{}})
	require.NoError(t, err, "the whole is not asked for if a patch will do")
	assert.Equal(t, "[]", string(doc.Body))
}

func TestHeadsForgetTheSessionUsedLongestAgo(t *testing.T) {
	t.Parallel()
	keys := make([]runKey, 4)
	for i := range keys {
		keys[i] = runKey{"t", uuid.New()}
	}
	h := newHeads[int](3)
	for i, key := range keys[:3] {
		h.put(key, &head[int]{state: i})
	}
	h.put(keys[0], &head[int]{state: 10})
	h.put(keys[3], &head[int]{state: 3})
	assert.Nil(t, h.take(keys[1]))
	assert.Equal(t, 10, h.take(keys[0]).state, "the newest of a session")
	assert.Nil(t, h.take(keys[0]), "only one run can begin on it")
	assert.Nil(t, h.take(runKey{"other", keys[2].id}))
	h.drop(keys[2])
	assert.Nil(t, h.take(keys[2]))
	assert.Len(t, h.byKey, 1)
	assert.Equal(t, 1, h.order.Len())

	none := newHeads[int](-1)
	none.put(keys[0], &head[int]{})
	assert.Nil(t, none.take(keys[0]))
}
