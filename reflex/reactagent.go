package reflex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/internal/wire"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/store"
)

// ReactAgentOptions tune a [ReactAgent]. Zero fields mean the default.
type ReactAgentOptions struct {
	// Models that the agent serves, the default first; the others are asked for by their names.
	// Default: one, of the name "default".
	Models []string
	// Live keeps a run in its process while people are asked, instead of ending it.
	Live bool
	// Tenant of the agent's sessions. Default: graph.DefaultTenant.
	Tenant string
	// Store is the agent's own. With it the agent can carry a conversation to another thread.
	Store store.Store
}

// ReactAgent is an [Agent] of this process (an inkling): a react.Agent, each conversation of
// which is one of its sessions. What its tools ask is settled by the conversation's permission mode
// if that has an answer to all of it, and else put to people.
type ReactAgent struct {
	agent *react.Agent
	opts  ReactAgentOptions
}

// NewReactAgent returns an agent of the name that the react agent has. Opts may be nil. Give the
// react agent the [ControlTools] and an [AskTool] for it to hand over, move and ask. The capabilities
// of the person whose turn it is are granted beside its own, which its policy must permit
// (react.PolicyExtensible).
func NewReactAgent(a *react.Agent, opts *ReactAgentOptions) *ReactAgent {
	r := &ReactAgent{agent: a}
	if opts != nil {
		r.opts = *opts
	}
	if len(r.opts.Models) == 0 {
		r.opts.Models = []string{"default"}
	}
	if r.opts.Tenant == "" {
		r.opts.Tenant = graph.DefaultTenant
	}
	return r
}

var (
	_ Agent  = (*ReactAgent)(nil)
	_ Forker = (*ReactAgent)(nil)
)

// ID implements [Agent].
func (a *ReactAgent) ID() string { return a.agent.Name() }

// Models implements [Agent].
func (a *ReactAgent) Models() []string { return slices.Clone(a.opts.Models) }

// Serve ends runs that a dead process left: a pass does not go on with them.
func (a *ReactAgent) Serve(ctx context.Context) error { return a.agent.Serve(ctx) }

// Run implements [Agent].
func (a *ReactAgent) Run(ctx context.Context, r *RunRequest) iter.Seq2[Progress, error] {
	return func(yield func(Progress, error) bool) {
		l := &loop{a: a, ctx: ctx, r: r, yield: yield, known: DeferredResults{}}
		if err := l.run(); err != nil && !errors.Is(err, errStopped) {
			yield(Progress{}, err)
		}
	}
}

// errStopped: nobody listens any more.
var errStopped = errors.New("reflex: stopped")

// loop is one run of the agent as the engine sees it: runs of the react agent, one after the other
// as long as what they ask is settled here.
type loop struct {
	a     *ReactAgent
	ctx   context.Context
	r     *RunRequest
	yield func(Progress, error) bool
	known DeferredResults // what was answered
	round int
}

func (l *loop) run() error {
	in, err := l.first()
	if err != nil {
		return err
	}
	for {
		s, asked, err := l.once(in)
		if err != nil {
			return err
		}
		if len(asked) == 0 {
			return l.end(s, nil)
		}
		answers, err := l.resolve(asked)
		if err != nil {
			return err
		}
		if answers == nil {
			return l.end(s, callsOf(asked))
		}
		if in, err = l.input(answers, asked); err != nil {
			return err
		}
	}
}

func (l *loop) end(s react.State, deferred []DeferredCall) error {
	result := &RunResult{Deferred: deferred, Run: l.runID(l.round - 1), Usage: s.Usage(l.runID(l.round - 1))}
	for _, m := range slices.Backward(s.Messages) {
		if m.Role() == message.RoleUser {
			break
		}
		if said, ok := m.(*message.Assistant); ok {
			if said.Content != "" {
				result.Output = Text(said.Content)
			}
			result.Message = said.ID
			break
		}
	}
	if !l.yield(Progress{Result: result}, nil) {
		return errStopped
	}
	return nil
}

func (l *loop) runID(round int) uuid.UUID {
	if round == 0 {
		return l.r.Run
	}
	return idOf("round", l.r.Run.String(), fmt.Sprint(round))
}

