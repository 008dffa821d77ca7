package reflex_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/graph/graphtest"
	"github.com/everstep-go/everstep/reflex"
	"github.com/everstep-go/everstep/store"
	"github.com/everstep-go/everstep/store/memory"
)

// coverage sees the edges that all tests of the package take.
var coverage graphtest.Coverage

// chat is a channel in memory.
type chat struct {
	id       string
	agents   []string
	strategy reflex.Strategy
	recap    int

	mu     sync.Mutex // guards what follows
	drawn  []string
	opened map[string]reflex.Address // by key
	refuse error                     // of OpenThread and OpenDM
	reuse  *reflex.Address           // OpenThread returns this
	dms    *reflex.Address           // OpenDM returns this
	// dmsOpened is how often it was asked for direct messages.
	dmsOpened int
	fail      error // of Draw
}

func newChat(id string, agents ...string) *chat {
	return &chat{id: id, agents: agents, strategy: reflex.FlatThreads, recap: 3, opened: map[string]reflex.Address{}}
}

func (c *chat) ID() string                { return c.id }
func (c *chat) Agents() []string          { return c.agents }
func (c *chat) Strategy() reflex.Strategy { return c.strategy }
func (c *chat) Recap() (int, int)         { return c.recap, 200 }

func (c *chat) OpenThread(_ context.Context, r reflex.OpenRequest) (reflex.Address, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refuse != nil {
		return reflex.Address{}, c.refuse
	}
	if c.reuse != nil {
		return *c.reuse, nil
	}
	if at, ok := c.opened[r.Key]; ok {
		return at, nil
	}
	at := r.At
	if at.Chat == "" {
		at = reflex.Address{Channel: c.id, Type: reflex.Group, Chat: "home", Shared: true}
	}
	at.Thread = fmt.Sprintf("t%d", len(c.opened)+1)
	c.opened[r.Key] = at
	return at, nil
}

func (c *chat) OpenDM(_ context.Context, r reflex.OpenRequest) (reflex.Address, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refuse != nil {
		return reflex.Address{}, c.refuse
	}
	if c.dmsOpened++; c.dms != nil {
		return *c.dms, nil
	}
	return dm(c.id, r.Profile.ID), nil
}

func (c *chat) Draw(_ context.Context, e reflex.Event) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fail != nil {
		return "", c.fail
	}
	c.drawn = append(c.drawn, e.Data.Kind())
	switch e.Data.(type) {
	case reflex.ReplyGiven, reflex.MessageSent, reflex.Moved:
		return fmt.Sprintf("%s-%d", c.id, len(c.drawn)), nil
	}
	return "", nil
}

func (c *chat) set(change func(*chat)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(c)
}

// turn is what a fake agent does in a run.
type turn func(ctx context.Context, r *reflex.RunRequest, yield func(reflex.Progress)) (reflex.RunResult, error)

// fake is an agent that does what the test says.
type fake struct {
	id     string
	models []string

	mu    sync.Mutex // guards what follows
	turns []turn     // one for each run; the last one again and again
	asked []reflex.RunRequest
	forks []string
	fork  error
}

func newFake(id string, turns ...turn) *fake {
	return &fake{id: id, models: []string{"small", "vendor/large"}, turns: turns}
}

func (a *fake) ID() string       { return a.id }
func (a *fake) Models() []string { return a.models }

func (a *fake) then(turns ...turn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.turns = turns
}

func (a *fake) next(r *reflex.RunRequest) turn {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, *r)
	if len(a.turns) == 0 {
		return replies("done")
	}
	t := a.turns[0]
	if len(a.turns) > 1 {
		a.turns = a.turns[1:]
	}
	return t
}

// requests returns what the agent was asked.
func (a *fake) requests() []reflex.RunRequest {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]reflex.RunRequest(nil), a.asked...)
}

func (a *fake) last() reflex.RunRequest {
	all := a.requests()
	if len(all) == 0 {
		return reflex.RunRequest{}
	}
	return all[len(all)-1]
}

func (a *fake) Run(ctx context.Context, r *reflex.RunRequest) iter.Seq2[reflex.Progress, error] {
	do := a.next(r)
	return func(yield func(reflex.Progress, error) bool) {
		more := true
		result, err := do(ctx, r, func(p reflex.Progress) { more = more && yield(p, nil) })
		switch {
		case !more:
		case errors.Is(err, errSilent):
		case err != nil:
			yield(reflex.Progress{}, err)
		default:
			if result.Run == uuid.Nil {
				result.Run = r.Run
			}
			yield(reflex.Progress{Result: &result}, nil)
		}
	}
}

func (a *fake) Fork(_ context.Context, from, to reflex.Conversation) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fork != nil {
		return a.fork
	}
	a.forks = append(a.forks, from.Thread+" -> "+to.Thread)
	return nil
}

// errSilent ends a run without a result.
var errSilent = errors.New("silent")

func say(text string) reflex.Progress {
	return reflex.Progress{Event: event.TextMessageContent{Delta: text}}
}

