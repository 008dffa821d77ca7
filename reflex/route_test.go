package reflex_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/reflex"
)

func TestAnUnownedFlatThreadIsOwnedByWhoAnswersThere(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	at := thread("lobby", "t", "ada")
	b.said(at, "hi")
	require.Equal(t, []string{"clerk"}, b.owners(at))
	require.Equal(t, at.ID(), b.clerk.last().Thread.ID, "it ran in the thread itself")
	require.Equal(t, reflex.Sub, b.clerk.last().Target.Mode)
	b.said(at, "again")
	require.Equal(t, []string{"clerk"}, b.owners(at), "a row is skipped when nothing changes")
	require.Equal(t, b.clerk.requests()[0].Conversation.ID, b.clerk.requests()[1].Conversation.ID)
}

func TestTwoKicksInARoomDoNotShareAConversation(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	at := dm("lobby", "ada")
	b.said(at, "one")
	b.said(at, "two")
	require.NotEqual(t, b.clerk.requests()[0].Conversation.ID, b.clerk.requests()[1].Conversation.ID)
	require.Empty(t, b.owners(at), "an entry run claims nothing")
}

func TestAPromptHoldsAllThatWasSaidSinceTheLastOne(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.lobby.fail = errors.New("no screen") // so that no row gets a handle
	room := group("lobby", "team", "ada")
	receive := func(user, text, delivery string) {
		in := inbound(user, text)
		in.Delivery = delivery
		_, err := b.engine.Receive(t.Context(), room, in)
		require.NoError(t, err)
	}
	b.said(room, "first question")
	receive("bob", "I think so too", "m1")
	receive("bob", "I think so too", "m1")
	receive("bob", "  ", "m2")
	b.said(room, "second question")
	want := "<recap>\nEarlier in this room, for context. It has been answered.\n" +
		"> Ada (id ada, user u-ada):\n> first question\n> clerk:\n> done\n</recap>" +
		"|Bob (id bob, message m1):|I think so too|Ada (id ada, user u-ada):|second question"
	require.Equal(t, want, promptOf(b.clerk.last()))
	b.lobby.recap = 0
	b.said(room, "third")
	require.Equal(t, "Ada (id ada, user u-ada):|third", promptOf(b.clerk.last()), "a channel may turn the recap off")
	for _, r := range b.rows(room) {
		if r.Kind == reflex.InboundRow && !strings.HasPrefix(r.Segments[0].Text, " ") {
			require.NotNil(t, r.Bound, "%v", r)
		}
	}
}

func TestAPromptHasTheLastOfVeryMuchThatWasSaid(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	room := group("lobby", "team", "ada")
	b.lobby.recap = 0
	for i := range 450 { // without the agent being asked
		_, err := b.engine.Receive(t.Context(), room, inbound("bob", fmt.Sprint("m", i)))
		require.NoError(t, err)
	}
	b.said(room, "what do you think?")
	prompt := promptOf(b.clerk.last())
	require.True(t, strings.HasPrefix(prompt, "(These are the last 200 messages. More were said before.)|Bob (id bob):|m251|"), prompt[:90])
	require.True(t, strings.HasSuffix(prompt, "|m449|Ada (id ada, user u-ada):|what do you think?"))
	b.said(room, "and now?")
	require.Equal(t, "Ada (id ada, user u-ada):|and now?", promptOf(b.clerk.last()), "what was left out is not pending any more")
}

func TestAPictureReachesThePromptAsItself(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	at := dm("lobby", "ada")
	picture := reflex.Segment{MediaURL: "https://example.com/cat.png", MediaType: "image/png"}
	_, err := b.engine.Say(t.Context(), at, reflex.Inbound{User: "ada", Segments: []reflex.Segment{{Text: "look"}, picture}})
	require.NoError(t, err)
	require.Contains(t, b.clerk.last().Prompt, picture)
}

func TestWhatAFailedRunDidNotTakeUpStaysPending(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	at := thread("lobby", "t", "ada")
	b.clerk.then(fails(context.DeadlineExceeded), func(_ context.Context, _ *reflex.RunRequest, yield func(reflex.Progress)) (reflex.RunResult, error) {
		yield(say("let me"))
		return reflex.RunResult{}, context.DeadlineExceeded
	}, replies("ok"))
	_, err := b.say(at, "one")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = b.say(at, "two")
	require.Error(t, err)
	require.Equal(t, "Ada (id ada, user u-ada):|one|Ada (id ada, user u-ada):|two", promptOf(b.clerk.last()))
	b.said(at, "three")
	require.Equal(t, "Ada (id ada, user u-ada):|three", promptOf(b.clerk.last()), "the second run had taken up what it was told")
}

