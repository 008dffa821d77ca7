package reflex_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/reflex"
)

func TestAMessageIsAnsweredByTheEntryAgentInOneRun(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.clerk.then(replies("hello Ada"))
	room := group("lobby", "team", "ada")
	o := b.said(room, "hi")
	require.Equal(t, reflex.OutcomeResult, o.Kind)
	require.Equal(t, "hello Ada", o.Text())
	require.Equal(t, []string{"awake", "route", "react"}, o.Path)
	require.Equal(t, "react", o.RunName)
	require.Equal(t, []string{"inbound Ada: hi", "outbound clerk: hello Ada"}, b.told(room))
	require.Empty(t, b.owners(room), "a group's main surface is never owned")
	require.Len(t, b.clerk.requests(), 1)
	require.NotEqual(t, room.ID(), b.clerk.last().Thread.ID, "it ran in a fresh thread of the room")
	require.Equal(t, room.ID(), b.clerk.last().Thread.Surface())
	events := b.heard()
	require.Equal(t, "reflex_awake run_started text_message_content run_result run_ended reflex_asleep", kinds(events))
	for i, e := range events {
		require.Equal(t, int64(i+1), e.Seq)
		require.Equal(t, o.Kick, e.Kick)
		require.Equal(t, room.ID(), e.AskedOn.Surface)
	}
	reply, _ := find[reflex.ReplyGiven](t, events)
	require.Equal(t, o.Row, reply.Row)
	b.freeTurns()
}

// Invariant 1.
func TestAKickOnAnAwakeSurfaceChangesNothing(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	room := thread("lobby", "t", "ada")
	inside, goOn := make(chan struct{}), make(chan struct{})
	b.clerk.then(func(context.Context, *reflex.RunRequest, func(reflex.Progress)) (reflex.RunResult, error) {
		close(inside)
		<-goOn
		return reflex.RunResult{Output: reflex.Text("first")}, nil
	}, replies("second"))
	row, err := b.engine.Receive(t.Context(), room, inbound("ada", "one"))
	require.NoError(t, err)
	done := make(chan error, 1)
	_, err = b.engine.KickAsync(t.Context(), reflex.MessageSignal{Address: room, Messages: []reflex.Inbound{inbound("ada", "one")}, Trigger: row.ID},
		func(_ reflex.Outcome, err error) { done <- err })
	require.NoError(t, err)
	<-inside
	before := b.told(room)
	_, err = b.kick(reflex.MessageSignal{Address: room, Messages: []reflex.Inbound{inbound("ada", "x")}})
	require.ErrorIs(t, err, reflex.ErrBusy)
	require.Equal(t, before, b.told(room))
	_, err = b.say(room, "two")
	require.ErrorIs(t, err, reflex.ErrBusy)
	close(goOn)
	require.NoError(t, <-done)
	first := b.heard()
	for _, e := range first {
		require.Equal(t, first[0].Kick, e.Kick, "the refused kicks said nothing")
	}
	b.said(room, "three")
	require.Equal(t, "Ada (id ada, user u-ada):|two|Ada (id ada, user u-ada):|three", promptOf(b.clerk.last()), "what was refused is in the next prompt")
}

func TestOneOfManyKicksAtOnceWinsAndTheOthersSayNothing(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	room := thread("lobby", "t", "ada")
	const n = 16
	refused := make(chan error, n)
	b.clerk.then(func(context.Context, *reflex.RunRequest, func(reflex.Progress)) (reflex.RunResult, error) {
		for range n - 1 {
			if err := <-refused; !errors.Is(err, reflex.ErrBusy) {
				return reflex.RunResult{}, err
			}
		}
		return reflex.RunResult{}, nil
	})
	won := make(chan error, n)
	for range n {
		go func() {
			_, err := b.kick(reflex.MessageSignal{Address: room, Messages: []reflex.Inbound{inbound("ada", "go")}})
			if err != nil {
				refused <- err
			} else {
				won <- nil
			}
		}()
	}
	require.NoError(t, <-won)
	events := b.heard()
	require.Equal(t, "reflex_awake run_started run_ended reflex_asleep", kinds(events))
	require.Len(t, b.clerk.requests(), 1)
}

