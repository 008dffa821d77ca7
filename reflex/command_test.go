package reflex_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/reflex"
	"github.com/everstep-go/everstep/store"
)

// commander is a fake agent that takes commands.
type commander struct {
	*fake
	catalogue reflex.Catalogue
	probe     func() // called while the commands are listed
	do        func(ctx context.Context, r *reflex.CommandRequest) (reflex.CommandReply, error)
	given     []reflex.Command
}

func (a *commander) Catalogue(context.Context, reflex.Conversation) (reflex.Catalogue, error) {
	if a.probe != nil {
		a.probe()
	}
	return a.catalogue, nil
}

func (a *commander) Command(ctx context.Context, r *reflex.CommandRequest) (reflex.CommandReply, error) {
	a.given = append(a.given, r.Command)
	return a.do(ctx, r)
}

// commands is a bundle whose clerk takes commands, in a conversation that has begun.
func commands(t *testing.T) (*bundle, *commander, reflex.CommandSignal) {
	t.Helper()
	b := newBundle(t)
	a := &commander{fake: b.clerk, catalogue: reflex.Catalogue{Status: reflex.CommandDone, Commands: []reflex.CommandSpec{{Name: "status"}, {Name: "look", Attachments: true}}}}
	a.do = func(context.Context, *reflex.CommandRequest) (reflex.CommandReply, error) {
		return reflex.CommandReply{Text: "all is well"}, nil
	}
	b.config.Agents = []reflex.Agent{a, b.coder}
	b.open()
	at := thread("lobby", "t", "ada")
	b.said(at, "hi")
	b.heard()
	return b, a, reflex.CommandSignal{
		Conversation: b.clerk.last().Conversation.ID, Agent: "clerk", Profile: ada, Address: at,
		Command: reflex.Command{Name: "status", Arguments: "  --all \t'x'"}, Delivery: "d1",
	}
}

func TestACommandIsDispatchedAtMostOnceForItsDelivery(t *testing.T) {
	t.Parallel()
	b, a, signal := commands(t)
	at := signal.Address
	for range 2 {
		o, err := b.kick(signal)
		require.NoError(t, err)
		require.Equal(t, reflex.OutcomeCommand, o.Kind)
		require.Equal(t, &reflex.CommandOutcome{Status: reflex.CommandDone, Text: "all is well"}, o.Command)
		require.Nil(t, o.Decision)
		require.Equal(t, []string{"awake", "command"}, o.Path)
		require.Equal(t, "reflex_awake command_feedback reflex_asleep", kinds(b.heard()))
	}
	require.Equal(t, []reflex.Command{signal.Command}, a.given, "once, and byte for byte")
	require.Equal(t, "receipt Ada: /status   --all \t'x'", b.told(at)[2])
	require.Len(t, b.rows(at), 3)
	other := signal
	other.Command.Arguments = "other"
	o, err := b.kick(other)
	require.NoError(t, err)
	require.Equal(t, reflex.CommandFailed, o.Command.Status)
	require.Contains(t, o.Command.Text, "another request")
	require.Len(t, a.given, 1)
	// A receipt is no prompt, and outlives the conversation.
	require.NoError(t, b.engine.Books().Conversations.Delete(t.Context(), signal.Conversation))
	b.said(at, "next")
	require.Equal(t, "Ada (id ada, user u-ada):|next", promptOf(b.clerk.last()))
	r, err := b.engine.Books().Receipts.Receipt(t.Context(), at.ID(), "d1")
	require.NoError(t, err)
	require.Equal(t, "all is well", r.Outcome.Text)
	require.Error(t, b.engine.Books().Receipts.Accept(t.Context(), r), "a second receipt of a delivery")
}

