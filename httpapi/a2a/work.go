package a2a

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/internal/wire"
	"github.com/everstep-go/everstep/store"
)

// workItem is a task for which there is something to do: to see its run begin, to list it under what it
// is, to notify clients.
type workItem struct {
	tenant string
	id     uuid.UUID
}

// The work is looked through for what other processes left behind. A task that was looked at in vain is
// left alone for longer each time.
const (
	lookEvery = 5 * time.Second
	lookRest  = time.Minute
	// abandoned is after how long an item is taken for one whose task never came to be.
	abandoned = time.Minute
)

// addWork records that there is something to do for a task: before what makes it so, so that a crash in
// between costs nothing but a look.
func (s *Server) addWork(ctx context.Context, item workItem) error {
	key := workKey(item.tenant, item.id)
	for {
		var kept workRecord
		version, err := read(ctx, s.records, workTenant, workKind, key, &kept)
		if err != nil {
			return err
		}
		var w writes
		w.put(workKind, key, version, workRecord{Since: time.Now().UTC()})
		if err := w.commit(ctx, s.records, workTenant); !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
}

// mind has Serve do at once what there is to do for a task. If none runs here, another process does it.
func (s *Server) mind(item workItem) {
	s.mu.Lock()
	if s.serving == 0 {
		s.mu.Unlock()
		return
	}
	s.fresh[item] = true
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default: // it is awake
	}
}

