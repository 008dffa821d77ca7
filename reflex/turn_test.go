package reflex_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/reflex"
)

// spaces counts what is done with workspaces.
type spaces struct {
	reflex.NoWorkspaces
	mu    sync.Mutex // guards what follows
	calls []string
	dir   string
	err   error // of Open
}

func (w *spaces) did(call string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, call)
}

func (w *spaces) count(call string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.calls {
		if c == call {
			n++
		}
	}
	return n
}

func (w *spaces) Open(context.Context, reflex.Thread) (string, error) {
	w.did("open")
	return w.dir, w.err
}

func (w *spaces) Save(context.Context, reflex.Thread) error {
	w.did("save")
	return nil
}

// people are the capabilities of each user, counted by the time they are asked for.
type people struct {
	mu    sync.Mutex // guards what follows
	asked []string
	err   error
	do    func()
}

func (p *people) capabilities(_ context.Context, person reflex.Profile, agent string) ([]string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, person.User+" "+agent)
	if p.do != nil {
		p.do()
		return nil, context.Canceled
	}
	return []string{person.User + "::calendar"}, p.err
}

func TestATurnHasTheCapabilitiesOfThePersonWhoseTurnItIs(t *testing.T) {
	t.Parallel()
	users := &people{}
	b := newBundle(t, func(c *reflex.Config) {
		c.Capabilities = users.capabilities
		c.MayAnswer = func(context.Context, reflex.Batch, reflex.Profile) bool { return true }
	})
	b.clerk.then(summons("coder"), replies("hi"))
	b.coder.then(suspends(approval), replies("paid"))
	o := b.said(dm("lobby", "ada"), "pay")
	require.Equal(t, []string{"u-ada::calendar"}, b.clerk.last().Capabilities)
	require.Equal(t, []string{"u-ada::calendar"}, b.coder.last().Capabilities, "also who takes over has them")
	b.open()
	_, err := b.kick(answer(b.batch(o.Batch), bob))
	require.NoError(t, err)
	r := b.coder.last()
	require.Equal(t, []string{"u-ada::calendar"}, r.Capabilities, "those of who asked, and not of who answered")
	require.Equal(t, "u-ada", r.Profile.User)
	b.said(dm("lobby", "bob"), "hi")
	require.Empty(t, b.clerk.last().Capabilities, "nobody knows who that is")
	require.Equal(t, []string{"u-ada clerk", "u-ada coder", "u-ada coder"}, users.asked)
}

func TestATurnWhosePersonCannotBePreparedEndsBeforeAnythingIsSaid(t *testing.T) {
	t.Parallel()
	users := &people{err: errors.New("their token has expired")}
	b := newBundle(t, func(c *reflex.Config) { c.Capabilities = users.capabilities })
	_, err := b.say(thread("lobby", "t", "ada"), "hi")
	require.ErrorIs(t, err, users.err)
	require.Equal(t, "reflex_awake run_error reflex_asleep", kinds(b.heard()))
	require.Empty(t, b.clerk.requests())
	require.Empty(t, b.owners(thread("lobby", "t", "ada")))
	b.freeTurns()
}

// Invariant 5.
func TestOneOfTwoTurnsOfAConversationIsRefusedBeforeItSaysAnything(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	at := thread("lobby", "t", "ada")
	inside, goOn := make(chan reflex.RunRequest, 1), make(chan struct{})
	b.clerk.then(func(_ context.Context, r *reflex.RunRequest, _ func(reflex.Progress)) (reflex.RunResult, error) {
		inside <- *r
		<-goOn
		return reflex.RunResult{Output: reflex.Text("first")}, nil
	}, replies("second"))
	done := make(chan error, 1)
	_, err := b.engine.KickAsync(t.Context(), reflex.MessageSignal{Address: at, Messages: []reflex.Inbound{inbound("ada", "one")}},
		func(_ reflex.Outcome, err error) { done <- err })
	require.NoError(t, err)
	first := <-inside
	turns := b.engine.Books().Turns
	holder, err := turns.Holder(t.Context(), first.Conversation.ID)
	require.NoError(t, err)
	require.Equal(t, first.Kick, holder, "the turn is the conversation's")
	// A pass on another surface whose run would be in the same conversation: its thread was carried there.
	other := thread("desk", "elsewhere", "ada.l")
	_, err = b.engine.Receive(t.Context(), other, inbound("ada.l", "two"))
	require.NoError(t, err)
	b.config.Books.Conversations = borrowed{b.engine.Books().Conversations, first.Conversation}
	second := b.engine
	b.open()
	_, err = b.say(other, "two")
	require.ErrorIs(t, err, reflex.ErrTurnActive)
	require.Equal(t, "reflex_awake run_error reflex_asleep", kinds(b.heard()))
	require.Empty(t, b.owners(other), "and hands nothing over")
	holder, err = turns.Holder(t.Context(), first.Conversation.ID)
	require.NoError(t, err)
	require.Equal(t, first.Kick, holder, "and evicts nobody")
	require.Len(t, b.clerk.requests(), 1)
	close(goOn)
	require.NoError(t, <-done)
	holder, err = second.Books().Turns.Holder(t.Context(), first.Conversation.ID)
	require.NoError(t, err)
	require.Equal(t, uuid.Nil, holder)
	require.Equal(t, []string{"inbound Ada L.: two", "inbound Ada L.: two"}, b.told(other))
}

