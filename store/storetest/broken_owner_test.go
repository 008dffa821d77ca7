package storetest

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/store"
)

// changeFence changes every fence that a write shows.
func (s *broken) changeFence(change func(*store.Fence)) {
	s.changeCommit(func(c *store.Commit) { change(&c.Fence) })
	s.saveTask = func(ctx context.Context, t *store.SaveTask) error {
		c := *t
		change(&c.Fence)
		return s.Store.SaveTask(ctx, &c)
	}
	s.promote = func(ctx context.Context, f store.Fence) (bool, error) {
		change(&f)
		return s.Store.Promote(ctx, f)
	}
	s.release = func(ctx context.Context, f store.Fence) error {
		change(&f)
		return s.Store.Release(ctx, f)
	}
}

var ownerBreakages = []breakage{
	{"does not look at the fence", func(s *broken) {
		s.changeFence(func(f *store.Fence) {
			if r := s.holder(f.Tenant, f.Run); r.ID == f.Run {
				*f = r.Fence()
			}
		})
	}, []string{"fence-commit", "fence-task", "fence-promote", "fence-release", "fence-owner", "fence-epoch"}},
	{"looks at the epoch alone", func(s *broken) {
		s.changeFence(func(f *store.Fence) { f.Owner = s.holder(f.Tenant, f.Run).Owner })
	}, []string{"fence-owner"}},
	{"looks at the owner alone", func(s *broken) {
		s.changeFence(func(f *store.Fence) { f.Epoch = s.holder(f.Tenant, f.Run).Epoch })
	}, []string{"fence-epoch"}},
	{"refuses writes after the lease", func(s *broken) {
		s.commit = func(ctx context.Context, c *store.Commit) (*store.Committed, error) {
			if r := s.holder(c.Tenant, c.Run); s.opts.Now().After(r.LeaseUntil) {
				return nil, store.ErrLost
			}
			return s.Store.Commit(ctx, c)
		}
	}, []string{"fence-expired"}},
	{"hides that a run waits", func(s *broken) {
		s.changeBegun(func(_ *store.Begin, begun *store.Begun) { begun.Waiting = false })
	}, []string{"wait-recorded", "begin-repeated", "wait-blocks"}},
	{"lets every run wait that may", func(s *broken) {
		s.changeBegun(func(b *store.Begin, begun *store.Begun) { begun.Waiting = b.Wait })
	}, []string{"wait-idle", "head-busy-explicit"}},
	{"promotes whoever asks", func(s *broken) {
		s.promote = func(ctx context.Context, f store.Fence) (bool, error) {
			_, err := s.Store.Promote(ctx, f)
			return true, err
		}
	}, []string{"wait-in-turn", "wait-claimed", "wait-promote-active"}},
	{"promotes nobody", func(s *broken) {
		s.promote = func(context.Context, store.Fence) (bool, error) { return false, nil }
	}, []string{"wait-promoted", "wait-first-line", "document-promoted", "head-waiter-explicit"}},
	{"loads nothing for a run without checkpoints", func(s *broken) {
		s.changeLoad(func(_ *store.Load, p *store.Position) {
			if p.Run != nil && p.Run.Last == 0 {
				p.Checkpoint, p.Messages, p.Documents = nil, nil, nil
			}
		})
	}, []string{"wait-promoted", "load-run-at-start", "message-before-first-run"}},
	{"lets other runs overtake one that waits", func(s *broken) {
		s.begunAnyway(store.ErrBusy, func(b *store.Begin) bool {
			ses, err := s.Store.Session(context.Background(), b.Tenant, b.Session)
			return err == nil && ses.Active == uuid.Nil
		})
	}, []string{"wait-blocks"}},
	{"takes checkpoints of a run that waits", func(s *broken) {
		s.changeCommit(func(c *store.Commit) {
			if s.holder(c.Tenant, c.Run).Waiting {
				c.Steps = nil
			}
		})
	}, []string{"wait-no-steps"}},
	{"lets a run wait after its end", func(s *broken) {
		var waits sync.Map
		s.changeBegun(func(b *store.Begin, begun *store.Begun) { waits.Store(b.Run, begun.Waiting) })
		s.changeRun(func(r *store.Run) {
			if w, ok := waits.Load(r.ID); ok {
				r.Waiting = w.(bool)
			}
		})
	}, []string{"wait-ended", "wait-in-turn"}},
	{"leaves it to a waiting run to cancel itself", func(s *broken) {
		s.requestCancel = func(ctx context.Context, tenant string, id uuid.UUID) (*store.Run, error) {
			if r, err := s.Store.Run(ctx, tenant, id); err == nil && r.Waiting {
				r.CancelRequested = true
				return r, nil
			}
			return s.Store.RequestCancel(ctx, tenant, id)
		}
	}, []string{"wait-cancelled"}},
	{"does not take over waiting runs", func(s *broken) {
		s.claim = func(ctx context.Context, c *store.Claim) ([]store.Run, error) {
			runs, err := s.Store.Claim(ctx, c)
			return slices.DeleteFunc(runs, func(r store.Run) bool { return r.Waiting }), err
		}
	}, []string{"wait-claimed", "fence-promote"}},
	{"takes over runs that are held", func(s *broken) {
		s.claim = func(ctx context.Context, c *store.Claim) ([]store.Run, error) {
			sessions, err := s.Store.Sessions(ctx, &store.SessionQuery{Tenant: tenant})
			if err != nil {
				return nil, err
			}
			for _, ses := range sessions.Items {
				runs, err := s.Store.Runs(ctx, &store.RunQuery{Tenant: tenant, Session: ses.ID})
				if err != nil {
					return nil, err
				}
				for _, r := range runs.Items {
					if err := ignore(s.Store.Release(ctx, r.Fence()), store.ErrLost); err != nil {
						return nil, err
					}
				}
			}
			return s.Store.Claim(ctx, c)
		}
	}, []string{"claim-expired", "commit-extends-lease", "renew-extends"}},
	{"does not raise the epoch", func(s *broken) {
		s.claim = func(ctx context.Context, c *store.Claim) ([]store.Run, error) {
			runs, err := s.Store.Claim(ctx, c)
			for i := range runs {
				runs[i].Epoch--
			}
			return runs, err
		}
	}, []string{"claim-result", "fence-epoch", "claim-concurrent"}},
	{"counts runs of all graphs", func(s *broken) {
		s.backlog = func(ctx context.Context, _ []string) (*store.Backlog, error) {
			return s.Store.Backlog(ctx, []string{"graph", "other"})
		}
	}, []string{"backlog-counts"}},
	{"gives every new run an epoch", func(s *broken) {
		s.begin = func(ctx context.Context, b *store.Begin) (*store.Begun, error) {
			c := *b
			c.Epoch = 1
			return s.Store.Begin(ctx, &c)
		}
	}, []string{"claim-accepted"}},
	{"takes over runs of other graphs", func(s *broken) {
		s.claim = func(ctx context.Context, c *store.Claim) ([]store.Run, error) {
			d := *c
			d.Graphs = []string{"graph", "one", "two", "three"}
			return s.Store.Claim(ctx, &d)
		}
	}, []string{"claim-graphs"}},
	{"takes over excepted runs", func(s *broken) {
		s.claim = func(ctx context.Context, c *store.Claim) ([]store.Run, error) {
			d := *c
			d.Except = nil
			return s.Store.Claim(ctx, &d)
		}
	}, []string{"claim-except"}},
	{"takes over more runs than the limit", func(s *broken) {
		s.claim = func(ctx context.Context, c *store.Claim) ([]store.Run, error) {
			d := *c
			d.Limit = 1000
			return s.Store.Claim(ctx, &d)
		}
	}, []string{"claim-oldest"}},
	{"takes over the youngest runs first", func(s *broken) {
		s.claim = func(ctx context.Context, c *store.Claim) ([]store.Run, error) {
			runs, err := s.Store.Claim(ctx, c)
			slices.Reverse(runs)
			return runs, err
		}
	}, []string{"claim-oldest"}},
	{"gives a run to everyone who asks", func(s *broken) {
		var mu sync.Mutex
		var first []store.Run
		s.claim = func(ctx context.Context, c *store.Claim) ([]store.Run, error) {
			mu.Lock()
			defer mu.Unlock()
			if first != nil {
				return slices.Clone(first), nil
			}
			var err error
			first, err = s.Store.Claim(ctx, c)
			return slices.Clone(first), err
		}
	}, []string{"claim-concurrent"}},
	{"takes over runs of one tenant", func(s *broken) {
		s.claim = func(ctx context.Context, c *store.Claim) ([]store.Run, error) {
			runs, err := s.Store.Claim(ctx, c)
			return slices.DeleteFunc(runs, func(r store.Run) bool { return r.Tenant != tenant }), err
		}
	}, []string{"claim-tenants"}},
	{"renews nothing", func(s *broken) {
		s.renew = func(context.Context, *store.Renew) (*store.Renewed, error) { return &store.Renewed{}, nil }
	}, []string{"renew-extends", "renew-lost", "renew-cancels"}},
	{"counts every takeover", func(s *broken) {
		s.changeRun(func(r *store.Run) { r.Takeovers = int(r.Epoch) - 1 })
	}, []string{"takeovers-count", "release-not-counted"}},
	{"leaves a run that was given up to its client", func(s *broken) {
		var attached sync.Map
		s.changeBegun(func(b *store.Begin, _ *store.Begun) { attached.Store(b.Run, b.Attached) })
		s.changeRun(func(r *store.Run) {
			if a, ok := attached.Load(r.ID); ok {
				r.Attached = a.(bool)
			}
		})
	}, []string{"release-detached"}},
	{"keeps a run that was given up", func(s *broken) {
		s.release = func(context.Context, store.Fence) error { return nil }
	}, []string{"release-claimable", "fence-release", "release-not-counted"}},
	{"forgets requests to cancel", func(s *broken) {
		s.changeRun(func(r *store.Run) { r.CancelRequested = false })
	}, []string{"cancel-requested", "renew-cancels"}},
	{"ends a run as it likes", func(s *broken) { s.committedAnyway(store.ErrCancelRequested) }, []string{"cancel-only-end"}},
	{"cancels what has ended", func(s *broken) {
		s.requestCancel = func(ctx context.Context, tenant string, id uuid.UUID) (*store.Run, error) {
			r, err := s.Store.RequestCancel(ctx, tenant, id)
			if err == nil {
				r.Status = checkpoint.Cancelled
			}
			return r, err
		}
	}, []string{"cancel-ended", "cancel-requested"}},
	{"cancels what does not exist", func(s *broken) {
		s.requestCancel = func(ctx context.Context, tenant string, id uuid.UUID) (*store.Run, error) {
			r, err := s.Store.RequestCancel(ctx, tenant, id)
			if errors.Is(err, store.ErrNotFound) {
				return &store.Run{ID: id}, nil
			}
			return r, err
		}
	}, []string{"cancel-unknown", "delete-while-running"}},
}
