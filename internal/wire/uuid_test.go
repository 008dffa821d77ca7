package wire_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"github.com/everstep-go/everstep/internal/wire"
)

func TestAUUIDIsReadInTheUsualSpellingsOnly(t *testing.T) {
	t.Parallel()
	id := uuid.MustParse("0a1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4d")
	text := id.String()
	for _, ok := range []string{text, strings.ToUpper(text), "{" + text + "}", "urn:uuid:" + text, strings.ReplaceAll(text, "-", "")} {
		got, is := wire.ParseUUID(ok)
		assert.True(t, is, ok)
		assert.Equal(t, id, got)
	}
	for _, bad := range []string{"", "start", "x" + text + "x", "{" + text + "x", text + "0", text[1:], " " + text, text + "\n", strings.Replace(text, "-", "_", 1)} {
		_, is := wire.ParseUUID(bad)
		assert.False(t, is, bad)
	}
}

func TestAUUIDIsPrintedWithHyphens(t *testing.T) {
	id := uuid.New()
	assert.Equal(t, "id "+id.String(), string(wire.AppendUUID([]byte("id "), id)))
	b := make([]byte, 0, 64)
	assert.Zero(t, testing.AllocsPerRun(100, func() { b = wire.AppendUUID(b[:0], id) }))
}
