package eventtest

import (
	"context"
	"iter"
	"math"
	"sync"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
)

var logScenarios = []scenario{
	{
		name:    "order",
		defends: "An observer sees the events of a run in the order of their numbers, each once.",
		run: func(b *bundle) {
			const last = 500
			b.say(b.One, 1, 1)
			var watchers []*watcher
			b.sides(func(_ string, bus event.Bus) { watchers = append(watchers, b.follow(bus, 0)) })
			for _, w := range watchers {
				w.until(1)
			}
			b.say(b.One, 2, last-1)
			b.finish(b.One, last)
			for _, w := range watchers {
				w.expect(count(1, last), "a run of %d events", last)
			}
		},
	},
	{
		name:    "replay",
		defends: "Subscribe gives everything after the number that is kept; zero is from the start.",
		run: func(b *bundle) {
			b.say(b.One, 1, 20)
			b.sides(func(_ string, bus event.Bus) { b.arrived(bus, 20) })
			b.finish(b.One, 21)
			b.sides(func(side string, bus event.Bus) {
				b.arrived(bus, 21)
				for _, after := range []int64{0, 1, 7, 19, 20, 21} {
					b.watch(bus, after).expect(count(after+1, 21), "on %s after %d", side, after)
				}
				b.watch(bus, -5).expect(count(1, 21), "a negative number is from the start")
			})
		},
	},
	{
		name:    "replay_then_live",
		defends: "Between what is kept and what happens then, an observer misses nothing and sees nothing twice.",
		run: func(b *bundle) {
			const last = 2000
			b.say(b.One, 1, 1)
			b.sides(func(_ string, bus event.Bus) { b.arrived(bus, 1) })
			var wg sync.WaitGroup
			wg.Go(func() {
				b.say(b.One, 2, last-1)
				b.finish(b.One, last)
			})
			var watchers []*watcher
			for range 20 {
				b.sides(func(_ string, bus event.Bus) { watchers = append(watchers, b.watch(bus, 0)) })
			}
			wg.Wait()
			for _, w := range watchers {
				w.expect(count(1, last), "who came while the run published")
			}
		},
	},
	{
		name:    "beyond_the_last",
		defends: "A number beyond the last counts as the last.",
		run: func(b *bundle) {
			b.say(b.One, 1, 3)
			b.sides(func(_ string, bus event.Bus) { b.arrived(bus, 3) })
			var watchers []*watcher
			b.sides(func(_ string, bus event.Bus) {
				for _, after := range []int64{3, 4, 1000, math.MaxInt64} {
					watchers = append(watchers, b.watch(bus, after))
				}
			})
			b.say(b.One, 4, 4)
			b.finish(b.One, 5)
			for i, w := range watchers {
				w.expect(count(4, 5), "observer %d", i)
			}
		},
	},
	{
		name:    "attached_by_the_call",
		defends: "The observer is attached by the call, not by the loop.",
		run: func(b *bundle) {
			b.say(b.One, 1, 2)
			var calls []iter.Seq2[event.Event, error]
			b.sides(func(_ string, bus event.Bus) {
				b.arrived(bus, 2)
				calls = append(calls, bus.Subscribe(b.ctx, tenant, b.run, math.MaxInt64))
			})
			b.say(b.One, 3, 3)
			b.sides(func(_ string, bus event.Bus) { b.arrived(bus, 3) })
			b.finish(b.One, 4)
			for i, seq := range calls {
				b.loop(seq).expect(count(3, 4), "observer %d: number 3 came between the call and the loop", i)
			}
		},
	},
	{
		name:    "terminal",
		defends: "The terminal event ends the sequence, and everything after it is ignored.",
		run: func(b *bundle) {
			for _, data := range []event.Data{event.RunFinished{Status: "completed"}, event.RunError{Error: "?"}} {
				b.run = uuid.New()
				b.say(b.One, 1, 1)
				b.One.Publish(b.event(2, data))
				b.say(b.One, 3, 3)
				b.finish(b.One, 4)
				b.sides(func(side string, bus event.Bus) {
					b.arrived(bus, 2)
					b.watch(bus, 0).expect(count(1, 2), "on %s", side)
					for _, after := range []int64{2, 3, 99, math.MaxInt64} {
						b.watch(bus, after).expect(nil, "on %s after %d", side, after)
					}
				})
			}
		},
	},
	{
		name:    "repeated",
		defends: "A number that is not above the last one of the log is a repetition and ignored.",
		run: func(b *bundle) {
			for _, n := range []int64{1, 2, 2, 1, 3} {
				b.say(b.One, n, n)
			}
			b.finish(b.One, 3)
			b.say(b.One, 4, 4)
			b.finish(b.One, 5)
			b.sides(func(side string, bus event.Bus) {
				b.arrived(bus, 5)
				b.watch(bus, 0).expect(count(1, 5), "on %s", side)
			})
		},
	},
	{
		name:    "jumps",
		defends: "Numbers grow, and may jump: as a gap, or without one.",
		run: func(b *bundle) {
			all := []int64{1, 2, 1000, 1001, 5000, 5001}
			b.say(b.One, 1, 1)
			var watchers []*watcher
			b.sides(func(_ string, bus event.Bus) {
				w := b.follow(bus, 0)
				w.until(1)
				watchers = append(watchers, w)
			})
			for _, n := range all[1:5] {
				b.say(b.One, n, n)
				for _, w := range watchers {
					w.until(n)
				}
			}
			b.finish(b.One, 5001)
			for i, w := range watchers {
				w.expect(all, "observer %d", i)
			}
			b.sides(func(side string, bus event.Bus) {
				for i, after := range []int64{0, 1, 2, 1000, 4000, 5000} {
					seen, err := b.follow(bus, after).end()
					require.NoError(b, err)
					got, want := numbers(seen), all[min(i, 4):]
					if after == 5000 {
						want = all[5:]
					}
					require.NotEmpty(b, got, "on %s after %d", side, after)
					require.LessOrEqual(b, len(got), len(want), "on %s after %d: %v", side, after, got)
					require.Equal(b, want[len(want)-len(got):], got, "on %s after %d", side, after)
					require.LessOrEqual(b, got[0], max(5000, want[0]), "on %s after %d", side, after)
				}
			})
		},
	},
	{
		name:    "unknown",
		defends: "Who asks for a run that the bus has no log of is told at once that there is none.",
		run: func(b *bundle) {
			b.sides(func(side string, bus event.Bus) {
				for _, after := range []int64{0, 7, math.MaxInt64} {
					b.watch(bus, after).fails(event.ErrNoLog, nil, "on %s after %d", side, after)
				}
			})
		},
	},
	{
		name:    "tenants",
		defends: "A run of another tenant looks like none, and may have the same id.",
		run: func(b *bundle) {
			b.say(b.One, 1, 2)
			b.sides(func(side string, bus event.Bus) {
				b.arrived(bus, 2)
				for _, stranger := range []string{"other", "", tenant + ":" + b.run.String(), "*"} {
					for e, err := range bus.Subscribe(b.ctx, stranger, b.run, 0) {
						require.ErrorIs(b, err, event.ErrNoLog, "tenant %q on %s", stranger, side)
						require.Equal(b, event.Event{}, e)
					}
				}
			})
			theirs := b.event(1, event.RunFinished{Status: "completed"})
			theirs.Tenant = "other"
			b.One.Publish(theirs)
			b.say(b.One, 3, 3)
			b.finish(b.One, 4)
			b.sides(func(side string, bus event.Bus) {
				b.arrived(bus, 4)
				b.watch(bus, 0).expect(count(1, 4), "on %s", side)
				b.eventually(func() bool {
					var got []event.Event
					for e, err := range bus.Subscribe(b.ctx, "other", b.run, 0) {
						if err == nil {
							got = append(got, e)
						}
					}
					return len(got) == 1 && got[0].Tenant == "other" && event.Terminal(got[0].Data)
				}, "had the run of the other tenant on %s", side)
			})
		},
	},
	{
		name:    "opened",
		defends: "A log that was begun can be observed before the first event of its run.",
		run: func(b *bundle) {
			if !b.begin(b.One) {
				return
			}
			b.begin(b.One) // a second time does nothing
			watchers := []*watcher{b.watch(b.One, 0), b.watch(b.One, math.MaxInt64)}
			b.say(b.One, 1, 1)
			b.begin(b.One)
			b.finish(b.One, 2)
			for i, w := range watchers {
				w.expect(count(1, 2), "observer %d", i)
			}
		},
	},
	{
		name:    "followed",
		defends: "Who follows a run waits for its first event, and sees all.",
		run: func(b *bundle) {
			follower, ok := b.Other.(event.Follower)
			if !ok {
				return
			}
			var watchers []*watcher
			for _, after := range []int64{0, 0, math.MaxInt64} {
				watchers = append(watchers, b.loop(follower.Follow(b.ctx, tenant, b.run, after)))
			}
			b.say(b.One, 1, 3)
			b.finish(b.One, 4)
			for i, w := range watchers {
				w.expect(count(1, 4), "observer %d", i)
			}
			b.loop(follower.Follow(b.ctx, tenant, b.run, 2)).expect(count(3, 4), "of a run that has ended")
			ctx, stop := context.WithCancel(b.ctx)
			b.run = uuid.New()
			w := b.loop(follower.Follow(ctx, tenant, b.run, 0))
			stop()
			w.fails(context.Canceled, nil, "who follows a run that never begins")
		},
	},
	{
		name:    "begun_in_the_middle",
		defends: "A log that begins in the middle of its run has a gap before it.",
		run: func(b *bundle) {
			b.say(b.One, 1000, 1000)
			b.finish(b.One, 1001)
			b.sides(func(side string, bus event.Bus) {
				b.arrived(bus, 1001)
				for _, after := range []int64{0, 40, 998} {
					seen, err := b.watch(bus, after).end()
					require.Empty(b, seen)
					require.Equal(b, &event.GapError{First: 1000}, err, "on %s after %d", side, after)
				}
				b.watch(bus, 999).expect(count(1000, 1001), "on %s", side)
			})
		},
	},
}
