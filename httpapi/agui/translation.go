package agui

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/internal/wire"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
)

// The nodes of an agent, which are the steps of a run.
const (
	stepEntry = "entrypoint"
	stepModel = "call_model"
	stepTools = "call_tools"
	stepExit  = "exit"
)

// translation says the events of one run as a client of AG-UI wants to hear them. Whatever comes, and whatever
// is missing, what it says keeps the order that clients demand: all that is opened is closed, once, before the
// end.
type translation struct {
	*request
	ctx   context.Context
	again bool // the run was started before
	ended bool // and has ended

	position
	known      map[string]bool // calls that the client has heard of, in this run or as the open ones of the run before
	waiting    []string        // announced calls without a result
	activities map[string]*activity
	usage      []usage
	at         time.Time // of the last event
}

// position is what was said so far, as far as it matters for what may be said next.
type position struct {
	begun    bool      // the first snapshot was said
	text     uuid.UUID // of the open message
	span     uuid.UUID // of the open reasoning
	thinking bool      // its message is open
	call     string    // the open call
	step     string    // the open step
	spoke    uuid.UUID // the last reply that was heard of
	stranded bool      // messages_snapshot is the second half of a snapshot that fills a gap
	over     bool
}

func newTranslation(ctx context.Context, r *request) *translation {
	return &translation{request: r, ctx: ctx, known: map[string]bool{}}
}

// now sets the time of what is said next, which is never before that of what was said.
func (t *translation) now(f *frames, at time.Time) {
	if at.After(t.at) {
		t.at = at
	}
	f.at = t.at
}

// begin says what comes before the run's own events.
func (t *translation) begin(f *frames) {
	t.now(f, time.Now())
	f.begin("RUN_STARTED")
	f.text("threadId", t.input.thread)
	f.text("runId", t.run)
	if t.parent != "" {
		f.text("parentRunId", t.parent)
	}
	if t.v1 {
		f.text("protocolVersion", "1.0")
	}
	f.end()
	if t.ended {
		t.restate(f)
	}
}

// add says an event.
func (t *translation) add(f *frames, e event.Event) {
	if t.over {
		return
	}
	t.now(f, e.Time)
	switch d := e.Data.(type) {
	case event.StateSnapshot:
		if !t.ended {
			t.stateSnapshot(f, d.State)
		}
	case event.MessagesSnapshot:
		if t.ended {
			break // these snapshots stand for a log that is gone: restate has said them
		}
		if !t.stranded {
			t.enter(f, stepExit)
		}
		t.stranded = false
		t.messagesSnapshot(f, d.Messages)
	case event.TextMessageStart:
		t.openText(f, d.MessageID)
	case event.TextMessageContent:
		t.openText(f, d.MessageID)
		f.begin("TEXT_MESSAGE_CONTENT")
		f.id("messageId", d.MessageID)
		f.text("delta", d.Delta)
		f.end()
	case event.TextMessageEnd:
		if t.text == d.MessageID {
			t.closeText(f)
		}
	case event.ReasoningStart:
		t.openSpan(f, d.MessageID)
	case event.ReasoningMessageStart:
		t.think(f, d.MessageID)
	case event.ReasoningMessageContent:
		t.think(f, d.MessageID)
		f.begin("REASONING_MESSAGE_CONTENT")
		f.id("messageId", d.MessageID)
		f.text("delta", d.Delta)
		f.end()
	case event.ReasoningMessageEnd:
		if t.span == d.MessageID {
			t.unthink(f)
		}
	case event.ReasoningSignature:
		f.begin("REASONING_ENCRYPTED_VALUE")
		f.text("subtype", strings.ReplaceAll(d.Subtype, "_", "-"))
		f.text("entityId", d.EntityID)
		f.text("encryptedValue", d.Value)
		f.end()
	case event.ReasoningEnd:
		if t.span == d.MessageID {
			t.closeSpan(f)
		}
	case event.ToolCallStart:
		t.openCall(f, d)
	case event.ToolCallArgs:
		if t.call == d.ToolCallID {
			f.begin("TOOL_CALL_ARGS")
			f.text("toolCallId", d.ToolCallID)
			f.text("delta", d.Delta)
			f.end()
		}
	case event.ToolCallEnd:
		if t.call == d.ToolCallID {
			t.closeCall(f)
		}
	case event.ToolCallResult:
		t.enter(f, stepTools)
		t.result(f, d.ToolCallID, d.MessageID, wire.PlainText(d.Content))
	case event.ToolCallError:
		if d.Code != react.CodeNotAnswered { // which is said on entry
			t.enter(f, stepTools)
		}
		t.result(f, d.ToolCallID, d.MessageID, d.Error)
	case event.ActivityDelta:
		t.activity(f, d)
	case event.StateDelta:
		t.enter(f, stepTools)
		f.begin("STATE_DELTA")
		f.value("delta", d.Delta)
		f.end()
	case event.RunFinished:
		t.finish(f, d)
	case event.RunError:
		if !t.ended {
			if now, err := t.h.now(t.ctx, t.tenant, t.session, t.id); err != nil {
				t.doubt(err)
			} else {
				t.usage = usageOf(now.messages, t.id)
			}
		}
		t.fail(f, d.Error, d.Code)
	}
}

