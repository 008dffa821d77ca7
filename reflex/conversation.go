package reflex

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/store"
)

// PermissionMode says what becomes of what an agent asks: the posture. Agents may have
// modes of their own.
type PermissionMode string

const (
	// AskPeople leaves every question to people. It is the default.
	AskPeople PermissionMode = "default"
	// DontAsk refuses what needs an approval, and answers questions by saying that nobody is there.
	DontAsk PermissionMode = "dontAsk"
	// BypassPermissions approves everything, and answers questions in the same way.
	BypassPermissions PermissionMode = "bypassPermissions"
)

// Conversation is what one agent remembers in one thread.
type Conversation struct {
	ID     string `json:"id"`
	Thread string `json:"thread"`
	Agent  string `json:"agent"`
	Sub    string `json:"sub,omitempty"` // of a sub-agent
	// Session is the id under which the agent keeps the messages.
	Session uuid.UUID      `json:"session"`
	Model   string         `json:"model,omitempty"` // of the last run
	Effort  string         `json:"effort,omitempty"`
	Mode    PermissionMode `json:"mode,omitempty"` // empty: AskPeople
	// Dir is the directory that the session works in, empty if it has none.
	Dir string `json:"dir,omitempty"`
	// LastRun and LastMessage are the last that were recorded.
	LastRun     uuid.UUID `json:"last_run,omitzero"`
	LastMessage uuid.UUID `json:"last_message,omitzero"`
	ForkedFrom  string    `json:"forked_from,omitempty"`
	CreatedAt   time.Time `json:"created_at"`
}

// Conversations keeps conversations. NewBooks has the implementation on store.Records.
type Conversations interface {
	// Ensure returns the conversation of an agent in a thread, a new one if there is none.
	Ensure(ctx context.Context, thread, agent, sub string) (Conversation, error)
	// Conversation returns one by its id; store.ErrNotFound if there is none.
	Conversation(ctx context.Context, id string) (Conversation, error)
	// Change changes one.
	Change(ctx context.Context, id string, change func(*Conversation)) (Conversation, error)
	// Delete removes one. Receipts and rows that name it stay.
	Delete(ctx context.Context, id string) error
}

const conversationKind = "reflex.conversation"

type conversationBook struct {
	shelf
	now func() time.Time
}

func (b *conversationBook) Ensure(ctx context.Context, thread, agent, sub string) (Conversation, error) {
	id := idOf("conversation", b.tenant, thread, agent, sub)
	return update(ctx, b.shelf, conversationKind, id.String(), func(c *Conversation, exists bool) error {
		if exists {
			return errSame
		}
		*c = Conversation{ID: id.String(), Thread: thread, Agent: agent, Sub: sub, Session: id, CreatedAt: b.now()}
		return nil
	})
}

func (b *conversationBook) Conversation(ctx context.Context, id string) (Conversation, error) {
	c, _, err := get[Conversation](ctx, b.shelf, conversationKind, id)
	return c, err
}

func (b *conversationBook) Change(ctx context.Context, id string, change func(*Conversation)) (Conversation, error) {
	return update(ctx, b.shelf, conversationKind, id, func(c *Conversation, exists bool) error {
		if !exists {
			return fmt.Errorf("reflex: conversation %s: %w", id, store.ErrNotFound)
		}
		before := *c
		if change(c); *c == before {
			return errSame
		}
		return nil
	})
}

func (b *conversationBook) Delete(ctx context.Context, id string) error {
	for range maxConflicts {
		_, version, err := get[Conversation](ctx, b.shelf, conversationKind, id)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		} else if err != nil {
			return err
		}
		err = b.write(ctx, store.RecordWrite{Kind: conversationKind, Key: id, Version: version, Delete: true})
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("reflex: conversation %s: %w", id, store.ErrConflict)
}
