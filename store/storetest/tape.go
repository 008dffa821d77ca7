package storetest

import (
	"encoding/binary"

	"github.com/google/uuid"
)

// A tape decides what a [player] does: every choice takes a byte of it. When it has run out, each
// choice is the first one.
type tape struct {
	bytes []byte
	ids   uint64 // given so far
}

func (t *tape) empty() bool { return len(t.bytes) == 0 }

// pick chooses one of n.
func (t *tape) pick(n int) int {
	if t.empty() {
		return 0
	}
	b := t.bytes[0]
	t.bytes = t.bytes[1:]
	return int(b) % n
}

// rarely says yes once in n times, and never at the tape's end.
func (t *tape) rarely(n int) bool { return t.pick(n) == n-1 }

// id returns an id that was not given before. The same tape gives the same ids.
func (t *tape) id() uuid.UUID {
	t.ids++
	id := uuid.UUID{6: 0x40, 8: 0x80}
	binary.BigEndian.PutUint32(id[:], uint32(t.ids*0x9e3779b1)) // not in the order in which they are given
	binary.BigEndian.PutUint32(id[12:], uint32(t.ids))
	return id
}

// choose picks an element, the last one first; ok is false if there is none.
func choose[T any](t *tape, list []T) (v T, ok bool) {
	if len(list) == 0 {
		return v, false
	}
	return list[len(list)-1-t.pick(len(list))], true
}
