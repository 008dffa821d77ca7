package reflex_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/graph/graphtest"
	"github.com/everstep-go/everstep/reflex"
	"github.com/everstep-go/everstep/store"
	"github.com/everstep-go/everstep/store/memory"
)

func alive(context.Context, uuid.UUID) (reflex.PassLife, error) { return reflex.PassRunning, nil }

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

func TestAClaimIsGivenUpOnlyByItsHolder(t *testing.T) {
	t.Parallel()
	life := map[uuid.UUID]reflex.PassLife{}
	now := time.Now()
	b := reflex.NewBooks(memory.New(nil), "t", func(_ context.Context, kick uuid.UUID) (reflex.PassLife, error) { return life[kick], nil },
		func() time.Time { return now })
	for name, claims := range map[string]reflex.Claims{"turns": b.Turns, "surfaces": b.Surfaces} {
		t.Run(name, func(t *testing.T) {
			first, second := uuid.New(), uuid.New()
			life[first], life[second] = reflex.PassRunning, reflex.PassRunning
			claim := func(kick uuid.UUID, want bool, why string) {
				t.Helper()
				ours, err := claims.Claim(t.Context(), "c", kick)
				require.NoError(t, err)
				require.Equal(t, want, ours, why)
			}
			holder := func(want uuid.UUID) {
				t.Helper()
				kick, err := claims.Holder(t.Context(), "c")
				require.NoError(t, err)
				require.Equal(t, want, kick)
			}
			claim(first, true, "nobody had it")
			claim(first, true, "a step that is done again")
			claim(second, false, "another pass has it")
			require.NoError(t, claims.Release(t.Context(), "c", second))
			holder(first)
			life[first] = reflex.PassLeft
			claim(second, false, "the pass of the holder will be taken up")
			life[first] = reflex.PassEnded
			claim(second, true, "the pass of the holder is over")
			require.NoError(t, claims.Release(t.Context(), "c", second))
			holder(uuid.Nil)

			third := uuid.New()
			claim(third, true, "its pass is about to begin")
			claim(first, false, "so nobody else's may")
			now = now.Add(time.Minute)
			claim(first, true, "it has not begun")
		})
	}
}