// Serve sees to the tasks of the agent until ctx ends: it lists them under what becomes of them, and notifies
// clients. What a dead process left undone it does too, so let every replica have one running. It returns
// ctx's error.
func (s *Server) Serve(ctx context.Context) error {
	m := &minder{server: s, owner: uuid.New(), ctx: ctx, minded: map[workItem]*minding{}, rest: map[workItem]pause{}}
	defer m.wg.Wait()
	s.count(1)
	defer s.count(-1)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		if err := m.look(ctx); err != nil && ctx.Err() == nil {
			s.opts.Logger.ErrorContext(ctx, "a2a: the work could not be looked through", "err", err)
		}
		for looking := false; !looking; {
			select {
			case <-s.wake:
				for _, item := range s.takeFresh() {
					m.mind(item, true)
				}
			case <-tick.C:
				looking = true
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
}

func (s *Server) count(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serving += n
}

func (s *Server) takeFresh() (items []workItem) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for item := range s.fresh {
		items = append(items, item)
	}
	clear(s.fresh)
	return items
}

// minder does the work of one Serve.
type minder struct {
	server *Server
	owner  uuid.UUID
	ctx    context.Context
	wg     sync.WaitGroup

	mu     sync.Mutex // guards what follows
	minded map[workItem]*minding
	rest   map[workItem]pause
}

// minding is the work on one task.
type minding struct {
	own   bool          // it was accepted here
	again chan struct{} // holds one if there is more to do
}

// pause is how long a task is left alone.
type pause struct {
	until time.Time
	last  time.Duration
}

// look takes up the work that nobody here minds.
func (m *minder) look(ctx context.Context) error {
	seen := map[workItem]bool{}
	err := each(ctx, m.server.records, store.RecordQuery{Tenant: workTenant, Kind: workKind}, func(r *store.Record) error {
		id, tenant, ok := strings.Cut(r.Key, "/")
		task, parsed := wire.ParseUUID(id)
		if !ok || !parsed {
			return nil // of a later version, perhaps
		}
		item := workItem{tenant, task}
		seen[item] = true
		if m.due(item) {
			m.mind(item, false)
		}
		return nil
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	for item := range m.rest {
		if !seen[item] && err == nil {
			delete(m.rest, item)
		}
	}
	return err
}

func (m *minder) due(item workItem) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Now().After(m.rest[item].until)
}

// mind does what there is to do for a task, in a goroutine of its own. A task that was accepted here is
// followed; others are looked at.
func (m *minder) mind(item workItem, own bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w := m.minded[item]; w != nil {
		if own {
			w.own = true
			select {
			case w.again <- struct{}{}:
			default:
			}
		}
		return
	}
	w := &minding{own: own, again: make(chan struct{}, 1)}
	m.minded[item] = w
	m.wg.Go(func() {
		for !m.leave(item, w, m.do(item, w)) {
		}
	})
}

// do works on a task as long as this process is the one to do that, and reports whether all is done.
func (m *minder) do(item workItem, w *minding) (done bool) {
	for m.ctx.Err() == nil {
		m.mu.Lock()
		own := w.own
		m.mu.Unlock()
		again, done, err := m.work(m.ctx, item, own)
		if err != nil && m.ctx.Err() == nil {
			m.server.opts.Logger.ErrorContext(m.ctx, "a2a: work on a task failed", "task", item.id, "tenant", item.tenant, "err", err)
		}
		if done || err != nil || again < 0 {
			return done && err == nil
		}
		if again == 0 {
			continue
		}
		timer := time.NewTimer(again)
		select {
		case <-timer.C:
		case <-w.again:
		case <-m.ctx.Done():
		}
		timer.Stop()
	}
	return false
}

// leave ends the work on a task, unless somebody wants more of it.
func (m *minder) leave(item workItem, w *minding, done bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-w.again:
		if m.ctx.Err() == nil {
			return false
		}
	default:
	}
	delete(m.minded, item)
	if done {
		delete(m.rest, item)
		return true
	}
	last := min(max(2*m.rest[item].last, lookEvery/2), lookRest)
	m.rest[item] = pause{time.Now().Add(last), last}
	return true
}

// work does what can be done for a task now. It returns after which time there is more to do, negative if
// somebody else sees to that, or that there is nothing more.
func (m *minder) work(ctx context.Context, item workItem, own bool) (again time.Duration, done bool, err error) {
	s := m.server
	key := workKey(item.tenant, item.id)
	var kept workRecord
	version, err := read(ctx, s.records, workTenant, workKind, key, &kept)
	if err != nil || version == 0 {
		return 0, version == 0, err
	}
	t := &task{server: s, tenant: item.tenant, id: item.id}
	err = t.load(ctx)
	if errors.Is(err, store.ErrNotFound) {
		if time.Since(kept.Since) < abandoned {
			return -1, false, nil // it may be about to come to be
		}
		return 0, true, errors.Join(t.remove(ctx), m.finish(ctx, key, version))
	}
	if err != nil {
		return 0, false, err
	}
	if t.pending {
		if err := t.start(ctx); err != nil {
			return 0, false, err
		}
	}
	if err := t.settle(ctx); err != nil {
		return 0, false, err
	}
	if !resting(t.state) {
		if !own {
			return -1, false, nil
		}
		return 0, false, t.rest(ctx)
	}
	next, err := m.notify(ctx, t)
	if err != nil || next > 0 {
		return next, false, err
	}
	return 0, true, m.finish(ctx, key, version)
}

// finish removes an item, unless there is more to do by now.
func (m *minder) finish(ctx context.Context, key string, version int64) error {
	var w writes
	w.remove(workKind, key, version)
	err := w.commit(ctx, m.server.records, workTenant)
	if errors.Is(err, store.ErrConflict) {
		return nil
	}
	return err
}

// notify tells the clients of a task what they were not told yet. It returns after which time there is
// more to do, zero for never.
func (m *minder) notify(ctx context.Context, t *task) (next time.Duration, err error) {
	pushes, err := t.pushes(ctx)
	if err != nil {
		return 0, err
	}
	rests := t.rests()
	for _, p := range pushes {
		for p.Told < len(rests) {
			wait, err := m.push(ctx, t, &p, rests[p.Told])
			if errors.Is(err, store.ErrConflict) || errors.Is(err, errTaken) {
				wait, err = lookEvery, nil // somebody else is at it, or it is no more
			}
			if err != nil {
				return 0, err
			}
			if wait > 0 {
				if next == 0 || wait < next {
					next = wait
				}
				break
			}
		}
	}
	return next, nil
}

var errTaken = errors.New("a2a: somebody else sends it")

// push tells one client of one rest. It returns after which time to try again, zero if that is done.
//
// The record says first that it is being sent, so that no other process does, and afterwards that it was.
// If the process dies in between it is sent again.
func (m *minder) push(ctx context.Context, t *task, p *keptPush, r rest) (wait time.Duration, err error) {
	now := time.Now()
	if d := p.Next.Sub(now); d > 0 {
		return d, nil
	}
	if p.Sender != uuid.Nil && p.Sender != m.owner && now.Before(p.Until) {
		return 0, errTaken
	}
	updates, err := t.updates(ctx, r)
	if err != nil {
		return 0, err
	}
	config := &m.server.pusher.config
	p.Sender, p.Until = m.owner, now.Add(time.Duration(len(updates))*config.Timeout+config.Timeout)
	if err := m.save(ctx, t, p); err != nil {
		return 0, err
	}
	for _, u := range updates {
		if err = m.server.pusher.send(ctx, &p.Config, u); err != nil {
			break
		}
	}
	if ctx.Err() != nil {
		p.Sender, p.Until = uuid.Nil, time.Time{}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		return 0, errors.Join(context.Cause(ctx), m.save(ctx, t, p)) // others may send it at once
	}
	if err == nil {
		p.told()
		return 0, m.save(ctx, t, p)
	}
	log := m.server.opts.Logger.With("task", t.id, "config", p.Config.ID, "err", err)
	if p.Failures == 0 {
		p.Since = now
	}
	p.Failures++
	wait = min(config.Backoff<<min(p.Failures-1, 20), maxBackoff)
	if errors.Is(err, errGone) || time.Since(p.Since)+wait > config.GiveUp {
		log.WarnContext(ctx, fmt.Sprintf("a2a: a client is not notified, after %d attempts", p.Failures))
		p.told()
		return 0, m.save(ctx, t, p)
	}
	log.InfoContext(ctx, "a2a: a notification failed", "again", wait)
	p.Next, p.Sender, p.Until = time.Now().Add(wait), uuid.Nil, time.Time{}
	return wait, m.save(ctx, t, p)
}

// told notes that the client was told of the next rest, or will not be.
func (p *keptPush) told() {
	p.Told++
	p.Failures, p.Since, p.Next, p.Sender, p.Until = 0, time.Time{}, time.Time{}, uuid.Nil, time.Time{}
}

func (m *minder) save(ctx context.Context, t *task, p *keptPush) error {
	var w writes
	w.put(pushKind, p.key, p.version, p.pushRecord)
	if err := w.commit(ctx, m.server.records, t.tenant); err != nil {
		return err
	}
	p.version++
	return nil
}
