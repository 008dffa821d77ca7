package storetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/store"
)

// committedAnyway lets Commit succeed where it must not.
func (s *broken) committedAnyway(passed error) {
	s.commit = func(ctx context.Context, c *store.Commit) (*store.Committed, error) {
		done, err := s.Store.Commit(ctx, c)
		if errors.Is(err, passed) {
			return &store.Committed{}, nil
		}
		return done, err
	}
}

// each changes every record of a page.
func each[T any](page *store.Page[T], err error, change func(i int, item *T)) (*store.Page[T], error) {
	if err == nil {
		for i := range page.Items {
			change(i, &page.Items[i])
		}
	}
	return page, err
}

var writeBreakages = []breakage{
	{"loses metadata", func(s *broken) {
		s.checkpoint = func(ctx context.Context, tenant string, id uuid.UUID) (*checkpoint.Checkpoint, error) {
			c, err := s.Store.Checkpoint(ctx, tenant, id)
			if err == nil {
				c.Metadata = nil
			}
			return c, err
		}
	}, []string{"commit-keeps-checkpoint"}},
	{"writes after any position", func(s *broken) {
		var mu sync.Mutex // or a race decides whether the defect shows
		s.commit = func(ctx context.Context, c *store.Commit) (*store.Committed, error) {
			mu.Lock()
			defer mu.Unlock()
			d := *c
			d.After = s.holder(c.Tenant, c.Run).Last
			return s.Store.Commit(ctx, &d)
		}
	}, []string{"commit-conflict", "commit-concurrent"}},
	{"takes a missing run for a lost one", func(s *broken) {
		s.commit = func(ctx context.Context, c *store.Commit) (*store.Committed, error) {
			done, err := s.Store.Commit(ctx, c)
			if errors.Is(err, store.ErrNotFound) {
				err = store.ErrLost
			}
			return done, err
		}
	}, []string{"commit-unknown-run", "delete-while-running", "tenant-writes"}},
	{"writes after the end", func(s *broken) { s.committedAnyway(store.ErrLost) },
		[]string{"commit-after-end", "begin-ended", "fence-commit", "release-claimable"}},
	{"forgets why a run failed", func(s *broken) {
		s.changeRun(func(r *store.Run) { r.ErrorCode, r.Error = "", "" })
	}, []string{"commit-end-recorded", "begin-ended", "wait-ended"}},
	{"keeps params for ever", func(s *broken) {
		var params sync.Map
		s.begin = func(ctx context.Context, b *store.Begin) (*store.Begun, error) {
			params.Store(b.Run, string(b.Params))
			return s.Store.Begin(ctx, b)
		}
		s.changeRun(func(r *store.Run) {
			if p, ok := params.Load(r.ID); ok {
				r.Params = []byte(p.(string))
			}
		})
	}, []string{"commit-end-recorded", "begin-ended"}},
	{"ends runs only with steps", func(s *broken) {
		s.changeCommit(func(c *store.Commit) {
			if len(c.Steps) == 0 {
				c.Status = checkpoint.Running
			}
		})
	}, []string{"commit-without-steps", "task-ended"}},
	{"does not extend the lease with a commit", func(s *broken) {
		s.changeCommit(func(c *store.Commit) { c.Lease = s.holder(c.Tenant, c.Run).LeaseUntil.Sub(s.opts.Now()) })
	}, []string{"commit-extends-lease"}},
	{"writes ten steps at most", func(s *broken) {
		s.changeCommit(func(c *store.Commit) { c.Steps = c.Steps[:min(len(c.Steps), 10)] })
	}, []string{"commit-many-steps"}},
	{"acknowledges what it did not write", func(s *broken) {
		var n atomic.Int64
		s.commit = func(ctx context.Context, c *store.Commit) (*store.Committed, error) {
			if n.Add(1)%100 == 0 {
				return &store.Committed{Seqs: make([]int64, len(c.Steps))}, nil
			}
			return s.Store.Commit(ctx, c)
		}
	}, []string{"session-many"}},
	{"keeps the messages of a write that it refuses", func(s *broken) {
		s.commit = func(ctx context.Context, c *store.Commit) (*store.Committed, error) {
			done, err := s.Store.Commit(ctx, c)
			if err != nil {
				r := s.holder(c.Tenant, c.Run)
				for _, step := range c.Steps {
					for _, m := range step.Messages {
						m.SessionID = r.Session
						if _, err := s.CreateMessage(ctx, c.Tenant, &m); err != nil {
							return nil, err
						}
					}
				}
			}
			return done, err
		}
	}, []string{"commit-conflict", "cancel-only-end", "commit-after-end"}},
	{"numbers messages apart", func(s *broken) {
		s.message = func(ctx context.Context, tenant string, id uuid.UUID) (*store.Message, error) {
			m, err := s.Store.Message(ctx, tenant, id)
			if err == nil {
				m.Seq += 1000
			}
			return m, err
		}
	}, []string{"sequence-order", "message-stamped"}},
	{"numbers all runs alike", func(s *broken) {
		s.runs = func(ctx context.Context, q *store.RunQuery) (*store.Page[store.Run], error) {
			page, err := s.Store.Runs(ctx, q)
			return each(page, err, func(_ int, r *store.Run) { r.Seq = 1 })
		}
	}, []string{"sequence-concurrent", "page-walk"}},
	{"gives the sequence of a deleted message again", func(s *broken) {
		s.createMessage = func(ctx context.Context, tenant string, m *store.Message) (*store.Message, error) {
			out, err := s.Store.CreateMessage(ctx, tenant, m)
			if err != nil {
				return nil, err
			}
			page, err := s.Store.Messages(ctx, &store.MessageQuery{Tenant: tenant, Session: m.SessionID})
			if err != nil {
				return nil, err
			}
			out.Seq = int64(page.Count)
			return out, nil
		}
	}, []string{"sequence-never-again"}},
	{"has one counter for all sessions", func(s *broken) {
		var n atomic.Int64
		s.changeBegun(func(_ *store.Begin, begun *store.Begun) { begun.Seq = n.Add(1) })
	}, []string{"sequence-per-session"}},
	{"takes created times from the clock", func(s *broken) {
		var times sync.Map
		s.createMessage = func(ctx context.Context, tenant string, m *store.Message) (*store.Message, error) {
			times.Store(m.ID, s.opts.Now())
			return s.Store.CreateMessage(ctx, tenant, m)
		}
		s.messages = func(ctx context.Context, q *store.MessageQuery) (*store.Page[store.Message], error) {
			page, err := s.Store.Messages(ctx, q)
			return each(page, err, func(_ int, m *store.Message) {
				if at, ok := times.Load(m.ID); ok {
					m.CreatedAt = at.(time.Time)
				}
			})
		}
	}, []string{"sequence-clock-back"}},
	{"gives each message a time of its own", func(s *broken) {
		s.messages = func(ctx context.Context, q *store.MessageQuery) (*store.Page[store.Message], error) {
			page, err := s.Store.Messages(ctx, q)
			return each(page, err, func(i int, m *store.Message) { m.CreatedAt = m.CreatedAt.Add(-time.Duration(i) * time.Millisecond) })
		}
	}, []string{"sequence-one-time"}},
}