// stateSnapshot says the context, and when the run begins the conversation too if the client's copy is another
// one. A later snapshot fills a gap: nobody knows what was missed.
func (t *translation) stateSnapshot(f *frames, context json.RawMessage) {
	if t.begun {
		t.closeAll(f)
		t.stranded = true
		t.snapshot(f, context)
		return
	}
	t.begun = true
	before := t.merged()
	if t.again || t.waits { // the thread was not where it is now
		var err error
		if before, err = t.h.began(t.ctx, t.tenant, t.session, t.id); err != nil {
			t.h.opts.Logger.WarnContext(t.ctx, "agui: no snapshot of the messages", "run", t.id, "err", err)
			before = thread{}
		}
	}
	for _, c := range before.open() {
		t.known[c.ID] = true
	}
	if len(before.questions) == 0 {
		t.enter(f, stepEntry)
	}
	t.snapshot(f, context)
	start, copied := len(f.b), t.compare(before.messages)
	if copied == pieces {
		// Clients leave a message where they have it and append the others: they must forget it first.
		t.messagesSnapshot(f, nil)
	}
	if copied != whole && !t.messagesSnapshot(f, before.messages) {
		f.b = f.b[:start]
	}
}

// copyOf is what a client has of a conversation.
type copyOf int

const (
	whole     copyOf = iota
	beginning        // of it, and perhaps what is not in it
	pieces
)

// compare says how much of a conversation the client has. What the agent thought does not count: not all clients
// keep it.
func (t *translation) compare(messages []message.Message) copyOf {
	place := map[string]int{}
	for _, m := range messages {
		if m.Role() != message.RoleReasoning {
			id, _ := unlabel(m.Head())
			place[id] = len(place)
		}
	}
	common, foreign, ordered := 0, false, true
	for _, m := range t.messages {
		if m.role == "reasoning" || m.role == "activity" {
			continue
		}
		at, ours := place[m.id]
		if !ours {
			foreign = true
			continue
		}
		ordered = ordered && at == common
		common++
	}
	switch {
	case common == len(place) && !foreign:
		return whole
	case ordered:
		return beginning
	}
	return pieces
}

func (t *translation) snapshot(f *frames, context json.RawMessage) {
	f.begin("STATE_SNAPSHOT")
	f.raw("snapshot", context)
	f.end()
}

