package react_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/react/reacttest"
	"github.com/everstep-go/everstep/store"
	"github.com/everstep-go/everstep/store/memory"
)

// A spec is one input, from which messages are made anew for each session.
type spec struct {
	text    string
	answer  string // if set, the input answers a question instead of saying text
	context map[string]any
	vars    react.Optional[[]react.ContextVar]
	empty   bool
}

// A segment is what one run of a fresh session is started with: several specs where a run forked
// from the input of another and added to it.
type segment []spec

func (s segment) input() react.Input {
	var in react.Input
	values := map[string]any{}
	for _, one := range s {
		maps.Copy(values, one.context)
		if !one.vars.IsZero() {
			in.ContextVars = one.vars
		}
		switch {
		case one.empty:
		case one.answer != "":
			in.Resume = json.RawMessage(one.answer)
		default:
			in.Messages = append(in.Messages, message.NewUser(one.text))
		}
	}
	if len(values) > 0 {
		in.Context, _ = json.Marshal(values)
	}
	return in
}

// teller is a model that knows nothing but its request. Each word NAME:ARG of the newest user
// message is a tool call, and its next reply repeats the results. It notes the requests by run.
type teller struct {
	mu       sync.Mutex
	requests map[uuid.UUID][]string
}

func (m *teller) generate(ctx context.Context, req *message.Request) (message.Reply, error) {
	info, _ := graph.InfoFrom(ctx)
	m.mu.Lock()
	m.requests[info.Run] = append(m.requests[info.Run], strings.Join(append(talk(req.Messages), "system: "+req.System), "\n"))
	m.mu.Unlock()
	var order string
	var results []string
	for _, msg := range req.Messages {
		switch msg := msg.(type) {
		case *message.User:
			order, results = msg.Content[0].(message.Text).Value, nil
		case *message.Tool:
			results = append(results, msg.Text())
		}
	}
	reply := message.Reply{Reasoning: []message.ReasoningDone{{Text: "about " + order, Signature: "signed"}}, FinishReason: message.FinishStop}
	if len(results) > 0 || !strings.Contains(order, ":") {
		reply.Text = order + " -> " + strings.Join(results, ", ")
		return reply, nil
	}
	for i, word := range strings.Fields(order)[1:] {
		name, argument, _ := strings.Cut(word, ":")
		reply.ToolCalls = append(reply.ToolCalls, reacttest.ToolCall(fmt.Sprintf("%s/%d", strings.Fields(order)[0], i), name, map[string]string{"arg": argument}))
	}
	return reply, nil
}

// pass is a run of the tree: where it comes from, what it brought, and what it left.
type pass struct {
	run         uuid.UUID
	base        []segment // before it, on its branch
	own         segment
	partial     bool // it began in the middle of the run of that segment
	checkpoints []checkpoint.Checkpoint
}

func (p *pass) last() checkpoint.Checkpoint { return p.checkpoints[len(p.checkpoints)-1] }

// garden is a session that grows branches.
type garden struct {
	t       testing.TB
	random  *rand.Rand
	agent   *react.Agent
	model   *teller
	session uuid.UUID
	passes  []*pass
	names   int
}

