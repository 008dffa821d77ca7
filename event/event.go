package event

import (
	"time"

	"github.com/google/uuid"
)

// Event is one thing that happened in a run. On the wire it is one flat object: kind, timestamp, then
// the fields of its Data. The number goes beside it, as the id line of a server-sent event does.
type Event struct {
	// Seq is the number in the run, from 1. Numbers grow; they are contiguous while one process runs the
	// run, and jump when another takes it over.
	Seq int64
	// Time has the precision of a microsecond on the wire.
	Time time.Time
	// Tenant is never on the wire.
	Tenant string
	// Session and Run are on the wire for RunStarted, RunFinished and RunError only.
	Session, Run uuid.UUID
	Data         Data
}
