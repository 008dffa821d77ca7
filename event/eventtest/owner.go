package eventtest

import (
	"errors"
	"math"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

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
// the numbers of both owners. Between them it calls f.
func (b *bundle) takeover(f func(next int64)) (former, successor []int64) {
	b.say(b.One, 1, 5)
	b.sides(func(_ string, bus event.Bus) { b.arrived(bus, 5) })
	next := int64(ownerNumbers + 6)
	f(next)
	b.say(b.Other, next, next+9)
	b.finish(b.Other, next+10)
	return count(1, 5), count(next, next+10)
}

// A bus that cannot know whether it has all of a former owner may say that there is a gap before
// its successor: then the first number that is kept is the successor's first. Followers go on there.
var ownerScenarios = []scenario{
	{
		name:    "taken_over",
		defends: "An observer follows a run to another process, and misses nothing of its new owner.",
		run: func(b *bundle) {
			var watchers, late []*watcher
			former, successor := b.takeover(func(int64) {
				b.sides(func(_ string, bus event.Bus) {
					w := b.follow(bus, 0)
					w.until(5)
					watchers = append(watchers, w)
					late = append(late, b.follow(bus, 5))
				})
				b.drop(b.One)
				b.begin(b.Other)
			})
			for i, w := range watchers {
				w.expect(append(former, successor...), "observer %d", i)
			}
			for i, w := range late {
				w.expect(successor, "observer %d after 5", i)
			}
			b.sides(func(side string, bus event.Bus) {
				for after, want := range map[int64][]int64{5: successor, 1000: successor, successor[0]: successor[1:]} {
					b.follow(bus, after).expect(want, "on %s after %d", side, after)
				}
				seen, err := b.follow(bus, 0).end()
				require.NoError(b, err)
				if got := numbers(seen); len(got) != len(successor) {
					require.Equal(b, append(former, successor...), got, "on %s from the start", side)
				} else {
					require.Equal(b, successor, got, "on %s from the start", side)
				}
			})
		},
	},
	{
		name:    "gap_at_a_takeover",
		defends: "A gap before the events of a new owner is none in front of which it began.",
		run: func(b *bundle) {
			var watchers []*watcher
			former, successor := b.takeover(func(int64) {
				b.sides(func(_ string, bus event.Bus) {
					w := b.watch(bus, 0)
					w.until(5)
					watchers = append(watchers, w)
				})
				b.drop(b.One)
			})
			for i, w := range watchers {
				seen, err := w.end()
				gap, isGap := errors.AsType[*event.GapError](err)
				switch {
				case err == nil:
					require.Equal(b, append(former, successor...), numbers(seen), "observer %d", i)
				case isGap:
					require.Equal(b, successor[0], gap.First, "observer %d", i)
					require.Equal(b, former, numbers(seen), "observer %d", i)
				default: // its bus was told that the run goes on elsewhere
					require.ErrorIs(b, err, event.ErrNoLog, "observer %d", i)
					require.Equal(b, former, numbers(seen), "observer %d", i)
				}
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
				for _, w := range watchers {
					w.until(first + 4)
				}
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
			former, successor := b.takeover(func(next int64) {
				b.sides(func(_ string, bus event.Bus) {
					w := b.follow(bus, 0)
					w.until(5)
					watchers = append(watchers, w)
				})
				b.drop(b.One)
				b.say(b.Other, next, next)
				for _, w := range watchers {
					w.until(next)
				}
				b.say(b.One, 6, 8)
				b.finish(b.One, 9)
			})
			for i, w := range watchers {
				w.expect(append(former, successor...), "observer %d", i)
			}
			b.follow(b.Other, successor[0]).expect(successor[1:], "on the successor's bus")
		},
	},
	{
		name:    "ended_elsewhere",
		defends: "A run ends once: what is said after that is ignored.",
		run: func(b *bundle) {
			_, successor := b.takeover(func(int64) { b.drop(b.One) })
			last := successor[len(successor)-1]
			b.sides(func(_ string, bus event.Bus) { b.arrived(bus, last) })
			b.say(b.Other, last+1, last+3)
			b.finish(b.Other, last+4)
			b.sides(func(side string, bus event.Bus) {
				b.follow(bus, successor[0]-1).expect(successor, "on %s", side)
				b.watch(bus, math.MaxInt64).expect(nil, "on %s", side)
			})
		},
	},
}
