package sqlite

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/store"
)

// driven is a run that the benchmarks and tests drive from write to write.
type driven struct {
	store   *Store
	fence   store.Fence
	session uuid.UUID
	last    int64
	lastID  uuid.UUID
}

// drive begins a run that continues a session.
func drive(t testing.TB, s *Store, tenant string, session uuid.UUID, steps ...store.Step) *driven {
	d := &driven{store: s, session: session, fence: store.Fence{Tenant: tenant, Run: uuid.New(), Owner: uuid.New(), Epoch: 1}}
	b := &store.Begin{Fence: d.fence, Session: session, Graph: "agent", WriteID: uuid.New(), Steps: steps, Status: checkpoint.Running, Lease: time.Minute}
	if p, err := s.Load(t.Context(), &store.Load{Tenant: tenant, Session: session}); err == nil {
		b.From = store.From{Head: p.Session.Head, Base: p.Session.Base}
		if p.Checkpoint != nil {
			d.lastID = p.Checkpoint.ID
		}
	}
	for i := range b.Steps {
		b.Steps[i].Checkpoint.ParentID = d.lastID
		d.lastID = b.Steps[i].Checkpoint.ID
	}
	begun, err := s.Begin(t.Context(), b)
	require.NoError(t, err)
	d.took(begun.Committed)
	return d
}

func (d *driven) took(c store.Committed) {
	if n := len(c.Seqs); n > 0 {
		d.last = c.Seqs[n-1]
	}
}

// commit writes steps and the status of the run.
func (d *driven) commit(ctx context.Context, status checkpoint.Status, steps ...store.Step) error {
	for i := range steps {
		steps[i].Checkpoint.ParentID = d.lastID
		d.lastID = steps[i].Checkpoint.ID
	}
	c, err := d.store.Commit(ctx, &store.Commit{Fence: d.fence, WriteID: uuid.New(), After: d.last, Steps: steps, Status: status, Lease: time.Minute})
	if err == nil {
		d.took(*c)
	}
	return err
}

// at is a step with as many messages.
func at(node string, reason checkpoint.Reason, messages int) store.Step {
	s := store.Step{Checkpoint: checkpoint.Checkpoint{ID: uuid.New(), Node: node, Next: "call_model", Status: checkpoint.Running, Reason: reason, Version: 1}}
	for range messages {
		s.Messages = append(s.Messages, store.Message{Header: message.Header{ID: uuid.New()}, Role: message.RoleUser, Body: body})
	}
	return s
}

// body is a message's of usual length.
var body = []byte(fmt.Sprintf(`{"content":%q}`, "The quick brown fox jumps over the lazy dog, and the dog does not even look up from its afternoon nap."))

func openBench(b *testing.B, sync Synchronous) *Store {
	s, err := Open(filepath.Join(b.TempDir(), "bench.db"), &Options{Synchronous: sync})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, s.Close()) })
	return s
}