// messagesSnapshot says the conversation. It reports whether it did: there is one that is too long.
func (t *translation) messagesSnapshot(f *frames, messages []message.Message) bool {
	t.usage = usageOf(messages, t.id)
	start := len(f.b)
	f.begin("MESSAGES_SNAPSHOT")
	f.messages(messages)
	f.end()
	if size, limit := len(f.b)-start, t.h.opts.MaxSnapshot; limit >= 0 && size > limit {
		f.b = f.b[:start]
		t.h.opts.Logger.WarnContext(t.ctx, "agui: snapshot of the messages left out", "thread", t.input.thread, "bytes", size, "limit", limit)
		return false
	}
	return true
}

// restate says where the thread is, for a run that has ended.
func (t *translation) restate(f *frames) {
	c, now, err := t.h.agent.Head(t.ctx, t.tenant, t.session)
	if err != nil {
		f.fail(err)
		return
	}
	t.thread = thread{now.Messages, now.Context, graph.Questions(c)}
	t.snapshot(f, now.Context)
	t.messagesSnapshot(f, now.Messages)
	for _, c := range t.thread.open() {
		t.waiting = append(t.waiting, c.ID)
	}
}

// enter begins a step, unless it is the one that is under way.
func (t *translation) enter(f *frames, step string) {
	if t.step == step {
		return
	}
	t.leave(f)
	t.step = step
	f.begin("STEP_STARTED")
	f.text("stepName", step)
	f.end()
}

func (t *translation) leave(f *frames) {
	if t.step == "" {
		return
	}
	f.begin("STEP_FINISHED")
	f.text("stepName", t.step)
	f.end()
	t.step = ""
}

func (t *translation) openText(f *frames, id uuid.UUID) {
	if t.text == id {
		return
	}
	t.closeText(f)
	t.enter(f, stepModel)
	t.text, t.spoke = id, id
	f.begin("TEXT_MESSAGE_START")
	f.id("messageId", id)
	f.text("role", "assistant")
	f.end()
}

func (t *translation) closeText(f *frames) {
	if t.text != uuid.Nil {
		f.identified("TEXT_MESSAGE_END", "messageId", t.text)
		t.text = uuid.Nil
	}
}

func (t *translation) openSpan(f *frames, id uuid.UUID) {
	if t.span == id {
		return
	}
	t.closeSpan(f)
	t.enter(f, stepModel)
	t.span = id
	f.identified("REASONING_START", "messageId", id)
}

func (t *translation) think(f *frames, id uuid.UUID) {
	t.openSpan(f, id)
	if t.thinking {
		return
	}
	t.thinking = true
	f.begin("REASONING_MESSAGE_START")
	f.id("messageId", id)
	f.text("role", "reasoning")
	f.end()
}

func (t *translation) unthink(f *frames) {
	if t.thinking {
		f.identified("REASONING_MESSAGE_END", "messageId", t.span)
		t.thinking = false
	}
}

func (t *translation) closeSpan(f *frames) {
	t.unthink(f)
	if t.span != uuid.Nil {
		f.identified("REASONING_END", "messageId", t.span)
		t.span = uuid.Nil
	}
}

// openCall announces a call, unless the client knows it already: what is said about a call twice, clients append.
func (t *translation) openCall(f *frames, d event.ToolCallStart) {
	if !slices.Contains(t.waiting, d.ToolCallID) {
		t.waiting = append(t.waiting, d.ToolCallID)
	}
	if t.known[d.ToolCallID] {
		return
	}
	t.closeCall(f)
	if d.ParentMessageID != t.spoke && d.ParentMessageID != uuid.Nil {
		// A reply of nothing but calls is not heard of before.
		t.enter(f, stepModel)
		t.spoke = d.ParentMessageID
	}
	t.enter(f, stepTools)
	t.known[d.ToolCallID], t.call = true, d.ToolCallID
	f.begin("TOOL_CALL_START")
	f.text("toolCallId", d.ToolCallID)
	f.text("toolCallName", d.ToolName)
	if d.ParentMessageID != uuid.Nil {
		f.id("parentMessageId", d.ParentMessageID)
	}
	f.end()
}

