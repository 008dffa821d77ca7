package chaos

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/event"
)

// A History is all that was seen from outside, and what the database and the ledgers hold in the end.
type History struct {
	Lease, Heartbeat time.Duration
	Within           time.Duration // how soon after Healed everything has to have ended
	Healed           time.Time     // when nothing was wrong any more

	mu       sync.Mutex // guards what follows while it is recorded
	Faults   []string   // what went wrong although nobody made it
	Ops      []Op
	Heard    []Heard
	Streams  []Stream
	Troubles []Trouble

	Lines       []Line       // of the ledgers
	Rows        []Row        // what each run's row went through, in order
	Checkpoints []Checkpoint // as stored in the end, by session and sequence
	Results     []Result     // the tool messages, as stored in the end
}

// An Op is a request with its answer.
type Op struct {
	Name     string // start, attach, cancel, get, tail
	Replica  int
	Life     string // of the replica; empty if it did not run
	Run      uuid.UUID
	Attached bool
	From, To time.Time
	Code     int    // of the answer; 0: there was none
	Status   string // of the run, as the answer says
}

// Accepted reports whether the server said that the run is recorded.
func (o Op) Accepted() bool { return o.Name == "start" && (o.Code == 200 || o.Code == 202) }

// A Stream is one observer of a run, over all its connections.
type Stream struct {
	Observer int
	Run      uuid.UUID
	Whole    bool // it began with the first event, not somewhere
	GaveUp   bool // the observer went away; else it stayed for the end
}

// Heard is an event as an observer got it.
type Heard struct {
	Observer int
	Run      uuid.UUID
	Replica  int
	Opened   time.Time // the connection
	First    bool      // of the connection
	At       time.Time
	Event    event.Event
}

// Trouble is an incident as it happened.
type Trouble struct {
	Kind     Kind
	Life     string // whose; empty: everybody's
	From, To time.Time
}

// Line is one of a ledger.
type Line struct {
	Life string // who wrote it
	// After and Before are when the file was last seen without the line, and first with it.
	After, Before time.Time
	Run           uuid.UUID
	Name          string // of the call, in the run
	Once          bool
	Key           string
}

// A Row is what the row of a run was after one statement.
type Row struct {
	At                        time.Time
	Writer                    string // the life that wrote it
	Run, Session              uuid.UUID
	Status, Code              string
	Owner, WriteID            uuid.UUID
	Epoch, Last, Places       int64
	Waiting, Cancel, Attached bool
}

// Ended reports whether the run has.
func (r Row) Ended() bool { return r.Status != "running" }

// Active reports whether the run is its session's.
func (r Row) Active() bool { return !r.Ended() && !r.Waiting }

// Checkpoint is a stored one.
type Checkpoint struct {
	Session, Run, ID, Parent uuid.UUID
	Seq                      int64
}

// Result is a stored result of a tool call.
type Result struct {
	Session, Run uuid.UUID
	Call         string
	Content      string // if the call succeeded
	Error        string // if not
}

// epochOf returns which owner of its run said an event.
func epochOf(e event.Event) int64 { return (e.Seq-1)>>32 + 1 }

func (h *History) fault(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.Faults = append(h.Faults, fmt.Sprintf(format, args...))
}

func (h *History) op(o Op) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.Ops = append(h.Ops, o)
}

func (h *History) heard(e Heard) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.Heard = append(h.Heard, e)
}

func (h *History) stream(s Stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.Streams = append(h.Streams, s)
}

// begin notes that something goes wrong, until the func it returns is called.
func (h *History) begin(kind Kind, life string) (end func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := len(h.Troubles)
	h.Troubles = append(h.Troubles, Trouble{Kind: kind, Life: life, From: time.Now()})
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.Troubles[i].To = time.Now()
	}
}

// troubled returns what was wrong with a life, or with the database, at some moment of a time.
func (h *History) troubled(life string, from, to time.Time) (all []Trouble) {
	for _, t := range h.Troubles {
		if (t.Life == life || t.Life == "") && !t.From.After(to) && !t.To.Before(from) {
			all = append(all, t)
		}
	}
	return all
}

// rowsOf returns what the rows of each run went through.
func (h *History) rowsOf() map[uuid.UUID][]Row {
	runs := map[uuid.UUID][]Row{}
	for _, r := range h.Rows {
		runs[r.Run] = append(runs[r.Run], r)
	}
	return runs
}

// streams returns what each observer heard.
func (h *History) streams() map[int][]Heard {
	all := map[int][]Heard{}
	for _, e := range h.Heard {
		all[e.Observer] = append(all[e.Observer], e)
	}
	return all
}

// replicaOf returns the number of the replica that a life is one of, -1 if there is none.
func replicaOf(life string) int {
	r, _, ok := strings.Cut(strings.TrimPrefix(life, "r"), ".")
	n, err := strconv.Atoi(r)
	if err != nil || !ok {
		return -1
	}
	return n
}
