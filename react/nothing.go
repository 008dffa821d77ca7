package react

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/store"
)

// errNoStore: the agent was made without a store.
var errNoStore = errors.New("react: the agent keeps nothing: give Config.Store a store")

// nothing stands for the store of an agent that has none: it holds nothing and takes nothing.
// Of the store's methods it has those that Agent's operations call.
type nothing struct{ store.Store }

func (nothing) CreateSession(context.Context, string, uuid.UUID) (*store.Session, error) {
	return nil, errNoStore
}
func (nothing) CreateMessage(context.Context, string, *store.Message) (*store.Message, error) {
	return nil, errNoStore
}
func (nothing) DeleteMessage(context.Context, string, uuid.UUID) error { return errNoStore }
func (nothing) Session(context.Context, string, uuid.UUID) (*store.Session, error) {
	return nil, errNoStore
}
func (nothing) Run(context.Context, string, uuid.UUID) (*store.Run, error) { return nil, errNoStore }
func (nothing) Checkpoint(context.Context, string, uuid.UUID) (*checkpoint.Checkpoint, error) {
	return nil, errNoStore
}
func (nothing) Message(context.Context, string, uuid.UUID) (*store.Message, error) {
	return nil, errNoStore
}
func (nothing) Sessions(context.Context, *store.SessionQuery) (*store.Page[store.Session], error) {
	return nil, errNoStore
}
func (nothing) Runs(context.Context, *store.RunQuery) (*store.Page[store.Run], error) {
	return nil, errNoStore
}
func (nothing) Checkpoints(context.Context, *store.CheckpointQuery) (*store.Page[checkpoint.Checkpoint], error) {
	return nil, errNoStore
}
func (nothing) Messages(context.Context, *store.MessageQuery) (*store.Page[store.Message], error) {
	return nil, errNoStore
}
