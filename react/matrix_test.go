package react_test

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/graph/graphtest"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/react/reacttest"
	"github.com/everstep-go/everstep/store"
)

// afterlife is a world in which one process dies and another one comes after it. Each test of
// this file is a line of the crash matrix (docs/design.md, 4.3).
type afterlife struct {
	t        *testing.T
	store    store.Store
	clock    *graphtest.Clock
	attached bool
	session  uuid.UUID
	run      uuid.UUID
	script   *reacttest.Script

	mu     sync.Mutex
	called []string            // tool calls, in order: the process and the name
	keys   map[string][]string // idempotency keys by tool
	dying  map[string]func()   // what a tool of the first process does
}

// eachLife runs a test on every store, for detached and attached runs.
func eachLife(t *testing.T, test func(t *testing.T, w *afterlife)) {
	t.Helper()
	for name, open := range stores() {
		for _, attached := range []bool{false, true} {
			kind := map[bool]string{false: "detached", true: "attached"}[attached]
			t.Run(name+" "+kind, func(t *testing.T) {
				t.Parallel()
				clock := graphtest.NewClock(time.Unix(1_800_000_000, 0))
				test(t, &afterlife{
					t: t, store: open(t, clock), clock: clock, attached: attached, session: uuid.New(), run: uuid.New(),
					keys: map[string][]string{}, dying: map[string]func(){},
				})
			})
		}
	}
}

// process starts a process on a store; names of its tool calls begin with its name.
func (w *afterlife) process(name string, st store.Store, steps ...reacttest.Step) *react.Agent {
	w.script = reacttest.NewScript(steps...)
	work := func(name string) func(context.Context) (any, error) {
		return func(ctx context.Context) (any, error) {
			tool, process := name[1:], name[:1]
			w.mu.Lock()
			w.called = append(w.called, name)
			w.keys[tool] = append(w.keys[tool], graph.IdempotencyKey(ctx))
			die := w.dying[tool]
			w.mu.Unlock()
			if process == "1" && die != nil {
				die()
				return nil, errors.New("a dead process tells nothing")
			}
			return tool + "ed", react.UpdateContext(ctx, add("/"+tool, "1"))
		}
	}
	return newAgent(w.t, react.Config{
		Name: "mortal", Model: w.script, Store: st, Heartbeat: map[string]time.Duration{"1": time.Second, "2": 2 * time.Millisecond}[name],
		Tools: []react.Tool{
			tool("work", work(name+"work")), tool("play", work(name+"play")), tool("sleep", work(name+"sleep")),
			tool("pay", work(name+"pay"), &react.ToolOptions{AtMostOnce: true}),
		},
	})
}

// live runs the first process until its run ends or it dies.
func (w *afterlife) live(agent *react.Agent, in react.Input) {
	in.Session, in.Run = w.session, w.run
	if w.attached {
		for _, err := range agent.Run(w.t.Context(), in) {
			if err != nil {
				break
			}
		}
		return
	}
	run, err := agent.Start(w.t.Context(), in)
	if err == nil {
		_, _ = run.Wait(w.t.Context())
	}
}

// outlive starts the second process and waits until the run has ended in it.
func (w *afterlife) outlive(steps ...reacttest.Step) (*react.Agent, react.State, error) {
	w.t.Helper()
	agent := w.process("2", w.store, steps...)
	w.clock.Add(time.Hour)
	ctx, stop := context.WithCancel(w.t.Context())
	served := make(chan error, 1)
	go func() { served <- agent.Serve(ctx) }()
	run, err := agent.Attach(w.t.Context(), "", w.run)
	require.NoError(w.t, err)
	limit, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	s, err := run.Wait(limit)
	stop()
	require.NoError(w.t, <-served)
	return agent, s, err
}

func (w *afterlife) requireLost(err error) {
	w.t.Helper()
	failed := &graph.RunError{}
	require.ErrorAs(w.t, err, &failed)
	require.Equal(w.t, graph.CodeLost, failed.Code)
}

