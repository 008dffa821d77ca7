package graph

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/internal/wire"
	"github.com/everstep-go/everstep/store"
)

// execution advances one run, from where it stands to its end. All of it but the claim belongs
// to one goroutine.
type execution[S any] struct {
	claim
	r       *Runner[S]
	unready bool // it was not prepared, because it expected to wait
	lost    bool // its lease is not renewed any more; guarded by the runner's mu

	state    S
	document json.RawMessage       // what the state is kept as, if that is known
	at       checkpoint.Checkpoint // the last one, written or not
	ran      string                // the last node that completed
	next     string                // the node to run; empty: the run is complete
	chain    chain
	steps    int
	settled  bool // the run is being stopped and its state is in order
	resumed  resumption

	done chan struct{} // closed when the execution has ended
	err  error         // how, valid once done is closed
	over givenUp       // ends after done, if the run did not end
}

// resumption is what an interrupted node finds when it runs again.
type resumption struct {
	open    []Question
	answers map[string]json.RawMessage
}

func (r *Runner[S]) execution(ctx context.Context, f store.Fence, session uuid.UUID) *execution[S] {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	return &execution[S]{
		r: r,
		claim: claim{
			graph: r.graph.name, session: session, store: r.store, bus: r.opts.Bus, observer: r.opts.Observer,
			log: r.opts.Logger, lease: r.opts.Lease, ctx: ctx, cancel: cancel, fence: f,
			number: (f.Epoch - 1) * epochNumbers, accepted: make(chan error, 1),
		},
		done: make(chan struct{}),
	}
}

// prepare makes the execution start from a position: it merges the input, finds the node to
// start at, and adds the input checkpoint to what is to be written.
func (x *execution[S]) prepare(from *head[S], forked bool, input *S, resume json.RawMessage) error {
	origin := from.checkpoint
	var open []Question
	if origin != nil && origin.Reason == checkpoint.Interrupt {
		open = Questions(origin)
	}
	answers, err := answersTo(open, resume)
	if err != nil {
		return err
	}
	after := from.state
	if input != nil {
		if after, err = x.r.opts.Codec.Merge(origin, from.state, *input); err != nil {
			return err
		}
	}
	x.next = x.r.opts.StartAt(Origin[S]{
		Entry: x.r.graph.Entry(), Checkpoint: origin, Forked: forked,
		HasInput: input != nil, Answered: len(answers) > 0, State: after,
	})
	if _, ok := x.r.graph.index[x.next]; !ok {
		return fmt.Errorf("%w: %q", ErrGraphChanged, x.next)
	}
	// A new input at the entry is another matter, even if it was the entry that asked.
	if open != nil && x.next == origin.Node && (input == nil || len(answers) > 0 || x.next != x.r.graph.Entry()) {
		x.resumed = resumption{open: open, answers: answers}
		x.carry(from.tasks)
	}
	x.state, x.document, x.chain = from.state, from.document, from.chain
	if origin != nil {
		x.at = *origin
	}
	start := x.next
	// Whoever starts the run has to hear that it is recorded: until then nothing is repeatable.
	return x.step(checkpoint.Checkpoint{Node: start, Next: start, Status: checkpoint.Running, Reason: checkpoint.Input}, after, false)
}

// carry hands on tasks to the checkpoint that is written next.
func (x *execution[S]) carry(tasks []store.Task) {
	if len(tasks) > 0 {
		x.setCarried(tasks)
		x.setTasks(tasks)
	}
}

// reset takes prepare back.
func (x *execution[S]) reset() {
	x.truncate(0)
	x.setCarried(nil)
	x.setTasks(nil)
	x.resumed = resumption{}
	x.at = checkpoint.Checkpoint{}
}

