package react_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/graph/graphtest"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/react/reacttest"
	"github.com/everstep-go/everstep/store"
)

const unknownOutcome = "outcome unknown: the process died while the tool ran, and it must not run twice"

// Contract R5. A process dies in the middle of a payment, and the next one has to find out.
func TestAPaymentIsNeverMadeTwice(t *testing.T) {
	t.Parallel()
	found := func(output, update string) func(context.Context, string) (react.ToolResult, error) {
		return func(context.Context, string) (react.ToolResult, error) {
			return react.ToolResult{Output: json.RawMessage(output), StateUpdate: json.RawMessage(update)}, nil
		}
	}
	for name, test := range map[string]struct {
		reconcile func(context.Context, string) (react.ToolResult, error)
		result    string // the tool message
		context   string
	}{
		"nobody can tell": {nil, `tool a "` + unknownOutcome + `" error "` + unknownOutcome + `"`, "{}"},
		"nobody knows": {func(context.Context, string) (react.ToolResult, error) {
			return react.ToolResult{}, errors.New("no answer")
		}, `tool a "` + unknownOutcome + `" error "` + unknownOutcome + `"`, "{}"},
		"asking panics":       {func(context.Context, string) (react.ToolResult, error) { panic("oops") }, `tool a "` + unknownOutcome + `" error "` + unknownOutcome + `"`, "{}"},
		"it was made":         {found(`"paid"`, ""), `tool a "paid"`, "{}"},
		"it changed things":   {found(`"paid"`, `[{"op":"add","path":"/context/-","value":{"op":"add","path":"/paid","value":true}}]`), `tool a "paid"`, `{"paid":true}`},
		"it changed nonsense": {found(`"paid"`, `[{"op":"add","path":"/context/-","value":{"op":"add","path":"/no/where","value":true}}]`), `tool a "paid" error`, "{}"},
		"it says nonsense":    {found(`"paid"`, `[{"op":"add","path":"/model","value":null}]`), `tool a "paid" error`, "{}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for name, open := range stores() {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					clock := graphtest.NewClock(time.Unix(1_800_000_000, 0))
					w := &afterlife{t: t, store: open(t, clock), clock: clock, session: uuid.New(), run: uuid.New()}
					var keys, asked []string
					opts := &react.ToolOptions{AtMostOnce: true}
					if test.reconcile != nil {
						opts.Reconcile = func(ctx context.Context, key string) (react.ToolResult, error) {
							asked = append(asked, key)
							return test.reconcile(ctx, key)
						}
					}
					faulty := graphtest.NewFaulty(w.store, 0, "")
					agent := func(st store.Store, steps ...reacttest.Step) *react.Agent {
						return newAgent(t, react.Config{Name: "mortal", Store: st, Model: reacttest.NewScript(steps...), Tools: []react.Tool{
							tool("pay", func(ctx context.Context) (any, error) {
								keys = append(keys, graph.IdempotencyKey(ctx))
								faulty.Kill()
								return nil, graphtest.ErrDead
							}, opts),
						}})
					}
					w.live(agent(faulty, reacttest.Call(call("a", "pay"))), user("go"))
					second := agent(w.store, reacttest.Say("done"))
					clock.Add(time.Hour)
					ctx, stop := context.WithCancel(t.Context())
					served := make(chan error, 1)
					go func() { served <- second.Serve(ctx) }()
					run, err := second.Attach(t.Context(), "", w.run)
					require.NoError(t, err)
					s, err := run.Wait(t.Context())
					stop()
					require.NoError(t, <-served)
					require.NoError(t, err)
					require.Len(t, s.Messages, 4)
					assert.Contains(t, talk(s.Messages)[2], test.result)
					assert.JSONEq(t, test.context, string(s.Context))
					code := ""
					for _, e := range watch(t, run) {
						if d, ok := e.Data.(event.ToolCallError); ok {
							code = d.Code
						}
					}
					switch {
					case strings.Contains(test.result, unknownOutcome):
						assert.Equal(t, react.CodeOutcomeUnknown, code)
					case strings.Contains(test.result, "error"):
						assert.Equal(t, react.CodeInvalidStateUpdate, code)
					default:
						assert.Empty(t, code)
					}
					assert.Len(t, keys, 1, "the payment was begun once")
					if test.reconcile != nil {
						assert.Equal(t, keys, asked, "the one who knows is asked with the key of the payment")
					}
				})
			}
		})
	}
}

// Contract R25.
func TestTheKeyOfACallIsTheSameUntilItSettlesAndDifferentOnABranch(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st store.Store) {
		var keys []string
		b := setup(t, react.Config{Store: st, Tools: []react.Tool{tool("work", func(ctx context.Context) (any, error) {
			keys = append(keys, graph.IdempotencyKey(ctx))
			return graph.Interrupt[string](ctx, "", "may I?")
		})}}, reacttest.Call(call("a", "work")), reacttest.Say("one"), reacttest.Say("two"))
		b.ask(t, "go")
		page, err := b.agent.Checkpoints(t.Context(), store.CheckpointQuery{Session: b.session})
		require.NoError(t, err)
		asked := page.Items[0].ID
		b.run(t, react.Input{}) // nobody answers: the tool is left alone
		require.Len(t, keys, 1)
		b.run(t, resume(`"yes"`))
		require.Len(t, keys, 2)
		assert.Equal(t, keys[0], keys[1], "the same over interrupt and resume")
		in := resume(`"no"`)
		in.Checkpoint = asked
		b.run(t, in)
		require.Len(t, keys, 3)
		assert.NotEqual(t, keys[0], keys[2], "different on a branch")
	})
}

func TestAtMostOnceHoldsPerLine(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st store.Store) {
		var calls counter
		b := setup(t, react.Config{Store: st, Tools: []react.Tool{tool("pay", func(context.Context) (any, error) {
			calls.add("pay")
			return "paid", nil
		}, &react.ToolOptions{AtMostOnce: true})}}, reacttest.Call(call("a", "pay")), reacttest.Say("one"), reacttest.Say("two"))
		b.ask(t, "go")
		page, err := b.agent.Checkpoints(t.Context(), store.CheckpointQuery{Session: b.session})
		require.NoError(t, err)
		for _, c := range page.Items {
			if c.Node == "call_model" && c.Next == "call_tools" {
				b.run(t, react.Input{Checkpoint: c.ID})
			}
		}
		assert.Equal(t, 2, calls.of("pay"))
		assert.Equal(t, []string{`user "go"`, "assistant a:pay", `tool a "paid"`, `assistant "two"`}, talk(b.state(t).Messages))
	})
}
