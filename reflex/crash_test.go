package reflex_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/graph/graphtest"
	"github.com/everstep-go/everstep/reflex"
	"github.com/everstep-go/everstep/store"
	"github.com/everstep-go/everstep/store/memory"
	"github.com/everstep-go/everstep/store/sqlite"
)

// world is what outlives the process: the store, the chats, and what the agents did.
type world struct {
	t           *testing.T
	store       store.Store
	lobby, desk *chat
	clerk       *fake
	coder       *fake
	engine      *reflex.Engine
	faulty      *graphtest.Faulty
	stop        func()
	batch       string
	restart     func() store.Store // nil: the store outlives the process
	interrupted int                // passes that ended because their process died while an agent ran
}

func newWorld(t *testing.T, st store.Store) *world {
	w := &world{t: t, store: st, lobby: newChat("lobby", "clerk", "coder"), desk: newChat("desk", "coder")}
	w.lobby.fail, w.desk.fail = errors.New("no screen"), errors.New("no screen") // drawing writes too, at any time
	w.clerk = newFake("clerk", func(ctx context.Context, r *reflex.RunRequest, yield func(reflex.Progress)) (reflex.RunResult, error) {
		return summons("coder")(ctx, r, yield)
	})
	w.coder = newFake("coder", func(ctx context.Context, r *reflex.RunRequest, yield func(reflex.Progress)) (reflex.RunResult, error) {
		yield(say("hm"))
		switch {
		case r.Results["pay"].Kind == reflex.ApprovalCall, strings.Contains(promptOf(*r), "go on"):
			return moves(reflex.RelocateRequest{Channel: "desk", Hint: "off", Resume: true})(ctx, r, yield)
		case r.Results["move"].Kind == reflex.MoveCall:
			return reflex.RunResult{Output: reflex.Text("at the desk")}, nil
		}
		return suspends(approval)(ctx, r, yield)
	})
	return w
}

// inBubble runs a test with a clock of its own. What it leaves running has an hour to end.
func inBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Hour) })
		test(t)
	})
}

