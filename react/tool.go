package react

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"time"

	"github.com/everstep-go/everstep/internal/wire"
	"github.com/everstep-go/everstep/message"
)

// Tool is something a model can call. Both methods may be called from several goroutines at once, and Spec
// always returns the same.
//
// An ordinary error of Call goes to the model, which can react to it. [Abort] fails the run instead, and what
// [graph.Interrupt] returns, passed on, asks a human. A panic counts as an error.
type Tool interface {
	Spec() ToolSpec
	Call(ctx context.Context, call ToolCall) (ToolResult, error)
}

// ToolSpec describes a tool: what the model is told about it, and how it is to be called.
type ToolSpec struct {
	// ToolSpec is for the model. The name is 1 to 64 letters, digits, "_" and "-"; it is stored with the calls
	// and outlives a renaming. Parameters is a JSON schema of type object; arguments that do not fit it never
	// reach the tool.
	message.ToolSpec
	ToolOptions
}

// ToolOptions say how a tool is to be called. The zero value is a tool for everyone, which may run beside
// others and, after a crash, a second time with the same idempotency key.
type ToolOptions struct {
	// Capabilities are those an agent must have been granted for the tool to be offered and called.
	Capabilities []string

	// AtMostOnce: a call whose outcome a crash left unknown must not be made again. The model then hears that
	// the outcome is unknown, or what Reconcile finds.
	AtMostOnce bool

	// Reconcile finds out what became of a call of an AtMostOnce tool that was started. It gets the idempotency
	// key of the call. Nil: nobody can tell.
	Reconcile func(ctx context.Context, idempotencyKey string) (ToolResult, error)

	// Timeout is how long a call may take before its context is cancelled. Zero: as long as it likes.
	Timeout time.Duration

	// Sequential: a call never runs beside another one of the same reply.
	Sequential bool

	// Approval: a human must agree to each call before it is made; see [Approval].
	Approval bool
}

// ToolCall is one call of a tool.
type ToolCall struct {
	ID        string // given by the model's provider
	Name      string
	Arguments json.RawMessage

	// IdempotencyKey is the same however often this call is made, and different for every other one: pass it on
	// to whoever does the work. It is what [graph.IdempotencyKey] returns for the context of the call.
	IdempotencyKey string

	validated bool // by the agent
}

// ToolResult is what a call returns. The model gets the output; the state update is applied to the run.
type ToolResult struct {
	Output json.RawMessage `json:"output"` // any JSON; nil is null

	// StateUpdate is a patch (RFC 6902) of the document {"messages":[],"context":[]}; nil: none. It appends
	// operations on the context at /context/- and messages of a user or the system at /messages/-:
	//
	//	[{"op":"add","path":"/context/-","value":{"op":"add","path":"/last_city","value":"Oslo"}}]
	StateUpdate json.RawMessage `json:"state_update,omitempty"`
}

// NewTool returns a tool that calls fn. The JSON schema of the arguments is made from In, a struct or a map with
// text keys: a field is named by its json tag, described by its jsonschema tag, and may be left out if it has
// omitempty or omitzero. The arguments are validated before the call. The output is the JSON of what fn returns,
// unless Out is [ToolResult]: that is passed on as it is.
//
// NewTool never fails, so that it fits into a literal: what is wrong with the types, [New] says. Of several
// options the last counts.
//
// In fn, [graph.IdempotencyKey] gives the key of the call. An [*ArgumentError] that fn returns is treated as the
// ones of the validation.
func NewTool[In, Out any](name, description string, fn func(context.Context, In) (Out, error), opts ...*ToolOptions) Tool {
	t := &typedTool[In, Out]{fn: fn}
	for _, o := range opts {
		if o != nil {
			t.spec.ToolOptions = *o
		}
	}
	t.spec.Capabilities = slices.Clone(t.spec.Capabilities)
	t.spec.Name, t.spec.Description = name, description
	if t.spec.Parameters, t.err = infer(reflect.TypeFor[In]()); t.err != nil {
		return t
	}
	if t.validator, t.err = newValidator(t.spec.Parameters); t.err != nil {
		t.err = fmt.Errorf("parameters: %w", t.err)
		return t
	}
	t.validator.decodes = func(arguments json.RawMessage) error {
		_, err := t.decode(arguments)
		return err
	}
	switch kind := reflect.TypeFor[Out]().Kind(); {
	case fn == nil:
		t.err = errors.New("the func is nil")
	case kind == reflect.Func, kind == reflect.Chan, kind == reflect.Complex64, kind == reflect.Complex128:
		t.err = fmt.Errorf("a result of type %v has no JSON", reflect.TypeFor[Out]())
	}
	return t
}

