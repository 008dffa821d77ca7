package reflex_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/reflex"
	"github.com/everstep-go/everstep/store/memory"
)

// The mistakes that systems of this kind are known to have made, as far as no other test of this package is
// about them.

func TestADeliveryIsOneRowAndIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	other := b.other()
	at := dm("lobby", "ada")
	in := inbound("ada", "hi")
	in.Delivery = "m1"
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			_, err := []*bundle{b, other}[i%2].engine.Say(t.Context(), at, in)
			if err != nil && !errors.Is(err, reflex.ErrBusy) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	o, err := b.engine.Say(t.Context(), at, in)
	require.NoError(t, err)
	require.Nil(t, o.Decision, "nobody was to run again")
	require.Equal(t, []string{"inbound Ada: hi", "outbound clerk: done"}, b.told(at))
	require.Equal(t, 1, len(b.clerk.requests())+len(other.clerk.requests()))
}

func TestTwoFirstSightingsOfAThreadAreOneThread(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	other := b.other()
	at := thread("lobby", "t", "ada")
	rows := make(chan reflex.Row, 8)
	var all sync.WaitGroup
	for i := range cap(rows) {
		all.Go(func() {
			row, err := []*bundle{b, other}[i%2].engine.Receive(t.Context(), at, inbound("ada", "hi"))
			assert.NoError(t, err)
			rows <- row
		})
	}
	all.Wait()
	close(rows)
	seen := map[int64]bool{}
	for row := range rows {
		require.Equal(t, at.ID(), row.Thread)
		seen[row.ID.Seq] = true
	}
	require.Len(t, seen, 8)
	require.Equal(t, 1, b.kept()["reflex.thread"])
}

func TestWhoReadsAlongIsNotLeftOutOfThePrivacyOfAPlace(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	inDM := dm("lobby", "ada")
	inDM.Thread = "t1" // a thread of the platform in direct messages
	require.True(t, inDM.Private())
	shared := dm("lobby", "ada")
	shared.Shared = true
	require.False(t, shared.Private())
	b.clerk.then(func(ctx context.Context, r *reflex.RunRequest, _ func(reflex.Progress)) (reflex.RunResult, error) {
		assert.ErrorContains(t, r.Session.Scheme(ctx, reflex.PrivateHandoffDecision{Brief: "b", Hint: "h"}), "private already")
		return reflex.RunResult{}, nil
	})
	b.said(inDM, "hi")
	// A channel that opens what others read too has opened no direct messages.
	b.lobby.set(func(c *chat) { c.dms = &shared })
	b.clerk.then(func(ctx context.Context, r *reflex.RunRequest, _ func(reflex.Progress)) (reflex.RunResult, error) {
		where, err := r.Session.Send(ctx, "lobby", reflex.Text("psst"))
		assert.NoError(t, err)
		assert.Contains(t, where, "here")
		return reflex.RunResult{Output: reflex.Text("bye")}, r.Session.Scheme(ctx, reflex.PrivateHandoffDecision{Brief: "b", Hint: "h"})
	})
	o := b.said(group("lobby", "team", "ada"), "go")
	require.Equal(t, []string{"awake", "route", "react", "scheme"}, o.Path)
	require.Empty(t, b.rows(shared))
}

func TestAOneTimeCodeIsNotToldAGroup(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	room := group("lobby", "team", "ada")
	err := b.engine.Publish(reflex.Spot{Channel: "lobby", Surface: room.ID(), Address: room}, true, reflex.Extension{Name: "code"})
	require.ErrorIs(t, err, reflex.ErrNotPrivate)
	require.NoError(t, b.engine.Publish(reflex.Spot{Channel: "lobby", Surface: room.ID(), Address: room}, false, reflex.Extension{Name: "news"}))
	b.sub.Close()
	for e := range b.sub.Events(t.Context()) {
		require.Equal(t, "news", e.Data.(reflex.Extension).Name)
	}
}

