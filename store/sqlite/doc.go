// Package sqlite is a [store.Store] in one SQLite database file: for programs that run as one
// process on one machine and must not lose what they did.
//
//	s, err := sqlite.Open("agent.db", nil)
//	if err != nil {
//		return err
//	}
//	defer s.Close()
//
// The store goes to a graph.Runner or a react.Agent; nothing else needs to know of it. The
// package uses cgo. On Linux, build with
//
//	CGO_CFLAGS="-O2 -g -DHAVE_FDATASYNC=1"
//
// so that SQLite flushes with fdatasync, which leaves out the times of the file: less to write
// for each commit that is flushed.
//
// # Guarantees
//
// Besides those of package store:
//
//   - When a call that writes has returned, the write survives the death of the process, and a
//     power cut as far as the disk keeps what it was told to flush. With
//     [Options.Synchronous] = [Normal] it survives the death of the process, and a power cut
//     may take the last commits away, in order, from the last one back. In no case does
//     the file become inconsistent.
//   - One process has the database open. A second Open gets [store.ErrLocked] while the first
//     lives, through the file lock of the system on agent.db.lock, which ends with the
//     process. (Linux, macOS and the BSDs. On other systems nothing is locked, and it is up
//     to the user.) So the owners of all runs that Open finds running are dead: they can be
//     claimed at once, without waiting for their leases.
//   - Writes that wait at the same time are flushed to the disk together, each still whole or
//     not at all. A write that fails takes nothing of the others with it.
//   - A context that ends while a write waits for its turn withdraws it. One that ends later
//     has no influence: the call returns what became of the write.
//   - Reads see one moment of the database and do not wait for writes.
//   - A database of another program, or of a newer version of this package, is refused and left
//     as it is.
//
// # The file
//
// The database uses a write-ahead log: beside agent.db there are agent.db-wal and agent.db-shm
// while it is open, and after a crash. They belong to it. They must be on a local disk: the log
// does not work over a network. [Store.Close] moves everything into agent.db.
//
// To back up, do not copy the file of a running program. Run
//
//	sqlite3 agent.db "VACUUM INTO 'backup.db'"
//
// at any time (not with [Options.Exclusive]), or copy all of agent.db* while the program is
// stopped.
//
// The schema is brought up to date by [Open], or by [Migrate] if [Options.ManualMigrate] is set.
package sqlite
