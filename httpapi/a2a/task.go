package a2a

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/uuid"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/internal/wire"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/store"
)

// task is a task as it is now: what is kept of it, and what its runs say.
//
// A task is a chain of runs. The first has its id. A run that asks something has ended; the run that
// brings the answer is another one, of the same task.
type task struct {
	server  *Server
	tenant  string
	id      uuid.UUID
	kept    taskRecord
	version int64 // of kept; zero: the run was not begun by a client of A2A
	turns   []turn
	runs    map[uuid.UUID]store.Run

	state   sdk.TaskState
	updated time.Time
	open    []item // what the client has to answer
	// pending: the last turn was accepted, but its run has not begun.
	pending bool
	// fresh: the last turn was accepted just now.
	fresh bool
}

// item is something that a client has to answer: a question of a run, or a call of a tool that only the
// client has.
type item struct {
	question *graph.Question
	call     *message.ToolCall
}

func (i item) id() string {
	if i.call != nil {
		return i.call.ID
	}
	return i.question.ID
}

// ref names the task to clients.
func (t *task) ref() sdk.TaskInfo {
	return sdk.TaskInfo{TaskID: sdk.TaskID(t.id.String()), ContextID: t.kept.Context}
}

// last returns the last turn.
func (t *task) last() *turn { return &t.turns[len(t.turns)-1] }

func notFound(id sdk.TaskID) error { return fault(sdk.ErrTaskNotFound, "task %q not found", id) }

// task returns a task as it is now. Whatever the client has no right to see does not exist.
func (s *Server) task(ctx context.Context, tenant string, id sdk.TaskID) (*task, error) {
	parsed, ok := wire.ParseUUID(string(id))
	if !ok || parsed.String() != string(id) { // ids are echoed as they came
		return nil, notFound(id)
	}
	t := &task{server: s, tenant: tenant, id: parsed}
	err := t.load(ctx)
	if errors.Is(err, store.ErrNotFound) {
		if err := t.remove(ctx); err != nil {
			return nil, err
		}
		return nil, notFound(id)
	}
	if err != nil {
		return nil, err
	}
	if was := t.kept.State; t.version != 0 && t.state != was && resting(t.state) {
		// Nobody has seen it come to rest: its clients may have to be told.
		if err := s.addWork(ctx, workItem{tenant, parsed}); err != nil {
			return nil, err
		}
		defer s.mind(workItem{tenant, parsed})
	}
	return t, t.settle(ctx)
}

// get returns a task.
func (s *Server) get(ctx context.Context, tenant string, q *sdk.GetTaskRequest) (*sdk.Task, error) {
	history := -1
	if q.HistoryLength != nil {
		if history = *q.HistoryLength; history < 0 {
			return nil, fault(sdk.ErrInvalidParams, "historyLength must not be negative")
		}
	}
	t, err := s.task(ctx, tenant, q.ID)
	if err != nil {
		return nil, err
	}
	return t.print(ctx, history, true)
}

// remove removes what is kept of a task whose session was deleted.
func (t *task) remove(ctx context.Context) error {
	var kept taskRecord
	version, err := read(ctx, t.server.records, t.tenant, taskKind, t.id.String(), &kept)
	if err != nil || version == 0 {
		return err
	}
	var w writes
	w.remove(taskKind, t.id.String(), version)
	w.relist(t.id, &kept, nil)
	for _, kind := range []string{turnKind, pushKind} {
		q := store.RecordQuery{Tenant: t.tenant, Kind: kind, Prefix: t.id.String() + "/"}
		if err := each(ctx, t.server.records, q, func(r *store.Record) error {
			w.remove(kind, r.Key, r.Version)
			return nil
		}); err != nil {
			return err
		}
	}
	if err := w.commit(ctx, t.server.records, t.tenant); !errors.Is(err, store.ErrConflict) {
		return err
	}
	return nil // somebody else is at it
}

