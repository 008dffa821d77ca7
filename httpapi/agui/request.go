package agui

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/httpapi"
	"github.com/everstep-go/everstep/internal/wire"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/store"
)

// request is a run that a client asks for, and what it meets.
type request struct {
	*input
	h      *handler
	tenant string

	thread thread            // before the run
	waits  bool              // the session was busy then
	places []int             // of the messages that are taken in, among those of the client
	taken  []message.Message // into the conversation
}

// merged returns where the run begins, if the thread has not moved on.
func (r *request) merged() thread {
	m := r.thread
	m.messages = slices.Concat(m.messages, r.taken)
	return m
}

// thread is where a session stands.
type thread struct {
	messages  []message.Message
	context   json.RawMessage
	questions []graph.Question
}

// open returns the calls of the latest reply that have no result.
func (t *thread) open() []message.ToolCall {
	answered := map[string]bool{}
	for _, m := range slices.Backward(t.messages) {
		switch m := m.(type) {
		case *message.Tool:
			answered[m.ToolCallID] = true
		case *message.Assistant:
			return slices.DeleteFunc(slices.Clone(m.ToolCalls), func(c message.ToolCall) bool { return answered[c.ID] })
		}
	}
	return nil
}

// load finds out where the session stands.
func (r *request) load(ctx context.Context) error {
	s, err := r.h.agent.Session(ctx, r.tenant, r.session)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	r.waits = s.Active != uuid.Nil
	c, now, err := r.h.agent.Head(ctx, r.tenant, r.session)
	if err != nil {
		return err
	}
	r.thread = thread{now.Messages, now.Context, graph.Questions(c)}
	return nil
}

// start begins the run.
func (r *request) start(ctx context.Context) (*graph.Run[react.State], error) {
	in, err := r.toInput()
	if err != nil {
		return nil, err
	}
	run, err := r.h.agent.Start(ctx, in)
	if err != nil {
		return nil, r.inTheirWords(err)
	}
	return run, nil
}

// toInput says the request in terms of the agent.
func (r *request) toInput() (react.Input, error) {
	in := react.Input{
		Tenant: r.tenant, Session: r.session, Run: r.id, OnBusy: r.h.opts.OnBusy, Attached: r.h.opts.OnDisconnect == Cancel,
		Messages: r.fresh(), Context: r.changed(),
		Model: r.model, CapabilityOverride: r.override,
		// Left out, empty and null are the same for these two (contract 7.3): a client says each time what there is.
		ContextVars: react.Set(r.vars), Tools: react.Set(r.tools),
	}
	var err error
	in.Resume, in.Messages, err = r.answers(in.Messages)
	r.taken = in.Messages
	return in, err
}

// fresh returns the messages of the client that the conversation does not have. The store has the history; what
// the client has of it is a copy. So it takes what stands behind all that is known, and results of calls that
// wait for one wherever they stand: clients put a result behind its call.
func (r *request) fresh() []message.Message {
	known := make(map[uuid.UUID]bool, len(r.thread.messages))
	for _, m := range r.thread.messages {
		known[m.Head().ID] = true
	}
	behind := 0
	for i, m := range r.messages {
		if known[MessageID(m.id)] {
			behind = i + 1
		}
	}
	open := map[string]bool{}
	for _, c := range r.thread.open() {
		open[c.ID] = true
	}
	for _, q := range r.thread.questions {
		if r.answersTo(q) {
			delete(open, callOf(q, open)) // CopilotKit says the answer as the result of the call, too
		}
	}
	var fresh []message.Message
	r.places = nil
	for i, m := range r.messages {
		if m.message == nil || known[MessageID(m.id)] {
			continue
		}
		if tool, ok := m.message.(*message.Tool); ok {
			if !open[tool.ToolCallID] {
				continue // it has a result, or nobody made the call
			}
			delete(open, tool.ToolCallID)
		} else if i < behind {
			continue
		}
		known[MessageID(m.id)] = true
		fresh = append(fresh, m.message)
		r.places = append(r.places, i)
	}
	return fresh
}

// changed returns the members of the client's state that differ from the context, nil for none.
func (r *request) changed() json.RawMessage {
	var theirs, ours map[string]json.RawMessage
	if r.state == nil || json.Unmarshal(r.state, &theirs) != nil {
		return nil
	}
	if r.waits || json.Unmarshal(r.thread.context, &ours) != nil {
		return r.state
	}
	for name, value := range theirs {
		if have, ok := ours[name]; ok && bytes.Equal(have, value) {
			delete(theirs, name)
		}
	}
	if len(theirs) == 0 {
		return nil
	}
	text, err := wire.Marshal(theirs)
	if err != nil {
		return r.state
	}
	return text
}

