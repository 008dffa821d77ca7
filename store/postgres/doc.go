// Package postgres is a [store.Store] in a PostgreSQL database, version 14 or later: for programs
// that run as several processes, and go on where one of them died.
//
//	s, err := postgres.Open(ctx, "postgres://app@db.example.com/app", nil)
//	if err != nil {
//		return err
//	}
//	defer s.Close()
//
// The store goes to a graph.Runner or a react.Agent; nothing else needs to know of it. It is a
// module of its own, on github.com/jackc/pgx/v5.
//
// # Guarantees
//
// Besides those of package store:
//
//   - When a call that writes has returned, the write is as durable as the server makes its
//     commits: with synchronous_commit on, as it is by default, it survives a crash and a power
//     cut. A failover to a standby keeps what the standby has confirmed: all, if it is a
//     synchronous one, else the last writes may be gone. [Open] warns of settings that lose more.
//   - Whoever writes for a run locks it first, in the same statement, and looks at its owner and
//     epoch under the lock. So a process that was frozen, was taken for dead and wakes up in
//     the middle of a write cannot slip anything in behind the run's new owner; and a takeover
//     sees all that was written before it.
//   - Leases are times of the database's clock. The clocks of the processes do not matter.
//   - Commit, SaveTask, Renew and Claim are one round trip each, Begin and Load two, lists one.
//   - A context that ends before a write was sent withdraws it. One that ends later has no
//     influence: the call returns what became of the write.
//   - Reads, Renew, Promote and RequestCancel are made again by themselves if the connection
//     breaks. So is everything that the server undid, and what waits for it to come up, for
//     some moments. A Commit or Begin whose answer got lost is left to the caller, who repeats
//     it with its write id.
//   - Each read sees one moment of the database.
//
// All methods need the primary server: on a standby nothing can be written, and what is read there
// may be older than what this process wrote.
//
// # Schema
//
// The tables are in a schema of their own, [Options.Schema]. [Open] brings it up to date; any
// number of processes may do so at once, and one waits for the other. Where the program's user must
// not create tables, set [Options.ManualMigrate], and call [Migrate] with another user, or run what
// [SQL] returns. The program's user needs USAGE of the schema, and SELECT, INSERT, UPDATE and
// DELETE on its tables.
//
// Each version of this package works with its own version of the schema and with the next one,
// so that processes can be replaced one by one: migrate first, or let the first new
// process do it. [Open] refuses a schema that is older or newer than that.
//
// Names and texts that users choose are kept as bytea, for text refuses NUL: read them with
// convert_from(node, 'UTF8').
//
// # Poolers
//
// Set [Options.Pooler] if there is PgBouncer or the like, in transaction mode, between this
// package and the server. Nothing here needs a session: no statement stays prepared then, there are no settings and
// no locks beyond a transaction. The timeouts that Open otherwise sets on its connections have
// to be set on the user:
//
//	ALTER ROLE app SET statement_timeout = '30s';
//	ALTER ROLE app SET lock_timeout = '10s';
//	ALTER ROLE app SET idle_in_transaction_session_timeout = '30s';
package postgres
