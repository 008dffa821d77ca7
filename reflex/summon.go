package reflex

import (
	"context"
	"fmt"

	"github.com/everstep-go/everstep/graph"
)

// Run hands the conversation to another agent, where it is. The row of the hand-over is written by
// the run that follows, which then says it.
func (n *handoff) Run(ctx context.Context, s State) (State, graph.Next[handoff], error) {
	var none graph.Next[handoff]
	if _, err := n.e.enter(ctx, &s); err != nil {
		return s, none, err
	}
	s, err := n.handOver(ctx, s)
	if err != nil {
		return s, none, coded(err)
	}
	return s, n.React.Next(), nil
}

func (n *handoff) handOver(ctx context.Context, s State) (State, error) {
	if s.Decision == nil || s.Target.IsZero() {
		return s, fmt.Errorf("%w: a hand-over needs a decision and a place", ErrInvariant)
	}
	t, err := n.e.books.Threads.Thread(ctx, s.Thread)
	if err != nil {
		return s, err
	}
	if t.InGroup() {
		return s, fmt.Errorf("%w: nobody owns the main surface of a group", ErrNotHere)
	}
	if _, _, err := n.e.resolve(s.Target.Address.Channel, s.Decision.Agent, s.Decision.Model); err != nil {
		return s, err
	}
	s.RunName = "summon"
	s.Announce = &announced{At: spotOf(t), Moved: Moved{Action: "summon", Agent: s.Decision.Agent, Destination: t.Address}}
	return s, nil
}
