package a2a

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/uuid"

	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/internal/wire"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/store"
)

// sendRequest is the SDK's SendMessageRequest, with the message as it was spelled.
type sendRequest struct {
	Tenant  string                 `json:"tenant"`
	Message *received              `json:"message"`
	Config  *sdk.SendMessageConfig `json:"configuration"`
}

// acceptTime is how long a message may take to be accepted, also when its sender is gone by then.
const acceptTime = 30 * time.Second

// send accepts a message and returns the task when it rests, or at once if the client wants that.
func (s *Server) send(ctx context.Context, tenant string, req *sendRequest) (*sdk.Task, error) {
	t, err := s.accept(ctx, tenant, req)
	if err != nil {
		return nil, err
	}
	history := -1
	if c := req.Config; c != nil && c.HistoryLength != nil {
		history = *c.HistoryLength
	}
	if req.Config == nil || !req.Config.ReturnImmediately {
		if err := t.rest(ctx); err != nil {
			return nil, err
		}
	}
	return t.print(ctx, history, true)
}

// stream accepts a message and returns the updates of its task until it rests.
func (s *Server) stream(ctx context.Context, tenant string, req *sendRequest) (iter.Seq2[sdk.Event, error], error) {
	t, err := s.accept(ctx, tenant, req)
	if err != nil {
		return nil, err
	}
	return t.follow(ctx), nil
}

// accept makes a message part of a task, and starts the run for it. What was accepted is done, whatever
// dies; a message that is sent again is the same.
func (s *Server) accept(ctx context.Context, tenant string, req *sendRequest) (t *task, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), acceptTime)
	defer cancel()
	if req.Message == nil {
		return nil, checkMessage(nil)
	}
	if err := checkMessage(&req.Message.Message); err != nil {
		return nil, err
	}
	var push *sdk.PushConfig
	if req.Config != nil {
		if n := req.Config.HistoryLength; n != nil && *n < 0 {
			return nil, fault(sdk.ErrInvalidParams, "configuration.historyLength must not be negative")
		}
		if push = req.Config.PushConfig; push != nil {
			if err := s.checkPush(push); err != nil {
				return nil, err
			}
		}
	}
	if req.Message.TaskID == "" {
		t, err = s.begin(ctx, tenant, req.Message, push)
	} else {
		t, err = s.resume(ctx, tenant, req.Message, push)
	}
	if err != nil {
		return nil, err
	}
	s.mind(workItem{t.tenant, t.id})
	return t, nil
}

// begin makes a task of a message.
func (s *Server) begin(ctx context.Context, tenant string, m *received, push *sdk.PushConfig) (*task, error) {
	hash, err := hashOf(&m.Message)
	if err != nil {
		return nil, err
	}
	// The ids follow from the message, so that it is recognized when it is sent again.
	id := hashed("a2a task", tenant, hash)
	if m.ContextID == "" {
		m.ContextID = hashed("a2a context", tenant, hash).String()
	}
	m.TaskID = sdk.TaskID(id.String())
	for {
		t := &task{
			server: s, tenant: tenant, id: id, runs: map[uuid.UUID]store.Run{},
			kept: taskRecord{
				Context: m.ContextID, Session: sessionOf(m.ContextID),
				State: sdk.TaskStateSubmitted, Updated: time.Now().UTC(),
			},
			turns: []turn{{Run: id, Message: m, Hash: hash}},
		}
		if _, err := s.inputOf(&m.Message); err != nil { // before anything is written
			return nil, err
		}
		err := t.create(ctx, push)
		if err == nil {
			return t, t.start(ctx)
		}
		if !errors.Is(err, store.ErrConflict) {
			return nil, err
		}
		if t, err = s.again(ctx, t); !errors.Is(err, store.ErrNotFound) {
			return t, err
		}
		if err := t.remove(ctx); err != nil { // of a session that was deleted
			return nil, err
		}
	}
}

// create writes a new task.
func (t *task) create(ctx context.Context, push *sdk.PushConfig) error {
	var w writes
	w.put(taskKind, t.id.String(), 0, t.kept)
	w.put(turnKind, turnKey(t.id, 0), 0, t.turns[0])
	w.relist(t.id, nil, &t.kept)
	if err := t.addPush(ctx, &w, push, 0); err != nil {
		return err
	}
	if err := t.server.addWork(ctx, workItem{t.tenant, t.id}); err != nil {
		return err
	}
	if err := w.commit(ctx, t.server.records, t.tenant); err != nil {
		return err
	}
	t.version, t.fresh = 1, true
	return nil
}