// step makes after the state, at a new checkpoint that is to be written.
func (x *execution[S]) step(c checkpoint.Checkpoint, after S, repeatable bool) error {
	if x.store == nil {
		x.state = after
		x.at = c
		x.writeMu.Lock()
		x.last++ // nothing is written, but steps are told apart
		x.writeMu.Unlock()
		return nil
	}
	change, err := x.r.opts.Codec.Encode(x.document, x.state, after)
	if err != nil {
		return fmt.Errorf("graph: state: %w", err)
	}
	c.ID, c.ParentID, c.SessionID, c.RunID = newID(), x.at.ID, x.session, x.fence.Run
	c.Version = x.r.opts.Codec.Version()
	step := store.Step{Checkpoint: c}
	var next chain
	if step.Document, next, err = x.chain.next(change); err != nil {
		return fmt.Errorf("graph: state: %w", err)
	}
	now := time.Now()
	for _, m := range change.Messages {
		h := m.Head()
		if h.ID == nilID {
			h.ID = newID()
		}
		h.SessionID, h.RunID, h.CheckpointID, h.CreatedAt = x.session, x.fence.Run, c.ID, now
		record, err := store.EncodeMessage(m)
		if err != nil {
			return fmt.Errorf("graph: message %s: %w", h.ID, err)
		}
		step.Messages = append(step.Messages, record)
	}
	x.add(step, change.Messages, repeatable)
	x.state, x.document, x.at, x.chain = after, change.Encoded, c, next
	return nil
}

// run is the goroutine of a run.
func (x *execution[S]) run() {
	deepen()
	defer func() {
		x.accept(x.err)
		x.cancel(nil)
		x.r.leave(x)
		if x.recorded() {
			x.r.slots.give(x.fence.Tenant) // otherwise it is still Start's
		}
		close(x.done)
		if x.givenUpAfter() >= 0 {
			x.over.end()
		}
	}()
	if x.observer != nil {
		ctx, end := x.observe(x.ctx, RunOperation, x.graph)
		x.ctx = ctx
		defer func() { end(Outcome{Err: x.err}) }()
	}
	x.advance()
}

// deepen gives a new goroutine at once the stack that nodes need. A stack that grows bit by bit,
// below a node's calls, is copied again and again: that took a fifth of the time of a run.
//
//go:noinline
func deepen() {
	var room [28 << 10]byte
	runtime.KeepAlive(&room)
}

// advance runs node after node. Each line of it may be the last one of the process: what is
// written by then is what the run goes on from.
func (x *execution[S]) advance() {
	for {
		if err := x.broken(); err != nil {
			if errors.Is(err, errWaiting) && x.await() {
				continue
			} else if !errors.Is(err, errWaiting) {
				x.abandon(err)
			}
			return
		}
		// One that may have to wait finds out first.
		if x.mayWait() {
			if x.durable() != nil {
				continue
			}
			if x.unready && !x.begun() {
				return
			}
		}
		if x.ctx.Err() != nil {
			x.stop(context.Cause(x.ctx))
			return
		}
		if x.next == "" {
			x.complete()
			return
		}
		i, ok := x.r.graph.index[x.next]
		if !ok {
			x.strand()
			return
		}
		node := &x.r.graph.nodes[i]
		if x.steps > x.r.opts.MaxSteps || x.steps == x.r.opts.MaxSteps && !node.options.Settles {
			x.fail(Fail(CodeMaxSteps, fmt.Sprintf("the run took more than %d steps", x.r.opts.MaxSteps), nil))
			return
		}
		if !node.options.Repeatable && (x.holds() || !x.recorded()) {
			if x.durable() != nil {
				continue
			}
		}
		if !x.runNode(node) {
			return
		}
	}
}

// holds reports whether something is waiting to be written that must be durable before anything
// happens outside.
func (x *execution[S]) holds() bool {
	x.eventMu.Lock()
	defer x.eventMu.Unlock()
	return x.holding
}

// runNode runs a node and takes the step it returns. It reports whether the run goes on.
func (x *execution[S]) runNode(node *Spec[S]) bool {
	after, exit, sc, err := x.call(x.ctx, node)
	x.steps++
	if x.broken() != nil {
		return true // advance sees it
	}
	if err == nil {
		return x.take(node, after, exit)
	}
	kept := x.state
	if s, ok := sc.kept.(S); ok {
		kept = s
	}
	if x.ctx.Err() != nil {
		x.settled = true
		cause := context.Cause(x.ctx)
		if errors.Is(cause, ErrShutdown) {
			x.dropLate() // the node will run again
		}
		x.stopWith(cause, kept)
		return false
	}
	if isInterrupt(err) && len(sc.asked) > 0 {
		sc.asked = inOrder(sc.asked, err)
		x.interrupt(node, kept, sc)
		return false
	}
	if again, ok := errors.AsType[*retry](err); ok {
		x.log.WarnContext(x.ctx, "node asks to be run again", "node", node.name, "run", x.fence.Run, "after", again.after, "error", again.err)
		timer := time.NewTimer(again.after)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-x.ctx.Done():
		}
		return true
	}
	x.failWith(&NodeError{Node: node.name, Err: err}, node.name, kept)
	return false
}

