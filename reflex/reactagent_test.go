package reflex_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/react/reacttest"
	"github.com/everstep-go/everstep/reflex"
	"github.com/everstep-go/everstep/store"
)

// reacting replaces the clerk by a react agent with a script.
func reacting(t *testing.T, opts reflex.ReactAgentOptions, steps ...reacttest.Step) (*bundle, *reacttest.Script, *[]string) {
	t.Helper()
	b := newBundle(t)
	script := reacttest.NewScript(steps...)
	paid := &[]string{}
	pay := react.NewTool("pay", "Pays.", func(_ context.Context, in struct {
		To string `json:"to"`
	}) (string, error) {
		*paid = append(*paid, in.To)
		return "paid " + in.To, nil
	}, &react.ToolOptions{Approval: true})
	a, err := react.New(react.Config{
		Name: "clerk", Model: script, Store: b.store, Logger: slog.New(slog.DiscardHandler),
		Tools: append(reflex.ControlTools(), pay, reflex.AskTool()),
	})
	require.NoError(t, err)
	opts.Store = b.store
	b.config.Agents = []reflex.Agent{reflex.NewReactAgent(a, &opts), b.coder}
	b.open()
	return b, script, paid
}

// results returns the tool results that the last request to the model has.
func results(script *reacttest.Script) string {
	all := script.Requests()
	var out []string
	for _, m := range all[len(all)-1].Messages {
		if r, ok := m.(*message.Tool); ok {
			out = append(out, r.Text())
		}
	}
	return strings.Join(out, "|")
}

func call(id, name string, arguments any) message.ToolCall {
	return reacttest.ToolCall(id, name, arguments)
}

var payAda = call("c1", "pay", map[string]string{"to": "Ada"})

func TestAnApprovalSuspendsAReactAgentAndTheAnswerBringsItBack(t *testing.T) {
	t.Parallel()
	for verdict, want := range map[bool]string{true: "paid Ada", false: "Error: too much"} {
		b, script, paid := reacting(t, reflex.ReactAgentOptions{}, reacttest.Call(payAda), reacttest.Say("settled"))
		o := b.said(dm("lobby", "ada"), "pay")
		require.Equal(t, reflex.OutcomeSuspended, o.Kind)
		require.Equal(t, reflex.ApprovalCall, o.Requests[0].Kind)
		require.Equal(t, "pay", o.Requests[0].Tool)
		require.JSONEq(t, `{"to":"Ada"}`, string(o.Requests[0].Arguments))
		require.Empty(t, *paid)
		batch := b.batch(o.Batch)
		o, err := b.kick(reflex.BatchSignal{BatchAnswer: reflex.BatchAnswer{
			Batch: batch.ID, Responder: ada, Verdicts: map[string]reflex.Verdict{batch.Actions[0].ID: {Approved: verdict, Reason: "too much"}},
		}})
		require.NoError(t, err)
		require.Equal(t, "settled", o.Text())
		require.Equal(t, want, results(script))
		require.Equal(t, verdict, len(*paid) == 1)
	}
}

func TestAPostureSettlesWhatPeopleAreNotAsked(t *testing.T) {
	t.Parallel()
	ask := call("c2", "ask", map[string]any{"questions": []map[string]string{{"text": "Why?"}}})
	for mode, want := range map[reflex.PermissionMode]string{
		reflex.BypassPermissions: "paid Ada|[\"Nobody is there to answer: decide yourself.\"]",
		reflex.DontAsk:           "Error: nobody is asked in this conversation: go on without it|[\"Nobody is there to answer: decide yourself.\"]",
	} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			at := thread("lobby", "t", "ada")
			b, script, _ := reacting(t, reflex.ReactAgentOptions{}, reacttest.Say("hello"), reacttest.Call(payAda, ask), reacttest.Say("settled"))
			b.said(at, "hi")
			kick, err := b.engine.Books().Handoffs.Owner(t.Context(), at.ID())
			require.NoError(t, err)
			_, err = b.engine.Books().Conversations.Change(t.Context(), kick.To, func(c *reflex.Conversation) { c.Mode = mode })
			require.NoError(t, err)
			o := b.said(at, "pay")
			require.Equal(t, "settled", o.Text())
			require.Equal(t, want, results(script))
			require.Empty(t, open(t, b))
		})
	}
}

