package redis_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/internal/redisserver/redistest"
	"github.com/everstep-go/everstep/internal/tale"
)

// BenchmarkLatency measures how long it takes from Publish until an observer in another process has
// the event, while other runs say a hundred words in a second each, and are observed.
func BenchmarkLatency(b *testing.B) {
	for _, runs := range []int{0, 32} {
		b.Run(fmt.Sprintf("busy=%d", runs), func(b *testing.B) {
			here, there := pair(b, redistest.Start(b), event.MemoryOptions{})
			hears(b, here, there)
			ctx, stop := context.WithCancel(b.Context())
			var wg sync.WaitGroup
			for range runs {
				s := tale.New()
				seq := there.Follow(ctx, "t", s.Run, 0)
				wg.Go(func() {
					for range seq { // until ctx ends
					}
				})
				wg.Go(func() {
					tick := time.NewTicker(10 * time.Millisecond)
					defer tick.Stop()
					for ctx.Err() == nil {
						s.Say(here, tale.Word("a few words"))
						<-tick.C
					}
				})
			}
			s := tale.New()
			s.Say(here, tale.Word("a"))
			heard := make(chan time.Time)
			seq := there.Follow(ctx, "t", s.Run, 0)
			wg.Go(func() {
				for _, err := range seq {
					if err != nil {
						return
					}
					heard <- time.Now()
				}
			})
			<-heard
			var all []time.Duration
			tick := time.NewTicker(7 * time.Millisecond) // not in step with the others
			defer tick.Stop()
			for b.Loop() {
				<-tick.C
				began := time.Now()
				s.Say(here, tale.Word("a"))
				all = append(all, (<-heard).Sub(began))
			}
			stop()
			wg.Wait()
			require.NotEmpty(b, all)
			slices.Sort(all)
			b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "p99-ms")
			b.ReportMetric(0, "ns/op") // it has the pauses
		})
	}
}
