package reflex_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/reflex"
)

func TestASchemeHandsTheBriefToWhoOwnsTheDirectMessages(t *testing.T) {
	t.Parallel()
	for _, owned := range []bool{true, false} {
		b := newBundle(t)
		room, private := group("lobby", "team", "ada"), dm("lobby", "ada")
		want := b.clerk
		if owned {
			b.clerk.then(summons("coder"))
			b.said(private, "coder please")
			b.heard()
			want = b.coder
		}
		b.clerk.then(schemes(reflex.PrivateHandoffDecision{Brief: "secret work", Hint: "Let us go on here."}), replies("psst"))
		b.coder.then(replies("psst"))
		console := b.engine.Bus().Subscribe(reflex.Filter{Threads: []string{room.ID()}})
		o := b.said(room, "something delicate")
		require.Equal(t, []string{"awake", "route", "react", "scheme", "react"}, o.Path)
		require.Equal(t, private, o.Target.Address)
		require.Equal(t, "secret work", promptOf(want.last()))
		require.Equal(t, private.ID(), want.last().Thread.Surface())
		require.Equal(t, []string{want.id}, b.owners(private))
		require.Empty(t, b.owners(room))
		require.Equal(t, []string{"inbound Ada: something delicate", "outbound clerk: see you in private"}, b.told(room))
		told := b.told(private)
		require.Equal(t, []string{"system Ada: Let us go on here.", "outbound " + want.id + ": psst"}, told[len(told)-2:])
		// The group hears that the work left, and nothing of what is said in private.
		events := hear(t.Context(), console)
		require.Equal(t, "reflex_awake run_started run_result run_ended gateway reflex_asleep", kinds(events))
		moved, _ := find[reflex.Moved](t, events)
		require.Equal(t, "scheme", moved.Action)
		require.Empty(t, moved.Line)
	}
}

func TestASchemeThatNoPlatformOpensLeavesTheTurnInPlace(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	room := group("lobby", "team", "ada")
	b.lobby.refuse = errors.New("no direct messages from bots")
	b.clerk.then(schemes(reflex.PrivateHandoffDecision{Brief: "b", Hint: "h"}))
	o := b.said(room, "go")
	require.Equal(t, []string{"awake", "route", "react", "scheme"}, o.Path)
	require.Equal(t, reflex.OutcomeResult, o.Kind)
	require.Nil(t, o.Decision)
	require.Equal(t, room, o.Target.Address)
	require.Len(t, b.clerk.requests(), 1)
	require.NotContains(t, kinds(b.heard()), "gateway")
}

func TestASchemeIsReachableOnlyFromAPublicPlaceWithAnAsker(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	refused := func(reason string, d reflex.PrivateHandoffDecision) turn {
		return func(ctx context.Context, r *reflex.RunRequest, _ func(reflex.Progress)) (reflex.RunResult, error) {
			require.ErrorContains(t, r.Session.Scheme(ctx, d), reason)
			return reflex.RunResult{}, nil
		}
	}
	d := reflex.PrivateHandoffDecision{Brief: "b", Hint: "h"}
	b.clerk.then(refused("private already", d))
	b.said(dm("lobby", "ada"), "go")
	d.Channel = "desk"
	b.clerk.then(refused("nobody asked", d))
	b.said(group("lobby", "team", "bob"), "go")
	d.Channel = "nowhere"
	b.clerk.then(refused("unknown channel", d))
	b.said(group("lobby", "team", "ada"), "go")
}

func TestASchemeAcrossChannelsHandsToAnAgentThatRunsThere(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.clerk.then(schemes(reflex.PrivateHandoffDecision{Channel: "desk", Brief: "b", Hint: "h"}))
	b.coder.then(replies("at the desk"))
	o := b.said(group("lobby", "team", "ada"), "go")
	require.Equal(t, dm("desk", "ada.l"), o.Target.Address)
	require.Len(t, b.coder.requests(), 1)
}