func replies(text string) turn {
	return func(_ context.Context, _ *reflex.RunRequest, yield func(reflex.Progress)) (reflex.RunResult, error) {
		yield(say(text))
		return reflex.RunResult{Output: reflex.Text(text), Message: uuid.New()}, nil
	}
}

func fails(err error) turn {
	return func(context.Context, *reflex.RunRequest, func(reflex.Progress)) (reflex.RunResult, error) {
		return reflex.RunResult{}, err
	}
}

// cancels cancels its pass and ends with it.
func cancels(cancel func()) turn {
	return func(ctx context.Context, _ *reflex.RunRequest, _ func(reflex.Progress)) (reflex.RunResult, error) {
		cancel()
		<-ctx.Done()
		return reflex.RunResult{}, context.Cause(ctx)
	}
}

func summons(agent string) turn {
	return func(_ context.Context, r *reflex.RunRequest, _ func(reflex.Progress)) (reflex.RunResult, error) {
		return reflex.RunResult{Output: reflex.Text("over to " + agent)}, r.Session.Summon(reflex.HandoffDecision{Agent: agent, Brief: "brief for " + agent})
	}
}

func schemes(d reflex.PrivateHandoffDecision) turn {
	return func(ctx context.Context, r *reflex.RunRequest, _ func(reflex.Progress)) (reflex.RunResult, error) {
		return reflex.RunResult{Output: reflex.Text("see you in private")}, r.Session.Scheme(ctx, d)
	}
}

func moves(m reflex.RelocateRequest) turn {
	return func(ctx context.Context, r *reflex.RunRequest, _ func(reflex.Progress)) (reflex.RunResult, error) {
		return reflex.RunResult{}, r.Suspender.Suspend(ctx, []reflex.DeferredCall{{ID: "move", Kind: reflex.MoveCall, Move: &m}})
	}
}

var approval = reflex.DeferredCall{ID: "pay", Kind: reflex.ApprovalCall, Tool: "pay", Title: "Pay?"}

var question = reflex.DeferredCall{ID: "ask", Kind: reflex.QuestionCall, Questions: []reflex.QuestionText{{Text: "Red or blue?", Choices: []string{"red", "blue"}}, {Text: "Why?"}}}

func suspends(calls ...reflex.DeferredCall) turn {
	return func(ctx context.Context, r *reflex.RunRequest, yield func(reflex.Progress)) (reflex.RunResult, error) {
		yield(say("wait"))
		return reflex.RunResult{Deferred: calls}, r.Suspender.Suspend(ctx, calls)
	}
}

func pauses(calls ...reflex.DeferredCall) turn {
	return func(ctx context.Context, r *reflex.RunRequest, yield func(reflex.Progress)) (reflex.RunResult, error) {
		yield(say("wait"))
		results, err := r.Suspender.Pause(ctx, calls)
		if err != nil {
			return reflex.RunResult{}, err
		}
		return reflex.RunResult{Output: reflex.Text(results.Prompt(calls))}, nil
	}
}

func dm(channel, user string) reflex.Address {
	return reflex.Address{Channel: channel, Type: reflex.DM, Chat: user, User: user}
}

func group(channel, name, user string) reflex.Address {
	return reflex.Address{Channel: channel, Type: reflex.Group, Chat: name, User: user, Shared: true}
}

func thread(channel, id, user string) reflex.Address {
	return reflex.Address{Channel: channel, Type: reflex.Group, Chat: "home", User: user, Thread: id, Shared: true}
}

var (
	ada  = reflex.Profile{Channel: "lobby", ID: "ada", Name: "Ada", User: "u-ada"}
	desk = reflex.Profile{Channel: "desk", ID: "ada.l", Name: "Ada L.", User: "u-ada"}
	bob  = reflex.Profile{Channel: "lobby", ID: "bob", Name: "Bob"}
)

// users are those of a directory that may be replaced.
type users struct {
	mu sync.Mutex // guards what follows
	reflex.Directory
}

func (u *users) set(d reflex.Directory) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.Directory = d
}

func (u *users) Profile(ctx context.Context, channel, id string) (reflex.Profile, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.Directory.Profile(ctx, channel, id)
}

// bundle is an engine with two channels and two agents.
type bundle struct {
	testing.TB
	store       store.Store
	lobby, desk *chat
	clerk       *fake
	coder       *fake
	users       *users
	config      reflex.Config
	engine      *reflex.Engine
	sub         *reflex.Subscription
}

func newBundle(t testing.TB, change ...func(*reflex.Config)) *bundle {
	t.Helper()
	b := &bundle{
		TB: t, store: memory.New(nil),
		lobby: newChat("lobby", "clerk", "coder"), desk: newChat("desk", "coder", "clerk"),
		clerk: newFake("clerk"), coder: newFake("coder"), users: &users{Directory: reflex.Directory{ada, desk, bob}},
	}
	b.config = reflex.Config{
		Store: b.store, Users: b.users, Logger: slog.New(slog.DiscardHandler), Observer: &coverage,
	}
	for _, c := range change {
		c(&b.config)
	}
	b.store = b.config.Store
	b.open()
	return b
}

