package reflex_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/reflex"
)

func TestAnEventIsHeardWhereItHappensAndWhereItWasAskedUnlessItIsPrivate(t *testing.T) {
	t.Parallel()
	at := reflex.Spot{Channel: "desk", Surface: "desk-room", Thread: "desk-thread"}
	asked := reflex.Spot{Channel: "lobby", Surface: "lobby-room", Thread: "lobby-thread"}
	for _, tt := range []struct {
		name           string
		filter         reflex.Filter
		public, secret bool
	}{
		{"the channel where it happens", reflex.Filter{Channel: "desk"}, true, true},
		{"the channel where it was asked draws only its own", reflex.Filter{Channel: "lobby"}, false, false},
		{"a watcher of the thread where it happens", reflex.Filter{Threads: []string{"desk-thread"}}, true, true},
		{"a watcher of the surface where it happens", reflex.Filter{Threads: []string{"desk-room"}}, true, true},
		{"a watcher of the thread where it was asked", reflex.Filter{Threads: []string{"lobby-thread"}}, true, false},
		{"a watcher of the surface where it was asked", reflex.Filter{Threads: []string{"lobby-room"}}, true, false},
		{"a watcher of both hears it once", reflex.Filter{Threads: []string{"lobby-room", "desk-room"}}, true, true},
		{"a watcher of something else", reflex.Filter{Threads: []string{"other"}}, false, false},
		{"a log", reflex.Filter{All: true}, true, true},
		{"nobody", reflex.Filter{}, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			bus := reflex.NewBus(0)
			sub := bus.Subscribe(tt.filter)
			for i, private := range []bool{false, true} {
				bus.Publish(reflex.Event{Seq: int64(i), At: at, AskedOn: asked, Private: private, Data: reflex.Extension{Name: "x"}})
			}
			sub.Close()
			var public, secret int
			for e := range sub.Events(t.Context()) {
				if e.Private {
					secret++
				} else {
					public++
				}
			}
			count := map[bool]int{true: 1}
			require.Equal(t, count[tt.public], public)
			require.Equal(t, count[tt.secret], secret)
		})
	}
}

func TestWhatASlowListenerMissedIsInTheLedger(t *testing.T) {
	t.Parallel()
	b := newBundle(t, func(c *reflex.Config) { c.Bus = reflex.NewBus(4) })
	at := dm("lobby", "ada")
	slow := b.engine.Bus().Subscribe(reflex.Filter{Threads: []string{at.ID()}})
	b.clerk.then(replies("one"), replies("two"), moves(reflex.RelocateRequest{Channel: "desk", Hint: "off"}))
	first := b.said(at, "1")
	b.said(at, "2")
	b.said(at, "3")
	slow.Close()
	var missed []reflex.RowID
	for e := range slow.Events(t.Context()) {
		if lag, ok := e.Data.(reflex.Lag); ok {
			missed = lag.Rows
		}
	}
	// It heard the pass wake, the run begin, and its text and its reply.
	require.Equal(t, []reflex.RowID{{Surface: "desk:group:home:t1", Seq: 1}, {Surface: at.ID(), Seq: first.Row.Seq + 2}}, missed)
	var texts []string
	for _, row := range missed {
		for e, err := range b.engine.Missed(t.Context(), row) {
			require.NoError(t, err)
			switch d := e.Data.(type) {
			case reflex.ReplyGiven:
				texts = append(texts, e.At.Channel+": "+d.Output[0].Text)
			case reflex.Opened:
				texts = append(texts, e.At.Channel+": "+d.Line[0].Text)
			}
		}
	}
	require.Equal(t, []string{"desk: off", "lobby: two", "lobby: off"}, texts)
	for range b.engine.Missed(t.Context(), reflex.RowID{Surface: "none", Seq: 1}) {
		t.Fatal("there is nothing")
	}
}