func TestAQuestionOfAReactAgentIsAnsweredInOrder(t *testing.T) {
	t.Parallel()
	ask := call("c2", "ask", map[string]any{"questions": []map[string]any{{"text": "Which?", "choices": []string{"a", "b"}}, {"text": "Why?"}}})
	b, script, _ := reacting(t, reflex.ReactAgentOptions{}, reacttest.Call(ask), reacttest.Say("thanks"))
	o := b.said(dm("lobby", "ada"), "go")
	require.Equal(t, reflex.QuestionCall, o.Requests[0].Kind)
	o, err := b.kick(answer(b.batch(o.Batch), ada))
	require.NoError(t, err)
	require.Equal(t, "thanks", o.Text())
	require.Equal(t, `["answer 0","answer 1"]`, results(script))
}

func TestANewPromptSettlesWhatAReactAgentHadAsked(t *testing.T) {
	t.Parallel()
	at := thread("lobby", "t", "ada")
	b, script, paid := reacting(t, reflex.ReactAgentOptions{}, reacttest.Call(payAda), reacttest.Say("as you like"))
	b.said(at, "pay")
	o := b.said(at, "never mind")
	require.Equal(t, "as you like", o.Text())
	require.Equal(t, "Error: not answered", results(script))
	require.Empty(t, *paid)
}

func TestAReactAgentMayStayAliveWhilePeopleAreAsked(t *testing.T) {
	t.Parallel()
	b, script, paid := reacting(t, reflex.ReactAgentOptions{Live: true}, reacttest.Call(payAda), reacttest.Say("settled"))
	batches, done := live(t, b, dm("lobby", "ada"), 1)
	require.Equal(t, reflex.Live, batches[0].Mode)
	_, err := b.kick(answer(batches[0], ada))
	require.NoError(t, err)
	require.Equal(t, "settled", (<-done).Text())
	require.Equal(t, "paid Ada", results(script))
	require.Len(t, *paid, 1)
}

func TestAReactAgentMovesWithItsHistoryAndHearsWhereItIs(t *testing.T) {
	t.Parallel()
	move := call("m1", "teleport", map[string]string{"channel": "desk", "hint": "off to the desk"})
	b, script, _ := reacting(t, reflex.ReactAgentOptions{}, reacttest.Call(move), reacttest.Say("here I am"))
	o := b.said(dm("lobby", "ada"), "go to the desk")
	require.Equal(t, []string{"awake", "route", "react", "teleport", "react"}, o.Path)
	require.Equal(t, "here I am", o.Text())
	require.Contains(t, results(script), "You are now in desk:group:home:t1.")
	all := script.Requests()
	require.Len(t, all[1].Messages, 3, "the prompt, its own call, the answer to it")
	require.Equal(t, message.RoleAssistant, all[1].Messages[1].Role())
}

func TestAMoveBesideOtherCallsIsRefusedToTheModelAndTheRestIsAsked(t *testing.T) {
	t.Parallel()
	move := call("m1", "teleport", map[string]string{"channel": "desk", "hint": "h"})
	b, script, _ := reacting(t, reflex.ReactAgentOptions{}, reacttest.Call(payAda, move), reacttest.Say("settled"))
	o := b.said(dm("lobby", "ada"), "go")
	require.Equal(t, reflex.OutcomeSuspended, o.Kind)
	require.Len(t, o.Requests, 1)
	o, err := b.kick(answer(b.batch(o.Batch), ada))
	require.NoError(t, err)
	require.Equal(t, "settled", o.Text())
	require.Equal(t, "paid Ada|not moved: ask for a move alone, beside no other call", results(script))
	require.Empty(t, b.desk.opened)
}

