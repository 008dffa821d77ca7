package checkpoint

import "slices"

// A Line is one branch of a session: an unbroken row of checkpoints, extended by one run at a
// time. The first line of a session has no parent; a fork opens a line that leaves its parent
// at a sequence.
type Line struct {
	ID     int64 // unique in its session, from 1
	Parent int64 // the line it leaves, zero for a first line
	Fork   int64 // the sequence on the parent after which it goes its own way
}

// Base is the line of messages that no run brought: they stand where their sequence puts them
// on every line (contract R13).
const Base int64 = 0

// A Span is a piece of a line: its sequences after From, up to and including To.
type Span struct {
	Line     int64
	From, To int64
}

// History returns the spans whose messages a checkpoint at sequence seq of a line sees, oldest
// first: the line itself, before it the parent up to the fork, and so on to the root. Messages
// of [Base] are seen besides, whatever their sequence. Lines is every line of the session, in
// any order; a parent that is missing ends the history there.
//
// Spans never overlap, so one scan over the sequences, or one per span, reads a history; their
// number is the number of forks, not of steps.
func History(lines []Line, line, seq int64) []Span {
	var spans []Span
	for len(spans) <= len(lines) { // a cycle can only be damage; do not follow it for ever
		i := slices.IndexFunc(lines, func(l Line) bool { return l.ID == line })
		if i < 0 {
			break
		}
		spans = append(spans, Span{Line: line, From: lines[i].Fork, To: seq})
		if lines[i].Parent == Base {
			break
		}
		line, seq = lines[i].Parent, lines[i].Fork
	}
	slices.Reverse(spans)
	return spans
}