func TestASlowListenerMissesEventsAndIsTold(t *testing.T) {
	t.Parallel()
	bus := reflex.NewBus(2)
	sub := bus.Subscribe(reflex.Filter{All: true})
	publish := func(seqs ...int64) {
		for _, n := range seqs {
			bus.Publish(reflex.Event{Seq: n, Data: reflex.Extension{}})
		}
	}
	publish(1, 2, 3, 4, 5)
	var heard []any
	for e := range sub.Events(t.Context()) {
		if lag, ok := e.Data.(reflex.Lag); ok {
			heard = append(heard, lag)
			publish(6)
			sub.Close()
			publish(7)
			continue
		}
		heard = append(heard, e.Seq)
	}
	require.Equal(t, []any{int64(1), int64(2), reflex.Lag{Missed: 3}, int64(6)}, heard)
	sub.Close()
	for range sub.Events(t.Context()) {
		t.Fatal("it is closed")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range bus.Subscribe(reflex.Filter{All: true}).Events(ctx) {
		t.Fatal("nothing was said")
	}
}

// Invariant 4.
func TestAListenersFailureSlownessOrAbsenceNeverChangesAnOutcome(t *testing.T) {
	t.Parallel()
	type result struct {
		path  []string
		text  string
		rows  []string
		owner []string
	}
	play := func(t *testing.T, change func(*bundle)) result {
		b := newBundle(t)
		change(b)
		b.clerk.then(summons("coder"))
		b.coder.then(suspends(approval), replies("paid"))
		at := dm("lobby", "ada")
		o := b.said(at, "pay")
		o, err := b.kick(answer(b.batch(o.Batch), ada))
		require.NoError(t, err)
		return result{o.Path, o.Text(), b.told(at), b.owners(at)}
	}
	want := play(t, func(*bundle) {})
	for name, change := range map[string]func(*bundle){
		"a channel that fails": func(b *bundle) { b.lobby.fail = errors.New("no screen") },
		"a channel that panics": func(b *bundle) {
			b.config.Channels = []reflex.Channel{panicky{b.lobby}, b.desk}
			b.open()
		},
		"a channel that hangs": func(b *bundle) {
			b.config.Channels = []reflex.Channel{&hanging{chat: b.lobby, free: b.Context().Done()}, b.desk}
			b.open()
		},
		"a listener that does not listen": func(b *bundle) {
			b.config.Bus = reflex.NewBus(1)
			b.open()
		},
		"no listener": func(b *bundle) { b.sub.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, want, play(t, change))
		})
	}
}

type panicky struct{ *chat }

func (panicky) Draw(context.Context, reflex.Event) (string, error) { panic("no screen") }

type hanging struct {
	*chat
	free <-chan struct{}
}

func (c *hanging) Draw(context.Context, reflex.Event) (string, error) {
	<-c.free
	return "", nil
}

// Invariant 3.
func TestARowExistsBeforeTheEventThatShowsIt(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	ledger, threads := b.engine.Books().Ledger, b.engine.Books().Batches
	var mu sync.Mutex
	seen := map[string]int{}
	b.engine.Bus().Tap(func(e reflex.Event) {
		mu.Lock()
		defer mu.Unlock()
		var id reflex.RowID
		switch d := e.Data.(type) {
		case reflex.ReplyGiven:
			id = d.Row
		case reflex.MessageSent:
			if id = d.Row; d.Destination == nil {
				return
			}
		case reflex.Moved:
			if d.Action == "summon" {
				owner, err := b.engine.Books().Handoffs.Owner(context.Background(), e.At.Surface)
				require.NoError(t, err)
				require.Equal(t, d.Agent, owner.Agent, "who takes over owns it already")
				seen["summon"]++
				return
			}
			id = d.Row
		case reflex.Opened:
			id = d.Row
		case reflex.BatchAsked:
			batch, err := threads.Batch(context.Background(), d.Batch)
			require.NoError(t, err)
			require.Equal(t, d.Actions, batch.Actions)
			seen["batch"]++
			return
		default:
			return
		}
		rows, err := ledger.Rows(context.Background(), reflex.RowQuery{Surface: id.Surface, After: id.Seq - 1, Limit: 1})
		require.NoError(t, err)
		require.Len(t, rows, 1, "%T", e.Data)
		require.Equal(t, id, rows[0].ID)
		seen[e.Data.Kind()]++
	})
	b.clerk.then(func(ctx context.Context, r *reflex.RunRequest, _ func(reflex.Progress)) (reflex.RunResult, error) {
		_, err := r.Session.Send(ctx, "desk", reflex.Text("psst"))
		require.NoError(t, err)
		return reflex.RunResult{Output: reflex.Text("bye")}, r.Session.Summon(reflex.HandoffDecision{Agent: "coder", Brief: "b"})
	})
	b.coder.then(moves(reflex.RelocateRequest{Channel: "desk", Hint: "off", Resume: true}), suspends(approval))
	b.said(dm("lobby", "ada"), "go")
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, map[string]int{"run_result": 1, "message_sent": 1, "summon": 1, "gateway": 1, "thread_opened": 1, "batch": 1}, seen)
}