func TestANativeSchemeLandsInDirectMessagesAndHandsOff(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	signal := reflex.NativeSignal{
		Source: reflex.Address{Channel: reflex.NativeChannel, Thread: "s1"}, Agent: "coder", Profile: &ada,
		Scheme: &reflex.PrivateHandoffDecision{Brief: "go on", Hint: "h"},
	}
	o, err := b.kick(signal)
	require.NoError(t, err)
	require.Equal(t, []string{"awake", "scheme", "react"}, o.Path)
	require.Equal(t, "go on", promptOf(b.clerk.last()))
	history, err := b.engine.Books().Handoffs.History(t.Context(), dm("lobby", "ada").ID())
	require.NoError(t, err)
	require.Equal(t, reflex.Origin{Agent: "coder"}, history[0].From)
	signal.Profile = nil
	o, err = b.kick(signal)
	require.NoError(t, err)
	require.Equal(t, []string{"awake", "scheme"}, o.Path, "without a person there is nowhere to go")
}

func TestATeleportCarriesTheHistoryToANewThread(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		resume bool
		record bool // by a runtime that cannot stop at the call
		call   string
	}{
		{"resumed", true, false, ""}, {"recorded and resumed", true, true, ""}, {"recorded with its call and resumed", true, true, "move"},
		{"not resumed", false, false, ""}, {"recorded", false, true, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			from := dm("lobby", "ada")
			r := reflex.RelocateRequest{Channel: "desk", Hint: "Off to the desk", Resume: tt.resume, Call: tt.call}
			first := moves(r)
			if tt.record {
				first = func(ctx context.Context, rr *reflex.RunRequest, _ func(reflex.Progress)) (reflex.RunResult, error) {
					return reflex.RunResult{}, rr.Session.Teleport(ctx, r)
				}
			}
			b.clerk.then(first, replies("I am here"))
			o := b.said(from, "go to the desk")
			to := reflex.Address{Channel: "desk", Type: reflex.Group, Chat: "home", Thread: "t1", Shared: true}
			require.Equal(t, to, o.Target.Address)
			require.Equal(t, []string{b.clerk.requests()[0].Thread.ID + " -> " + to.ID()}, b.clerk.forks)
			require.Equal(t, []string{"clerk"}, b.owners(to))
			require.Equal(t, []string{"inbound Ada: go to the desk", "outbound clerk: Off to the desk"}, b.told(from))
			require.Equal(t, "system Ada: Off to the desk", b.told(to)[0])
			moved, e := find[reflex.Moved](t, b.heard())
			require.Equal(t, b.rows(from)[1].ID, moved.Row)
			require.Equal(t, from.ID(), e.At.Surface)
			if !tt.resume {
				require.Equal(t, []string{"awake", "route", "react", "teleport"}, o.Path)
				require.Len(t, b.clerk.requests(), 1)
				return
			}
			require.Equal(t, []string{"awake", "route", "react", "teleport", "react"}, o.Path)
			last := b.clerk.last()
			if tt.record && tt.call == "" {
				require.Contains(t, promptOf(last), "You are now in desk")
			} else {
				require.Empty(t, last.Prompt)
				require.Contains(t, last.Results["move"].Text, "You are now in desk")
			}
			require.NotEqual(t, b.clerk.requests()[0].Conversation.ID, last.Conversation.ID)
			c, err := b.engine.Books().Conversations.Conversation(t.Context(), last.Conversation.ID)
			require.NoError(t, err)
			require.Equal(t, b.clerk.requests()[0].Conversation.ID, c.ForkedFrom)
		})
	}
}

// Invariant 6.
func TestAMoveThatFailedToOpenCopiedNothingHandedOverNothingAnnouncedNothing(t *testing.T) {
	t.Parallel()
	same, room, foreign := dm("desk", "ada.l"), group("desk", "home", "ada.l"), thread("lobby", "t9", "ada")
	for _, tt := range []struct {
		name   string
		change func(*bundle)
		want   error
	}{
		{"refused", func(b *bundle) { b.desk.refuse = errors.New("full") }, reflex.ErrNothingMoved},
		{"no thread at all", func(b *bundle) { b.desk.reuse = &room }, reflex.ErrNothingMoved},
		{"another channel's", func(b *bundle) { b.desk.reuse = &foreign }, reflex.ErrNothingMoved},
		{"a channel without threads", func(b *bundle) {
			b.config.Channels = []reflex.Channel{b.lobby, limited{b.desk}}
			b.open()
		}, reflex.ErrNothingMoved},
		{"an existing chat", func(b *bundle) { b.desk.reuse = &same }, reflex.ErrNothingMoved},
		{"unlinked meanwhile", func(b *bundle) { b.config.Users = reflex.Directory{ada, bob}; b.open() }, reflex.ErrProfileUnlinked},
		{"agent not there", func(b *bundle) { b.desk.agents = []string{"coder"} }, reflex.ErrAgentNotOnChannel},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			tt.change(b)
			b.clerk.then(moves(reflex.RelocateRequest{Channel: "desk", Hint: "h", Resume: true}))
			_, err := b.say(dm("lobby", "ada"), "go")
			require.ErrorIs(t, err, tt.want)
			require.Empty(t, b.clerk.forks)
			require.Empty(t, b.owners(same))
			require.Equal(t, []string{"inbound Ada: go"}, b.told(dm("lobby", "ada")))
			events := b.heard()
			require.NotContains(t, kinds(events), "gateway")
			require.NotContains(t, kinds(events), "thread_opened")
			require.Len(t, b.clerk.requests(), 1, "and it does not go on at the source")
			b.freeTurns()
		})
	}
}