// first is the input that the run begins with.
func (l *loop) first() (react.Input, error) {
	if len(l.r.Results) == 0 {
		if len(l.r.Prompt) == 0 {
			return react.Input{}, fmt.Errorf("%w: a run without a prompt and results", ErrInvariant)
		}
		m := message.NewUserBlocks(blocksOf(l.r.Prompt)...)
		m.ID = idOf("prompt", l.r.Run.String())
		if l.r.Profile != nil {
			m.Name = l.r.Profile.Name
		}
		return react.Input{Messages: []message.Message{m}}, nil
	}
	asked, err := l.a.agent.Questions(l.ctx, l.a.opts.Tenant, l.r.Conversation.Session)
	if err != nil {
		return react.Input{}, err
	}
	l.known = l.r.Results
	if slices.ContainsFunc(asked, func(q graph.Question) bool { _, ok := l.known[q.ID]; return ok }) {
		return l.input(l.known, asked)
	}
	// Nothing asks any more: the history came from another thread, or the run that the answers
	// went to had failed. What is open gets its result.
	s, err := l.a.agent.State(l.ctx, l.a.opts.Tenant, l.r.Conversation.Session)
	if err != nil {
		return react.Input{}, err
	}
	in := react.Input{}
	for _, id := range openCalls(s.Messages) {
		if result, ok := l.known[id]; ok && result.Kind == MoveCall {
			m := message.NewTool(id, result.Text)
			m.ID = idOf("result", l.r.Run.String(), id)
			in.Messages = append(in.Messages, m)
		}
	}
	return in, nil
}

// openCalls returns the ids of calls of the latest reply that have no result.
func openCalls(messages []message.Message) []string {
	answered := map[string]bool{}
	for _, m := range slices.Backward(messages) {
		switch m := m.(type) {
		case *message.Tool:
			answered[m.ToolCallID] = true
		case *message.Assistant:
			var open []string
			for _, c := range m.ToolCalls {
				if !answered[c.ID] {
					open = append(open, c.ID)
				}
			}
			return open
		}
	}
	return nil
}

func blocksOf(segments []Segment) []message.Block {
	var blocks []message.Block
	for _, s := range segments {
		if s.Text != "" {
			blocks = append(blocks, message.Text{Value: s.Text})
		}
		if s.MediaURL != "" {
			blocks = append(blocks, message.Media{
				Kind: message.Image, Source: message.Source{Type: message.SourceURL, Value: s.MediaURL}, MediaType: s.MediaType,
			})
		}
	}
	return blocks
}

// once makes one run of the react agent and passes on what it says.
func (l *loop) once(in react.Input) (react.State, []graph.Question, error) {
	in.Tenant, in.Session, in.Run = l.a.opts.Tenant, l.r.Conversation.Session, l.runID(l.round)
	in.Attached, in.OnBusy = true, graph.Cancel // what still runs there belongs to a dead process
	in.Model = react.Optional[*react.ModelConfig]{}
	if l.r.Model != l.a.opts.Models[0] {
		in.Model = react.Set(&react.ModelConfig{Override: &react.ModelOverride{Model: l.r.Model}})
	}
	in.CapabilityOverride = react.Set[*react.CapabilityOverride](nil)
	if len(l.r.Capabilities) > 0 {
		in.CapabilityOverride = react.Set(&react.CapabilityOverride{Strategy: react.OverrideExtend, Capabilities: l.r.Capabilities})
	}
	l.round++
	run, err := l.a.agent.Start(WithSession(l.ctx, l.r.Session), in)
	if err != nil {
		return react.State{}, nil, err
	}
	for e, err := range run.Hold(l.ctx) {
		if err != nil {
			return react.State{}, nil, err
		}
		if event.Terminal(e.Data) {
			continue // how it ended is the result's
		}
		if !l.yield(Progress{Event: e.Data}, nil) {
			return react.State{}, nil, errStopped
		}
	}
	s, err := run.Wait(l.ctx)
	if asked, ok := errors.AsType[*graph.InterruptedError](err); ok {
		return s, asked.Questions, nil
	}
	return s, nil, err
}

