package reacttest

import (
	"context"
	"errors"
	"iter"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
)

// verdict is a TB that only notes whether the test would have failed.
type verdict struct {
	testing.TB
	failed bool
}

func (v *verdict) Helper()               {}
func (v *verdict) Errorf(string, ...any) { v.failed = true }
func (v *verdict) FailNow()              { v.failed = true; runtime.Goexit() }

// broken is an adapter with a defect.
type broken func(yield func(message.Delta, error) bool, ctx context.Context, req *message.Request)

func (b broken) Generate(ctx context.Context, req *message.Request) iter.Seq2[message.Delta, error] {
	return func(yield func(message.Delta, error) bool) { b(yield, ctx, req) }
}

func TestEveryCaseFailsForAnAdapterThatBreaksIt(t *testing.T) {
	t.Parallel()
	done := message.Done{FinishReason: message.FinishStop}
	says := func(text string) broken {
		return func(yield func(message.Delta, error) bool, _ context.Context, _ *message.Request) {
			_ = yield(message.TextDelta{Text: text}, nil) && yield(done, nil)
		}
	}
	fails := func(err error) broken {
		return func(yield func(message.Delta, error) bool, _ context.Context, _ *message.Request) { yield(nil, err) }
	}
	defects := map[string]react.Model{
		"a text arrives whole, and a Done ends it": broken(func(yield func(message.Delta, error) bool, _ context.Context, _ *message.Request) {
			yield(message.TextDelta{Text: textReply.Text}, nil)
		}),
		"calls arrive whole and in order, each with its id, name and arguments": says(""),
		"text may come before calls":                                says("Let me see."),
		"reasoning arrives with its signature":                      says("Umbrella."),
		"odd texts survive: quotes, HTML, newlines, emoji":          says("\"\\u003cb\\u003e"),
		"an empty reply is a reply":                                 fails(errors.New("no content")),
		"numbers in arguments keep their digits":                    says(""),
		"an error that may pass is marked as transient":             fails(errors.New("429")),
		"an error that will not pass is not":                        fails(message.Transient(errors.New("401"), 0)),
		"a reply that is cut off ends in an error, never in a Done": says("It"),
		"nothing comes after an error, and a nil delta beside it": broken(func(yield func(message.Delta, error) bool, _ context.Context, _ *message.Request) {
			_ = yield(nil, errors.New("x")) && yield(done, nil)
		}),
		"the end of the context ends the call": says("late"),
		"a loop may be left at any time": broken(func(yield func(message.Delta, error) bool, _ context.Context, _ *message.Request) {
			yield(done, nil)
			yield(done, nil)
		}),
		"the request is not changed": broken(func(yield func(message.Delta, error) bool, _ context.Context, req *message.Request) {
			req.System += "!"
			yield(done, nil)
		}),
		"many runs may ask at once": says("It"),
	}
	for _, c := range modelCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m, ok := defects[c.name]
			require.True(t, ok, "the case has no adapter that breaks it")
			v := &verdict{TB: t}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				defer func() {
					if recover() != nil { // range over func panics when its yield is called after a break
						v.failed = true
					}
				}()
				c.check(v, m, c.scenario)
			}()
			<-ended
			require.True(t, v.failed)
		})
	}
}
