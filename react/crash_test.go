package react_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/graph/graphtest"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/react/reacttest"
	"github.com/everstep-go/everstep/state"
	"github.com/everstep-go/everstep/store"
	"github.com/everstep-go/everstep/store/memory"
	"github.com/everstep-go/everstep/store/sqlite"
)

// obedient is a model that does what the newest user message says: each word NAME:ARG is a tool
// call of its first reply, and its second reply repeats the results. It knows nothing but the
// conversation, so every process gets the same from it.
func obedient(_ context.Context, req *message.Request) (message.Reply, error) {
	var order string
	var results []string
	for _, m := range req.Messages {
		switch m := m.(type) {
		case *message.User:
			order, results = m.Content[0].(message.Text).Value, nil
		case *message.Tool:
			results = append(results, m.Text())
		}
	}
	reply := message.Reply{FinishReason: message.FinishStop}
	if len(results) > 0 || !strings.Contains(order, ":") {
		reply.Text = order + " -> " + strings.Join(results, ", ")
		return reply, nil
	}
	for i, word := range strings.Fields(order) {
		name, arg, _ := strings.Cut(word, ":")
		id := fmt.Sprintf("%s/%d", order, i)
		reply.ToolCalls = append(reply.ToolCalls, reacttest.ToolCall(id, name, map[string]string{"arg": arg}))
	}
	return reply, nil
}

// world is everything outside of the process that crashes: the store, the ledger of side
// effects, and what the client knows.
type world struct {
	t     *testing.T
	store store.Store
	clock *graphtest.Clock

	mu       sync.Mutex
	done     map[string]int  // executions of each tool, by argument
	keys     map[string]bool // idempotency keys of an argument
	saved    map[string]bool // task keys whose result is kept
	left     int             // results that the blocking tool waits for, so that only its own is missing
	alone    chan struct{}   // closed when there are none left
	blocking chan struct{}   // a blocking tool runs
	session  uuid.UUID
	runs     map[string]uuid.UUID
}

// recorder notes which results are kept.
type recorder struct {
	store.Store
	w *world
}

func (r recorder) SaveTask(ctx context.Context, t *store.SaveTask) error {
	err := r.Store.SaveTask(ctx, t)
	if err == nil && t.Task.Done {
		r.w.mu.Lock()
		defer r.w.mu.Unlock()
		key := t.Run.String() + t.Task.Key
		again := r.w.saved[key]
		r.w.saved[key] = true
		if t.Run == r.w.runs["cancelled"] && !again {
			if r.w.left--; r.w.left == 0 {
				close(r.w.alone)
			}
		}
	}
	return err
}

type arg struct {
	Arg string `json:"arg"`
}