// bare prepares a commit of one small row, nothing around it: what the disk allows.
func bare(b *testing.B, s *Store) func() {
	c := s.writer.conn
	require.NoError(b, c.script(`CREATE TABLE bare (id INTEGER PRIMARY KEY, body BLOB) STRICT`))
	ctx := context.Background()
	row := make([]byte, 200)
	return func() {
		if err := c.exec(ctx, `INSERT INTO bare (body) VALUES (?)`, row); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCommit(b *testing.B) {
	for _, sync := range []Synchronous{Full, Normal} {
		b.Run(sync.String()+"/bare", func(b *testing.B) {
			insert := bare(b, openBench(b, sync))
			for b.Loop() {
				insert()
			}
		})
		for _, steps := range []int{1, 3} {
			b.Run(fmt.Sprintf("%v/steps=%d", sync, steps), func(b *testing.B) {
				d := drive(b, openBench(b, sync), "t", uuid.New(), at("entrypoint", checkpoint.Input, 1))
				for b.Loop() {
					list := make([]store.Step, 0, steps)
					for i := range steps {
						list = append(list, at("call_model", checkpoint.Step, max(0, 1-i)))
					}
					if err := d.commit(b.Context(), checkpoint.Running, list...); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// Both kinds of commit by turns on one file, so that a disk that changes its mind in between
// does not matter.
func BenchmarkCommitAgainstBare(b *testing.B) {
	for _, sync := range []Synchronous{Full, Normal} {
		b.Run(sync.String(), func(b *testing.B) {
			s := openBench(b, sync)
			d := drive(b, s, "t", uuid.New(), at("entrypoint", checkpoint.Input, 1))
			insert := bare(b, s)
			var ours, theirs time.Duration
			for b.Loop() {
				t0 := time.Now()
				insert()
				t1 := time.Now()
				if err := d.commit(b.Context(), checkpoint.Running, at("call_model", checkpoint.Step, 1), at("exit", checkpoint.Step, 0)); err != nil {
					b.Fatal(err)
				}
				theirs += t1.Sub(t0)
				ours += time.Since(t1)
			}
			b.ReportMetric(float64(ours.Microseconds())/float64(b.N), "commit-µs")
			b.ReportMetric(float64(theirs.Microseconds())/float64(b.N), "bare-µs")
			b.ReportMetric(float64(ours)/float64(theirs), "ratio")
		})
	}
}

// A turn of a react.Agent that calls one tool, with the session in the caller's memory: four
// writes, seven checkpoints, four messages.
func BenchmarkTurn(b *testing.B) {
	for _, sync := range []Synchronous{Full, Normal} {
		b.Run(sync.String(), func(b *testing.B) {
			s := openBench(b, sync)
			ctx, session := b.Context(), uuid.New()
			made, err := s.CreateSession(ctx, "t", session)
			require.NoError(b, err)
			from := store.From{Base: made.Base}
			for b.Loop() {
				d := &driven{store: s, session: session, fence: store.Fence{Tenant: "t", Run: uuid.New(), Owner: uuid.New(), Epoch: 1}}
				begun, err := s.Begin(ctx, &store.Begin{
					Fence: d.fence, Session: session, Graph: "agent", Params: []byte("{}"), From: from, WriteID: uuid.New(),
					Steps:  []store.Step{at("entrypoint", checkpoint.Input, 1), at("entrypoint", checkpoint.Step, 0)},
					Status: checkpoint.Running, Lease: time.Minute,
				})
				require.NoError(b, err)
				d.took(begun.Committed)
				require.NoError(b, d.commit(ctx, checkpoint.Running, at("call_model", checkpoint.Step, 1)))
				require.NoError(b, s.SaveTask(ctx, &store.SaveTask{Fence: d.fence, Checkpoint: d.last, Task: store.Task{Key: "call", Done: true, Value: body}}))
				require.NoError(b, d.commit(ctx, checkpoint.Completed,
					at("call_tools", checkpoint.Step, 1), at("call_model", checkpoint.Step, 1), at("exit", checkpoint.Step, 0), at("exit", checkpoint.Finish, 0)))
				from.Head = d.last
			}
		})
	}
}

func BenchmarkGroupCommit(b *testing.B) {
	for _, clients := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			s := openBench(b, Full)
			runs := make([]*driven, clients)
			for i := range runs {
				runs[i] = drive(b, s, "t", uuid.New(), at("entrypoint", checkpoint.Input, 1))
			}
			begun := s.writer.transactions.Load()
			var left atomic.Int64
			left.Store(int64(b.N))
			b.ResetTimer()
			var wg sync.WaitGroup
			for _, d := range runs {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						if err := d.commit(b.Context(), checkpoint.Running, at("call_model", checkpoint.Step, 1)); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
			b.ReportMetric(float64(b.N)/float64(s.writer.transactions.Load()-begun), "commits/transaction")
		})
	}
}

func BenchmarkLoad(b *testing.B) {
	s := openBench(b, Normal)
	session := uuid.New()
	for range 500 {
		d := drive(b, s, "t", session, at("entrypoint", checkpoint.Input, 1))
		require.NoError(b, d.commit(b.Context(), checkpoint.Completed, at("call_model", checkpoint.Step, 3), at("exit", checkpoint.Finish, 0)))
	}
	for b.Loop() {
		p, err := s.Load(b.Context(), &store.Load{Tenant: "t", Session: session})
		if err != nil || len(p.Messages) != 2000 {
			b.Fatal(len(p.Messages), err)
		}
	}
}
