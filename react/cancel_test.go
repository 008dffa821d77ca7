package react_test

import (
	"context"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/react/reacttest"
	"github.com/everstep-go/everstep/store"
	"github.com/everstep-go/everstep/store/memory"
)

// modelFunc is a whole model as a func.
type modelFunc func(ctx context.Context, req *message.Request) iter.Seq2[message.Delta, error]

func (f modelFunc) Generate(ctx context.Context, req *message.Request) iter.Seq2[message.Delta, error] {
	return f(ctx, req)
}

// stalls is a model that says something and then nothing until it is stopped.
func stalls(deltas ...message.Delta) react.Model {
	return modelFunc(func(ctx context.Context, _ *message.Request) iter.Seq2[message.Delta, error] {
		return func(yield func(message.Delta, error) bool) {
			for _, d := range deltas {
				if !yield(d, nil) {
					return
				}
			}
			<-ctx.Done()
			yield(nil, ctx.Err())
		}
	})
}

// cancelWhenIdle cancels a run once nothing in the bubble moves any more.
func cancelWhenIdle(t *testing.T, run *graph.Run[react.State]) {
	t.Helper()
	synctest.Wait()
	require.NoError(t, run.Cancel(t.Context()))
	_, err := run.Wait(t.Context())
	require.ErrorIs(t, err, graph.ErrCancelled)
}

// ended requires that row, checkpoint and event agree on how a run ended, and returns the checkpoint.
func ended(t *testing.T, b *bundle, run uuid.UUID, status checkpoint.Status) checkpoint.Checkpoint {
	t.Helper()
	record, err := b.agent.RunRecord(t.Context(), "", run)
	require.NoError(t, err)
	require.Equal(t, status, record.Status)
	page, err := b.agent.Checkpoints(t.Context(), store.CheckpointQuery{Session: b.session, Runs: []uuid.UUID{run}})
	require.NoError(t, err)
	require.Equal(t, checkpoint.Finish, page.Items[0].Reason)
	require.Equal(t, status, page.Items[0].Status)
	return page.Items[0]
}

// watch collects the events of a run to its end.
func watch(t *testing.T, run *graph.Run[react.State]) []event.Event {
	t.Helper()
	var events []event.Event
	for e, err := range run.Events(t.Context(), 0) {
		require.NoError(t, err)
		events = append(events, e)
	}
	return events
}

func TestACancelledModelStreamLeavesWhatItSaid(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		first := true
		b := setup(t, react.Config{Model: modelFunc(func(ctx context.Context, req *message.Request) iter.Seq2[message.Delta, error] {
			if !first {
				return reacttest.NewScript(reacttest.Say("fine")).Generate(ctx, req)
			}
			first = false
			return stalls(
				message.ReasoningDelta{Text: "let me"}, message.ReasoningDone{Signature: "s1"}, message.ReasoningDelta{Text: "see"},
				message.TextDelta{Text: "It "}, message.TextDelta{Text: "is"},
				message.ToolCallDelta{Index: 0, ID: "a", Name: "work", Arguments: "{}"},
			).Generate(ctx, req)
		})})
		run := b.start(t, user("hi"))
		cancelWhenIdle(t, run)
		assert.Equal(t, []string{
			"state_snapshot {}",
			"reasoning_start", "reasoning_message_start", `reasoning_message_content "let me"`, "reasoning_message_end", "reasoning_signature s1", "reasoning_end",
			"reasoning_start", "reasoning_message_start", `reasoning_message_content "see"`,
			"text_message_start", `text_message_content "It "`, `text_message_content "is"`,
			"reasoning_message_end", "reasoning_end", "text_message_end",
			"run_finished cancelled",
		}, tell(watch(t, run)), "what is open is closed before the end")
		assert.Equal(t, []string{
			`user "hi"`, `reasoning "let me" "s1" {"partial":true}`, `reasoning "see" "" {"partial":true}`, `assistant "It is" {"partial":true}`,
		}, talk(b.state(t).Messages), "calls of a partial reply are dropped")
		c := ended(t, b, run.ID(), checkpoint.Cancelled)
		assert.Equal(t, "entrypoint", c.Node, "the last node that completed")
		assert.Equal(t, textAnswer, kinds(b.ask(t, "go on")))
	})
}

