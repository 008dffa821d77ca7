package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/google/uuid"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/react"
)

// ServerOptions are the options of [NewServer]. Zero fields mean the default.
type ServerOptions struct {
	// Tenant says whose sessions a call is about, from who is authorized, for example. Its error is the
	// result of the call. Default: graph.DefaultTenant.
	Tenant func(ctx context.Context, req *sdk.CallToolRequest) (string, error)
	// Instructions tell clients what the server is for. Default: the description of the agent.
	Instructions string
	// Logger gets what goes wrong between the server and its clients. Default: nobody does.
	Logger *slog.Logger
}

// NewServer returns a server that has the agent as its only tool: the SDK's, to be served in all the ways that it
// knows.
//
//	err := mcp.NewServer(agent, nil).Run(ctx, &sdk.StdioTransport{})
//
//	server := mcp.NewServer(agent, nil)
//	http.Handle("/mcp", sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
//
// The tool has the name of the agent. A call gives it a message and, to go on with a conversation, the id of a
// session; whoever may call it may go on with every session of the tenant. The run is attached: it ends with the
// request. A client that gave a progress token hears the text and the tool calls as they come.
//
// What the agent asks, the client is asked, if it can be (elicitation): as the question of an MCP server if the
// agent has it from one, for an agreement to a call, else for a text. The other questions are in the result, to be
// answered by another call.
func NewServer(agent *react.Agent, opts *ServerOptions) *sdk.Server {
	s := &server{agent: agent}
	if opts != nil {
		s.opts = *opts
	}
	if s.opts.Instructions == "" {
		s.opts.Instructions = agent.Description()
	}
	mcp := sdk.NewServer(&sdk.Implementation{Name: agent.Name(), Version: version()}, &sdk.ServerOptions{
		Instructions: s.opts.Instructions,
		Logger:       s.opts.Logger,
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}},
	})
	sdk.AddTool(mcp, &sdk.Tool{Name: names("", []string{agent.Name()})[0], Description: agent.Description()}, s.call)
	return mcp
}

type server struct {
	agent *react.Agent
	opts  ServerOptions
}

// errand is what the tool of a server is called with.
type errand struct {
	Message   string         `json:"message,omitempty" jsonschema:"what to tell the agent; needed unless there are answers"`
	SessionID string         `json:"session_id,omitempty" jsonschema:"the conversation to go on with, as a result named it; a new one if left out"`
	Answers   map[string]any `json:"answers,omitempty" jsonschema:"answers to the questions of a result, by their ids"`
}

// report is the structured content of a result.
type report struct {
	SessionID string     `json:"session_id" jsonschema:"names the conversation"`
	Answer    any        `json:"answer,omitempty" jsonschema:"what the agent answers"`
	Questions []openItem `json:"questions,omitempty" jsonschema:"what the agent has to be told before it can go on"`
}

type openItem struct {
	ID      string `json:"id" jsonschema:"the key of its answer"`
	Name    string `json:"name" jsonschema:"who asks"`
	Payload any    `json:"payload" jsonschema:"what is asked"`
}

func (s *server) call(ctx context.Context, req *sdk.CallToolRequest, in errand) (*sdk.CallToolResult, *report, error) {
	client := &asker{ctx: ctx, req: req}
	input, err := s.input(ctx, req, in)
	if questions, ok := errors.AsType[*graph.InterruptedError](err); ok {
		return open(input.Session, questions.Questions)
	}
	if err != nil {
		return nil, nil, err
	}
	for {
		state, err := s.run(client, input)
		asked, ok := errors.AsType[*graph.InterruptedError](err)
		if err == nil {
			return answer(input.Session, state)
		} else if !ok {
			return nil, nil, explain(ctx, input.Session, err)
		}
		answers, request := client.ask(asked.Questions)
		if request != nil {
			request.RequestState = input.Session.String()
			return request, nil, nil
		}
		if answers == nil {
			return open(input.Session, asked.Questions)
		}
		input.Messages, input.Resume = nil, answers
	}
}

// input makes an input of what the client gave. If it was asked and did not answer, the error is a
// graph.InterruptedError.
func (s *server) input(ctx context.Context, req *sdk.CallToolRequest, in errand) (input react.Input, err error) {
	session := uuid.New()
	if req.Params.RequestState != "" { // a question in between, of a client that was given no session yet
		in = errand{SessionID: req.Params.RequestState}
	}
	if in.SessionID != "" {
		if session, err = uuid.Parse(in.SessionID); err != nil {
			return input, fmt.Errorf("session_id: %w", err)
		}
	}
	input = react.Input{Session: session}
	if s.opts.Tenant != nil {
		if input.Tenant, err = s.opts.Tenant(ctx, req); err != nil {
			return input, err
		}
	}
	switch {
	case req.Params.RequestState != "":
		questions, err := s.agent.Questions(ctx, input.Tenant, session)
		if err != nil {
			return input, err
		}
		if input.Resume = replies(questions, req.Params.InputResponses); input.Resume == nil {
			return input, &graph.InterruptedError{Questions: questions}
		}
		return input, nil
	case len(in.Answers) > 0 && in.Message == "":
		input.Resume, err = json.Marshal(in.Answers)
		return input, err
	case in.Message != "" && len(in.Answers) == 0:
		input.Messages = react.Ask(session, in.Message).Messages
		return input, nil
	}
	return input, errors.New("either a message or answers are needed")
}

// run runs the agent and tells the client what it does.
func (s *server) run(client *asker, in react.Input) (react.State, error) {
	in.Attached = true
	run, err := s.agent.Start(client.ctx, in)
	if err != nil {
		return react.State{}, err
	}
	for e, err := range run.Hold(client.ctx) {
		if err != nil {
			return react.State{}, err
		}
		switch d := e.Data.(type) {
		case event.TextMessageContent:
			client.tell(d.Delta)
		case event.ToolCallStart:
			client.tell("calling " + d.ToolName)
		}
	}
	return run.Wait(client.ctx)
}

// explain returns what a client is told of an error.
func explain(ctx context.Context, session uuid.UUID, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if failed, ok := errors.AsType[*graph.RunError](err); ok {
		return fmt.Errorf("the agent failed (%s): %s (session_id %s)", failed.Code, failed.Text, session)
	}
	return err
}

// answer is the result with the answer of the agent: as text, and in the structured content, as JSON if the agent
// answers in JSON.
func answer(session uuid.UUID, state react.State) (*sdk.CallToolResult, *report, error) {
	text := state.Reply()
	r := &report{SessionID: session.String(), Answer: text}
	if json.Unmarshal([]byte(text), &map[string]any{}) == nil {
		r.Answer = json.RawMessage(text)
	}
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}, r, nil
}

// open is the result with questions that the client could not be asked, or did not answer.
func open(session uuid.UUID, questions []graph.Question) (*sdk.CallToolResult, *report, error) {
	text := fmt.Sprintf("The agent has to be told something before it can go on. Call again with session_id %s and answers, an object with these keys:", session)
	r := &report{SessionID: session.String()}
	for _, q := range questions {
		text += fmt.Sprintf("\n%q, asked by %s: %s", q.ID, q.Name, q.Payload)
		r.Questions = append(r.Questions, openItem{q.ID, q.Name, q.Payload})
	}
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}, r, nil
}
