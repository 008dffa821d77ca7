package reflex_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/reflex"
	"github.com/everstep-go/everstep/store"
)

// commander is a fake agent that takes commands.
type commander struct {
	*fake
	catalogue reflex.Catalogue
	probe     func() // called while the commands are listed
	hang      bool   // the list takes longer than anybody waits
	do        func(ctx context.Context, r *reflex.CommandRequest) (reflex.CommandReply, error)
	given     []reflex.Command
	session   *reflex.TurnSession
	outdated  []string // conversations whose catalogue is to be made anew
}

func (a *commander) InvalidateCatalogue(c reflex.Conversation) { a.outdated = append(a.outdated, c.ID) }

func (a *commander) Catalogue(ctx context.Context, _ reflex.Conversation) (reflex.Catalogue, error) {
	if a.hang {
		<-ctx.Done()
		return reflex.Catalogue{}, context.Cause(ctx)
	}
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
	_, err := b.engine.Books().Conversations.Change(t.Context(), b.clerk.last().Conversation.ID, func(c *reflex.Conversation) { c.Dir = "/work" })
	require.NoError(t, err)
	return b, a, reflex.CommandSignal{
		Conversation: b.clerk.last().Conversation.ID, Agent: "clerk", Profile: ada, Address: at,
		Command: reflex.Command{Name: "status", Arguments: "  --all \t'x'"}, Delivery: "d1",
		Session: b.clerk.last().Conversation.Session, Dir: "/work", Model: "small",
	}
}

// changes is a change of the conversation while the commands are listed.
func changes(change func(*reflex.Conversation)) func(*testing.T, *bundle, *commander, *reflex.CommandSignal) {
	return func(t *testing.T, b *bundle, a *commander, s *reflex.CommandSignal) {
		a.probe = func() {
			_, err := b.engine.Books().Conversations.Change(t.Context(), s.Conversation, change)
			require.NoError(t, err)
		}
	}
}

