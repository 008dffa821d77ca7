package eventtest

import (
	"io"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
)

var lifeScenarios = []scenario{
	{
		name:    "close",
		defends: "Closing a bus ends its observers with ErrClosed; what is published on it from then on is ignored.",
		run: func(b *bundle) {
			closer, ok := b.Other.(io.Closer)
			if !ok {
				return
			}
			b.say(b.One, 1, 1)
			b.arrived(b.Other, 1)
			w := b.watch(b.Other, 0)
			w.until(1)
			b.within(func() {
				for range 2 {
					if err := closer.Close(); err != nil {
						b.Errorf("closing the bus: %v", err)
					}
				}
			}, "closing a bus twice")
			w.fails(event.ErrClosed, count(1, 1), "who watched")
			b.watch(b.Other, 0).fails(event.ErrClosed, nil, "who comes later")
			b.within(func() {
				b.say(b.Other, 2, 3)
				b.begin(b.Other)
				b.drop(b.Other)
			}, "publishing on a bus that is closed")
			if b.single() {
				return
			}
			b.finish(b.One, 2)
			seen, err := b.follow(b.One, 0).end()
			require.NoError(b, err)
			require.Equal(b, count(1, 2), numbers(seen), "the bus that is open goes on")
			require.True(b, event.Terminal(seen[1].Data), "number 2 is of the bus that is open")
		},
	},
}