func TestDirectMessagesAreNotOpenedWhereNobodyCouldAnswer(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(b *bundle){
		"nobody runs there":            func(b *bundle) { b.desk.agents = nil },
		"who runs there is gone":       func(b *bundle) { b.desk.agents = []string{"ghost"} },
		"the channel has none of them": func(b *bundle) { b.config.Channels = []reflex.Channel{b.lobby, limited{b.desk}}; b.open() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			change(b)
			b.clerk.then(func(ctx context.Context, r *reflex.RunRequest, _ func(reflex.Progress)) (reflex.RunResult, error) {
				assert.Error(t, r.Session.Scheme(ctx, reflex.PrivateHandoffDecision{Channel: "desk", Brief: "b", Hint: "h"}))
				where, err := r.Session.Send(ctx, "desk", reflex.Text("psst"))
				assert.NoError(t, err)
				assert.Contains(t, where, "here")
				return reflex.RunResult{}, nil
			})
			o := b.said(group("lobby", "team", "ada"), "go")
			require.Equal(t, []string{"awake", "route", "react"}, o.Path)
			_, err := b.kick(reflex.NativeSignal{
				Source: reflex.Address{Channel: reflex.NativeChannel, Thread: "s"}, Agent: "clerk", Profile: &ada,
				Scheme: &reflex.PrivateHandoffDecision{Channel: "desk", Brief: "b", Hint: "h"},
			})
			require.Error(t, err)
			require.Zero(t, b.desk.dmsOpened)
		})
	}
}

func TestAnEventStaysWhatItWasWhateverTheAgentDoesWithItsParts(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.clerk.then(func(ctx context.Context, r *reflex.RunRequest, yield func(reflex.Progress)) (reflex.RunResult, error) {
		part := reflex.Text("first")
		_, err := r.Session.Send(ctx, "", part)
		part[0].Text = "overwritten"
		return reflex.RunResult{Output: reflex.Text("bye")}, err
	})
	b.said(dm("lobby", "ada"), "go")
	sent, _ := find[reflex.MessageSent](t, b.heard())
	require.Equal(t, reflex.Text("first"), sent.Segments)
}

func TestARowStaysBoundToTheRunThatItWasBoundToFirst(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	at := dm("lobby", "ada")
	b.clerk.then(summons("coder"))
	b.said(at, "go")
	reply := b.rows(at)[1]
	require.Equal(t, b.clerk.last().Conversation.ID, reply.Bound.Conversation)
	b.said(at, "more") // coder is told what clerk said
	require.Contains(t, promptOf(b.coder.last()), "over to coder")
	require.Equal(t, reply.Bound, b.rows(at)[1].Bound)
	first := b.rows(at)[0]
	require.NoError(t, b.engine.Books().Ledger.Bind(t.Context(), at.ID(), []int64{1}, reflex.Binding{Conversation: "other"}))
	require.Equal(t, first.Bound, b.rows(at)[0].Bound)
	require.NotEqual(t, uuid.Nil, first.Bound.Run)
}

func TestACarriedWorkspaceHoldsNothingOfOtherThreads(t *testing.T) {
	t.Parallel()
	spaces, err := reflex.NewDirectories(t.TempDir(), nil)
	require.NoError(t, err)
	for _, id := range []string{"from", "other"} {
		dir, err := spaces.Open(t.Context(), reflex.Thread{ID: id})
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, id), nil, 0o600))
		require.NoError(t, spaces.Save(t.Context(), reflex.Thread{ID: id}))
	}
	require.NoError(t, spaces.Carry(t.Context(), reflex.Thread{ID: "from"}, reflex.Thread{ID: "to"}))
	dir, err := spaces.Open(t.Context(), reflex.Thread{ID: "to"})
	require.NoError(t, err)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.Equal(t, "from", entries[0].Name())
}

func TestATurnSpeaksForNobodyButWhoKickedIt(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	room := group("lobby", "team", "ada")
	_, err := b.engine.Receive(t.Context(), room, inbound("bob", "before her"))
	require.NoError(t, err)
	b.said(room, "my turn")
	require.Equal(t, "Ada", b.clerk.last().Profile.Name)
	require.Equal(t, "Ada", b.clerk.last().Session.Inspect().Asker)
	o, err := b.kick(reflex.MessageSignal{Address: room, Messages: []reflex.Inbound{inbound("ada", "x"), inbound("bob", "y")}})
	require.NoError(t, err)
	require.NotNil(t, o.Decision)
	require.Equal(t, "Bob", b.clerk.last().Profile.Name, "of several who spoke last")
}

func TestANativeSessionIsTakenOverOnceAtATime(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	a := &importer{fake: b.clerk, model: "small"}
	b.config.Agents = []reflex.Agent{a, b.coder}
	b.open()
	signal := reflex.NativeSignal{
		Source: reflex.Address{Channel: reflex.NativeChannel, Thread: "s1"}, Agent: "clerk", Profile: &ada,
		Teleport: &reflex.RelocateRequest{Hint: "h", Resume: true},
	}
	other := b.other()
	b.clerk.then(func(context.Context, *reflex.RunRequest, func(reflex.Progress)) (reflex.RunResult, error) {
		for _, process := range []*bundle{b, other} {
			_, err := process.kick(signal)
			assert.ErrorIs(t, err, reflex.ErrBusy)
		}
		return reflex.RunResult{}, nil
	})
	_, err := b.kick(signal)
	require.NoError(t, err)
	require.Len(t, b.clerk.forks, 1)
	require.Len(t, b.lobby.opened, 1)
}

