package graph

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/internal/wire"
)

// A Question is what an interrupted run waits to be told.
type Question struct {
	// ID is what an answer names. It is unique among the questions of a run.
	ID string `json:"id"`
	// Name is the node that asked, or what its task is named by [TaskOptions].
	Name string `json:"name"`
	// Payload is what was asked, as JSON.
	Payload json.RawMessage `json:"payload"`
}

// InterruptError is the error that [Interrupt] returns for the node to pass on.
type InterruptError struct{ Question Question }

func (e *InterruptError) Error() string {
	return fmt.Sprintf("graph: interrupted: %s asks %q", e.Question.Name, e.Question.ID)
}

// Is reports whether target is [ErrInterrupted].
func (e *InterruptError) Is(target error) bool { return target == ErrInterrupted }

// InterruptedError is how [Run.Wait] says that a run ended with questions.
type InterruptedError struct{ Questions []Question }

func (e *InterruptedError) Error() string {
	ids := make([]string, len(e.Questions))
	for i, q := range e.Questions {
		ids[i] = fmt.Sprintf("%q", q.ID)
	}
	return "graph: run interrupted, it waits for " + strings.Join(ids, ", ")
}

// Is reports whether target is [ErrInterrupted].
func (e *InterruptedError) Is(target error) bool { return target == ErrInterrupted }

// ResumeError says why an answer was refused: an [ErrInvalidResume].
type ResumeError struct{ Reason string }

func (e *ResumeError) Error() string { return "graph: invalid resume: " + e.Reason }

// Is reports whether target is [ErrInvalidResume].
func (e *ResumeError) Is(target error) bool { return target == ErrInvalidResume }

// Interrupt asks something that only the outside can answer, and returns the answer once there
// is one. Until then it returns an [*InterruptError], which the node must return: the run then
// ends as interrupted, after the node's other tasks have settled. The run that brings the
// answer runs the node again from its top.
//
// The id tells the questions of one node apart; in a [Task] the task's key comes before it, and
// alone stands for an empty id. Outside a run Interrupt asks nobody and returns the error,
// unless [WithReply] put the answer in the context.
func Interrupt[Reply any](ctx context.Context, id string, ask any) (Reply, error) {
	var reply Reply
	name := ""
	if t, ok := ctx.Value(taskKey{}).(*taskScope); ok {
		if id = strings.TrimSuffix(t.key+":"+id, ":"); t.name != "" {
			name = t.name
		}
	}
	sc := scopeOf(ctx)
	answer, ok := repliesOf(ctx)[id]
	if sc != nil && !ok {
		answer, ok = sc.answer(id)
	}
	if ok {
		if err := json.Unmarshal(answer, &reply); err != nil {
			return reply, fmt.Errorf("graph: answer to %q is no %T: %w", id, reply, err)
		}
		return reply, nil
	}
	payload, err := wire.Marshal(ask)
	if err != nil {
		return reply, fmt.Errorf("graph: question %q: %w", id, err)
	}
	q := Question{ID: id, Name: name, Payload: payload}
	if sc != nil {
		if q.Name == "" {
			q.Name = sc.node
		}
		q = sc.ask(q)
	}
	return reply, &InterruptError{Question: q}
}

// Unanswered returns an [*InterruptError] if the run resumed with the question still open, or with
// all those of the task of that key, and asks them again as they were. A node that has many questions uses it to leave alone what nobody
// answered yet. Nil otherwise.
func Unanswered(ctx context.Context, id string) error {
	sc := scopeOf(ctx)
	if sc == nil {
		return nil
	}
	var open []Question
	for _, q := range sc.open {
		if q.ID != id && !strings.HasPrefix(q.ID, id+":") {
			continue
		}
		if _, ok := sc.answer(q.ID); ok {
			return nil
		}
		open = append(open, q)
	}
	if len(open) == 0 {
		return nil
	}
	for _, q := range open {
		sc.ask(q)
	}
	return &InterruptError{Question: open[0]}
}

