package redis_test

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/everstep-go/everstep/event"
	eventredis "github.com/everstep-go/everstep/event/redis"
)

// Each process of an application opens its own bus on the same server.
func Example() {
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer client.Close()
	bus := eventredis.NewBus(client, &eventredis.BusOptions{Prefix: "shop:"})
	defer bus.Close()

	// In one process, by a graph.Runner with this Bus.
	run := uuid.New()
	bus.Publish(event.Event{Seq: 1, Time: time.Now(), Tenant: "acme", Run: run, Data: event.RunStarted{}})

	// In another one, by Events of a graph.Run.
	for e, err := range bus.Follow(context.Background(), "acme", run, 0) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(e.Seq, e.Data.Kind())
	}
}
