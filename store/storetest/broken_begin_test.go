package storetest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/store"
)

// begunAnyway lets Begin succeed where it must not.
func (s *broken) begunAnyway(passed error, when func(*store.Begin) bool) {
	s.begin = func(ctx context.Context, b *store.Begin) (*store.Begun, error) {
		begun, err := s.Store.Begin(ctx, b)
		if errors.Is(err, passed) && (when == nil || when(b)) {
			return &store.Begun{Seq: 1}, nil
		}
		return begun, err
	}
}

var beginBreakages = []breakage{
	{"needs a session to begin a run", func(s *broken) {
		s.begin = func(ctx context.Context, b *store.Begin) (*store.Begun, error) {
			if _, err := s.Store.Session(ctx, b.Tenant, b.Session); err != nil {
				return nil, err
			}
			return s.Store.Begin(ctx, b)
		}
	}, []string{"begin-creates-session", "line-continues"}},
	{"keeps half of a run's record", func(s *broken) {
		s.changeRun(func(r *store.Run) { r.Params, r.Attached = nil, false })
	}, []string{"begin-records-run", "commit-params-kept", "wait-recorded", "list-records"}},
	{"begins without the steps", func(s *broken) {
		s.changeBegin(func(b *store.Begin) { b.Steps = nil })
	}, []string{"begin-writes-steps", "begin-ended"}},
	{"begins a run id twice", func(s *broken) { s.begunAnyway(store.ErrExists, nil) }, []string{"begin-taken-run"}},
	{"looks for run ids in all tenants", func(s *broken) {
		s.begin = func(ctx context.Context, b *store.Begin) (*store.Begun, error) {
			if b.Tenant != tenant && s.holder(tenant, b.Run).ID == b.Run {
				return nil, store.ErrExists
			}
			return s.Store.Begin(ctx, b)
		}
	}, []string{"tenant-same-ids"}},
	{"does not recognise repeated writes", func(s *broken) {
		s.changeBegin(func(b *store.Begin) { b.WriteID = uuid.New() })
		s.changeCommit(func(c *store.Commit) { c.WriteID = uuid.New() })
	}, []string{"begin-repeated", "commit-repeated", "commit-repeated-after-end", "commit-repeated-after-claim", "value-slices-out"}},
	{"answers a repeated begin with what the run is by now", func(s *broken) {
		s.changeBegun(func(b *store.Begin, begun *store.Begun) { begun.Waiting = s.holder(b.Tenant, b.Run).Waiting })
	}, []string{"begin-repeated-later"}},
	{"recognises repeated commits only by the owner", func(s *broken) {
		s.changeCommit(func(c *store.Commit) {
			if s.holder(c.Tenant, c.Run).Owner != c.Owner {
				c.WriteID = uuid.New()
			}
		})
	}, []string{"commit-repeated-after-claim"}},
	{"recognises repeated commits only of running runs", func(s *broken) {
		s.changeCommit(func(c *store.Commit) {
			if s.holder(c.Tenant, c.Run).Status.Ended() {
				c.WriteID = uuid.New()
			}
		})
	}, []string{"commit-repeated-after-end"}},
	{"is never busy", func(s *broken) { s.begunAnyway(store.ErrBusy, nil) },
		[]string{"begin-busy", "begin-concurrent", "wait-blocks"}},
	{"does not say what it is busy with", func(s *broken) {
		s.begin = func(ctx context.Context, b *store.Begin) (*store.Begun, error) {
			begun, err := s.Store.Begin(ctx, b)
			if errors.Is(err, store.ErrBusy) {
				err = store.ErrBusy
			}
			return begun, err
		}
	}, []string{"begin-busy"}},
	{"does not look at the head", func(s *broken) {
		s.changeBegin(func(b *store.Begin) {
			b.From.Head = 0
			if ses, err := s.Store.Session(context.Background(), b.Tenant, b.Session); err == nil {
				b.From.Head = ses.Head
			}
		})
	}, []string{"begin-stale-head"}},
	{"does not look at the base", func(s *broken) {
		s.changeBegin(func(b *store.Begin) {
			b.From.Base = 0
			if ses, err := s.Store.Session(context.Background(), b.Tenant, b.Session); err == nil {
				b.From.Base = ses.Base
			}
		})
	}, []string{"begin-stale-base"}},
	{"looks at the head for branches", func(s *broken) {
		s.begin = func(ctx context.Context, b *store.Begin) (*store.Begun, error) {
			if ses, err := s.Store.Session(ctx, b.Tenant, b.Session); err == nil && ses.Head != b.From.Head {
				return nil, store.ErrConflict
			}
			return s.Store.Begin(ctx, b)
		}
	}, []string{"begin-branch-any-head"}},
	{"takes the head for an unknown checkpoint", func(s *broken) {
		s.begin = func(ctx context.Context, b *store.Begin) (*store.Begun, error) {
			begun, err := s.Store.Begin(ctx, b)
			if errors.Is(err, store.ErrNotFound) {
				c := *b
				c.From.Checkpoint = uuid.Nil
				return s.Store.Begin(ctx, &c)
			}
			return begun, err
		}
	}, []string{"begin-unknown-checkpoint", "tenant-writes"}},
	{"begins every run as running", func(s *broken) {
		s.changeBegin(func(b *store.Begin) { b.Status = checkpoint.Running })
	}, []string{"begin-ended", "claim-ended", "begin-repeated"}},
	{"begins without the tasks", func(s *broken) {
		s.changeBegin(func(b *store.Begin) { b.Tasks = nil })
	}, []string{"begin-tasks"}},
	{"updates a session with every write", func(s *broken) {
		var used sync.Map
		s.afterCommit(func(r store.Run, _ *store.Commit, _ *store.Committed) { used.Store(r.Session, s.opts.Now()) })
		s.changeSession(func(ses *store.Session) {
			if at, ok := used.Load(ses.ID); ok {
				ses.UpdatedAt = at.(time.Time)
			}
		})
	}, []string{"begin-updates-session"}},
	{"does not say what the base is", func(s *broken) {
		s.changeBegun(func(_ *store.Begin, begun *store.Begun) { begun.Base = 0 })
	}, []string{"begin-creates-session", "message-raises-base"}},
	{"does not update a session", func(s *broken) {
		s.changeSession(func(ses *store.Session) { ses.UpdatedAt = ses.CreatedAt })
	}, []string{"begin-updates-session"}},
}

