package graph

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/everstep-go/everstep/internal/wire"
	"github.com/everstep-go/everstep/store"
)

// TaskOptions say how a [Task] is kept.
type TaskOptions struct {
	// Name is what observers and questions call it. Empty means its key.
	Name string

	// AtMostOnce: fn must not run a second time, not even when it is unknown whether it came to
	// its end. Its start is recorded before it runs; if the process dies then, the task
	// returns [ErrOutcomeUnknown] from then on, or what Reconcile finds.
	AtMostOnce bool

	// Reconcile finds out what became of an AtMostOnce task that was started: it returns its
	// result, of the task's type. It gets the idempotency key that fn got.
	Reconcile func(ctx context.Context, idempotencyKey string) (any, error)

	// Unique: the key names one thing in the whole life of the session, like the id of a tool
	// call, whichever run does it. Its idempotency key then is the same in all runs on a line of
	// the session. Otherwise it is the same as long as the node runs for the same step.
	Unique bool
}

// Task does something once. The result of fn is kept, under the key, the moment fn returns
// without an error; when the node runs again for the same step, after a crash, a retry or an
// interrupt, the kept result is returned and fn is not run. Tasks of a node may run in parallel,
// under different keys.
//
// A result that was kept is never lost or computed again. If the process dies between the end of
// fn and the keeping, fn runs again, with the same [IdempotencyKey] in its context: pass it
// on to whoever does the work, or set AtMostOnce. Errors are not kept. T must survive JSON.
//
// A task may do others, under keys of its own: what they have finished is kept while it has not.
//
// Outside a run Task just calls fn.
func Task[T any](ctx context.Context, key string, fn func(context.Context) (T, error), options ...*TaskOptions) (T, error) {
	var opts TaskOptions
	for _, o := range options {
		if o != nil {
			opts = *o
		}
	}
	var result T
	sc := scopeOf(ctx)
	if sc == nil {
		return fn(&taskScope{Context: ctx, key: key, name: opts.Name})
	}
	c := sc.claim
	asking := key // what its questions are named by
	if outer, ok := ctx.Value(taskKey{}).(*taskScope); ok && outer.scope == sc && key != "" {
		asking, key = outer.key+":"+key, outer.kept+innerKey+key
	}
	kept, started, err := c.enterTask(sc.node, key)
	if err != nil {
		return result, err
	}
	defer c.leaveTask(key)
	if kept != nil {
		var result T // of its own: what is decoded into is moved to the heap
		if err := json.Unmarshal(kept, &result); err != nil {
			return result, fmt.Errorf("graph: kept result of task %q is no %T: %w", key, result, err)
		}
		return result, nil
	}
	// What the task is based on must be durable before it does anything.
	if err := c.durable(); err != nil {
		return result, err
	}
	t := &taskScope{Context: ctx, key: asking, kept: key, scope: sc, name: opts.Name, idempotencyKey: c.idempotencyKey(sc.node, key, opts.Unique)}
	ctx = t
	if c.observer != nil {
		name := opts.Name
		if name == "" {
			name = asking
		}
		var end func(Outcome)
		ctx, end = c.observe(ctx, TaskOperation, name)
		defer func() { end(Outcome{Err: err}) }()
	}
	switch {
	case started && opts.AtMostOnce && opts.Reconcile == nil:
		err = fmt.Errorf("%w: %q was started before", ErrOutcomeUnknown, key)
	case started && opts.AtMostOnce:
		result, err = reconcile[T](ctx, t, opts)
	default:
		if opts.AtMostOnce {
			if err = c.saveTask(store.Task{Key: key}); err != nil {
				return result, err
			}
		}
		result, err = guard(ctx, fn)
	}
	if err != nil {
		return result, err
	}
	var value []byte
	if value, err = wire.Marshal(result); err != nil {
		err = fmt.Errorf("graph: result of task %q: %w", key, err)
		return result, err
	}
	err = c.saveTask(store.Task{Key: key, Done: true, Value: value})
	return result, err
}

// TaskDone reports whether the result of a task is kept, so that [Task] would return at once.
func TaskDone(ctx context.Context, key string) bool {
	sc := scopeOf(ctx)
	if sc == nil {
		return false
	}
	sc.claim.taskMu.Lock()
	defer sc.claim.taskMu.Unlock()
	t, ok := sc.claim.keptTask(key)
	return ok && t.Done
}

// TaskStarted reports whether an AtMostOnce task was started, whatever became of it.
func TaskStarted(ctx context.Context, key string) bool {
	sc := scopeOf(ctx)
	if sc == nil {
		return false
	}
	sc.claim.taskMu.Lock()
	defer sc.claim.taskMu.Unlock()
	_, ok := sc.claim.keptTask(key)
	return ok
}