// take makes the step that a node returned.
func (x *execution[S]) take(node *Spec[S], after S, exit exit) bool {
	next := ""
	switch {
	case !exit.bound:
		x.fail(&NodeError{Node: node.name, Err: errors.New("it returned no edge of its own: return the Next of one of its fields")})
		return false
	case !exit.end:
		next = x.r.graph.nodes[exit.node].name
	}
	c := checkpoint.Checkpoint{Node: node.name, Next: next, Status: checkpoint.Running, Reason: checkpoint.Step}
	if err := x.step(c, after, node.options.Repeatable); err != nil {
		x.fail(&NodeError{Node: node.name, Err: err})
		return false
	}
	x.ran, x.next, x.resumed = node.name, next, resumption{}
	x.setTasks(nil)
	x.setCarried(nil)
	return true
}

// call runs a node's Run, with what it needs in its context.
func (x *execution[S]) call(ctx context.Context, node *Spec[S]) (after S, out exit, sc *scope, err error) {
	sc = &scope{Context: ctx, claim: &x.claim, node: node.name, open: x.resumed.open, answers: x.resumed.answers}
	ctx = sc
	var end func(Outcome)
	if x.observer != nil {
		ctx, end = x.observe(ctx, NodeOperation, node.name)
	}
	defer func() {
		if v := recover(); v != nil {
			err = newPanic(v)
		}
		if p, ok := errors.AsType[*PanicError](err); ok {
			x.log.ErrorContext(ctx, "node panicked", "node", node.name, "run", x.fence.Run, "panic", p.Value, "stack", string(p.Stack))
		}
		if end != nil {
			o := Outcome{Err: err}
			if err == nil && out.bound {
				o.Move = &x.r.graph.moves[out.edge]
			}
			end(o)
		}
	}()
	after, out, err = node.run(ctx, x.state)
	return after, out, sc, err
}

// complete ends the run as completed.
func (x *execution[S]) complete() {
	x.finish(outcome{status: checkpoint.Completed}, x.ran, x.state, nil)
}

// fail ends the run as failed, in the state it is in.
func (x *execution[S]) fail(err error) {
	node := x.ran
	if e, ok := errors.AsType[*NodeError](err); ok {
		node = e.Node
	}
	x.failWith(err, node, x.state)
}

func (x *execution[S]) failWith(err error, node string, kept S) {
	code, text := diagnose(err)
	x.log.ErrorContext(x.ctx, "run failed", "run", x.fence.Run, "session", x.session, "node", node, "code", code, "error", err)
	x.finish(outcome{status: checkpoint.Failed, code: code, text: text}, node, kept, err)
}

// interrupt ends the run as interrupted at a node.
func (x *execution[S]) interrupt(node *Spec[S], kept S, sc *scope) {
	metadata, err := wire.Marshal(interruptMetadata{interruptPayload{sc.asked}})
	if err != nil {
		x.fail(&NodeError{Node: node.name, Err: err})
		return
	}
	x.carryOver(sc)
	before := x.place()
	c := checkpoint.Checkpoint{Node: node.name, Status: checkpoint.Interrupted, Reason: checkpoint.Interrupt, Metadata: metadata}
	if err := x.step(c, kept, false); err != nil {
		x.fail(&NodeError{Node: node.name, Err: err})
		return
	}
	if !x.conclude(outcome{status: checkpoint.Interrupted}, before) {
		return
	}
	payload, _ := wire.Marshal(interruptPayload{sc.asked})
	x.end(event.RunFinished{Status: string(checkpoint.Interrupted), InterruptPayload: payload, Result: x.result()}, &InterruptedError{Questions: sc.asked})
}

