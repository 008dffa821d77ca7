// Bench compares what a durable step costs: on store/postgres, with DBOS on the same server, and as the least that it
// could cost, a commit of one row. It starts a PostgreSQL of its own, which flushes to the disk as one should.
//
//	go run ./internal/bench
//	go run ./internal/bench -time 10s -rounds 7 -workers 1,8,32
//
// The contenders take turns within each round, so that a slow moment of the machine meets all of them. What is printed
// is the median of the rounds.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/everstep-go/everstep/internal/pgserver"
)

var (
	span    = flag.Duration("time", 3*time.Second, "how long a contender runs in a round")
	rounds  = flag.Int("rounds", 5, "how many rounds there are")
	workers = flag.String("workers", "1,32", "how many runs go on at once, separated by commas")
)

// size of what a step keeps, in bytes.
const size = 1 << 10

// steps of a run.
const steps = 20

// A contender does durable steps.
type contender struct {
	name string
	// run does one run of steps steps, and calls done after each. It is called by many goroutines.
	run func(ctx context.Context, done func()) error
}

// result is what a contender did in a round.
type result struct {
	perSecond, p50, p99 float64 // the latter two in milliseconds
}

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := bench(ctx); err != nil {
		log.Fatal(err)
	}
}

func bench(ctx context.Context) error {
	server, err := pgserver.Start(ctx, &pgserver.Options{Fsync: true})
	if err != nil {
		return err
	}
	defer server.Stop()
	flush, err := flushTime()
	if err != nil {
		return err
	}
	fmt.Printf("a flush of the disk takes %.2f ms; %d rounds of %v; steps of %d bytes\n", flush, *rounds, *span, size)
	var all []contender
	for _, open := range []func(context.Context, *pgserver.Server) (contender, func(), error){openBare, openEverstep, openDBOS} {
		c, end, err := open(ctx, server)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		defer end()
		all = append(all, c)
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(table, "runs at once\t\tsteps/s\tp50 ms\tp99 ms\tsteps/s of bare\tp50 of bare\tp99 of bare\t\n")
	for _, text := range strings.Split(*workers, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fmt.Errorf("-workers %q: not a positive number", text)
		}
		results := make([][]result, len(all))
		for range *rounds {
			for i, c := range all {
				r, err := c.measure(ctx, n)
				if err != nil {
					return fmt.Errorf("%s: %w", c.name, err)
				}
				results[i] = append(results[i], r)
			}
		}
		bare := median(results[0])
		for i, c := range all {
			m := median(results[i])
			fmt.Fprintf(table, "%d\t%s\t%.0f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t\n", n, c.name, m.perSecond, m.p50, m.p99, m.perSecond/bare.perSecond, m.p50/bare.p50, m.p99/bare.p99)
		}
	}
	return table.Flush()
}

// measure has n goroutines do runs, until the time is over.
func (c contender) measure(ctx context.Context, n int) (result, error) {
	ctx, stop := context.WithTimeout(ctx, *span)
	defer stop()
	var (
		mu    sync.Mutex // guards what follows
		times []time.Duration
		fault error
		all   sync.WaitGroup
	)
	began := time.Now()
	for range n {
		all.Go(func() {
			var own []time.Duration
			var err error
			for err == nil && ctx.Err() == nil {
				last := time.Now()
				// A run that is cut off in the middle would have to be cleaned up: it goes on to its end.
				err = c.run(context.WithoutCancel(ctx), func() {
					now := time.Now()
					if ctx.Err() == nil {
						own = append(own, now.Sub(last))
					}
					last = now
				})
			}
			mu.Lock()
			defer mu.Unlock()
			times, fault = append(times, own...), cmp.Or(fault, err)
		})
	}
	all.Wait()
	if fault != nil {
		return result{}, fault
	}
	if len(times) == 0 {
		return result{}, errors.New("it did no step")
	}
	slices.Sort(times)
	at := func(q float64) float64 {
		return float64(times[int(q*float64(len(times)-1))]) / float64(time.Millisecond)
	}
	return result{perSecond: float64(len(times)) / min(time.Since(began), *span).Seconds(), p50: at(0.5), p99: at(0.99)}, nil
}

func median(rs []result) result {
	of := func(field func(result) float64) float64 {
		values := make([]float64, 0, len(rs))
		for _, r := range rs {
			values = append(values, field(r))
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	return result{
		perSecond: of(func(r result) float64 { return r.perSecond }),
		p50:       of(func(r result) float64 { return r.p50 }),
		p99:       of(func(r result) float64 { return r.p99 }),
	}
}

// flushTime returns how long it takes to write a little and flush it, in milliseconds.
func flushTime() (float64, error) {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	f, err := os.Create(filepath.Join(dir, "flush"))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	const n = 200
	began := time.Now()
	for range n {
		if _, err := f.Write(make([]byte, 512)); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
	}
	return float64(time.Since(began)) / n / float64(time.Millisecond), nil
}
