package store

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/message"
)

// Store keeps everything that must outlive a process. See the package comment for what each
// driver promises; errors are those of this package, wrapped with what the driver knows. A driver
// may also be a [Records].
type Store interface {
	// Begin records a new run, creates its session if there is none, and writes the run's
	// first checkpoints with it. It decides whether the run continues the session or is a
	// branch, and on which line it writes.
	//
	// It returns a [*NotFoundError] for a From.Checkpoint that is not the session's,
	// [ErrExists] for a run id that is taken, a [*BusyError] if the run would continue a
	// session that has an active run (unless Wait is set), and [ErrConflict] if the session
	// moved on since From was loaded: load again.
	Begin(ctx context.Context, b *Begin) (*Begun, error)

	// Promote makes a waiting run the active run of its session if the session is idle and no
	// other run waits longer. It reports whether the run is active now.
	Promote(ctx context.Context, f Fence) (bool, error)

	// Claim takes over running runs whose lease has run out, up to Limit, oldest first.
	Claim(ctx context.Context, c *Claim) ([]Run, error)

	// Renew extends the leases of an owner's runs, and tells which of them are no longer its
	// own and which of them somebody wants cancelled.
	Renew(ctx context.Context, r *Renew) (*Renewed, error)

	// Commit writes checkpoints with their documents and messages, and the run's status. If it
	// writes a checkpoint, the task records of the run's last checkpoint go, and those of the
	// call take their place under the new last one. It extends the lease.
	//
	// It returns [ErrLost] if the fence is not the run's or the run has ended, [ErrConflict]
	// if After is not the run's last checkpoint, a [*NotFoundError] if the run is gone, and
	// [ErrCancelRequested] if the run would end other than as cancelled although its cancel
	// was requested.
	Commit(ctx context.Context, c *Commit) (*Committed, error)

	// SaveTask keeps the start or the result of a task of the run's last checkpoint. A task
	// that is done stays as it is. Errors are those of Commit; ErrConflict if the checkpoint
	// is not the run's last one.
	SaveTask(ctx context.Context, t *SaveTask) error

	// RequestCancel asks for the end of a run, whoever runs it. A run that waits for its
	// session ends at once. It does nothing to one that has ended. It returns the run as it is
	// afterwards.
	RequestCancel(ctx context.Context, tenant string, run uuid.UUID) (*Run, error)

	// Release gives up a run, so that others may claim it at once, and makes it a detached one:
	// its client is told to come back. The takeover that ends so does not count as one.
	Release(ctx context.Context, f Fence) error

	// Load reads the position that a run starts from or goes on from: a checkpoint with its
	// document, the messages of its history, and the tasks kept for it.
	Load(ctx context.Context, l *Load) (*Position, error)

	CreateSession(ctx context.Context, tenant string, session uuid.UUID) (*Session, error)
	// DeleteSession removes a session with all that belongs to it. What still runs in it can
	// write nothing afterwards.
	DeleteSession(ctx context.Context, tenant string, session uuid.UUID) error
	// CreateMessage adds a message outside any run. [ErrExists] if the session has its id.
	// It returns the message as stored, with its sequence and time.
	CreateMessage(ctx context.Context, tenant string, m *Message) (*Message, error)
	// DeleteMessage removes the most recently created message of that id from every history.
	DeleteMessage(ctx context.Context, tenant string, id uuid.UUID) error
	// Prune removes sessions that nobody used since a time, or that are too many, and in which
	// nothing runs: at most Limit of them. It returns how many it removed.
	Prune(ctx context.Context, p *Prune) (int, error)
	// Backlog counts the runs of some graphs that have not ended, for dashboards.
	Backlog(ctx context.Context, graphs []string) (*Backlog, error)

	Session(ctx context.Context, tenant string, id uuid.UUID) (*Session, error)
	Run(ctx context.Context, tenant string, id uuid.UUID) (*Run, error)
	Checkpoint(ctx context.Context, tenant string, id uuid.UUID) (*checkpoint.Checkpoint, error)
	// Message returns the most recently created message of that id in the tenant.
	Message(ctx context.Context, tenant string, id uuid.UUID) (*Message, error)

	// The lists are newest first: sessions by (created, id), the others by sequence. The three
	// of a session return a [*NotFoundError] if there is no such session.
	Sessions(ctx context.Context, q *SessionQuery) (*Page[Session], error)
	Runs(ctx context.Context, q *RunQuery) (*Page[Run], error)
	Checkpoints(ctx context.Context, q *CheckpointQuery) (*Page[checkpoint.Checkpoint], error)
	Messages(ctx context.Context, q *MessageQuery) (*Page[Message], error)

	// Close waits for writes under way and releases what the driver holds. Calls after it
	// return [ErrClosed].
	Close() error
}