// carryOver hands on to the run that answers what stays the same when the node runs again: what
// its idempotency keys are made of, the answers it had, and its tasks, unless the node has kept
// its part itself.
func (x *execution[S]) carryOver(sc *scope) {
	_, last := x.position()
	x.taskMu.Lock()
	defer x.taskMu.Unlock()
	var carried []store.Task
	add := func(key string, value []byte) {
		if _, ok := x.keptTask(key); !ok {
			carried = append(carried, store.Task{Key: key, Done: true, Value: value})
		}
	}
	add(scopeTask, []byte(strconv.FormatInt(last, 10)))
	for id, answer := range x.resumed.answers {
		add(answerTask+id, answer)
	}
	for _, t := range x.tasks {
		if !t.kept {
			continue
		}
		// A task that asks has done nothing yet that must not be done twice.
		if t.Key[0] == 0 || sc.kept == nil && (t.Done || !sc.asksIn(t.Key)) {
			carried = append(carried, t.Task)
		}
	}
	x.setCarried(carried)
}

// stop ends the execution for a cause that is not its own doing. What the next node would
// settle is settled first.
func (x *execution[S]) stop(cause error) {
	kept := x.state
	if i, ok := x.r.graph.index[x.next]; ok && !x.settled && x.r.graph.nodes[i].options.Settles && settles(cause) {
		x.settled = true
		node := &x.r.graph.nodes[i]
		after, _, sc, err := x.call(x.ctx, node)
		if s, ok := sc.kept.(S); ok {
			kept = s
		} else if err == nil {
			kept = after
		}
	}
	x.stopWith(cause, kept)
}

// settles reports whether a run that is stopped for the cause is brought in order before.
func settles(cause error) bool {
	return errors.Is(cause, ErrCancelled) || errors.Is(cause, ErrProcessLost)
}

func (x *execution[S]) stopWith(cause error, kept S) {
	switch {
	case errors.Is(cause, ErrShutdown):
		x.give()
	case errors.Is(cause, errDeleted):
		x.dropEvents()
		x.end(event.RunFinished{Status: string(checkpoint.Cancelled), Result: x.result()}, ErrCancelled)
	case errors.Is(cause, ErrProcessLost):
		code, text := diagnose(cause)
		x.finish(outcome{status: checkpoint.Failed, code: code, text: text}, x.lastNode(), kept, cause)
	case errors.Is(cause, ErrCancelled):
		x.finish(outcome{status: checkpoint.Cancelled}, x.lastNode(), kept, nil)
	default:
		x.abandon(cause)
	}
}

// lastNode is the node that completed last, or if none did the one the run started at.
func (x *execution[S]) lastNode() string {
	if x.ran != "" {
		return x.ran
	}
	return x.at.Node
}

// finish writes the last checkpoint of the run with its status, and says how it ended.
func (x *execution[S]) finish(o outcome, node string, kept S, cause error) {
	before := x.place()
	c := checkpoint.Checkpoint{Node: node, Status: o.status, Reason: checkpoint.Finish}
	if err := x.step(c, kept, false); err != nil {
		// A state that cannot be kept: end in the one before, which could.
		x.log.ErrorContext(x.ctx, "last state of run is not kept", "run", x.fence.Run, "error", err)
		if o.status == checkpoint.Completed {
			o.status, o.code, o.text = checkpoint.Failed, CodeNodeError, "the state could not be kept"
			c.Status, cause = o.status, err
		}
		if err := x.step(c, x.state, false); err != nil {
			x.abandon(err)
			return
		}
	}
	if !x.conclude(o, before) {
		return
	}
	switch o.status {
	case checkpoint.Failed:
		x.end(event.RunError{Error: o.text, Code: o.code}, &RunError{Run: x.fence.Run, Code: o.code, Text: o.text, Err: cause})
	case checkpoint.Cancelled:
		x.end(event.RunFinished{Status: string(o.status), Result: x.result()}, ErrCancelled)
	default:
		x.end(event.RunFinished{Status: string(o.status), Result: x.result()}, nil)
	}
}

// place is where an execution stands before a step that may be taken back.
type place[S any] struct {
	state    S
	document json.RawMessage
	at       checkpoint.Checkpoint
	chain    chain
	pending  int
}

