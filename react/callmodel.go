package react

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/message"
)

// callModel streams one reply of the model and appends it to the conversation (contract 3.2).
type callModel struct {
	agent *Agent

	CallTools graph.Edge[callModel, callTools] `when:"the reply has calls"`
	Exit      graph.Edge[callModel, exit]      `when:"the reply is the answer"`
}

func (n *callModel) Run(ctx context.Context, s State) (State, graph.Next[callModel], error) {
	var none graph.Next[callModel]
	s = begin(ctx, s)
	if !s.answerable() {
		return s, none, errors.New("react: it is not the model's turn: the conversation ends neither in a user message nor in a tool result")
	}
	out, err := n.agent.ask(ctx, &s)
	switch {
	case err != nil && ctx.Err() != nil:
		// What was said up to here stays (contract R14, R33).
		if partial := out.partial(); len(partial) > 0 {
			graph.Keep(ctx, s.append(partial...))
		}
		return s, none, context.Cause(ctx)
	case errors.Is(err, errModelTimeout) || errors.Is(err, errModelIdle):
		return s, none, graph.Fail(CodeModelTimeout, "the model did not answer in time", err)
	case errors.Is(err, errUnasked):
		return s, none, graph.Fail(CodeModelError, "the model could not be asked", err)
	case errors.Is(err, errMisfit):
		return s, none, graph.Fail(CodeModelError, "the model's answer does not fit the schema", err)
	case err != nil:
		return s, none, graph.Fail(CodeModelError, "the model call failed", err)
	}
	messages, calls, err := out.messages(&s)
	if err != nil {
		return s, none, graph.Fail(CodeModelError, err.Error(), err)
	}
	s = s.append(messages...)
	if len(calls) > 0 {
		return s, n.CallTools.Next(), nil
	}
	return s, n.Exit.Next(), nil
}

// Why there is no reply although the model did not fail.
var (
	errUnasked = errors.New("react: the model was not asked")
	errMisfit  = errors.New("react: the answer does not fit the schema")
)

// maxShortenings bounds how often a conversation is made shorter because the model says that it
// is too long: each time by a quarter.
const maxShortenings = 4

// ask asks the model for a reply: again with less of the conversation if that is too long for
// the model after all, for counters only estimate; and again if the answer does not fit the
// schema. The reply is never nil.
func (a *Agent) ask(ctx context.Context, s *State) (*reply, error) {
	for shorter := 0; ; shorter++ {
		c, err := a.prepare(ctx, s, shorter)
		out := &reply{ctx: ctx, agent: a}
		if err != nil {
			return out, fmt.Errorf("%w: %w", errUnasked, err)
		}
		out.provider, out.model = c.provider, c.request.Model
		err = out.stream(&c)
		if errors.Is(err, message.ErrTooLong) && a.config.Compaction != nil && shorter < maxShortenings {
			continue
		}
		misfit := a.misfit(&out.whole)
		if err != nil || misfit == nil {
			return out, err
		}
		c.request = repair(c.request, &out.whole, misfit)
		out = &reply{ctx: ctx, agent: a, provider: c.provider, model: c.request.Model, before: out.whole.Usage}
		if err = out.stream(&c); err == nil {
			if misfit = a.misfit(&out.whole); misfit != nil {
				err = fmt.Errorf("%w: %w", errMisfit, misfit)
			}
		}
		return out, err
	}
}

// prepare decides everything about the next model call, made shorter so often. It notes in the
// state what it learned about the conversation.
func (a *Agent) prepare(ctx context.Context, s *State, shorter int) (call, error) {
	config := cmp.Or(s.Model, &ModelConfig{})
	model, name := a.modelFor(config.Override)
	if model == nil {
		return call{}, fmt.Errorf("react: unknown provider %q", config.Override.Provider)
	}
	req := &message.Request{Model: name, Params: a.config.Params, Tools: a.offered(s)}
	if a.config.Output != nil {
		req.Output = a.config.Output.Schema
	}
	if o := config.Override; o != nil {
		if a.config.AllowModel != nil && !a.config.AllowModel(cmp.Or(o.Provider, a.config.Provider), name) {
			return call{}, fmt.Errorf("react: model %q: %w", name, message.ErrModelNotAllowed)
		}
		if o.InferenceParams != nil {
			req.Params = o.InferenceParams.Over(req.Params)
		}
	}
	fit, system := message.WellFormed(s.Messages, s.fit)
	if len(fit) == len(s.Messages) && len(fit) > 0 && &fit[0] == &s.Messages[0] {
		s.fit = len(fit)
	}
	prompt, err := a.prompt(ctx, s, req.Tools)
	if err != nil {
		return call{}, err
	}
	if prompt != "" {
		system = slices.Insert(system, 0, prompt)
	}
	req.System = strings.Join(system, "\n")
	provider := a.config.Provider
	if config.Override != nil {
		provider = cmp.Or(config.Override.Provider, provider)
	}
	if req.Messages, err = a.compact(ctx, signedBy(provider, fit), req, shorter); err != nil {
		return call{}, err
	}
	c := call{provider: provider, model: model, request: req, timeout: a.config.ModelTimeout, idle: a.config.ModelIdle, retry: a.config.Retry}
	if config.Timeout != nil {
		c.timeout = time.Duration(*config.Timeout) * time.Millisecond
	}
	if config.Retry != nil {
		c.retry = config.Retry
	}
	return c, nil
}

