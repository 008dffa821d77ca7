package reflex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/store"
)

// Command is one explicit command to an agent's runtime.
type Command struct {
	Name        string    `json:"name"`
	Arguments   string    `json:"arguments,omitempty"` // as they were typed
	Attachments []Segment `json:"attachments,omitempty"`
}

// String is the command as it is shown.
func (c Command) String() string {
	if c.Arguments == "" {
		return "/" + c.Name
	}
	return "/" + c.Name + " " + c.Arguments
}

// CommandStatus says how a command ended. All but CommandDone are refusals or failures.
type CommandStatus string

const (
	CommandDone        CommandStatus = "done"
	CommandFailed      CommandStatus = "failed"
	CommandBusy        CommandStatus = "busy"        // the conversation has a turn
	CommandUnavailable CommandStatus = "unavailable" // what it is for is not there
	CommandStale       CommandStatus = "stale"       // it was given on a view that has changed
	CommandUnknown     CommandStatus = "unknown"     // the agent has no such command
	CommandUnsupported CommandStatus = "unsupported" // it takes no attachments
)

// CommandOutcome is how a command ended: its result, or its error.
type CommandOutcome struct {
	Status CommandStatus `json:"status"`
	Text   string        `json:"text,omitempty"`
}

// Receipt records that a command was accepted, and later how it ended.
type Receipt struct {
	Surface      string          `json:"surface"`
	Delivery     string          `json:"delivery"`
	Sender       Profile         `json:"sender"`
	Conversation string          `json:"conversation"`
	Agent        string          `json:"agent"`
	Command      Command         `json:"command"`
	Kick         uuid.UUID       `json:"kick"`
	Outcome      *CommandOutcome `json:"outcome,omitempty"` // nil: not known
	At           time.Time       `json:"at"`
}

// same reports whether two receipts are of one request.
func (r Receipt) same(o Receipt) bool {
	a, _ := json.Marshal([]any{r.Sender, r.Conversation, r.Agent, r.Command})
	b, _ := json.Marshal([]any{o.Sender, o.Conversation, o.Agent, o.Command})
	return string(a) == string(b)
}

// Receipts keeps receipts of commands. NewBooks has the implementation on store.Records.
type Receipts interface {
	// Receipt returns the receipt of a delivery; store.ErrNotFound if there is none.
	Receipt(ctx context.Context, surface, delivery string) (Receipt, error)
	// Accept keeps a new receipt; store.ErrConflict if the delivery has one.
	Accept(ctx context.Context, r Receipt) error
	// Settle notes how the command ended.
	Settle(ctx context.Context, surface, delivery string, o CommandOutcome) error
}

const receiptKind = "reflex.receipt"

type receiptBook struct {
	shelf
	now func() time.Time
}

func (b *receiptBook) Receipt(ctx context.Context, surface, delivery string) (Receipt, error) {
	r, _, err := get[Receipt](ctx, b.shelf, receiptKind, rowPrefix(surface)+delivery)
	return r, err
}

func (b *receiptBook) Accept(ctx context.Context, r Receipt) error {
	if r.Delivery == "" {
		return fmt.Errorf("%w: a command needs a delivery id", ErrInvalidSignal)
	}
	r.At = b.now()
	key := rowPrefix(r.Surface) + r.Delivery
	return b.write(ctx, put(receiptKind, key, 0, r), aged(receiptKind, key, r.At))
}

func (b *receiptBook) Settle(ctx context.Context, surface, delivery string, o CommandOutcome) error {
	_, err := update(ctx, b.shelf, receiptKind, rowPrefix(surface)+delivery, func(r *Receipt, exists bool) error {
		if !exists {
			return fmt.Errorf("reflex: receipt %q: %w", delivery, store.ErrNotFound)
		}
		r.Outcome = &o
		return nil
	})
	return err
}

// Catalogue is the commands that an agent's runtime offers in a conversation.
type Catalogue struct {
	// Status is CommandDone for one that is ready, CommandStale while it loads, or why there is none.
	Status   CommandStatus
	Commands []CommandSpec
}

// CommandSpec describes a command.
type CommandSpec struct {
	Name        string
	Description string
	Attachments bool // it takes some
}

// CommandRequest is a command as an agent gets it.
type CommandRequest struct {
	RunRequest
	Command Command
}

// CommandReply is what an agent does with a command: it answers, or it starts to work.
type CommandReply struct {
	Text string
	// Run is the work; nil for a direct answer.
	Run iter.Seq2[Progress, error]
}

// Commander is an agent that takes commands.
type Commander interface {
	// Catalogue returns what may be commanded in a conversation.
	Catalogue(ctx context.Context, c Conversation) (Catalogue, error)
	// Command carries out a command. It is called once for each delivery.
	Command(ctx context.Context, r *CommandRequest) (CommandReply, error)
}

// Invalidator is a Commander that keeps the catalogues it made. Of a conversation in which a command
// was carried out, however that ended, it makes a new one.
type Invalidator interface {
	InvalidateCatalogue(c Conversation)
}

// Catalogue returns what may be commanded in a conversation now, for who composes a command. Without
// the conversation, or an agent that takes commands, its status is CommandUnavailable.
func (e *Engine) Catalogue(ctx context.Context, conversation string) (Catalogue, error) {
	c, err := e.books.Conversations.Conversation(ctx, conversation)
	if errors.Is(err, store.ErrNotFound) {
		return Catalogue{Status: CommandUnavailable}, nil
	}
	if err != nil {
		return Catalogue{}, err
	}
	return e.catalogue(ctx, c.Agent, c.ID)
}

// catalogue asks an agent for its commands, for a while.
func (e *Engine) catalogue(ctx context.Context, agent, conversation string) (Catalogue, error) {
	commander, ok := e.agents[agent].(Commander)
	if !ok {
		return Catalogue{Status: CommandUnavailable}, nil
	}
	c, err := e.books.Conversations.Conversation(ctx, conversation)
	if err != nil {
		return Catalogue{}, err
	}
	bounded, cancel := context.WithTimeout(ctx, e.config.CatalogueTimeout)
	defer cancel()
	catalogue, err := commander.Catalogue(bounded, c)
	switch {
	case ctx.Err() != nil:
		return catalogue, context.Cause(ctx)
	case err != nil:
		e.config.Logger.WarnContext(ctx, "commands not listed", "agent", agent, "error", err)
		return Catalogue{Status: CommandUnavailable}, nil
	}
	return catalogue, nil
}

// outcomeUnknown is what a delivery is told that was accepted and of which no more is known.
const outcomeUnknown = "the command was accepted; its outcome is unknown, and it may have had effects"
