package react

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/message"
)

// callTools settles the calls of the latest reply that have no result (contract 3.3). The tools
// of the agent run in parallel, each as a task: its result is durable before anybody hears of
// it, and never computed twice. Calls for the client are announced, and end the run.
type callTools struct {
	agent *Agent

	CallModel graph.Edge[callTools, callModel] `when:"all calls have results"`
	Exit      graph.Edge[callTools, exit]      `when:"calls are the client's"`
}

func (n *callTools) Run(ctx context.Context, s State) (State, graph.Next[callTools], error) {
	var none graph.Next[callTools]
	s = begin(ctx, s)
	open, caller := s.pending()
	if len(open) == 0 {
		return s, none, errors.New("react: no tool call is without a result")
	}
	b := newBatch(n.agent, s, caller, open)
	b.announce(ctx)
	b.run(ctx)
	s, err := b.settled(ctx)
	if err != nil {
		graph.Keep(ctx, s)
		if isAbort(err) {
			err = graph.Fail(CodeAborted, err.Error(), err)
		}
		return s, none, err
	}
	if b.forClient {
		return s, n.Exit.Next(), nil
	}
	return s, n.CallModel.Next(), nil
}

// batch is the open calls of one reply.
type batch struct {
	agent     *Agent
	caller    *message.Assistant
	calls     []*openCall
	forClient bool

	exclusive sync.RWMutex // write-locked by a sequential tool

	// order is held from the moment a tool's changes of the context are checked until their
	// record is durable: so the order in which they apply is the order in which they are kept.
	order sync.Mutex
	state State // with the changes of the tools that finished; guarded by order
	count int64 // of the outcomes that changed the context; guarded by order
}

// openCall is one call and what became of it.
type openCall struct {
	message.ToolCall
	tool    *registered // nil: not a tool of the agent
	client  bool        // only the client can execute it
	resting error       // it asked, and nobody has answered yet
	result  uuid.UUID   // id of the message that holds the result
	outcome *outcome    // nil: not settled
	err     error       // why not
}

func newBatch(a *Agent, s State, caller *message.Assistant, open []message.ToolCall) *batch {
	b := &batch{agent: a, state: s, caller: caller}
	for _, call := range open {
		c := &openCall{ToolCall: call, tool: a.tools[call.Name], result: resultID(caller, call.ID)}
		c.client = c.tool == nil && s.isClientTool(call.Name)
		b.forClient = b.forClient || c.client
		b.calls = append(b.calls, c)
	}
	return b
}

// announce says which calls are taken up, in the order of the reply (contract R3, R27).
func (b *batch) announce(ctx context.Context) {
	lost := errors.Is(context.Cause(ctx), graph.ErrProcessLost)
	for _, c := range b.calls {
		if !c.client {
			c.resting = graph.Unanswered(ctx, c.ID)
		}
		switch {
		case c.resting != nil && ctx.Err() == nil:
		case lost && !graph.TaskDone(ctx, c.ID) && !graph.TaskStarted(ctx, c.ID): // it stays open
		default:
			announce(ctx, c.ToolCall, b.caller.ID)
		}
	}
}

func announce(ctx context.Context, call message.ToolCall, caller uuid.UUID) {
	graph.Emit(ctx, event.ToolCallStart{ToolCallID: call.ID, ToolName: call.Name, ParentMessageID: caller})
	graph.Emit(ctx, event.ToolCallArgs{ToolCallID: call.ID, Delta: string(call.Arguments)})
	graph.Emit(ctx, event.ToolCallEnd{ToolCallID: call.ID})
}

// run settles what can be settled: first what an earlier attempt at the step has finished, in
// the order in which it did, then the rest.
func (b *batch) run(ctx context.Context) {
	var kept, rest []*openCall
	for _, c := range b.calls {
		switch {
		case c.client || c.resting != nil:
		case graph.TaskDone(ctx, c.ID):
			kept = append(kept, c)
		default:
			rest = append(rest, c)
		}
	}
	for _, c := range kept {
		c.outcome, c.err = graph.Task(ctx, c.ID, func(context.Context) (*outcome, error) {
			return nil, errors.New("react: a kept result is gone")
		})
		if c.err == nil && c.outcome == nil {
			c.err = fmt.Errorf("react: the kept result of call %q is damaged", c.ID)
		}
	}
	slices.SortStableFunc(kept, func(x, y *openCall) int { return int(x.outcome.orderOr() - y.outcome.orderOr()) })
	for _, c := range kept {
		if c.err == nil {
			b.order.Lock()
			c.err = b.apply(ctx, c, c.outcome)
			b.order.Unlock()
		}
	}
	if ctx.Err() != nil {
		return
	}
	// A tool that aborts the run stops the others.
	tools, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	if len(rest) == 1 || b.agent.config.ToolConcurrency == 1 {
		for _, c := range rest {
			b.settle(tools, c, abort)
		}
		return
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, b.agent.config.ToolConcurrency)
	for _, c := range rest {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			b.settle(tools, c, abort)
		})
	}
	wg.Wait()
}

const outcomeUnknown = "outcome unknown: the process died while the tool ran, and it must not run twice"