func TestTheControlToolsSteerTheTurnAndTellTheModelWhyNot(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		call message.ToolCall
		want string
		path int
	}{
		{"inspect", call("c", "inspect", "{}"), `"agents":[{"agent":"coder","models":["small","vendor/large"]}]`, 3},
		{"send", call("c", "send", map[string]string{"text": "x"}), "said here", 3},
		{"send nothing", call("c", "send", map[string]string{"text": " "}), "nothing to send", 3},
		{"dismiss", call("c", "dismiss", "{}"), "goes when the turn is over", 3},
		{"summon", call("c", "summon", map[string]string{"agent": "coder", "brief": "b"}), "takes over", 5},
		{"summon oneself", call("c", "summon", map[string]string{"agent": "clerk", "brief": "b"}), "that is you", 3},
		{"scheme in private", call("c", "scheme", map[string]string{"brief": "b", "hint": "h"}), "private already", 3},
		{"teleport to nowhere", call("c", "teleport", map[string]string{"channel": "nowhere", "hint": "h"}), "unknown channel", 3},
		{"ask nothing", call("c", "ask", map[string]any{"questions": []string{}}), "there is no question", 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b, script, _ := reacting(t, reflex.ReactAgentOptions{}, reacttest.Call(tt.call), reacttest.Say("done"))
			o := b.said(dm("lobby", "ada"), "go")
			require.Contains(t, results(script), tt.want)
			require.Len(t, o.Path, tt.path)
		})
	}
}

func TestOutsideOfATurnTheControlToolsSaySo(t *testing.T) {
	t.Parallel()
	for _, tool := range reflex.ControlTools() {
		name := tool.Spec().Name
		arguments := map[string]string{
			"summon": `{"agent":"a","brief":"b"}`, "scheme": `{"brief":"b","hint":"h"}`, "send": `{"text":"x"}`,
			"teleport": `{"hint":"h"}`, "inspect": `{}`, "dismiss": `{}`,
		}[name]
		_, err := tool.Call(t.Context(), react.ToolCall{Name: name, Arguments: json.RawMessage(arguments)})
		require.Error(t, err, name)
	}
}

func TestAToolThatPanicsDoesNotEndTheRun(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	script := reacttest.NewScript(reacttest.Call(call("c", "boom", "{}")), reacttest.Say("I go on"))
	boom := react.NewTool("boom", "x", func(context.Context, struct{}) (string, error) { panic("boom") })
	a, err := react.New(react.Config{Name: "clerk", Model: script, Store: b.store, Logger: slog.New(slog.DiscardHandler), Tools: []react.Tool{boom}})
	require.NoError(t, err)
	b.config.Agents = []reflex.Agent{reflex.NewReactAgent(a, nil), b.coder}
	b.open()
	require.Equal(t, "I go on", b.said(dm("lobby", "ada"), "go").Text())
	_, err = b.say(dm("lobby", "ada"), "the script is at its end")
	require.ErrorContains(t, err, "model")
	b.freeTurns()
}

func TestAFailedResumeOfAReactAgentIsTriedAgainWithTheSameAnswers(t *testing.T) {
	t.Parallel()
	b, script, paid := reacting(t, reflex.ReactAgentOptions{},
		reacttest.Call(payAda), reacttest.Fail(context.DeadlineExceeded), reacttest.Say("settled"))
	batch := b.batch(b.said(dm("lobby", "ada"), "pay").Batch)
	_, err := b.kick(answer(batch, ada))
	require.Error(t, err)
	require.Equal(t, reflex.BatchResolved, b.batch(batch.ID).Status)
	o, err := b.kick(reflex.BatchSignal{BatchAnswer: reflex.BatchAnswer{Batch: batch.ID}})
	require.NoError(t, err)
	require.Equal(t, "settled", o.Text())
	require.Equal(t, "paid Ada", results(script))
	require.Len(t, *paid, 1, "the tool's result was kept")
}