func TestARouteTakesOnlyAgentsThatAreConnected(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.lobby.agents = []string{"ghost", "coder", "clerk", "coder"}
	b.clerk.models = []string{"tiny"}
	routes, err := b.engine.Routes("lobby")
	require.NoError(t, err)
	require.Equal(t, []reflex.Route{{Agent: "coder", Models: []string{"small", "vendor/large"}}, {Agent: "clerk", Models: []string{"tiny"}}}, routes,
		"in the channel's order, each once, with its own models")
	b.clerk.models = nil
	routes, err = b.engine.Routes("lobby")
	require.NoError(t, err)
	require.Len(t, routes, 1, "who serves no model cannot run")
	_, err = b.engine.Routes("nowhere")
	require.ErrorIs(t, err, reflex.ErrUnknownChannel)
}

func TestAModelIsServedByItsNameOrByAnUnambiguousEndOfIt(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		model, want string
		err         error
	}{
		{"", "small", nil}, {"small", "small", nil}, {"vendor/large", "vendor/large", nil}, {"large", "vendor/large", nil},
		{"twin", "", reflex.ErrModelNotServed}, {"none", "", reflex.ErrModelNotServed}, {"other/large", "", reflex.ErrModelNotServed},
	} {
		t.Run(tt.model, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			b.coder.models = append(b.coder.models, "a/twin", "b/twin")
			b.clerk.then(func(_ context.Context, r *reflex.RunRequest, _ func(reflex.Progress)) (reflex.RunResult, error) {
				err := r.Session.Summon(reflex.HandoffDecision{Agent: "coder", Model: tt.model, Brief: "b"})
				require.ErrorIs(t, err, tt.err)
				return reflex.RunResult{}, nil
			})
			b.said(dm("lobby", "ada"), "hi")
			require.Equal(t, tt.want, b.coder.last().Model)
		})
	}
}

func TestASummonHandsTheConversationOverInPlace(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	at := dm("lobby", "ada")
	message := uuid.New()
	b.clerk.then(func(_ context.Context, r *reflex.RunRequest, _ func(reflex.Progress)) (reflex.RunResult, error) {
		return reflex.RunResult{Output: reflex.Text("over to coder"), Message: message}, r.Session.Summon(reflex.HandoffDecision{Agent: "coder", Brief: "brief for coder"})
	})
	b.coder.then(replies("I am coder"))
	o := b.said(at, "please code")
	require.Equal(t, []string{"awake", "route", "react", "summon", "react"}, o.Path)
	require.Equal(t, "I am coder", o.Text())
	require.Equal(t, []string{"coder"}, b.owners(at))
	require.Equal(t, "brief for coder", promptOf(b.coder.last()))
	require.Equal(t, b.clerk.last().Thread.ID, b.coder.last().Thread.ID, "no new surface")
	require.NotEqual(t, b.clerk.last().Conversation.ID, b.coder.last().Conversation.ID)

	history, err := b.engine.Books().Handoffs.History(t.Context(), at.ID())
	require.NoError(t, err)
	h := history[0]
	require.Equal(t, b.coder.last().Conversation.ID, h.To)
	require.Equal(t, reflex.Origin{Agent: "clerk", Conversation: b.clerk.last().Conversation.ID, Run: b.clerk.last().Run, Message: message}, h.From)

	events := b.heard()
	require.Equal(t, "reflex_awake run_started run_result run_ended gateway run_started text_message_content run_result run_ended reflex_asleep", kinds(events))
	moved, _ := find[reflex.Moved](t, events)
	require.Equal(t, "summon", moved.Action)
	require.Empty(t, moved.Line)

	b.said(at, "more")
	require.Len(t, b.clerk.requests(), 1, "the follow-up goes to the owner")
	b.open()
	b.said(at, "after a restart")
	require.Len(t, b.clerk.requests(), 1)
	require.Equal(t, []string{"coder"}, b.owners(at))
}

func TestChainedSummonsAppendRowsAndTheLastOwns(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	at := dm("lobby", "ada")
	b.clerk.then(summons("coder"), replies("mine again"))
	b.coder.then(summons("clerk"))
	o := b.said(at, "go")
	require.Equal(t, "mine again", o.Text())
	require.Equal(t, []string{"coder", "clerk"}, b.owners(at))
}

func TestTwoAgentsThatSummonEachOtherComeToAnEnd(t *testing.T) {
	t.Parallel()
	b := newBundle(t, func(c *reflex.Config) { c.MaxMoves = 3 })
	b.clerk.then(summons("coder"))
	b.coder.then(summons("clerk"))
	_, err := b.say(dm("lobby", "ada"), "go")
	require.ErrorIs(t, err, reflex.ErrTooManyMoves)
	require.Equal(t, 4, len(b.clerk.requests())+len(b.coder.requests()))
	failed, _ := find[reflex.RunFailed](t, b.heard())
	require.Equal(t, reflex.ErrTooManyMoves.Error(), failed.Message)
	b.freeTurns()
}

// Invariant 8.
func TestAGroupsMainSurfaceIsNeverOwned(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	room := group("lobby", "team", "ada")
	b.clerk.then(func(_ context.Context, r *reflex.RunRequest, _ func(reflex.Progress)) (reflex.RunResult, error) {
		require.ErrorContains(t, r.Session.Summon(reflex.HandoffDecision{Agent: "coder", Brief: "b"}), "group")
		return reflex.RunResult{}, nil
	})
	b.said(room, "go")
	require.Empty(t, b.owners(room))
	// A console that asks for it is refused too.
	thread := b.clerk.last().Thread
	_, err := b.kick(reflex.ThreadSignal{Thread: thread.ID, Profile: ada, Summon: &reflex.HandoffDecision{Agent: "coder", Brief: "b"}})
	require.ErrorIs(t, err, reflex.ErrNotHere)
	require.Empty(t, b.owners(room))
	require.Empty(t, b.coder.requests())
}

