package react

import (
	"encoding/json"

	"github.com/everstep-go/everstep/internal/wire"
)

// Optional is a value that is given or left out. In updates and inputs what is left out stays
// as it is, and what is given replaces it: also nil, which clears it.
//
// In JSON a field that is left out is absent; declare it with the omitzero option.
type Optional[T any] struct {
	value T
	given bool
}

// Set returns a value that is given.
func Set[T any](value T) Optional[T] { return Optional[T]{value: value, given: true} }

// Get returns the value, and whether one is given.
func (o Optional[T]) Get() (value T, given bool) { return o.value, o.given }

// IsZero reports whether no value is given.
func (o Optional[T]) IsZero() bool { return !o.given }

// MarshalJSON prints the value, null if none is given.
func (o Optional[T]) MarshalJSON() ([]byte, error) {
	if !o.given {
		return []byte("null"), nil
	}
	return wire.Marshal(o.value)
}

// UnmarshalJSON reads a value that is given, null too.
func (o *Optional[T]) UnmarshalJSON(data []byte) error {
	o.given = true
	return json.Unmarshal(data, &o.value)
}

// or returns the value if it is given, and else what there is.
func (o Optional[T]) or(there T) T {
	if o.given {
		return o.value
	}
	return there
}
