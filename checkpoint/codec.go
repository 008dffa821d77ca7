package checkpoint

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/everstep-go/everstep/internal/wire"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/state"
)

// A Codec says how a state S is kept: as one JSON document and a list of messages.
//
// A codec outlives the program it was compiled into: sessions written by an older version of it
// are read by the newer one. Whoever changes the shape of S raises Version and teaches Decode
// the older shapes.
type Codec[S any] interface {
	// Version is the version of what Encode writes, stored with every checkpoint.
	Version() int

	// Encode returns what after adds to before, the state of the checkpoint that the new one
	// follows; for the first checkpoint of a session that is the zero S. Document is what before
	// was kept as: what was read from the store, or the Encoded of the change before. It is nil
	// if there is neither.
	Encode(document json.RawMessage, before, after S) (Change, error)

	// Decode returns the state that was kept as document and messages, written at the given
	// version. The document is nil if none was ever written. The slice is the codec's to keep.
	Decode(version int, document json.RawMessage, messages []message.Message) (S, error)

	// Merge returns the state that a run starts with: the one of the checkpoint it starts from
	// and the run's input. In a new session the checkpoint is nil and current is what Decode
	// makes of the messages that stand outside runs, or the zero S.
	Merge(from *Checkpoint, current, input S) (S, error)

	// Result is what a client is told of the state when the run ends, as JSON; nil for nothing.
	Result(S) (json.RawMessage, error)
}

// A Change is the difference between two states, as a store keeps it. The zero Change is "the
// same as before".
type Change struct {
	// Document is the whole new document, or nil if it is the one before. A func, because the
	// whole is often not needed: where Patch is small, only that is stored.
	Document func() (json.RawMessage, error)
	// Patch leads from the document before to the new one. Nil if the codec does not know the
	// difference: the whole document is stored then.
	Patch state.Patch
	// Encoded is the new document, if the codec has it at hand. The next Encode gets it again.
	Encoded json.RawMessage
	// Messages are those that the step appended, in order. A codec of a state without a
	// conversation has none.
	Messages []message.Message
}

// JSON is the [Codec] for a state that is one JSON document: it keeps S as encoding/json
// prints it. An input replaces the state, unless S has a method Merge(input S) (S, error).
//
// Embed it to override single methods.
type JSON[S any] struct{}

// Version returns 1.
func (JSON[S]) Version() int { return 1 }

// Encode keeps the members that changed, or the whole document where that is no longer than them.
// It compares with the document and not with the state before, which a node may have changed in
// place.
func (JSON[S]) Encode(document json.RawMessage, _, after S) (Change, error) {
	now, err := wire.Marshal(after)
	if err != nil {
		return Change{}, fmt.Errorf("checkpoint: encode %T: %w", after, err)
	}
	if document == nil {
		var none S
		if document, err = wire.Marshal(none); err != nil {
			return Change{}, fmt.Errorf("checkpoint: encode %T: %w", none, err)
		}
	}
	change := Change{Encoded: now}
	if bytes.Equal(document, now) {
		return change, nil
	}
	patch, ok := state.Diff(document, now)
	if ok && len(patch) == 0 {
		return change, nil // the members stand in another order
	}
	if ok {
		change.Patch = patch
	}
	change.Document = func() (json.RawMessage, error) { return now, nil }
	return change, nil
}

// Decode reads the document with encoding/json. The messages are left aside.
func (JSON[S]) Decode(_ int, document json.RawMessage, _ []message.Message) (S, error) {
	var s S
	if document == nil {
		return s, nil
	}
	if err := json.Unmarshal(document, &s); err != nil {
		return s, fmt.Errorf("checkpoint: decode %T: %w", s, err)
	}
	return s, nil
}

// Merge replaces the current state by the input, or asks S's own Merge method.
func (JSON[S]) Merge(_ *Checkpoint, current, input S) (S, error) {
	if m, ok := any(current).(interface{ Merge(S) (S, error) }); ok {
		return m.Merge(input)
	}
	return input, nil
}

// Result returns the document.
func (JSON[S]) Result(s S) (json.RawMessage, error) {
	return wire.Marshal(s)
}