// usable runs once more in the session.
func (w *afterlife) usable(agent *react.Agent) {
	w.t.Helper()
	in := react.Ask(w.session, "still there?")
	var status string
	for e, err := range agent.Run(w.t.Context(), in) {
		require.NoError(w.t, err)
		if d, ok := e.Data.(event.RunFinished); ok {
			status = d.Status
		}
	}
	require.Equal(w.t, "completed", status)
}

func (w *afterlife) calls() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.called)
}

func TestAProcessThatDiesBeforeTheRunIsRecordedLeavesNothing(t *testing.T) {
	t.Parallel()
	eachLife(t, func(t *testing.T, w *afterlife) {
		faulty := graphtest.NewFaulty(w.store, 2, graphtest.DeathBefore)
		first := w.process("1", faulty, reacttest.Say("hello"))
		in := user("hi")
		in.Session, in.Run = w.session, w.run
		if w.attached {
			w.live(first, in)
		} else {
			_, err := first.Start(t.Context(), in)
			require.Error(t, err, "the caller saw no acceptance")
		}
		require.Equal(t, []string{"Load", "Begin"}, faulty.Calls()[:2])
		require.Empty(t, w.script.Requests(), "nothing happened outside")
		second := w.process("2", w.store, reacttest.Say("hello"))
		_, err := second.RunRecord(t.Context(), "", w.run)
		require.ErrorIs(t, err, store.ErrNotFound)
		_, err = second.Session(t.Context(), "", w.session)
		require.ErrorIs(t, err, store.ErrNotFound)
	})
}

func TestARunThatWasAcceptedButHadNoTurnStartsFromItsInput(t *testing.T) {
	t.Parallel()
	eachLife(t, func(t *testing.T, w *afterlife) {
		faulty := graphtest.NewFaulty(w.store, 0, "")
		streams, dead := make(chan struct{}), make(chan struct{})
		first := w.process("1", faulty, reacttest.Step{Before: func(context.Context, *message.Request) error {
			close(streams)
			<-dead
			return graphtest.ErrDead
		}})
		active, err := first.Start(t.Context(), react.Ask(w.session, "first"))
		require.NoError(t, err)
		<-streams
		in := user("second")
		in.OnBusy, in.Context, in.Tools = graph.Wait, json.RawMessage(`{"a":1}`), clientTool("pick")
		in.Messages[0].Head().Metadata = json.RawMessage(`{"from":"me"}`)
		if w.attached {
			in.Session, in.Run = w.session, w.run
			for e, err := range first.Run(t.Context(), in) {
				require.NoError(t, err)
				require.Equal(t, event.KindRunStarted, e.Data.Kind())
				faulty.Kill()
				break
			}
		} else {
			in.Session, in.Run = w.session, w.run
			_, err = first.Start(t.Context(), in)
			require.NoError(t, err)
			faulty.Kill()
		}
		close(dead)
		_, err = active.Wait(t.Context())
		require.Error(t, err)
		second, s, err := w.outlive(reacttest.Say("one"), reacttest.Say("two"))
		if w.attached {
			w.requireLost(err)
			record, err := second.RunRecord(t.Context(), "", w.run)
			require.NoError(t, err)
			require.Zero(t, record.Last, "it leaves no checkpoint")
			return
		}
		require.NoError(t, err)
		require.Equal(t, []string{`user "first"`, `assistant "one"`, `user "second" {"from":"me"}`, `assistant "two"`}, talk(s.Messages))
		require.JSONEq(t, `{"a":1}`, string(s.Context))
		require.Len(t, s.Tools, 1)
	})
}

func TestAModelStreamThatDiedIsAskedForAgain(t *testing.T) {
	t.Parallel()
	eachLife(t, func(t *testing.T, w *afterlife) {
		faulty := graphtest.NewFaulty(w.store, 0, "")
		first := w.process("1", faulty, reacttest.Step{Deltas: reacttest.Words("half an"), Err: message.Transient(errors.New("gone"), 0), Before: func(context.Context, *message.Request) error {
			faulty.Kill()
			return nil
		}})
		w.live(first, user("hi"))
		asked := w.script.Requests()
		second, s, err := w.outlive(reacttest.Say("a whole answer"), reacttest.Say("yes"))
		if w.attached {
			w.requireLost(err)
			require.Equal(t, []string{`user "hi"`}, talk(s.Messages))
			require.Empty(t, w.script.Requests())
			w.usable(second)
			return
		}
		require.NoError(t, err)
		require.Equal(t, []string{`user "hi"`, `assistant "a whole answer"`}, talk(s.Messages))
		require.Equal(t, talk(asked[0].Messages), talk(w.script.Requests()[0].Messages), "the same question")
		w.usable(second)
	})
}