// A headKeeper has its own idea of where the head of each session is.
type headKeeper struct {
	mu    sync.Mutex // guards heads
	heads map[uuid.UUID]int64
}

func (k *headKeeper) set(session uuid.UUID, head int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.heads == nil {
		k.heads = map[uuid.UUID]int64{}
	}
	k.heads[session] = head
}

func (k *headKeeper) change(ses *store.Session) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if head, ok := k.heads[ses.ID]; ok {
		ses.Head = head
	}
}

// afterCommit calls f after each commit that was taken, with the run as it was before.
func (s *broken) afterCommit(f func(before store.Run, c *store.Commit, done *store.Committed)) {
	s.commit = func(ctx context.Context, c *store.Commit) (*store.Committed, error) {
		before := s.holder(c.Tenant, c.Run)
		done, err := s.Store.Commit(ctx, c)
		if err == nil {
			f(before, c, done)
		}
		return done, err
	}
}

var headBreakages = []breakage{
	{"moves the head only when a run ends", func(s *broken) {
		s.changeSession(func(ses *store.Session) {
			if ses.Active != uuid.Nil {
				ses.Head = 0
			}
		})
	}, []string{"head-follows-active"}},
	{"takes every run from a checkpoint for a branch", func(s *broken) {
		s.changeBegun(func(b *store.Begin, begun *store.Begun) { begun.Branch = b.From.Checkpoint != uuid.Nil })
	}, []string{"head-continue-explicit"}},
	{"takes no run for a branch", func(s *broken) {
		s.changeBegun(func(_ *store.Begin, begun *store.Begun) { begun.Branch = false })
	}, []string{"head-busy-explicit", "head-waiter-explicit", "head-old-checkpoint", "begin-repeated", "begin-branch-any-head"}},
	{"is busy with branches", func(s *broken) {
		s.begin = func(ctx context.Context, b *store.Begin) (*store.Begun, error) {
			page, err := s.Store.Runs(ctx, &store.RunQuery{Tenant: b.Tenant, Session: b.Session, Statuses: []checkpoint.Status{checkpoint.Running}})
			if err == nil && page.Count > 0 && b.From.Checkpoint == uuid.Nil {
				return nil, &store.BusyError{Session: b.Session, Run: page.Items[0].ID}
			}
			return s.Store.Begin(ctx, b)
		}
	}, []string{"head-branch-not-busy", "head-branch-ends-busy"}},
	{"moves the head with every commit", func(s *broken) {
		k := &headKeeper{}
		s.changeSession(k.change)
		s.afterCommit(func(r store.Run, _ *store.Commit, done *store.Committed) {
			if n := len(done.Seqs); n > 0 {
				k.set(r.Session, done.Seqs[n-1])
			}
		})
	}, []string{"head-branch-running"}},
	{"moves the head when any run ends", func(s *broken) {
		k := &headKeeper{}
		s.changeSession(k.change)
		s.afterCommit(func(r store.Run, c *store.Commit, _ *store.Committed) {
			if c.Status.Ended() {
				k.set(r.Session, s.holder(r.Tenant, r.ID).Last)
			}
		})
	}, []string{"head-branch-ends-busy", "head-without-checkpoint"}},
	{"leaves the head alone when a branch ends", func(s *broken) {
		k := &headKeeper{}
		s.changeSession(k.change)
		s.commit = func(ctx context.Context, c *store.Commit) (*store.Committed, error) {
			r := s.holder(c.Tenant, c.Run)
			if ses, err := s.Store.Session(ctx, c.Tenant, r.Session); err == nil && r.Branch && c.Status.Ended() {
				k.set(r.Session, ses.Head)
			}
			return s.Store.Commit(ctx, c)
		}
	}, []string{"head-branch-ends-idle", "head-last-ended"}},
	{"takes the youngest checkpoint for the head", func(s *broken) {
		s.changeSession(func(ses *store.Session) {
			page, err := s.Store.Checkpoints(context.Background(), &store.CheckpointQuery{Tenant: ses.Tenant, Session: ses.ID})
			if err == nil && len(page.Items) > 0 {
				ses.Head = page.Items[0].Seq
			}
		})
	}, []string{"head-last-ended", "head-branch-running"}},
	{"keeps the session for an interrupted run", func(s *broken) {
		s.changeSession(func(ses *store.Session) {
			page, err := s.Store.Runs(context.Background(), &store.RunQuery{Tenant: ses.Tenant, Session: ses.ID})
			if err == nil && len(page.Items) > 0 && page.Items[0].Status == checkpoint.Interrupted {
				ses.Active = page.Items[0].ID
			}
		})
	}, []string{"head-any-end"}},
	{"opens a line for every run", func(s *broken) {
		s.changeBegun(func(_ *store.Begin, begun *store.Begun) { begun.Line = begun.Seq })
	}, []string{"line-continues"}},
	{"opens a first line only for a new session", func(s *broken) {
		s.begin = func(ctx context.Context, b *store.Begin) (*store.Begun, error) {
			ses, err := s.Store.Session(ctx, b.Tenant, b.Session)
			begun, err2 := s.Store.Begin(ctx, b)
			if err == nil && err2 == nil && ses.Head == 0 {
				begun.Line = 0
			}
			return begun, err2
		}
		s.changeRun(func(r *store.Run) {
			if r.Last == 0 {
				r.Line = 0
			}
		})
	}, []string{"line-after-nothing", "wait-first-line"}},
	{"shows the messages of all lines", func(s *broken) {
		s.changeLoad(func(l *store.Load, p *store.Position) {
			q := &store.MessageQuery{Tenant: l.Tenant, Session: p.Session.ID}
			page, err := s.Store.Messages(context.Background(), q)
			if err != nil {
				return
			}
			p.Messages = nil
			for _, m := range page.Items {
				p.Messages = append([]store.Message{m}, p.Messages...)
			}
		})
	}, []string{"line-fork-isolated", "line-fork-of-fork", "line-fork-middle", "line-fork-twins", "line-many-forks", "head-busy-explicit", "load-run"}},
	{"shows the messages of the checkpoint's own line", func(s *broken) {
		s.changeLoad(func(_ *store.Load, p *store.Position) {
			var own []store.Message
			for _, m := range p.Messages {
				if p.Checkpoint == nil || m.Line == p.Checkpoint.Line || m.Line == checkpoint.Base {
					own = append(own, m)
				}
			}
			p.Messages = own
		})
	}, []string{"line-fork-isolated", "line-fork-of-fork", "line-many-forks", "head-branch-ends-idle"}},
}
