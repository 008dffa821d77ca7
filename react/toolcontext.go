package react

import (
	"context"
	"errors"
	"sync"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/state"
)

// toolScope is the context of a tool, and what it finds there.
type toolScope struct {
	context.Context
	callID string
	state  State

	mu  sync.Mutex // guards ops
	ops state.Patch
}

type toolKey struct{}

// Value finds the scope itself; the rest is the task's.
func (t *toolScope) Value(key any) any {
	if key == (toolKey{}) {
		return t
	}
	return t.Context.Value(key)
}

// StateFrom returns, inside a tool, the session's state as it was when the tool started; ok is
// false elsewhere.
func StateFrom(ctx context.Context) (s State, ok bool) {
	t, ok := ctx.Value(toolKey{}).(*toolScope)
	if !ok {
		return State{}, false
	}
	return t.state, true
}

// UpdateContext changes the context of the session from inside a tool. The operations, with
// paths relative to the context, are applied together when the tool finishes, after those of
// tools that finished earlier. If they do not fit then, none is applied and the call fails with
// the code invalid_state_update. An error means that there is no tool around.
func UpdateContext(ctx context.Context, ops ...state.Operation) error {
	t, ok := ctx.Value(toolKey{}).(*toolScope)
	if !ok {
		return errors.New("react: UpdateContext outside of a tool")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ops = append(t.ops, ops...)
	return nil
}

// EmitActivity tells the client about the progress of a tool, from inside it: a JSON Patch on
// whatever the client shows for that type of activity. It is not kept. Elsewhere it does nothing.
func EmitActivity(ctx context.Context, activityType string, patch state.Patch) {
	if t, ok := ctx.Value(toolKey{}).(*toolScope); ok {
		graph.Emit(ctx, event.ActivityDelta{ToolCallID: t.callID, ActivityType: activityType, Patch: patch})
	}
}
