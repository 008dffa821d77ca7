package postgres

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/internal/pgserver"
	"github.com/everstep-go/everstep/internal/pgserver/pgtest"
	"github.com/everstep-go/everstep/store"
)

// openBench opens a store on a server that flushes.
func openBench(b *testing.B, conns int) *Store {
	dsn := pgtest.Database(b, pgtest.Start(b, &pgserver.Options{Fsync: true}))
	s := open(b, dsn, &Options{MaxConns: conns})
	execute(b, connect(b, dsn), `CREATE TABLE bare (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body bytea)`)
	return s
}

// bare commits one small row, nothing around it: what the server and the disk allow.
func (s *Store) bare(b *testing.B) {
	if _, err := s.pool.Exec(b.Context(), `INSERT INTO bare (body) VALUES ($1)`, make([]byte, 200)); err != nil {
		b.Fatal(err)
	}
}

// Both kinds of commit by turns on one server, so that a disk that changes its mind in between
// does not matter.
func BenchmarkCommitAgainstBare(b *testing.B) {
	s := openBench(b, 2)
	d := drive(b, s, uuid.New(), step("entrypoint", 1))
	var ours, theirs []time.Duration
	for b.Loop() {
		t0 := time.Now()
		s.bare(b)
		t1 := time.Now()
		if err := d.commit(b.Context(), checkpoint.Running, step("call_model", 1), step("exit", 0)); err != nil {
			b.Fatal(err)
		}
		theirs, ours = append(theirs, t1.Sub(t0)), append(ours, time.Since(t1))
	}
	report := func(name string, percent int) {
		slices.Sort(ours)
		slices.Sort(theirs)
		i := len(ours) * percent / 100
		b.ReportMetric(float64(ours[i].Microseconds()), name+"-commit-µs")
		b.ReportMetric(float64(theirs[i].Microseconds()), name+"-bare-µs")
		b.ReportMetric(float64(ours[i])/float64(theirs[i]), name+"-ratio")
	}
	report("p50", 50)
	report("p99", 99)
}

func BenchmarkConcurrentCommits(b *testing.B) {
	for _, clients := range []int{1, 8, 32} {
		for _, what := range []string{"bare", "commit", "task"} {
			b.Run(fmt.Sprintf("%s/clients=%d", what, clients), func(b *testing.B) {
				s := openBench(b, clients)
				runs := make([]*driven, clients)
				for i := range runs {
					runs[i] = drive(b, s, uuid.New(), step("entrypoint", 1))
				}
				var left atomic.Int64
				left.Store(int64(b.N))
				b.ResetTimer()
				var wg sync.WaitGroup
				for _, d := range runs {
					wg.Go(func() {
						for n := left.Add(-1); n >= 0; n = left.Add(-1) {
							var err error
							switch what {
							case "bare":
								s.bare(b)
							case "commit":
								err = d.commit(b.Context(), checkpoint.Running, step("call_model", 1))
							case "task":
								err = s.SaveTask(b.Context(), d.task(fmt.Sprint(n)))
							}
							if err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
			})
		}
	}
}

func BenchmarkLoad(b *testing.B) {
	s := openBench(b, 2)
	session := uuid.New()
	for range 500 {
		d := drive(b, s, session, step("entrypoint", 1))
		require.NoError(b, d.commit(b.Context(), checkpoint.Completed, step("call_model", 3), step("exit", 0)))
	}
	for b.Loop() {
		p, err := s.Load(b.Context(), &store.Load{Tenant: "t", Session: session})
		if err != nil || len(p.Messages) != 2000 {
			b.Fatal(len(p.Messages), err)
		}
	}
}
