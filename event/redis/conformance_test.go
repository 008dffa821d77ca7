package redis_test

import (
	"log/slog"
	"testing"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/event/eventtest"
	"github.com/everstep-go/everstep/event/redis"
	"github.com/everstep-go/everstep/internal/redisserver"
	"github.com/everstep-go/everstep/internal/redisserver/redistest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	eventtest.Run(t, harness(s, func() goredis.UniversalClient {
		return goredis.NewClient(&goredis.Options{Addr: s.Addr(), ContextTimeoutEnabled: true})
	}))
}

func TestConformanceOnACluster(t *testing.T) {
	t.Parallel()
	s := redistest.StartCluster(t)
	eventtest.Run(t, harness(s, func() goredis.UniversalClient {
		return goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: []string{s.Addr()}, ContextTimeoutEnabled: true})
	}))
}

// harness opens buses on one server: where a case freezes it, others wait with it.
func harness(s *redisserver.Server, connect func() goredis.UniversalClient) eventtest.Harness {
	return eventtest.Harness{Patience: wait, Open: func(t testing.TB, opts eventtest.Options) eventtest.Pair {
		open := func() *redis.Bus {
			client := connect()
			t.Cleanup(func() { client.Close() })
			b := redis.New(client, &redis.Options{Prefix: t.Name() + ":", Bytes: opts.Bytes, Relay: event.RelayOptions{
				Memory: event.MemoryOptions{Bytes: opts.Bytes}, Logger: slog.New(slog.DiscardHandler),
			}})
			t.Cleanup(func() { assert.NoError(t, b.Close()) })
			return b
		}
		one, other := open(), open()
		return eventtest.Pair{
			One: one, Other: other,
			Pause:  func() { assert.NoError(t, s.Freeze()) },
			Resume: func() { assert.NoError(t, s.Thaw()) },
		}
	}}
}
