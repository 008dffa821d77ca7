package graph

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/store"
)

// claim is this process's hold on a run: under which fence it writes, what it has yet to write,
// and what it has yet to say.
//
// The rule of it all: what the outside hears is said after the write that makes it true. Steps
// are collected until one of them must be durable, and written in one commit; events wait for
// it. See docs/design.md, 4.1.
type claim struct {
	graph    string
	session  uuid.UUID
	store    store.Store // nil: nothing is kept
	bus      event.Bus
	observer Observer
	log      *slog.Logger
	lease    time.Duration

	// ctx ends when the run is to stop; its cause says why.
	ctx    context.Context
	cancel context.CancelCauseFunc

	writeMu sync.Mutex   // guards what follows, and serialises the writes
	fence   store.Fence  // its parts that identify the run never change
	begin   *store.Begin // the run is not recorded yet
	steps   []store.Step
	stamps  []message.Message // messages of steps, which get their time with the commit
	carried []store.Task      // tasks to write with the next commit
	line    int64
	last    int64 // sequence of the last checkpoint that is written
	branch  bool
	base    int64 // of the session, when the run began
	failed  error // the first write that failed: nothing is written after it

	known    atomic.Bool // the run is recorded
	accepted chan error  // capacity 1: whether it is, for the one who started it

	taskMu sync.Mutex       // guards what follows
	tasks  map[string]*task // by key

	eventMu sync.Mutex // guards what follows
	number  int64
	holding bool // events wait for the next commit
	held    []said
	stopped bool // something was said since the run is to be stopped: held after early
	early   int
	ended   bool // the last event of the run is said
}

// said is what an event of the run has of its own.
type said struct {
	at   time.Time
	data event.Data
}

// outcome is how a commit leaves the run.
type outcome struct {
	status     checkpoint.Status
	code, text string
}

var stillRunning = outcome{status: checkpoint.Running}

// errWaiting: the run is recorded, and waits until its session is idle.
var errWaiting = errors.New("graph: session is busy, the run waits")

// add appends a step to what is to be written. Events are held back from here on, unless the
// step can be repeated with the same result.
func (c *claim) add(step store.Step, messages []message.Message, repeatable bool) {
	if c.store == nil {
		return
	}
	c.writeMu.Lock()
	c.steps = append(c.steps, step)
	c.stamps = append(c.stamps, messages...)
	c.writeMu.Unlock()
	if !repeatable {
		c.holdEvents()
	}
}

// pending returns the number of steps that are not written.
func (c *claim) pending() int {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	return len(c.steps)
}

// mayWait reports whether the run is not recorded yet, and is one that may have to wait then.
func (c *claim) mayWait() bool {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	return c.begin != nil && c.begin.Wait
}

// truncate takes back steps that are not written, all but the first n.
func (c *claim) truncate(n int) {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	for _, step := range c.steps[n:] {
		c.stamps = c.stamps[:len(c.stamps)-len(step.Messages)]
	}
	c.steps = c.steps[:n]
}

// setCarried replaces the tasks that the next commit writes.
func (c *claim) setCarried(tasks []store.Task) {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	c.carried = tasks
}

// accept answers the one who started the run; only the first answer counts.
func (c *claim) accept(err error) {
	select {
	case c.accepted <- err:
	default:
	}
}

// durable writes what is pending, if anything is.
func (c *claim) durable() error {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	if c.failed != nil {
		return c.failed
	}
	if c.begin == nil && len(c.steps) == 0 {
		return nil
	}
	return c.write(stillRunning)
}

// commit writes what is pending and how the run goes on or ends.
func (c *claim) commit(o outcome) error {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	if c.failed != nil {
		return c.failed
	}
	return c.write(o)
}

