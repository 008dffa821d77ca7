package eventtest

import (
	"errors"
	"math"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
)

// Of the cases about gaps: each event has about one KiB, and the log has room for some of them.
const (
	pieces = 400
	room   = 32 << 10
)

func (b *bundle) piece(seq int64) event.Event {
	return b.event(seq, event.TextMessageContent{MessageID: b.session, Delta: strings.Repeat("x", 1<<10)})
}

var gapScenarios = []scenario{
	{
		name:    "pushed_out",
		defends: "Who asks for events that are gone is told the oldest number that is kept, and goes on there.",
		options: Options{Bytes: room},
		run: func(b *bundle) {
			for n := int64(1); n < pieces; n++ {
				b.One.Publish(b.piece(n))
			}
			b.finish(b.One, pieces)
			b.sides(func(side string, bus event.Bus) {
				b.arrived(bus, pieces)
				seen, err := b.watch(bus, 0).end()
				require.ErrorIs(b, err, event.ErrGap, "on %s", side)
				require.Empty(b, seen, "on %s", side)
				gap, ok := errors.AsType[*event.GapError](err)
				require.True(b, ok, "%T", err)
				require.Greater(b, gap.First, int64(pieces/2), "on %s the log keeps within its bytes", side)
				require.LessOrEqual(b, gap.First, int64(pieces), "on %s the newest event is kept", side)
				b.watch(bus, gap.First-1).expect(count(gap.First, pieces), "on %s", side)
				b.watch(bus, gap.First-2).fails(event.ErrGap, nil, "on %s number %d is gone", side, gap.First-1)
				b.watch(bus, math.MaxInt64).expect(nil, "on %s", side)
			})
		},
	},
	{
		name:    "too_slow",
		defends: "An observer that was too slow for the log is cut off with a gap, and never misses an event silently.",
		options: Options{Bytes: room},
		run: func(b *bundle) {
			b.One.Publish(b.piece(1))
			release := make(chan struct{})
			var slow []*watcher
			b.sides(func(_ string, bus event.Bus) {
				b.arrived(bus, 1)
				slow = append(slow, b.dawdle(bus, release))
			})
			b.within(func() {
				for n := int64(2); n <= pieces; n++ {
					b.One.Publish(b.piece(n))
				}
			}, "publishing beside a slow observer")
			b.sides(func(_ string, bus event.Bus) { b.arrived(bus, pieces) })
			close(release)
			for _, w := range slow {
				seen, err := w.end()
				gap, ok := errors.AsType[*event.GapError](err)
				require.True(b, ok, "a slow observer ends with %v", err)
				last := seen[len(seen)-1].Seq
				require.Equal(b, count(1, last), numbers(seen), "what came before the gap")
				require.Greater(b, gap.First, last+1)
			}
			b.finish(b.One, pieces+1)
			b.sides(func(side string, bus event.Bus) {
				w := b.follow(bus, 1)
				seen, err := w.end()
				require.NoError(b, err)
				require.Equal(b, count(seen[0].Seq, pieces+1), numbers(seen), "on %s who goes on with the first that is kept", side)
			})
		},
	},
	{
		name:    "larger_than_the_log",
		defends: "The newest event is kept, however large it is.",
		options: Options{Bytes: 1 << 10},
		run: func(b *bundle) {
			b.say(b.One, 1, 1)
			b.One.Publish(b.event(2, event.TextMessageContent{Delta: strings.Repeat("x", 64<<10)}))
			b.sides(func(side string, bus event.Bus) {
				b.arrived(bus, 2)
				w := b.watch(bus, 1)
				w.until(2)
				w.stop()
			})
		},
	},
}
