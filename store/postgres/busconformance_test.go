package postgres

import (
	"testing"
	"time"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/event/eventtest"
	"github.com/everstep-go/everstep/internal/pgserver/pgtest"
)

func TestBusConformance(t *testing.T) {
	t.Parallel()
	eventtest.Run(t, eventtest.Harness{
		Patience: wait,
		Open: func(t testing.TB, opts eventtest.Options) eventtest.Pair {
			o := BusOptions{Relay: event.RelayOptions{Memory: event.MemoryOptions{Bytes: opts.Bytes}, Poll: 50 * time.Millisecond}}
			here, there := pair(t, pgtest.New(t), o)
			return eventtest.Pair{One: here, Other: there}
		},
	})
}