func TestAFailureIsToldWhereTheTurnCameFromAndNobodyIfThatIsUnknown(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	at := thread("lobby", "t", "ada")
	b.said(at, "hi")
	b.heard()
	// A console asked: it is told where it asked, on the thread.
	console := b.engine.Bus().Subscribe(reflex.Filter{Threads: []string{at.ID()}})
	_, err := b.kick(reflex.ThreadSignal{Thread: at.ID(), Agent: "clerk", Profile: ada, Summon: &reflex.HandoffDecision{Agent: "nobody", Brief: "b"}})
	require.ErrorIs(t, err, reflex.ErrUnknownAgent)
	require.Equal(t, "reflex_awake run_error reflex_asleep", kinds(hear(t.Context(), console)))
	b.heard()
	// A native session has no place of its own where anybody listens.
	_, err = b.kick(reflex.NativeSignal{
		Source: reflex.Address{Channel: reflex.NativeChannel, Thread: "s"}, Agent: "nobody", Profile: &ada, Scheme: &reflex.PrivateHandoffDecision{Brief: "b"},
	})
	require.ErrorIs(t, err, reflex.ErrUnknownAgent)
	require.Equal(t, "reflex_awake reflex_asleep", kinds(b.heard()))
}

// Invariant 7.
func TestAHandOverIsARowOnTheSurfaceThatStaysAndIsSkippedWhenNothingChanges(t *testing.T) {
	t.Parallel()
	books := reflex.NewBooks(memory.New(nil), "t", alive, nil)
	kick := uuid.New()
	for _, h := range []reflex.Handoff{
		{Surface: "s", Agent: "a", Model: "m", Kick: kick}, {Surface: "s", Agent: "a", Model: "m", Kick: kick}, // a step that is done again
		{Surface: "s", Agent: "a", Model: "n"}, {Surface: "s", Agent: "b", Model: "n"}, {Surface: "s", Agent: "b", Model: "n"},
		{Surface: "s", Agent: "a", Model: "m"}, {Surface: "other", Agent: "a", Model: "m"},
	} {
		require.NoError(t, books.Handoffs.HandOver(t.Context(), h))
	}
	history, err := books.Handoffs.History(t.Context(), "s")
	require.NoError(t, err)
	var rows []string
	for i, h := range history {
		require.Equal(t, int64(i+1), h.Seq)
		rows = append(rows, h.Agent+h.Model)
	}
	require.Equal(t, []string{"am", "an", "bn", "am"}, rows)
	owner, err := books.Handoffs.Owner(t.Context(), "s")
	require.NoError(t, err)
	require.Equal(t, history[3], owner)
	// By the engine: the surface of a room's thread is the room.
	b := newBundle(t)
	b.clerk.then(summons("coder"))
	b.said(dm("lobby", "ada"), "go")
	require.Equal(t, dm("lobby", "ada").ID(), b.coder.last().Thread.Surface())
	require.Equal(t, []string{"coder"}, b.owners(dm("lobby", "ada")))
}

func TestAnEngineThatIsShutDownLeavesNothingRunning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // a goroutine that is left is a panic here
		b := newBundle(t, func(c *reflex.Config) { c.BatchLife = time.Hour })
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- b.engine.Serve(ctx) }()
		b.clerk.then(summons("coder"))
		b.coder.then(suspends(approval), replies("ok"))
		o := b.said(dm("lobby", "ada"), "pay")
		_, err := b.kick(answer(b.batch(o.Batch), ada))
		require.NoError(t, err)
		b.heard()
		b.heard()
		b.clerk.then(pauses(approval))
		batches, done := live(t, b, dm("lobby", "bob"), 1)
		_, err = b.kick(answer(batches[0], bob))
		require.NoError(t, err)
		<-done
		_, done = live(t, b, dm("lobby", "bob"), 1) // and this one is still waiting
		cancel()
		require.NoError(t, <-served)
		stop, now := context.WithCancel(t.Context())
		now()
		require.Error(t, b.engine.Shutdown(stop))
		<-done
		<-time.After(10 * time.Second) // the runner's heartbeat ends with its next beat
	})
}
