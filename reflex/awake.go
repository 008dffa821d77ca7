package reflex

import (
	"context"
	"errors"
	"fmt"

	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/store"
)

// Run takes the signal up: what follows works with what it resolves to, and never sees it.
func (n *intake) Run(ctx context.Context, s State) (State, graph.Next[intake], error) {
	var none graph.Next[intake]
	p, err := n.e.enter(ctx, &s)
	if err != nil {
		return s, none, err
	}
	signal, err := s.Signal.open()
	if err != nil {
		return s, none, coded(err)
	}
	next := none
	switch signal := signal.(type) {
	case MessageSignal:
		s, err = n.message(ctx, p, s, signal)
		next = n.Route.Next()
	case BatchSignal:
		s.Answer, next = &signal.BatchAnswer, n.Resume.Next()
	case CommandSignal:
		s.Command, next = &signal, n.Command.Next()
	case NativeSignal:
		s, err = n.native(ctx, p, s, signal)
		if next = n.Scheme.Next(); signal.Teleport != nil {
			next = n.Teleport.Next()
		}
	case ThreadSignal:
		s, err = n.thread(ctx, p, s, signal)
		if next = n.Summon.Next(); signal.Teleport != nil {
			next = n.Teleport.Next()
		}
	}
	if err != nil {
		return s, none, coded(err)
	}
	s.Signal = nil
	return s, next, nil
}

// from notes where the turn came from, first of all: a refusal is told there.
func (p *pass) from(s *State, source Place) {
	s.Source = source
	p.mu.Lock()
	defer p.mu.Unlock()
	p.source = p.e.spot(source, s.Thread)
}

func (n *intake) message(ctx context.Context, p *pass, s State, m MessageSignal) (State, error) {
	if _, err := n.e.channel(m.Address.Channel); err != nil {
		return s, err
	}
	p.from(&s, Place{Address: m.Address, Mode: Main})
	t, err := enter(ctx, n.e.books.Threads, m.Address, nil, p.kick.String())
	if err != nil {
		return s, err
	}
	profile, err := n.e.config.Users.Profile(ctx, m.Address.Channel, m.Messages[len(m.Messages)-1].User)
	if err != nil {
		return s, err
	}
	s.Thread, s.Trigger, s.Profile = t.ID, m.Trigger, &profile
	for _, in := range m.Messages {
		s.Prompt = append(s.Prompt, in.Segments...)
	}
	return s, nil
}

func (n *intake) native(ctx context.Context, p *pass, s State, signal NativeSignal) (State, error) {
	p.from(&s, Place{Address: signal.Source, Mode: Main})
	a, err := n.e.agent(signal.Agent)
	if err != nil {
		return s, err
	}
	s.Profile, s.Pending = signal.Profile, &Origin{Agent: signal.Agent}
	if signal.Scheme != nil {
		s.Private = signal.Scheme
		return s, nil
	}
	imports, ok := a.(Importer)
	if !ok {
		return s, fmt.Errorf("%w: %s takes over no native sessions", ErrForkUnsupported, signal.Agent)
	}
	// Before anything is opened: an unusable history must not announce a destination.
	model, err := imports.ValidateNative(ctx, signal.Source)
	if err != nil {
		return s, fmt.Errorf("reflex: native session: %w", err)
	}
	if model == "" {
		return s, fmt.Errorf("%w: the native session of %s does not say which one it had", ErrModelNotServed, signal.Agent)
	}
	if model, err = resolveModel(a, model); err != nil {
		return s, err
	}
	t, err := n.e.books.Threads.Ensure(ctx, threadAt(signal.Source))
	s.Thread, s.NativeOf, s.Request = t.ID, &signal.Source, signal.Teleport
	s.Decision = &Decision{Agent: signal.Agent, Model: model}
	return s, err
}

func (n *intake) thread(ctx context.Context, p *pass, s State, signal ThreadSignal) (State, error) {
	books := n.e.books
	t, err := books.Threads.Thread(ctx, signal.Thread)
	if err != nil {
		return s, err
	}
	p.from(&s, Place{Address: t.Address, Mode: modeOf(t)})
	visible, err := n.e.config.Users.Visible(ctx, signal.Profile, t)
	if err != nil {
		return s, err
	}
	owner, model, err := n.e.owner(ctx, t)
	if err != nil {
		return s, err
	}
	if !visible || owner != signal.Agent {
		return s, fmt.Errorf("%w: %s", ErrThreadChanged, t.ID)
	}
	if t.Kind == Native {
		return s, fmt.Errorf("%w: a native session has nothing here to hand over", ErrInvalidSignal)
	}
	var conversation Conversation
	if owner != "" {
		if conversation, err = books.Conversations.Ensure(ctx, t.ID, owner, ""); err != nil {
			return s, err
		}
	} else if signal.Teleport != nil {
		return s, fmt.Errorf("%w: nobody works in %s who could be moved", ErrInvalidSignal, t.ID)
	}
	s.Thread, s.Profile, s.Target = t.ID, &signal.Profile, s.Source
	s.Pending = &Origin{Agent: owner, Conversation: conversation.ID, Run: conversation.LastRun, Message: conversation.LastMessage}
	if d := signal.Summon; d != nil {
		if d.Destination != nil && d.Destination.ID() != t.Address.ID() {
			return s, fmt.Errorf("%w: %s is another place", ErrNotHere, d.Destination.ID())
		}
		s.Decision = &Decision{Agent: d.Agent, Model: d.Model, Effort: d.Effort, Brief: d.Brief}
		s.RunName = "summon"
		return s, nil
	}
	if conversation.Model != "" {
		model = conversation.Model
	}
	s.Decision, s.Request = &Decision{Agent: owner, Model: model}, signal.Teleport
	return s, nil
}

// owner returns the agent that a thread belongs to, and its model, empty if it is nobody's.
func (e *Engine) owner(ctx context.Context, t Thread) (agent, model string, err error) {
	h, err := e.books.Handoffs.Owner(ctx, t.Surface())
	if err != nil || h.Agent != "" {
		return h.Agent, h.Model, err
	}
	if t.Agent == "" {
		return "", "", nil
	}
	c, err := e.books.Conversations.Conversation(ctx, idOf("conversation", e.config.Tenant, t.ID, t.Agent, "").String())
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	return t.Agent, c.Model, err
}

// modeOf says how a run in a thread is addressed.
func modeOf(t Thread) Mode {
	if t.Address.Thread != "" {
		return Sub
	}
	return Main
}