// write does the one store call that all checkpoints are. The caller holds writeMu.
func (c *claim) write(o outcome) (err error) {
	var done *store.Committed
	began := c.begin != nil
	switch {
	case c.store == nil:
		c.begin = nil
		c.known.Store(true)
		done = &store.Committed{}
	case c.begin != nil:
		done, err = c.writeBegin(o)
	default:
		cm := &store.Commit{
			Fence: c.fence, WriteID: newID(), After: c.last, Steps: c.steps, Tasks: c.carried,
			Status: o.status, ErrorCode: o.code, Error: o.text, Lease: c.lease,
		}
		err = c.persist("Commit", func(ctx context.Context) (err error) {
			done, err = c.store.Commit(ctx, cm)
			return err
		})
	}
	if err != nil {
		if !errors.Is(err, store.ErrCancelRequested) {
			c.fail(err)
		}
		return err
	}
	for _, m := range c.stamps {
		m.Head().CreatedAt = done.CreatedAt
	}
	if n := len(done.Seqs); n > 0 {
		c.line, c.last = done.Line, done.Seqs[n-1]
	}
	c.steps, c.stamps, c.carried = nil, nil, nil
	if c.ctx.Err() == nil {
		c.releaseEvents()
	} else if began {
		c.sayStarted() // that much is true, however the run is being stopped
	}
	c.accept(nil)
	return nil
}

func (c *claim) writeBegin(o outcome) (*store.Committed, error) {
	b := c.begin
	b.Steps, b.Tasks, b.WriteID, b.Lease = c.steps, c.carried, newID(), c.lease
	b.Status, b.ErrorCode, b.Error = o.status, o.code, o.text
	var begun *store.Begun
	err := c.persist("Begin", func(ctx context.Context) (err error) {
		begun, err = c.store.Begin(ctx, b)
		return err
	})
	if err != nil {
		return nil, err
	}
	c.begin, c.branch, c.base = nil, begun.Branch, begun.Base
	c.known.Store(true)
	if begun.Waiting {
		return nil, errWaiting
	}
	return &begun.Committed, nil
}

// writeTimeout bounds one attempt at a write. A write has a context of its own: what ends a run
// must not leave one undecided.
const writeTimeout = 30 * time.Second

// persist makes a store call, and repeats it when the store failed in a way that may pass. A
// write that did happen although its answer got lost is recognised by its write id.
func (c *claim) persist(method string, call func(context.Context) error) error {
	ctx := context.WithoutCancel(c.ctx)
	if c.observer != nil {
		var end func(Outcome)
		ctx, end = c.observe(ctx, StoreOperation, method)
		observed := call
		call = func(ctx context.Context) (err error) {
			err = observed(ctx)
			end(Outcome{Err: err})
			end = func(Outcome) {}
			return err
		}
	}
	var err error
	for _, wait := range [...]time.Duration{0, 20 * time.Millisecond, 200 * time.Millisecond, time.Second} {
		if wait > 0 {
			time.Sleep(wait)
		}
		attempt, cancel := context.WithTimeout(ctx, writeTimeout)
		err = call(attempt)
		cancel()
		if err == nil || decided(err) {
			return err
		}
		c.log.WarnContext(ctx, "store call failed, trying again", "method", method, "run", c.fence.Run, "error", err)
	}
	return err
}