// load reads all there is to know about the task but its messages.
func (t *task) load(ctx context.Context) (err error) {
	t.kept, t.turns, t.runs, t.open, t.pending = taskRecord{}, nil, map[uuid.UUID]store.Run{}, nil, false
	if t.version, err = read(ctx, t.server.records, t.tenant, taskKind, t.id.String(), &t.kept); err != nil {
		return err
	}
	if t.version == 0 {
		return t.foreign(ctx)
	}
	err = each(ctx, t.server.records, store.RecordQuery{Tenant: t.tenant, Kind: turnKind, Prefix: t.id.String() + "/"}, func(r *store.Record) error {
		var n turn
		if err := json.Unmarshal(r.Value, &n); err != nil {
			return fmt.Errorf("a2a: record %s %q is damaged: %w", turnKind, r.Key, err)
		}
		t.turns = append(t.turns, n)
		return nil
	})
	if err != nil {
		return err
	}
	if len(t.turns) == 0 {
		return store.ErrNotFound // it is being removed
	}
	return t.look(ctx)
}

// foreign reads a run that no client of A2A began, as the task that it would be.
func (t *task) foreign(ctx context.Context) error {
	run, err := t.server.agent.RunRecord(ctx, t.tenant, t.id)
	if err != nil {
		return err
	}
	if run.Graph != t.server.agent.Graph().Name() {
		return store.ErrNotFound
	}
	t.kept = taskRecord{Context: run.Session.String(), Session: run.Session, State: sdk.TaskStateWorking, Updated: run.CreatedAt}
	t.turns = []turn{{Run: run.ID}}
	return t.look(ctx)
}

// look finds out what the task is now.
func (t *task) look(ctx context.Context) error {
	if err := t.loadRuns(ctx); err != nil {
		return err
	}
	run, begun := t.runs[t.last().Run]
	for begun && run.Status.Ended() && !t.kept.State.Terminal() {
		open, err := t.unanswered(ctx, &run)
		if err != nil {
			return err
		}
		if t.open = open; len(open) == 0 {
			break
		}
		// Somebody else may have gone on with it.
		next, moved, err := t.successor(ctx, &run)
		if err != nil {
			return err
		}
		if !moved {
			break
		}
		t.open = nil
		if next == nil { // or have left it
			if run.Status == checkpoint.Interrupted {
				t.kept.Cancelled = true
			}
			break
		}
		if err := t.adopt(ctx, next); err != nil {
			return err
		}
		run = *next
	}
	t.conclude(run, begun)
	return nil
}

func (t *task) loadRuns(ctx context.Context) error {
	ids := make([]uuid.UUID, len(t.turns))
	for i := range t.turns {
		ids[i] = t.turns[i].Run
	}
	for part := range slices.Chunk(ids, store.MaxPerPage) {
		page, err := t.server.agent.Runs(ctx, store.RunQuery{Tenant: t.tenant, Session: t.kept.Session, IDs: part})
		if errors.Is(err, store.ErrNotFound) {
			break // no run has begun, or the session was deleted
		}
		if err != nil {
			return err
		}
		for _, r := range page.Items {
			t.runs[r.ID] = r
		}
	}
	if _, ok := t.runs[t.turns[0].Run]; !ok && t.kept.State != sdk.TaskStateSubmitted {
		return store.ErrNotFound // it had begun, so it was deleted
	}
	return nil
}

// unanswered returns what a run that has ended left for the client to answer.
func (t *task) unanswered(ctx context.Context, run *store.Run) ([]item, error) {
	switch run.Status {
	case checkpoint.Interrupted:
		last, err := t.server.checkpoint(ctx, t.tenant, run)
		if err != nil || last == nil {
			return nil, err
		}
		var open []item
		for _, q := range graph.Questions(last) {
			open = append(open, item{question: &q})
		}
		return open, nil
	case checkpoint.Completed:
		return t.openCalls(ctx, run)
	}
	return nil, nil
}

