// Package storetest is the conformance suite for drivers of package store. Whoever writes a driver
// runs it:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, storetest.Harness{Open: open})
//	}
//
// Each case defends one sentence of what package store promises, and prints that sentence when
// it fails. Cases run in parallel, each in a store of its own.
//
// # Tapes
//
// [Fuzz] is a driver's fuzz target. The bytes of an input, a tape, drive calls of three owners and a
// clock; each answer, and what the store shows after it, is compared with a small model: sequences
// ascend and are never given twice, epochs never decrease, at most one run is active in a session,
// what has ended does not change, a stale fence and a repeated write id write nothing, runs take
// their turns in order, and what was acknowledged comes back byte for byte. [RunTapes] plays kept
// and random tapes in every test run:
//
//	func FuzzStore(f *testing.F) { storetest.Fuzz(f, harness) }
//	func TestTapes(t *testing.T) { storetest.RunTapes(t, harness, 1, 300) }
//
// # What a case may assume
//
// A store that was opened with a clock takes all its times from it, keeps them to the millisecond
// at least, and returns them in UTC. Texts are valid UTF-8, the bodies of messages, documents and
// metadata are JSON; the values of tasks and the params of runs are any bytes.
//
// Where the interface leaves something to the driver, the model takes either: which runs of the same
// age a claim takes first, which sessions a prune takes under its limit, the lease of a run that
// nobody holds.
//
// A driver for a single process may let all leases run out when it is opened: whoever held them is
// gone.
//
// # Testing the suite
//
// The suite is tested in turn: its own tests run it against stores with one defect each, and
// every case must fail for at least one of them.
package storetest
