package a2a

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/state"
	"github.com/everstep-go/everstep/store"
)

// sent is what became of a message, as it is kept: the task that it is part of, or what the agent answered
// instead of making one.
type sent struct {
	Task    sdk.TaskID `json:"task,omitempty"`
	Context string     `json:"context,omitempty"`
	Reply   *report    `json:"reply,omitempty"`
}

// send tells the agent something and waits for what comes of it, from where an earlier attempt at the call
// left it.
func (k *call) send(in errand) (report, error) {
	m := k.message("send")
	m.TaskID, m.ContextID = sdk.TaskID(in.TaskID), in.ContextID
	if in.Message != "" {
		m.Parts = append(m.Parts, sdk.NewTextPart(in.Message))
	}
	if len(in.Data) > 0 {
		m.Parts = append(m.Parts, sdk.NewDataPart(in.Data))
	}
	if m.ContextID == "" && m.TaskID == "" {
		// A name of our own for the conversation: by it the task is found again.
		m.ContextID = hashed("a2a delegation", k.key).String()
	}
	s, err := k.deliver("send", m, "")
	if err != nil {
		return report{}, k.abandon(m, err)
	}
	if s.Reply != nil {
		return *s.Reply, nil
	}
	if in.NoWait {
		return report{TaskID: string(s.Task), ContextID: s.Context, State: stateName(sdk.TaskStateSubmitted)}, nil
	}
	return k.follow(s.Task)
}

// message returns an empty message whose id follows from the call.
func (k *call) message(part string) *sdk.Message {
	return &sdk.Message{ID: hashed("a2a message", k.key, part).String(), Role: sdk.MessageRoleUser}
}

// deliver sends a message once. What comes of it is kept: who makes the call again, after a crash or with an
// answer, has the task at once. If the process died before that was kept, the task is looked for; if there is
// none, the message is sent again, under the same id.
func (k *call) deliver(part string, m *sdk.Message, asked string) (sent, error) {
	key := k.key + ":" + part
	return graph.Task(k.ctx, key, func(ctx context.Context) (sent, error) {
		return k.dispatch(ctx, m, asked, false)
	}, &graph.TaskOptions{
		Name: k.client.toolName(part), Unique: true, AtMostOnce: true,
		Reconcile: func(ctx context.Context, _ string) (any, error) { return k.dispatch(ctx, m, asked, true) },
	})
}

// dispatch sends a message until the agent has it. Asked is the id of the message that it answers, empty for
// none.
func (k *call) dispatch(ctx context.Context, m *sdk.Message, asked string, again bool) (sent, error) {
	begin := time.Now()
	for p := k.newPatience(); ; {
		var err error
		if again {
			s, found, failed := k.find(ctx, m, asked)
			if found {
				return s, nil
			}
			err = failed
		}
		if err == nil {
			var s sent
			if s, err = k.try(ctx, m); err == nil {
				return s, nil
			}
		}
		if asked != "" && errors.Is(err, sdk.ErrInternalError) && time.Since(begin) < lateTime {
			err = sleep(ctx, firstPoll) // there are agents that take no answer before they are done with asking
		} else {
			err = p.wait(ctx, err)
		}
		if err != nil {
			return sent{}, k.client.failed(err)
		}
		again = true
	}
}

// try sends a message. If the call is given up meanwhile, the agent has a moment to say which task it has made,
// which is cancelled then.
func (k *call) try(ctx context.Context, m *sdk.Message) (sent, error) {
	ending := ctx
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ending, func() { time.AfterFunc(sendGrace, cancel) })()
	result, err := k.client.remote.SendMessage(ctx, &sdk.SendMessageRequest{
		Tenant: k.tenant, Message: m, Config: &sdk.SendMessageConfig{ReturnImmediately: true},
	})
	if err != nil {
		return sent{}, err
	}
	switch r := result.(type) {
	case *sdk.Task:
		if r.ID == "" {
			return sent{}, fault(sdk.ErrInvalidAgentResponse, "the agent answers with a task without an id")
		}
		return sent{Task: r.ID, Context: r.ContextID}, nil
	case *sdk.Message:
		reply := &report{ContextID: r.ContextID}
		reply.add(r.Parts)
		return sent{Reply: reply}, nil
	}
	return sent{}, fmt.Errorf("the agent answers with a %T", result)
}

// sendGrace is how long that moment is.
const sendGrace = 2 * time.Second