func TestAReplyThatWasNotKeptIsAskedForAgainAndNoToolOfItHasRun(t *testing.T) {
	t.Parallel()
	eachLife(t, func(t *testing.T, w *afterlife) {
		faulty := graphtest.NewFaulty(w.store, 3, graphtest.DeathBefore)
		first := w.process("1", faulty, reacttest.Call(call("a", "work")))
		w.live(first, user("go"))
		require.Equal(t, []string{"Load", "Begin", "Commit"}, faulty.Calls()[:3])
		require.Len(t, w.script.Requests(), 1)
		require.Empty(t, w.calls(), "the reply is durable before its tools start")
		second, s, err := w.outlive(reacttest.Call(call("b", "work")), reacttest.Say("done"))
		if w.attached {
			w.requireLost(err)
			require.Equal(t, []string{`user "go"`}, talk(s.Messages))
			return
		}
		require.NoError(t, err)
		require.Equal(t, []string{`user "go"`, "assistant b:work", `tool b "worked"`, `assistant "done"`}, talk(s.Messages))
		require.Equal(t, []string{"2work"}, w.calls())
		_ = second
	})
}

func TestToolsThatHadFinishedAreNotRunAgainAndTheOthersHaveTheSameKey(t *testing.T) {
	t.Parallel()
	eachLife(t, func(t *testing.T, w *afterlife) {
		l := newLedger(w.store)
		faulty := graphtest.NewFaulty(l, 0, "")
		var together sync.WaitGroup
		together.Add(2)
		kept := func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.kept["a"] && l.kept["b"]
		}
		die := func() {
			together.Done()
			together.Wait() // both run
			for !kept() {   // and the others are done
				runtime.Gosched()
			}
			faulty.Kill()
		}
		w.dying["sleep"], w.dying["pay"] = die, die
		first := w.process("1", faulty, reacttest.Call(call("a", "work"), call("b", "play"), call("c", "sleep"), call("d", "pay")))
		w.live(first, user("go"))
		second, s, err := w.outlive(reacttest.Say("done"), reacttest.Say("yes"))
		if w.attached {
			w.requireLost(err)
			require.Equal(t, []string{
				`user "go"`, "assistant a:work b:play c:sleep d:pay", `tool a "worked"`, `tool b "played"`,
				`tool d "outcome unknown: the process died while the tool ran, and it must not run twice" error "outcome unknown: the process died while the tool ran, and it must not run twice"`,
			}, talk(s.Messages), "what has settled stays in the history")
			require.JSONEq(t, `{"work":1,"play":1}`, string(s.Context))
			require.ElementsMatch(t, []string{"1work", "1play", "1sleep", "1pay"}, w.calls())
			run, err := second.Start(t.Context(), react.Input{Session: w.session})
			require.NoError(t, err)
			_, err = run.Wait(t.Context())
			require.NoError(t, err)
			require.ElementsMatch(t, []string{"1work", "1play", "1sleep", "1pay", "2sleep"}, w.calls(), "the next run takes up what is open")
			require.Equal(t, w.keys["sleep"][0], w.keys["sleep"][1], "with the same idempotency key")
			w.usable(second)
			return
		}
		require.NoError(t, err)
		require.ElementsMatch(t, []string{"1work", "1play", "1sleep", "1pay", "2sleep"}, w.calls())
		require.Len(t, w.keys["sleep"], 2)
		require.Equal(t, w.keys["sleep"][0], w.keys["sleep"][1], "the same idempotency key")
		require.Equal(t, []string{
			`user "go"`, "assistant a:work b:play c:sleep d:pay", `tool a "worked"`, `tool b "played"`, `tool c "sleeped"`,
			`tool d "outcome unknown: the process died while the tool ran, and it must not run twice" error "outcome unknown: the process died while the tool ran, and it must not run twice"`,
			`assistant "done"`,
		}, talk(s.Messages))
		require.JSONEq(t, `{"work":1,"play":1,"sleep":1}`, string(s.Context))
	})
}