// borrowed are conversations of which each is the same one.
type borrowed struct {
	reflex.Conversations
	one reflex.Conversation
}

func (c borrowed) Ensure(context.Context, string, string, string) (reflex.Conversation, error) {
	return c.one, nil
}

func TestATurnHasASessionToSteerItWithWhereverItRuns(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	for _, at := range []reflex.Address{group("lobby", "team", "ada"), dm("lobby", "ada"), thread("lobby", "t", "ada")} {
		b.said(at, "hi")
		require.NotNil(t, b.clerk.last().Session)
		require.Equal(t, "clerk", b.clerk.last().Session.Inspect().Agent)
	}
}

func TestTheOwnerOfARoomSurvivesTheNextKickInAFreshThread(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	at := dm("lobby", "ada")
	b.clerk.then(summons("coder"))
	b.said(at, "go")
	first := b.coder.last().Thread
	b.said(at, "more")
	require.NotEqual(t, first.ID, b.coder.last().Thread.ID)
	require.Equal(t, first.Surface(), b.coder.last().Thread.Surface())
	require.Len(t, b.clerk.requests(), 1)
}

func TestAThreadIsFollowedToItsConversationsAgentWithoutAHandOver(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	at := thread("lobby", "fork", "ada")
	_, err := b.engine.Receive(t.Context(), at, inbound("ada", "hi"))
	require.NoError(t, err)
	_, err = b.engine.Books().Threads.Change(t.Context(), at.ID(), func(t *reflex.Thread) error {
		t.Agent = "coder"
		return nil
	})
	require.NoError(t, err)
	b.said(at, "who is there?")
	require.Len(t, b.coder.requests(), 1)
	require.Empty(t, b.owners(at))
}

// Invariant 14.
func TestAWorkspaceIsSavedAfterEveryTurnThatHadAThreadFailedOrNot(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		end   error
		saves int
	}{"done": {nil, 1}, "failed": {context.DeadlineExceeded, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &spaces{}
			b := newBundle(t, func(c *reflex.Config) { c.Workspaces = w })
			b.clerk.then(fails(tt.end))
			_, err := b.say(dm("lobby", "ada"), "go")
			require.ErrorIs(t, err, tt.end)
			require.Equal(t, tt.saves, w.count("save"))
		})
	}
	t.Run("without a thread there is nothing to save", func(t *testing.T) {
		t.Parallel()
		w := &spaces{}
		b := newBundle(t, func(c *reflex.Config) { c.Workspaces = w })
		o, err := b.kick(reflex.NativeSignal{
			Source: reflex.Address{Channel: reflex.NativeChannel, Thread: "s"}, Agent: "clerk", Scheme: &reflex.PrivateHandoffDecision{Brief: "b"},
		})
		require.NoError(t, err)
		require.Equal(t, []string{"awake", "scheme"}, o.Path)
		require.Empty(t, w.calls)
	})
	t.Run("files", func(t *testing.T) {
		t.Parallel()
		dirs, err := reflex.NewDirectories(t.TempDir(), nil)
		require.NoError(t, err)
		b := newBundle(t, func(c *reflex.Config) { c.Workspaces = dirs })
		b.clerk.then(func(_ context.Context, r *reflex.RunRequest, _ func(reflex.Progress)) (reflex.RunResult, error) {
			require.NoError(t, os.WriteFile(filepath.Join(r.Dir, "note"), []byte("kept"), 0o600))
			return reflex.RunResult{}, context.DeadlineExceeded
		})
		_, err = b.say(dm("lobby", "ada"), "go")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, dirs.Dismiss(t.Context(), b.clerk.last().Thread))
		dir, err := dirs.Open(t.Context(), b.clerk.last().Thread)
		require.NoError(t, err)
		require.FileExists(t, filepath.Join(dir, "note"))
	})
}

