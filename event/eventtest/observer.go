package eventtest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
)

var observerScenarios = []scenario{
	{
		name:    "many_observers",
		defends: "Hundreds of observers of a run see everything.",
		run: func(b *bundle) {
			const last, observers = 200, 200
			b.say(b.One, 1, 1)
			var watchers []*watcher
			b.sides(func(_ string, bus event.Bus) {
				b.arrived(bus, 1)
				for range observers {
					watchers = append(watchers, b.watch(bus, 0))
				}
			})
			b.say(b.One, 2, last-1)
			b.finish(b.One, last)
			for i, w := range watchers {
				w.expect(count(1, last), "observer %d", i)
			}
		},
	},
	{
		name:    "many_runs",
		defends: "An observer sees the events of its run only.",
		run: func(b *bundle) {
			const runs, last = 50, 20
			var ids []uuid.UUID
			var watchers []*watcher
			for range runs {
				b.run = uuid.New()
				ids = append(ids, b.run)
				b.say(b.One, 1, 1)
				b.sides(func(_ string, bus event.Bus) { watchers = append(watchers, b.follow(bus, 0)) })
			}
			for n := int64(2); n < last; n++ {
				for _, b.run = range ids {
					b.say(b.One, n, n)
				}
			}
			for _, b.run = range ids {
				b.finish(b.One, last)
			}
			for i, w := range watchers {
				seen, err := w.end()
				require.NoError(b, err)
				require.Equal(b, count(1, last), numbers(seen), "observer %d", i)
				for _, e := range seen {
					require.Equal(b, ids[i*runs/len(watchers)], e.Run, "observer %d", i)
				}
			}
		},
	},
	{
		name:    "own_pace",
		defends: "An observer that does not go on holds up neither the publisher nor other observers.",
		run: func(b *bundle) {
			const last = 500
			b.say(b.One, 1, 1)
			release := make(chan struct{})
			var slow, quick []*watcher
			b.sides(func(_ string, bus event.Bus) {
				b.arrived(bus, 1)
				slow = append(slow, b.dawdle(bus, release))
				quick = append(quick, b.watch(bus, 0))
			})
			b.within(func() {
				b.say(b.One, 2, last-1)
				b.finish(b.One, last)
			}, "publishing")
			for _, w := range quick {
				w.expect(count(1, last), "beside a slow observer")
			}
			close(release)
			for _, w := range slow {
				w.expect(count(1, last), "for a slow observer all is kept that the log has room for")
			}
		},
	},
	{
		name:    "breaking",
		defends: "Breaking the loop only stops watching, and each loop starts again after the same number.",
		run: func(b *bundle) {
			b.say(b.One, 1, 5)
			b.sides(func(side string, bus event.Bus) {
				b.arrived(bus, 5)
				seq := bus.Subscribe(b.ctx, tenant, b.run, 2)
				for range 3 {
					b.within(func() {
						first := true
						for e, err := range seq {
							if err != nil || e.Seq != 3 || !first {
								b.Errorf("on %s a loop begins with number %d and %v, not with 3", side, e.Seq, err)
							}
							first = false
							break
						}
					}, "a loop of one event")
				}
			})
			var calls []func(string)
			b.sides(func(_ string, bus event.Bus) {
				seq := bus.Subscribe(b.ctx, tenant, b.run, 2)
				calls = append(calls, func(why string) { b.loop(seq).expect(count(3, 6), "%s", why) })
			})
			b.finish(b.One, 6)
			for _, call := range calls {
				call("the first whole loop")
				call("the second whole loop")
			}
		},
	},
	{
		name:    "context",
		defends: "The end of its context ends an observer with that error, and nobody else.",
		run: func(b *bundle) {
			b.say(b.One, 1, 1)
			b.sides(func(side string, bus event.Bus) {
				b.arrived(bus, 1)
				ended, other := b.watch(bus, 0), b.watch(bus, 0)
				ended.until(1)
				other.until(1)
				ended.stop()
				ended.fails(context.Canceled, count(1, 1), "on %s", side)
				other.stop()
				other.fails(context.Canceled, count(1, 1), "on %s", side)
				gone, stop := context.WithCancel(b.ctx)
				stop()
				b.loop(bus.Subscribe(gone, tenant, b.run, 0)).fails(context.Canceled, nil, "on %s, also when there is something to see", side)
			})
			w := b.watch(b.One, 0)
			b.finish(b.One, 2)
			w.expect(count(1, 2), "who watches on")
		},
	},
	{
		name:    "away",
		defends: "Publish does not keep the caller waiting, even while what connects the buses is away, and observers recover.",
		run: func(b *bundle) {
			if b.Pause == nil {
				return
			}
			const last = 1000
			b.say(b.One, 1, 1)
			var watchers []*watcher
			b.sides(func(_ string, bus event.Bus) {
				w := b.follow(bus, 0)
				w.until(1)
				watchers = append(watchers, w)
			})
			b.Pause()
			begin := time.Now()
			b.say(b.One, 2, last)
			took := time.Since(begin)
			b.Resume()
			require.Less(b, took, time.Second, "%d events", last)
			// What comes first may belong to what got lost.
			b.say(b.One, last+1, last+10)
			b.finish(b.One, last+11)
			for i, w := range watchers {
				seen, err := w.end()
				require.NoError(b, err)
				require.Equal(b, int64(last+11), seen[len(seen)-1].Seq, "observer %d", i)
			}
		},
	},
	{
		name:    "concurrent",
		defends: "All methods are safe for concurrent use.",
		run: func(b *bundle) {
			const runs, last = 8, 100
			ids := make([]uuid.UUID, runs)
			for i := range ids {
				ids[i] = uuid.New()
			}
			problems := make(chan error, 8*runs)
			var wg sync.WaitGroup
			for _, run := range ids {
				wg.Go(func() {
					for n := int64(1); n <= last; n++ {
						var data event.Data = event.TextMessageContent{Delta: "x"}
						if n == last {
							data = event.RunFinished{Status: "completed"}
						}
						b.One.Publish(event.Event{Seq: n, Time: time.Now(), Tenant: tenant, Session: b.session, Run: run, Data: data})
					}
				})
				b.sides(func(_ string, bus event.Bus) {
					wg.Go(func() {
						after := int64(0)
						for b.ctx.Err() == nil && after < last {
							for e, err := range bus.Subscribe(b.ctx, tenant, run, after) {
								if err == nil && e.Seq != after+1 {
									problems <- fmt.Errorf("number %d after %d", e.Seq, after)
								}
								if err == nil {
									after = e.Seq
								}
							}
						}
					})
				})
			}
			b.within(wg.Wait, "all observers see the end of their runs")
			select {
			case err := <-problems:
				b.Fatal(err)
			default:
			}
		},
	},
}

// dawdle observes the run, but does not go on after the first event until it is released.
func (b *bundle) dawdle(bus event.Bus, release <-chan struct{}) *watcher {
	seq := bus.Subscribe(b.ctx, tenant, b.run, 0)
	w := b.loop(func(yield func(event.Event, error) bool) {
		first := true
		for e, err := range seq {
			if !yield(e, err) {
				return
			}
			if first {
				first = false
				select {
				case <-release:
				case <-b.ctx.Done():
				}
			}
		}
	})
	w.until(1)
	return w
}