// again returns the task of a message that was sent before.
func (s *Server) again(ctx context.Context, t *task) (*task, error) {
	if err := t.load(ctx); err != nil {
		return t, err
	}
	if t.pending {
		return t, t.start(ctx)
	}
	return t, nil
}

// resume makes a message the answer to what a task asked.
func (s *Server) resume(ctx context.Context, tenant string, m *received, push *sdk.PushConfig) (*task, error) {
	t, err := s.task(ctx, tenant, m.TaskID)
	if err != nil {
		return nil, err
	}
	if m.ContextID != "" && m.ContextID != t.kept.Context {
		return nil, fault(sdk.ErrInvalidParams, "message.contextId is not that of task %s: leave it out, or send %q", t.id, t.kept.Context)
	}
	m.ContextID = t.kept.Context
	hash, err := hashOf(&m.Message)
	if err != nil {
		return nil, err
	}
	for i := range t.turns {
		if t.turns[i].Hash == hash {
			return s.again(ctx, t)
		}
	}
	switch {
	case t.state.Terminal():
		return nil, fault(sdk.ErrUnsupportedOperation, "task %s has ended (%s): send a message with its contextId and without its taskId to go on with the conversation", t.id, t.state)
	case !resting(t.state):
		return nil, fault(sdk.ErrUnsupportedOperation, "task %s takes no message while it works: wait until it asks, or send one without its taskId", t.id)
	}
	next := turn{Run: hashed("a2a turn", t.id.String(), hash), Message: m, Hash: hash, Asked: t.status().Message}
	if err := next.answer(t.open, &m.Message); err != nil {
		return nil, err
	}
	var w writes
	if t.version == 0 { // of somebody else, until now
		w.put(taskKind, t.id.String(), 0, t.kept)
		w.relist(t.id, nil, &t.kept)
		for i := range t.turns {
			w.put(turnKind, turnKey(t.id, i), 0, t.turns[i])
		}
	}
	rests := len(t.rests())
	t.turns = append(t.turns, next)
	w.put(turnKind, turnKey(t.id, len(t.turns)-1), 0, next)
	if err := t.addPush(ctx, &w, push, rests); err != nil {
		return nil, err
	}
	if err := s.addWork(ctx, workItem{tenant, t.id}); err != nil {
		return nil, err
	}
	err = w.commit(ctx, s.records, tenant)
	if errors.Is(err, store.ErrConflict) {
		return s.resume(ctx, tenant, m, push) // somebody was faster
	}
	if err != nil {
		return nil, err
	}
	t.version, t.fresh = max(t.version, 1), true
	return t, t.start(ctx)
}

// input is what the last turn's run is started with. It follows from the turn: whoever starts it starts
// the same.
func (t *task) input() (in react.Input, err error) {
	n := t.last()
	if len(t.turns) == 1 {
		if in, err = t.server.inputOf(&n.Message.Message); err != nil {
			return in, err
		}
		in.Messages[0].Head().ID = hashed("a2a message", n.Run.String())
	}
	in.Tenant, in.Session, in.Run, in.Resume = t.tenant, t.kept.Session, n.Run, n.Resume
	in.OnBusy = t.server.opts.OnBusy
	for id, value := range n.Results {
		text := string(value)
		if plain, ok := plainText(value); ok {
			text = plain
		}
		result := message.NewTool(id, text)
		result.ID = hashed("a2a result", n.Run.String(), id)
		in.Messages = append(in.Messages, result)
	}
	return in, nil
}

// start begins the run of the last turn. If it is refused for good, the turn is taken back.
func (t *task) start(ctx context.Context) error {
	in, err := t.input()
	if err != nil {
		return errors.Join(err, t.takeBack(ctx))
	}
	_, err = t.server.agent.Start(ctx, in)
	switch {
	case err == nil, errors.Is(err, store.ErrExists):
		return t.refresh(ctx)
	case refused(err):
		return errors.Join(known(err), t.takeBack(ctx))
	}
	return err
}