// limited is a channel that has neither threads nor direct messages.
type limited struct{ *chat }

func (limited) Surfaces() (threads, directMessages bool) { return false, false }

func TestAnAgentThatCannotForkIsRefusedBeforeAnythingIsOpened(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.config.Agents = []reflex.Agent{struct{ reflex.Agent }{b.clerk}, b.coder}
	b.open()
	b.clerk.then(moves(reflex.RelocateRequest{Channel: "desk", Hint: "h"}))
	_, err := b.say(dm("lobby", "ada"), "go")
	require.ErrorIs(t, err, reflex.ErrForkUnsupported)
	require.Empty(t, b.desk.opened)
}

func TestAConsoleMovesAThread(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	at := thread("lobby", "t", "ada")
	b.said(at, "hi")
	move := reflex.ThreadSignal{Thread: at.ID(), Agent: "clerk", Profile: ada, Teleport: &reflex.RelocateRequest{Channel: "desk", Hint: "h", Prompt: reflex.Text("go on here")}}
	o, err := b.kick(move)
	require.NoError(t, err)
	require.Equal(t, []string{"awake", "teleport", "react"}, o.Path)
	require.Equal(t, "Ada (id ada, user u-ada):|go on here", promptOf(b.clerk.last()))
	require.Empty(t, b.clerk.last().Results, "no result is made up")
	move.Teleport = &reflex.RelocateRequest{Channel: "desk", Hint: "h", Resume: true}
	_, err = b.kick(move)
	require.NoError(t, err)
	require.Contains(t, promptOf(b.clerk.last()), "You are now in desk")
}

// importer is an agent that takes over native sessions.
type importer struct {
	*fake
	invalid error
	model   string // of the last run of the session
}

func (a *importer) ValidateNative(context.Context, reflex.Address) (string, error) {
	return a.model, a.invalid
}
func (a *importer) ImportNative(_ context.Context, source reflex.Address, to reflex.Conversation) error {
	a.fake.forks = append(a.fake.forks, source.Thread+" -> "+to.Thread)
	return nil
}

func TestANativeSessionMovesOnceItsHistoryIsSound(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	a := &importer{fake: b.clerk, invalid: errors.New("half a transcript")}
	b.config.Agents = []reflex.Agent{a, b.coder}
	b.open()
	signal := reflex.NativeSignal{
		Source: reflex.Address{Channel: reflex.NativeChannel, Thread: "s1"}, Agent: "clerk", Profile: &ada,
		Teleport: &reflex.RelocateRequest{Hint: "h", Resume: true},
	}
	_, err := b.kick(signal)
	require.ErrorIs(t, err, a.invalid)
	require.Empty(t, b.lobby.opened, "nothing was created or announced")
	a.invalid = nil
	for _, model := range []string{"", "none", "other/large"} {
		a.model = model
		_, err = b.kick(signal)
		require.ErrorIs(t, err, reflex.ErrModelNotServed, model)
		require.Empty(t, b.lobby.opened)
	}
	a.model = "large"
	o, err := b.kick(signal)
	require.NoError(t, err)
	require.Equal(t, []string{"awake", "teleport", "react"}, o.Path)
	require.Equal(t, "vendor/large", b.clerk.last().Model, "the model of its last run")
	require.Equal(t, []string{"s1 -> " + o.Thread}, b.clerk.forks)
}