// Fence is what a writer shows to prove that a run is still its own. Owner is a random id of a
// process's life, never a configured name: a restarted process is another owner.
type Fence struct {
	Tenant string
	Run    uuid.UUID
	Owner  uuid.UUID
	Epoch  int64 // raised by each takeover, 1 at first
}

// Begin is a new run. See [Store.Begin].
type Begin struct {
	// Fence of the writer. Epoch is 1; for a run that nobody executes yet it is 0, and Owner
	// [uuid.Nil], and Lease 0: who claims it first gets epoch 1.
	Fence
	Session  uuid.UUID
	Graph    string // the graph's name: only who has it may claim the run
	Attached bool   // a client holds on to it: it is not resumed when its process dies
	// Params is what the runner needs to take the run over, opaque to the store, kept until the
	// run ends.
	Params []byte
	From   From
	// Wait records the run as waiting if its session is busy, instead of refusing it. The
	// steps are not written then.
	Wait bool
	// WriteID, Steps, Tasks, Status, ErrorCode, Error and Lease are as in [Commit]. Steps may
	// be empty.
	WriteID          uuid.UUID
	Steps            []Step
	Tasks            []Task
	Status           checkpoint.Status
	ErrorCode, Error string
	Lease            time.Duration
}

// From says what a new run was built on, so that the store can tell whether that still holds.
type From struct {
	// Checkpoint is the explicit checkpoint to start from, [uuid.Nil] to continue the session.
	Checkpoint uuid.UUID
	// Head and Base are those of the session when it was loaded, zero for a new session. Base
	// is checked for every run; Head only for one that continues the session.
	Head, Base int64
}

// Begun is what became of a [Begin].
type Begun struct {
	Committed
	// Waiting: the session is busy, the run is recorded and waits for its turn.
	Waiting bool
	// Branch: the run is a branch of its own and does not make the session busy.
	Branch bool
	// Seq is the run's own sequence in the session, Base that of the session now.
	Seq, Base int64
}

// Commit is one write of a run. See [Store.Commit].
type Commit struct {
	Fence
	WriteID uuid.UUID
	After   int64 // sequence of the run's last checkpoint, zero if it has none
	Steps   []Step
	// Tasks are kept under the last of Steps, also if the run ends with it: an interrupted node
	// runs again in the run that answers. Load returns them with that checkpoint.
	Tasks []Task
	// Status of the run afterwards. A status that is not running ends the run: it gives up the
	// session, and the session's head becomes the run's last checkpoint.
	Status           checkpoint.Status
	ErrorCode, Error string
	Lease            time.Duration
}

// Step is one checkpoint with what came with it.
type Step struct {
	// Checkpoint to write. The store gives Seq, Line, Document and CreatedAt.
	Checkpoint checkpoint.Checkpoint
	// Document is the new document, nil if it is the one of the checkpoint before: of the step
	// before, of the run's last checkpoint, or of the one the run starts from.
	Document *Document
	// Messages that the checkpoint introduces. They stand before it in the sequence and are
	// stamped with it. The store gives Seq, Line and CreatedAt.
	Messages []Message
}

// Document is a JSON document, or a patch on the one before.
type Document struct {
	// Patch: Body is a JSON Patch on the document of the checkpoint before. Otherwise Body is
	// the whole document.
	Patch bool
	Body  []byte
}

// Committed is what the store gave to a write.
type Committed struct {
	// Line is the line the run writes on.
	Line int64
	// CreatedAt is the time of everything in the write.
	CreatedAt time.Time
	// Seqs are the sequences of the checkpoints, in order.
	Seqs []int64
}

// Task is the record of a task: what a node does once, however often it runs.
type Task struct {
	Key string
	// Done: Value is the result. Otherwise the task was only started.
	Done  bool
	Value []byte
}

// SaveTask keeps a task. See [Store.SaveTask].
type SaveTask struct {
	Fence
	Checkpoint int64 // sequence of the run's last checkpoint
	Task       Task
}

// Claim looks for runs to take over. See [Store.Claim].
type Claim struct {
	Owner  uuid.UUID
	Graphs []string    // only runs of these graphs
	Except []uuid.UUID // runs that this process cannot go on with
	Lease  time.Duration
	Limit  int
}

