package a2a

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/uuid"

	"github.com/everstep-go/everstep/store"
)

// The kinds of records, of each agent. All are the tenant's own but for those of the work.
const (
	taskKind    = "a2a.task"    // a taskRecord under the id of the task
	turnKind    = "a2a.turn"    // a turn under the id of the task and its number
	listKind    = "a2a.list"    // a listed under its time and the id of the task
	contextKind = "a2a.context" // the same, under a hash of the context before that
	pushKind    = "a2a.push"    // a pushRecord under the id of the task and its own
	workKind    = "a2a.work"    // a workRecord under the id of the task and the tenant
)

// workTenant has the records of what is still to be done, of all tenants: who takes up what a dead
// process left knows none of them.
const workTenant = "everstep.a2a"

// scoped is the records of one agent of those that share a store: only its own servers see to its tasks.
type scoped struct {
	store.Records
	agent string
}

func (s scoped) kind(kind string) string { return kind + ":" + s.agent }

// Record implements store.Records.
func (s scoped) Record(ctx context.Context, tenant, kind, key string) (*store.Record, error) {
	return s.Records.Record(ctx, tenant, s.kind(kind), key)
}

// ListRecords implements store.Records.
func (s scoped) ListRecords(ctx context.Context, q *store.RecordQuery) ([]store.Record, error) {
	own := *q
	own.Kind = s.kind(q.Kind)
	return s.Records.ListRecords(ctx, &own)
}

// WriteRecords implements store.Records.
func (s scoped) WriteRecords(ctx context.Context, tenant string, writes []store.RecordWrite) error {
	own := slices.Clone(writes)
	for i := range own {
		own[i].Kind = s.kind(own[i].Kind)
	}
	return s.Records.WriteRecords(ctx, tenant, own)
}

// taskRecord is what is kept of a task besides its runs.
type taskRecord struct {
	Context string    `json:"context"` // as the client spelled it
	Session uuid.UUID `json:"session"`
	// State and Updated are what the task is listed under. What it is now, its runs say.
	State   sdk.TaskState `json:"state"`
	Updated time.Time     `json:"updated"`
	// Cancelled: it was cancelled while no run of it was under way.
	Cancelled bool `json:"cancelled,omitempty"`
}

// turn is one message to a task, and the run that it led to. The record is the acceptance: whoever
// finds a turn without its run starts that.
type turn struct {
	Run uuid.UUID `json:"run"`
	// Message as it was received. Nil: the run was not begun by a client of A2A.
	Message *received `json:"message,omitempty"`
	// Hash of what was received: a message that is sent again is known by it.
	Hash string `json:"hash,omitempty"`
	// Asked is the status message that the turn answers.
	Asked *sdk.Message `json:"asked,omitempty"`
	// Resume and Results are what the run is started with if it answers something.
	Resume  json.RawMessage            `json:"resume,omitempty"`
	Results map[string]json.RawMessage `json:"results,omitempty"`
}

// listed is what the lists filter by.
type listed struct {
	Context string        `json:"context"`
	State   sdk.TaskState `json:"state"`
	Updated time.Time     `json:"updated"`
}

// workRecord says that there is something to do for a task.
type workRecord struct {
	Since time.Time `json:"since"`
}

func turnKey(task uuid.UUID, n int) string         { return fmt.Sprintf("%s/%06d", task, n) }
func pushKey(task uuid.UUID, id string) string     { return task.String() + "/" + id }
func workKey(tenant string, task uuid.UUID) string { return task.String() + "/" + tenant }

// listKey orders tasks by the time of their last update. Times before 1970 do not occur.
func listKey(updated time.Time, task uuid.UUID) string {
	return fmt.Sprintf("%020d/%s", max(updated.UnixNano(), 0), task)
}

// contextPrefix is what the keys of a context begin with: a context may be named by any text.
func contextPrefix(contextID string) string {
	sum := sha256.Sum256([]byte(contextID))
	return hex.EncodeToString(sum[:16]) + "/"
}

// write makes a write of a record, which must have the version, zero for none.
func write(kind, key string, version int64, value any) (store.RecordWrite, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return store.RecordWrite{}, fmt.Errorf("a2a: record %s %q: %w", kind, key, err)
	}
	return store.RecordWrite{Kind: kind, Key: key, Version: version, Value: text}, nil
}

// writes collects writes, and the first error of them.
type writes struct {
	list []store.RecordWrite
	err  error
}

func (w *writes) put(kind, key string, version int64, value any) {
	one, err := write(kind, key, version, value)
	w.list, w.err = append(w.list, one), errors.Join(w.err, err)
}

func (w *writes) remove(kind, key string, version int64) {
	w.list = append(w.list, store.RecordWrite{Kind: kind, Key: key, Version: version, Delete: true})
}

// relist moves a task in the lists to where it belongs now. The records of lists are never
// rewritten: their version is 1.
func (w *writes) relist(id uuid.UUID, from *taskRecord, to *taskRecord) {
	if from != nil {
		w.remove(listKind, listKey(from.Updated, id), 1)
		w.remove(contextKind, contextPrefix(from.Context)+listKey(from.Updated, id), 1)
	}
	if to != nil {
		entry := listed{to.Context, to.State, to.Updated}
		w.put(listKind, listKey(to.Updated, id), 0, entry)
		w.put(contextKind, contextPrefix(to.Context)+listKey(to.Updated, id), 0, entry)
	}
}

func (w *writes) commit(ctx context.Context, records store.Records, tenant string) error {
	if w.err != nil || len(w.list) == 0 {
		return w.err
	}
	return records.WriteRecords(ctx, tenant, w.list)
}

// read reads a record into value, and returns its version, zero if there is none.
func read(ctx context.Context, records store.Records, tenant, kind, key string, value any) (int64, error) {
	r, err := records.Record(ctx, tenant, kind, key)
	if errors.Is(err, store.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if err := json.Unmarshal(r.Value, value); err != nil {
		return 0, fmt.Errorf("a2a: record %s %q is damaged: %w", kind, key, err)
	}
	return r.Version, nil
}

// each calls f with all records of a query in turn, until it returns an error.
func each(ctx context.Context, records store.Records, q store.RecordQuery, f func(r *store.Record) error) error {
	const page = 1000
	q.Limit = page
	for {
		list, err := records.ListRecords(ctx, &q)
		if err != nil {
			return err
		}
		for i := range list {
			if err := f(&list[i]); err != nil {
				return err
			}
			q.After = list[i].Key
		}
		if len(list) < page {
			return nil
		}
	}
}

// hashed returns an id that follows from texts. It is of version 4 like those of runs, and as good as
// random if the texts are.
func hashed(parts ...string) uuid.UUID {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	id := uuid.UUID(h.Sum(nil)[:16])
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id
}