// begin starts a process. Without a fault it is a sound one.
func (w *world) begin(n int, fault graphtest.Fault) {
	w.faulty = graphtest.NewFaulty(w.store, n, fault)
	e, err := reflex.New(reflex.Config{
		Store: w.faulty, Channels: []reflex.Channel{w.lobby, w.desk}, Agents: []reflex.Agent{w.clerk, w.coder},
		Users: reflex.Directory{ada, desk}, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(w.t, err)
	w.engine = e
	ctx, cancel := context.WithCancel(w.t.Context())
	w.stop = func() {
		cancel()
		_ = e.Shutdown(ctx)
	}
	w.t.Cleanup(w.stop)
}

// recover begins a sound process and lets it take up what is left.
func (w *world) recover() {
	w.stop()
	if w.restart != nil {
		w.store = w.restart()
	}
	w.begin(0, "")
	ctx, cancel := context.WithCancel(w.t.Context())
	served := make(chan struct{})
	sub := w.engine.Bus().Subscribe(reflex.Filter{All: true})
	go func() {
		defer close(served)
		assert.NoError(w.t, w.engine.Serve(ctx))
	}()
	<-time.After(time.Minute) // of the bubble: leases run out, and what is left is taken up
	cancel()
	<-served
	sub.Close()
	w.bracketed(sub)
}

// bracketed requires that each pass that was heard began awake and ended asleep, in order.
func (w *world) bracketed(sub *reflex.Subscription) {
	last := map[uuid.UUID]reflex.Event{}
	for e := range sub.Events(w.t.Context()) {
		if e.Seq == 0 {
			continue // of no pass
		}
		if awake, ok := e.Data.(reflex.ReflexAwake); ok {
			require.Zero(w.t, last[e.Kick].Seq)
			require.True(w.t, awake.Recovered)
		} else {
			require.Equal(w.t, last[e.Kick].Seq+1, e.Seq)
		}
		if failed, ok := e.Data.(reflex.RunFailed); ok && failed.Message == reflex.ErrInterrupted.Error() {
			w.interrupted++
		}
		last[e.Kick] = e
	}
	for _, e := range last {
		require.IsType(w.t, reflex.ReflexAsleep{}, e.Data)
	}
}

// steps are the signals of the scenario. Each is given again until it leads where it should.
func (w *world) steps() []func() (done bool, err error) {
	at := dm("lobby", "ada")
	in := inbound("ada", "pay and move")
	in.Delivery = "m1"
	return []func() (bool, error){
		func() (bool, error) { // clerk hands over to coder, who asks
			o, err := w.engine.Say(w.t.Context(), at, in)
			if err == nil && o.Decision == nil { // clerk had it, and was interrupted: the person says it again
				_, err = w.engine.Say(w.t.Context(), at, inbound("ada", "pay and move"))
			}
			return w.asked(), err
		},
		func() (bool, error) { // the answer is brought back; coder moves and goes on
			b, err := w.engine.Books().Batches.Batch(w.t.Context(), w.batch)
			if err != nil {
				return false, err
			}
			if b.Status == reflex.BatchCompleted { // and the pass came to nothing afterwards
				_, err = w.engine.Say(w.t.Context(), at, inbound("ada", "go on"))
			} else {
				_, err = w.engine.Kick(w.t.Context(), answer(b, ada))
			}
			return w.arrived(), err
		},
	}
}

func (w *world) asked() bool {
	open, err := (w.books().Batches).Open(w.t.Context(), "")
	require.NoError(w.t, err)
	for _, b := range open {
		if b.Status == reflex.BatchPending {
			w.batch = b.ID
		}
	}
	return w.batch != ""
}

func (w *world) arrived() bool {
	for _, at := range w.desk.opened {
		rows, err := w.books().Ledger.Rows(w.t.Context(), reflex.RowQuery{Surface: at.ID()})
		require.NoError(w.t, err)
		for _, r := range rows {
			if r.Kind == reflex.OutboundRow && r.Segments[0].Text == "at the desk" {
				return true
			}
		}
	}
	return false
}

// books reads what is kept, whatever became of the process.
func (w *world) books() reflex.Books {
	return reflex.NewBooks(w.store.(store.Records), "default", alive, nil)
}

// play plays the scenario with a fault at the n-th call of the first process, and recovers.
func (w *world) play(n int, fault graphtest.Fault) (calls []string) {
	w.begin(n, fault)
	for i, step := range w.steps() {
		for attempt := 0; ; attempt++ {
			require.Less(w.t, attempt, 6, "step %d does not get on", i)
			done, err := step()
			if i == 0 && attempt == 0 && n == 0 {
				require.NoError(w.t, err)
			}
			if w.faulty.Dead() || err != nil {
				calls = append(calls, w.faulty.Calls()...)
				w.recover()
				done = i == 0 && w.asked() || i == 1 && w.arrived()
			}
			if done {
				break
			}
		}
	}
	calls = append(calls, w.faulty.Calls()...)
	w.check()
	return calls
}

// check is what must hold at the end, whatever happened.
func (w *world) check() {
	t := w.t
	books := w.books()
	at := dm("lobby", "ada")
	history, err := books.Handoffs.History(t.Context(), at.ID())
	require.NoError(t, err)
	require.Len(t, history, 1)
	require.Equal(t, "coder", history[0].Agent)

	runs := map[uuid.UUID]bool{}
	for _, r := range append(w.clerk.requests(), w.coder.requests()...) {
		require.False(t, runs[r.Run], "an agent's run is never repeated")
		runs[r.Run] = true
	}
	rows, err := books.Ledger.Rows(t.Context(), reflex.RowQuery{Surface: at.ID()})
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, r := range rows {
		if r.Delivery != "" {
			require.False(t, seen[r.Delivery], "one delivery is one row")
			seen[r.Delivery] = true
		}
	}
	if w.interrupted == 0 {
		require.Len(t, w.desk.opened, 1, "a thread is opened once")
		require.Len(t, slices.Compact(slices.Clone(w.coder.forks)), 1, "a copy may be made again, but only the same")
	}
	open, err := books.Batches.Open(t.Context(), "")
	require.NoError(t, err)
	for _, b := range open {
		require.NotEqual(t, reflex.BatchResuming, b.Status, "no batch stays between two states")
	}
	// All surfaces can be kicked again.
	w.coder.then(replies("hello again"))
	for _, a := range []reflex.Address{at, {Channel: "desk", Type: reflex.Group, Chat: "home", Thread: "t1", User: "ada.l"}} {
		o, err := w.engine.Say(t.Context(), a, inbound(a.User, "hello"))
		require.NoError(t, err)
		require.Equal(t, "hello again", o.Text())
	}
}

func TestAPassSurvivesACrashAtEveryStoreCall(t *testing.T) {
	t.Parallel()
	var calls []string
	inBubble(t, func(t *testing.T) {
		calls = newWorld(t, memory.New(nil)).play(0, "")
	})
	require.Greater(t, len(calls), 60, strings.Join(calls, " "))
	for _, fault := range graphtest.Faults() {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			for n := 1; n <= len(calls); n++ {
				if testing.Short() && n%7 != 0 {
					continue
				}
				ok := t.Run(fmt.Sprint(n, " ", calls[n-1]), func(t *testing.T) {
					inBubble(t, func(t *testing.T) {
						newWorld(t, memory.New(nil)).play(n, fault)
					})
				})
				if !ok {
					return
				}
			}
		})
	}
}

