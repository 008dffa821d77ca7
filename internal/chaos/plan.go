package chaos

import (
	"math/rand/v2"
	"time"
)

// A Kind is something that goes wrong.
type Kind string

// The kinds. All but the restart of the database concern one replica.
const (
	Kill      Kind = "kill"            // SIGKILL, and a restart
	Freeze    Kind = "freeze"          // SIGSTOP for longer than the lease, then SIGCONT: a zombie
	Terminate Kind = "terminate"       // SIGTERM, and a restart
	Crash     Kind = "database crash"  // an immediate restart of the database
	Backends  Kind = "backends ended"  // pg_terminate_backend of all the replica's connections
	Cut       Kind = "connections cut" // by the proxy
	DarkShort Kind = "dark, short"     // the proxy forwards nothing for less than the lease
	DarkLong  Kind = "dark, long"      // and for longer than the lease
)

// Kinds are all there are.
var Kinds = []Kind{Kill, Freeze, Terminate, Crash, Backends, Cut, DarkShort, DarkLong}

// An Incident is one thing that goes wrong with a replica.
type Incident struct {
	Kind    Kind
	Replica int
	Hold    time.Duration // how long it lasts, or the replica stays away
	Pause   time.Duration // until the next one begins, which may overlap if it is another replica's
}

// Plan makes n incidents from a seed. Every eight of them are one of each kind.
func Plan(seed uint64, n, replicas int, lease time.Duration) []Incident {
	random := rand.New(rand.NewPCG(seed, 0))
	between := func(from, to time.Duration) time.Duration {
		return from + time.Duration(random.Int64N(int64(to-from)))
	}
	plan := make([]Incident, 0, n+len(Kinds))
	for len(plan) < n {
		for _, k := range random.Perm(len(Kinds)) {
			in := Incident{Kind: Kinds[k], Replica: random.IntN(replicas), Pause: between(lease/10, lease)}
			switch in.Kind {
			case Kill, Terminate:
				in.Hold = between(0, lease*2)
			case Freeze, DarkLong:
				in.Hold = between(lease*5/4, lease*2)
			case DarkShort:
				in.Hold = between(lease/10, lease*3/5)
			}
			plan = append(plan, in)
		}
	}
	return plan[:n]
}
