package react_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/react/reacttest"
	"github.com/everstep-go/everstep/store"
	"github.com/everstep-go/everstep/store/memory"
	"github.com/everstep-go/everstep/store/sqlite"
)

// bundle is what most tests need: an agent, the script that its model follows, its store, and a
// session to talk in.
type bundle struct {
	agent   *react.Agent
	script  *reacttest.Script
	store   store.Store
	session uuid.UUID
}

// setup makes a bundle. What the config leaves out is filled in: a memory store, a model that
// follows the steps, a logger that says nothing.
func setup(t testing.TB, c react.Config, steps ...reacttest.Step) *bundle {
	t.Helper()
	b := &bundle{script: reacttest.NewScript(steps...), store: c.Store, session: uuid.New()}
	if b.store == nil {
		b.store = memory.New(nil)
	}
	c.Store = b.store
	if c.Model == nil {
		c.Model = b.script
	}
	b.agent = newAgent(t, c)
	return b
}

func newAgent(t testing.TB, c react.Config) *react.Agent {
	t.Helper()
	if c.Name == "" {
		c.Name = "tester"
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	agent, err := react.New(c)
	require.NoError(t, err)
	return agent
}

// eachStore runs a test on every store.
func eachStore(t *testing.T, test func(t *testing.T, st store.Store)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		test(t, memory.New(nil))
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, openSQLite(t, filepath.Join(t.TempDir(), "react.db")))
	})
}

func openSQLite(t testing.TB, path string) store.Store {
	t.Helper()
	st, err := sqlite.Open(path, &sqlite.Options{Synchronous: sqlite.Normal})
	require.NoError(t, err)
	t.Cleanup(func() { _ = st.Close() })
	return st
}

// inBubble runs a test with a clock of its own. What the test leaves running has an hour of that
// clock to end.
func inBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Hour) })
		test(t)
	})
}

// run does an attached run in the session and returns its events.
func (b *bundle) run(t testing.TB, in react.Input) []event.Event {
	t.Helper()
	if in.Session == uuid.Nil {
		in.Session = b.session
	}
	var events []event.Event
	for e, err := range b.agent.Run(t.Context(), in) {
		require.NoError(t, err)
		events = append(events, e)
	}
	require.NotEmpty(t, events)
	require.Equal(t, event.KindRunStarted, events[0].Data.Kind(), "the first event")
	for i, e := range events {
		require.Equal(t, i == len(events)-1, event.Terminal(e.Data), "the terminal event is the last one")
		require.EqualValues(t, i+1, e.Seq, "events are numbered from 1")
	}
	return events
}

// ask runs with one user message.
func (b *bundle) ask(t testing.TB, text string) []event.Event {
	t.Helper()
	return b.run(t, user(text))
}

// start begins a detached run in the session.
func (b *bundle) start(t testing.TB, in react.Input) *graph.Run[react.State] {
	t.Helper()
	if in.Session == uuid.Nil {
		in.Session = b.session
	}
	run, err := b.agent.Start(t.Context(), in)
	require.NoError(t, err)
	return run
}

// state is what the next plain run starts from.
func (b *bundle) state(t testing.TB) react.State {
	t.Helper()
	s, err := b.agent.State(t.Context(), "", b.session)
	require.NoError(t, err)
	return s
}

// checkpoints are those of the session, oldest first, as reason/node.
func (b *bundle) checkpoints(t testing.TB) []string {
	t.Helper()
	page, err := b.agent.Checkpoints(t.Context(), store.CheckpointQuery{Session: b.session})
	require.NoError(t, err)
	var list []string
	for _, c := range page.Items {
		list = append([]string{string(c.Reason) + "/" + c.Node}, list...)
	}
	return list
}

func user(text string) react.Input {
	return react.Input{Messages: []message.Message{message.NewUser(text)}}
}

func with(messages ...message.Message) react.Input { return react.Input{Messages: messages} }

func resume(payload string) react.Input { return react.Input{Resume: json.RawMessage(payload)} }

// kinds are the kinds of the events between the first and the last one.
func kinds(events []event.Event) string {
	var list []string
	for _, e := range events[1 : len(events)-1] {
		list = append(list, string(e.Data.Kind()))
	}
	return strings.Join(list, " ")
}