// settle runs one call as a task.
func (b *batch) settle(ctx context.Context, c *openCall, abort context.CancelCauseFunc) {
	if ctx.Err() != nil {
		c.err = context.Cause(ctx)
		return
	}
	opts := &graph.TaskOptions{Name: c.Name, Unique: true}
	ordered := false
	defer func() {
		if ordered {
			b.order.Unlock()
		}
	}()
	inOrder := func(out *outcome) *outcome {
		if out.changes() {
			b.order.Lock()
			ordered = true
			b.check(out)
		}
		return out
	}
	if c.tool != nil {
		if c.tool.spec.Sequential {
			b.exclusive.Lock()
			defer b.exclusive.Unlock()
		} else {
			b.exclusive.RLock()
			defer b.exclusive.RUnlock()
		}
		opts.AtMostOnce = c.tool.spec.AtMostOnce
		if reconcile := c.tool.spec.Reconcile; reconcile != nil {
			opts.Reconcile = func(ctx context.Context, key string) (any, error) {
				result, err := reconcile(ctx, key)
				if err != nil {
					return nil, err
				}
				return inOrder(b.finished(result, nil)), nil
			}
		}
	}
	out, err := graph.Task(ctx, c.ID, func(ctx context.Context) (*outcome, error) {
		out, err := b.call(ctx, c)
		if err != nil {
			return nil, err
		}
		return inOrder(out), nil
	}, opts)
	switch {
	case err == nil:
		c.outcome, c.err = out, b.apply(ctx, c, out)
	case errors.Is(err, graph.ErrOutcomeUnknown):
		c.outcome = &outcome{Error: outcomeUnknown, Code: CodeOutcomeUnknown}
		c.err = b.apply(ctx, c, c.outcome)
	default:
		c.err = err
		if _, ok := errors.AsType[*AbortError](err); ok {
			abort(err)
		}
	}
}

// apply makes an outcome part of the state, and says it. The caller holds order if the outcome
// changes the context.
func (b *batch) apply(ctx context.Context, c *openCall, out *outcome) error {
	if len(out.Context) > 0 {
		s, err := b.state.applyContext(out.Context)
		if err != nil {
			return err // it did fit when it was recorded
		}
		b.state, b.count = s, max(b.count, out.Order)
		graph.Emit(ctx, event.StateDelta{Delta: out.Context})
	}
	if out.Error != "" {
		graph.Emit(ctx, event.ToolCallError{ToolCallID: c.ID, MessageID: c.result, Error: out.Error, Code: out.Code})
	} else {
		graph.Emit(ctx, event.ToolCallResult{ToolCallID: c.ID, MessageID: c.result, Content: out.Output})
	}
	return nil
}

// settled returns the state with the results of what is settled, in the order of the reply, and
// an error if the node must not go on.
func (b *batch) settled(ctx context.Context) (State, error) {
	cause := b.failure(ctx)
	if cause != nil && (errors.Is(cause, graph.ErrCancelled) || isAbort(cause)) {
		b.giveUp(ctx, "cancelled", CodeCancelled, func(*openCall) bool { return true })
	} else if errors.Is(cause, graph.ErrProcessLost) {
		b.giveUp(ctx, outcomeUnknown, CodeOutcomeUnknown,
			func(c *openCall) bool { return graph.TaskStarted(ctx, c.ID) })
	}
	s := b.state
	var more []message.Message
	for _, c := range b.calls {
		if c.outcome == nil {
			continue
		}
		s = s.append(c.outcome.message(c.ToolCall, b.caller, c.result))
		more = append(more, c.outcome.Messages...)
	}
	return s.append(more...), cause
}

// failure returns why the node must not go on: the worst of what happened.
func (b *batch) failure(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var asked []error
	var broken error
	for _, c := range b.calls {
		switch err := cmp.Or(c.resting, c.err); {
		case err == nil:
		case isAbort(err):
			return err
		case errors.Is(err, graph.ErrInterrupted):
			asked = append(asked, err)
		default:
			broken = err
		}
	}
	if broken != nil {
		return broken
	}
	return errors.Join(asked...)
}

// giveUp gives the calls that are not settled a made-up result.
func (b *batch) giveUp(ctx context.Context, text, code string, which func(*openCall) bool) {
	for _, c := range b.calls {
		if c.outcome == nil && which(c) {
			c.outcome = &outcome{Error: text, Code: code}
			_ = b.apply(ctx, c, c.outcome) // it changes no context: nothing can fail
		}
	}
}

func isAbort(err error) bool {
	_, ok := errors.AsType[*AbortError](err)
	return ok
}

// resultID is the id of the message that holds a call's result. It follows from the call, so
// that whatever is said about the result twice, after a crash, is the same.
func resultID(caller *message.Assistant, callID string) uuid.UUID {
	return hashedID(append(append(make([]byte, 0, 96), caller.ID[:]...), callID...))
}

// hashedID returns an id that follows from a text. It is of version 4 like all others, and as
// good as random if the text is.
func hashedID(text []byte) uuid.UUID {
	sum := sha256.Sum256(text)
	id := uuid.UUID(sum[:16])
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id
}

// failedResult is the message for a call that failed without output (contract R12).
func failedResult(call message.ToolCall, caller *message.Assistant, text string) *message.Tool {
	return (&outcome{Error: text}).message(call, caller, resultID(caller, call.ID))
}

func toValid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