// openCalls returns the calls of the last reply of a run that have no result: those are the client's.
func (t *task) openCalls(ctx context.Context, run *store.Run) ([]item, error) {
	page, err := t.server.agent.Messages(ctx, store.MessageQuery{
		Tenant: t.tenant, Session: run.Session, Runs: []uuid.UUID{run.ID},
		Roles: []message.Role{message.RoleAssistant}, Paging: store.Paging{PerPage: 1},
	})
	if err != nil || len(page.Items) == 0 {
		return nil, err
	}
	reply, ok := page.Items[0].(*message.Assistant)
	if !ok || len(reply.ToolCalls) == 0 {
		return nil, nil
	}
	results, err := t.server.agent.Messages(ctx, store.MessageQuery{
		Tenant: t.tenant, Session: run.Session, Runs: []uuid.UUID{run.ID}, Roles: []message.Role{message.RoleTool},
	})
	if err != nil {
		return nil, err
	}
	var open []item
	for _, call := range reply.ToolCalls {
		if !slices.ContainsFunc(results.Items, func(m message.Message) bool { return isResult(m, call.ID) }) {
			open = append(open, item{call: &call})
		}
	}
	return open, nil
}

func isResult(m message.Message, callID string) bool {
	r, ok := m.(*message.Tool)
	return ok && r.ToolCallID == callID
}

// successor returns the run that went on from where a run left its questions, if the session has moved
// on. Nil: the session has, but left them unanswered.
func (t *task) successor(ctx context.Context, run *store.Run) (next *store.Run, moved bool, err error) {
	session, err := t.server.agent.Session(ctx, t.tenant, run.Session)
	if err != nil || session.Head == run.Last {
		return nil, false, err
	}
	query := store.RunQuery{Tenant: t.tenant, Session: run.Session}
	for {
		page, err := t.server.agent.Runs(ctx, query)
		if err != nil {
			return nil, false, err
		}
		for _, r := range page.Items {
			if r.Seq > run.Seq && !r.Branch && !r.Waiting {
				next = &r // in the end the first one
			}
		}
		if n := len(page.Items); page.Next == "" || n == 0 || page.Items[n-1].Seq <= run.Seq {
			break
		}
		query.Page = page.Next
	}
	if next == nil {
		return nil, false, nil
	}
	goesOn, err := t.goesOn(ctx, next)
	if err != nil || !goesOn {
		return nil, err == nil, err
	}
	return next, true, nil
}

// goesOn reports whether a run brought answers to what is open: it begins where they were asked, or
// brings results of calls.
func (t *task) goesOn(ctx context.Context, run *store.Run) (bool, error) {
	page, err := t.server.agent.Checkpoints(ctx, store.CheckpointQuery{
		Tenant: t.tenant, Session: run.Session, Runs: []uuid.UUID{run.ID}, Reasons: []checkpoint.Reason{checkpoint.Input},
	})
	if err != nil || len(page.Items) == 0 {
		return false, err
	}
	first := page.Items[0]
	if first.Node == "call_tools" {
		return true, nil
	}
	results, err := t.server.agent.Messages(ctx, store.MessageQuery{
		Tenant: t.tenant, Session: run.Session, Checkpoints: []uuid.UUID{first.ID}, Roles: []message.Role{message.RoleTool},
	})
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(results.Items, func(m message.Message) bool {
		r, ok := m.(*message.Tool)
		return ok && r.Error != notAnswered && slices.ContainsFunc(t.open, func(i item) bool {
			return i.id() == r.ToolCallID || strings.HasPrefix(i.id(), r.ToolCallID+":")
		})
	}), nil
}

// notAnswered is the error of results that were made up because nobody answered (contract R16).
const notAnswered = "not answered"

