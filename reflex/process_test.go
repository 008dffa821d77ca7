package reflex_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/graph/graphtest"
	"github.com/everstep-go/everstep/reflex"
	"github.com/everstep-go/everstep/store/memory"
)

func TestTwoProcessesExcludeEachOtherOnASurface(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	other := b.other()
	at := thread("lobby", "t", "ada")
	b.clerk.then(func(context.Context, *reflex.RunRequest, func(reflex.Progress)) (reflex.RunResult, error) {
		_, err := other.say(at, "and I")
		require.ErrorIs(t, err, reflex.ErrBusy)
		return reflex.RunResult{}, nil
	})
	b.said(at, "I first")
	require.Empty(t, other.clerk.requests())
	other.said(at, "now")
	require.Equal(t, "Ada (id ada, user u-ada):|and I|Ada (id ada, user u-ada):|now", promptOf(other.clerk.last()))
}

// died plays a kick in a process that dies while its agent runs, and returns a process that comes after it.
func died(t *testing.T, do turn, signal func(*bundle) reflex.Signal) (*bundle, []reflex.Event) {
	t.Helper()
	st := memory.New(nil)
	b := newBundle(t, func(c *reflex.Config) { c.Store = st })
	first := graphtest.NewFaulty(st, 0, "")
	b.config.Store = first
	b.open()
	dead := make(chan struct{})
	b.clerk.then(func(ctx context.Context, r *reflex.RunRequest, yield func(reflex.Progress)) (reflex.RunResult, error) {
		go func() {
			<-dead
			first.Kill()
		}()
		return do(ctx, r, yield)
	}, replies("alive"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go b.engine.Kick(ctx, signal(b))
	<-time.After(time.Minute) // of the bubble
	close(dead)
	<-time.After(time.Minute)
	b.config.Store = st
	b.open()
	served := make(chan error, 1)
	serving, stop := context.WithCancel(t.Context())
	go func() { served <- b.engine.Serve(serving) }()
	events := b.heard()
	stop()
	require.NoError(t, <-served)
	return b, events
}

func TestALiveBatchOfADeadProcessExpiresAndItsCardsAreClosed(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b, events := died(t, pauses(approval), func(*bundle) reflex.Signal {
			return reflex.MessageSignal{Address: dm("lobby", "ada"), Messages: []reflex.Inbound{inbound("ada", "pay")}}
		})
		require.Equal(t, "reflex_awake action_batch_answered run_error reflex_asleep", kinds(events))
		closed, _ := find[reflex.BatchAnswered](t, events)
		require.Equal(t, reflex.BatchExpired, closed.Status)
		_, err := b.kick(answer(b.batch(closed.Batch), ada))
		require.ErrorIs(t, err, reflex.ErrNotWaiting)
		require.Equal(t, "alive", b.said(dm("lobby", "ada"), "still there?").Text())
	})
}

func TestACommandOfADeadProcessHasAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		st := memory.New(nil)
		first := graphtest.NewFaulty(st, 0, "")
		b := newBundle(t, func(c *reflex.Config) { c.Store = first; c.Logger = slog.New(slog.DiscardHandler) })
		a := &commander{fake: b.clerk, catalogue: reflex.Catalogue{Status: reflex.CommandDone, Commands: []reflex.CommandSpec{{Name: "status"}}}}
		a.do = func(ctx context.Context, _ *reflex.CommandRequest) (reflex.CommandReply, error) {
			first.Kill()
			return reflex.CommandReply{Text: "never heard"}, nil
		}
		b.config.Agents = []reflex.Agent{a, b.coder}
		b.open()
		at := thread("lobby", "t", "ada")
		b.said(at, "hi")
		signal := reflex.CommandSignal{
			Conversation: b.clerk.last().Conversation.ID, Agent: "clerk", Profile: ada, Address: at, Command: reflex.Command{Name: "status"}, Delivery: "d",
		}
		_, err := b.kick(signal)
		require.Error(t, err)
		b.config.Store = st
		b.open()
		ctx, cancel := context.WithCancel(t.Context())
		go b.engine.Serve(ctx)
		require.Equal(t, "reflex_awake command_feedback reflex_asleep", kinds(b.heard()))
		o, err := b.kick(signal)
		require.NoError(t, err)
		require.Equal(t, reflex.CommandFailed, o.Command.Status)
		require.Contains(t, o.Command.Text, "unknown")
		require.Len(t, a.given, 1)
		cancel()
	})
}

func TestTheEffortOfADecisionReachesTheRun(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.clerk.then(func(_ context.Context, r *reflex.RunRequest, _ func(reflex.Progress)) (reflex.RunResult, error) {
		return reflex.RunResult{}, r.Session.Summon(reflex.HandoffDecision{Agent: "coder", Effort: "high", Brief: "b"})
	})
	b.said(dm("lobby", "ada"), "go")
	require.Equal(t, "high", b.coder.last().Effort)
}