// signedBy returns the messages without reasoning that another provider signed: none takes what
// it did not sign itself.
func signedBy(provider string, messages []message.Message) []message.Message {
	foreign := func(m message.Message) bool {
		r, ok := m.(*message.Reasoning)
		if !ok || r.Signature == "" {
			return false
		}
		signer := message.ReplyInfoOf(r).Provider
		return signer != "" && signer != provider
	}
	if !slices.ContainsFunc(messages, foreign) {
		return messages
	}
	return slices.DeleteFunc(slices.Clone(messages), foreign)
}

// offered are the tools that the model is shown: the client's, then those of the agent that it
// is allowed to use, always in the same order. Where names collide the agent's tool wins, as it
// does when it is called.
func (a *Agent) offered(s *State) []message.ToolSpec {
	specs := slices.Grow([]message.ToolSpec(nil), len(s.Tools)+len(a.order))
	for _, t := range s.Tools {
		if !a.hasTool(t.Name) {
			specs = append(specs, t)
		}
	}
	have := granted(a.config.CapabilityPolicy, a.config.Capabilities, s.CapabilityOverride)
	for _, r := range a.order {
		if allowed(r.spec.Capabilities, have) {
			specs = append(specs, r.spec.ToolSpec)
		}
	}
	return specs
}

func (a *Agent) prompt(ctx context.Context, s *State, tools []message.ToolSpec) (string, error) {
	if a.config.Prompt == nil {
		return "", nil
	}
	info, _ := graph.InfoFrom(ctx)
	skills := a.config.Skills
	if skills == nil {
		skills = []Skill{}
	}
	text, err := a.config.Prompt.Render(ctx, PromptVars{
		AgentName: a.config.Name, Skills: skills, ContextVars: s.ContextVars,
		CurrentDatetime: time.Now().UTC().Format(time.RFC3339),
		TenantID:        info.Tenant, SessionID: info.Session.String(), RunID: info.Run.String(),
		Tools: tools, Messages: s.Messages, State: s.Context,
	})
	if err != nil {
		return "", fmt.Errorf("react: prompt: %w", err)
	}
	return text, nil
}

// compact leaves out what does not fit into the budget.
func (a *Agent) compact(ctx context.Context, messages []message.Message, req *message.Request, shorter int) ([]message.Message, error) {
	budget := a.config.Budget.For(req.Model)
	if a.config.Compaction == nil || budget == 0 && shorter == 0 {
		return messages, nil
	}
	budget -= a.config.Tokens.Count(message.NewSystem(req.System))
	total := 0
	for _, m := range messages {
		total += a.config.Tokens.Count(m)
	}
	if shorter > 0 && (total < budget || a.config.Budget.For(req.Model) == 0) {
		budget = total
	}
	for range shorter {
		budget -= budget / 4
	}
	if total <= budget {
		return messages, nil
	}
	fit, err := a.config.Compaction.Compact(ctx, messages, max(budget, 0), a.config.Tokens)
	if err != nil {
		return nil, fmt.Errorf("react: compaction: %w", err)
	}
	// Whatever the strategy did, the request has to be one.
	fit, _ = message.WellFormed(fit, 0)
	return fit, nil
}

// reply takes in the deltas of a reply: it says them, and collects them.
type reply struct {
	ctx       context.Context
	agent     *Agent
	provider  string
	model     string
	before    message.Usage // of a reply that did not fit
	collected message.Collector
	whole     message.Reply // once the stream has ended

	text     uuid.UUID // id of the assistant message
	speaking bool
	blocks   []*block
	thinking bool // the last block is open
}

// block is one block of reasoning: a message of its own.
type block struct {
	id        uuid.UUID
	text      strings.Builder
	signature string
}

// stream makes the call and takes in its reply. However it ends, panics too, what it opened is
// closed.
func (r *reply) stream(c *call) (err error) {
	ctx, end := graph.Observe(r.ctx, graph.ModelOperation, c.request.Model)
	defer func() {
		r.close()
		r.whole = r.collected.Reply()
		end(graph.Outcome{Err: err, Detail: r.whole.Usage})
	}()
	return c.stream(ctx, r.add)
}

