package event_test

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/event"
)

func Example() {
	bus := event.NewMemory(nil)
	defer bus.Close()

	run, id := uuid.New(), uuid.New()
	for i, data := range []event.Data{
		event.RunStarted{},
		event.TextMessageStart{MessageID: id},
		event.TextMessageContent{MessageID: id, Delta: "Take an umbrella."},
		event.TextMessageEnd{MessageID: id},
		event.RunFinished{Status: "completed"},
	} {
		bus.Publish(event.Event{Seq: int64(i + 1), Time: time.Now(), Tenant: "acme", Run: run, Data: data})
	}

	for e, err := range bus.Subscribe(context.Background(), "acme", run, 2) {
		if err != nil {
			fmt.Println(err)
			return
		}
		switch d := e.Data.(type) {
		case event.TextMessageContent:
			fmt.Println(e.Seq, d.Delta)
		case event.RunFinished:
			fmt.Println(e.Seq, d.Status)
		}
	}
	// Output:
	// 3 Take an umbrella.
	// 5 completed
}

func ExampleEvent_MarshalJSON() {
	e := event.Event{
		Seq:  12,
		Time: time.UnixMilli(1710000000250),
		Data: event.ToolCallStart{ToolCallID: "call_1", ToolName: "weather"},
	}
	data, err := json.Marshal(e)
	fmt.Println(string(data), err)
	// Output: {"kind":"tool_call_start","timestamp":1710000000.25,"tool_call_id":"call_1","tool_name":"weather","parent_message_id":null} <nil>
}