func TestTheGatewayRefusesASummonThatMakesNoSense(t *testing.T) {
	t.Parallel()
	b := newBundle(t, func(c *reflex.Config) { c.MaxBrief = 10 })
	elsewhere := dm("desk", "x")
	b.clerk.then(func(_ context.Context, r *reflex.RunRequest, _ func(reflex.Progress)) (reflex.RunResult, error) {
		for reason, d := range map[string]reflex.HandoffDecision{
			"you":       {Agent: "clerk", Brief: "b"},
			"empty":     {Agent: "coder", Brief: " "},
			"bytes":     {Agent: "coder", Brief: "more than ten"},
			"unknown":   {Agent: "nobody", Brief: "b"},
			"not serve": {Agent: "coder", Model: "x", Brief: "b"},
			"here":      {Agent: "coder", Brief: "b", Destination: &elsewhere},
		} {
			err := r.Session.Summon(d)
			require.Error(t, err, reason)
		}
		return reflex.RunResult{}, nil
	})
	o := b.said(dm("lobby", "ada"), "go")
	require.Equal(t, []string{"awake", "route", "react"}, o.Path)
}

func TestTheLastDecisionOfATurnCounts(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.clerk.then(func(ctx context.Context, r *reflex.RunRequest, _ func(reflex.Progress)) (reflex.RunResult, error) {
		require.NoError(t, r.Session.Teleport(ctx, reflex.RelocateRequest{Channel: "desk", Hint: "h"}))
		return reflex.RunResult{}, r.Session.Summon(reflex.HandoffDecision{Agent: "coder", Brief: "b"})
	})
	o := b.said(dm("lobby", "ada"), "go")
	require.Equal(t, []string{"awake", "route", "react", "summon", "react"}, o.Path)
	require.Empty(t, b.desk.opened)
}

func TestAConsoleHandsAThreadOver(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	at := thread("lobby", "t", "ada")
	b.said(at, "hi")
	b.heard()
	o, err := b.kick(reflex.ThreadSignal{Thread: at.ID(), Agent: "clerk", Profile: ada, Summon: &reflex.HandoffDecision{Agent: "coder", Brief: "take over"}})
	require.NoError(t, err)
	require.Equal(t, []string{"awake", "summon", "react"}, o.Path)
	require.Equal(t, "take over", promptOf(b.coder.last()))
	require.Equal(t, []string{"clerk", "coder"}, b.owners(at))
	require.Equal(t, "reflex_awake gateway run_started text_message_content run_result run_ended reflex_asleep", kinds(b.heard()))
	_, err = b.kick(reflex.ThreadSignal{Thread: at.ID(), Agent: "clerk", Profile: ada, Summon: &reflex.HandoffDecision{Agent: "coder", Brief: "again"}})
	require.ErrorIs(t, err, reflex.ErrThreadChanged)
	elsewhere := dm("lobby", "bob")
	_, err = b.kick(reflex.ThreadSignal{Thread: at.ID(), Agent: "coder", Profile: ada, Summon: &reflex.HandoffDecision{Agent: "clerk", Brief: "x", Destination: &elsewhere}})
	require.ErrorIs(t, err, reflex.ErrNotHere)
}

func TestAnAgentIsToldWhatOthersSaidInItsPlace(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.lobby.fail = errors.New("no screen")
	at := dm("lobby", "ada")
	b.clerk.then(summons("coder"))
	b.coder.then(replies("I code"))
	b.said(at, "go")
	b.lobby.recap = 0
	b.said(at, "more")
	require.Equal(t, "clerk:|over to coder|Ada (id ada, user u-ada):|more", promptOf(b.coder.last()), "and not what it said itself")
}

func TestWhoIsLinkedToNobodySeesOnlyTheirOwnDirectMessages(t *testing.T) {
	t.Parallel()
	users := reflex.Directory{ada, desk, bob}
	for _, tt := range []struct {
		who  reflex.Profile
		at   reflex.Address
		want bool
	}{
		{bob, dm("lobby", "bob"), true},
		{reflex.Profile{Channel: "lobby", ID: "eve"}, dm("lobby", "bob"), false},
		{reflex.Profile{Channel: "desk", ID: "bob"}, dm("lobby", "bob"), false},
		{desk, dm("lobby", "ada"), true},
		{bob, dm("lobby", "ada"), false},
		{bob, group("lobby", "team", "ada"), true},
	} {
		got, err := users.Visible(t.Context(), tt.who, reflex.Thread{Address: tt.at})
		require.NoError(t, err)
		require.Equal(t, tt.want, got, "%s at %s", tt.who.ID, tt.at.ID())
	}
}