func (t *translation) closeCall(f *frames) {
	if t.call != "" {
		f.begin("TOOL_CALL_END")
		f.text("toolCallId", t.call)
		f.end()
		t.call = ""
	}
}

func (t *translation) result(f *frames, call string, id uuid.UUID, content string) {
	t.waiting = slices.DeleteFunc(t.waiting, func(w string) bool { return w == call })
	f.begin("TOOL_CALL_RESULT")
	f.id("messageId", id)
	f.text("toolCallId", call)
	f.text("role", "tool")
	f.text("content", content)
	f.end()
}

// closeAll ends all that is open.
func (t *translation) closeAll(f *frames) {
	t.closeText(f)
	t.closeSpan(f)
	t.closeCall(f)
	t.leave(f)
}

// finish says how the run ended.
func (t *translation) finish(f *frames, d event.RunFinished) {
	t.closeAll(f)
	status := checkpoint.Status(d.Status)
	if status != checkpoint.Completed && !t.ended {
		now, err := t.h.now(t.ctx, t.tenant, t.session, t.id)
		switch {
		case err != nil:
			t.doubt(err)
		case status == checkpoint.Interrupted:
			t.snapshot(f, now.context)
			t.messagesSnapshot(f, now.messages)
			t.thread = now
		default:
			t.usage = usageOf(now.messages, t.id)
		}
	}
	var questions []graph.Question
	if status == checkpoint.Interrupted {
		var payload struct{ Interrupts []graph.Question }
		if err := json.Unmarshal(d.InterruptPayload, &payload); err != nil {
			f.fail(err)
			return
		}
		questions = payload.Interrupts
		if t.h.opts.LegacyInterrupts {
			for _, q := range questions {
				f.begin("CUSTOM")
				f.text("name", "on_interrupt")
				f.value("value", q.Payload)
				f.end()
			}
		}
	}
	f.begin("RUN_FINISHED")
	f.text("threadId", t.input.thread)
	f.text("runId", t.run)
	if status != checkpoint.Cancelled && d.Result != nil {
		f.raw("result", d.Result)
	}
	switch {
	case status == checkpoint.Cancelled:
		if t.v1 { // before, there was no such outcome
			f.raw("outcome", json.RawMessage(`{"type":"cancelled"}`))
		}
	case status == checkpoint.Completed:
		o := outcome{Type: "success"}
		if t.v1 {
			o.Pending = t.waiting
		}
		f.value("outcome", o)
	case len(questions) > 0 && !t.h.opts.LegacyInterrupts:
		open := map[string]bool{}
		for _, c := range t.thread.open() {
			open[c.ID] = true
		}
		o := outcome{Type: "interrupt"}
		for _, q := range questions {
			o.Interrupts = append(o.Interrupts, newInterrupt(q, callOf(q, open)))
		}
		f.value("outcome", o)
	}
	t.used(f)
	f.end()
	t.over = true
}

// outcome is how a run ended.
type outcome struct {
	Type       string      `json:"type"`
	Pending    []string    `json:"pendingToolCallIds,omitempty"`
	Interrupts []interrupt `json:"interrupts,omitempty"`
}

// doubt notes that what a client would like to know could not be found out.
func (t *translation) doubt(err error) {
	if !errors.Is(err, errNowhere) && t.ctx.Err() == nil {
		t.h.opts.Logger.WarnContext(t.ctx, "agui: where the run ended could not be loaded", "run", t.id, "err", err)
	}
}

// fail ends the stream with an error.
func (t *translation) fail(f *frames, text, code string) {
	if t.over {
		return
	}
	t.closeAll(f)
	f.begin("RUN_ERROR")
	f.text("message", text)
	if code != "" {
		f.text("code", code)
	}
	t.used(f)
	f.end()
	t.over = true
}

func (t *translation) used(f *frames) {
	if len(t.usage) > 0 {
		f.value("usage", t.usage)
	}
}