func (r *reply) add(d message.Delta) {
	if r.text == uuid.Nil {
		r.text = uuid.New()
	}
	r.collected.Add(d)
	switch d := d.(type) {
	case message.TextDelta:
		if d.Text == "" {
			return
		}
		if !r.speaking {
			r.speaking = true
			graph.Emit(r.ctx, event.TextMessageStart{MessageID: r.text})
		}
		graph.Emit(r.ctx, event.TextMessageContent{MessageID: r.text, Delta: d.Text})
	case message.ReasoningDelta:
		if d.Text != "" {
			r.think(d.Text)
		}
	case message.ReasoningDone:
		if !r.thinking {
			if d.Text == "" && d.Signature == "" {
				return
			}
			r.think(d.Text)
		}
		r.blocks[len(r.blocks)-1].signature = d.Signature
		r.unthink()
	}
}

func (r *reply) think(text string) {
	if !r.thinking {
		r.thinking = true
		b := &block{id: uuid.New()}
		r.blocks = append(r.blocks, b)
		graph.Emit(r.ctx, event.ReasoningStart{MessageID: b.id})
		graph.Emit(r.ctx, event.ReasoningMessageStart{MessageID: b.id})
	}
	if text != "" {
		b := r.blocks[len(r.blocks)-1]
		b.text.WriteString(text)
		graph.Emit(r.ctx, event.ReasoningMessageContent{MessageID: b.id, Delta: text})
	}
}

// unthink ends the open block of reasoning.
func (r *reply) unthink() {
	b := r.blocks[len(r.blocks)-1]
	graph.Emit(r.ctx, event.ReasoningMessageEnd{MessageID: b.id})
	if b.signature != "" {
		graph.Emit(r.ctx, event.ReasoningSignature{MessageID: b.id, Subtype: "message", EntityID: b.id.String(), Value: b.signature})
	}
	graph.Emit(r.ctx, event.ReasoningEnd{MessageID: b.id})
	r.thinking = false
}

// close ends what is open.
func (r *reply) close() {
	if r.thinking {
		r.unthink()
	}
	if r.speaking {
		graph.Emit(r.ctx, event.TextMessageEnd{MessageID: r.text})
		r.speaking = false
	}
}

// messages returns the reply as messages, reasoning first, and its calls.
func (r *reply) messages(s *State) ([]message.Message, []message.ToolCall, error) {
	calls := r.whole.ToolCalls
	if len(calls) > r.agent.config.MaxToolCalls {
		return nil, nil, fmt.Errorf("the reply has %d tool calls, more than %d", len(calls), r.agent.config.MaxToolCalls)
	}
	for i := range calls {
		// Results, and the idempotency keys of tools, are told apart by call ids: some
		// providers number the calls of each reply anew.
		if !s.claims(calls[i].ID) {
			calls[i].ID = "call_" + uuid.NewString()
			s.claims(calls[i].ID)
		}
	}
	if calls == nil {
		calls = []message.ToolCall{}
	}
	return append(r.reasoning(), &message.Assistant{
		Header:  message.Header{ID: r.text, Name: r.agent.config.Name, Metadata: r.info().Metadata()},
		Content: r.whole.Text, ToolCalls: calls,
	}), calls, nil
}

// info is what is kept of how the reply was made.
func (r *reply) info() (info message.ReplyInfo) {
	switch reason := r.whole.FinishReason; reason {
	case message.FinishLength, message.FinishContentFilter, message.FinishRefusal:
		info.FinishReason = reason
	}
	if info.Usage = r.whole.Usage.Plus(r.before); info.Usage != (message.Usage{}) || r.whole.Model != "" {
		info.Model = cmp.Or(r.whole.Model, r.model)
	}
	return info
}

func (r *reply) reasoning() []message.Message {
	messages := make([]message.Message, 0, len(r.blocks)+1)
	for _, b := range r.blocks {
		m := &message.Reasoning{
			Header: message.Header{ID: b.id, Name: r.agent.config.Name}, Content: b.text.String(), Signature: b.signature,
		}
		if m.Signature != "" {
			m.Metadata = message.ReplyInfo{Provider: r.provider}.Metadata()
		}
		messages = append(messages, m)
	}
	return messages
}

// partial returns what arrived of a reply that was cut off, without its calls.
func (r *reply) partial() []message.Message {
	messages := r.reasoning()
	if text := r.whole.Text; text != "" {
		messages = append(messages, &message.Assistant{
			Header: message.Header{ID: r.text, Name: r.agent.config.Name}, Content: text, ToolCalls: []message.ToolCall{},
		})
	}
	for _, m := range messages {
		info := message.ReplyInfoOf(m)
		info.Partial = true // contract R33
		m.Head().Metadata = info.Metadata()
	}
	return messages
}