func TestACommandIsRefusedForTheFirstThingThatIsWrong(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(t *testing.T, b *bundle, a *commander, s *reflex.CommandSignal)
		want   reflex.CommandStatus
	}{
		{"no conversation", func(_ *testing.T, _ *bundle, _ *commander, s *reflex.CommandSignal) { s.Conversation = "none" }, reflex.CommandUnavailable},
		{"unknown channel", func(_ *testing.T, _ *bundle, _ *commander, s *reflex.CommandSignal) { s.Address.Channel = "x" }, reflex.CommandUnavailable},
		{"unknown agent", func(_ *testing.T, _ *bundle, _ *commander, s *reflex.CommandSignal) { s.Agent = "x" }, reflex.CommandUnavailable},
		{"another address", func(_ *testing.T, _ *bundle, _ *commander, s *reflex.CommandSignal) { s.Address.Thread = "u" }, reflex.CommandUnavailable},
		{"another user", func(_ *testing.T, _ *bundle, _ *commander, s *reflex.CommandSignal) { s.Profile.User = "x" }, reflex.CommandUnavailable},
		{"an agent without commands", func(_ *testing.T, _ *bundle, _ *commander, s *reflex.CommandSignal) { s.Agent = "coder" }, reflex.CommandStale},
		{"a model that is not served", func(_ *testing.T, _ *bundle, _ *commander, s *reflex.CommandSignal) { s.Model = "x" }, reflex.CommandStale},
		{"another model", func(_ *testing.T, _ *bundle, _ *commander, s *reflex.CommandSignal) { s.Model = "vendor/large" }, reflex.CommandStale},
		{"another mode", func(_ *testing.T, _ *bundle, _ *commander, s *reflex.CommandSignal) { s.Mode = reflex.DontAsk }, reflex.CommandStale},
		{"another directory", func(_ *testing.T, _ *bundle, _ *commander, s *reflex.CommandSignal) { s.Dir = "/x" }, reflex.CommandStale},
		{"the mode changes meanwhile", func(t *testing.T, b *bundle, a *commander, s *reflex.CommandSignal) {
			a.probe = func() {
				_, err := b.engine.Books().Conversations.Change(t.Context(), s.Conversation, func(c *reflex.Conversation) { c.Mode = reflex.DontAsk })
				require.NoError(t, err)
			}
		}, reflex.CommandStale},
		{"the owner changes meanwhile", func(t *testing.T, b *bundle, a *commander, s *reflex.CommandSignal) {
			a.probe = func() {
				require.NoError(t, b.engine.Books().Handoffs.HandOver(t.Context(), reflex.Handoff{Surface: s.Address.ID(), Agent: "coder"}))
			}
		}, reflex.CommandStale},
		{"the list loads", func(_ *testing.T, _ *bundle, a *commander, _ *reflex.CommandSignal) {
			a.catalogue = reflex.Catalogue{Status: reflex.CommandStale}
		}, reflex.CommandStale},
		{"the list is not to be had", func(_ *testing.T, _ *bundle, a *commander, _ *reflex.CommandSignal) {
			a.catalogue = reflex.Catalogue{Status: reflex.CommandUnavailable}
		}, reflex.CommandUnavailable},
		{"unknown command", func(_ *testing.T, _ *bundle, _ *commander, s *reflex.CommandSignal) { s.Command.Name = "x" }, reflex.CommandUnknown},
		{"attachments", func(_ *testing.T, _ *bundle, _ *commander, s *reflex.CommandSignal) {
			s.Command.Attachments = reflex.Text("x")
		}, reflex.CommandUnsupported},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b, a, signal := commands(t)
			rows := len(b.rows(signal.Address))
			tt.change(t, b, a, &signal)
			o, err := b.kick(signal)
			require.NoError(t, err)
			require.Equal(t, tt.want, o.Command.Status, o.Command.Text)
			require.Empty(t, a.given)
			require.Len(t, b.rows(signal.Address), min(rows, len(b.rows(signal.Address))), "no receipt")
			b.freeTurns()
		})
	}
}

func TestACommandOnAConversationWithATurnIsBusyAndLeavesTheHolder(t *testing.T) {
	t.Parallel()
	b, a, signal := commands(t)
	turns := b.engine.Books().Turns
	batches, done := live2(t, b)
	holder := batches[0].Kick
	ours, err := turns.Claim(t.Context(), signal.Conversation, holder)
	require.NoError(t, err)
	require.True(t, ours)
	o, err := b.kick(signal)
	require.NoError(t, err)
	require.Equal(t, reflex.CommandBusy, o.Command.Status)
	require.Empty(t, a.given)
	kick, err := turns.Holder(t.Context(), signal.Conversation)
	require.NoError(t, err)
	require.Equal(t, holder, kick)
	// And an ordinary turn is refused before it says anything.
	_, err = b.say(signal.Address, "hi")
	require.ErrorIs(t, err, reflex.ErrTurnActive)
	_, err = b.kick(answer(batches[0], ada))
	require.NoError(t, err)
	<-done
}

func live2(t *testing.T, b *bundle) ([]reflex.Batch, chan reflex.Outcome) {
	b.coder.then(pauses(approval))
	require.NoError(t, b.engine.Books().Handoffs.HandOver(t.Context(), reflex.Handoff{Surface: dm("lobby", "ada").ID(), Agent: "coder"}))
	return live(t, b, dm("lobby", "ada"), 1)
}

