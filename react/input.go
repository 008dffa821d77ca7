package react

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/internal/wire"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/state"
)

// Input is what a run is started with. Every field may be left out.
type Input struct {
	// Tenant the session belongs to. Default: graph.DefaultTenant.
	Tenant string
	// Session to run in; one that does not exist is created, [uuid.Nil] means a new one.
	Session uuid.UUID
	// Run is the id of the run, which must be new; [uuid.Nil] means any.
	Run uuid.UUID
	// Checkpoint of the session to start from instead of its latest state.
	Checkpoint uuid.UUID

	// Messages are appended to the conversation: of users, of the system, and results of
	// client tools. One whose id the conversation has already is skipped.
	Messages []message.Message
	// Context is a JSON object whose members replace those of the context.
	Context json.RawMessage
	// Resume answers what an interrupted run asked: an object keyed by the ids of the
	// questions, or if there is only one, its answer.
	Resume json.RawMessage

	// These replace what the session has; given as nil they clear it.
	Model              Optional[*ModelConfig]
	CapabilityOverride Optional[*CapabilityOverride]
	ContextVars        Optional[[]ContextVar]
	Tools              Optional[[]message.ToolSpec]

	// OnBusy says what to do if the session has an active run. Default: the agent's.
	OnBusy graph.OnBusy
	// Attached makes it a run that lives for a client: whoever starts it watches it by
	// graph.Run.Hold. If the process dies the run ends, code "lost". [Agent.Run] sets it.
	Attached bool

	err error // what is wrong with the making of it
}

// Ask returns an input with one user message in a session.
func Ask(session uuid.UUID, text string) Input {
	return Input{Session: session, Messages: []message.Message{message.NewUser(text)}}
}

// Answer returns an input that answers what the last run of a session asked: the reply to the
// only question, or a map of replies keyed by the ids of the questions. For a tool under
// approval the reply is an [Approval].
func Answer(session uuid.UUID, reply any) Input {
	text, err := wire.Marshal(reply)
	if err != nil {
		err = fmt.Errorf("react: answer: %w", err)
	}
	return Input{Session: session, Resume: text, err: err}
}

// update checks the input and returns the update that it is.
func (a *Agent) update(in Input) (*Update, error) {
	if in.err != nil {
		return nil, in.err
	}
	var faults []FieldError
	add := func(e FieldError) { faults = append(faults, e) }
	fault := func(code, field, format string, args ...any) {
		add(FieldError{Code: code, Field: field, Message: fmt.Sprintf(format, args...)})
	}
	u := &Update{
		Messages: in.Messages, Model: in.Model, CapabilityOverride: in.CapabilityOverride,
		ContextVars: in.ContextVars, Tools: in.Tools,
	}
	seen := map[uuid.UUID]bool{}
	for i, m := range in.Messages {
		if m == nil {
			fault("unknown", fmt.Sprintf("messages[%d]", i), "is nil")
			continue
		}
		switch m.Role() {
		case message.RoleSystem, message.RoleUser, message.RoleTool:
		default:
			fault("unknown", fmt.Sprintf("messages[%d].role", i), "a %s message is made by a run; send system, user or tool messages", m.Role())
		}
		if id := m.Head().ID; id != uuid.Nil {
			if seen[id] {
				fault("unique", fmt.Sprintf("messages[%d].id", i), "%s occurs twice", id)
			}
			seen[id] = true
		}
		if _, err := message.EncodeBody(m); err != nil {
			fault("pattern", fmt.Sprintf("messages[%d]", i), "%v", err)
		}
	}
	if given(in.Resume) && hasRole(withoutNil(in.Messages), message.RoleUser) {
		fault("conflict", "messages", "a run brings either an answer or a new user message")
	}
	if given(in.Context) {
		context, err := wire.Clean(in.Context)
		if err == nil {
			u.Context, err = state.Merge(context)
		}
		if err != nil {
			fault("pattern", "context", "must be a JSON object: %v", err)
		} else if len(context) > maxContext {
			add(FieldError{
				Code: "length", Field: "context", Message: fmt.Sprintf("is longer than %d bytes", maxContext),
				Params: map[string]any{"max": maxContext, "value": len(context)},
			})
		}
	}
	if m, _ := in.Model.Get(); m != nil {
		a.checkModel(m, add)
	}
	if o, _ := in.CapabilityOverride.Get(); !a.config.CapabilityPolicy.permits(o) {
		fault("conflict", "capability_override", "the agent's capabilities are locked")
	}
	tools, _ := in.Tools.Get()
	names := map[string]bool{}
	for i, t := range tools {
		field := fmt.Sprintf("tools[%d].", i)
		switch {
		case !toolName.MatchString(t.Name):
			fault("pattern", field+"name", "%q must match %s", t.Name, toolName)
		case names[t.Name]:
			fault("unique", field+"name", "%q occurs twice", t.Name)
		}
		names[t.Name] = true
		if p := bytes.TrimSpace(t.Parameters); len(p) == 0 || p[0] != '{' || !json.Valid(p) {
			fault("pattern", field+"parameters", "must be a JSON schema, an object")
		}
	}
	if len(faults) > 0 {
		return nil, &InputError{Fields: faults}
	}
	return u, nil
}

func (a *Agent) checkModel(m *ModelConfig, add func(FieldError)) {
	if o := m.Override; o != nil {
		provider, name := a.modelFor(o)
		if provider == nil {
			add(FieldError{Code: "unknown", Field: "model.override.provider", Message: fmt.Sprintf("%q is no provider of this agent", o.Provider)})
		} else if a.config.AllowModel != nil && !a.config.AllowModel(cmp.Or(o.Provider, a.config.Provider), name) {
			add(FieldError{Code: "unknown", Field: "model.override.model", Message: fmt.Sprintf("%q is not allowed", name)})
		}
	}
	atLeast := func(min int64, field string, value int64) {
		if value < min {
			add(FieldError{
				Code: "range", Field: field, Message: fmt.Sprintf("must be at least %d", min),
				Params: map[string]any{"min": min, "value": value},
			})
		}
	}
	if m.Timeout != nil {
		atLeast(1, "model.timeout", *m.Timeout)
	}
	if r := m.Retry; r != nil {
		atLeast(1, "model.retry.max_attempts", int64(r.MaxAttempts))
		atLeast(0, "model.retry.initial_backoff", r.InitialBackoff)
		atLeast(0, "model.retry.max_backoff", r.MaxBackoff)
	}
}

// given reports whether a value is given: null is none.
func given(value json.RawMessage) bool {
	value = bytes.TrimSpace(value)
	return len(value) > 0 && !bytes.Equal(value, []byte("null"))
}

func withoutNil(messages []message.Message) []message.Message {
	var out []message.Message
	for _, m := range messages {
		if m != nil {
			out = append(out, m)
		}
	}
	return out
}
