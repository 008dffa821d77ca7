package memory_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/store"
	"github.com/everstep-go/everstep/store/memory"
	"github.com/everstep-go/everstep/store/storetest"
)

var harness = storetest.Harness{
	Open: func(t testing.TB, opts storetest.Options) store.Store {
		s := memory.New(&memory.Options{Now: opts.Now})
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		return s
	},
	Rows: func(_ testing.TB, s store.Store) map[string]int { return s.(*memory.Store).Rows() },
}

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, harness)
}

// newBegin begins a run with an empty history.
func newBegin(session uuid.UUID, steps ...store.Step) *store.Begin {
	return &store.Begin{
		Fence:   store.Fence{Tenant: "t", Run: uuid.New(), Owner: uuid.New(), Epoch: 1},
		Session: session, Graph: "graph", WriteID: uuid.New(), Steps: steps, Status: checkpoint.Running, Lease: 15 * time.Second,
	}
}

// newStep is a checkpoint with messages of about the size that people and models write.
func newStep(messages int) store.Step {
	s := store.Step{Checkpoint: checkpoint.Checkpoint{ID: uuid.New(), Node: "node", Status: checkpoint.Running, Reason: checkpoint.Step}}
	for i := range messages {
		s.Messages = append(s.Messages, store.Message{
			Header: message.Header{ID: uuid.New()}, Role: message.RoleUser, Body: fmt.Appendf(nil, `{"content":"%0300d"}`, i),
		})
	}
	return s
}

func TestLeasesRunOutByTheClockOfABubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(nil)
		b := newBegin(uuid.New())
		_, err := s.Begin(t.Context(), b)
		require.NoError(t, err)
		claim := &store.Claim{Owner: uuid.New(), Graphs: []string{"graph"}, Lease: time.Minute, Limit: 1}
		time.Sleep(15*time.Second - 1)
		runs, err := s.Claim(t.Context(), claim)
		require.NoError(t, err)
		require.Empty(t, runs)
		time.Sleep(time.Nanosecond)
		runs, err = s.Claim(t.Context(), claim)
		require.NoError(t, err)
		require.Len(t, runs, 1)
	})
}

func TestCloseTwiceDoesNoHarm(t *testing.T) {
	t.Parallel()
	s := memory.New(nil)
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	_, err := s.CreateSession(t.Context(), "t", uuid.New())
	require.ErrorIs(t, err, store.ErrClosed)
}

func BenchmarkCommit(b *testing.B) {
	ctx := context.Background()
	s := memory.New(nil)
	begin := newBegin(uuid.New())
	_, err := s.Begin(ctx, begin)
	require.NoError(b, err)
	b.ReportAllocs()
	var last int64
	for b.Loop() {
		step := newStep(0)
		done, err := s.Commit(ctx, &store.Commit{
			Fence: begin.Fence, WriteID: uuid.New(), After: last, Steps: []store.Step{step}, Status: checkpoint.Running, Lease: time.Minute,
		})
		if err != nil {
			b.Fatal(err)
		}
		last = done.Seqs[0]
	}
}

func BenchmarkLoad(b *testing.B) {
	for _, n := range []int{20, 2000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			ctx := context.Background()
			s := memory.New(nil)
			begin := newBegin(uuid.New(), newStep(n))
			_, err := s.Begin(ctx, begin)
			require.NoError(b, err)
			b.ReportAllocs()
			for b.Loop() {
				p, err := s.Load(ctx, &store.Load{Tenant: "t", Session: begin.Session})
				if err != nil || len(p.Messages) != n {
					b.Fatal(len(p.Messages), err)
				}
			}
		})
	}
}