// onlyBase keeps the messages of no run, or the others.
func onlyBase(list []store.Message, base bool) []store.Message {
	var out []store.Message
	for _, m := range list {
		if (m.Line == checkpoint.Base) == base {
			out = append(out, m)
		}
	}
	return out
}

var contentBreakages = []breakage{
	{"takes the word of who adds a message", func(s *broken) {
		s.createMessage = func(ctx context.Context, tenant string, m *store.Message) (*store.Message, error) {
			out, err := s.Store.CreateMessage(ctx, tenant, m)
			if err == nil {
				out.RunID = m.RunID
			}
			return out, err
		}
	}, []string{"message-returns-stored"}},
	{"loses messages of no run", func(s *broken) {
		s.changeLoad(func(_ *store.Load, p *store.Position) { p.Messages = onlyBase(p.Messages, false) })
	}, []string{"message-before-first-run", "message-between-runs", "message-every-branch"}},
	{"puts messages of no run first", func(s *broken) {
		s.changeLoad(func(_ *store.Load, p *store.Position) {
			p.Messages = append(onlyBase(p.Messages, true), onlyBase(p.Messages, false)...)
		})
	}, []string{"message-between-runs", "message-every-branch"}},
	{"loses messages of no run that came after the checkpoint", func(s *broken) {
		s.changeLoad(func(_ *store.Load, p *store.Position) {
			p.Messages = slices.DeleteFunc(p.Messages, func(m store.Message) bool {
				return p.Checkpoint != nil && m.Seq > p.Checkpoint.Seq
			})
		})
	}, []string{"message-every-branch", "message-between-runs"}},
	{"never raises the base", func(s *broken) {
		s.changeSession(func(ses *store.Session) { ses.Base = ses.CreatedAt.UnixNano() })
	}, []string{"message-raises-base"}},
	{"begins the base at zero", func(s *broken) {
		s.changeSession(func(ses *store.Session) { ses.Base -= ses.CreatedAt.UnixNano() })
	}, []string{"begin-creates-session", "delete-begin-anew"}},
	{"writes a message id once", func(s *broken) {
		s.changeCommit(func(c *store.Commit) {
			c.Steps = slices.Clone(c.Steps)
			for i := range c.Steps {
				c.Steps[i].Messages = slices.DeleteFunc(slices.Clone(c.Steps[i].Messages), func(m store.Message) bool {
					_, err := s.Store.Message(context.Background(), c.Tenant, m.ID)
					return err == nil
				})
			}
		})
	}, []string{"message-twice-on-branches"}},
	{"adds a message id twice", func(s *broken) {
		s.createMessage = func(ctx context.Context, tenant string, m *store.Message) (*store.Message, error) {
			out, err := s.Store.CreateMessage(ctx, tenant, m)
			if errors.Is(err, store.ErrExists) {
				return m, nil
			}
			return out, err
		}
	}, []string{"message-exists"}},
	{"creates the session of a message", func(s *broken) {
		s.createMessage = func(ctx context.Context, tenant string, m *store.Message) (*store.Message, error) {
			if _, err := s.Store.CreateSession(ctx, tenant, m.SessionID); ignore(err, store.ErrExists) != nil {
				return nil, err
			}
			return s.Store.CreateMessage(ctx, tenant, m)
		}
	}, []string{"message-unknown-session", "tenant-writes"}},
	{"does not stamp messages", func(s *broken) {
		s.message = func(ctx context.Context, tenant string, id uuid.UUID) (*store.Message, error) {
			m, err := s.Store.Message(ctx, tenant, id)
			if err == nil {
				m.CheckpointID = uuid.Nil
			}
			return m, err
		}
	}, []string{"message-stamped"}},
	{"turns the messages of a step around", func(s *broken) {
		s.changeCommit(func(c *store.Commit) {
			c.Steps = slices.Clone(c.Steps)
			for i := range c.Steps {
				c.Steps[i].Messages = slices.Clone(c.Steps[i].Messages)
				slices.Reverse(c.Steps[i].Messages)
			}
		})
	}, []string{"message-order", "commit-many-steps"}},
	{"forgets roles", func(s *broken) {
		s.changeLoad(func(_ *store.Load, p *store.Position) {
			for i := range p.Messages {
				p.Messages[i].Role = message.RoleUser
			}
		})
	}, []string{"message-roles"}},
	{"deletes a message only by name", func(s *broken) {
		var deleted sync.Map
		s.deleteMessage = func(ctx context.Context, tenant string, id uuid.UUID) error {
			_, err := s.Store.Message(ctx, tenant, id)
			deleted.Store(id, true)
			return err
		}
		s.message = func(ctx context.Context, tenant string, id uuid.UUID) (*store.Message, error) {
			if _, ok := deleted.Load(id); ok {
				return nil, &store.NotFoundError{Resource: store.MessageResource, ID: id}
			}
			return s.Store.Message(ctx, tenant, id)
		}
	}, []string{"message-deleted", "message-raises-base", "begin-stale-base"}},
	{"deletes all messages of an id", func(s *broken) {
		s.deleteMessage = func(ctx context.Context, tenant string, id uuid.UUID) error {
			err := s.Store.DeleteMessage(ctx, tenant, id)
			for again := err; again == nil; {
				again = s.Store.DeleteMessage(ctx, tenant, id)
			}
			return err
		}
	}, []string{"message-delete-latest", "message-twice-on-branches"}},
	{"deletes messages that do not exist", func(s *broken) {
		s.deleteMessage = func(ctx context.Context, tenant string, id uuid.UUID) error {
			return ignore(s.Store.DeleteMessage(ctx, tenant, id), store.ErrNotFound)
		}
	}, []string{"message-delete-unknown", "tenant-writes"}},
	{"makes up a document", func(s *broken) {
		s.changeLoad(func(_ *store.Load, p *store.Position) {
			if len(p.Documents) == 0 {
				p.Documents = []store.Document{{Body: []byte("{}")}}
			}
		})
	}, []string{"document-none", "load-empty"}},
	{"reformats documents", func(s *broken) {
		s.changeLoad(func(_ *store.Load, p *store.Position) {
			for i := range p.Documents {
				p.Documents[i].Body = []byte(strings.ReplaceAll(string(p.Documents[i].Body), " ", ""))
			}
		})
	}, []string{"document-exact"}},
	{"returns the last patch alone", func(s *broken) {
		s.changeLoad(func(_ *store.Load, p *store.Position) {
			if n := len(p.Documents); n > 2 {
				p.Documents = []store.Document{p.Documents[0], p.Documents[n-1]}
			}
		})
	}, []string{"document-chain", "document-fork", "document-long-chain"}},
	{"takes a whole document for a patch", func(s *broken) {
		s.changeCommit(func(c *store.Commit) {
			c.Steps = slices.Clone(c.Steps)
			for i, step := range c.Steps {
				if step.Document != nil && (c.After > 0 || i > 0) {
					c.Steps[i].Document = &store.Document{Patch: true, Body: step.Document.Body}
				}
			}
		})
	}, []string{"document-whole-again", "document-one-write"}},
	{"gives each checkpoint a document of its own", func(s *broken) {
		s.checkpoint = func(ctx context.Context, tenant string, id uuid.UUID) (*checkpoint.Checkpoint, error) {
			c, err := s.Store.Checkpoint(ctx, tenant, id)
			if err == nil {
				c.Document = c.Seq
			}
			return c, err
		}
	}, []string{"document-shared"}},
	{"begins each run without a document", func(s *broken) {
		whole := func(steps []store.Step) []store.Step {
			steps = slices.Clone(steps)
			for i := range steps {
				if d := steps[i].Document; d != nil {
					steps[i].Document = &store.Document{Body: d.Body}
					break
				}
			}
			return steps
		}
		s.changeBegin(func(b *store.Begin) { b.Steps = whole(b.Steps) })
		s.changeCommit(func(c *store.Commit) {
			if c.After == 0 {
				c.Steps = whole(c.Steps)
			}
		})
	}, []string{"document-next-run", "document-branch-start", "document-promoted", "document-fork"}},
	{"returns 32 patches at most", func(s *broken) {
		s.changeLoad(func(_ *store.Load, p *store.Position) { p.Documents = p.Documents[:min(len(p.Documents), 33)] })
	}, []string{"document-long-chain"}},
	{"forgets tasks", func(s *broken) {
		s.changeLoad(func(_ *store.Load, p *store.Position) { p.Tasks = nil })
	}, []string{"task-order", "task-done-stays", "task-takeover", "task-concurrent", "task-own-checkpoint", "fence-task", "delete-others-stay"}},
	{"returns tasks by key", func(s *broken) {
		s.changeLoad(func(_ *store.Load, p *store.Position) {
			slices.SortFunc(p.Tasks, func(a, b store.Task) int { return strings.Compare(a.Key, b.Key) })
		})
	}, []string{"task-order"}},
	{"keeps the last result of a task", func(s *broken) {
		var last sync.Map
		s.saveTask = func(ctx context.Context, t *store.SaveTask) error {
			last.Store(t.Task.Key, string(t.Task.Value))
			return s.Store.SaveTask(ctx, t)
		}
		s.changeLoad(func(_ *store.Load, p *store.Position) {
			for i := range p.Tasks {
				if v, ok := last.Load(p.Tasks[i].Key); ok {
					p.Tasks[i].Value = []byte(v.(string))
				}
			}
		})
	}, []string{"task-done-stays"}},
	{"keeps tasks for ever", func(s *broken) {
		var mu sync.Mutex
		kept := map[uuid.UUID][]store.Task{}
		s.saveTask = func(ctx context.Context, t *store.SaveTask) error {
			err := s.Store.SaveTask(ctx, t)
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				kept[t.Run] = append(kept[t.Run], t.Task)
			}
			return err
		}
		s.changeLoad(func(l *store.Load, p *store.Position) {
			mu.Lock()
			defer mu.Unlock()
			if len(p.Tasks) == 0 {
				p.Tasks = kept[l.Run]
			}
		})
	}, []string{"task-superseded", "task-ended", "task-committed"}},
	{"keeps tasks of any position", func(s *broken) {
		s.saveTask = func(ctx context.Context, t *store.SaveTask) error {
			c := *t
			c.Checkpoint = s.holder(t.Tenant, t.Run).Last
			return s.Store.SaveTask(ctx, &c)
		}
	}, []string{"task-conflict"}},
	{"shows the tasks of all runs", func(s *broken) {
		s.changeLoad(func(l *store.Load, p *store.Position) {
			page, err := s.Store.Runs(context.Background(), &store.RunQuery{Tenant: l.Tenant, Session: p.Session.ID})
			if err != nil {
				return
			}
			p.Tasks = nil
			for _, r := range page.Items {
				if q, err := s.Store.Load(context.Background(), &store.Load{Tenant: l.Tenant, Run: r.ID}); err == nil {
					p.Tasks = append(p.Tasks, q.Tasks...)
				}
			}
		})
	}, []string{"task-own-checkpoint"}},
	{"loses the tasks of a commit", func(s *broken) {
		s.changeCommit(func(c *store.Commit) { c.Tasks = nil })
	}, []string{"task-committed", "task-kept-by-end", "value-slices-out"}},
	{"loads tasks only for a run", func(s *broken) {
		s.changeLoad(func(l *store.Load, p *store.Position) {
			if l.Run == uuid.Nil {
				p.Tasks = nil
			}
		})
	}, []string{"task-kept-by-end", "task-own-checkpoint"}},
	{"loads tasks only of running runs", func(s *broken) {
		s.changeLoad(func(l *store.Load, p *store.Position) {
			if p.Checkpoint != nil && s.holder(l.Tenant, p.Checkpoint.RunID).Status.Ended() {
				p.Tasks = nil
			}
		})
	}, []string{"task-kept-by-end", "begin-tasks"}},
	{"takes tasks of a run without checkpoints", func(s *broken) {
		s.saveTask = func(ctx context.Context, t *store.SaveTask) error {
			err := s.Store.SaveTask(ctx, t)
			if t.Checkpoint == 0 {
				err = ignore(err, store.ErrConflict)
			}
			return err
		}
	}, []string{"task-before-checkpoint"}},
}