func TestBetweenTheLastResultAndItsCommitNothingHappensAgain(t *testing.T) {
	t.Parallel()
	eachLife(t, func(t *testing.T, w *afterlife) {
		faulty := graphtest.NewFaulty(w.store, 6, graphtest.DeathBefore)
		first := w.process("1", faulty, reacttest.Call(call("a", "work"), call("b", "play")), reacttest.Say("unheard"))
		w.live(first, user("go"))
		require.Equal(t, []string{"Load", "Begin", "Commit", "SaveTask", "SaveTask", "Commit"}, faulty.Calls()[:6])
		_, s, err := w.outlive(reacttest.Say("done"))
		require.ElementsMatch(t, []string{"1work", "1play"}, w.calls())
		require.JSONEq(t, `{"work":1,"play":1}`, string(s.Context))
		if w.attached {
			w.requireLost(err)
			require.Equal(t, []string{`user "go"`, "assistant a:work b:play", `tool a "worked"`, `tool b "played"`}, talk(s.Messages))
			return
		}
		require.NoError(t, err)
		require.Equal(t, []string{`user "go"`, "assistant a:work b:play", `tool a "worked"`, `tool b "played"`, `assistant "done"`}, talk(s.Messages))
	})
}

func TestARunThatWasFinishedIsOnlyToldToWhoeverReattaches(t *testing.T) {
	t.Parallel()
	eachLife(t, func(t *testing.T, w *afterlife) {
		faulty := graphtest.NewFaulty(w.store, 3, graphtest.DeathAfter)
		var heard []event.Kind
		first := w.process("1", faulty, reacttest.Say("hello"))
		in := user("hi")
		in.Session, in.Run = w.session, w.run
		if w.attached {
			for e, err := range first.Run(t.Context(), in) {
				if err != nil {
					break
				}
				heard = append(heard, e.Data.Kind())
			}
		} else {
			w.live(first, in)
		}
		require.NotContains(t, heard, event.KindRunFinished, "the process died before it said so")
		second, s, err := w.outlive()
		require.NoError(t, err, "the whole run is kept")
		require.Equal(t, []string{`user "hi"`, `assistant "hello"`}, talk(s.Messages))
		require.Empty(t, w.script.Requests())
		run, err := second.Attach(t.Context(), "", w.run)
		require.NoError(t, err)
		var events []event.Event
		for e, err := range run.Events(t.Context(), 1) {
			require.NoError(t, err)
			events = append(events, e)
		}
		require.Equal(t, []string{"state_snapshot {}", "messages_snapshot", "run_finished completed"}, tell(events))
	})
}

func TestACancelThatItsProcessDidNotLiveToSeeCompletesElsewhere(t *testing.T) {
	t.Parallel()
	eachLife(t, func(t *testing.T, w *afterlife) {
		faulty := graphtest.NewFaulty(w.store, 0, "")
		w.dying["work"] = func() {
			faulty.Kill()
			_, err := w.store.RequestCancel(t.Context(), graph.DefaultTenant, w.run)
			assert.NoError(t, err)
		}
		first := w.process("1", faulty, reacttest.Call(call("a", "work"), call("b", "none")))
		w.live(first, user("go"))
		second, s, err := w.outlive(reacttest.Say("yes"))
		require.ErrorIs(t, err, graph.ErrCancelled)
		record, err := second.RunRecord(t.Context(), "", w.run)
		require.NoError(t, err)
		require.Equal(t, checkpoint.Cancelled, record.Status)
		lines := talk(s.Messages)
		require.Equal(t, []string{`user "go"`, "assistant a:work b:none", `tool a "cancelled" error "cancelled"`}, lines[:3])
		require.Len(t, lines, 4, "each call has one result")
		require.Equal(t, []string{"1work"}, w.calls())
		w.usable(second)
	})
}

