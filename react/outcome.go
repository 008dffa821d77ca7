package react

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/internal/wire"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/state"
)

// outcome is how a tool call ended: what is kept of its task, and what its message, its events
// and its changes of the state are made of.
type outcome struct {
	Output   json.RawMessage `json:"output,omitempty"`
	Error    string          `json:"error,omitempty"`
	Code     string          `json:"code,omitempty"`
	Context  state.Patch     `json:"context,omitempty"` // checked; relative to the context
	Order    int64           `json:"order,omitempty"`   // among the outcomes that change the context
	Messages message.List    `json:"messages,omitempty"`
}

func (o *outcome) changes() bool { return len(o.Context) > 0 }

func (o *outcome) orderOr() int64 {
	if o == nil {
		return 0
	}
	return o.Order
}

// message returns the tool message of the outcome, under an id (contract 3.3, R12).
func (o *outcome) message(call message.ToolCall, caller *message.Assistant, id uuid.UUID) *message.Tool {
	text := o.Error
	if o.Output != nil {
		text = wire.PlainText(o.Output)
	}
	return &message.Tool{
		Header:     message.Header{ID: id, Name: call.Name},
		ToolCallID: call.ID, ParentMessageID: caller.ID, Content: &text, Error: o.Error,
	}
}

// call executes one call and returns how it ended. An error means that it did not: the tool
// asked, aborted the run, or was stopped.
func (b *batch) call(ctx context.Context, c *openCall) (*outcome, error) {
	if ctx.Err() != nil { // while the reply was written
		return nil, context.Cause(ctx)
	}
	b.order.Lock()
	now := b.state
	b.order.Unlock()
	if c.tool == nil {
		return failed(CodeNotFound, fmt.Sprintf("Tool '%s' not found", c.Name)), nil
	}
	spec := &c.tool.spec
	if !allowed(spec.Capabilities, granted(b.agent.config.CapabilityPolicy, b.agent.config.Capabilities, now.CapabilityOverride)) {
		return failed(CodeDenied, fmt.Sprintf("Tool '%s' is not allowed", c.Name)), nil
	}
	validate := c.tool.arguments.matches
	if spec.Approval {
		validate = c.tool.arguments.validate // nobody is to be asked about what cannot be
	}
	if err := validate(c.Arguments); err != nil {
		return failed(CodeInvalidArguments, err.Error()), nil
	}
	scope := &toolScope{Context: ctx, callID: c.ID, state: now}
	var toolCtx context.Context = scope
	if spec.Timeout > 0 {
		var cancel context.CancelFunc
		toolCtx, cancel = context.WithTimeout(toolCtx, spec.Timeout)
		defer cancel()
	}
	arguments, _ := cleanArguments(c.Arguments) // validated above
	call := ToolCall{ID: c.ID, Name: c.Name, Arguments: arguments, IdempotencyKey: graph.IdempotencyKey(ctx), validated: true}
	var result ToolResult
	var err error
	if spec.Approval {
		err = approve(toolCtx, call)
	}
	if err == nil {
		result, err = protect(toolCtx, c.tool.tool, call)
	}
	switch {
	case err == nil:
	case errors.Is(err, graph.ErrInterrupted):
		return nil, err
	case isAbort(err):
		return nil, err
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	default:
		return failed(b.diagnose(toolCtx, c, err, spec.Timeout)), nil
	}
	scope.mu.Lock()
	defer scope.mu.Unlock()
	return b.finished(result, scope.ops), nil
}

// protect calls a tool and turns its panic into an error.
func protect(ctx context.Context, t Tool, call ToolCall) (result ToolResult, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &graph.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return t.Call(ctx, call)
}

// diagnose returns the code and the text for an error of a tool.
func (b *batch) diagnose(ctx context.Context, c *openCall, err error, timeout time.Duration) (code, text string) {
	if p, ok := errors.AsType[*graph.PanicError](err); ok {
		b.agent.config.Logger.ErrorContext(ctx, "tool panicked", "tool", c.Name, "call", c.ID, "panic", p.Value, "stack", string(p.Stack))
		return CodePanic, fmt.Sprintf("panic: %v", p.Value)
	}
	if e, ok := errors.AsType[*RejectedError](err); ok {
		return CodeRejected, e.Error()
	}
	if e, ok := errors.AsType[*ArgumentError](err); ok {
		return CodeInvalidArguments, e.Error()
	}
	if ctx.Err() != nil && errors.Is(err, context.DeadlineExceeded) {
		return CodeTimeout, fmt.Sprintf("the tool took longer than %v", timeout)
	}
	return CodeExecution, err.Error()
}

func failed(code, text string) *outcome {
	if text == "" {
		text = "the tool failed"
	}
	return &outcome{Code: code, Error: toValid(text)}
}

// finished makes an outcome of a tool's result and of the changes that it made on the way.
func (b *batch) finished(result ToolResult, ops state.Patch) *outcome {
	out := &outcome{Output: b.output(result.Output)}
	more, messages, err := parseStateUpdate(result.StateUpdate)
	if err != nil {
		// The tool did its work: the model sees the output as well as what is wrong.
		out.Code, out.Error = CodeInvalidStateUpdate, toValid(err.Error())
		return out
	}
	out.Context, out.Messages = append(ops, more...), messages
	return out
}

// output returns a tool's output as it is kept: clean JSON, cut if it is too long.
func (b *batch) output(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	clean, err := wire.Clean(raw)
	if err != nil {
		clean, _ = wire.Marshal(toValid(string(raw))) // no JSON: it is text then
	}
	limit := b.agent.config.MaxToolOutput
	if len(clean) <= limit {
		return clean
	}
	var text string
	if json.Unmarshal(clean, &text) != nil {
		text = string(clean)
	}
	for limit = min(limit, len(text)); limit > 0 && limit < len(text) && !utf8.RuneStart(text[limit]); limit-- {
	}
	cut, _ := wire.Marshal(fmt.Sprintf("%s\n[cut: the output has %d bytes]", text[:limit], len(clean)))
	return cut
}

// check tries an outcome's changes on the context as it is now. If they do not fit, the outcome
// becomes a failure that keeps its output. The caller holds order.
func (b *batch) check(out *outcome) {
	if _, err := b.state.applyContext(out.Context); err != nil {
		out.Context, out.Messages = nil, nil
		out.Code, out.Error = CodeInvalidStateUpdate, toValid(err.Error())
		return
	}
	out.Order = b.count + 1
}