// open makes an engine on what there is, as a new process would.
func (b *bundle) open() {
	b.Helper()
	c := b.config
	if c.Channels == nil {
		c.Channels = []reflex.Channel{b.lobby, b.desk}
	}
	if c.Agents == nil {
		c.Agents = []reflex.Agent{b.clerk, b.coder}
	}
	e, err := reflex.New(c)
	require.NoError(b, err)
	b.engine = e
	b.sub = e.Bus().Subscribe(reflex.Filter{All: true})
	b.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = e.Shutdown(ctx)
	})
}

// other is another process on the same store, with channels and agents of its own.
func (b *bundle) other(change ...func(*reflex.Config)) *bundle {
	b.Helper()
	return newBundle(b.TB, append([]func(*reflex.Config){func(c *reflex.Config) { c.Store = b.store }}, change...)...)
}

func inbound(user, text string) reflex.Inbound {
	return reflex.Inbound{User: user, Segments: reflex.Text(text)}
}

// say lets a person say something and waits for what becomes of it.
func (b *bundle) say(at reflex.Address, text string) (reflex.Outcome, error) {
	b.Helper()
	return b.engine.Say(b.Context(), at, inbound(at.User, text))
}

func (b *bundle) said(at reflex.Address, text string) reflex.Outcome {
	b.Helper()
	o, err := b.say(at, text)
	require.NoError(b, err)
	return o
}

func (b *bundle) kick(s reflex.Signal) (reflex.Outcome, error) {
	b.Helper()
	return b.engine.Kick(b.Context(), s)
}

// heard returns the events up to the next reflex_asleep, with it.
func (b *bundle) heard() []reflex.Event {
	b.Helper()
	return hear(b.Context(), b.sub)
}

func hear(ctx context.Context, sub *reflex.Subscription) []reflex.Event {
	var out []reflex.Event
	for e := range sub.Events(ctx) {
		if e.Data.Kind() == "render_failed" {
			continue
		}
		out = append(out, e)
		if _, ok := e.Data.(reflex.ReflexAsleep); ok {
			break
		}
	}
	return out
}

func kinds(events []reflex.Event) string {
	var out []string
	for _, e := range events {
		out = append(out, e.Data.Kind())
	}
	return strings.Join(out, " ")
}

// find returns the data of the first event of a type.
func find[T reflex.Data](t testing.TB, events []reflex.Event) (T, reflex.Event) {
	t.Helper()
	for _, e := range events {
		if d, ok := e.Data.(T); ok {
			return d, e
		}
	}
	var none T
	require.Failf(t, "not heard", "%T in %s", none, kinds(events))
	return none, reflex.Event{}
}

func (b *bundle) rows(surface reflex.Address) []reflex.Row {
	b.Helper()
	rows, err := b.engine.Books().Ledger.Rows(b.Context(), reflex.RowQuery{Surface: surface.ID()})
	require.NoError(b, err)
	return rows
}

// told prints the rows of a surface as "kind who: text".
func (b *bundle) told(surface reflex.Address) []string {
	b.Helper()
	out := []string{}
	for _, r := range b.rows(surface) {
		who := r.Agent
		if who == "" {
			who = r.Author.Name
		}
		out = append(out, fmt.Sprintf("%s %s: %s", r.Kind, who, r.Segments[0].Text))
	}
	return out
}

func (b *bundle) owners(surface reflex.Address) []string {
	b.Helper()
	all, err := b.engine.Books().Handoffs.History(b.Context(), surface.ID())
	require.NoError(b, err)
	out := []string{}
	for _, h := range all {
		out = append(out, h.Agent)
	}
	return out
}

func promptOf(r reflex.RunRequest) string {
	var out []string
	for _, s := range r.Prompt {
		out = append(out, s.Text)
	}
	return strings.Join(out, "|")
}

// batch returns the batch of an outcome.
func (b *bundle) batch(id string) reflex.Batch {
	b.Helper()
	batch, err := b.engine.Books().Batches.Batch(b.Context(), id)
	require.NoError(b, err)
	return batch
}

// answer makes an answer to everything in a batch.
func answer(batch reflex.Batch, who reflex.Profile) reflex.BatchSignal {
	a := reflex.BatchAnswer{Batch: batch.ID, Responder: who, Answers: map[string]string{}, Verdicts: map[string]reflex.Verdict{}}
	for i, action := range batch.Actions {
		if action.Kind == reflex.QuestionCall {
			a.Answers[action.ID] = fmt.Sprint("answer ", i)
		} else {
			a.Verdicts[action.ID] = reflex.Verdict{Approved: true}
		}
	}
	return reflex.BatchSignal{BatchAnswer: a}
}

// freeTurns requires that no conversation has a turn.
func (b *bundle) freeTurns() {
	b.Helper()
	for _, r := range append(b.clerk.requests(), b.coder.requests()...) {
		holder, err := b.engine.Books().Turns.Holder(b.Context(), r.Conversation.ID)
		require.NoError(b, err)
		require.Equal(b, uuid.Nil, holder)
	}
}
