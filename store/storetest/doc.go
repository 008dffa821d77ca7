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
// # What a case may assume
//
// A store that was opened with a clock takes all its times from it, keeps them to the millisecond
// at least, and returns them in UTC. Texts are valid UTF-8, the bodies of messages, documents and
// metadata are JSON; the values of tasks and the params of runs are any bytes.
//
// A driver for a single process may let all leases run out when it is opened: whoever held them is
// gone.
//
// # Testing the suite
//
// The suite is tested in turn: its own tests run it against stores with one defect each, and
// every case must fail for at least one of them.
package storetest