func newGarden(t testing.TB, st store.Store, random *rand.Rand) *garden {
	g := &garden{t: t, random: random, model: &teller{requests: map[uuid.UUID][]string{}}, session: uuid.New()}
	type in struct {
		Arg string `json:"arg"`
	}
	g.agent = newAgent(t, react.Config{
		Name: "garden", Store: st, Model: react.ModelFunc(g.model.generate),
		Prompt: react.TextPrompt("vars {{.ContextVars}} state {{.State}}"),
		Tools: []react.Tool{
			react.NewTool("put", "Puts.", func(ctx context.Context, in in) (string, error) {
				value, _ := json.Marshal(in.Arg)
				return "put " + in.Arg, react.UpdateContext(ctx, add("/"+in.Arg, string(value)))
			}),
			react.NewTool("fail", "Fails.", func(_ context.Context, in in) (string, error) { return "", fmt.Errorf("no %s", in.Arg) }),
			react.NewTool("note", "Notes.", func(_ context.Context, in in) (react.ToolResult, error) {
				return react.ToolResult{Output: json.RawMessage(`"noted"`), StateUpdate: json.RawMessage(`[{"op":"add","path":"/messages/-","value":{"role":"system","content":"note ` + in.Arg + `"}}]`)}, nil
			}),
			react.NewTool("ask", "Asks.", func(ctx context.Context, in in) (string, error) {
				return graph.Interrupt[string](ctx, "", "may I "+in.Arg)
			}),
		},
	})
	return g
}

// words makes a message that no other one is like.
func (g *garden) words() spec {
	g.names++
	s := spec{text: fmt.Sprint("m", g.names)}
	for _, name := range []string{"put", "put", "fail", "note", "ask"} {
		if g.random.IntN(4) == 0 {
			g.names++
			s.text += fmt.Sprintf(" %s:k%d", name, g.names)
		}
	}
	if g.random.IntN(3) == 0 {
		s.context = map[string]any{fmt.Sprint("c", g.random.IntN(3)): g.names}
	}
	switch g.random.IntN(6) {
	case 0:
		s.vars = react.Set([]react.ContextVar{{Description: "d", Value: fmt.Sprint(g.names)}})
	case 1:
		s.vars = react.Set[[]react.ContextVar](nil)
	}
	return s
}

// next says what a run from a checkpoint brings, and which branch that makes; nil if nothing
// that can be told apart from it would lead there.
func (g *garden) next(from *pass, c checkpoint.Checkpoint) *pass {
	all := append(slices.Clone(from.base), from.own)
	again := func() *pass { return &pass{base: from.base, own: from.own, partial: true} }
	switch {
	case c.Reason == checkpoint.Interrupt && g.random.IntN(2) == 0:
		var m struct {
			Payload struct{ Interrupts []struct{ ID string } } `json:"interrupt_payload"`
		}
		require.NoError(g.t, json.Unmarshal(c.Metadata, &m))
		answers := map[string]string{}
		for _, q := range m.Payload.Interrupts {
			answers[q.ID] = fmt.Sprint("yes", g.names)
		}
		text, err := json.Marshal(answers)
		require.NoError(g.t, err)
		return &pass{base: all, own: segment{{answer: string(text)}}}
	case c.Reason == checkpoint.Finish || c.Reason == checkpoint.Interrupt || c.Node == "exit" || c.Node == "call_model" && c.Next == "exit":
		return &pass{base: all, own: segment{g.words()}}
	case c.Node == "entrypoint": // with the input, before anything was done with it
		if from.partial || g.random.IntN(2) == 0 {
			return again()
		}
		return &pass{base: from.base, own: append(slices.Clone(from.own), g.words())}
	case c.Reason == checkpoint.Step: // in the middle
		return again()
	}
	return nil
}

// grow does one more run, on the latest branch or from anywhere.
func (g *garden) grow() {
	var p *pass
	in := react.Input{}
	switch {
	case len(g.passes) == 0:
		p = &pass{own: segment{g.words()}}
		in = p.own.input()
	case g.random.IntN(3) > 0:
		from := g.passes[len(g.passes)-1]
		p = g.next(from, from.last())
		in = p.own.input()
	default:
		var c checkpoint.Checkpoint
		for p == nil {
			from := g.passes[g.random.IntN(len(g.passes))]
			c = from.checkpoints[g.random.IntN(len(from.checkpoints))]
			p = g.next(from, c)
		}
		switch {
		case p.partial:
		case c.Node == "entrypoint":
			in = p.own[len(p.own)-1:].input()
		default:
			in = p.own.input()
		}
		in.Checkpoint = c.ID
	}
	g.do(p, in)
	g.passes = append(g.passes, p)
}

