package reflex_test

import (
	"context"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/graph/graphtest"
	"github.com/everstep-go/everstep/reflex"
	"github.com/everstep-go/everstep/store"
	"github.com/everstep-go/everstep/store/memory"
)

func alive(context.Context, uuid.UUID) (bool, error) { return true, nil }

func TestAWriteWhoseAnswerGotLostHappenedOnce(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(ctx context.Context, b reflex.Books) error{
		"batch": func(ctx context.Context, b reflex.Books) error {
			return b.Batches.Create(ctx, reflex.Batch{ID: "b", Conversation: "c"})
		},
		"receipt": func(ctx context.Context, b reflex.Books) error {
			return b.Receipts.Accept(ctx, reflex.Receipt{Surface: "s", Delivery: "d"})
		},
		"row": func(ctx context.Context, b reflex.Books) error {
			_, err := b.Ledger.Append(ctx, reflex.Row{ID: reflex.RowID{Surface: "s"}, Segments: reflex.Text("x")})
			rows, _ := b.Ledger.Rows(ctx, reflex.RowQuery{Surface: "s"})
			require.Len(t, rows, 1)
			return err
		},
		"handoff": func(ctx context.Context, b reflex.Books) error {
			err := b.Handoffs.HandOver(ctx, reflex.Handoff{Surface: "s", Agent: "a"})
			rows, _ := b.Handoffs.History(ctx, "s")
			require.Len(t, rows, 1)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, fault := range []graphtest.Fault{graphtest.ErrorBefore, graphtest.ErrorAfter} {
				for n := 1; n <= 3; n++ {
					faulty := graphtest.NewFaulty(memory.New(nil), n, fault)
					require.NoError(t, write(t.Context(), reflex.NewBooks(faulty, "t", alive, nil)))
				}
			}
		})
	}
}

func TestRowsAppendedAtOnceAreNumberedWithoutGaps(t *testing.T) {
	t.Parallel()
	b := reflex.NewBooks(memory.New(nil), "t", alive, nil)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 2 {
				_, err := b.Ledger.Append(t.Context(), reflex.Row{ID: reflex.RowID{Surface: "s"}, Delivery: uuid.NewString()})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	rows, err := b.Ledger.Rows(t.Context(), reflex.RowQuery{Surface: "s"})
	require.NoError(t, err)
	require.Len(t, rows, 16)
	for i, r := range rows {
		require.Equal(t, int64(i+1), r.ID.Seq)
	}
	last, err := b.Ledger.Rows(t.Context(), reflex.RowQuery{Surface: "s", Descending: true, After: 5, Limit: 2})
	require.NoError(t, err)
	require.Equal(t, []int64{4, 3}, []int64{last[0].ID.Seq, last[1].ID.Seq})
	require.NoError(t, b.Ledger.MarkPresented(t.Context(), reflex.RowID{Surface: "s", Seq: 99}, "x"), "a row that is not there")
}

func TestAThreadSeenTwiceAtOnceIsOne(t *testing.T) {
	t.Parallel()
	b := reflex.NewBooks(memory.New(nil), "t", alive, nil)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if _, err := b.Threads.Ensure(t.Context(), reflex.Thread{ID: "x", Kind: reflex.WorkThread}); err != nil {
				t.Error(err)
			}
			if _, err := b.Conversations.Ensure(t.Context(), "x", "clerk", ""); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	_, err := b.Threads.Thread(t.Context(), "y")
	require.ErrorIs(t, err, reflex.ErrNoThread)
	_, err = b.Threads.Change(t.Context(), "y", func(*reflex.Thread) error { return nil })
	require.ErrorIs(t, err, reflex.ErrNoThread)
	_, err = b.Conversations.Conversation(t.Context(), "y")
	require.ErrorIs(t, err, store.ErrNotFound)
	require.NoError(t, b.Conversations.Delete(t.Context(), "y"))
}

func TestNothingCrossesTenants(t *testing.T) {
	t.Parallel()
	st := memory.New(nil)
	ours, theirs := reflex.NewBooks(st, "ours", alive, nil), reflex.NewBooks(st, "theirs", alive, nil)
	_, err := ours.Ledger.Append(t.Context(), reflex.Row{ID: reflex.RowID{Surface: "s"}})
	require.NoError(t, err)
	rows, err := theirs.Ledger.Rows(t.Context(), reflex.RowQuery{Surface: "s"})
	require.NoError(t, err)
	require.Empty(t, rows)
}

func TestATurnIsGivenUpOnlyByItsHolder(t *testing.T) {
	t.Parallel()
	living := map[uuid.UUID]bool{}
	b := reflex.NewBooks(memory.New(nil), "t", func(_ context.Context, kick uuid.UUID) (bool, error) { return living[kick], nil }, nil)
	first, second := uuid.New(), uuid.New()
	living[first], living[second] = true, true
	require.NoError(t, b.Turns.Take(t.Context(), "c", first))
	require.NoError(t, b.Turns.Take(t.Context(), "c", first), "a step that is done again")
	require.ErrorIs(t, b.Turns.Take(t.Context(), "c", second), reflex.ErrTurnActive)
	require.NoError(t, b.Turns.Release(t.Context(), "c", second))
	holder, err := b.Turns.Holder(t.Context(), "c")
	require.NoError(t, err)
	require.Equal(t, first, holder)
	living[first] = false
	require.NoError(t, b.Turns.Take(t.Context(), "c", second), "the pass of the holder is over")
	require.NoError(t, b.Turns.Release(t.Context(), "c", second))
	holder, err = b.Turns.Holder(t.Context(), "c")
	require.NoError(t, err)
	require.Equal(t, uuid.Nil, holder)
}