func TestACancelledModelStreamThatSaidNothingLeavesNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := setup(t, react.Config{Model: stalls()})
		run := b.start(t, user("hi"))
		cancelWhenIdle(t, run)
		assert.Equal(t, []string{"state_snapshot {}", "run_finished cancelled"}, tell(watch(t, run)))
		assert.Equal(t, []string{`user "hi"`}, talk(b.state(t).Messages))
	})
}

func TestCancellingStopsToolsInTheMiddleAndSettlesTheirCalls(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		var cause error
		b := setup(t, react.Config{Tools: []react.Tool{
			takes("fast", time.Second, puts("/fast", "1")),
			tool("slow", func(ctx context.Context) (any, error) {
				<-ctx.Done()
				cause = context.Cause(ctx)
				return nil, ctx.Err()
			}),
			tool("stubborn", func(ctx context.Context) (any, error) {
				<-ctx.Done()
				return "done all the same", nil
			}),
		}}, reacttest.Call(call("a", "slow"), call("b", "fast"), call("c", "stubborn"), call("d", "pick")), reacttest.Say("fine"))
		in := user("go")
		in.Tools = clientTool("pick")
		run := b.start(t, in)
		time.Sleep(2 * time.Second)
		cancelWhenIdle(t, run)
		require.ErrorIs(t, cause, graph.ErrCancelled)
		story := tell(watch(t, run))
		assert.Equal(t, []string{`state_delta [{"op":"add","path":"/fast","value":1}]`, `tool_call_result b "put"`}, story[13:15])
		assert.ElementsMatch(t, []string{`tool_call_result c "done all the same"`, "tool_call_error a cancelled", "tool_call_error d cancelled"}, story[15:18])
		assert.Equal(t, "run_finished cancelled", story[18])
		assert.Equal(t, []string{
			`user "go"`, "assistant a:slow b:fast c:stubborn d:pick", `tool a "cancelled" error "cancelled"`, `tool b "put"`,
			`tool c "done all the same"`, `tool d "cancelled" error "cancelled"`,
		}, talk(b.state(t).Messages))
		assert.JSONEq(t, `{"fast":1}`, string(b.state(t).Context))
		ended(t, b, run.ID(), checkpoint.Cancelled)
		assert.Equal(t, textAnswer, kinds(b.ask(t, "go on")), "the session stays usable")
	})
}

// between is a store that does something after its n-th write.
type between struct {
	store.Store
	n    int
	then func(run uuid.UUID)
}

func (s *between) wrote(run uuid.UUID) {
	if s.n--; s.n == 0 {
		s.then(run)
	}
}

func (s *between) Begin(ctx context.Context, b *store.Begin) (*store.Begun, error) {
	out, err := s.Store.Begin(ctx, b)
	s.wrote(b.Run)
	return out, err
}

func (s *between) Commit(ctx context.Context, c *store.Commit) (*store.Committed, error) {
	out, err := s.Store.Commit(ctx, c)
	s.wrote(c.Run)
	return out, err
}

