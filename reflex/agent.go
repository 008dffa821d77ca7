package reflex

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/message"
)

// Agent is something that works in conversations: in this process, or a runtime that it drives.
// An agent may also be a [Forker], a [Relocator], a [Commander] or an [Importer]. It may have further
// methods:
//
//   - Serve(ctx) error is called by [Engine.Serve];
//   - Uncontrolled() bool: if true, the agent gets no session to steer its turns with;
//   - AnswersAsPrompt() bool: if true, the agent takes no results, and gets them as its next prompt.
type Agent interface {
	// ID names the agent. It is data: conversations and hand-overs name it.
	ID() string
	// Models are the models it serves, the default first.
	Models() []string
	// Run makes one run and yields its progress; the last is its result. It always streams. The
	// sequence has ended when the run holds nothing any more.
	Run(ctx context.Context, r *RunRequest) iter.Seq2[Progress, error]
}

// Forker is an agent that can carry what it remembers of one conversation into another.
type Forker interface {
	// Fork copies the messages. Doing it again changes nothing.
	Fork(ctx context.Context, from, to Conversation) error
}

// Relocator is an agent whose sessions belong to a directory.
type Relocator interface {
	// Relocate makes the session of a conversation one of another directory, the workspace that the
	// conversation has from now on. Doing it again changes nothing.
	Relocate(ctx context.Context, c Conversation, dir string) error
}

// Importer is an agent whose sessions may also be run in its own client.
type Importer interface {
	// ValidateNative says whether the history of such a session can be taken over, and returns the
	// model of its last run, which the agent must serve.
	ValidateNative(ctx context.Context, source Address) (model string, err error)
	// ImportNative takes it over into a conversation. Doing it again changes nothing.
	ImportNative(ctx context.Context, source Address, to Conversation) error
}

// RunRequest is what an agent runs on.
type RunRequest struct {
	Kick         uuid.UUID
	Run          uuid.UUID // the id that the run should have
	Name         string    // react, summon, teleport, resume or command
	Conversation Conversation
	Thread       Thread
	Target       Place
	Model        string
	Effort       string
	// Prompt is what is said to the agent. It is empty if Results answer what it asked.
	Prompt  []Segment
	Results DeferredResults
	// Session is what the agent's control tools act on; nil if they are off. An agent that runs
	// such tools passes it to them with [WithSession].
	Session *TurnSession
	// Suspender takes what the run cannot settle itself.
	Suspender Suspender
	// Mode returns the conversation's permission mode as it is now.
	Mode    func(ctx context.Context) PermissionMode
	Profile *Profile // whose turn it is; nil if that is not known
	// Capabilities are what that person has beside what the agent has, for this turn.
	Capabilities []string
	Dir          string // the workspace, empty if there is none
}

// Progress is a piece of a run: something that happened, or in the last one its result.
type Progress struct {
	Event  event.Data
	Result *RunResult
}

// RunResult is how a run ended.
type RunResult struct {
	Output []Segment `json:"output,omitempty"`
	// Deferred are the calls that the run could not settle and that no suspender took.
	Deferred []DeferredCall `json:"deferred,omitempty"`
	Run      uuid.UUID      `json:"run,omitzero"`
	Message  uuid.UUID      `json:"message,omitzero"` // that the output is from
	Usage    message.Usage  `json:"usage,omitzero"`
}

// Suspender takes what a run defers, and classifies it by the kind of each call.
type Suspender interface {
	// Suspend hands calls to people as a batch, or a move to the engine; the run then ends. A move
	// beside other calls is refused with ErrMixedTeleport.
	Suspend(ctx context.Context, calls []DeferredCall) error
	// Pause hands calls to people and waits for their answers.
	Pause(ctx context.Context, calls []DeferredCall) (DeferredResults, error)
}

// resolveModel returns the model that an agent serves under a name: the whole of it, or what
// follows a slash if that fits one only. The empty name is the agent's default.
func resolveModel(a Agent, name string) (string, error) {
	models := a.Models()
	if len(models) == 0 {
		return "", fmt.Errorf("%w: %s", ErrNoModels, a.ID())
	}
	if name == "" {
		return models[0], nil
	}
	if slices.Contains(models, name) {
		return name, nil
	}
	var fits []string
	for _, m := range models {
		if strings.HasSuffix(m, "/"+name) {
			fits = append(fits, m)
		}
	}
	if len(fits) != 1 {
		return "", fmt.Errorf("%w: %s serves %d models of the name %q", ErrModelNotServed, a.ID(), len(fits), name)
	}
	return fits[0], nil
}