type typedTool[In, Out any] struct {
	spec      ToolSpec
	fn        func(context.Context, In) (Out, error)
	validator *validator
	err       error // what is wrong with the types
}

func (t *typedTool[In, Out]) Spec() ToolSpec { return t.spec }

func (t *typedTool[In, Out]) Call(ctx context.Context, call ToolCall) (ToolResult, error) {
	if t.err != nil {
		return ToolResult{}, checkTool(t)
	}
	if !call.validated {
		if err := t.validator.validate(call.Arguments); err != nil {
			return ToolResult{}, err
		}
	}
	in, err := t.decode(call.Arguments)
	if err != nil {
		return ToolResult{}, err
	}
	out, err := t.fn(ctx, in)
	if err != nil {
		return ToolResult{}, err
	}
	if r, ok := any(out).(ToolResult); ok {
		return r, nil
	}
	output, err := wire.Marshal(out)
	if err != nil {
		return ToolResult{}, fmt.Errorf("react: tool %q: output: %w", t.spec.Name, err)
	}
	return ToolResult{Output: output}, nil
}

// decode reads arguments that fit the schema. They may still not fit the type: the schema knows of no largest
// int64.
func (t *typedTool[In, Out]) decode(arguments json.RawMessage) (in In, err error) {
	data, err := cleanArguments(arguments)
	if err != nil {
		return in, err
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return in, unfit(err)
	}
	return in, nil
}

func (t *typedTool[In, Out]) check() error { return t.err }

func (t *typedTool[In, Out]) validates() *validator { return t.validator }

// toolName is the pattern that all providers agree on.
var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// checkTool says all that is wrong with a tool before it is ever called.
func checkTool(t Tool) error {
	if t == nil {
		return errors.New("react: a tool is nil")
	}
	spec := t.Spec()
	var errs []error
	add := func(err error) { errs = append(errs, fmt.Errorf("react: tool %q: %w", spec.Name, err)) }
	if !toolName.MatchString(spec.Name) {
		add(errors.New(`a name is 1 to 64 letters, digits, "_" and "-"`))
	}
	if _, err := validatorOf(t); err != nil {
		add(err)
	}
	if spec.Timeout < 0 {
		add(fmt.Errorf("timeout %v is negative", spec.Timeout))
	}
	if spec.Reconcile != nil && !spec.AtMostOnce {
		add(errors.New("option Reconcile is for AtMostOnce tools"))
	}
	if slices.Contains(spec.Capabilities, "") {
		add(errors.New("a capability is empty"))
	}
	return errors.Join(errs...)
}

// validatorOf returns what validates the arguments of a tool, to be kept beside it.
func validatorOf(t Tool) (*validator, error) {
	if c, ok := t.(interface{ check() error }); ok {
		if err := c.check(); err != nil {
			return nil, err
		}
	}
	if c, ok := t.(interface{ validates() *validator }); ok {
		return c.validates(), nil
	}
	v, err := newValidator(t.Spec().Parameters)
	if err != nil {
		return nil, fmt.Errorf("parameters: %w", err)
	}
	return v, nil
}

// AbortError is the error of a tool that gives up the run; see [Abort].
type AbortError struct{ Err error }

// Abort marks err as the end of the run. Returned by a tool, it is not told to the model: the run fails, with
// the code "aborted". The results of the other calls of the reply are kept. Nil stays nil.
func Abort(err error) error {
	if err == nil {
		return nil
	}
	return &AbortError{Err: err}
}

func (e *AbortError) Error() string { return "react: aborted: " + e.Err.Error() }

// Unwrap returns the error that was given to [Abort].
func (e *AbortError) Unwrap() error { return e.Err }
