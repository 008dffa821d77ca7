package reflex_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/reflex"
)

// stuck is a channel that does not get on with drawing on one surface until it is free.
type stuck struct {
	*chat
	surface string
	free    chan struct{}
	onLag   func()
}

func (c *stuck) Draw(ctx context.Context, e reflex.Event) (string, error) {
	if e.At.Surface == c.surface {
		select {
		case <-c.free:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
	if _, ok := e.Data.(reflex.Lag); ok && c.onLag != nil {
		do := c.onLag
		c.onLag = nil
		do()
	}
	return c.chat.Draw(ctx, e)
}

func stuckAt(b *bundle, at reflex.Address) *stuck {
	c := &stuck{chat: b.lobby, surface: at.ID(), free: make(chan struct{})}
	b.config.Channels = []reflex.Channel{c, b.desk}
	b.open()
	return c
}

func TestASlowSurfaceKeepsNoOtherFromBeingDrawn(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBundle(t, func(c *reflex.Config) { c.DrawWait = 10 * time.Second })
		stuckAt(b, dm("lobby", "ada"))
		b.said(dm("lobby", "ada"), "hi")
		began := time.Now()
		o := b.said(dm("lobby", "bob"), "hi")
		require.Zero(t, time.Since(began))
		require.NotEmpty(t, b.rows(dm("lobby", "bob"))[o.Row.Seq-1].Handle)
	})
}

func TestAPassWaitsForWhatItSaidToBeDrawnUpToADeadline(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBundle(t, func(c *reflex.Config) { c.DrawWait = 10 * time.Second })
		at := dm("lobby", "ada")
		c := stuckAt(b, at)
		began := time.Now()
		o := b.said(at, "hi")
		require.Equal(t, 10*time.Second, time.Since(began), "it gives up")
		require.Equal(t, reflex.OutcomeResult, o.Kind)
		require.Equal(t, "reflex_awake run_started text_message_content run_result run_ended reflex_asleep", kinds(b.heard()))
		close(c.free)
		began = time.Now()
		o = b.said(at, "hi again")
		require.Zero(t, time.Since(began))
		require.NotEmpty(t, b.rows(at)[o.Row.Seq-1].Handle, "it is drawn when the pass is over")
	})
}

func TestAChannelThatMissedEventsDrawsWhatIsInTheLedgerOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBundle(t)
		b.config.Bus = reflex.NewBus(6)
		at := thread("lobby", "t", "ada")
		c := stuckAt(b, at)
		b.clerk.then(replies("one"), replies("two"), replies("three"), suspends(approval), replies("five"))
		for i := range 3 {
			b.said(at, fmt.Sprint(i))
		}
		batch := b.batch(b.said(at, "pay").Batch)
		// What is said while it catches up is in the ledger and among the events.
		said := make(chan struct{})
		c.onLag = func() {
			defer close(said)
			_, err := b.say(at, "are you there?")
			assert.NoError(t, err)
		}
		b.clerk.then(suspendsSaying("one moment", approval))
		close(c.free)
		<-said
		require.NoError(t, b.engine.Shutdown(t.Context()))
		for _, r := range b.rows(at) {
			if r.Kind == reflex.OutboundRow {
				require.NotEmpty(t, r.Handle, r.Segments[0].Text)
			}
		}
		drawn := map[string]int{}
		c.set(func(c *chat) {
			for _, kind := range c.drawn {
				drawn[kind]++
			}
		})
		require.Equal(t, 4, drawn["run_result"], "each once")
		require.NotZero(t, drawn["action_batch"], "and what is still asked")
		require.Equal(t, reflex.BatchExpired, b.batch(batch.ID).Status, "which is the last question")
	})
}

func TestAShutdownWaitsForDrawingButNotForEver(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBundle(t, func(c *reflex.Config) { c.DrawTimeout = time.Minute })
		stuckAt(b, dm("lobby", "ada"))
		b.said(dm("lobby", "ada"), "hi")
		began := time.Now()
		require.NoError(t, b.engine.Shutdown(t.Context()))
		require.Equal(t, time.Minute, time.Since(began))
		began = time.Now()
		require.NoError(t, b.engine.Shutdown(t.Context()), "it may be called again")
		require.Zero(t, time.Since(began))
	})
}

// suspendsSaying is suspends with a reply.
func suspendsSaying(text string, calls ...reflex.DeferredCall) turn {
	return func(ctx context.Context, r *reflex.RunRequest, _ func(reflex.Progress)) (reflex.RunResult, error) {
		return reflex.RunResult{Output: reflex.Text(text), Deferred: calls}, r.Suspender.Suspend(ctx, calls)
	}
}

// plainChat draws replies only.
type plainChat struct {
	*chat
	texts []string
}

func (c *plainChat) Draw(_ context.Context, e reflex.Event) (string, error) {
	if reply, ok := e.Data.(reflex.ReplyGiven); ok {
		c.set(func(*chat) { c.texts = append(c.texts, reply.Output[0].Text) })
	}
	return "", nil
}

func TestARunAlwaysStreamsAndAChannelMayDrawItsReplyOnly(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	c := &plainChat{chat: b.lobby}
	b.config.Channels = []reflex.Channel{c, b.desk}
	b.open()
	b.clerk.then(func(_ context.Context, _ *reflex.RunRequest, yield func(reflex.Progress)) (reflex.RunResult, error) {
		for _, piece := range []string{"a", "b", "c"} {
			yield(say(piece))
		}
		return reflex.RunResult{Output: reflex.Text("abc")}, nil
	})
	b.said(dm("lobby", "ada"), "hi")
	require.NoError(t, b.engine.Shutdown(t.Context()))
	require.Equal(t, []string{"abc"}, c.texts)
	require.Equal(t, "reflex_awake run_started text_message_content text_message_content text_message_content run_result run_ended reflex_asleep", kinds(b.heard()))
}
