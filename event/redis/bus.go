package redis

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/everstep-go/everstep/event"
)

// Options are the options of [Open] and [New]. The zero value has the defaults.
type Options struct {
	// Prefix begins the names of all keys, and connects the buses that have the same one. Empty means
	// "everstep:".
	Prefix string
	// Bytes bounds the events that are kept of one run, of which the newest are, however large. Zero means
	// 4 MiB.
	Bytes int
	// Keep is how long the log of a run that has ended is kept. Zero means a minute.
	Keep time.Duration
	// MaxAge is how long the log of a run is kept that says nothing more, and has not ended. Zero means an hour.
	MaxAge time.Duration
	// Relay tunes what this process keeps, collects and waits for.
	Relay event.RelayOptions
}

// Bus is an [event.Bus] over the processes that use a Redis server. It is an [event.Signaler] and an
// [event.Follower], too. All its methods may be called by any number of goroutines.
type Bus struct {
	*event.Relay
	client redis.UniversalClient // nil if it is the caller's
	close  sync.Once
}

// Open connects to the server that the URL names. The ctx bounds the opening, not the bus's life.
func Open(ctx context.Context, url string, opts *Options) (*Bus, error) {
	config, err := redis.ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	config.ContextTimeoutEnabled = true
	client := redis.NewClient(config)
	if err := client.Ping(ctx).Err(); err != nil {
		_ = client.Close() // the first error is the one to tell
		return nil, fmt.Errorf("redis: %w", err)
	}
	b := New(client, opts)
	b.client = client
	return b, nil
}

// New is Open with a client of the caller's own, which Close leaves open. It does not connect: that the
// server can be reached shows later, in the log. The client should have ContextTimeoutEnabled.
func New(client redis.UniversalClient, opts *Options) *Bus {
	var o Options
	if opts != nil {
		o = *opts
	}
	o.Prefix = cmp.Or(o.Prefix, "everstep:")
	o.Bytes = cmp.Or(o.Bytes, 4<<20)
	o.Keep = cmp.Or(o.Keep, time.Minute)
	o.MaxAge = cmp.Or(o.MaxAge, time.Hour)
	return &Bus{Relay: event.NewRelay(&streams{client: client, opts: o, self: uuid.New()}, &o.Relay)}
}

// Close sends what waits and ends all observers. A second Close does nothing.
func (b *Bus) Close() (err error) {
	b.close.Do(func() {
		err = b.Relay.Close()
		if b.client != nil {
			err = cmp.Or(err, b.client.Close())
		}
	})
	return err
}
