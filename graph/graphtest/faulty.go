package graphtest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/store"
)

// Fault is what goes wrong at a store call.
type Fault string

const (
	ErrorBefore Fault = "error before" // the call fails, nothing happened
	ErrorAfter  Fault = "error after"  // it happened, but its answer is lost
	DeathBefore Fault = "death before" // the process dies, nothing happened
	DeathAfter  Fault = "death after"  // the process dies once it happened
	LeaseLost   Fault = "lease lost"   // another owner takes the run over first
)

// Faults are all of them.
func Faults() []Fault { return []Fault{ErrorBefore, ErrorAfter, DeathBefore, DeathAfter, LeaseLost} }

var (
	// ErrInjected is the error of ErrorBefore and ErrorAfter.
	ErrInjected = errors.New("graphtest: injected error")
	// ErrDead is the error of every call of a process that is dead.
	ErrDead = fmt.Errorf("graphtest: the process is dead: %w", store.ErrClosed)
)

// Faulty is a store that does something wrong at one of its calls. Wrap it around the store of
// one runner: what the runner's process would not live to do then fails. Run a scenario once
// without a fault to count its calls, and then once for each call and fault.
type Faulty struct {
	store.Store
	at    int
	fault Fault

	mu    sync.Mutex // guards what follows
	calls []string
	dead  bool
}

var (
	_ store.Store   = (*Faulty)(nil)
	_ store.Records = (*Faulty)(nil)
)

// NewFaulty returns a store in which the n-th call, counted from 1, goes wrong. Zero: none does.
func NewFaulty(st store.Store, n int, fault Fault) *Faulty {
	return &Faulty{Store: st, at: n, fault: fault}
}

// Calls returns the methods that were called, in order.
func (f *Faulty) Calls() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.calls...)
}

// Dead reports whether the process would be dead by now. Side effects of a test ask it: a dead
// process has none.
func (f *Faulty) Dead() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dead
}

// Kill makes the process dead.
func (f *Faulty) Kill() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dead = true
}

// do makes a call, with the fault if it is its turn. The fence is that of the call, if it has one.
func (f *Faulty) do(ctx context.Context, method string, fence *store.Fence, call func() error) error {
	f.mu.Lock()
	if f.dead {
		f.mu.Unlock()
		return ErrDead
	}
	f.calls = append(f.calls, method)
	fault := Fault("")
	if len(f.calls) == f.at {
		fault = f.fault
	}
	if fault == DeathBefore {
		f.dead = true
	}
	f.mu.Unlock()
	switch fault {
	case ErrorBefore:
		return ErrInjected
	case DeathBefore:
		return ErrDead
	case LeaseLost:
		if fence != nil {
			if err := f.steal(ctx, *fence); err != nil {
				return err
			}
		}
	}
	err := call()
	switch {
	case f.Dead(): // it died meanwhile
		return ErrDead
	case fault == DeathAfter:
		f.Kill()
		return ErrDead
	case fault == ErrorAfter:
		return ErrInjected
	}
	return err
}

// steal makes another owner take the run, which then gives it up again for anybody.
func (f *Faulty) steal(ctx context.Context, fence store.Fence) error {
	run, err := f.Store.Run(ctx, fence.Tenant, fence.Run)
	if err != nil || run.Status.Ended() {
		return nil // not recorded yet, or over: nothing to take
	}
	if err := f.Store.Release(ctx, fence); err != nil {
		return err
	}
	thief := uuid.New()
	runs, err := f.Store.Claim(ctx, &store.Claim{Owner: thief, Graphs: []string{run.Graph}, Lease: 1, Limit: 1 << 20})
	if err != nil {
		return err
	}
	for _, r := range runs {
		if err := f.Store.Release(ctx, r.Fence()); err != nil {
			return err
		}
	}
	return nil
}

func (f *Faulty) Begin(ctx context.Context, b *store.Begin) (out *store.Begun, err error) {
	err = f.do(ctx, "Begin", &b.Fence, func() (err error) { out, err = f.Store.Begin(ctx, b); return err })
	return out, err
}

