package react

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/everstep-go/everstep/message"
)

// Alternative is a model to ask when another one cannot answer.
type Alternative struct {
	Model Model
	// Name replaces message.Request.Model, which is the other's; empty leaves it.
	Name string
}

// Fallback returns a model that asks the alternatives in turn when the first one does not begin
// to answer, for an error of which when says so. Nil means [Unavailable]. Once something was
// streamed nobody else is asked. The error is that of the last one that was asked. The reply says
// which model answered, in message.Done.
func Fallback(when func(error) bool, first Model, others ...Alternative) Model {
	if when == nil {
		when = Unavailable
	}
	return &fallback{when: when, models: append([]Alternative{{Model: first}}, others...)}
}

// Unavailable reports whether an error says that a model cannot answer now, and perhaps another
// one can: it may pass, or the account may not ask, or there is no such model.
func Unavailable(err error) bool {
	_, passes := errors.AsType[*message.TransientError](err)
	return passes || errors.Is(err, message.ErrUnauthorized) || errors.Is(err, message.ErrModelNotAllowed)
}

type fallback struct {
	when   func(error) bool
	models []Alternative
}

// Generate implements [Model].
func (f *fallback) Generate(ctx context.Context, req *message.Request) iter.Seq2[message.Delta, error] {
	return func(yield func(message.Delta, error) bool) {
		for i, a := range f.models {
			asked := req
			if a.Name != "" {
				named := *req
				named.Model = a.Name
				asked = &named
			}
			if !f.ask(ctx, a.Model, asked, i == len(f.models)-1, yield) {
				return
			}
		}
	}
}

// ask asks one model, and reports whether the next one is to be asked.
func (f *fallback) ask(ctx context.Context, m Model, req *message.Request, last bool, yield func(message.Delta, error) bool) bool {
	began := false
	for delta, err := range m.Generate(ctx, req) {
		if err != nil && !began && !last && ctx.Err() == nil && f.when(err) {
			return true
		}
		began = true
		if done, ok := delta.(message.Done); ok {
			done.Model = cmp.Or(done.Model, req.Model)
			delta = done
		}
		if !yield(delta, err) || err != nil {
			return false
		}
	}
	// One that says nothing at all was cut off before it began.
	return !began && !last && ctx.Err() == nil && f.when(message.Transient(message.ErrCutOff, 0))
}

// RateLimit returns a model that is asked at most n times in a period, evenly or in bursts of up
// to n; further requests wait for their turn, or for the end of their context. One limit holds
// for all runs that share the model, in this process.
func RateLimit(m Model, n int, period time.Duration) Model {
	if n < 1 || period <= 0 {
		panic("react: RateLimit needs a positive number and period")
	}
	return &limited{model: m, every: period / time.Duration(n), burst: period}
}

type limited struct {
	model Model
	every time.Duration // from one request to the next in the long run
	burst time.Duration // how far ahead of that they may be

	mu   sync.Mutex // guards next
	next time.Time  // when the next request would be due if they were even
}

// Generate implements [Model].
func (l *limited) Generate(ctx context.Context, req *message.Request) iter.Seq2[message.Delta, error] {
	return func(yield func(message.Delta, error) bool) {
		if err := l.wait(ctx); err != nil {
			yield(nil, err)
			return
		}
		l.model.Generate(ctx, req)(yield)
	}
}

// wait takes a turn and waits for it.
func (l *limited) wait(ctx context.Context) error {
	l.mu.Lock()
	now := time.Now()
	if l.next.Before(now) {
		l.next = now
	}
	l.next = l.next.Add(l.every)
	due := l.next.Add(-l.burst)
	l.mu.Unlock()
	if !due.After(now) {
		return ctx.Err()
	}
	timer := time.NewTimer(due.Sub(now))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
