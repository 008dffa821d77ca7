// Package chaos kills, freezes and cuts off replicas of examples/server that share one PostgreSQL,
// while clients use them, and then checks that what was promised was kept.
//
//	CI=true go test -count=1 -v ./internal/chaos
//	go test -count=1 -v -timeout 3h ./internal/chaos -args -events 1000 -seed 42
//
// Each replica is a process of its own, reaches the database through a [Proxy] of its own and keeps
// a ledger of its own: what its tools really did, whatever the database says. A [Plan] says what goes
// wrong and when; clients start runs, watch them, answer their questions and cancel them on
// whichever replica chance picks. All of it goes into a [History], and each of the [Invariants]
// is a sentence and a function that looks for what contradicts it.
//
// The same seed makes the same plan, and gives each client the same dice. It does not make the same
// timing: which line of the program a signal hits is up to the machine, and a client that had to
// try again has thrown its dice once more. A violation that a seed found may need several tries
// to show again.
package chaos
