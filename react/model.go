package react

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/everstep-go/everstep/message"
)

// Model is a language model. Generate streams one reply: deltas that add up to it, the last of
// them a message.Done; a sequence that ends without one was cut off. An error is the last thing
// it yields, beside a nil delta. Errors that may pass are marked by message.Transient, and are
// retried as long as nothing was streamed.
//
// Generate must give up when ctx ends, and must not change the request. It is called by many
// runs at once.
type Model interface {
	Generate(ctx context.Context, req *message.Request) iter.Seq2[message.Delta, error]
}

// ModelFunc is a func that returns whole replies as a [Model]: for fakes, and for providers
// that do not stream.
type ModelFunc func(ctx context.Context, req *message.Request) (message.Reply, error)

// Generate streams the reply of f.
func (f ModelFunc) Generate(ctx context.Context, req *message.Request) iter.Seq2[message.Delta, error] {
	return func(yield func(message.Delta, error) bool) {
		reply, err := f(ctx, req)
		if err != nil {
			yield(nil, err)
			return
		}
		for _, r := range reply.Reasoning {
			if !yield(r, nil) {
				return
			}
		}
		if reply.Text != "" && !yield(message.TextDelta{Text: reply.Text}, nil) {
			return
		}
		for i, c := range reply.ToolCalls {
			if !yield(message.ToolCallDelta{Index: i, ID: c.ID, Name: c.Name, Arguments: string(c.Arguments)}, nil) {
				return
			}
		}
		yield(message.Done{Usage: reply.Usage, FinishReason: reply.FinishReason, Model: reply.Model}, nil)
	}
}

// ModelConfig is what a client chooses about the model (contract 4.1). Each part that is not set
// is the agent's default.
type ModelConfig struct {
	Override *ModelOverride `json:"override,omitempty"`
	// Timeout is how long the reply may take to begin, in milliseconds.
	Timeout *int64       `json:"timeout,omitempty"`
	Retry   *RetryPolicy `json:"retry,omitempty"`
}

// ModelOverride picks another model, or tunes it. The parts fall back to the agent's defaults
// each on its own.
type ModelOverride struct {
	Provider        string          `json:"provider,omitempty"`
	Model           string          `json:"model,omitempty"`
	InferenceParams *message.Params `json:"inference_params,omitempty"`
}

// RetryPolicy says how often a reply that could not begin is asked for again. Only errors that
// may pass are retried, and never once something was streamed.
type RetryPolicy struct {
	MaxAttempts    int   `json:"max_attempts"`    // with the first one
	InitialBackoff int64 `json:"initial_backoff"` // milliseconds before the second attempt
	MaxBackoff     int64 `json:"max_backoff"`     // milliseconds
}

// UnmarshalJSON wants all three members (contract 3.8).
func (p *RetryPolicy) UnmarshalJSON(data []byte) error {
	var all struct {
		MaxAttempts    *int   `json:"max_attempts"`
		InitialBackoff *int64 `json:"initial_backoff"`
		MaxBackoff     *int64 `json:"max_backoff"`
	}
	if err := json.Unmarshal(data, &all); err != nil {
		return err
	}
	if all.MaxAttempts == nil || all.InitialBackoff == nil || all.MaxBackoff == nil {
		return errors.New("react: retry needs max_attempts, initial_backoff and max_backoff")
	}
	*p = RetryPolicy{*all.MaxAttempts, *all.InitialBackoff, *all.MaxBackoff}
	return nil
}

// maxRetryAfter caps what a provider may make a run wait before the next attempt.
const maxRetryAfter = time.Minute

// backoff is the wait before the attempt after the n-th: what the provider asks for, or twice
// as long each time with up to a quarter more by chance, so that many runs do not return at once.
func (p *RetryPolicy) backoff(n int, retryAfter time.Duration) time.Duration {
	if retryAfter > 0 {
		return min(retryAfter, maxRetryAfter)
	}
	wait, limit := time.Duration(p.InitialBackoff)*time.Millisecond, time.Duration(p.MaxBackoff)*time.Millisecond
	for ; n > 1 && wait < limit; n-- {
		wait *= 2
	}
	wait = min(wait, limit)
	if wait <= 0 {
		return 0
	}
	return wait + rand.N(wait/4+1)
}

var (
	errModelTimeout = errors.New("react: the model's reply did not begin in time")
	errModelIdle    = errors.New("react: the model's reply came to a halt")
	errModelCut     = errors.New("react: the model's reply ended without message.Done: it was cut off")
)

// call is one call of a model with everything decided.
type call struct {
	provider string // of the model, as the agent calls it
	model    Model
	request  *message.Request
	timeout  time.Duration // until the first delta, zero: none
	idle     time.Duration // between deltas, zero: none
	retry    *RetryPolicy  // nil: one attempt
}

// stream asks the model until a reply begins, and hands its deltas to each.
func (c *call) stream(ctx context.Context, each func(message.Delta)) error {
	for n := 1; ; n++ {
		began, err := c.attempt(ctx, each)
		if err == nil || began || c.retry == nil || n >= c.retry.MaxAttempts || ctx.Err() != nil {
			return err
		}
		var after time.Duration
		if transient, ok := errors.AsType[*message.TransientError](err); ok {
			after = transient.RetryAfter
		} else if !errors.Is(err, errModelTimeout) {
			return err
		}
		timer := time.NewTimer(c.retry.backoff(n, after))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}

// attempt asks once. Began reports whether anything was streamed.
func (c *call) attempt(ctx context.Context, each func(message.Delta)) (began bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a := &attempt{call: *c, cancel: cancel, each: each}
	defer a.stop()
	if c.timeout > 0 {
		a.timer = time.AfterFunc(c.timeout, func() { cancel(errModelTimeout) })
	}
	// The loop does no more than fill a: whatever else it touched would be moved to the heap.
	for delta, err := range c.model.Generate(ctx, c.request) {
		if a.err = err; err != nil || !a.take(delta) {
			break
		}
	}
	switch {
	case a.err != nil:
		return a.began, because(ctx, a.err)
	case !a.began || !a.done:
		return a.began, because(ctx, errModelCut)
	}
	return true, nil
}

// attempt is one try at a reply.
type attempt struct {
	call
	cancel context.CancelCauseFunc
	each   func(message.Delta)
	timer  *time.Timer // for the beginning, then for the pauses; nil if there is no limit
	began  bool
	done   bool
	err    error // that the model yielded
}

// take hands on a delta, and reports whether more may come.
func (a *attempt) take(delta message.Delta) bool {
	if !a.began && a.timer != nil && !a.timer.Stop() {
		return false // it came too late: the context has ended already
	}
	switch {
	case a.idle <= 0:
	case !a.began:
		a.timer = time.AfterFunc(a.idle, func() { a.cancel(errModelIdle) })
	default:
		a.timer.Reset(a.idle)
	}
	a.began = true
	_, a.done = delta.(message.Done)
	a.each(delta)
	return !a.done
}

func (a *attempt) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}

// because returns why a stream broke: what ended its context, if that is what did.
func because(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	switch {
	case cause == nil || errors.Is(err, cause):
		return err
	case errors.Is(err, errModelCut):
		return cause
	}
	return fmt.Errorf("%w: %w", cause, err)
}