func TestAChannelThatDrewARowTellsItsHandle(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	at := dm("lobby", "ada")
	o := b.said(at, "hi")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = b.engine.Shutdown(ctx) // returns once all is drawn
	b.lobby.set(func(c *chat) {
		require.Equal(t, []string{"reflex_awake", "run_started", "text_message_content", "run_result", "run_ended", "reflex_asleep"}, c.drawn)
	})
	require.Equal(t, "lobby-4", b.rows(at)[o.Row.Seq-1].Handle)
	require.Empty(t, b.desk.drawn)
}

func TestAFailedRenderingIsHeardByWatchersAndTheReplyPersists(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.lobby.fail = errors.New("no screen")
	at := dm("lobby", "ada")
	b.said(at, "hi")
	failed := false
	for e := range b.sub.Events(t.Context()) {
		if _, failed = e.Data.(reflex.RenderFailed); failed {
			break
		}
	}
	require.True(t, failed)
	require.Equal(t, []string{"inbound Ada: hi", "outbound clerk: done"}, b.told(at))
	require.Empty(t, b.rows(at)[1].Handle)
}

func TestAnEventHasOneShapeOnTheWire(t *testing.T) {
	t.Parallel()
	kick := uuid.MustParse("0199d8a4-0000-7000-8000-000000000002")
	for kind, data := range map[string]reflex.Data{
		"reflex_awake":         reflex.ReflexAwake{Signal: "message"},
		"reflex_asleep":        reflex.ReflexAsleep{Outcome: reflex.OutcomeResult},
		"text_message_content": reflex.AgentEvent{Data: event.TextMessageContent{Delta: "x"}},
		"extension":            reflex.Extension{Name: "link", Value: json.RawMessage(`{"url":"x"}`)},
	} {
		text, err := json.Marshal(reflex.Event{Seq: 3, Kick: kick, AskedOn: reflex.Spot{Surface: "s"}, Data: data})
		require.NoError(t, err)
		var got map[string]any
		require.NoError(t, json.Unmarshal(text, &got))
		require.Equal(t, kind, got["kind"])
		require.Equal(t, float64(3), got["seq"])
		require.Equal(t, "s", got["asked_on"])
		require.NotEmpty(t, got["data"])
	}
}

func TestAPrivateExtensionIsHeardOnlyWhereItLands(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	spot := reflex.Spot{Channel: "lobby", Surface: "dm", Thread: "dm", Address: dm("lobby", "ada")}
	there, elsewhere := b.engine.Bus().Subscribe(reflex.Filter{Threads: []string{"dm"}}), b.engine.Bus().Subscribe(reflex.Filter{Threads: []string{"group"}})
	require.NoError(t, b.engine.Publish(spot, true, reflex.Extension{Name: "code"}))
	there.Close()
	elsewhere.Close()
	n := 0
	for range there.Events(t.Context()) {
		n++
	}
	require.Equal(t, 1, n)
	for range elsewhere.Events(t.Context()) {
		t.Fatal("it was private")
	}
}
