package message_test

import (
	"encoding/json"
	"fmt"
	"log"

	"github.com/everstep-go/everstep/message"
)

func Example() {
	m, err := message.Unmarshal([]byte(`{"role":"user","content":"Umbrella in Oslo?"}`))
	if err != nil {
		log.Fatal(err)
	}
	switch m := m.(type) {
	case *message.User:
		data, err := json.Marshal(m.Content)
		fmt.Println(string(data), err)
	case *message.Assistant:
		fmt.Println(m.Content)
	}
	// Output: [{"type":"text","value":"Umbrella in Oslo?"}] <nil>
}

func ExampleWellFormed() {
	history := []message.Message{
		message.NewSystem("Be brief."),
		message.NewUser("Umbrella in Oslo?"),
		message.NewAssistant("", message.ToolCall{ID: "call_1", Name: "weather"}), // and then the machine died
		message.NewUser("Well?"),
	}
	fit, system := message.WellFormed(history, 0)
	fmt.Println(system)
	for _, m := range fit {
		fmt.Println(m.Role())
	}
	// Output:
	// [Be brief.]
	// user
	// assistant
	// tool
	// user
}

func ExampleRequest_Turns() {
	req := message.Request{Messages: []message.Message{
		message.NewUser("Umbrella in Oslo?"),
		message.NewReasoning("I need the weather.", ""),
		message.NewAssistant("", message.ToolCall{ID: "call_1", Name: "weather"}),
		message.NewToolError("call_1", "no such city"),
	}}
	for _, turn := range req.Turns() {
		switch turn := turn.(type) {
		case message.UserTurn:
			fmt.Printf("user: %+v\n", turn.Parts)
		case message.AssistantTurn:
			fmt.Println("assistant:", turn.Reasoning[0].Content, turn.ToolCalls[0].Name)
		}
	}
	// Output:
	// user: [{Value:Umbrella in Oslo?}]
	// assistant: I need the weather. weather
	// user: [{CallID:call_1 Name:weather Content:Error: no such city Failed:true}]
}

func ExampleCollector() {
	var c message.Collector
	c.Add(message.TextDelta{Text: "Take an "})
	c.Add(message.TextDelta{Text: "umbrella."})
	c.Add(message.Done{FinishReason: message.FinishStop})
	fmt.Println(c.Reply().Text)
	// Output: Take an umbrella.
}