// tell is what the events say, a line each, without what differs by chance; text and reasoning
// pieces are told as they come.
func tell(events []event.Event) []string {
	var story []string
	say := func(d event.Data, format string, args ...any) {
		story = append(story, strings.TrimSpace(string(d.Kind())+" "+fmt.Sprintf(format, args...)))
	}
	for _, e := range events {
		switch d := e.Data.(type) {
		case event.RunStarted:
		case event.RunFinished:
			say(d, "%s %s", d.Status, d.InterruptPayload)
		case event.RunError:
			say(d, "%s", d.Code)
		case event.TextMessageContent:
			say(d, "%q", d.Delta)
		case event.ReasoningMessageContent:
			say(d, "%q", d.Delta)
		case event.ReasoningSignature:
			say(d, "%s", d.Value)
		case event.ToolCallStart:
			say(d, "%s %s", d.ToolCallID, d.ToolName)
		case event.ToolCallArgs:
			say(d, "%s %s", d.ToolCallID, d.Delta)
		case event.ToolCallEnd:
			say(d, "%s", d.ToolCallID)
		case event.ToolCallResult:
			say(d, "%s %s", d.ToolCallID, d.Content)
		case event.ToolCallError:
			say(d, "%s %s", d.ToolCallID, d.Code)
		case event.ActivityDelta:
			say(d, "%s %s", d.ToolCallID, d.ActivityType)
		case event.StateSnapshot:
			say(d, "%s", d.State)
		case event.StateDelta:
			text, _ := json.Marshal(d.Delta)
			say(d, "%s", text)
		default:
			say(d, "")
		}
	}
	return story
}

// last is the last event.
func last(events []event.Event) event.Data { return events[len(events)-1].Data }

// talk is a conversation, a line each.
func talk(messages []message.Message) []string {
	var lines []string
	for _, m := range messages {
		line := string(m.Role())
		switch m := m.(type) {
		case *message.System:
			line += fmt.Sprintf(" %q", m.Content)
		case *message.User:
			for _, block := range m.Content {
				if text, ok := block.(message.Text); ok {
					line += fmt.Sprintf(" %q", text.Value)
				}
			}
		case *message.Assistant:
			if m.Content != "" {
				line += fmt.Sprintf(" %q", m.Content)
			}
			for _, c := range m.ToolCalls {
				line += fmt.Sprintf(" %s:%s", c.ID, c.Name)
			}
		case *message.Tool:
			line += " " + m.ToolCallID
			if m.Content != nil {
				line += fmt.Sprintf(" %q", *m.Content)
			}
			if m.Error != "" {
				line += fmt.Sprintf(" error %q", m.Error)
			}
		case *message.Reasoning:
			line += fmt.Sprintf(" %q %q", m.Content, m.Signature)
		}
		if h := m.Head(); h.Metadata != nil {
			line += " " + string(h.Metadata)
		}
		lines = append(lines, line)
	}
	return lines
}

// roles are the roles of a conversation.
func roles(messages []message.Message) string {
	var list []string
	for _, m := range messages {
		list = append(list, string(m.Role()))
	}
	return strings.Join(list, " ")
}

// find returns the one event of a type.
func find[D event.Data](t testing.TB, events []event.Event) D {
	t.Helper()
	var found []D
	for _, e := range events {
		if d, ok := e.Data.(D); ok {
			found = append(found, d)
		}
	}
	require.Len(t, found, 1)
	return found[0]
}

func call(id, name string) message.ToolCall { return reacttest.ToolCall(id, name, `{}`) }

// clientTool is a tool that only the client can execute.
func clientTool(names ...string) react.Optional[[]message.ToolSpec] {
	var specs []message.ToolSpec
	for _, name := range names {
		specs = append(specs, message.ToolSpec{Name: name, Description: "The client's.", Parameters: json.RawMessage(`{"type":"object"}`)})
	}
	return react.Set(specs)
}

type nothing struct{}

// tool is a tool without arguments.
func tool(name string, do func(ctx context.Context) (any, error), opts ...*react.ToolOptions) react.Tool {
	return react.NewTool(name, "Does "+name+".", func(ctx context.Context, _ nothing) (any, error) { return do(ctx) }, opts...)
}

// returns is a tool that always returns the same.
func returns(name string, value any) react.Tool {
	return tool(name, func(context.Context) (any, error) { return value, nil })
}

// counter counts by name. It is safe for concurrent use.
type counter struct {
	mu    sync.Mutex
	count map[string]int
}

func (c *counter) add(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count == nil {
		c.count = map[string]int{}
	}
	c.count[name]++
	return c.count[name]
}

func (c *counter) of(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count[name]
}

// bus tells a test of every event, before anybody else.
type bus struct {
	event.Bus
	heard func(event.Event)
}

func listen(heard func(event.Event)) bus { return bus{event.NewMemory(nil), heard} }

func (b bus) Publish(e event.Event) {
	b.heard(e)
	b.Bus.Publish(e)
}