func (f *Faulty) Promote(ctx context.Context, fence store.Fence) (ok bool, err error) {
	err = f.do(ctx, "Promote", &fence, func() (err error) { ok, err = f.Store.Promote(ctx, fence); return err })
	return ok, err
}

func (f *Faulty) Claim(ctx context.Context, c *store.Claim) (runs []store.Run, err error) {
	err = f.do(ctx, "Claim", nil, func() (err error) { runs, err = f.Store.Claim(ctx, c); return err })
	return runs, err
}

func (f *Faulty) Renew(ctx context.Context, r *store.Renew) (out *store.Renewed, err error) {
	err = f.do(ctx, "Renew", nil, func() (err error) { out, err = f.Store.Renew(ctx, r); return err })
	return out, err
}

func (f *Faulty) Commit(ctx context.Context, c *store.Commit) (out *store.Committed, err error) {
	err = f.do(ctx, "Commit", &c.Fence, func() (err error) { out, err = f.Store.Commit(ctx, c); return err })
	return out, err
}

func (f *Faulty) SaveTask(ctx context.Context, t *store.SaveTask) error {
	return f.do(ctx, "SaveTask", &t.Fence, func() error { return f.Store.SaveTask(ctx, t) })
}

func (f *Faulty) RequestCancel(ctx context.Context, tenant string, run uuid.UUID) (out *store.Run, err error) {
	err = f.do(ctx, "RequestCancel", nil, func() (err error) { out, err = f.Store.RequestCancel(ctx, tenant, run); return err })
	return out, err
}

func (f *Faulty) Release(ctx context.Context, fence store.Fence) error {
	return f.do(ctx, "Release", nil, func() error { return f.Store.Release(ctx, fence) })
}

func (f *Faulty) Load(ctx context.Context, l *store.Load) (out *store.Position, err error) {
	err = f.do(ctx, "Load", nil, func() (err error) { out, err = f.Store.Load(ctx, l); return err })
	return out, err
}

func (f *Faulty) Session(ctx context.Context, tenant string, id uuid.UUID) (out *store.Session, err error) {
	err = f.do(ctx, "Session", nil, func() (err error) { out, err = f.Store.Session(ctx, tenant, id); return err })
	return out, err
}

func (f *Faulty) Run(ctx context.Context, tenant string, id uuid.UUID) (out *store.Run, err error) {
	err = f.do(ctx, "Run", nil, func() (err error) { out, err = f.Store.Run(ctx, tenant, id); return err })
	return out, err
}

func (f *Faulty) Checkpoint(ctx context.Context, tenant string, id uuid.UUID) (out *checkpoint.Checkpoint, err error) {
	err = f.do(ctx, "Checkpoint", nil, func() (err error) { out, err = f.Store.Checkpoint(ctx, tenant, id); return err })
	return out, err
}

// errNoRecords is the error of a store that is no [store.Records].
var errNoRecords = errors.New("graphtest: the store has no records")

func (f *Faulty) records() (store.Records, error) {
	if r, ok := f.Store.(store.Records); ok {
		return r, nil
	}
	return nil, errNoRecords
}

// Record implements [store.Records].
func (f *Faulty) Record(ctx context.Context, tenant, kind, key string) (out *store.Record, err error) {
	r, err := f.records()
	if err != nil {
		return nil, err
	}
	err = f.do(ctx, "Record", nil, func() (err error) { out, err = r.Record(ctx, tenant, kind, key); return err })
	return out, err
}

// ListRecords implements [store.Records].
func (f *Faulty) ListRecords(ctx context.Context, q *store.RecordQuery) (out []store.Record, err error) {
	r, err := f.records()
	if err != nil {
		return nil, err
	}
	err = f.do(ctx, "ListRecords", nil, func() (err error) { out, err = r.ListRecords(ctx, q); return err })
	return out, err
}

// WriteRecords implements [store.Records].
func (f *Faulty) WriteRecords(ctx context.Context, tenant string, writes []store.RecordWrite) error {
	r, err := f.records()
	if err != nil {
		return err
	}
	return f.do(ctx, "WriteRecords", nil, func() error { return r.WriteRecords(ctx, tenant, writes) })
}
