package wire

import (
	"encoding/hex"

	"github.com/google/uuid"
)

// ParseUUID reads a UUID in any of the usual spellings: with hyphens, without, in braces, as a
// URN. Letters may be of either case.
func ParseUUID(text string) (uuid.UUID, bool) {
	if braced := len(uuid.Nil.String()) + 2; len(text) == braced && (text[0] != '{' || text[braced-1] != '}') {
		return uuid.Nil, false // which the library takes for braces
	}
	id, err := uuid.Parse(text)
	return id, err == nil
}

// AppendUUID appends the form with hyphens, which is the one that is printed everywhere.
func AppendUUID(b []byte, id uuid.UUID) []byte {
	b = append(hex.AppendEncode(b, id[:4]), '-')
	b = append(hex.AppendEncode(b, id[4:6]), '-')
	b = append(hex.AppendEncode(b, id[6:8]), '-')
	b = append(hex.AppendEncode(b, id[8:10]), '-')
	return hex.AppendEncode(b, id[10:])
}