// effect is what a tool does outside, unless its process is dead.
func (w *world) effect(ctx context.Context, process *graphtest.Faulty, in arg) error {
	if process != nil && process.Dead() {
		return graphtest.ErrDead
	}
	info, _ := graph.InfoFrom(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done[in.Arg]++
	w.keys[in.Arg+"="+graph.IdempotencyKey(ctx)] = true
	for key := range w.saved {
		if strings.HasPrefix(key, info.Run.String()) && strings.HasSuffix(key, ":"+in.Arg) {
			assert.Fail(w.t, "a tool ran although its result was kept", in.Arg)
		}
	}
	return nil
}

// process starts a process on the store, faulty or not.
func (w *world) process(st store.Store) *react.Agent {
	faulty, _ := st.(*graphtest.Faulty)
	agent, err := react.New(react.Config{
		Name: "crash", Model: react.ModelFunc(obedient), Store: st, Heartbeat: 2 * time.Millisecond * beats(faulty),
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Tools: []react.Tool{
			react.NewTool("note", "Does something.", func(ctx context.Context, in arg) (string, error) {
				return "did " + in.Arg, w.effect(ctx, faulty, in)
			}),
			react.NewTool("put", "Changes the context.", func(ctx context.Context, in arg) (string, error) {
				value, _ := json.Marshal(in.Arg)
				if err := react.UpdateContext(ctx, state.Add("/"+in.Arg, value)); err != nil {
					return "", err
				}
				return "put " + in.Arg, w.effect(ctx, faulty, in)
			}),
			react.NewTool("ask", "Asks.", func(ctx context.Context, in arg) (string, error) {
				reply, err := graph.Interrupt[string](ctx, "", "may I "+in.Arg)
				if err != nil {
					return "", err
				}
				return reply, w.effect(ctx, faulty, in)
			}),
			react.NewTool("block", "Takes until it is cancelled.", func(ctx context.Context, in arg) (string, error) {
				select {
				case <-w.alone:
				case <-ctx.Done():
					return "", context.Cause(ctx)
				}
				select {
				case w.blocking <- struct{}{}:
				default:
				}
				<-ctx.Done()
				return "", context.Cause(ctx)
			}),
		},
	})
	require.NoError(w.t, err)
	return agent
}

// beats makes the heartbeat of a process that is going to crash so slow that its own store
// calls are all there are.
func beats(f *graphtest.Faulty) time.Duration {
	if f != nil {
		return 1000
	}
	return 1
}

// run does one run to its end, or goes on with it if it was begun before.
func (w *world) run(agent *react.Agent, name string, in react.Input) error {
	ctx := w.t.Context()
	in.Session, in.Run = w.session, w.runs[name]
	run, err := agent.Start(ctx, in)
	if errors.Is(err, store.ErrExists) {
		run, err = agent.Attach(ctx, "", in.Run)
	}
	if err != nil {
		return err
	}
	if name == "cancelled" {
		ended := make(chan error, 1)
		go func() { _, err := run.Wait(ctx); ended <- err }()
		select {
		case <-w.blocking:
			err = run.Cancel(ctx)
		case err = <-ended:
		}
		if err != nil && !errors.Is(err, graph.ErrCancelled) {
			return err
		}
	}
	_, err = run.Wait(ctx)
	if errors.Is(err, graph.ErrInterrupted) || errors.Is(err, graph.ErrCancelled) {
		return nil
	}
	return err
}

// scenario is three turns with four parallel tools each, an interrupt, a cancel and a fork. It
// may be entered again at any point.
func (w *world) scenario(agent *react.Agent) error {
	say := func(text string) react.Input {
		return react.Input{Messages: []message.Message{message.NewUser(text)}}
	}
	if err := w.run(agent, "first", say("note:a note:b put:c put:d")); err != nil {
		return err
	}
	if err := w.run(agent, "asking", say("note:e ask:f put:g note:h")); err != nil {
		return err
	}
	if err := w.run(agent, "answering", react.Input{Resume: json.RawMessage(`"yes"`)}); err != nil {
		return err
	}
	if err := w.run(agent, "cancelled", say("note:i block:j note:k put:l")); err != nil {
		return err
	}
	page, err := agent.Checkpoints(w.t.Context(), store.CheckpointQuery{
		Session: w.session, Runs: []uuid.UUID{w.runs["first"]}, Reasons: []checkpoint.Reason{checkpoint.Finish},
	})
	if err != nil {
		return err
	}
	fork := say("note:m put:n")
	fork.Checkpoint = page.Items[0].ID
	return w.run(agent, "fork", fork)
}

// ending is everything that the scenario leaves, without what differs by chance.
func (w *world) ending(agent *react.Agent) string {
	var b strings.Builder
	ctx := w.t.Context()
	for _, name := range []string{"first", "asking", "answering", "cancelled", "fork"} {
		run, err := agent.RunRecord(ctx, "", w.runs[name])
		require.NoError(w.t, err, name)
		page, err := agent.Checkpoints(ctx, store.CheckpointQuery{Session: w.session, Runs: []uuid.UUID{run.ID}})
		require.NoError(w.t, err)
		last, s, err := agent.Checkpoint(ctx, "", page.Items[0].ID)
		require.NoError(w.t, err)
		fmt.Fprintf(&b, "%s: %s, %d checkpoints, last %s %s\n", name, run.Status, page.Count, last.Reason, last.Node)
		for _, m := range s.Messages {
			switch m := m.(type) {
			case *message.Assistant:
				fmt.Fprintf(&b, "  assistant %q %d calls\n", m.Content, len(m.ToolCalls))
			case *message.Tool:
				fmt.Fprintf(&b, "  tool %s %q %q\n", m.ToolCallID, *m.Content, m.Error)
			default:
				fmt.Fprintf(&b, "  %s\n", m.Role())
			}
		}
		var kept map[string]string
		require.NoError(w.t, json.Unmarshal(s.Context, &kept))
		fmt.Fprintf(&b, "  context %v\n", kept) // maps print in the order of their keys
	}
	return b.String()
}

func newWorld(t *testing.T, open func(*testing.T, *graphtest.Clock) store.Store) *world {
	w := &world{
		t: t, clock: graphtest.NewClock(time.Unix(1_800_000_000, 0)), session: uuid.New(), runs: map[string]uuid.UUID{},
		done: map[string]int{}, keys: map[string]bool{}, saved: map[string]bool{}, blocking: make(chan struct{}, 1),
		left: 3, alone: make(chan struct{}),
	}
	for _, name := range []string{"first", "asking", "answering", "cancelled", "fork"} {
		w.runs[name] = uuid.New()
	}
	w.store = recorder{open(t, w.clock), w}
	return w
}

func stores() iter.Seq2[string, func(*testing.T, *graphtest.Clock) store.Store] {
	return func(yield func(string, func(*testing.T, *graphtest.Clock) store.Store) bool) {
		if !yield("memory", func(_ *testing.T, c *graphtest.Clock) store.Store {
			return memory.New(&memory.Options{Now: c.Now})
		}) {
			return
		}
		yield("sqlite", func(t *testing.T, c *graphtest.Clock) store.Store {
			st, err := sqlite.Open(filepath.Join(t.TempDir(), "crash.db"), &sqlite.Options{Now: c.Now, Synchronous: sqlite.Normal})
			require.NoError(t, err)
			t.Cleanup(func() { _ = st.Close() })
			return st
		})
	}
}

func TestWhateverFailsAtWhicheverStoreCallEndsTheSameAsIfNothingHad(t *testing.T) {
	t.Parallel()
	for name, open := range stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			golden := newWorld(t, open)
			count := graphtest.NewFaulty(golden.store, 0, "")
			agent := golden.process(count)
			require.NoError(t, golden.scenario(agent))
			want := golden.ending(golden.process(golden.store))
			for arg, n := range golden.done {
				require.Equal(t, 1, n, arg)
			}
			calls := count.Calls()
			t.Logf("%d store calls; the ending:\n%s", len(calls), want)
			for n := 1; n <= len(calls); n++ {
				for _, fault := range graphtest.Faults() {
					t.Run(fmt.Sprintf("%s at call %d (%s)", fault, n, calls[n-1]), func(t *testing.T) {
						crash(t, newWorld(t, open), n, fault, want)
					})
				}
			}
		})
	}
}

func crash(t *testing.T, w *world, n int, fault graphtest.Fault, want string) {
	faulty := graphtest.NewFaulty(w.store, n, fault)
	err := w.scenario(w.process(faulty))
	again := w.process(w.store)
	if err != nil {
		faulty.Kill() // whatever it was, this process ends here
		w.clock.Add(time.Hour)
		serve, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- again.Serve(serve) }()
		require.NoError(t, w.scenario(again), "after %v", err)
		stop()
		require.NoError(t, <-served)
	}
	require.Equal(t, want, w.ending(again))
	w.mu.Lock()
	defer w.mu.Unlock()
	for arg, executions := range w.done {
		most := 1
		if fault != graphtest.ErrorBefore && fault != graphtest.ErrorAfter {
			most = 2 // its process died between its end and the keeping of its result
		}
		assert.LessOrEqual(t, executions, most, "executions of %s", arg)
	}
	require.Len(t, w.keys, len(w.done), "a tool that runs again has the same idempotency key")
	shutdown, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(t, again.Shutdown(shutdown))
}