// promptly is an agent that takes answers as its next prompt.
type promptly struct{ *fake }

func (promptly) AnswersAsPrompt() bool { return true }

func TestAnAgentThatTakesNoResultsGetsThemAsItsNextPrompt(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.config.Agents = []reflex.Agent{promptly{b.clerk}, b.coder}
	b.open()
	b.clerk.then(suspends(approval, question), moves(reflex.RelocateRequest{Channel: "desk", Hint: "off", Resume: true}), replies("here"))
	batch := b.batch(b.said(dm("lobby", "ada"), "pay").Batch)
	_, err := b.kick(answer(batch, ada))
	require.NoError(t, err)
	all := b.clerk.requests()
	require.Equal(t, "pay: approved\nRed or blue?\nanswer 1\nWhy?\nanswer 2\n", promptOf(all[1]))
	require.Empty(t, all[1].Results)
	require.Equal(t, "You are now in desk:group:home:t1.\n", promptOf(all[2]))
	require.Empty(t, all[2].Results)
	require.Equal(t, reflex.BatchCompleted, b.batch(batch.ID).Status)
}

// resident is an agent whose sessions belong to directories.
type resident struct {
	*fake
	moved []string
}

func (a *resident) Relocate(_ context.Context, c reflex.Conversation, dir string) error {
	a.moved = append(a.moved, c.Thread+" in "+dir)
	return nil
}

func TestAMovedSessionIsRelocatedToItsWorkspace(t *testing.T) {
	t.Parallel()
	dirs, err := reflex.NewDirectories(t.TempDir(), map[string]string{"site": t.TempDir()})
	require.NoError(t, err)
	b := newBundle(t, func(c *reflex.Config) { c.Workspaces = dirs })
	a := &resident{fake: b.clerk}
	b.config.Agents = []reflex.Agent{a, b.coder}
	b.open()
	b.clerk.then(moves(reflex.RelocateRequest{Channel: "desk", Hint: "off", Project: "site", Resume: true}), replies("here"))
	o := b.said(dm("lobby", "ada"), "go")
	last := b.clerk.last()
	require.NotEqual(t, b.clerk.requests()[0].Dir, last.Dir)
	require.Equal(t, []string{o.Thread + " in " + last.Dir}, a.moved, "before it goes on there, and once")
	require.Equal(t, last.Dir, last.Conversation.Dir)

	b.clerk.then(moves(reflex.RelocateRequest{InPlace: true, Project: "site", Resume: true}), replies("at it"))
	b.said(thread("lobby", "t", "ada"), "work on the site")
	require.Len(t, a.moved, 1, "in place its directory stays the same")
}

// Invariant 9.
func TestAnAgentAndItsModelAreResolvedOnTheChannelWhereTheRunHappens(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.desk.agents = []string{"coder"}
	b.clerk.then(schemes(reflex.PrivateHandoffDecision{Channel: "desk", Brief: "b", Hint: "h"}))
	o := b.said(group("lobby", "team", "ada"), "go")
	require.Equal(t, "coder", o.Decision.Agent, "the clerk does not run there")
	require.Equal(t, "small", o.Decision.Model)
	b.desk.agents = nil
	b.clerk.then(func(ctx context.Context, r *reflex.RunRequest, _ func(reflex.Progress)) (reflex.RunResult, error) {
		err := r.Session.Scheme(ctx, reflex.PrivateHandoffDecision{Channel: "desk", Brief: "b", Hint: "h"})
		assert.ErrorIs(t, err, reflex.ErrAgentNotOnChannel)
		return reflex.RunResult{}, nil
	})
	b.said(group("lobby", "team", "ada"), "go")
}
