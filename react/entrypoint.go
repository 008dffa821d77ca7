package react

import (
	"context"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/message"
)

// entrypoint starts a run: it says what the run starts with, and decides where it goes from the
// conversation (contract 3.1).
type entrypoint struct {
	agent *Agent

	CallModel graph.Edge[entrypoint, callModel] `when:"the model is to answer"`
	CallTools graph.Edge[entrypoint, callTools] `when:"calls have no result"`
	Exit      graph.Edge[entrypoint, exit]      `when:"nothing to do"`
}

func (n *entrypoint) Run(ctx context.Context, s State) (State, graph.Next[entrypoint], error) {
	s = begin(ctx, s)
	last := s.last()
	open, _ := s.pending()
	switch {
	case last != nil && last.Role() == message.RoleUser:
		return s, n.CallModel.Next(), nil
	case len(open) > 0:
		return s, n.CallTools.Next(), nil
	case last != nil && last.Role() == message.RoleTool:
		return s, n.CallModel.Next(), nil
	}
	return s, n.Exit.Next(), nil
}

// begin says what a run starts with, before anything else and wherever the run starts
// (contract R10): the context, and the results that were made up for calls that the input
// abandoned.
func begin(ctx context.Context, s State) State {
	if s.begun {
		return s
	}
	graph.Emit(ctx, event.StateSnapshot{State: s.Context})
	for _, m := range s.made {
		announce(ctx, m.call, m.result.ParentMessageID)
		graph.Emit(ctx, event.ToolCallError{ToolCallID: m.call.ID, MessageID: m.result.ID, Error: m.result.Error, Code: m.code})
	}
	s.begun, s.made = true, nil
	return s
}

// exit ends a run: it says what the conversation is now.
type exit struct {
	End graph.End[exit]
}

func (n *exit) Run(ctx context.Context, s State) (State, graph.Next[exit], error) {
	s = begin(ctx, s)
	graph.Emit(ctx, event.MessagesSnapshot{Messages: s.Messages})
	return s, n.End.Next(), nil
}
