package checkpoint

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// A Checkpoint is one position of a run: the record that a session continues from, that a fork
// starts at, and that a takeover after a crash begins with.
//
// Its JSON is the checkpoint resource of the HTTP surface (contract 1.4). The fields that are
// not part of it are bookkeeping between the graph and its store.
type Checkpoint struct {
	ID        uuid.UUID
	SessionID uuid.UUID
	RunID     uuid.UUID // the run that wrote it

	// Node is the node that just ran; for [Input] the node that the run starts at.
	Node string
	// Status is the status of the run at that moment.
	Status Status
	Reason Reason
	// ParentID is the checkpoint before it, [uuid.Nil] for the first of a session.
	ParentID uuid.UUID
	// Metadata is a JSON object or nil. An [Interrupt] checkpoint keeps its questions here.
	Metadata  json.RawMessage
	CreatedAt time.Time

	// Seq is its number in the session and Line the line it stands on, both given by the store.
	Seq, Line int64
	// Next is the node to run next, empty after a run's last checkpoint.
	Next string
	// Document is the sequence number under which the store keeps the document of this
	// position, zero if there is none. Checkpoints that did not change it share one.
	Document int64
	// Version is the codec version that the document and the messages were written with.
	Version int
}

// Status is where a run stands. Running is the only status that changes.
type Status string

const (
	Running     Status = "running"
	Interrupted Status = "interrupted" // waits for an answer, which a new run brings
	Completed   Status = "completed"
	Failed      Status = "failed"
	Cancelled   Status = "cancelled"
)

// Ended reports whether the run does nothing more. An interrupted run has ended too: the run
// that answers it is another one.
func (s Status) Ended() bool { return s != Running }

// ParseStatus reads a stored status. One it does not know, written by a later version perhaps,
// counts as failed (contract 1.3).
func ParseStatus(text string) Status {
	switch s := Status(text); s {
	case Running, Interrupted, Completed, Failed, Cancelled:
		return s
	}
	return Failed
}

// Reason is why a checkpoint was written.
type Reason string

const (
	Input     Reason = "input"     // a run began: the state with its input, before any node
	Step      Reason = "step"      // a node returned
	Interrupt Reason = "interrupt" // a node asked and waits for the answer
	Finish    Reason = "finish"    // the run ended
)

// MarshalJSON prints the checkpoint resource of contract 1.4; what may be null is printed as null.
func (c Checkpoint) MarshalJSON() ([]byte, error) {
	return json.Marshal(resource{
		ID: c.ID, SessionID: c.SessionID, RunID: c.RunID, Node: c.Node, Status: c.Status, Reason: c.Reason,
		Parent:   uuid.NullUUID{UUID: c.ParentID, Valid: c.ParentID != uuid.Nil},
		Metadata: c.Metadata, CreatedAt: c.CreatedAt.UTC(),
	})
}

// UnmarshalJSON reads the checkpoint resource. Fields it does not know are left aside.
func (c *Checkpoint) UnmarshalJSON(data []byte) error {
	var r resource
	if err := json.Unmarshal(data, &r); err != nil {
		return err
	}
	*c = Checkpoint{
		ID: r.ID, SessionID: r.SessionID, RunID: r.RunID, Node: r.Node, Status: ParseStatus(string(r.Status)), Reason: r.Reason,
		ParentID: r.Parent.UUID, Metadata: r.Metadata, CreatedAt: r.CreatedAt,
	}
	if string(c.Metadata) == "null" {
		c.Metadata = nil
	}
	return nil
}

type resource struct {
	ID        uuid.UUID       `json:"id"`
	SessionID uuid.UUID       `json:"session_id"`
	RunID     uuid.UUID       `json:"run_id"`
	Node      string          `json:"node"`
	Status    Status          `json:"status"`
	Reason    Reason          `json:"reason"`
	Parent    uuid.NullUUID   `json:"parent_checkpoint_id"`
	Metadata  json.RawMessage `json:"metadata"`
	CreatedAt time.Time       `json:"created_at"`
}