// Invariant 13.
func TestACommandIsDispatchedAtMostOnceForItsDelivery(t *testing.T) {
	t.Parallel()
	b, a, signal := commands(t)
	at := signal.Address
	w, users := &spaces{}, &people{}
	b.config.Workspaces, b.config.Capabilities = w, users.capabilities
	b.open()
	console := b.engine.Bus().Subscribe(reflex.Filter{Threads: []string{at.ID()}})
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
	require.Equal(t, []string{"u-ada clerk"}, users.asked, "a replay prepares nobody")
	require.Equal(t, []string{"open", "save"}, w.calls, "and saves nothing")
	require.Equal(t, []string{signal.Conversation}, a.outdated)
	require.Equal(t, "reflex_awake command_feedback reflex_asleep", kinds(hear(t.Context(), console)), "a console hears of it once")
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
		{"another session", func(_ *testing.T, _ *bundle, _ *commander, s *reflex.CommandSignal) { s.Session = uuid.New() }, reflex.CommandStale},
		{"a thread that they may not see", func(t *testing.T, b *bundle, _ *commander, s *reflex.CommandSignal) {
			s.Address = dm("lobby", "bob")
			bobs, err := b.engine.Books().Threads.Ensure(t.Context(), reflex.Thread{ID: s.Address.ID(), Kind: reflex.DMRoom, Address: s.Address})
			require.NoError(t, err)
			c, err := b.engine.Books().Conversations.Ensure(t.Context(), bobs.ID, "clerk", "")
			require.NoError(t, err)
			s.Conversation = c.ID
		}, reflex.CommandUnavailable},
		{"a sub-agent's conversation", func(t *testing.T, b *bundle, _ *commander, s *reflex.CommandSignal) {
			c, err := b.engine.Books().Conversations.Ensure(t.Context(), s.Address.ID(), "clerk", "helper")
			require.NoError(t, err)
			s.Conversation = c.ID
		}, reflex.CommandStale},
		{"another agent's conversation", func(t *testing.T, b *bundle, _ *commander, s *reflex.CommandSignal) {
			c, err := b.engine.Books().Conversations.Ensure(t.Context(), s.Address.ID(), "coder", "")
			require.NoError(t, err)
			s.Conversation = c.ID
		}, reflex.CommandStale},
		{"the profile changes meanwhile", func(_ *testing.T, b *bundle, a *commander, _ *reflex.CommandSignal) {
			a.probe = func() { b.users.set(reflex.Directory{{Channel: "lobby", ID: "ada", User: "somebody else"}}) }
		}, reflex.CommandUnavailable},
		{"the channel changes meanwhile", func(_ *testing.T, b *bundle, a *commander, _ *reflex.CommandSignal) {
			a.probe = func() { b.lobby.agents = []string{"coder"} }
		}, reflex.CommandUnavailable},
		{"the session changes meanwhile", changes(func(c *reflex.Conversation) { c.Session = uuid.New() }), reflex.CommandStale},
		{"the workspace changes meanwhile", changes(func(c *reflex.Conversation) { c.Dir = "/elsewhere" }), reflex.CommandStale},
		{"the model changes meanwhile", changes(func(c *reflex.Conversation) { c.Model = "vendor/large" }), reflex.CommandStale},
		{"the mode changes meanwhile", changes(func(c *reflex.Conversation) { c.Mode = reflex.DontAsk }), reflex.CommandStale},
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
			w, users := &spaces{}, &people{}
			b.config.Workspaces, b.config.Capabilities = w, users.capabilities
			b.open()
			rows, address := b.told(signal.Address), signal.Address
			tt.change(t, b, a, &signal)
			o, err := b.kick(signal)
			require.NoError(t, err)
			require.Equal(t, tt.want, o.Command.Status, o.Command.Text)
			require.Empty(t, a.given)
			require.Equal(t, rows, b.told(address), "no receipt")
			require.Empty(t, users.asked, "nobody is prepared")
			require.Empty(t, w.calls, "nothing is opened or saved")
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
			a.session = r.Session
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
			signal.Model, signal.Session = "", uuid.Nil
			console := b.engine.Bus().Subscribe(reflex.Filter{Threads: []string{signal.Address.ID()}})
			o, err := b.kick(signal)
			require.NoError(t, err)
			require.Equal(t, tt.path, o.Path)
			heard := hear(t.Context(), console)
			if tt.name == "result" {
				require.Equal(t, "reflex_awake run_started text_message_content run_result run_ended reflex_asleep", kinds(heard), "the model's result once")
				reply := b.rows(signal.Address)[o.Row.Seq-1]
				require.Equal(t, signal.Conversation, reply.Bound.Conversation, "recorded and bound like any reply")
			}
			if next := b.coder.last(); tt.name == "summon" {
				require.NotEqual(t, signal.Conversation, next.Conversation.ID, "who takes over has a conversation,")
				require.NotSame(t, a.session, next.Session, "a session and a selection of its own")
				require.Equal(t, "coder", o.Decision.Agent)
			}
			o, err = b.kick(signal)
			if tt.name == "result" {
				require.NoError(t, err)
				require.Equal(t, &reflex.CommandOutcome{Status: reflex.CommandDone, Text: "worked"}, o.Command, "a replay runs nothing")
			}
			require.Len(t, a.given, 1)
		})
	}
	deferred := map[string]turn{
		"deferred at once": func(ctx context.Context, r *reflex.RunRequest, _ func(reflex.Progress)) (reflex.RunResult, error) {
			return reflex.RunResult{Deferred: []reflex.DeferredCall{approval}}, nil
		},
		"deferred after an event": suspends(approval),
	}
	for name, do := range deferred {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, a, signal := commands(t)
			works(a, do)
			_, err := b.engine.Books().Conversations.Change(t.Context(), signal.Conversation, func(c *reflex.Conversation) { c.Model = "" })
			require.NoError(t, err)
			signal.Model = "vendor/large"
			o, err := b.kick(signal)
			require.NoError(t, err)
			require.Equal(t, reflex.OutcomeSuspended, o.Kind)
			require.Equal(t, "clerk", o.Decision.Agent)
			o, err = b.kick(answer(b.batch(o.Batch), ada))
			require.NoError(t, err)
			require.Equal(t, []string{"awake", "resume_deferred", "react"}, o.Path, "it goes on as an ordinary run")
			require.Equal(t, "vendor/large", b.clerk.last().Model, "with the model that was chosen")
			require.Len(t, a.given, 1)
		})
	}
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

func TestACommandThatCannotBePreparedIsNotAcceptedAndMayBeTriedAgain(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk full")
	for name, tt := range map[string]struct {
		prepare func(w *spaces, users *people, cancel func())
		want    error
	}{
		"no workspace":       {func(w *spaces, _ *people, _ func()) { w.err = broken }, broken},
		"nobody is prepared": {func(_ *spaces, users *people, _ func()) { users.err = broken }, broken},
		"cancelled":          {func(_ *spaces, users *people, cancel func()) { users.do = cancel }, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, a, signal := commands(t)
			w, users := &spaces{}, &people{}
			b.config.Workspaces, b.config.Capabilities = w, users.capabilities
			b.open()
			ctx, cancel := context.WithCancel(t.Context())
			tt.prepare(w, users, cancel)
			_, err := b.engine.Kick(ctx, signal)
			require.ErrorIs(t, err, tt.want)
			_, err = b.engine.Books().Receipts.Receipt(t.Context(), signal.Address.ID(), signal.Delivery)
			require.ErrorIs(t, err, store.ErrNotFound)
			require.Zero(t, w.count("save"))
			b.freeTurns()
			w.err, users.err, users.do = nil, nil, nil
			o, err := b.kick(signal)
			require.NoError(t, err)
			require.Equal(t, reflex.CommandDone, o.Command.Status)
			require.Len(t, a.given, 1)
			cancel()
		})
	}
}