func TestCancellingBetweenNodes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		write int
		here  bool // the process itself learns of it, else the store
		node  string
		left  []string
		story []string
	}{
		"before the first model call": {
			write: 1, here: true, node: "entrypoint", left: []string{`user "go"`}, story: []string{"state_snapshot {}", "run_finished cancelled"},
		},
		"between the reply and its tools": {
			write: 2, here: true, node: "call_model", left: []string{`user "go"`, "assistant a:work", `tool a "cancelled" error "cancelled"`},
			story: []string{"state_snapshot {}", "tool_call_start a work", "tool_call_args a {}", "tool_call_end a", "tool_call_error a cancelled", "run_finished cancelled"},
		},
		"noticed only by the last write": {
			write: 2, node: "exit", left: []string{`user "go"`, "assistant a:work", `tool a "worked"`, `assistant "done"`},
			story: []string{
				"state_snapshot {}", "tool_call_start a work", "tool_call_args a {}", "tool_call_end a", `tool_call_result a "worked"`,
				"text_message_start", `text_message_content "done"`, "text_message_end", "messages_snapshot", "run_finished cancelled",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachStore(t, func(t *testing.T, st store.Store) {
				s := &between{Store: st, n: test.write}
				b := setup(t, react.Config{Store: s, Tools: []react.Tool{returns("work", "worked")}}, reacttest.Call(call("a", "work")), reacttest.Say("done"))
				s.then = func(run uuid.UUID) {
					if test.here {
						assert.NoError(t, b.agent.Cancel(t.Context(), "", run))
						return
					}
					_, err := st.RequestCancel(t.Context(), graph.DefaultTenant, run)
					assert.NoError(t, err)
				}
				run := b.start(t, user("go"))
				_, err := run.Wait(t.Context())
				require.ErrorIs(t, err, graph.ErrCancelled)
				events := watch(t, run)
				assert.Equal(t, test.story, tell(events))
				assert.Equal(t, test.left, talk(b.state(t).Messages))
				assert.Equal(t, test.node, ended(t, b, events[0].Run, checkpoint.Cancelled).Node)
				assert.Equal(t, "{}", string(last(events).(event.RunFinished).Result))
			})
		})
	}
}

func TestARunThatIsCancelledAsItBeginsStillSaysThatItStarted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &between{Store: memory.New(nil), n: 1}
		b := setup(t, react.Config{Store: s}, reacttest.Say("hello"))
		s.then = func(run uuid.UUID) { assert.NoError(t, b.agent.Cancel(t.Context(), "", run)) }
		events := b.ask(t, "hi")
		assert.Equal(t, event.RunStarted{}, events[0].Data)
		assert.Equal(t, []string{"state_snapshot {}", "run_finished cancelled"}, tell(events))
	})
}

func TestARunThatIsCancelledWhileItWaitsLeavesNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := setup(t, react.Config{Model: stalls(message.TextDelta{Text: "hm"})})
		active := b.start(t, user("first"))
		in := user("second")
		in.OnBusy = graph.Wait
		waiting := b.start(t, in)
		synctest.Wait()
		cancelWhenIdle(t, waiting)
		cancelWhenIdle(t, active)
		assert.Equal(t, []string{"run_finished cancelled"}, tell(watch(t, waiting)))
		record, err := b.agent.RunRecord(t.Context(), "", waiting.ID())
		require.NoError(t, err)
		assert.Equal(t, checkpoint.Cancelled, record.Status)
		assert.Zero(t, record.Last)
		page, err := b.agent.Messages(t.Context(), store.MessageQuery{Session: b.session})
		require.NoError(t, err)
		assert.Len(t, page.Items, 2, "the message of the first run, and its partial answer")
	})
}

func TestARunOnABusySessionCanCancelTheOtherOne(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		first := true
		b := setup(t, react.Config{Model: modelFunc(func(ctx context.Context, req *message.Request) iter.Seq2[message.Delta, error] {
			if first {
				first = false
				return stalls(message.TextDelta{Text: "hm"}).Generate(ctx, req)
			}
			return reacttest.NewScript(reacttest.Say("fine")).Generate(ctx, req)
		})})
		active := b.start(t, user("first"))
		synctest.Wait()
		in := user("second")
		in.Session = b.session
		_, err := b.agent.Start(t.Context(), in)
		busy := &store.BusyError{}
		require.ErrorAs(t, err, &busy)
		assert.Equal(t, active.ID(), busy.Run)
		in.OnBusy = graph.Cancel
		b.run(t, in)
		_, err = active.Wait(t.Context())
		require.ErrorIs(t, err, graph.ErrCancelled)
		assert.Equal(t, []string{`user "first"`, `assistant "hm" {"partial":true}`, `user "second"`, `assistant "fine"`}, talk(b.state(t).Messages))
	})
}