func TestARunThatKillsEveryProcessIsEnded(t *testing.T) {
	t.Parallel()
	for name, open := range stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := graphtest.NewClock(time.Unix(1_800_000_000, 0))
			w := &afterlife{t: t, store: open(t, clock), clock: clock, session: uuid.New(), run: uuid.New(), keys: map[string][]string{}, dying: map[string]func(){}}
			kill := func(faulty *graphtest.Faulty) reacttest.Step {
				return reacttest.Step{Before: func(context.Context, *message.Request) error { faulty.Kill(); return graphtest.ErrDead }}
			}
			faulty := graphtest.NewFaulty(w.store, 0, "")
			w.live(w.process("1", faulty, kill(faulty)), user("hi"))
			for range 5 {
				faulty := graphtest.NewFaulty(w.store, 0, "")
				agent := w.process("2", faulty, kill(faulty))
				clock.Add(time.Hour)
				ctx, stop := context.WithCancel(t.Context())
				served := make(chan error, 1)
				go func() { served <- agent.Serve(ctx) }()
				require.Eventually(t, faulty.Dead, time.Minute, time.Millisecond)
				stop()
				require.NoError(t, <-served)
			}
			_, _, err := w.outlive(reacttest.Say("alive"))
			failed := &graph.RunError{}
			require.ErrorAs(t, err, &failed)
			require.Equal(t, graph.CodePoisoned, failed.Code)
		})
	}
}

// Contract R4: the order in which tools finished is kept with their results.
func TestContextChangesApplyInTheOrderInWhichToolsFinishedAlsoAfterADeath(t *testing.T) {
	t.Parallel()
	for name, open := range stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := graphtest.NewClock(time.Unix(1_800_000_000, 0))
			w := &afterlife{t: t, store: open(t, clock), clock: clock, session: uuid.New(), run: uuid.New()}
			l := newLedger(w.store)
			faulty := graphtest.NewFaulty(l, 0, "")
			kept := func(key string) bool {
				l.mu.Lock()
				defer l.mu.Unlock()
				return l.kept[key]
			}
			wait := func(key string) {
				for key != "" && !kept(key) {
					runtime.Gosched()
				}
			}
			type in struct {
				After string `json:"after"`
				Value string `json:"value"`
			}
			agent := func(st store.Store, alive bool, steps ...reacttest.Step) *react.Agent {
				return newAgent(t, react.Config{Name: "mortal", Store: st, Model: reacttest.NewScript(steps...), Tools: []react.Tool{
					react.NewTool("append", "Appends.", func(ctx context.Context, in in) (string, error) {
						if wait(in.After); !alive {
							if in.Value == "dies" {
								faulty.Kill()
								return "", graphtest.ErrDead
							}
						}
						value, _ := json.Marshal(in.Value)
						return in.Value, react.UpdateContext(ctx, add("/list/-", string(value)))
					}),
				}})
			}
			request := user("go")
			request.Context = json.RawMessage(`{"list":[]}`)
			w.live(agent(faulty, false, reacttest.Call(
				reacttest.ToolCall("a", "append", in{"c", "third"}), reacttest.ToolCall("b", "append", in{"", "first"}),
				reacttest.ToolCall("c", "append", in{"b", "second"}), reacttest.ToolCall("d", "append", in{"a", "dies"}),
			)), request)
			second := agent(w.store, true, reacttest.Say("done"))
			clock.Add(time.Hour)
			ctx, stop := context.WithCancel(t.Context())
			served := make(chan error, 1)
			go func() { served <- second.Serve(ctx) }()
			run, err := second.Attach(t.Context(), "", w.run)
			require.NoError(t, err)
			s, err := run.Wait(t.Context())
			stop()
			require.NoError(t, <-served)
			require.NoError(t, err)
			require.JSONEq(t, `{"list":["first","second","third","dies"]}`, string(s.Context))
		})
	}
}
