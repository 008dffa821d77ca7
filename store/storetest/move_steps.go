package storetest

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/store"
)

// steps returns up to three steps of a run that follow a checkpoint, if there is one.
func (p *player) steps(run uuid.UUID, before *modelCheckpoint) []store.Step {
	var steps []store.Step
	var parent uuid.UUID
	patchable := false
	if before != nil {
		parent, patchable = before.record.ID, len(before.documents) > 0
	}
	for range []int{1, 0, 2, 3}[p.tape.pick(4)] {
		s := store.Step{Checkpoint: checkpoint.Checkpoint{
			ID: p.tape.id(), RunID: run, Node: "node", Next: "next", Status: checkpoint.Running, Reason: checkpoint.Step, Version: 1, ParentID: parent,
		}}
		parent = s.Checkpoint.ID
		if p.tape.rarely(4) {
			s.Checkpoint.Metadata = fmt.Appendf(nil, `{"of":%q}`, parent)
		}
		switch what := p.tape.pick(4); {
		case what == 1:
			s.Document, patchable = &store.Document{Body: fmt.Appendf(nil, `{"of":%q}`, parent)}, true
		case what > 1 && patchable:
			s.Document = &store.Document{Patch: true, Body: fmt.Appendf(nil, `[{"op":"add","path":"/of","value":%q}]`, parent)}
		}
		for range p.tape.pick(3) {
			id := p.tape.id()
			s.Messages = append(s.Messages, store.Message{
				Header: message.Header{ID: id, RunID: run}, Role: message.RoleUser, Body: fmt.Appendf(nil, `{"content":%q}`, id),
			})
		}
		steps = append(steps, s)
	}
	return steps
}

// tasks returns those of a commit: mostly none.
func (p *player) tasks() []store.Task {
	var tasks []store.Task
	for range max(p.tape.pick(5)-2, 0) {
		tasks = append(tasks, p.task())
	}
	return tasks
}

// task is one of three, so that the same is started, done, and done again. Each value is another,
// but for those of one that is started: what holds when it is started twice is the driver's.
func (p *player) task() store.Task {
	t := store.Task{Key: string(rune('a' + p.tape.pick(3))), Done: p.tape.pick(3) > 0}
	t.Value = []byte("started")
	if t.Done {
		t.Value = []byte(p.tape.id().String())
	}
	return t
}

// status is mostly running.
func (p *player) status() (status checkpoint.Status, code, text string) {
	switch p.tape.pick(12) {
	case 8:
		return checkpoint.Completed, "", ""
	case 9:
		return checkpoint.Interrupted, "", ""
	case 10:
		return checkpoint.Failed, "code", "why it failed"
	case 11:
		return checkpoint.Cancelled, "", ""
	}
	return checkpoint.Running, "", ""
}
