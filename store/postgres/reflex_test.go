package postgres

import (
	"context"
	"iter"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/internal/pgserver/pgtest"
	"github.com/everstep-go/everstep/reflex"
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
type clerk struct{ meanwhile func() }

func (clerk) ID() string       { return "clerk" }
func (clerk) Models() []string { return []string{"model"} }

func (c clerk) Run(ctx context.Context, r *reflex.RunRequest) iter.Seq2[reflex.Progress, error] {
	return func(yield func(reflex.Progress, error) bool) {
		if c.meanwhile != nil {
			c.meanwhile()
		}
		result := &reflex.RunResult{Run: r.Run, Output: reflex.Text("it is done")}
		if len(r.Results) == 0 {
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