// do does a run to its end.
func (g *garden) do(p *pass, in react.Input) {
	in.Session = g.session
	run, err := g.agent.Start(g.t.Context(), in)
	require.NoError(g.t, err)
	_, err = run.Wait(g.t.Context())
	if err != nil {
		require.ErrorIs(g.t, err, graph.ErrInterrupted)
	}
	p.run = run.ID()
	page, err := g.agent.Checkpoints(g.t.Context(), store.CheckpointQuery{Session: g.session, Runs: []uuid.UUID{p.run}})
	require.NoError(g.t, err)
	p.checkpoints = page.Items
	slices.Reverse(p.checkpoints)
}

// shape is what a checkpoint holds.
func shape(t testing.TB, agent *react.Agent, c checkpoint.Checkpoint) string {
	t.Helper()
	_, s, err := agent.Checkpoint(t.Context(), "", c.ID)
	require.NoError(t, err)
	var values map[string]any
	require.NoError(t, json.Unmarshal(s.Context, &values))
	return fmt.Sprintf("%s %s\n%s\ncontext %v\nvars %v", c.Reason, c.Status, strings.Join(talk(s.Messages), "\n"), values, s.ContextVars)
}

// alone does the segments in a session of their own. It returns what that leaves, and what the
// model was asked in the last run.
func alone(t testing.TB, segments []segment) (string, []string) {
	t.Helper()
	g := newGarden(t, memory.New(nil), nil)
	var p pass
	for _, s := range segments {
		g.do(&p, s.input())
	}
	return shape(t, g.agent, p.last()), g.model.requests[p.run]
}

// check compares each branch with a session that only ever had that branch's inputs.
func (g *garden) check(agent *react.Agent) {
	for i, p := range g.passes {
		want, asked := alone(g.t, append(slices.Clone(p.base), p.own))
		require.Equal(g.t, want, shape(g.t, agent, p.last()), "branch of run %d", i)
		got := g.model.requests[p.run]
		if p.partial {
			require.GreaterOrEqual(g.t, len(asked), len(got))
			asked = asked[len(asked)-len(got):]
		}
		if len(asked) == 0 {
			asked = nil
		}
		require.Equal(g.t, asked, got, "what the model was asked in run %d", i)
	}
}

// branches grows a garden from a seed on a store and checks it. Reopen returns the store as
// another process finds it.
func branches(t testing.TB, seed uint64, st store.Store, reopen func() store.Store) {
	t.Helper()
	t.Logf("seed %d", seed)
	g := newGarden(t, st, rand.New(rand.NewPCG(seed, 1)))
	for range 3 + g.random.IntN(8) {
		g.grow()
	}
	g.check(g.agent)
	// Another process finds the same, and goes on from it.
	later := newGarden(t, reopen(), g.random)
	later.session, later.passes, later.names = g.session, g.passes, g.names
	for _, p := range g.passes {
		later.model.requests[p.run] = g.model.requests[p.run]
	}
	later.check(later.agent)
	for range 3 {
		later.grow()
	}
	later.check(later.agent)
}

func TestEachBranchIsWhatASessionWithOnlyItsInputsWouldBe(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		t.Run(fmt.Sprint("memory ", seed), func(t *testing.T) {
			t.Parallel()
			st := memory.New(nil)
			branches(t, seed, st, func() store.Store { return st })
		})
	}
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("sqlite ", seed), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "garden.db")
			st := openSQLite(t, path)
			branches(t, seed, st, func() store.Store {
				require.NoError(t, st.Close())
				return openSQLite(t, path)
			})
		})
	}
}

func FuzzBranches(f *testing.F) {
	for _, seed := range []uint64{1, 42, 1 << 40} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		st := memory.New(nil)
		branches(t, seed, st, func() store.Store { return st })
	})
}