func TestAWatcherThatLeavesDoesNotStopAPass(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.clerk.then(func(_ context.Context, _ *reflex.RunRequest, yield func(reflex.Progress)) (reflex.RunResult, error) {
		b.sub.Close()
		yield(say("on I go"))
		return reflex.RunResult{Output: reflex.Text("done")}, nil
	})
	require.Equal(t, "done", b.said(dm("lobby", "ada"), "go").Text())
}

func TestAnEngineSaysAllThatIsWrongWithItsConfiguration(t *testing.T) {
	t.Parallel()
	_, err := reflex.New(reflex.Config{MaxMoves: -1})
	for _, want := range []string{"Store", "Channels", "negative"} {
		require.ErrorContains(t, err, want)
	}
	st := memory.New(nil)
	_, err = reflex.New(reflex.Config{
		Store: st, Channels: []reflex.Channel{newChat("a"), newChat("a"), newChat(reflex.NativeChannel)}, Agents: []reflex.Agent{newFake("x"), newFake("x"), newFake("")},
	})
	for _, want := range []string{`channel "a"`, `channel "native"`, `agent "x"`, `agent ""`} {
		require.ErrorContains(t, err, want)
	}
	_, err = reflex.New(reflex.Config{Store: struct{ *graphtest.Faulty }{nil}, Channels: []reflex.Channel{newChat("a")}, Agents: []reflex.Agent{newFake("x")}})
	require.NoError(t, err, "a store that has records by a wrapper")
}

func TestWithAClockAndIDsOfItsOwnAnEngineDoesTheSameEachTime(t *testing.T) {
	t.Parallel()
	play := func() string {
		ids, at := byte(0), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		b := newBundle(t, func(c *reflex.Config) {
			c.Now = func() time.Time { return at }
			c.NewID = func() uuid.UUID { ids++; return uuid.UUID{15: ids} }
		})
		b.lobby.fail = errors.New("no screen") // drawing takes its time
		b.clerk.then(summons("coder"))
		b.coder.then(suspends(approval, question))
		o := b.said(dm("lobby", "ada"), "pay")
		require.Equal(t, uuid.UUID{15: 1}, o.Kick)
		require.Equal(t, uuid.UUID{15: 2}.String(), o.Batch)
		told, err := json.Marshal([]any{b.heard(), b.rows(dm("lobby", "ada")), b.batch(o.Batch)})
		require.NoError(t, err)
		return string(told)
	}
	require.Equal(t, play(), play())
}

// uncontrolled is an agent whose turns it does not steer.
type uncontrolled struct{ *fake }

func (uncontrolled) Uncontrolled() bool { return true }

func TestAnAgentMayHaveNoControlOfItsTurns(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.config.Agents = []reflex.Agent{uncontrolled{b.clerk}, b.coder}
	b.open()
	b.said(dm("lobby", "ada"), "go")
	require.Nil(t, b.clerk.last().Session)
	require.Nil(t, reflex.SessionFrom(reflex.WithSession(t.Context(), nil)))
}

// closing is an agent that says when its stream is closed.
type closing struct {
	*fake
	closed func(conversation string)
}

func (a *closing) Run(ctx context.Context, r *reflex.RunRequest) iter.Seq2[reflex.Progress, error] {
	run := a.fake.Run(ctx, r)
	return func(yield func(reflex.Progress, error) bool) {
		defer a.closed(r.Conversation.ID)
		run(yield)
	}
}

func TestTheStreamOfAnAgentIsClosedBeforeItsTurnIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]turn{"done": replies("ok"), "failed": fails(context.DeadlineExceeded), "cancelled": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			b.lobby.fail = errors.New("no screen")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if do == nil {
				do = cancels(cancel)
			}
			var holders []uuid.UUID
			b.config.Agents = []reflex.Agent{&closing{fake: b.clerk, closed: func(conversation string) {
				holder, err := b.engine.Books().Turns.Holder(context.Background(), conversation)
				assert.NoError(t, err)
				holders = append(holders, holder)
			}}, b.coder}
			b.open()
			b.clerk.then(do)
			_, _ = b.engine.Say(ctx, dm("lobby", "ada"), inbound("ada", "go"))
			require.Len(t, holders, 1)
			require.NotEqual(t, uuid.Nil, holders[0])
			b.freeTurns()
		})
	}
}

func TestServingExpiresBatchesWhoseTimeIsOver(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBundle(t, func(c *reflex.Config) { c.BatchLife = time.Hour })
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- b.engine.Serve(ctx) }()
		b.clerk.then(suspends(approval))
		batch := b.batch(b.said(dm("lobby", "ada"), "pay").Batch)
		<-time.After(59 * time.Minute)
		require.Equal(t, reflex.BatchPending, b.batch(batch.ID).Status)
		<-time.After(2 * time.Minute)
		require.Equal(t, reflex.BatchExpired, b.batch(batch.ID).Status)
		cancel()
		require.NoError(t, <-served)
	})
}
