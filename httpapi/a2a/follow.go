package a2a

import (
	"context"
	"iter"
	"maps"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/uuid"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
)

// subscribe returns the updates of a task that has not ended, until it rests.
func (s *Server) subscribe(ctx context.Context, tenant string, id sdk.TaskID) (iter.Seq2[sdk.Event, error], error) {
	t, err := s.task(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	if t.state.Terminal() {
		return nil, fault(sdk.ErrUnsupportedOperation, "task %s has ended (%s): there is nothing to subscribe to; get it instead", t.id, t.state)
	}
	return t.follow(ctx), nil
}

// follow returns the task as it is now, and its updates from there on until it rests. The texts of the
// run that is under way are told from their beginning.
func (t *task) follow(ctx context.Context) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		if err := t.tell(ctx, func(e sdk.Event) bool { return yield(e, nil) }); err != nil {
			yield(nil, err)
		}
	}
}

// tell says what happens until the task rests or nobody listens any more.
func (t *task) tell(ctx context.Context, say func(sdk.Event) bool) error {
	working := t.state == sdk.TaskStateWorking
	now, err := t.print(ctx, -1, true)
	if t.fresh && err == nil {
		now, err = t.accepted(ctx)
		working = len(t.turns) > 1
	}
	if err != nil || !say(now) {
		return err
	}
	for t.fresh || !resting(t.state) {
		run, err := t.run(ctx)
		if err != nil {
			return err
		}
		n := &narrator{task: t, run: run.ID(), say: say, working: working}
		if before := t.turns[:len(t.turns)-1]; len(before) > 0 {
			texts, err := t.texts(ctx)
			if err != nil {
				return err
			}
			for _, b := range before {
				n.before += len(texts[b.Run])
			}
			n.done = n.before
		}
		if more, err := n.narrate(ctx, run); err != nil || !more {
			return err
		}
		if err := t.load(ctx); err != nil {
			return err
		}
		working, t.fresh = t.state == sdk.TaskStateWorking, false
	}
	if err := t.settle(ctx); err != nil {
		return err
	}
	status := t.status()
	say(&sdk.TaskStatusUpdateEvent{TaskID: t.ref().TaskID, ContextID: t.kept.Context, Status: status})
	return nil
}

// accepted is the task as it was when its last turn was accepted: however fast the run is, a client that
// streams hears all of it.
func (t *task) accepted(ctx context.Context) (*sdk.Task, error) {
	then := &task{
		server: t.server, tenant: t.tenant, id: t.id, kept: t.kept, turns: t.turns, runs: maps.Clone(t.runs),
		state: sdk.TaskStateSubmitted, updated: t.kept.Updated,
	}
	delete(then.runs, t.last().Run)
	if len(t.turns) > 1 {
		then.state = sdk.TaskStateWorking
	}
	return then.print(ctx, -1, true)
}

// narrator tells the events of one run as updates of its task.
type narrator struct {
	task    *task
	run     uuid.UUID
	say     func(sdk.Event) bool
	working bool // which the client knows

	before int       // texts of earlier runs
	done   int       // texts that are complete, those of earlier runs too
	open   uuid.UUID // the message of the text that is not
	begun  bool      // something of it was told
	told   []string  // the complete ones of this run, as they were told
	text   []byte    // of the open one
}

// narrate tells the run to its end, and reports whether somebody still listens.
func (n *narrator) narrate(ctx context.Context, run *graph.Run[react.State]) (bool, error) {
	for e, err := range run.Events(ctx, 0) {
		if err != nil {
			return false, err
		}
		if !n.event(e.Data) {
			return false, nil
		}
	}
	return true, nil
}

// event tells an event, if it is an update, and reports whether somebody still listens.
func (n *narrator) event(data event.Data) bool {
	switch d := data.(type) {
	case event.RunStarted:
		if n.working {
			return true
		}
		n.working = true
		return n.say(sdk.NewStatusUpdateEvent(n.task.ref(), sdk.TaskStateWorking, nil))
	case event.TextMessageStart:
		n.open, n.begun, n.text = d.MessageID, false, n.text[:0]
	case event.TextMessageContent:
		if d.MessageID == n.open && d.Delta != "" {
			n.text = append(n.text, d.Delta...)
			return n.chunk(d.Delta, false)
		}
	case event.TextMessageEnd:
		if d.MessageID == n.open && n.begun {
			return n.chunk("", true) && n.complete(string(n.text))
		}
	case event.MessagesSnapshot:
		return n.catchUp(d.Messages)
	case event.RunFinished:
		if a := contextArtifact(d.Result); a != nil {
			return n.say(n.artifact(a, false, true))
		}
	}
	return true
}

// chunk tells a piece of the open text.
func (n *narrator) chunk(text string, last bool) bool {
	u := n.artifact(textArtifact(n.done+1, text), n.begun, last)
	n.begun = true
	return n.say(u)
}

func (n *narrator) complete(text string) bool {
	n.done++
	n.told = append(n.told, text)
	n.open, n.begun = uuid.Nil, false
	return true
}

// catchUp tells the texts of the run that are in its conversation and were not told: of an observer that
// came late, or of a run that changed hands.
func (n *narrator) catchUp(messages []message.Message) bool {
	var texts []string
	for _, m := range messages {
		if a, ok := m.(*message.Assistant); ok && a.RunID == n.run && a.Content != "" {
			texts = append(texts, a.Content)
		}
	}
	for i, text := range texts {
		if i < len(n.told) && n.told[i] == text {
			continue
		}
		if !n.say(n.artifact(textArtifact(n.before+i+1, text), false, true)) {
			return false
		}
	}
	// A text that was told and is not kept is told again, under the same number.
	n.told, n.done, n.open, n.begun = texts, n.before+len(texts), uuid.Nil, false
	return true
}

func (n *narrator) artifact(a *sdk.Artifact, more, last bool) *sdk.TaskArtifactUpdateEvent {
	return &sdk.TaskArtifactUpdateEvent{
		TaskID: n.task.ref().TaskID, ContextID: n.task.kept.Context, Artifact: a, Append: more, LastChunk: last,
	}
}
