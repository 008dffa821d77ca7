package react_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/graph/graphtest"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/react/reacttest"
	"github.com/everstep-go/everstep/store"
	"github.com/everstep-go/everstep/store/memory"
)

func TestATextAnswerCostsTwoWrites(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st store.Store) {
		count := graphtest.NewFaulty(st, 0, "")
		b := setup(t, react.Config{Store: count}, reacttest.Say("hello"), reacttest.Say("hello again"))
		b.ask(t, "hi")
		require.Equal(t, []string{"Load", "Begin", "Commit"}, count.Calls())
		b.ask(t, "hi again")
		require.Equal(t, []string{"Begin", "Commit"}, count.Calls()[3:], "the next run in the same process loads nothing")
	})
}

func TestAReplyWithKServerToolsCostsThreeWritesAndOnePerTool(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st store.Store) {
		for k := 1; k <= 4; k++ {
			var calls []message.ToolCall
			for i := range k {
				calls = append(calls, call(fmt.Sprint("call", i), "work"))
			}
			count := graphtest.NewFaulty(st, 0, "")
			b := setup(t, react.Config{Store: count, Tools: []react.Tool{returns("work", "worked")}}, reacttest.Call(calls...), reacttest.Say("done"))
			b.ask(t, "go")
			want := append([]string{"Load", "Begin", "Commit"}, slices.Repeat([]string{"SaveTask"}, k)...)
			require.Equal(t, append(want, "Commit"), count.Calls(), "%d tools", k)
		}
	})
}

func TestARunWithNothingToDoCostsOneWriteToBeginAndOneToEnd(t *testing.T) {
	t.Parallel()
	count := graphtest.NewFaulty(memory.New(nil), 0, "")
	b := setup(t, react.Config{Store: count})
	b.run(t, react.Input{})
	calls := count.Calls()
	require.LessOrEqual(t, len(calls), 3, "%v", calls)
}

// ledger notes what is durable: the keys of finished tasks, and the runs that have ended.
type ledger struct {
	store.Store
	mu    sync.Mutex
	kept  map[string]bool
	ended bool
	began bool
	steps map[string]bool // nodes whose checkpoint is written
}

func (l *ledger) note(steps []store.Step, running bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range steps {
		l.steps[s.Checkpoint.Node] = true
	}
	l.began, l.ended = true, l.ended || !running
}

func (l *ledger) Begin(ctx context.Context, b *store.Begin) (*store.Begun, error) {
	out, err := l.Store.Begin(ctx, b)
	if err == nil {
		l.note(b.Steps, !b.Status.Ended())
	}
	return out, err
}

func (l *ledger) Commit(ctx context.Context, c *store.Commit) (*store.Committed, error) {
	out, err := l.Store.Commit(ctx, c)
	if err == nil {
		l.note(c.Steps, !c.Status.Ended())
	}
	return out, err
}

func (l *ledger) SaveTask(ctx context.Context, t *store.SaveTask) error {
	err := l.Store.SaveTask(ctx, t)
	if err == nil && t.Task.Done {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.kept[t.Task.Key] = true
	}
	return err
}

func newLedger(st store.Store) *ledger {
	return &ledger{Store: st, kept: map[string]bool{}, steps: map[string]bool{}}
}

func TestWhatIsHeardIsDurableByThen(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st store.Store) {
		l := newLedger(st)
		var heard []event.Kind
		b := setup(t, react.Config{Store: l, Bus: listen(func(e event.Event) {
			l.mu.Lock()
			defer l.mu.Unlock()
			heard = append(heard, e.Data.Kind())
			switch d := e.Data.(type) {
			case event.RunStarted:
				assert.True(t, l.began, "the run is recorded before it is said to have started")
			case event.ToolCallStart:
				assert.True(t, l.steps["call_model"], "the reply is durable before its calls are announced")
			case event.ToolCallResult:
				assert.True(t, l.kept[d.ToolCallID], "the result of %s is kept before it is heard", d.ToolCallID)
			case event.ToolCallError:
				assert.True(t, l.kept[d.ToolCallID], "the failure of %s is kept before it is heard", d.ToolCallID)
			case event.StateDelta:
				assert.True(t, l.kept["put"], "a change of the context is kept before it is heard")
			case event.RunFinished:
				assert.True(t, l.ended, "the end is written before it is heard")
			}
		}), Tools: []react.Tool{
			tool("work", func(context.Context) (any, error) {
				l.mu.Lock()
				defer l.mu.Unlock()
				assert.True(t, l.steps["call_model"], "the reply is durable before its first tool starts")
				return 1, nil
			}),
			tool("fail", func(context.Context) (any, error) { return nil, assert.AnError }),
			tool("put", func(ctx context.Context) (any, error) { return nil, react.UpdateContext(ctx, add("/a", `1`)) }),
		}}, reacttest.Call(call("work", "work"), call("fail", "fail"), call("put", "put"), call("none", "none")), reacttest.Say("done"))
		b.ask(t, "go")
		require.Contains(t, heard, event.KindStateDelta)
		require.Contains(t, heard, event.KindToolCallError)
	})
}
