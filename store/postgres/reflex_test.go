package postgres

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/internal/pgserver/pgtest"
	"github.com/everstep-go/everstep/reflex"
	"github.com/everstep-go/everstep/store"
)

// lobby is a channel without a screen.
type lobby struct{}

func (lobby) ID() string                { return "lobby" }
func (lobby) Agents() []string          { return []string{"clerk"} }
func (lobby) Strategy() reflex.Strategy { return reflex.FlatThreads }
func (lobby) OpenThread(context.Context, reflex.OpenRequest) (reflex.Address, error) {
	return reflex.Address{}, reflex.ErrNothingMoved
}
func (lobby) OpenDM(context.Context, reflex.OpenRequest) (reflex.Address, error) {
	return reflex.Address{}, reflex.ErrNothingMoved
}

// clerk asks before it does anything.
type clerk struct {
	meanwhile func()
	live      bool // it waits for the answers
}

func (clerk) ID() string       { return "clerk" }
func (clerk) Models() []string { return []string{"model"} }

func (c clerk) Run(ctx context.Context, r *reflex.RunRequest) iter.Seq2[reflex.Progress, error] {
	return func(yield func(reflex.Progress, error) bool) {
		if c.meanwhile != nil {
			c.meanwhile()
		}
		result := &reflex.RunResult{Run: r.Run, Output: reflex.Text("it is done")}
		if c.live {
			if _, err := r.Suspender.Pause(ctx, []reflex.DeferredCall{{ID: "pay", Kind: reflex.ApprovalCall, Tool: "pay"}}); err != nil {
				yield(reflex.Progress{}, err)
				return
			}
		} else if len(r.Results) == 0 {
			result = &reflex.RunResult{Run: r.Run, Deferred: []reflex.DeferredCall{{ID: "pay", Kind: reflex.ApprovalCall, Tool: "pay"}}}
		}
		yield(reflex.Progress{Result: result}, nil)
	}
}

func TestSeveralProcessesShareTheSurfacesOfReflex(t *testing.T) {
	t.Parallel()
	dsn := pgtest.New(t)
	engine := func(c clerk) *reflex.Engine {
		e, err := reflex.New(reflex.Config{Store: open(t, dsn, nil), Channels: []reflex.Channel{lobby{}}, Agents: []reflex.Agent{c}, Logger: quiet})
		require.NoError(t, err)
		t.Cleanup(func() { _ = e.Shutdown(context.Background()) })
		return e
	}
	ada := reflex.Profile{Channel: "lobby", ID: "ada"}
	at := reflex.Address{Channel: "lobby", Type: reflex.DM, Chat: "ada", User: "ada"}
	in := reflex.Inbound{User: "ada", Segments: reflex.Text("pay")}
	second := engine(clerk{})
	first := engine(clerk{meanwhile: func() {
		_, err := second.Say(t.Context(), at, in)
		require.ErrorIs(t, err, reflex.ErrBusy)
	}})
	o, err := first.Say(t.Context(), at, in)
	require.NoError(t, err)
	require.Equal(t, reflex.OutcomeSuspended, o.Kind)
	b, err := second.Books().Batches.Batch(t.Context(), o.Batch)
	require.NoError(t, err)
	answer := reflex.BatchSignal{BatchAnswer: reflex.BatchAnswer{
		Batch: b.ID, Responder: ada, Verdicts: map[string]reflex.Verdict{b.Actions[0].ID: {Approved: true}},
	}}
	o, err = second.Kick(t.Context(), answer)
	require.NoError(t, err)
	require.Equal(t, "it is done", o.Text())
	o, err = first.Kick(t.Context(), answer)
	require.NoError(t, err)
	require.Empty(t, o.Text(), "it was resumed in the other process")
	rows, err := first.Books().Ledger.Rows(t.Context(), reflex.RowQuery{Surface: at.ID()})
	require.NoError(t, err)
	require.Len(t, rows, 3)
}

func TestALiveQuestionOfReflexIsAnsweredInAnotherProcessAndAllIsPruned(t *testing.T) {
	t.Parallel()
	dsn := pgtest.New(t)
	engine := func() (*reflex.Engine, *Store) {
		bus, err := NewBus(t.Context(), dsn, &BusOptions{Logger: quiet})
		require.NoError(t, err)
		t.Cleanup(func() { _ = bus.Close() })
		st := open(t, dsn, nil)
		e, err := reflex.New(reflex.Config{
			Store: st, Signals: bus, Channels: []reflex.Channel{lobby{}}, Agents: []reflex.Agent{clerk{live: true}}, Logger: quiet,
		})
		require.NoError(t, err)
		t.Cleanup(func() { _ = e.Shutdown(context.Background()) })
		return e, st
	}
	first, _ := engine()
	second, st := engine()
	at := reflex.Address{Channel: "lobby", Type: reflex.DM, Chat: "ada", User: "ada"}
	asked := first.Bus().Subscribe(reflex.Filter{All: true})
	done := make(chan string, 1)
	_, err := first.KickAsync(t.Context(), reflex.MessageSignal{Address: at, Messages: []reflex.Inbound{{User: "ada", Segments: reflex.Text("pay")}}},
		func(o reflex.Outcome, _ error) { done <- o.Text() })
	require.NoError(t, err)
	for e := range asked.Events(t.Context()) {
		if batch, ok := e.Data.(reflex.BatchAsked); ok {
			o, err := second.Kick(t.Context(), reflex.BatchSignal{BatchAnswer: reflex.BatchAnswer{
				Batch: batch.Batch, Responder: reflex.Profile{Channel: "lobby", ID: "ada"},
				Verdicts: map[string]reflex.Verdict{batch.Actions[0].ID: {Approved: true}},
			}})
			require.NoError(t, err)
			require.Equal(t, reflex.OutcomeAnswered, o.Kind)
			break
		}
	}
	require.Equal(t, "it is done", <-done)

	for _, want := range []bool{true, false} {
		n, err := second.Prune(t.Context(), reflex.Prune{Before: time.Now()})
		require.NoError(t, err)
		require.Equal(t, want, n > 0)
	}
	for _, kind := range []string{"reflex.row", "reflex.thread", "reflex.conversation", "reflex.batch", "reflex.surface"} {
		left, err := st.ListRecords(t.Context(), &store.RecordQuery{Tenant: "default", Kind: kind})
		require.NoError(t, err)
		require.Empty(t, left, kind)
	}
}