// find looks for the task that a message has led to. An agent that lists no tasks has none to be found: it
// may know a message again by its id.
func (k *call) find(ctx context.Context, m *sdk.Message, asked string) (s sent, found bool, err error) {
	if m.TaskID != "" { // a task that asked: if it has the answer, it does not ask any more
		t, err := k.get(ctx, m.TaskID)
		if err != nil {
			return sent{}, false, err
		}
		has := !resting(t.Status.State) || t.Status.State.Terminal() || messageID(t) != asked
		return sent{Task: t.ID, Context: t.ContextID}, has, nil
	}
	list, err := k.client.remote.ListTasks(ctx, &sdk.ListTasksRequest{Tenant: k.tenant, ContextID: m.ContextID, PageSize: 100})
	if err != nil {
		if passes(err) {
			return sent{}, false, err
		}
		return sent{}, false, nil
	}
	for _, t := range list.Tasks {
		if t.ContextID != m.ContextID {
			continue
		}
		for _, h := range t.History {
			if h != nil && h.ID == m.ID {
				return sent{Task: t.ID, Context: t.ContextID}, true, nil
			}
		}
		if m.ContextID == hashed("a2a delegation", k.key).String() { // which nobody else knows
			return sent{Task: t.ID, Context: t.ContextID}, true, nil
		}
	}
	return sent{}, false, nil
}

// follow waits for a task until it has ended, or asks the model if it is to be asked.
func (k *call) follow(id sdk.TaskID) (report, error) {
	var answered *sdk.Task
	for {
		t, err := k.await(id, answered)
		if err != nil {
			return report{}, k.giveUp(id, err)
		}
		r := reportOf(t)
		switch {
		case t.Status.State == sdk.TaskStateCompleted:
			return r, nil
		case t.Status.State.Terminal():
			text := r.Text
			if text == "" {
				text = "it does not say why"
			}
			return report{}, fmt.Errorf("agent %s: task %s is %s: %s", k.client.config.Name, t.ID, r.State, text)
		case k.client.config.AskModel:
			return r, nil
		}
		if err := k.answer(t); err != nil {
			return report{}, err
		}
		answered = t
	}
}

// answer has the run ask what the agent asks, and sends the answer if there is one.
func (k *call) answer(t *sdk.Task) error {
	asked := foreignQuestion{Agent: k.client.config.Name, State: t.Status.State}
	if m := t.Status.Message; m != nil {
		asked.Message, asked.Data = textOf(m.Parts), dataOf(m.Parts)
	}
	text, err := json.Marshal(asked)
	if err != nil {
		return err
	}
	// The id says what is asked, so that no answer is given to another question.
	id := hashed("a2a question", string(t.ID), messageID(t), string(text)).String()[:8]
	reply, err := graph.Interrupt[json.RawMessage](k.ctx, id, asked)
	if err != nil {
		return err
	}
	m := k.message("answer " + id)
	m.TaskID, m.ContextID = t.ID, t.ContextID
	if m.Parts, err = answerParts(reply); err != nil {
		return err
	}
	if _, err = k.deliver("answer "+id, m, messageID(t)); err != nil {
		return fmt.Errorf("task %s, which still asks: %w", t.ID, err)
	}
	return nil
}

func messageID(t *sdk.Task) string {
	if t.Status.Message == nil {
		return ""
	}
	return t.Status.Message.ID
}

// late reports whether a task still asks, or seems to, what was answered: the agent has the answer, but does not
// work on it yet. There are some that take what they asked out of the status before that.
func late(t, answered *sdk.Task) bool {
	if t.Status.State.Terminal() {
		return false
	}
	if answered == nil {
		return t.Status.Message == nil
	}
	return t.Status.Message == nil || messageID(t) == messageID(answered)
}

// lateTime is how long that may take.
const lateTime = 5 * time.Second

// await waits until the task rests, and tells of its progress on the way. Answered is the task as it asked what
// was answered last, nil if nothing was.
func (k *call) await(id sdk.TaskID, answered *sdk.Task) (*sdk.Task, error) {
	pause := firstPoll
	begin := time.Now()
	for p := k.newPatience(); ; {
		t, err := k.get(k.ctx, id)
		if err == nil {
			p.reached()
			resting := resting(t.Status.State)
			if resting && (!late(t, answered) || time.Since(begin) > lateTime) {
				return t, nil
			}
			if k.client.card.Capabilities.Streaming && !resting {
				err = k.watch(id, p)
			}
		}
		if err != nil {
			if err = p.wait(k.ctx, err); err != nil {
				return nil, err
			}
			continue
		}
		if !k.client.card.Capabilities.Streaming || resting(t.Status.State) {
			if err := sleep(k.ctx, pause); err != nil {
				return nil, err
			}
			pause = min(2*pause, lastPoll)
		}
	}
}

const (
	firstPoll = 250 * time.Millisecond
	lastPoll  = 10 * time.Second
	// getTime is how long an agent may take to say what a task is.
	getTime = 30 * time.Second
)

func (k *call) get(ctx context.Context, id sdk.TaskID) (*sdk.Task, error) {
	ctx, cancel := context.WithTimeout(ctx, getTime)
	defer cancel()
	t, err := k.client.remote.GetTask(ctx, &sdk.GetTaskRequest{Tenant: k.tenant, ID: id})
	if err == nil && (t.ID != id || t.Status.State == sdk.TaskStateUnspecified) {
		return nil, fault(sdk.ErrInvalidAgentResponse, "asked for task %q, the agent answers with task %q in the state %q", id, t.ID, t.Status.State)
	}
	return t, err
}