func TestAPassSurvivesADeathAtEveryStoreCallOnSQLite(t *testing.T) {
	t.Parallel()
	play := func(t *testing.T, n int, fault graphtest.Fault) (calls []string) {
		path := filepath.Join(t.TempDir(), "reflex.db")
		open := func() *sqlite.Store {
			st, err := sqlite.Open(path, &sqlite.Options{Synchronous: sqlite.Normal})
			require.NoError(t, err)
			return st
		}
		inBubble(t, func(t *testing.T) {
			st := open()
			w := newWorld(t, st)
			w.restart = func() store.Store {
				require.NoError(t, st.Close())
				st = open()
				return st
			}
			calls = w.play(n, fault)
			w.stop()
			require.NoError(t, st.Close())
		})
		return calls
	}
	calls := play(t, 0, "")
	step := 3
	if testing.Short() {
		step = 17
	}
	for n := 1; n <= len(calls); n += step {
		for _, fault := range []graphtest.Fault{graphtest.DeathBefore, graphtest.DeathAfter} {
			if !t.Run(fmt.Sprint(fault, " ", n, " ", calls[n-1]), func(t *testing.T) { play(t, n, fault) }) {
				return
			}
		}
	}
}

func TestAPassSurvivesTheEndOfItsProcessOnSQLite(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "reflex.db")
	open := func() *sqlite.Store {
		st, err := sqlite.Open(path, &sqlite.Options{Synchronous: sqlite.Normal})
		require.NoError(t, err)
		return st
	}
	st := open()
	inside := make(chan struct{})
	b := newBundle(t, func(c *reflex.Config) { c.Store = st })
	at := dm("lobby", "ada")
	b.clerk.then(func(ctx context.Context, _ *reflex.RunRequest, _ func(reflex.Progress)) (reflex.RunResult, error) {
		close(inside)
		<-ctx.Done()
		return reflex.RunResult{}, context.Cause(ctx)
	}, replies("second try"))
	ended := make(chan error, 1)
	_, err := b.engine.KickAsync(t.Context(), reflex.MessageSignal{Address: at, Messages: []reflex.Inbound{inbound("ada", "hi")}},
		func(_ reflex.Outcome, err error) { ended <- err })
	require.NoError(t, err)
	<-inside
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, b.engine.Shutdown(ctx))
	require.Error(t, <-ended)
	require.NoError(t, st.Close())

	st = open()
	defer st.Close()
	b.config.Store = st
	b.open()
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	go b.engine.Serve(ctx)
	events := b.heard()
	require.Equal(t, "reflex_awake run_error reflex_asleep", kinds(events))
	awake, _ := find[reflex.ReflexAwake](t, events)
	require.True(t, awake.Recovered)
	failed, e := find[reflex.RunFailed](t, events)
	require.Equal(t, reflex.ErrInterrupted.Error(), failed.Message)
	require.Equal(t, at.ID(), e.At.Surface)
	require.Len(t, b.clerk.requests(), 1, "it is not repeated")
	_, err = b.engine.Attach(t.Context(), failed.Trace)
	require.ErrorIs(t, err, reflex.ErrInterrupted, "and whoever asks for the pass hears why")
	require.Equal(t, "second try", b.said(at, "again").Text())
}