// Renew extends leases. See [Store.Renew].
type Renew struct {
	Fences []Fence
	Lease  time.Duration
}

// Renewed answers [Renew] with the runs of the call that need attention.
type Renewed struct {
	Lost    []uuid.UUID // no longer the caller's: taken over, ended, or deleted
	Cancels []uuid.UUID // somebody asked for their end
}

// Load names a position. See [Store.Load].
type Load struct {
	Tenant string
	// Session whose head is wanted, or whose Checkpoint.
	Session    uuid.UUID
	Checkpoint uuid.UUID // [uuid.Nil]: the head
	// Run, if set, asks for the last checkpoint of that run and its tasks. Of a run that has none
	// yet, for where it begins: a branch at the checkpoint it left from, others at the session's
	// head. Session and Checkpoint are not looked at.
	Run uuid.UUID
}

// Position is where a run starts or goes on. See [Store.Load].
type Position struct {
	Session Session
	Run     *Run // only if [Load.Run] was set
	// Checkpoint is nil in a session without checkpoints.
	Checkpoint *checkpoint.Checkpoint
	// Documents is the chain that makes up the document: a whole one, then the patches on it
	// in order. Empty if no document was ever written.
	Documents []Document
	// Messages of the history, by sequence.
	Messages []Message
	// Tasks kept under the checkpoint, in the order in which they were done, those that are
	// only started last.
	Tasks []Task
}

// Prune removes old sessions. See [Store.Prune]. Call it again while it removes Limit of them.
type Prune struct {
	Tenant string // empty: every tenant
	// Before: sessions go in which nothing was written since. Zero: none for that.
	Before time.Time
	// Keep: sessions go that are not among so many of their tenant which were written in last.
	// Zero: none for that.
	Keep int
	// Limit is how many go in one call, those unused for longest first. A few hundred are soon
	// done.
	Limit int
}

// Backlog is what there is to do. See [Store.Backlog].
type Backlog struct {
	Running   int // runs that have not ended, also those that wait and are unclaimed
	Waiting   int // of them, those that wait for their session
	Unclaimed int // of them, those that nobody advances: their lease has run out
	// Since is when the first of the unclaimed ones could be claimed; zero if there is none.
	Since time.Time
}

// Session is the container of a conversation (contract 1.2).
type Session struct {
	Tenant               string
	ID                   uuid.UUID
	CreatedAt, UpdatedAt time.Time
	// Head is the sequence of the checkpoint that a plain run continues from, zero if there is
	// none: the last one of the active run, else of the run that ended last (contract R42).
	Head int64
	// Base moves with every change of messages outside runs: a state in memory is stale when it
	// did. It starts at the session's creation in nanoseconds since 1970 rather than at zero,
	// so that a session deleted and created again is not taken for the old one.
	Base int64
	// Active is the run that continues the session now, [uuid.Nil] if it is idle.
	Active uuid.UUID
}

// Run is one execution in a session (contract 1.3).
type Run struct {
	Tenant               string
	ID, Session          uuid.UUID
	Graph                string
	Status               checkpoint.Status
	CreatedAt, UpdatedAt time.Time

	Seq      int64 // its place among the session's sequences
	Line     int64 // the line it writes on, zero while it waits
	Last     int64 // sequence of its last checkpoint, zero if it has none
	Attached bool
	Branch   bool
	Waiting  bool
	Params   []byte

	Owner           uuid.UUID
	Epoch           int64
	LeaseUntil      time.Time
	Takeovers       int // since it last wrote something
	CancelRequested bool

	ErrorCode, Error string // of a failed run
}

// Fence returns the fence under which the run's owner writes.
func (r *Run) Fence() Fence {
	return Fence{Tenant: r.Tenant, Run: r.ID, Owner: r.Owner, Epoch: r.Epoch}
}

// Message is a message as it is kept: what every message has, and a body that only package
// message reads.
type Message struct {
	message.Header
	Role message.Role
	Body []byte
	Seq  int64
	Line int64 // [checkpoint.Base] for a message outside any run
}

// EncodeMessage makes a record of a message.
func EncodeMessage(m message.Message) (Message, error) {
	body, err := message.EncodeBody(m)
	if err != nil {
		return Message{}, err
	}
	return Message{Header: *m.Head(), Role: m.Role(), Body: body}, nil
}

// Decode returns the message that the record holds.
func (m *Message) Decode() (message.Message, error) {
	return message.DecodeBody(m.Role, m.Header, m.Body)
}
