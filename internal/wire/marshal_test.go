package wire_test

import (
	"testing"

	"github.com/everstep-go/everstep/internal/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMarshalPrintsHTMLCharactersAsTheyAre(t *testing.T) {
	t.Parallel()
	got, err := wire.Marshal(map[string]string{"a": "<b>&\n"})
	require.NoError(t, err)
	assert.Equal(t, `{"a":"<b>&\n"}`, string(got))
}

func TestMarshalReportsWhatCannotBePrinted(t *testing.T) {
	t.Parallel()
	_, err := wire.Marshal(func() {})
	require.Error(t, err)
}