// adopt makes a run of somebody else the next one of the task.
func (t *task) adopt(ctx context.Context, run *store.Run) error {
	next := turn{Run: run.ID}
	t.turns = append(t.turns, next)
	t.runs[run.ID] = *run
	if t.version == 0 {
		return nil
	}
	var w writes
	w.put(turnKind, turnKey(t.id, len(t.turns)-1), 0, next)
	err := w.commit(ctx, t.server.records, t.tenant)
	if errors.Is(err, store.ErrConflict) {
		return nil // somebody was faster
	}
	return err
}

// conclude derives the state of the task from its last run.
func (t *task) conclude(run store.Run, begun bool) {
	t.updated = t.kept.Updated
	if begun {
		t.updated = run.UpdatedAt
	}
	switch {
	case t.kept.State.Terminal():
		t.state, t.updated = t.kept.State, t.kept.Updated
	case !begun && len(t.turns) == 1:
		t.state, t.pending = sdk.TaskStateSubmitted, true
	case !begun:
		t.state, t.pending = sdk.TaskStateWorking, true
	case run.Status == checkpoint.Running && run.Waiting:
		t.state = sdk.TaskStateSubmitted
	case run.Status == checkpoint.Running:
		t.state = sdk.TaskStateWorking
	case t.kept.Cancelled: // just now
		t.state, t.updated = sdk.TaskStateCanceled, time.Now().UTC()
	case len(t.open) > 0 && slices.ContainsFunc(t.open, wantsAuthorization):
		t.state = sdk.TaskStateAuthRequired
	case len(t.open) > 0:
		t.state = sdk.TaskStateInputRequired
	default:
		t.state = ended[run.Status]
	}
}

var ended = map[checkpoint.Status]sdk.TaskState{
	checkpoint.Completed:   sdk.TaskStateCompleted,
	checkpoint.Failed:      sdk.TaskStateFailed,
	checkpoint.Cancelled:   sdk.TaskStateCanceled,
	checkpoint.Interrupted: sdk.TaskStateInputRequired,
}

// resting reports whether nothing happens to a task in that state until somebody does something.
func resting(s sdk.TaskState) bool {
	return s.Terminal() || s == sdk.TaskStateInputRequired || s == sdk.TaskStateAuthRequired
}

// settle lists the task under what it is now.
func (t *task) settle(ctx context.Context) error {
	for t.version != 0 && (t.state != t.kept.State || t.updated.After(t.kept.Updated)) {
		now := t.kept
		now.State, now.Updated = t.state, t.updated
		if !now.Updated.After(t.kept.Updated) {
			now.Updated = t.kept.Updated.Add(1) // it is listed under its time, once
		}
		var w writes
		w.put(taskKind, t.id.String(), t.version, now)
		w.relist(t.id, &t.kept, &now)
		err := w.commit(ctx, t.server.records, t.tenant)
		if err == nil {
			t.kept, t.version, t.updated = now, t.version+1, now.Updated
			return nil
		}
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
		if err := t.load(ctx); err != nil {
			return err
		}
	}
	return nil
}

// checkpoint returns the last checkpoint of a run, nil if it has none.
func (s *Server) checkpoint(ctx context.Context, tenant string, run *store.Run) (*checkpoint.Checkpoint, error) {
	page, err := s.agent.Checkpoints(ctx, store.CheckpointQuery{
		Tenant: tenant, Session: run.Session, Runs: []uuid.UUID{run.ID}, Paging: store.Paging{PerPage: 1},
	})
	if err != nil || len(page.Items) == 0 {
		return nil, err
	}
	return &page.Items[0], nil
}

// print makes what clients are told of the task. A negative history is all of it.
func (t *task) print(ctx context.Context, history int, artifacts bool) (*sdk.Task, error) {
	out := &sdk.Task{ID: t.ref().TaskID, ContextID: t.kept.Context, Status: t.status()}
	if history != 0 {
		out.History = t.history()
		out.History = out.History[max(0, len(out.History)-cmp.Or(max(history, 0), len(out.History))):]
	}
	if !artifacts {
		return out, nil
	}
	byRun, err := t.artifacts(ctx)
	for _, list := range byRun {
		out.Artifacts = append(out.Artifacts, list...)
	}
	return out, err
}

