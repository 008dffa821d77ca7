// Mcp is an agent with the tools of an MCP server, which is a process of its own: this program with -serve. The
// server asks a question in the middle of a call, which ends the run; its answer goes on from there.
//
//	go run ./examples/mcp
//	go run ./examples/mcp -seat 7A
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"

	"github.com/google/uuid"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/store/memory"
	"github.com/everstep-go/everstep/tool/mcp"
)

var (
	serve = flag.Bool("serve", false, "be the MCP server")
	seat  = flag.String("seat", "", "answer to the question of the server; without it, decline")
)

func main() {
	flag.Parse()
	ctx := context.Background()
	if *serve {
		check(desk().Run(ctx, &sdk.StdioTransport{}))
		return
	}
	program, err := os.Executable()
	check(err)
	client, err := mcp.Connect(ctx, mcp.Config{Name: "desk", Command: program, Args: []string{"-serve"}})
	check(err)
	defer client.Close()
	check(client.Refused())

	agent, err := react.New(react.Config{Name: "clerk", Model: react.ModelFunc(model), Tools: client.Tools(), Store: memory.New(nil)})
	check(err)
	defer agent.Shutdown(ctx)

	session := uuid.New()
	_, err = wait(ctx, agent, react.Ask(session, "A ticket to Oslo, please."))
	asked, ok := errors.AsType[*graph.InterruptedError](err)
	if !ok {
		log.Fatal("nothing was asked: ", err)
	}
	for _, q := range asked.Questions {
		fmt.Printf("%s asks: %s\n", q.Name, q.Payload)
	}
	answer := sdk.ElicitResult{Action: "decline"}
	if *seat != "" {
		answer = sdk.ElicitResult{Action: "accept", Content: map[string]any{"seat": *seat}}
	}
	state, err := wait(ctx, agent, react.Answer(session, answer))
	check(err)
	fmt.Println(state.Reply())
}

func wait(ctx context.Context, agent *react.Agent, in react.Input) (react.State, error) {
	run, err := agent.Start(ctx, in)
	check(err)
	return run.Wait(ctx)
}

// model stands for a real one: it calls the only tool, and says what comes of it.
func model(_ context.Context, req *message.Request) (message.Reply, error) {
	if m, ok := req.Messages[len(req.Messages)-1].(*message.Tool); ok {
		return message.Reply{Text: "The desk says: " + m.Text(), FinishReason: message.FinishStop}, nil
	}
	call := message.ToolCall{ID: "c1", Name: req.Tools[0].Name, Arguments: json.RawMessage(`{"to":"Oslo"}`)}
	return message.Reply{ToolCalls: []message.ToolCall{call}, FinishReason: message.FinishToolCalls}, nil
}

type ticket struct {
	To string `json:"to" jsonschema:"where to"`
}

// desk is a server that sells tickets, and asks for the seat.
func desk() *sdk.Server {
	server := sdk.NewServer(&sdk.Implementation{Name: "desk", Version: "1"}, nil)
	sdk.AddTool(server, &sdk.Tool{Name: "book", Description: "Books a ticket."}, func(_ context.Context, req *sdk.CallToolRequest, in ticket) (*sdk.CallToolResult, any, error) {
		answer, ok := req.Params.InputResponses["seat"].(*sdk.ElicitResult)
		if !ok {
			return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"seat": &sdk.ElicitParams{
				Message:         "Which seat?",
				RequestedSchema: json.RawMessage(`{"type":"object","properties":{"seat":{"type":"string"}},"required":["seat"]}`),
			}}}, nil, nil
		}
		text := "no seat, no ticket"
		if answer.Action == "accept" {
			text = fmt.Sprintf("a ticket to %s, seat %v", in.To, answer.Content["seat"])
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}, nil, nil
	})
	return server
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