func TestARunThatWaitsTooLongFails(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := setup(t, react.Config{Model: stalls(), WaitLimit: time.Minute})
		active := b.start(t, user("first"))
		in := user("second")
		in.OnBusy = graph.Wait
		events := b.run(t, in)
		assert.Equal(t, []string{"run_error session_busy"}, tell(events))
		cancelWhenIdle(t, active)
	})
}

func TestCancellingARunThatHasEndedDoesNothing(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st store.Store) {
		b := setup(t, react.Config{Store: st}, reacttest.Say("hello"))
		run := b.ask(t, "hi")[0].Run
		require.NoError(t, b.agent.Cancel(t.Context(), "", run))
		require.NoError(t, b.agent.Cancel(t.Context(), "", run))
		ended(t, b, run, checkpoint.Completed)
	})
}

func TestALoopThatIsLeftCancelsItsRun(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := setup(t, react.Config{Model: stalls(message.TextDelta{Text: "It "}, message.TextDelta{Text: "is"})})
		in := react.Ask(b.session, "hi")
		var run uuid.UUID
		for e, err := range b.agent.Run(t.Context(), in) {
			require.NoError(t, err)
			run = e.Run
			if e.Data.Kind() == event.KindTextMessageContent {
				break
			}
		}
		ended(t, b, run, checkpoint.Cancelled) // at once: the session is free again

		ctx, stop := context.WithCancelCause(t.Context())
		defer stop(nil)
		var last error
		for e, err := range b.agent.Run(ctx, in) {
			if e.Data != nil && e.Data.Kind() == event.KindTextMessageStart {
				run = e.Run
				stop(assert.AnError)
			}
			last = err
		}
		require.ErrorIs(t, last, assert.AnError)
		ended(t, b, run, checkpoint.Cancelled)
	})
}

func TestAnotherReplicaCanCancelARun(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		st := memory.New(nil)
		b := setup(t, react.Config{Store: st, Model: stalls(message.TextDelta{Text: "It"})})
		other := newAgent(t, react.Config{Store: st, Model: stalls()})
		run := b.start(t, user("hi"))
		synctest.Wait()
		require.NoError(t, other.Cancel(t.Context(), "", run.ID()))
		_, err := run.Wait(t.Context())
		require.ErrorIs(t, err, graph.ErrCancelled)
		assert.Equal(t, []string{`user "hi"`, `assistant "It" {"partial":true}`}, talk(b.state(t).Messages))
		elsewhere, err := other.Attach(t.Context(), "", run.ID())
		require.NoError(t, err)
		_, err = elsewhere.Wait(t.Context())
		require.ErrorIs(t, err, graph.ErrCancelled)
	})
}

func TestAShutdownGivesTheRunToTheNextProcess(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		st := memory.New(nil)
		b := setup(t, react.Config{Store: st, Model: stalls(message.TextDelta{Text: "It"})})
		run := b.start(t, user("hi"))
		synctest.Wait()
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		require.Error(t, b.agent.Shutdown(ctx))
		_, err := run.Wait(t.Context())
		require.ErrorIs(t, err, graph.ErrShutdown)
		other := newAgent(t, react.Config{Store: st, Model: reacttest.NewScript(reacttest.Say("hello"))})
		go other.Serve(t.Context())
		again, err := other.Attach(t.Context(), "", run.ID())
		require.NoError(t, err)
		s, err := again.Wait(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []string{`user "hi"`, `assistant "hello"`}, talk(s.Messages))
	})
}