// IdempotencyKey returns, in the context of a task's fn, a text that is the same whenever this
// task is run again and different for every other one: also for the same task on another branch
// of the session. It is empty outside a task or a run.
func IdempotencyKey(ctx context.Context) string {
	if t, ok := ctx.Value(taskKey{}).(*taskScope); ok {
		return t.idempotencyKey
	}
	return ""
}

type taskKey struct{}

// taskScope is the context of a task's fn.
type taskScope struct {
	context.Context
	key, name, idempotencyKey string
	kept                      string // the key that it is kept under
	scope                     *scope // of its node: a run that a task starts has nodes and tasks of its own
}

// Value finds the task itself; the rest is the node's.
func (t *taskScope) Value(key any) any {
	if key == (taskKey{}) {
		return t
	}
	return t.Context.Value(key)
}

func reconcile[T any](ctx context.Context, t *taskScope, opts TaskOptions) (T, error) {
	var none T
	found, err := guard(ctx, func(ctx context.Context) (any, error) { return opts.Reconcile(ctx, t.idempotencyKey) })
	if err != nil {
		return none, fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	}
	result, ok := found.(T)
	if !ok {
		return none, fmt.Errorf("graph: Reconcile of task %q returned a %T, not a %T", t.key, found, none)
	}
	return result, nil
}

// guard calls fn and turns a panic into an error.
func guard[T any](ctx context.Context, fn func(context.Context) (T, error)) (result T, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return fn(ctx)
}

// scopeTask is the key under which an interrupted node hands on, with its finished tasks, what
// their idempotency keys are made of. NUL keeps it apart from keys of users.
const scopeTask = "\x00scope"

// answerTask begins the keys under which it hands on the answers that it had already.
const answerTask = "\x00answer:"

// innerKey stands between the key of a task and that of one that it does.
const innerKey = "\x00"

// outermost returns the key of the task that a node does, of whatever is done in it, and what the
// questions of the task itself are named by.
func outermost(key string) (outer, asking string) {
	outer, _, _ = strings.Cut(key, innerKey)
	return outer, strings.ReplaceAll(key, innerKey, ":")
}

var errTaskTwice = errors.New("graph: task runs already")

// task is what a claim knows of a task: that it is kept under the last checkpoint, that it runs,
// or both.
type task struct {
	store.Task
	kept    bool
	running bool
}

func (t *task) keep(as store.Task) { t.Task, t.kept = as, true }

// taskAt returns the task of a key, a new one if there is none. The caller holds taskMu.
func (c *claim) taskAt(key string) *task {
	t := c.tasks[key]
	if t == nil {
		if c.tasks == nil {
			c.tasks = make(map[string]*task)
		}
		t = &task{}
		c.tasks[key] = t
	}
	return t
}

// keptTask returns a task that is kept. The caller holds taskMu.
func (c *claim) keptTask(key string) (t store.Task, ok bool) {
	if t := c.tasks[key]; t != nil && t.kept {
		return t.Task, true
	}
	return store.Task{}, false
}

// enterTask claims a key. It returns the kept result, or whether the task was started before.
func (c *claim) enterTask(node, key string) (kept []byte, started bool, err error) {
	if key == "" || key[0] == 0 {
		return nil, false, fmt.Errorf("graph: task key %q: it must not be empty or begin with NUL", key)
	}
	c.taskMu.Lock()
	defer c.taskMu.Unlock()
	t := c.taskAt(key)
	if t.kept && t.Done {
		return t.Value, true, nil
	}
	if t.running {
		return nil, false, fmt.Errorf("%w: two tasks of node %q have the key %q", errTaskTwice, node, key)
	}
	t.running = true
	return nil, t.kept, nil
}

func (c *claim) leaveTask(key string) {
	c.taskMu.Lock()
	defer c.taskMu.Unlock()
	t := c.tasks[key]
	if t == nil {
		return // it was kept, did not run, and the step is over
	}
	if t.running = false; !t.kept {
		delete(c.tasks, key)
	}
}

// idempotencyKey is contract R25, and for keys that are not unique the step besides.
func (c *claim) idempotencyKey(node, key string, unique bool) string {
	line, last := c.position()
	// Each part has its length before it, so that no two lists of parts read the same.
	text := make([]byte, 0, 128)
	part := func(s string) {
		text = strconv.AppendInt(text, int64(len(s)), 10)
		text = append(append(text, ':'), s...)
	}
	part(c.fence.Tenant)
	text = append(text, c.session[:]...)
	text = append(strconv.AppendInt(text, line, 10), ',')
	part(key)
	if !unique {
		c.taskMu.Lock()
		scope, ok := c.keptTask(scopeTask)
		c.taskMu.Unlock()
		part(node)
		if c.store == nil {
			text = append(text, c.fence.Run[:]...) // nothing else tells the steps of two runs apart
		}
		if ok {
			part(string(scope.Value))
		} else {
			part(strconv.FormatInt(last, 10))
		}
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}