// decided reports whether an error is the store's answer, which asking again does not change.
func decided(err error) bool {
	for _, e := range []error{
		store.ErrNotFound, store.ErrExists, store.ErrLost, store.ErrBusy, store.ErrConflict,
		store.ErrCancelRequested, store.ErrClosed, store.ErrLocked,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// fail notes that a write failed, and stops what runs: nothing more can be kept. The caller
// holds writeMu.
func (c *claim) fail(err error) {
	c.failed = err
	if !errors.Is(err, errWaiting) {
		c.cancel(err)
	}
}

// saveTask keeps a task under the last checkpoint.
func (c *claim) saveTask(t store.Task) error {
	if c.store != nil {
		c.writeMu.Lock()
		save := &store.SaveTask{Fence: c.fence, Checkpoint: c.last, Task: t}
		err := c.failed
		c.writeMu.Unlock()
		if err != nil {
			return err
		}
		err = c.persist("SaveTask", func(ctx context.Context) error { return c.store.SaveTask(ctx, save) })
		if err != nil {
			c.writeMu.Lock()
			defer c.writeMu.Unlock()
			if c.failed == nil {
				c.fail(err)
			}
			return err
		}
	}
	c.taskMu.Lock()
	defer c.taskMu.Unlock()
	c.taskAt(t.Key).keep(t)
	return nil
}

// setTasks replaces the tasks that are known to be kept.
func (c *claim) setTasks(tasks []store.Task) {
	c.taskMu.Lock()
	defer c.taskMu.Unlock()
	for key, t := range c.tasks {
		if t.kept = false; !t.running {
			delete(c.tasks, key)
		}
	}
	for _, t := range tasks {
		c.taskAt(t.Key).keep(t)
	}
}

// position returns the line that the run writes on and its last written checkpoint.
func (c *claim) position() (line, last int64) {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	return c.line, c.last
}

// broken returns the error of the write that failed, if one did.
func (c *claim) broken() error {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	return c.failed
}

// recorded reports whether the store knows the run.
func (c *claim) recorded() bool { return c.known.Load() }

// openLog begins the log of the run, for those who watch it already: its first event may take a
// while.
func (c *claim) openLog() {
	if bus, ok := c.bus.(interface{ Open(string, uuid.UUID) }); ok {
		bus.Open(c.fence.Tenant, c.fence.Run)
	}
}

// emit says something about the run, now or with the next commit.
func (c *claim) emit(data event.Data) {
	c.eventMu.Lock()
	defer c.eventMu.Unlock()
	e := said{time.Now(), data}
	// Once the run is being stopped its last commit decides what is true.
	stopped := c.ctx.Err() != nil
	if stopped && !c.stopped {
		c.stopped, c.early = true, len(c.held)
	}
	if c.holding || stopped {
		c.held = append(c.held, e)
		return
	}
	c.publish(e)
}

// publish numbers an event and says it. The caller holds eventMu.
func (c *claim) publish(e said) {
	c.number++
	c.bus.Publish(event.Event{
		Seq: c.number, Time: e.at, Tenant: c.fence.Tenant, Session: c.session, Run: c.fence.Run, Data: e.data,
	})
}

// holdEvents keeps events back until the next commit.
func (c *claim) holdEvents() {
	c.eventMu.Lock()
	defer c.eventMu.Unlock()
	c.holding = true
}

// releaseEvents says what waited for a commit.
func (c *claim) releaseEvents() {
	c.eventMu.Lock()
	defer c.eventMu.Unlock()
	c.holding = false
	for _, e := range c.held {
		c.publish(e)
	}
	clear(c.held)
	c.held = c.held[:0]
}

// sayStarted says the first of the events that wait, which is that the run started.
func (c *claim) sayStarted() {
	c.eventMu.Lock()
	defer c.eventMu.Unlock()
	if len(c.held) > 0 {
		c.publish(c.held[0])
		c.held = c.held[1:]
	}
}

// dropEvents forgets what waited for a commit that will not be.
func (c *claim) dropEvents() {
	c.eventMu.Lock()
	defer c.eventMu.Unlock()
	c.held = nil
}

// dropLate forgets what was said since the run is to be stopped.
func (c *claim) dropLate() {
	c.eventMu.Lock()
	defer c.eventMu.Unlock()
	if c.stopped {
		c.held = c.held[:c.early]
	}
}

// epochNumbers leaves room between the event numbers of one owner of a run and the next: they
// go on above every number that was sent, and stay below 2^53 (contract R37).
const epochNumbers = 1 << 32

func (c *claim) observe(ctx context.Context, kind OperationKind, name string) (context.Context, func(Outcome)) {
	return c.observer.Observe(ctx, Operation{
		Kind: kind, Name: name, Graph: c.graph, Tenant: c.fence.Tenant, Session: c.session, Run: c.fence.Run,
	})
}

func newID() uuid.UUID { return uuid.New() }
