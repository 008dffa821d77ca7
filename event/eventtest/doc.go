// Package eventtest is the conformance suite of [event.Bus]. Whoever writes a bus runs it:
//
//	func TestBus(t *testing.T) {
//		eventtest.Run(t, eventtest.Harness{Open: open})
//	}
//
// The harness opens two buses that are connected: what is published on one is seen on the other.
// A bus for a single process is given twice.
//
// Each case defends one sentence of what package event promises, and prints that sentence when
// it fails. Cases run in parallel, each with buses of its own.
//
// # What a case waits for
//
// What crosses to another process takes its time. A case waits until it has happened, at most
// as long as the harness has patience; it never waits for time to pass. A run that one bus has just
// begun may still be unknown to the other: where the answer is [event.ErrNoLog], a case asks again, and
// after an [*event.GapError] it goes on with the first number that is kept, as package graph does.
//
// # Testing the suite
//
// The suite is tested in turn: its own tests run it against buses with one defect each, and
// every case must fail for at least one of them.
package eventtest