func TestACommandThatFailsSaysNothingOfTheRuntime(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(context.Context, *reflex.CommandRequest) (reflex.CommandReply, error){
		"error": func(context.Context, *reflex.CommandRequest) (reflex.CommandReply, error) {
			return reflex.CommandReply{}, errors.New("password=hunter2")
		},
		"panic": func(context.Context, *reflex.CommandRequest) (reflex.CommandReply, error) { panic("hunter2") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, a, signal := commands(t)
			a.do = do
			for range 2 {
				o, err := b.kick(signal)
				require.NoError(t, err)
				require.Equal(t, &reflex.CommandOutcome{Status: reflex.CommandFailed, Text: "the command failed"}, o.Command)
			}
			require.Len(t, a.given, 1)
			b.freeTurns()
		})
	}
}

func TestACommandThatStartsWorkIsFollowedAndNotRunAgain(t *testing.T) {
	t.Parallel()
	works := func(a *commander, do turn) {
		a.do = func(ctx context.Context, r *reflex.CommandRequest) (reflex.CommandReply, error) {
			worker := newFake("clerk", do)
			return reflex.CommandReply{Run: worker.Run(ctx, &r.RunRequest)}, nil
		}
	}
	for _, tt := range []struct {
		name string
		do   turn
		path []string
	}{
		{"result", replies("worked"), []string{"awake", "command"}},
		{"summon", summons("coder"), []string{"awake", "command", "summon", "react"}},
		{"scheme", schemes(reflex.PrivateHandoffDecision{Brief: "b", Hint: "h"}), []string{"awake", "command", "scheme", "react"}},
		{"teleport", moves(reflex.RelocateRequest{Channel: "desk", Hint: "h", Resume: true}), []string{"awake", "command", "teleport", "react"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b, a, signal := commands(t)
			works(a, tt.do)
			o, err := b.kick(signal)
			require.NoError(t, err)
			require.Equal(t, tt.path, o.Path)
			o, err = b.kick(signal)
			if tt.name == "result" {
				require.NoError(t, err)
				require.Equal(t, &reflex.CommandOutcome{Status: reflex.CommandDone, Text: "worked"}, o.Command, "a replay runs nothing")
			}
			require.Len(t, a.given, 1)
		})
	}
	t.Run("deferred", func(t *testing.T) {
		t.Parallel()
		b, a, signal := commands(t)
		works(a, suspends(approval))
		o, err := b.kick(signal)
		require.NoError(t, err)
		require.Equal(t, reflex.OutcomeSuspended, o.Kind)
		require.Equal(t, "clerk", o.Decision.Agent)
		o, err = b.kick(answer(b.batch(o.Batch), ada))
		require.NoError(t, err)
		require.Equal(t, []string{"awake", "resume_deferred", "react"}, o.Path, "it goes on as an ordinary run")
	})
	t.Run("failed", func(t *testing.T) {
		t.Parallel()
		b, a, signal := commands(t)
		works(a, fails(context.DeadlineExceeded))
		_, err := b.kick(signal)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		o, err := b.kick(signal)
		require.NoError(t, err)
		require.Equal(t, reflex.CommandFailed, o.Command.Status)
		b.freeTurns()
	})
}

func TestACommandThatIsCancelledSaysSoInItsReceipt(t *testing.T) {
	t.Parallel()
	b, a, signal := commands(t)
	ctx, cancel := context.WithCancel(t.Context())
	a.do = func(ctx context.Context, _ *reflex.CommandRequest) (reflex.CommandReply, error) {
		cancel()
		<-ctx.Done()
		return reflex.CommandReply{}, context.Cause(ctx)
	}
	_, err := b.engine.Kick(ctx, signal)
	require.ErrorIs(t, err, context.Canceled)
	o, err := b.kick(signal)
	require.NoError(t, err)
	require.Equal(t, &reflex.CommandOutcome{Status: reflex.CommandFailed, Text: "the command was interrupted"}, o.Command)
	b.freeTurns()
}

// unready has no directories for a while.
type unready struct {
	reflex.NoWorkspaces
	err error
}

func (w *unready) Open(context.Context, reflex.Thread) (string, error) { return "", w.err }

func TestACommandThatCannotBePreparedIsNotAcceptedAndMayBeTriedAgain(t *testing.T) {
	t.Parallel()
	b, a, signal := commands(t)
	spaces := &unready{err: errors.New("disk full")}
	b.config.Workspaces = spaces
	b.open()
	_, err := b.kick(signal)
	require.ErrorIs(t, err, spaces.err)
	_, err = b.engine.Books().Receipts.Receipt(t.Context(), signal.Address.ID(), signal.Delivery)
	require.ErrorIs(t, err, store.ErrNotFound)
	b.freeTurns()
	spaces.err = nil
	o, err := b.kick(signal)
	require.NoError(t, err)
	require.Equal(t, reflex.CommandDone, o.Command.Status)
	require.Len(t, a.given, 1)
}
