// Package state holds JSON documents and the RFC 6902 patches that change them. A document is a
// [encoding/json.RawMessage], so numbers keep their spelling; a [Patch] is a list of operations that
// applies as a whole or not at all.
//
//	patch := state.Patch{state.Add("/city", json.RawMessage(`"Oslo"`))}
//	doc, err := patch.Apply(json.RawMessage(`{}`), nil) // {"city":"Oslo"}
//
// [ParsePatch] reads a patch that comes from outside and says which operation is wrong. [Merge] and
// [Diff] make patches: the first from an object whose members are to be set, the second from two
// versions of a document. [Pointer] writes the paths.
//
// # Guarantees
//
//   - Apply returns the whole result or an error, never half of it, and leaves its arguments as they
//     were.
//   - Numbers keep their spelling (1E2, -0, integers past 2^53), except that test compares them by
//     value: 1.0 equals 1.
//   - RFC 6902 and 6901 hold strictly: no negative index, no index with a leading zero, a test for null
//     fails where nothing is, the empty key can be addressed.
//   - A patch or document past the [Limits] is an error that is [ErrLimit]; no input exhausts the stack.
//   - An object that repeats a key has the last value.
//   - All functions are safe for concurrent use, also on the same patch and document, as long as nobody
//     changes them.
//
// # Errors
//
// What is wrong with one operation is an [*Error] that names its index and path.
package state