// WithReply returns a context in which [Interrupt] finds the answer to a question: for tests of
// nodes outside a run. It panics if the reply has no JSON.
func WithReply(ctx context.Context, id string, reply any) context.Context {
	data, err := wire.Marshal(reply)
	if err != nil {
		panic(fmt.Sprintf("graph: reply to %q: %v", id, err))
	}
	replies := map[string]json.RawMessage{id: data}
	for k, v := range repliesOf(ctx) {
		if k != id {
			replies[k] = v
		}
	}
	return context.WithValue(ctx, repliesKey{}, replies)
}

type repliesKey struct{}

func repliesOf(ctx context.Context) map[string]json.RawMessage {
	replies, _ := ctx.Value(repliesKey{}).(map[string]json.RawMessage)
	return replies
}

// interruptPayload is what a run_finished event and the metadata of an interrupt checkpoint
// carry (contract R16).
type interruptPayload struct {
	Interrupts []Question `json:"interrupts"`
}

type interruptMetadata struct {
	Payload interruptPayload `json:"interrupt_payload"`
}

// Questions returns what a checkpoint waits to be told, nil if nothing was asked there.
func Questions(c *checkpoint.Checkpoint) []Question {
	var m interruptMetadata
	if c == nil || c.Reason != checkpoint.Interrupt || json.Unmarshal(c.Metadata, &m) != nil {
		return nil
	}
	return m.Payload.Interrupts
}

// answersTo reads a resume payload against the open questions (contract R16, R34): an object
// whose keys are ids of questions answers those; any other value answers the only question.
func answersTo(open []Question, resume json.RawMessage) (map[string]json.RawMessage, error) {
	resume = bytes.TrimSpace(resume)
	if len(resume) == 0 || bytes.Equal(resume, []byte("null")) {
		return nil, nil
	}
	if len(open) == 0 {
		return nil, &ResumeError{Reason: "nothing is interrupted"}
	}
	if !json.Valid(resume) {
		return nil, &ResumeError{Reason: "the answer is no JSON"}
	}
	asked := func(id string) bool {
		return slices.ContainsFunc(open, func(q Question) bool { return q.ID == id })
	}
	var byID map[string]json.RawMessage
	if resume[0] == '{' && json.Unmarshal(resume, &byID) == nil {
		var known, unknown []string
		for id := range byID {
			if asked(id) {
				known = append(known, id)
			} else {
				unknown = append(unknown, id)
			}
		}
		if len(known) > 0 && len(unknown) > 0 {
			slices.Sort(unknown)
			return nil, &ResumeError{Reason: fmt.Sprintf("no open question has the id %q", unknown[0])}
		}
		if len(known) > 0 {
			return byID, nil
		}
	}
	if len(open) > 1 {
		return nil, &ResumeError{Reason: fmt.Sprintf("%d questions are open: answer with an object keyed by their ids", len(open))}
	}
	return map[string]json.RawMessage{open[0].ID: resume}, nil
}

// inOrder returns the questions that were asked, first those that the node's error names, in its
// order: a node that asks in parallel joins the errors to say how its questions follow each other.
func inOrder(asked []Question, err error) []Question {
	var ordered []Question
	var walk func(error)
	walk = func(err error) {
		switch e := err.(type) {
		case *InterruptError:
			same := func(q Question) bool { return q.ID == e.Question.ID }
			if i := slices.IndexFunc(asked, same); i >= 0 && !slices.ContainsFunc(ordered, same) {
				ordered = append(ordered, asked[i])
			}
		case interface{ Unwrap() []error }:
			for _, err := range e.Unwrap() {
				walk(err)
			}
		case interface{ Unwrap() error }:
			walk(e.Unwrap())
		}
	}
	walk(err)
	for _, q := range asked {
		if !slices.ContainsFunc(ordered, func(o Question) bool { return o.ID == q.ID }) {
			ordered = append(ordered, q)
		}
	}
	return ordered
}

// isInterrupt reports whether a node stopped to ask.
func isInterrupt(err error) bool { return errors.Is(err, ErrInterrupted) }
