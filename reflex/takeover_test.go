package reflex_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/graph/graphtest"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/react/reacttest"
	"github.com/everstep-go/everstep/reflex"
	"github.com/everstep-go/everstep/store"
	"github.com/everstep-go/everstep/store/memory"
)

// clerkOn makes a process's clerk, a react agent on the process's own view of the store.
func clerkOn(t *testing.T, st store.Store, script *reacttest.Script, paid *[]string) reflex.Agent {
	t.Helper()
	pay := react.NewTool("pay", "Pays.", func(_ context.Context, in struct {
		To string `json:"to"`
	}) (string, error) {
		*paid = append(*paid, in.To)
		return "paid " + in.To, nil
	}, &react.ToolOptions{Approval: true})
	a, err := react.New(react.Config{Name: "clerk", Model: script, Store: st, Logger: slog.New(slog.DiscardHandler), Tools: []react.Tool{pay}})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = a.Shutdown(ctx)
	})
	return reflex.NewReactAgent(a, &reflex.ReactAgentOptions{Store: st})
}

// The run of a react agent is durable itself, but a pass does not go on with it: whoever asked is told
// that it was interrupted, and says what is to become of it.
func TestAReactAgentsRunIsNotGoneOnWithAfterACrash(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		resumed bool // the process dies while the answers to a batch are brought back
	}{{"prompt", false}, {"answers", true}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				st := memory.New(nil)
				dying := graphtest.NewFaulty(st, 0, "")
				hang := reacttest.Step{Before: func(ctx context.Context, _ *message.Request) error {
					dying.Kill()
					<-ctx.Done()
					return ctx.Err()
				}}
				steps := []reacttest.Step{hang}
				if tt.resumed {
					steps = []reacttest.Step{reacttest.Call(payAda), hang}
				}
				var paid []string
				b := newBundle(t, func(c *reflex.Config) { c.Store = dying })
				b.config.Agents = []reflex.Agent{clerkOn(t, dying, reacttest.NewScript(steps...), &paid), b.coder}
				b.open()
				at := thread("lobby", "t", "ada")
				var batch reflex.Batch
				first := func(ctx context.Context) {
					_, _ = b.engine.Say(ctx, at, inbound("ada", "pay"))
				}
				if tt.resumed {
					batch = b.batch(b.said(at, "pay").Batch)
					first = func(ctx context.Context) { _, _ = b.engine.Kick(ctx, answer(batch, ada)) }
				}
				ctx, cancel := context.WithCancel(t.Context())
				go first(ctx)
				<-time.After(time.Minute)
				cancel()

				b.config.Store = st
				script := reacttest.NewScript(reacttest.Say("here again"))
				b.config.Agents = []reflex.Agent{clerkOn(t, st, script, &paid), b.coder}
				b.open()
				serving, stop := context.WithCancel(t.Context())
				served := make(chan error, 1)
				go func() { served <- b.engine.Serve(serving) }()
				<-time.After(time.Minute)
				events := b.heard()
				failed, _ := find[reflex.RunFailed](t, events)
				require.Equal(t, reflex.ErrInterrupted.Error(), failed.Message)
				require.Empty(t, script.Requests(), "the model is not asked again by itself")
				if tt.resumed {
					require.Equal(t, reflex.BatchResolved, b.batch(batch.ID).Status)
					o, err := b.kick(reflex.BatchSignal{BatchAnswer: reflex.BatchAnswer{Batch: batch.ID}})
					require.NoError(t, err)
					require.Equal(t, "here again", o.Text())
					require.Equal(t, "paid Ada", results(script))
					require.Len(t, paid, 1, "the tool that ran is not run again")
				} else {
					require.Equal(t, "here again", b.said(at, "still there?").Text())
				}
				stop()
				require.NoError(t, <-served)
			})
		})
	}
}
