package eventtest

import (
	"math"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/event"
)

// ownerNumbers lie between the numbers of one owner of a run and of the next.
const ownerNumbers = 1 << 32

// drop tells a bus that the run goes on elsewhere, if it wants to know.
func (b *bundle) drop(bus event.Bus) {
	if d, ok := bus.(interface{ Drop(string, uuid.UUID) }); ok && !b.single() {
		d.Drop(tenant, b.run)
	}
}

// takeover publishes a run that begins on the first bus and goes on with the other, and returns
// its numbers. Between the owners it calls f.
func (b *bundle) takeover(f func(next int64)) []int64 {
	b.say(b.One, 1, 5)
	b.sides(func(_ string, bus event.Bus) { b.arrived(bus, 5) })
	next := int64(ownerNumbers + 6)
	f(next)
	b.say(b.Other, next, next+9)
	b.finish(b.Other, next+10)
	return append(count(1, 5), count(next, next+10)...)
}

var ownerScenarios = []scenario{
	{
		name:    "taken_over",
		defends: "An observer follows a run to another process without a gap, and misses nothing of its new owner.",
		run: func(b *bundle) {
			var watchers []*watcher
			all := b.takeover(func(int64) {
				b.sides(func(_ string, bus event.Bus) {
					w := b.watch(bus, 0)
					w.until(5)
					watchers = append(watchers, w, b.watch(bus, math.MaxInt64), b.watch(bus, 5))
				})
			})
			for i, w := range watchers {
				want := all
				if i%3 > 0 {
					want = all[5:]
				}
				w.expect(want, "observer %d", i)
			}
			b.sides(func(side string, bus event.Bus) {
				for after, want := range map[int64][]int64{0: all, 4: all[4:], 5: all[5:], 1000: all[5:], ownerNumbers + 6: all[6:]} {
					b.watch(bus, after).expect(want, "on %s after %d", side, after)
				}
			})
		},
	},
	{
		name:    "taken_over_and_told",
		defends: "An owner that is told that its run goes on elsewhere does not lose its observers.",
		run: func(b *bundle) {
			var watchers []*watcher
			all := b.takeover(func(int64) {
				b.sides(func(_ string, bus event.Bus) {
					w := b.follow(bus, 0)
					w.until(5)
					watchers = append(watchers, w)
				})
				b.drop(b.One)
				b.begin(b.Other)
			})
			for i, w := range watchers {
				w.expect(all, "observer %d", i)
			}
		},
	},
	{
		name:    "taken_back",
		defends: "A run may come back to a process that had it before.",
		run: func(b *bundle) {
			b.say(b.One, 1, 5)
			var watchers []*watcher
			b.sides(func(_ string, bus event.Bus) {
				w := b.follow(bus, 0)
				w.until(5)
				watchers = append(watchers, w)
			})
			want := count(1, 5)
			owner := b.One
			for i := range int64(4) {
				first := (i+1)*ownerNumbers + 6
				b.drop(owner)
				if owner == b.One {
					owner = b.Other
				} else {
					owner = b.One
				}
				b.begin(owner)
				b.say(owner, first, first+4)
				want = append(want, count(first, first+4)...)
				b.sides(func(_ string, bus event.Bus) { b.arrived(bus, first+4) })
			}
			b.finish(owner, 5*ownerNumbers)
			want = append(want, 5*ownerNumbers)
			for i, w := range watchers {
				w.expect(want, "observer %d", i)
			}
		},
	},
	{
		name:    "former_owner",
		defends: "What a former owner says after its successor has begun is ignored.",
		run: func(b *bundle) {
			var watchers []*watcher
			all := b.takeover(func(next int64) {
				b.drop(b.One)
				b.say(b.Other, next, next)
				b.sides(func(_ string, bus event.Bus) {
					w := b.follow(bus, 0)
					w.until(next)
					watchers = append(watchers, w)
				})
				b.say(b.One, 6, 8)
				b.finish(b.One, 9)
			})
			for i, w := range watchers {
				w.expect(all, "observer %d", i)
			}
			b.watch(b.Other, 0).expect(all, "on the successor's bus")
		},
	},
	{
		name:    "ended_elsewhere",
		defends: "A run ends once: what any process says after that is ignored.",
		run: func(b *bundle) {
			all := b.takeover(func(int64) { b.drop(b.One) })
			b.sides(func(_ string, bus event.Bus) { b.arrived(bus, all[len(all)-1]) })
			b.say(b.Other, all[len(all)-1]+1, all[len(all)-1]+3)
			b.finish(b.Other, all[len(all)-1]+4)
			b.sides(func(side string, bus event.Bus) {
				b.watch(bus, 0).expect(all, "on %s", side)
				b.watch(bus, math.MaxInt64).expect(nil, "on %s", side)
			})
		},
	},
}
