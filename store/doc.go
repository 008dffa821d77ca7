// Package store is the driver interface: where sessions, runs, checkpoints, messages and task
// results are kept, and how it is decided who may write them.
//
// Programs do not call a [Store]. They open one (store/memory, store/sqlite) and hand it to a
// graph.Runner or a react.Agent, which carry all the logic; a driver only keeps and finds.
// Whoever writes a driver runs storetest.Run against it.
//
// # Guarantees
//
// A driver promises, and storetest checks:
//
//   - Each writing call happens whole or not at all. When it returned without an error, it
//     survives whatever the driver says it survives (sqlite: a power cut).
//   - Whoever writes for a run names itself by a [Fence]. A write with a fence that is no longer
//     the run's writes nothing and returns [ErrLost], also when the new owner took over
//     a moment ago.
//   - A write repeated with the same write id is recognised, changes nothing, and returns what
//     it returned the first time: an answer that got lost is harmless.
//   - Sequences are per session, ascend in the order of commits and are never given twice.
//     Created times never decrease along them, even when the clock does.
//   - Nothing crosses tenants: what belongs to another one looks like what does not exist.
//   - Byte slices passed in are not changed and not kept; those returned belong to the caller.
//   - All methods may be called by any number of goroutines.
//
// A driver must not give up a write because its context ended after the write was sent:
// either it did not begin, or its outcome is known.
package store