func TestATeleportTakesTheProjectAndItsTree(t *testing.T) {
	t.Parallel()
	root, project := t.TempDir(), t.TempDir()
	write := func(dir, name, text string) {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	read := func(dir, name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return ""
		}
		return string(text)
	}
	write(project, "main.go", "package main")
	spaces, err := reflex.NewDirectories(root, map[string]string{"site": project}, "node_modules")
	require.NoError(t, err)
	b := newBundle(t, func(c *reflex.Config) { c.Workspaces = spaces })
	var first, second string
	b.clerk.then(
		moves(reflex.RelocateRequest{Channel: "desk", Hint: "h", Project: "site", Resume: true}),
		func(ctx context.Context, r *reflex.RunRequest, _ func(reflex.Progress)) (reflex.RunResult, error) {
			first = r.Dir
			require.Contains(t, r.Results["move"].Text, "site")
			require.Equal(t, "package main", read(first, "main.go"))
			write(first, "draft.txt", "uncommitted")
			write(first, "node_modules/x.js", "heavy")
			move := reflex.RelocateRequest{Hint: "h2", Resume: true}
			return reflex.RunResult{}, r.Suspender.Suspend(ctx, []reflex.DeferredCall{{ID: "m2", Kind: reflex.MoveCall, Move: &move}})
		},
		func(_ context.Context, r *reflex.RunRequest, _ func(reflex.Progress)) (reflex.RunResult, error) {
			second = r.Dir
			write(second, "draft.txt", "changed there")
			r.Session.Dismiss()
			return reflex.RunResult{}, nil
		})
	o := b.said(dm("lobby", "ada"), "go")
	require.NotEqual(t, first, second)
	require.Equal(t, "uncommitted", read(first, "draft.txt"), "the source keeps its own")
	require.Empty(t, read(second, "node_modules/x.js"))
	require.NoDirExists(t, second, "it was dismissed")
	landed, err := b.engine.Books().Threads.Thread(t.Context(), o.Thread)
	require.NoError(t, err)
	require.Equal(t, "site", landed.Project)
	dir, err := spaces.Open(t.Context(), landed)
	require.NoError(t, err)
	require.Equal(t, "changed there", read(dir, "draft.txt"), "after it was saved")

	b.clerk.then(moves(reflex.RelocateRequest{Channel: "desk", Hint: "h", Project: "none"}))
	_, err = b.say(dm("lobby", "bob"), "go")
	require.Error(t, err)
	for _, r := range []reflex.RelocateRequest{{Project: "none"}, {Project: "site", Ref: "v2"}, {Ref: "v2"}} {
		opened := len(b.lobby.opened)
		b.clerk.then(moves(r))
		_, err = b.say(dm("lobby", "ada"), "go")
		require.ErrorIs(t, err, reflex.ErrUnknownProject)
		require.Len(t, b.lobby.opened, opened, "nothing is opened for it")
	}
}

// Invariant 12.
func TestASendToDirectMessagesIsHeardOnlyThere(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	room := group("lobby", "team", "ada")
	var where []string
	b.clerk.then(func(ctx context.Context, r *reflex.RunRequest, _ func(reflex.Progress)) (reflex.RunResult, error) {
		for _, channel := range []string{"", "lobby", "desk", "nowhere"} {
			said, err := r.Session.Send(ctx, channel, reflex.Text("to "+channel))
			require.NoError(t, err)
			where = append(where, said)
		}
		return reflex.RunResult{Output: reflex.Text("done")}, nil
	})
	watching := func(at reflex.Address) *reflex.Subscription {
		return b.engine.Bus().Subscribe(reflex.Filter{Threads: []string{at.ID()}})
	}
	console, private := watching(room), watching(dm("desk", "ada.l"))
	b.said(room, "go")
	require.Equal(t, []string{"here", "direct messages", "direct messages", "here: the direct messages could not be opened"}, where)
	require.Equal(t, []string{"outbound clerk: to desk"}, b.told(dm("desk", "ada.l")))
	require.Equal(t, []string{"inbound Ada: go", "outbound clerk: done"}, b.told(room), "what is sent here is not a reply")
	var texts []string
	for _, e := range hear(t.Context(), console) {
		if sent, ok := e.Data.(reflex.MessageSent); ok {
			texts = append(texts, sent.Segments[0].Text)
		}
	}
	require.Equal(t, []string{"to ", "to nowhere"}, texts)
	private.Close()
	var there []string
	for e := range private.Events(t.Context()) {
		there = append(there, e.Data.Kind())
	}
	require.Equal(t, []string{"message_sent"}, there)
}

