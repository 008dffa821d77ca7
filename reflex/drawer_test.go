package reflex_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/reflex"
)

// stuck is a channel that does not get on with drawing on one surface until it is free.
type stuck struct {
	*chat
	surface string
	free    chan struct{}
}

func (c *stuck) Draw(ctx context.Context, e reflex.Event) (string, error) {
	if e.At.Surface == c.surface {
		select {
		case <-c.free:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
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
		b.config.Bus = reflex.NewBus(4)
		at := thread("lobby", "t", "ada")
		c := stuckAt(b, at)
		b.clerk.then(replies("one"), replies("two"), replies("three"), suspends(approval), replies("five"))
		for i := range 3 {
			b.said(at, fmt.Sprint(i))
		}
		batch := b.batch(b.said(at, "pay").Batch)
		close(c.free)
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
		require.Equal(t, 3, drawn["run_result"], "each once")
		require.Equal(t, 1, drawn["lag"])
		require.Equal(t, 1, drawn["action_batch"], "and what is still asked")
		require.Equal(t, reflex.BatchPending, batch.Status)
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
