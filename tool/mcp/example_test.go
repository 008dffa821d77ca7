package mcp_test

import (
	"context"
	"fmt"
	"log"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/react/reacttest"
	"github.com/everstep-go/everstep/tool/mcp"

	"github.com/google/uuid"
)

// inProcess stands for a Command or a URL.
func inProcess(server *sdk.Server) func() (sdk.Transport, error) {
	return func() (sdk.Transport, error) {
		ours, theirs := sdk.NewInMemoryTransports()
		_, err := server.Connect(context.Background(), ours, nil)
		return theirs, err
	}
}

func Example() {
	ctx := context.Background()
	server := sdk.NewServer(&sdk.Implementation{Name: "weather", Version: "1"}, nil)
	type place struct {
		City string `json:"city" jsonschema:"city name, such as Oslo"`
	}
	sdk.AddTool(server, &sdk.Tool{Name: "now", Description: "Current weather in a city."},
		func(_ context.Context, _ *sdk.CallToolRequest, in place) (*sdk.CallToolResult, any, error) {
			return nil, map[string]any{"city": in.City, "degrees": 9}, nil
		})

	client, err := mcp.Connect(ctx, mcp.Config{Name: "weather", Transport: inProcess(server)})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	agent, err := react.New(react.Config{
		Name:  "forecaster",
		Tools: client.Tools(),
		Model: reacttest.NewScript(
			reacttest.Call(reacttest.ToolCall("c1", "weather__now", `{"city":"Oslo"}`)),
			reacttest.Say("Nine degrees."),
		),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer agent.Shutdown(ctx)
	for e, err := range agent.Run(ctx, react.Ask(uuid.New(), "Umbrella in Oslo?")) {
		if err != nil {
			log.Fatal(err)
		}
		switch d := e.Data.(type) {
		case event.ToolCallStart:
			fmt.Println("calls", d.ToolName)
		case event.ToolCallResult:
			fmt.Println("hears", string(d.Content))
		}
	}
	// Output:
	// calls weather__now
	// hears {"city":"Oslo","degrees":9}
}

func ExampleNewServer() {
	ctx := context.Background()
	agent, err := react.New(react.Config{
		Name: "poet", Description: "Makes poems.",
		Model: react.ModelFunc(func(context.Context, *message.Request) (message.Reply, error) {
			return message.Reply{Text: "Rain in Oslo, again.", FinishReason: message.FinishStop}, nil
		}),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer agent.Shutdown(ctx)
	server := mcp.NewServer(agent, nil)

	// Another program, which could be another agent.
	transport, err := inProcess(server)()
	if err != nil {
		log.Fatal(err)
	}
	client, err := sdk.NewClient(&sdk.Implementation{Name: "reader", Version: "1"}, nil).Connect(ctx, transport, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	res, err := client.CallTool(ctx, &sdk.CallToolParams{Name: "poet", Arguments: map[string]any{"message": "About the weather."}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Content[0].(*sdk.TextContent).Text)
	// Output:
	// Rain in Oslo, again.
}