// status is what the task is now, with what a person should be told of it.
func (t *task) status() sdk.TaskStatus {
	updated := t.updated.UTC().Truncate(time.Millisecond)
	status := sdk.TaskStatus{State: t.state, Timestamp: &updated}
	run := t.runs[t.last().Run]
	switch {
	case len(t.open) > 0 && resting(t.state) && !t.state.Terminal():
		status.Message = t.say(asking(t.open)...)
	case t.state == sdk.TaskStateFailed:
		status.Message = t.say(sdk.NewTextPart(fmt.Sprintf("%s (%s)", run.Error, run.ErrorCode)))
	}
	return status
}

// say makes a message of the agent about its last turn.
func (t *task) say(parts ...*sdk.Part) *sdk.Message {
	return &sdk.Message{
		ID: hashed("a2a status", t.last().Run.String()).String(), TaskID: t.ref().TaskID, ContextID: t.kept.Context,
		Role: sdk.MessageRoleAgent, Parts: parts,
	}
}

// history returns what was said to the agent, and what it asked in between.
func (t *task) history() []*sdk.Message {
	var all []*sdk.Message
	for _, n := range t.turns {
		if n.Asked != nil {
			all = append(all, n.Asked)
		}
		if n.Message != nil {
			all = append(all, &n.Message.Message)
		}
	}
	return all
}

// artifacts returns what the agent made, by run: one artifact for each of its texts, and what the
// context is in the end.
func (t *task) artifacts(ctx context.Context) ([][]*sdk.Artifact, error) {
	texts, err := t.texts(ctx)
	if err != nil {
		return nil, err
	}
	var byRun [][]*sdk.Artifact
	number := 0
	for _, n := range t.turns {
		var list []*sdk.Artifact
		for _, text := range texts[n.Run] {
			number++
			list = append(list, textArtifact(number, text))
		}
		byRun = append(byRun, list)
	}
	final, err := t.context(ctx)
	if final != nil {
		last := len(byRun) - 1
		byRun[last] = append(byRun[last], final)
	}
	return byRun, err
}

// texts returns what the agent said, in order, by run.
func (t *task) texts(ctx context.Context) (map[uuid.UUID][]string, error) {
	all := map[uuid.UUID][]string{}
	if len(t.runs) == 0 {
		return all, nil
	}
	runs := slices.Collect(maps.Keys(t.runs))
	query := store.MessageQuery{
		Tenant: t.tenant, Session: t.kept.Session, Runs: runs, Roles: []message.Role{message.RoleAssistant},
	}
	for {
		page, err := t.server.agent.Messages(ctx, query)
		if errors.Is(err, store.ErrNotFound) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		for _, m := range page.Items {
			if a, ok := m.(*message.Assistant); ok && a.Content != "" {
				all[a.RunID] = append(all[a.RunID], a.Content)
			}
		}
		if page.Next == "" {
			break
		}
		query.Page = page.Next
	}
	for _, list := range all {
		slices.Reverse(list)
	}
	return all, nil
}

// context returns the artifact with the context that the last run left, nil if there is nothing in it.
func (t *task) context(ctx context.Context) (*sdk.Artifact, error) {
	run, ok := t.runs[t.last().Run]
	if !ok || !run.Status.Ended() {
		return nil, nil
	}
	last, err := t.server.checkpoint(ctx, t.tenant, &run)
	if err != nil || last == nil {
		return nil, err
	}
	_, state, err := t.server.agent.Checkpoint(ctx, t.tenant, last.ID)
	if err != nil {
		return nil, err
	}
	return contextArtifact(state.Context), nil
}