// commanding plays a command in a process in which the n-th store call after its preparation goes wrong, and
// gives it again to the process after it, until it has an outcome. It returns the calls, what the agent was
// commanded, and the outcome.
func commanding(t *testing.T, n int, fault graphtest.Fault) (calls []string, given int, outcome reflex.CommandOutcome) {
	t.Helper()
	st := memory.New(nil)
	b := newBundle(t, func(c *reflex.Config) { c.Store = st })
	b.lobby.fail = errors.New("no screen")
	a := &commander{fake: b.clerk, catalogue: reflex.Catalogue{Status: reflex.CommandDone, Commands: []reflex.CommandSpec{{Name: "status"}}}}
	at := thread("lobby", "t", "ada")
	b.said(at, "hi")
	faulty := graphtest.NewFaulty(st, n, fault)
	a.do = func(context.Context, *reflex.CommandRequest) (reflex.CommandReply, error) {
		if faulty.Dead() && b.config.Store != st {
			return reflex.CommandReply{}, graphtest.ErrDead // a dead process does nothing
		}
		given++
		return reflex.CommandReply{Text: "all is well"}, nil
	}
	b.config.Store, b.config.Agents = faulty, []reflex.Agent{a, b.coder}
	b.open()
	signal := reflex.CommandSignal{
		Conversation: b.clerk.last().Conversation.ID, Agent: "clerk", Profile: ada, Address: at, Command: reflex.Command{Name: "status"}, Delivery: "d",
	}
	o, err := b.kick(signal)
	calls = faulty.Calls()
	if err != nil {
		b.config.Store = st
		b.open()
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- b.engine.Serve(ctx) }()
		<-time.After(time.Minute)
		o, err = b.kick(signal)
		require.NoError(t, err)
		cancel()
		require.NoError(t, <-served)
	}
	again, err := b.kick(signal)
	require.NoError(t, err)
	require.Equal(t, o.Command, again.Command, "the outcome stays")
	if receipts := slices.DeleteFunc(b.told(at), func(row string) bool { return !strings.HasPrefix(row, "receipt") }); o.Command.Status != reflex.CommandBusy {
		require.Equal(t, []string{"receipt Ada: /status"}, receipts, "one row")
	}
	b.freeTurns()
	return calls, given, *o.Command
}

func TestACommandIsDispatchedAtMostOnceWhereverItsProcessDies(t *testing.T) {
	t.Parallel()
	var calls []string
	inBubble(t, func(t *testing.T) { calls, _, _ = commanding(t, 0, "") })
	require.Greater(t, len(calls), 15)
	for _, fault := range graphtest.Faults() {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			unknown := 0
			for n := 1; n <= len(calls); n++ {
				ok := t.Run(fmt.Sprint(n, " ", calls[n-1]), func(t *testing.T) {
					inBubble(t, func(t *testing.T) {
						_, given, outcome := commanding(t, n, fault)
						require.LessOrEqual(t, given, 1)
						switch outcome.Status {
						case reflex.CommandDone:
							require.Equal(t, 1, given)
						default:
							unknown++
							require.Equal(t, reflex.CommandFailed, outcome.Status, outcome.Text)
							require.Contains(t, outcome.Text, "unknown")
						}
					})
				})
				if !ok {
					return
				}
			}
			require.Less(t, unknown, len(calls)/2)
		})
	}
}

func TestAPruneThatFailsHalfWayGoesOnWithTheNext(t *testing.T) {
	t.Parallel()
	for _, fault := range []graphtest.Fault{graphtest.ErrorBefore, graphtest.ErrorAfter, graphtest.DeathBefore, graphtest.DeathAfter} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			for n := 1; n <= 60; n += 7 {
				inBubble(t, func(t *testing.T) {
					b := newBundle(t)
					busyDay(t, b)
					<-time.After(100 * day)
					b.config.Store = graphtest.NewFaulty(b.store, n, fault)
					b.open()
					_, _ = b.engine.Prune(t.Context(), reflex.Prune{Before: time.Now().Add(-90 * day)})
					b.config.Store = b.store
					b.open()
					b.prune(90*day, 100)
					require.Empty(t, b.kept())
				})
			}
		})
	}
}
