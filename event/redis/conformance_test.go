package redis_test

import (
	"context"
	"testing"
	"time"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/event/eventtest"
	"github.com/everstep-go/everstep/internal/redisserver/redistest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	eventtest.Run(t, eventtest.Harness{
		Patience: wait,
		Open: func(t testing.TB, opts eventtest.Options) eventtest.Pair {
			here, there := pair(t, s, event.MemoryOptions{Bytes: opts.Bytes})
			connected(here, there)
			connected(there, here)
			return eventtest.Pair{One: here, Other: there}
		},
	})
}

// connected returns when what one bus signals reaches the other.
func connected(from, to event.Signaler) {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	signals := to.Signals(ctx)
	go func() {
		again := time.NewTicker(time.Millisecond)
		defer again.Stop()
		for ctx.Err() == nil {
			from.Signal(event.Signal{Kind: event.SessionIdle, Tenant: "connected"})
			<-again.C
		}
	}()
	for range signals {
		return
	}
}