// refused reports whether starting a run again would be refused again.
func refused(err error) bool {
	_, input := errors.AsType[*react.InputError](err)
	_, resume := errors.AsType[*graph.ResumeError](err)
	return input || resume || errors.Is(err, store.ErrBusy)
}

// refresh reads what became of the last turn's run.
func (t *task) refresh(ctx context.Context) error {
	t.open, t.pending = nil, false
	return t.look(ctx)
}

// takeBack removes the last turn, and with the first one the task.
func (t *task) takeBack(ctx context.Context) error {
	n := len(t.turns) - 1
	var w writes
	w.remove(turnKind, turnKey(t.id, n), 1)
	if n == 0 {
		w.remove(taskKind, t.id.String(), t.version)
		w.relist(t.id, &t.kept, nil)
		if err := t.dropPushes(ctx, &w); err != nil {
			return err
		}
	}
	err := w.commit(ctx, t.server.records, t.tenant)
	if errors.Is(err, store.ErrConflict) {
		return nil // somebody was faster
	}
	return err
}

// rest waits until nothing happens to the task until somebody does something.
func (t *task) rest(ctx context.Context) error {
	for !resting(t.state) {
		run, err := t.run(ctx)
		if err != nil {
			return err
		}
		_, err = run.Wait(ctx) // how the run ended is read below; why this process could not see it end is said here
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if loading := t.load(ctx); loading != nil {
			return loading
		}
		if run.ID() == t.last().Run && !resting(t.state) && err != nil {
			return err
		}
	}
	return t.settle(ctx)
}

// run returns the run of the last turn, and starts it if whoever accepted the turn has not.
func (t *task) run(ctx context.Context) (*graph.Run[react.State], error) {
	for {
		run, err := t.server.agent.Attach(ctx, t.tenant, t.last().Run)
		if !errors.Is(err, store.ErrNotFound) {
			return run, err
		}
		if err := t.load(ctx); err != nil {
			return nil, err
		}
		if t.pending {
			if err := t.start(ctx); err != nil {
				return nil, err
			}
		}
	}
}

// cancel ends a task.
func (s *Server) cancel(ctx context.Context, tenant string, id sdk.TaskID) (*sdk.Task, error) {
	t, err := s.task(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	if t.state == sdk.TaskStateCanceled {
		return nil, fault(sdk.ErrTaskNotCancelable, "task %s was canceled before", t.id)
	}
	for {
		switch {
		case t.state == sdk.TaskStateCanceled:
			return t.print(ctx, -1, true)
		case t.state.Terminal():
			return nil, fault(sdk.ErrTaskNotCancelable, "task %s has ended (%s)", t.id, t.state)
		case resting(t.state):
			err = t.giveUp(ctx)
		default:
			err = t.cancelRun(ctx)
		}
		if err != nil {
			return nil, err
		}
	}
}

// cancelRun ends the run that is under way.
func (t *task) cancelRun(ctx context.Context) error {
	if _, err := t.run(ctx); err != nil {
		return err
	}
	if err := t.server.agent.Cancel(ctx, t.tenant, t.last().Run); err != nil {
		return err
	}
	return t.rest(ctx)
}

// giveUp cancels a task that waits for an answer.
func (t *task) giveUp(ctx context.Context) error {
	now := t.kept
	now.State, now.Updated, now.Cancelled = sdk.TaskStateCanceled, time.Now().UTC(), true
	var w writes
	w.put(taskKind, t.id.String(), t.version, now)
	if t.version == 0 {
		w.relist(t.id, nil, &now)
		for i := range t.turns {
			w.put(turnKind, turnKey(t.id, i), 0, t.turns[i])
		}
	} else {
		w.relist(t.id, &t.kept, &now)
	}
	if err := t.server.addWork(ctx, workItem{t.tenant, t.id}); err != nil {
		return err
	}
	err := w.commit(ctx, t.server.records, t.tenant)
	if err != nil && !errors.Is(err, store.ErrConflict) {
		return err
	}
	t.server.mind(workItem{t.tenant, t.id})
	return t.load(ctx)
}

// plainText returns the text that a JSON value is.
func plainText(value []byte) (text string, ok bool) {
	if clean, err := wire.Clean(value); err != nil || clean[0] != '"' {
		return "", false
	}
	return text, json.Unmarshal(value, &text) == nil
}
