package storetest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/store"
)

// leavesRows is the defect that only shows in the rows.
const leavesRows = "leaves rows behind"

// deleteAll deletes the sessions of the cases' tenant.
func (s *broken) deleteAll(ctx context.Context, q *store.SessionQuery) error {
	page, err := s.Store.Sessions(ctx, q)
	if err != nil {
		return err
	}
	for _, ses := range page.Items {
		if err := s.Store.DeleteSession(ctx, ses.Tenant, ses.ID); err != nil {
			return err
		}
	}
	return nil
}

var sessionBreakages = []breakage{
	{"creates a session twice", func(s *broken) {
		s.createSession = func(ctx context.Context, tenant string, id uuid.UUID) (*store.Session, error) {
			ses, err := s.Store.CreateSession(ctx, tenant, id)
			if errors.Is(err, store.ErrExists) {
				return s.Store.Session(ctx, tenant, id)
			}
			return ses, err
		}
	}, []string{"session-create"}},
	{"deletes the session's row alone", func(s *broken) {
		var deleted sync.Map
		s.deleteSession = func(ctx context.Context, tenant string, id uuid.UUID) error {
			_, err := s.Session(ctx, tenant, id)
			deleted.Store(id, true)
			return err
		}
		s.session = func(ctx context.Context, tenant string, id uuid.UUID) (*store.Session, error) {
			if _, ok := deleted.Load(id); ok {
				return nil, &store.NotFoundError{Resource: store.SessionResource, ID: id}
			}
			return s.Store.Session(ctx, tenant, id)
		}
		s.begin = func(ctx context.Context, b *store.Begin) (*store.Begun, error) {
			if _, ok := deleted.LoadAndDelete(b.Session); ok {
				b.Run = uuid.New()
			}
			return s.Store.Begin(ctx, b)
		}
	}, []string{"delete-everything", "delete-while-running", "delete-begin-anew"}},
	{leavesRows, func(s *broken) {
		var runs atomic.Int64
		s.changeBegun(func(*store.Begin, *store.Begun) { runs.Add(1) })
		s.rows = func() map[string]int { return map[string]int{"runs": int(runs.Load())} }
	}, []string{"delete-everything", "prune-unused"}},
	{"deletes every session", func(s *broken) {
		s.deleteSession = func(ctx context.Context, tenant string, id uuid.UUID) error {
			if _, err := s.Store.Session(ctx, tenant, id); err != nil {
				return err
			}
			return s.deleteAll(ctx, &store.SessionQuery{Tenant: tenant})
		}
	}, []string{"delete-others-stay", "page-beside-deletions"}},
	{"deletes sessions that do not exist", func(s *broken) {
		s.deleteSession = func(ctx context.Context, tenant string, id uuid.UUID) error {
			return ignore(s.Store.DeleteSession(ctx, tenant, id), store.ErrNotFound)
		}
	}, []string{"delete-unknown", "tenant-writes"}},
	{"prunes nothing", func(s *broken) {
		s.prune = func(context.Context, *store.Prune) (int, error) { return 0, nil }
	}, []string{"prune-unused", "prune-limit", "prune-tenant"}},
	{"prunes sessions in which something runs", func(s *broken) {
		s.prune = func(ctx context.Context, p *store.Prune) (int, error) {
			return 0, s.deleteAll(ctx, &store.SessionQuery{Tenant: tenant, Updated: store.TimeRange{Before: p.Before}})
		}
	}, []string{"prune-running"}},
	{"prunes by the time of creation", func(s *broken) {
		s.prune = func(ctx context.Context, p *store.Prune) (int, error) {
			q := &store.SessionQuery{Tenant: tenant, Created: store.TimeRange{Before: p.Before}}
			page, err := s.Store.Sessions(ctx, q)
			if err != nil {
				return 0, err
			}
			return page.Count, s.deleteAll(ctx, q)
		}
	}, []string{"prune-unused"}},
	{"prunes more than the limit", func(s *broken) {
		s.prune = func(ctx context.Context, p *store.Prune) (int, error) {
			c := *p
			c.Limit = 1000
			return s.Store.Prune(ctx, &c)
		}
	}, []string{"prune-limit"}},
	{"does not count what it keeps", func(s *broken) {
		s.prune = func(ctx context.Context, p *store.Prune) (int, error) {
			c := *p
			c.Keep = 0
			return s.Store.Prune(ctx, &c)
		}
	}, []string{"prune-keep"}},
	{"prunes other tenants", func(s *broken) {
		s.prune = func(ctx context.Context, p *store.Prune) (int, error) {
			c := *p
			c.Tenant = ""
			return s.Store.Prune(ctx, &c)
		}
	}, []string{"prune-tenant"}},
	{"forgets everything when it is closed", func(s *broken) {
		s.reopen = func() store.Store {
			fresh := newBroken(s.opts, nil)
			fresh.reopen = s.reopen
			return fresh
		}
	}, []string{"life-reopened", "task-takeover", "line-fork-isolated", "session-create", "fence-commit"}},
	{"keeps the runs but not their tasks when it is closed", func(s *broken) {
		var closed atomic.Bool
		s.reopen = func() store.Store {
			closed.Store(true)
			return s
		}
		s.changeLoad(func(_ *store.Load, p *store.Position) {
			if closed.Load() {
				p.Tasks = nil
			}
		})
	}, []string{"life-reopened", "task-order", "task-takeover"}},
	{"writes although the context has ended", func(s *broken) {
		s.commit = func(ctx context.Context, c *store.Commit) (*store.Committed, error) {
			return s.Store.Commit(context.WithoutCancel(ctx), c)
		}
	}, []string{"life-cancelled-context"}},
	{"writes and then notices that the context has ended", func(s *broken) {
		s.saveTask = func(ctx context.Context, t *store.SaveTask) error {
			if err := s.Store.SaveTask(context.WithoutCancel(ctx), t); err != nil {
				return err
			}
			return ctx.Err()
		}
	}, []string{"life-cancelled-context"}},
	{"goes on after Close", func(s *broken) { s.close = func() error { return nil } }, []string{"life-closed"}},
	{"returns another error after Close", func(s *broken) {
		s.saveTask = func(ctx context.Context, t *store.SaveTask) error {
			if err := s.Store.SaveTask(ctx, t); errors.Is(err, store.ErrClosed) {
				return errors.New("closed")
			} else {
				return err
			}
		}
	}, []string{"life-closed"}},
}
