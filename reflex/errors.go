package reflex

import (
	"errors"

	"github.com/everstep-go/everstep/graph"
)

// Why a signal is refused, or a pass fails. All of them survive a change of process: a pass that
// ends elsewhere has the same error.
var (
	// ErrBusy: the surface has a pass under way. Nothing happened; try again when it is over.
	ErrBusy = errors.New("reflex: the surface is awake")
	// ErrInvalidSignal: the signal makes no sense as it is.
	ErrInvalidSignal = errors.New("reflex: invalid signal")
	// ErrUnknownBatch: there is no such batch.
	ErrUnknownBatch = errors.New("reflex: unknown batch")
	// ErrUnknownAction: the batch has no action of that id, or one of the other kind.
	ErrUnknownAction = errors.New("reflex: unknown action")
	// ErrNotWaiting: the batch belongs to a live run that does not wait for it any more.
	ErrNotWaiting = errors.New("reflex: nobody waits for the batch")
	// ErrExpired: the batch can no longer be answered.
	ErrExpired = errors.New("reflex: the batch has expired")
	// ErrNotAllowed: the responder may not answer the batch.
	ErrNotAllowed = errors.New("reflex: not allowed to answer")
	// ErrUnknownChannel and ErrUnknownAgent: the engine has none of that name.
	ErrUnknownChannel = errors.New("reflex: unknown channel")
	ErrUnknownAgent   = errors.New("reflex: unknown agent")
	// ErrAgentNotOnChannel: the channel where the agent would run does not expose it.
	ErrAgentNotOnChannel = errors.New("reflex: the agent is not on the channel")
	// ErrNoModels: the agent serves no model.
	ErrNoModels = errors.New("reflex: the agent has no models")
	// ErrModelNotServed: the agent does not serve the model, or the name fits several.
	ErrModelNotServed = errors.New("reflex: the model is not served")
	// ErrThreadChanged: the thread is not visible to the requester any more, or another agent owns it.
	ErrThreadChanged = errors.New("reflex: the thread has changed, reload it")
	// ErrTurnActive: the conversation has a turn under way.
	ErrTurnActive = errors.New("reflex: the conversation has a turn already")
	// ErrNotHere: a hand-over in place is not possible here.
	ErrNotHere = errors.New("reflex: not here")
	// ErrProfileUnlinked: the account at the destination is not linked to this user any more.
	ErrProfileUnlinked = errors.New("reflex: the profile is not linked to the user")
	// ErrNotPrivate: the place is not the direct messages of one person.
	ErrNotPrivate = errors.New("reflex: the place is not private")
	// ErrNothingMoved: the destination made no new thread.
	ErrNothingMoved = errors.New("reflex: nothing moved")
	// ErrUnknownProject: there is no such project, or it does not have the ref.
	ErrUnknownProject = errors.New("reflex: unknown project")
	// ErrForkUnsupported: the agent cannot carry its session to another thread.
	ErrForkUnsupported = errors.New("reflex: the agent cannot fork its session")
	// ErrMixedTeleport: an agent asked to move beside other requests.
	ErrMixedTeleport = errors.New("reflex: a move must be the only request")
	// ErrNoThread: there is no such thread, or a batch would have none.
	ErrNoThread = errors.New("reflex: no thread")
	// ErrBatchOrphaned: the conversation or the thread of the batch is gone.
	ErrBatchOrphaned = errors.New("reflex: the batch is orphaned")
	// ErrNoResult: the agent's stream ended without a result.
	ErrNoResult = errors.New("reflex: the run ended without a result")
	// ErrTooManyMoves: the pass handed over and moved more often than it may.
	ErrTooManyMoves = errors.New("reflex: too many hand-overs in one pass")
	// ErrInterrupted: the process died while the agent ran. The run is not repeated.
	ErrInterrupted = errors.New("reflex: the run was interrupted")
	// ErrInvariant: the engine itself is at fault.
	ErrInvariant = errors.New("reflex: internal error")
)

// codes are stored with failed passes, so that another process returns the same error.
var codes = map[string]error{
	"invalid_signal": ErrInvalidSignal, "unknown_batch": ErrUnknownBatch, "unknown_action": ErrUnknownAction,
	"not_waiting": ErrNotWaiting, "expired": ErrExpired, "not_allowed": ErrNotAllowed, "unknown_channel": ErrUnknownChannel,
	"unknown_agent": ErrUnknownAgent, "agent_not_on_channel": ErrAgentNotOnChannel, "no_models": ErrNoModels,
	"model_not_served": ErrModelNotServed, "thread_changed": ErrThreadChanged, "turn_active": ErrTurnActive,
	"not_here": ErrNotHere, "profile_unlinked": ErrProfileUnlinked, "nothing_moved": ErrNothingMoved,
	"unknown_project": ErrUnknownProject, "fork_unsupported": ErrForkUnsupported, "mixed_teleport": ErrMixedTeleport,
	"no_thread": ErrNoThread, "batch_orphaned": ErrBatchOrphaned, "no_result": ErrNoResult,
	"too_many_moves": ErrTooManyMoves, "not_private": ErrNotPrivate, "interrupted": ErrInterrupted, "internal": ErrInvariant,
}

// coded returns an error that fails a pass with the code of the sentinel in it.
func coded(err error) error {
	for code, sentinel := range codes {
		if errors.Is(err, sentinel) {
			return graph.Fail(code, err.Error(), err)
		}
	}
	return err
}

// decoded returns the error of a pass with its sentinel, wherever the pass ran.
func decoded(err error) error {
	if failed, ok := errors.AsType[*graph.RunError](err); ok && failed.Err == nil {
		if sentinel, ok := codes[failed.Code]; ok {
			return errors.Join(sentinel, err)
		}
	}
	return err
}

// publicText is what a chat is told of an error: the texts of this package, and of others only
// that something went wrong.
func publicText(err error) string {
	for _, sentinel := range codes {
		if errors.Is(err, sentinel) {
			return sentinel.Error()
		}
	}
	if errors.Is(err, graph.ErrCancelled) {
		return "the turn was cancelled"
	}
	return "the turn failed"
}
