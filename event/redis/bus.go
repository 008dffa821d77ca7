package redis

import (
	"log/slog"
	"time"

	"github.com/google/uuid"
	goredis "github.com/redis/go-redis/v9"

	"github.com/everstep-go/everstep/event"
)

// BusOptions are the options of [NewBus]. The zero value has the defaults.
type BusOptions struct {
	// Prefix begins the names of all keys and of the channel. Default: "everstep:".
	Prefix string
	// Keep is how long the events of a run that has ended are kept. Default: a minute.
	Keep time.Duration
	// Bytes bounds the events that are kept of one run. The newest are kept, however large.
	// Default: 4 MiB.
	Bytes int
	// Logger is told when Redis cannot be reached. Default: [slog.Default].
	Logger *slog.Logger
	// Relay tunes what this process keeps, collects and waits for.
	Relay event.RelayOptions
}

// Bus is an event.Bus, an event.Follower and an event.Signaler between the processes that use a
// Redis server.
type Bus struct {
	*event.Relay
}

var (
	_ event.Bus      = (*Bus)(nil)
	_ event.Follower = (*Bus)(nil)
	_ event.Signaler = (*Bus)(nil)
)

// stale is how long the stream of a run is kept to which nothing is added. Its observers begin again
// with a snapshot.
const stale = time.Hour

// NewBus returns a bus on a client, which it uses from now on, whether the server is there already
// or not.
func NewBus(client goredis.UniversalClient, opts *BusOptions) *Bus {
	var o BusOptions
	if opts != nil {
		o = *opts
	}
	if o.Prefix == "" {
		o.Prefix = "everstep:"
	}
	if o.Keep <= 0 {
		o.Keep = time.Minute
	}
	if o.Bytes <= 0 {
		o.Bytes = 4 << 20
	}
	if o.Relay.Logger == nil {
		o.Relay.Logger = o.Logger
	}
	return &Bus{event.NewRelay(&streams{
		client: client, prefix: o.Prefix, channel: o.Prefix + "notices", self: uuid.New(), keep: o.Keep, bytes: o.Bytes,
	}, &o.Relay)}
}