// Invariant 2.
func TestTheFirstEventIsAwakeAndTheLastAsleepAlsoOnErrorPanicAndCancel(t *testing.T) {
	t.Parallel()
	errModel := errors.New("the model is down")
	for _, tt := range []struct {
		name   string
		run    turn
		cancel bool
		want   string
		err    error
		text   string
	}{
		{"result", replies("ok"), false, "reflex_awake run_started text_message_content run_result run_ended reflex_asleep", nil, ""},
		{"error", fails(errModel), false, "reflex_awake run_started run_ended run_error reflex_asleep", errModel, "the turn failed"},
		{"panic", func(context.Context, *reflex.RunRequest, func(reflex.Progress)) (reflex.RunResult, error) {
			panic("oops")
		}, false,
			"reflex_awake run_started run_ended run_error reflex_asleep", nil, "the turn failed"},
		{"no result", fails(errSilent), false, "reflex_awake run_started run_ended run_error reflex_asleep", reflex.ErrNoResult, reflex.ErrNoResult.Error()},
		{"cancel", nil, true, "reflex_awake run_started run_ended run_error reflex_asleep", context.Canceled, "the turn was cancelled"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tt.cancel {
				tt.run = cancels(cancel)
			}
			b.clerk.then(tt.run)
			at := dm("lobby", "ada")
			_, err := b.engine.Say(ctx, at, inbound("ada", "hi"))
			if tt.name == "result" {
				require.NoError(t, err)
			} else {
				require.Error(t, err)
			}
			if tt.err != nil {
				require.ErrorIs(t, err, tt.err)
			}
			events := b.heard()
			require.Equal(t, tt.want, kinds(events))
			if tt.text != "" {
				failed, e := find[reflex.RunFailed](t, events)
				require.Equal(t, tt.text, failed.Message)
				require.Equal(t, at.ID(), e.At.Surface)
			}
			b.freeTurns()
			b.clerk.then(replies("again"))
			require.Equal(t, "again", b.said(at, "still there?").Text(), "the surface is free again")
		})
	}
}

func TestASignalThatMakesNoSenseIsRefusedWithATypedError(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.said(dm("lobby", "ada"), "hi")
	conversation := b.clerk.last().Conversation
	native := reflex.Address{Channel: reflex.NativeChannel, Thread: "s1"}
	for _, tt := range []struct {
		name   string
		signal reflex.Signal
		want   error
	}{
		{"nil", nil, reflex.ErrInvalidSignal},
		{"unknown channel", reflex.MessageSignal{Address: dm("nowhere", "x"), Messages: []reflex.Inbound{inbound("x", "y")}}, reflex.ErrUnknownChannel},
		{"trigger elsewhere", reflex.MessageSignal{Address: dm("lobby", "ada"), Messages: []reflex.Inbound{inbound("x", "y")}, Trigger: reflex.RowID{Surface: "x", Seq: 1}}, reflex.ErrInvalidSignal},
		{"unknown batch", reflex.BatchSignal{BatchAnswer: reflex.BatchAnswer{Batch: "none"}}, reflex.ErrUnknownBatch},
		{"native without source", reflex.NativeSignal{Agent: "clerk", Scheme: &reflex.PrivateHandoffDecision{}}, reflex.ErrInvalidSignal},
		{"native without decision", reflex.NativeSignal{Agent: "clerk", Source: native}, reflex.ErrInvalidSignal},
		{"native teleport without owner", reflex.NativeSignal{Agent: "clerk", Source: native, Teleport: &reflex.RelocateRequest{}}, reflex.ErrInvalidSignal},
		{"native teleport of an agent that imports nothing", reflex.NativeSignal{Agent: "clerk", Source: native, Profile: &ada, Teleport: &reflex.RelocateRequest{}}, reflex.ErrForkUnsupported},
		{"native of an unknown agent", reflex.NativeSignal{Agent: "nobody", Source: native, Scheme: &reflex.PrivateHandoffDecision{Brief: "b"}}, reflex.ErrUnknownAgent},
		{"thread without decision", reflex.ThreadSignal{Thread: conversation.Thread}, reflex.ErrInvalidSignal},
		{"unknown thread", reflex.ThreadSignal{Thread: "none", Summon: &reflex.HandoffDecision{Brief: "b"}}, reflex.ErrNoThread},
		{"thread of another agent", reflex.ThreadSignal{Thread: conversation.Thread, Agent: "coder", Profile: ada, Summon: &reflex.HandoffDecision{Agent: "coder", Brief: "b"}}, reflex.ErrThreadChanged},
		{"thread of another person", reflex.ThreadSignal{Thread: conversation.Thread, Profile: bob, Summon: &reflex.HandoffDecision{Agent: "coder", Brief: "b"}}, reflex.ErrThreadChanged},
		{"summon without brief", reflex.ThreadSignal{Thread: conversation.Thread, Summon: &reflex.HandoffDecision{Agent: "coder"}}, reflex.ErrInvalidSignal},
		{"scheme with a book for a brief", reflex.NativeSignal{Agent: "clerk", Source: native, Scheme: &reflex.PrivateHandoffDecision{Brief: strings.Repeat("x", 32<<10+1)}}, reflex.ErrInvalidSignal},
		{"command without delivery", reflex.CommandSignal{Conversation: conversation.ID, Command: reflex.Command{Name: "x"}}, reflex.ErrInvalidSignal},
		{"command without name", reflex.CommandSignal{Conversation: conversation.ID, Delivery: "d"}, reflex.ErrInvalidSignal},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := b.kick(tt.signal)
			require.ErrorIs(t, err, tt.want)
		})
	}
	require.Len(t, b.clerk.requests(), 1, "nothing ran")
}

func TestAnEmptySignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	o, err := b.kick(reflex.MessageSignal{Address: dm("lobby", "ada")})
	require.NoError(t, err)
	require.Equal(t, reflex.Outcome{Kind: reflex.OutcomeResult}, o)
	o, err = b.kick(&reflex.MessageSignal{Address: dm("lobby", "ada"), Messages: []reflex.Inbound{inbound("ada", " \n")}})
	require.NoError(t, err)
	require.Nil(t, o.Decision)
	require.Equal(t, dm("lobby", "ada"), o.Target.Address)
	require.Empty(t, b.clerk.requests())
}

func TestAgentsAndModelsAreResolvedWhereTheRunHappens(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*bundle)
		want   error
	}{
		{"not exposed", func(b *bundle) { b.lobby.agents = []string{"clerk"}; b.clerk.then(summonsUnchecked("coder")) }, reflex.ErrAgentNotOnChannel},
		{"not connected", func(b *bundle) { b.lobby.agents = []string{"ghost"} }, reflex.ErrUnknownAgent},
		{"no agents", func(b *bundle) { b.lobby.agents = nil }, reflex.ErrUnknownAgent},
		{"no models", func(b *bundle) { b.clerk.models = nil }, reflex.ErrNoModels},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			tt.change(b)
			_, err := b.say(dm("lobby", "ada"), "hi")
			require.ErrorIs(t, err, tt.want)
			require.Empty(t, b.coder.requests())
			b.freeTurns()
		})
	}
}

// summonsUnchecked summons an agent that the channel stops to expose before the turn is over.
func summonsUnchecked(agent string) turn {
	return func(_ context.Context, r *reflex.RunRequest, _ func(reflex.Progress)) (reflex.RunResult, error) {
		return reflex.RunResult{}, r.Session.Summon(reflex.HandoffDecision{Agent: agent, Brief: "b"})
	}
}

func TestWhatStacksUpBehindAPassMayGetOnePassMore(t *testing.T) {
	t.Parallel()
	b := newBundle(t, func(c *reflex.Config) { c.OnBusy = reflex.FollowUp })
	at := thread("lobby", "t", "ada")
	b.clerk.then(func(context.Context, *reflex.RunRequest, func(reflex.Progress)) (reflex.RunResult, error) {
		for _, text := range []string{"two", "three"} {
			o, err := b.say(at, text)
			require.NoError(t, err)
			require.Equal(t, reflex.OutcomeQueued, o.Kind)
		}
		return reflex.RunResult{Output: reflex.Text("one done")}, nil
	}, replies("all done"))
	require.Equal(t, "one done", b.said(at, "one").Text())
	first, second := b.heard(), b.heard()
	require.NotEqual(t, first[0].Kick, second[0].Kick)
	require.Len(t, b.clerk.requests(), 2)
	require.Equal(t, "Ada (id ada, user u-ada):|two|Ada (id ada, user u-ada):|three", promptOf(b.clerk.last()))
	require.NoError(t, b.engine.Shutdown(t.Context()))
	require.Len(t, b.clerk.requests(), 2, "one for both")
}
