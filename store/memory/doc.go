// Package memory is a [store.Store] that keeps everything in the memory of the process: for tests,
// for demonstrations, and for programs whose sessions may end with them.
//
//	st := memory.New(nil)
//	defer st.Close()
//
// It has all the semantics of a store that lasts, leases and fences included, so that a program
// tested with it behaves the same on another driver. Two processes cannot share one.
//
// # Guarantees
//
// Those of package store, except that nothing survives the process. A Store starts no goroutine,
// uses no channel and takes the time from time.Now, so that inside a testing/synctest bubble
// leases run out by the bubble's clock.
//
// Memory is given back by DeleteSession and Prune only.
package memory
