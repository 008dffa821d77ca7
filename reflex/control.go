package reflex

import (
	"context"
	"errors"

	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/react"
)

// errNoTurn is what a control tool tells a model outside of a turn.
var errNoTurn = errors.New("there is no turn to act on")

// ControlTools are the tools by which an agent sees and steers its turn: inspect, summon, scheme,
// teleport, send and dismiss. They act on the [TurnSession] in their context; what is refused is
// told to the model, with the reason.
func ControlTools() []react.Tool {
	return []react.Tool{
		react.NewTool("inspect", "Where this turn is, who asked, and which agents may be summoned.",
			func(ctx context.Context, _ struct{}) (View, error) {
				s := SessionFrom(ctx)
				if s == nil {
					return View{}, errNoTurn
				}
				return s.Inspect(), nil
			}),
		react.NewTool("summon", "Hands this conversation, here, to another agent. End your turn afterwards.", summonTool),
		react.NewTool("scheme", "Takes the work into the direct messages of who asked. End your turn afterwards.", schemeTool),
		react.NewTool("teleport", "Moves you, with this conversation, to a new thread.", teleportTool),
		react.NewTool("send", "Says something now, while you go on: here, or in the direct messages of who asked.", sendTool),
		react.NewTool("dismiss", "Gives up the workspace of this thread once the turn is saved.",
			func(ctx context.Context, _ struct{}) (string, error) {
				s := SessionFrom(ctx)
				if s == nil {
					return "", errNoTurn
				}
				s.Dismiss()
				return "the workspace goes when the turn is over", nil
			}),
	}
}

type summonArguments struct {
	Agent  string `json:"agent" jsonschema:"who takes over"`
	Model  string `json:"model,omitempty" jsonschema:"which of its models; the default if left out"`
	Effort string `json:"effort,omitempty"`
	Brief  string `json:"brief" jsonschema:"all that the other agent needs to know, for it alone"`
}

func summonTool(ctx context.Context, in summonArguments) (string, error) {
	s := SessionFrom(ctx)
	if s == nil {
		return "", errNoTurn
	}
	if err := s.Summon(HandoffDecision{Agent: in.Agent, Model: in.Model, Effort: in.Effort, Brief: in.Brief}); err != nil {
		return "", err
	}
	return "it takes over when your turn ends", nil
}

type schemeArguments struct {
	Channel string `json:"channel,omitempty" jsonschema:"on which channel; this one if left out"`
	Brief   string `json:"brief" jsonschema:"what is to be done there, for whoever takes it over"`
	Hint    string `json:"hint" jsonschema:"one sentence that the person reads there first"`
}

func schemeTool(ctx context.Context, in schemeArguments) (string, error) {
	s := SessionFrom(ctx)
	if s == nil {
		return "", errNoTurn
	}
	if err := s.Scheme(ctx, PrivateHandoffDecision(in)); err != nil {
		return "", err
	}
	return "it goes on there when your turn ends", nil
}

type teleportArguments struct {
	Channel string `json:"channel,omitempty" jsonschema:"the channel to go to; this one if left out"`
	Chat    string `json:"chat,omitempty" jsonschema:"the chat to open a thread in"`
	Hint    string `json:"hint" jsonschema:"one sentence that is read in both places"`
	Project string `json:"project,omitempty" jsonschema:"the project to work on there"`
	Ref     string `json:"ref,omitempty"`
	InPlace bool   `json:"in_place,omitempty" jsonschema:"stay in this thread and only take up the project"`
	Stop    bool   `json:"stop,omitempty" jsonschema:"do not go on there"`
}

func teleportTool(ctx context.Context, in teleportArguments) (string, error) {
	s := SessionFrom(ctx)
	move := &RelocateRequest{
		Channel: in.Channel, Chat: in.Chat, Hint: in.Hint, Project: in.Project, Ref: in.Ref, InPlace: in.InPlace, Resume: !in.Stop,
	}
	if s != nil {
		if err := s.CheckTeleport(ctx, *move); err != nil {
			return "", err
		}
	}
	answer, err := graph.Interrupt[DeferredResult](ctx, "", asks{Kind: MoveCall, Move: move})
	return answer.Text, err
}

type sendArguments struct {
	Text    string `json:"text"`
	Channel string `json:"channel,omitempty" jsonschema:"whose direct messages with who asked; here if left out"`
}

func sendTool(ctx context.Context, in sendArguments) (string, error) {
	s := SessionFrom(ctx)
	if s == nil {
		return "", errNoTurn
	}
	where, err := s.Send(ctx, in.Channel, Text(in.Text))
	if err != nil {
		return "", err
	}
	return "said " + where, nil
}

type askArguments struct {
	Questions []QuestionText `json:"questions"`
}

// AskTool is a tool by which an agent asks people. Its result is the list of their answers.
func AskTool() react.Tool {
	return react.NewTool("ask", "Asks the person, and waits for the answers.", func(ctx context.Context, in askArguments) ([]string, error) {
		if len(in.Questions) == 0 {
			return nil, errors.New("there is no question")
		}
		for _, q := range in.Questions {
			if len(q.Choices) > maxChoices {
				return nil, errors.New("a question has at most 3 choices")
			}
		}
		answer, err := graph.Interrupt[DeferredResult](ctx, "", asks{Kind: QuestionCall, Questions: in.Questions})
		return answer.Answers, err
	})
}
