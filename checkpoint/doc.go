// Package checkpoint holds what a run leaves behind at each of its steps, and how a program's
// own state becomes something that can be kept.
//
// A [Checkpoint] is the immutable record of one position of a run: which node ran, what comes
// next, and where in the tree of the session's checkpoints it stands. Runs form chains of
// checkpoints, sessions form trees: a run that starts from an earlier checkpoint opens a new
// [Line], and the old one stays as it was. [History] says which messages a checkpoint sees.
//
// A [Codec] splits a state into the two things that are kept apart: one JSON document, and the
// messages that a step appended. Each message is stored once, however long the conversation
// grows; a document that did not change costs nothing. [JSON] is the codec for states that are
// just a document.
//
// # Guarantees
//
//   - Checkpoints are never changed after they were written.
//   - Sequences are given by the store, one counter per session. They, never a clock, decide
//     what is newer.
//   - A codec is called by one goroutine at a time for one run. Codecs are shared by runs, so
//     they hold no state of their own.
package checkpoint