func TestTheStreamOfACommandIsClosedBeforeItsTurnIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]turn{"done": replies("ok"), "failed": fails(context.DeadlineExceeded), "cancelled": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, a, signal := commands(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if do == nil {
				do = cancels(cancel)
			}
			var holder uuid.UUID
			a.do = func(ctx context.Context, r *reflex.CommandRequest) (reflex.CommandReply, error) {
				worker := &closing{fake: newFake("clerk", do), closed: func(conversation string) {
					var err error
					holder, err = b.engine.Books().Turns.Holder(context.Background(), conversation)
					assert.NoError(t, err)
				}}
				return reflex.CommandReply{Run: worker.Run(ctx, &r.RunRequest)}, nil
			}
			_, err := b.engine.Kick(ctx, signal)
			require.Equal(t, name == "done", err == nil)
			require.NotEqual(t, uuid.Nil, holder)
			b.freeTurns()
			receipt, err := b.engine.Books().Receipts.Receipt(t.Context(), signal.Address.ID(), signal.Delivery)
			require.NoError(t, err)
			want := map[string]reflex.CommandStatus{"done": reflex.CommandDone, "failed": reflex.CommandFailed, "cancelled": reflex.CommandFailed}
			require.Equal(t, want[name], receipt.Outcome.Status)
		})
	}
}

func TestACommandCreatesNeitherAConversationNorAPromptNorARecap(t *testing.T) {
	t.Parallel()
	b, _, signal := commands(t)
	room := group("lobby", "team", "ada")
	b.said(room, "hi")
	signal.Address, signal.Conversation, signal.Session, signal.Dir = room, b.clerk.last().Conversation.ID, uuid.Nil, ""
	before, err := b.store.(store.Records).ListRecords(t.Context(), &store.RecordQuery{Tenant: "default", Kind: "reflex.conversation"})
	require.NoError(t, err)
	cursor, err := b.engine.Books().Ledger.Cursor(t.Context(), room.ID())
	require.NoError(t, err)
	o, err := b.kick(signal)
	require.NoError(t, err)
	require.Equal(t, reflex.CommandDone, o.Command.Status)
	signal.Delivery, signal.Conversation = "d2", "none"
	_, err = b.kick(signal)
	require.NoError(t, err)
	after, err := b.store.(store.Records).ListRecords(t.Context(), &store.RecordQuery{Tenant: "default", Kind: "reflex.conversation"})
	require.NoError(t, err)
	require.Equal(t, len(before), len(after))
	now, err := b.engine.Books().Ledger.Cursor(t.Context(), room.ID())
	require.NoError(t, err)
	require.Equal(t, cursor, now)
	require.Contains(t, b.told(room), "receipt Ada: /status   --all \t'x'", "it is in the history")
	b.said(room, "next")
	require.NotContains(t, promptOf(b.clerk.last()), "/status")
	require.Contains(t, promptOf(b.clerk.last()), "<recap>")
}

func TestTheCommandsOfAConversationCanBeListed(t *testing.T) {
	t.Parallel()
	b, a, signal := commands(t)
	got, err := b.engine.Catalogue(t.Context(), signal.Conversation)
	require.NoError(t, err)
	require.Equal(t, a.catalogue, got)
	got, err = b.engine.Catalogue(t.Context(), "none")
	require.NoError(t, err)
	require.Equal(t, reflex.Catalogue{Status: reflex.CommandUnavailable}, got, "without a conversation there are none")
	coders, err := b.engine.Books().Conversations.Ensure(t.Context(), signal.Address.ID(), "coder", "")
	require.NoError(t, err)
	got, err = b.engine.Catalogue(t.Context(), coders.ID)
	require.NoError(t, err)
	require.Equal(t, reflex.CommandUnavailable, got.Status)
}

func TestAListOfCommandsThatTakesTooLongIsUnavailable(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b, a, signal := commands(t)
		a.hang = true
		began := time.Now()
		o, err := b.kick(signal)
		require.NoError(t, err)
		require.Equal(t, reflex.CommandUnavailable, o.Command.Status)
		require.Equal(t, 10*time.Second, time.Since(began))
		b.freeTurns()
	})
}