// answers returns the answers to what the thread asks, and the messages with the results of those questions that
// were cancelled. Questions that nobody answers are never taken for abandoned.
func (r *request) answers(messages []message.Message) (json.RawMessage, []message.Message, error) {
	if r.h.opts.LegacyInterrupts {
		if len(r.resume) == 0 {
			return r.command, messages, nil
		}
	}
	open := map[string]bool{}
	for _, c := range r.thread.open() {
		open[c.ID] = true
	}
	settled := map[string]bool{}
	user := false
	for _, m := range messages {
		switch m := m.(type) {
		case *message.Tool:
			settled[m.ToolCallID] = true
		case *message.User:
			user = true
		}
	}
	replies := map[string]json.RawMessage{}
	var uncovered []string
	cancelled := map[string]bool{}
	for _, q := range r.thread.questions {
		call := callOf(q, open)
		if settled[call] || call == "" {
			continue
		}
		i := slices.IndexFunc(r.resume, func(a answer) bool { return a.interrupt == q.ID })
		switch {
		case i < 0:
			uncovered = append(uncovered, q.ID)
		case r.resume[i].cancelled:
			cancelled[call] = true
		default:
			payload := r.resume[i].payload
			if _, ok := approvalOf(q); ok && edited(payload) {
				return nil, nil, invalid(fmt.Sprintf("resume[%d].payload.editedArgs", i), "unknown",
					"arguments cannot be changed: refuse the call with a reason that says what you want")
			}
			if payload == nil {
				payload = json.RawMessage("null")
			}
			replies[q.ID] = payload
		}
	}
	if len(uncovered) > 0 && (user || len(replies)+len(cancelled) > 0) {
		return nil, nil, invalid("resume", "conflict", fmt.Sprintf(
			"the thread waits for answers to %q: resume must have an entry for each, with status resolved or cancelled", uncovered))
	}
	for call := range cancelled {
		result := message.NewToolError(call, "cancelled by the user")
		result.ID = uuid.NewSHA1(r.id, []byte(call))
		messages = append(messages, result)
	}
	for id := range replies {
		if cancelled[callOf(graph.Question{ID: id}, open)] {
			delete(replies, id)
		}
	}
	if len(replies) == 0 {
		return nil, messages, nil
	}
	text, err := wire.Marshal(replies)
	return text, messages, err
}

// answersTo reports whether the client answers a question.
func (r *request) answersTo(q graph.Question) bool {
	return slices.ContainsFunc(r.resume, func(a answer) bool { return a.interrupt == q.ID })
}

// callOf returns the id of the open call that asks a question, empty if none does.
func callOf(q graph.Question, open map[string]bool) string {
	for id := q.ID; ; {
		if open[id] {
			return id
		}
		i := strings.LastIndexByte(id, ':')
		if i < 0 {
			return ""
		}
		id = id[:i]
	}
}

func edited(payload json.RawMessage) bool {
	var p struct {
		EditedArgs json.RawMessage `json:"editedArgs"`
	}
	return json.Unmarshal(payload, &p) == nil && p.EditedArgs != nil && string(p.EditedArgs) != "null"
}

func invalid(field, code, text string) error {
	return &httpapi.Error{Code: httpapi.CodeInvalid, Fields: []react.FieldError{{Field: field, Code: code, Message: text}}}
}

// inTheirWords names the fields of an error as the client does.
func (r *request) inTheirWords(err error) error {
	if e, ok := errors.AsType[*graph.ResumeError](err); ok {
		return invalid("resume", "conflict", e.Reason)
	}
	e, ok := errors.AsType[*react.InputError](err)
	if !ok {
		return err
	}
	faults := slices.Clone(e.Fields)
	for i := range faults {
		field, rest := faults[i].Field, ""
		if at := strings.IndexAny(field, ".["); at >= 0 {
			field, rest = field[:at], field[at:]
		}
		switch field {
		case "model", "capability_override":
			field = "forwardedProps." + field
		case "context":
			field = "state"
		case "messages":
			var n int
			if _, err := fmt.Sscanf(rest, "[%d]", &n); err == nil && n < len(r.places) {
				_, rest, _ = strings.Cut(rest, "]")
				field = fmt.Sprintf("messages[%d]", r.places[n])
			}
		}
		faults[i].Field = field + rest
	}
	return &httpapi.Error{Code: httpapi.CodeInvalid, Fields: faults}
}

// began returns where the session stood when the run began: with the input, before the first node.
func (h *handler) began(ctx context.Context, tenant string, session, run uuid.UUID) (thread, error) {
	page, err := h.agent.Checkpoints(ctx, store.CheckpointQuery{
		Tenant: tenant, Session: session, Runs: []uuid.UUID{run}, Reasons: []checkpoint.Reason{checkpoint.Input}, Paging: store.Paging{PerPage: 1},
	})
	return h.at(ctx, tenant, page, err)
}

// now returns where the run stands.
func (h *handler) now(ctx context.Context, tenant string, session, run uuid.UUID) (thread, error) {
	page, err := h.agent.Checkpoints(ctx, store.CheckpointQuery{
		Tenant: tenant, Session: session, Runs: []uuid.UUID{run}, Paging: store.Paging{PerPage: 1},
	})
	return h.at(ctx, tenant, page, err)
}

func (h *handler) at(ctx context.Context, tenant string, page *store.Page[checkpoint.Checkpoint], err error) (thread, error) {
	if err != nil {
		return thread{}, err
	}
	if len(page.Items) == 0 {
		return thread{}, errNowhere
	}
	c, s, err := h.agent.Checkpoint(ctx, tenant, page.Items[0].ID)
	if err != nil {
		return thread{}, err
	}
	return thread{s.Messages, s.Context, graph.Questions(c)}, nil
}

// errNowhere: the run has no checkpoint.
var errNowhere = errors.New("agui: the run has not begun")