// resolve settles what a run asks. Nil: people are asked, and the run ends.
func (l *loop) resolve(asked []graph.Question) (DeferredResults, error) {
	calls := callsOf(asked)
	answers := DeferredResults{}
	for _, c := range calls {
		if r, ok := l.known[c.ID]; ok {
			answers[c.ID] = r
		}
	}
	// The mode is asked now: it may have changed while the run went on.
	for id, r := range Posture(l.r.Mode(l.ctx), calls) {
		if _, ok := answers[id]; !ok {
			answers[id] = r
		}
	}
	if answers.covers(calls) {
		return answers, nil
	}
	if l.a.opts.Live && !slices.ContainsFunc(calls, func(c DeferredCall) bool { return c.Kind == MoveCall }) {
		return l.r.Suspender.Pause(l.ctx, calls)
	}
	err := l.r.Suspender.Suspend(l.ctx, calls)
	if errors.Is(err, ErrMixedTeleport) {
		// The model hears that it must ask for a move alone; the rest is asked again.
		for _, c := range calls {
			if c.Kind == MoveCall {
				answers[c.ID] = DeferredResult{Kind: MoveCall, Text: "not moved: ask for a move alone, beside no other call"}
			}
		}
		return answers, nil
	}
	return nil, err
}

// asks is the payload of a question that a tool of this package asks.
type asks struct {
	Kind        CallKind         `json:"kind,omitempty"`
	Tool        string           `json:"tool,omitempty"` // of an approval
	Arguments   json.RawMessage  `json:"arguments,omitempty"`
	Title       string           `json:"title,omitempty"`
	Description string           `json:"description,omitempty"`
	Questions   []QuestionText   `json:"questions,omitempty"`
	Move        *RelocateRequest `json:"move,omitempty"`
}

// callsOf reads the questions of a run as deferred calls. One without a kind is the approval of a
// tool, or else something that a person answers in words.
func callsOf(asked []graph.Question) []DeferredCall {
	calls := make([]DeferredCall, len(asked))
	for i, q := range asked {
		var a asks
		if json.Unmarshal(q.Payload, &a) != nil || a.Kind == "" && a.Tool == "" {
			a = asks{Kind: QuestionCall, Questions: []QuestionText{{Text: string(q.Payload)}}, Description: q.Name}
		} else if a.Kind == "" {
			a.Kind = ApprovalCall
		}
		calls[i] = DeferredCall{
			ID: q.ID, Kind: a.Kind, Tool: a.Tool, Arguments: a.Arguments, Title: a.Title, Description: a.Description,
			Questions: a.Questions, Move: a.Move,
		}
	}
	return calls
}

// input answers questions, as far as there are results for them.
func (l *loop) input(results DeferredResults, asked []graph.Question) (react.Input, error) {
	replies := map[string]any{}
	for _, q := range asked {
		r, ok := results[q.ID]
		if !ok {
			continue
		}
		var a asks
		foreign := json.Unmarshal(q.Payload, &a) != nil || a.Kind == "" && a.Tool == ""
		switch {
		case foreign && len(r.Answers) > 0:
			replies[q.ID] = r.Answers[0]
		case r.Kind == ApprovalCall:
			replies[q.ID] = react.Approval{Approved: r.Approved, Reason: r.Reason}
		default:
			replies[q.ID] = r
		}
	}
	text, err := wire.Marshal(replies)
	return react.Input{Resume: text}, err
}

// Fork implements [Forker]: it copies the messages into the session of the other conversation.
func (a *ReactAgent) Fork(ctx context.Context, from, to Conversation) error {
	if a.opts.Store == nil {
		return fmt.Errorf("%w: %s has no store to copy in", ErrForkUnsupported, a.ID())
	}
	s, err := a.agent.State(ctx, a.opts.Tenant, from.Session)
	if err != nil {
		return err
	}
	if _, err := a.agent.CreateSession(ctx, a.opts.Tenant, to.Session); err != nil && !errors.Is(err, store.ErrExists) {
		return err
	}
	for _, m := range s.Messages {
		record, err := store.EncodeMessage(m)
		if err != nil {
			return err
		}
		// Ids follow from the originals, so that a copy is made once.
		record.ID = idOf("fork", to.Session.String(), record.ID.String())
		record.SessionID, record.RunID, record.CheckpointID = to.Session, uuid.Nil, uuid.Nil
		if _, err := a.opts.Store.CreateMessage(ctx, a.opts.Tenant, &record); err != nil && !errors.Is(err, store.ErrExists) {
			return err
		}
	}
	return nil
}