// watch tells of the progress of a task, until its stream ends. That the task has ended meanwhile is no
// error.
func (k *call) watch(id sdk.TaskID, p *patience) error {
	for e, err := range k.client.remote.SubscribeToTask(k.ctx, &sdk.SubscribeToTaskRequest{Tenant: k.tenant, ID: id}) {
		if errors.Is(err, sdk.ErrUnsupportedOperation) || errors.Is(err, sdk.ErrTaskNotFound) {
			return sleep(k.ctx, firstPoll) // it has ended: there are agents that have no such task then
		}
		if err != nil {
			return err
		}
		p.reached()
		k.tell(e)
		if rests(e) {
			break // there are agents that leave the stream open then
		}
	}
	return k.ctx.Err()
}

// rests reports whether an update says that its task rests.
func rests(e sdk.Event) bool {
	switch e := e.(type) {
	case *sdk.Task:
		return resting(e.Status.State)
	case *sdk.TaskStatusUpdateEvent:
		return resting(e.Status.State)
	}
	return false
}

// tell tells the client of our agent what another one does.
func (k *call) tell(e sdk.Event) {
	switch e := e.(type) {
	case *sdk.Task:
		k.activity("a2a_task", "/task_id", e.ID, "/context_id", e.ContextID, "/state", stateName(e.Status.State))
	case *sdk.TaskStatusUpdateEvent:
		text := ""
		if e.Status.Message != nil {
			text = textOf(e.Status.Message.Parts)
		}
		k.activity("a2a_task_status", "/task_id", e.TaskID, "/state", stateName(e.Status.State), "/message", text)
	case *sdk.TaskArtifactUpdateEvent:
		if e.Artifact != nil {
			k.activity("a2a_artifact", "/task_id", e.TaskID, "/artifact_id", e.Artifact.ID, "/text", textOf(e.Artifact.Parts), "/append", e.Append, "/last", e.LastChunk)
		}
	case *sdk.Message:
		k.activity("a2a_message", "/text", textOf(e.Parts))
	}
}

// activity emits a patch of pairs of a path and a value.
func (k *call) activity(kind string, pairs ...any) {
	var patch state.Patch
	for i := 0; i < len(pairs); i += 2 {
		value, err := json.Marshal(pairs[i+1])
		if err != nil {
			return // of texts and booleans: it does not happen
		}
		patch = append(patch, state.Add(pairs[i].(string), value))
	}
	react.EmitActivity(k.ctx, kind, patch)
}

// abandon takes the task along whose message may have arrived when the call was given up.
func (k *call) abandon(m *sdk.Message, err error) error {
	if m.TaskID != "" {
		return k.giveUp(m.TaskID, err)
	}
	if !k.givenUp() {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(k.ctx), cancelTime)
	defer cancel()
	s, found, finding := k.find(ctx, m, "")
	if !found {
		return errors.Join(context.Cause(k.ctx), finding)
	}
	return k.cancel(ctx, s.Task)
}

// givenUp reports whether nobody will make the call again: its run was cancelled, or it took too long.
func (k *call) givenUp() bool {
	cause := context.Cause(k.ctx)
	return cause != nil && !errors.Is(cause, graph.ErrShutdown) && !errors.Is(cause, graph.ErrProcessLost) && !errors.Is(cause, store.ErrLost)
}

// giveUp takes a task along if the call is given up.
func (k *call) giveUp(id sdk.TaskID, err error) error {
	if !k.givenUp() {
		if cause := context.Cause(k.ctx); cause != nil {
			return cause
		}
		return k.client.failed(err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(k.ctx), cancelTime)
	defer cancel()
	return k.cancel(ctx, id)
}

// cancel cancels a task, and returns why.
func (k *call) cancel(ctx context.Context, id sdk.TaskID) error {
	cause := context.Cause(k.ctx)
	_, err := k.client.remote.CancelTask(ctx, &sdk.CancelTaskRequest{Tenant: k.tenant, ID: id})
	if err != nil && !errors.Is(err, sdk.ErrTaskNotCancelable) {
		return errors.Join(cause, err)
	}
	return cause
}

// cancelTime is how long a call that is given up waits for the agent to cancel the task.
const cancelTime = 5 * time.Second

// patience is with an agent that is out of reach.
type patience struct {
	limit time.Duration
	since time.Time // when it was reached last
	pause time.Duration
}

func (k *call) newPatience() *patience {
	p := &patience{limit: k.client.config.Unreachable}
	p.reached()
	return p
}

func (p *patience) reached() { p.since, p.pause = time.Now(), firstPoll }

// wait waits before the next attempt, if what went wrong may pass; otherwise it returns that.
func (p *patience) wait(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !passes(err) {
		return err
	}
	if time.Since(p.since) >= p.limit {
		return fmt.Errorf("out of reach for %v: %w", p.limit, err)
	}
	pause := p.pause
	p.pause = min(2*p.pause, lastPoll)
	return sleep(ctx, pause)
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