func TestAMoveThatFailsAfterItsThreadWasOpenedSaysSoThereAndNowhereElse(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.clerk.fork = errors.New("disk full")
	b.clerk.then(moves(reflex.RelocateRequest{Channel: "desk", Hint: "h", Resume: true}))
	_, err := b.say(dm("lobby", "ada"), "go")
	require.ErrorIs(t, err, b.clerk.fork)
	to := reflex.Address{Channel: "desk", Type: reflex.Group, Chat: "home", Thread: "t1"}
	require.Equal(t, []string{"system clerk: Nothing moved here: the work goes on where it was."}, b.told(to))
	require.Equal(t, []string{"inbound Ada: go"}, b.told(dm("lobby", "ada")))
	require.Empty(t, b.owners(to))
	require.Len(t, b.clerk.requests(), 1)
}

func TestAMoveInPlaceTakesUpAProject(t *testing.T) {
	t.Parallel()
	project := t.TempDir()
	spaces, err := reflex.NewDirectories(t.TempDir(), map[string]string{"site": project, "other": project})
	require.NoError(t, err)
	b := newBundle(t, func(c *reflex.Config) { c.Workspaces = spaces })
	at := thread("lobby", "t", "ada")
	b.clerk.then(moves(reflex.RelocateRequest{InPlace: true, Project: "site", Resume: true}), replies("at it"))
	o := b.said(at, "work on the site")
	require.Equal(t, "at it", o.Text())
	require.Equal(t, at.ID(), o.Thread)
	require.Empty(t, b.clerk.forks)
	require.Empty(t, b.lobby.opened)
	require.Equal(t, "site", b.clerk.last().Thread.Project)
	b.clerk.then(moves(reflex.RelocateRequest{InPlace: true, Project: "other"}))
	_, err = b.say(at, "now the other")
	require.ErrorIs(t, err, reflex.ErrThreadChanged, "a thread is bound to a project once")
	b.clerk.then(moves(reflex.RelocateRequest{InPlace: true}))
	_, err = b.say(at, "nowhere")
	require.ErrorIs(t, err, reflex.ErrNothingMoved)
}

func TestTheSurfaceThatAPassLandedOnIsBusyTooInEveryProcess(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	other := b.other()
	for name, tt := range map[string]struct {
		leaves turn
		lands  reflex.Address
	}{
		"direct messages": {schemes(reflex.PrivateHandoffDecision{Brief: "b", Hint: "h"}), dm("lobby", "ada")},
		"a new thread": {moves(reflex.RelocateRequest{Channel: "desk", Hint: "h", Resume: true}),
			reflex.Address{Channel: "desk", Type: reflex.Group, Chat: "home", User: "ada.l", Thread: "t1", Shared: true}},
	} {
		t.Run(name, func(t *testing.T) {
			b.clerk.then(tt.leaves, func(context.Context, *reflex.RunRequest, func(reflex.Progress)) (reflex.RunResult, error) {
				for _, process := range []*bundle{b, other} {
					_, err := process.say(tt.lands, "me too")
					require.ErrorIs(t, err, reflex.ErrBusy)
				}
				return reflex.RunResult{}, nil
			}, replies("ok"))
			b.said(group("lobby", "team", "ada"), "go")
			other.clerk.then(replies("ok"))
			require.Equal(t, "ok", other.said(tt.lands, "now").Text())
			require.Contains(t, promptOf(other.clerk.last()), "me too")
		})
	}
}

func TestAMoveInPlaceInAGroupOwnsNothing(t *testing.T) {
	t.Parallel()
	for _, resume := range []bool{true, false} {
		spaces, err := reflex.NewDirectories(t.TempDir(), map[string]string{"site": t.TempDir()})
		require.NoError(t, err)
		b := newBundle(t, func(c *reflex.Config) { c.Workspaces = spaces })
		room := group("lobby", "team", "ada")
		b.clerk.then(moves(reflex.RelocateRequest{InPlace: true, Project: "site", Resume: resume}), replies("at it"))
		b.said(room, "work on the site")
		require.Empty(t, b.owners(room))
	}
}