func (x *execution[S]) place() place[S] {
	return place[S]{x.state, x.document, x.at, x.chain, x.pending()}
}

// conclude writes the last step of the run and how it ends. It reports whether the run has ended
// so. If somebody wants it cancelled, the step is taken back and the run ends as cancelled.
func (x *execution[S]) conclude(o outcome, before place[S]) bool {
	err := x.commit(o)
	if errors.Is(err, store.ErrCancelRequested) {
		x.truncate(before.pending)
		x.state, x.document, x.at, x.chain = before.state, before.document, before.at, before.chain
		x.cancel(ErrCancelled)
		x.stop(ErrCancelled)
		return false
	}
	if err != nil {
		x.abandon(err)
	}
	return err == nil
}

// result is what clients are told of the state.
func (x *execution[S]) result() json.RawMessage {
	result, err := x.r.opts.Codec.Result(x.state)
	if err != nil {
		x.log.ErrorContext(x.ctx, "result of run has no JSON", "run", x.fence.Run, "error", err)
		return nil
	}
	if bytes.Equal(result, []byte("null")) {
		return nil
	}
	return result
}

// end says how the run ended, which is written by now.
func (x *execution[S]) end(terminal event.Data, err error) {
	x.err = err
	x.remember()
	x.releaseEvents()
	x.eventMu.Lock()
	defer x.eventMu.Unlock()
	x.publish(said{time.Now(), terminal})
	x.ended = true
}

// remember keeps the state in memory for the next run of the session, if that will continue it.
func (x *execution[S]) remember() {
	if x.store == nil || x.branch || x.at.Reason != checkpoint.Finish || x.base < 0 {
		return
	}
	latest := x.at
	latest.Line, latest.Seq = x.position()
	x.r.heads.put(runKey{x.fence.Tenant, x.session}, &head[S]{checkpoint: &latest, base: x.base, state: x.state, document: x.document, chain: x.chain})
}

// abandon ends the execution without ending the run: the store failed, or the run is somebody
// else's by now. Whoever holds it next goes on from what is written.
func (x *execution[S]) abandon(err error) {
	x.err = err
	x.dropEvents()
	if x.store == nil || !x.recorded() {
		return
	}
	if x.overBy(err) {
		x.end(event.RunFinished{Status: string(checkpoint.Cancelled), Result: x.result()}, ErrCancelled)
		return
	}
	// What the run says next comes from another process, if there can be one: nobody is to wait for it here.
	lost := errors.Is(err, store.ErrLost)
	if _, shared := x.bus.(event.Follower); shared || lost {
		if bus, ok := x.bus.(interface{ Drop(string, uuid.UUID) }); ok {
			bus.Drop(x.fence.Tenant, x.fence.Run)
		}
	}
	if lost {
		return
	}
	x.log.ErrorContext(x.ctx, "run stopped, it will be taken up again", "run", x.fence.Run, "session", x.session, "error", err)
	x.r.release(x.ctx, x.fence, errors.Is(x.err, ErrShutdown))
}

// overBy reports whether what stopped the execution was the end of the run: its session was
// deleted, or it was cancelled in the store while it waited. Then nobody else says so.
func (x *execution[S]) overBy(err error) bool {
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, errDeleted) {
		return true
	}
	if !errors.Is(err, store.ErrLost) {
		return false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.ctx), writeTimeout)
	defer cancel()
	run, err := x.store.Run(ctx, x.fence.Tenant, x.fence.Run)
	return errors.Is(err, store.ErrNotFound) || err == nil && run.Status == checkpoint.Cancelled
}

// give stops the run for others to go on with: with everything that is done written.
func (x *execution[S]) give() {
	if x.recorded() {
		if err := x.durable(); err != nil {
			x.abandon(err)
			return
		}
		x.releaseEvents()
	}
	x.abandon(ErrShutdown)
}

// strand leaves a run alone that this graph cannot go on with.
func (x *execution[S]) strand() {
	x.r.leaveAlone(x.fence.Run)
	x.abandon(fmt.Errorf("%w: run %s goes on at %q", ErrGraphChanged, x.fence.Run, x.next))
}
