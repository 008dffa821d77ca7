package reflex

import (
	"context"
	"errors"
	"fmt"

	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/store"
)

// Run stores the answers and goes on with the run that asked, from the row of the batch alone.
func (n *resumeDeferred) Run(ctx context.Context, s State) (State, graph.Next[resumeDeferred], error) {
	var none graph.Next[resumeDeferred]
	p, err := n.e.enter(ctx, &s)
	if err != nil {
		return s, none, err
	}
	if s.Answer == nil {
		return s, none, coded(fmt.Errorf("%w: no batch", ErrInvariant))
	}
	b, err := n.e.books.Batches.Answer(ctx, *s.Answer)
	if err != nil {
		return s, none, coded(err)
	}
	if s, err = n.rebuild(ctx, p, s, b); err != nil {
		return s, none, coded(err)
	}
	if b.Status == BatchPending {
		return p.ends(s, Outcome{Kind: OutcomeSuspended, Batch: b.ID, Requests: b.Calls}), n.Deferred.Next(), nil
	}
	b, ours, err := n.e.books.Batches.Claim(ctx, b.ID, p.kick)
	if err != nil {
		return s, none, coded(err)
	}
	if !ours {
		return p.ends(s, Outcome{Kind: OutcomeResult, Batch: b.ID}), n.Done.Next(), nil
	}
	t, err := n.e.books.Threads.Thread(ctx, s.Thread)
	if err != nil {
		return s, none, coded(errors.Join(err, n.e.books.Batches.Release(context.WithoutCancel(ctx), b.ID, p.kick)))
	}
	p.publish(spotOf(t), BatchAnswered{Batch: b.ID, Status: b.Status, Actions: b.Actions, Responder: s.Answer.Responder})
	s.Batch, s.Results, s.Answer = b.ID, b.Results(), nil
	return s, n.React.Next(), nil
}

// rebuild makes the state that the run that asked had. The thread is found through the
// conversation: the address of a room would lead to a fresh one.
func (n *resumeDeferred) rebuild(ctx context.Context, p *pass, s State, b Batch) (State, error) {
	if _, err := n.e.channel(b.Target.Address.Channel); err != nil {
		return s, err
	}
	a, err := n.e.agent(b.Agent)
	if err != nil {
		return s, err
	}
	p.from(&s, b.Source)
	c, err := n.e.books.Conversations.Conversation(ctx, b.Conversation)
	if errors.Is(err, store.ErrNotFound) {
		err = fmt.Errorf("%w: %s has no conversation", ErrBatchOrphaned, b.ID)
	}
	if err != nil {
		return s, err
	}
	t, err := n.e.books.Threads.Thread(ctx, c.Thread)
	if errors.Is(err, ErrNoThread) {
		err = fmt.Errorf("%w: %w", ErrBatchOrphaned, err)
	}
	if err != nil {
		return s, err
	}
	s.Thread, s.Conversation, s.Target, s.RunName = t.ID, c.ID, b.Target, "resume"
	s.Decision = &Decision{Agent: a.ID(), Model: c.Model}
	if b.Decision != nil {
		s.Decision.Model, s.Decision.Effort = b.Decision.Model, b.Decision.Effort
	}
	if b.Asker != nil {
		profile, err := n.e.config.Users.Profile(ctx, b.Asker.Channel, b.Asker.ID)
		if err != nil {
			return s, err
		}
		s.Profile = &profile
	}
	return s, nil
}