func TestTheModeIsAskedAtEachQuestionAndNotOnce(t *testing.T) {
	t.Parallel()
	at := thread("lobby", "t", "ada")
	var b *bundle
	mode := func(mode reflex.PermissionMode) {
		owner, err := b.engine.Books().Handoffs.Owner(t.Context(), at.ID())
		require.NoError(t, err)
		_, err = b.engine.Books().Conversations.Change(t.Context(), owner.To, func(c *reflex.Conversation) { c.Mode = mode })
		require.NoError(t, err)
	}
	second := reacttest.Call(call("c2", "pay", map[string]string{"to": "Bob"}))
	second.Before = func(context.Context, *message.Request) error {
		mode(reflex.AskPeople) // somebody got worried while the run went on
		return nil
	}
	var paid *[]string
	b, _, paid = reacting(t, reflex.ReactAgentOptions{}, reacttest.Say("hello"), reacttest.Call(payAda), second)
	b.said(at, "hi")
	mode(reflex.BypassPermissions)
	o := b.said(at, "pay both")
	require.Equal(t, reflex.OutcomeSuspended, o.Kind)
	require.Equal(t, []string{"Ada"}, *paid)
	require.JSONEq(t, `{"to":"Bob"}`, string(o.Requests[0].Arguments))
	// The prompt was bound once, although the agent ran twice for it.
	require.Equal(t, b.rows(at)[2].Bound.Run, b.batchRun(o.Batch))
}

// batchRun is the run that asked a batch, as its events name it.
func (b *bundle) batchRun(batch string) (run uuid.UUID) {
	b.sub.Close()
	for e := range b.sub.Events(b.Context()) {
		switch d := e.Data.(type) {
		case reflex.RunStarted:
			run = d.Run
		case reflex.BatchAsked:
			if d.Batch == batch {
				return run
			}
		}
	}
	return uuid.Nil
}

func TestAReplyIsBoundToTheMessageOfTheModel(t *testing.T) {
	t.Parallel()
	b, _, _ := reacting(t, reflex.ReactAgentOptions{}, reacttest.Say("hello"))
	at := thread("lobby", "t", "ada")
	o := b.said(at, "hi")
	bound := b.rows(at)[o.Row.Seq-1].Bound
	c, err := b.engine.Books().Conversations.Conversation(t.Context(), bound.Conversation)
	require.NoError(t, err)
	require.Equal(t, c.LastMessage, bound.Message)
	page, err := b.store.Messages(t.Context(), &store.MessageQuery{Tenant: "default", Session: c.Session})
	require.NoError(t, err)
	require.Len(t, page.Items, 2)
	require.Contains(t, []uuid.UUID{page.Items[0].ID, page.Items[1].ID}, bound.Message)
	require.Equal(t, "hello", o.Text())
}

func TestAReactAgentGrantsWhatThePersonBrings(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		policy react.CapabilityPolicy
		user   string
		tools  int
		fails  bool
	}{
		"a known person":   {react.PolicyExtensible, "ada", 1, false},
		"somebody unknown": {react.PolicyExtensible, "bob", 0, false},
		"a locked agent":   {react.PolicyLocked, "ada", 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t, func(c *reflex.Config) { c.Capabilities = (&people{}).capabilities })
			script := reacttest.NewScript(reacttest.Say("hello"), reacttest.Say("hello"))
			calendar := react.NewTool("calendar", "Reads it.", func(context.Context, struct{}) (string, error) { return "", nil },
				&react.ToolOptions{Capabilities: []string{"u-ada::calendar"}})
			a, err := react.New(react.Config{
				Name: "clerk", Model: script, Store: b.store, Logger: slog.New(slog.DiscardHandler), Tools: []react.Tool{calendar}, CapabilityPolicy: tt.policy,
			})
			require.NoError(t, err)
			b.config.Agents = []reflex.Agent{reflex.NewReactAgent(a, nil), b.coder}
			b.open()
			at := thread("lobby", "t", tt.user)
			_, err = b.say(at, "hi")
			if tt.fails {
				require.ErrorContains(t, err, "capabilit")
				return
			}
			require.NoError(t, err)
			require.Len(t, script.Requests()[0].Tools, tt.tools)
			b.said(thread("lobby", "t", "bob"), "and I?") // in the same conversation
			require.Empty(t, script.Requests()[1].Tools, "they are the person's, and not the conversation's")
		})
	}
}

func TestARunOfAReactAgentNeedsAPromptOrResults(t *testing.T) {
	t.Parallel()
	a, err := react.New(react.Config{Name: "clerk", Model: reacttest.NewScript()})
	require.NoError(t, err)
	for _, err := range reflex.NewReactAgent(a, nil).Run(t.Context(), &reflex.RunRequest{Run: uuid.New()}) {
		require.ErrorIs(t, err, reflex.ErrInvariant)
	}
}
