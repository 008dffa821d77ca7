package storetest

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/store"
)

// changeLists replaces each list by one that f makes of it.
func (s *broken) changeLists(query func(any), page func(any)) {
	s.sessions = func(ctx context.Context, q *store.SessionQuery) (*store.Page[store.Session], error) {
		c := *q
		return changeList(ctx, &c, s.Store.Sessions, query, page)
	}
	s.runs = func(ctx context.Context, q *store.RunQuery) (*store.Page[store.Run], error) {
		c := *q
		return changeList(ctx, &c, s.Store.Runs, query, page)
	}
	s.checkpoints = func(ctx context.Context, q *store.CheckpointQuery) (*store.Page[checkpoint.Checkpoint], error) {
		c := *q
		return changeList(ctx, &c, s.Store.Checkpoints, query, page)
	}
	s.messages = func(ctx context.Context, q *store.MessageQuery) (*store.Page[store.Message], error) {
		c := *q
		return changeList(ctx, &c, s.Store.Messages, query, page)
	}
}

func changeList[Q, T any](ctx context.Context, q *Q, list func(context.Context, *Q) (*store.Page[T], error), query, page func(any)) (*store.Page[T], error) {
	if query != nil {
		query(q)
	}
	p, err := list(ctx, q)
	if err == nil && page != nil {
		page(p)
	}
	return p, err
}

// reverse turns a page around.
func reverse(page any) {
	switch p := page.(type) {
	case *store.Page[store.Session]:
		slices.Reverse(p.Items)
	case *store.Page[store.Run]:
		slices.Reverse(p.Items)
	case *store.Page[checkpoint.Checkpoint]:
		slices.Reverse(p.Items)
	case *store.Page[store.Message]:
		slices.Reverse(p.Items)
	}
}

// openBounds makes a time range one without its ends.
func openBounds(r *store.TimeRange) {
	if !r.After.IsZero() {
		r.After = r.After.Add(1)
	}
	if !r.Before.IsZero() {
		r.Before = r.Before.Add(-1)
	}
}

// everything reads all pages of a list.
func everything[T any](p *store.Paging, list func() (*store.Page[T], error)) ([]T, error) {
	var all []T
	p.PerPage, p.Page = 0, ""
	for {
		page, err := list()
		if err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if page.Next == "" {
			return all, nil
		}
		p.Page = page.Next
	}
}

// A pager pages in a way of its own through the whole list: where a page begins, and what the
// cursor behind an item is.
type pager[T any] struct {
	start  func(all []T, cursor string) int
	cursor func(index int, item T) string
}

func (p pager[T]) page(asked, own *store.Paging, list func() (*store.Page[T], error)) (*store.Page[T], error) {
	all, err := everything(own, list)
	if err != nil {
		return nil, err
	}
	from := 0
	if asked.Page != "" {
		from = p.start(all, asked.Page)
	}
	to := min(from+asked.Limit(), len(all))
	page := &store.Page[T]{Items: all[from:to], Count: len(all)}
	if to < len(all) {
		page.Next = p.cursor(to-1, all[to-1])
	}
	return page, nil
}

// page replaces the lists of sessions and messages by lists that page otherwise.
func (s *broken) page(sessions pager[store.Session], messages pager[store.Message]) {
	s.sessions = func(ctx context.Context, q *store.SessionQuery) (*store.Page[store.Session], error) {
		c := *q
		return sessions.page(&q.Paging, &c.Paging, func() (*store.Page[store.Session], error) { return s.Store.Sessions(ctx, &c) })
	}
	s.messages = func(ctx context.Context, q *store.MessageQuery) (*store.Page[store.Message], error) {
		c := *q
		return messages.page(&q.Paging, &c.Paging, func() (*store.Page[store.Message], error) { return s.Store.Messages(ctx, &c) })
	}
}

// byOffset pages by the number of items before.
func byOffset[T any]() pager[T] {
	return pager[T]{
		start: func(all []T, cursor string) int {
			n, _ := strconv.Atoi(cursor)
			return min(n, len(all))
		},
		cursor: func(i int, _ T) string { return strconv.Itoa(i + 1) },
	}
}

// byTime pages by the created time alone.
func byTime[T any](created func(T) time.Time) pager[T] {
	return pager[T]{
		start: func(all []T, cursor string) int {
			i := slices.IndexFunc(all, func(item T) bool { return created(item).Format(time.RFC3339Nano) < cursor })
			if i < 0 {
				return len(all)
			}
			return i
		},
		cursor: func(_ int, item T) string { return created(item).Format(time.RFC3339Nano) },
	}
}

var readBreakages = []breakage{
	{"makes up a checkpoint", func(s *broken) {
		s.changeLoad(func(_ *store.Load, p *store.Position) {
			if p.Checkpoint == nil {
				p.Checkpoint = &checkpoint.Checkpoint{}
			}
		})
	}, []string{"load-empty"}},
	{"loads the head for a checkpoint that does not exist", func(s *broken) {
		s.load = func(ctx context.Context, l *store.Load) (*store.Position, error) {
			p, err := s.Store.Load(ctx, l)
			if errors.Is(err, store.ErrNotFound) && l.Checkpoint != uuid.Nil {
				c := *l
				c.Checkpoint = uuid.Nil
				return s.Store.Load(ctx, &c)
			}
			return p, err
		}
	}, []string{"load-unknown"}},
	{"loads the head for a run", func(s *broken) {
		s.load = func(ctx context.Context, l *store.Load) (*store.Position, error) {
			p, err := s.Store.Load(ctx, l)
			if err != nil || l.Run == uuid.Nil {
				return p, err
			}
			head, err := s.Store.Load(ctx, &store.Load{Tenant: l.Tenant, Session: p.Session.ID})
			if err == nil {
				head.Run, head.Tasks = p.Run, p.Tasks
			}
			return head, err
		}
	}, []string{"load-run", "load-branch-at-start"}},
	{"reads messages and documents at two moments", func(s *broken) {
		var n atomic.Int64
		s.changeLoad(func(_ *store.Load, p *store.Position) {
			if len(p.Messages) > 0 && n.Add(1)%2 == 0 {
				p.Messages = p.Messages[:len(p.Messages)-1]
			}
		})
	}, []string{"load-consistent"}},
	{"lists the oldest first", func(s *broken) { s.changeLists(nil, reverse) },
		[]string{"list-sessions", "list-runs", "list-checkpoints", "list-messages", "page-walk", "message-order"}},
	{"ignores filters", func(s *broken) {
		s.changeLists(func(query any) {
			switch q := query.(type) {
			case *store.SessionQuery:
				*q = store.SessionQuery{Tenant: q.Tenant, Paging: q.Paging}
			case *store.RunQuery:
				*q = store.RunQuery{Tenant: q.Tenant, Session: q.Session, Paging: q.Paging}
			case *store.CheckpointQuery:
				*q = store.CheckpointQuery{Tenant: q.Tenant, Session: q.Session, Paging: q.Paging}
			case *store.MessageQuery:
				*q = store.MessageQuery{Tenant: q.Tenant, Session: q.Session, Paging: q.Paging}
			}
		}, nil)
	}, []string{"list-sessions", "list-runs", "list-checkpoints", "list-messages", "list-bounds", "page-filtered", "cursor-foreign"}},
	{"leaves out the ends of a time range", func(s *broken) {
		s.changeLists(func(query any) {
			switch q := query.(type) {
			case *store.SessionQuery:
				openBounds(&q.Created)
				openBounds(&q.Updated)
			case *store.MessageQuery:
				openBounds(&q.Created)
			}
		}, nil)
	}, []string{"list-bounds", "list-sessions", "list-messages"}},
	{"lists nothing for a session that does not exist", func(s *broken) {
		s.runs = func(ctx context.Context, q *store.RunQuery) (*store.Page[store.Run], error) {
			page, err := s.Store.Runs(ctx, q)
			if errors.Is(err, store.ErrNotFound) {
				return &store.Page[store.Run]{}, nil
			}
			return page, err
		}
	}, []string{"list-unknown-session", "tenant-reads"}},
	{"counts the items of the page", func(s *broken) {
		s.changeLists(nil, func(page any) {
			if p, ok := page.(*store.Page[store.Run]); ok {
				p.Count = len(p.Items)
			}
		})
	}, []string{"page-walk"}},
	{"has a greatest number of its own", func(s *broken) {
		s.changeLists(func(query any) {
			if q, ok := query.(*store.SessionQuery); ok && q.PerPage == 0 {
				q.PerPage = 10
			}
		}, nil)
	}, []string{"page-limit"}},
	{"pages by time alone", func(s *broken) {
		s.page(byTime(func(ses store.Session) time.Time { return ses.CreatedAt }), byTime(func(m store.Message) time.Time { return m.CreatedAt }))
	}, []string{"page-equal-times", "page-equal-sequence-times", "cursor-tampered"}},
	{"pages by offset", func(s *broken) { s.page(byOffset[store.Session](), byOffset[store.Message]()) },
		[]string{"page-beside-writers", "page-beside-deletions", "cursor-tampered", "cursor-foreign"}},
	{"takes a bad cursor for the first page", func(s *broken) {
		s.messages = func(ctx context.Context, q *store.MessageQuery) (*store.Page[store.Message], error) {
			page, err := s.Store.Messages(ctx, q)
			if errors.Is(err, store.ErrBadCursor) {
				c := *q
				c.Page = ""
				return s.Store.Messages(ctx, &c)
			}
			return page, err
		}
	}, []string{"cursor-tampered", "cursor-foreign"}},
	{"cuts texts at NUL", func(s *broken) {
		s.changeLoad(func(_ *store.Load, p *store.Position) {
			if p.Checkpoint != nil {
				p.Checkpoint.Node, _, _ = strings.Cut(p.Checkpoint.Node, "\x00")
			}
		})
	}, []string{"value-texts"}},
	{"takes values for text", func(s *broken) {
		s.changeLoad(func(_ *store.Load, p *store.Position) {
			for i := range p.Tasks {
				p.Tasks[i].Value = bytes.ToValidUTF8(p.Tasks[i].Value, []byte("?"))
			}
		})
	}, []string{"value-bytes"}},
	{"refuses large values", func(s *broken) {
		s.saveTask = func(ctx context.Context, t *store.SaveTask) error {
			if len(t.Task.Value) >= 1<<20 {
				return errors.New("too large")
			}
			return s.Store.SaveTask(ctx, t)
		}
	}, []string{"value-large"}},
	{"keeps slices that it was given", func(s *broken) {
		var params sync.Map
		s.begin = func(ctx context.Context, b *store.Begin) (*store.Begun, error) {
			params.Store(b.Run, b.Params)
			return s.Store.Begin(ctx, b)
		}
		s.changeLoad(func(_ *store.Load, p *store.Position) {
			if p.Run != nil {
				kept, _ := params.Load(p.Run.ID)
				p.Run.Params = bytes.Clone(kept.([]byte))
			}
		})
	}, []string{"value-slices-in"}},
	{"returns its own slices", func(s *broken) {
		var positions sync.Map
		s.load = func(ctx context.Context, l *store.Load) (*store.Position, error) {
			if p, ok := positions.Load(l.Run); ok && l.Run != uuid.Nil {
				return p.(*store.Position), nil
			}
			p, err := s.Store.Load(ctx, l)
			if err == nil {
				positions.Store(l.Run, p)
			}
			return p, err
		}
	}, []string{"value-slices-out"}},
	{"changes its arguments", func(s *broken) {
		s.commit = func(ctx context.Context, c *store.Commit) (*store.Committed, error) {
			done, err := s.Store.Commit(ctx, c)
			if err == nil {
				for i := range done.Seqs {
					c.Steps[i].Checkpoint.Seq = done.Seqs[i]
				}
			}
			return done, err
		}
	}, []string{"value-arguments"}},
	{"reads sessions of any tenant", func(s *broken) {
		s.session = func(ctx context.Context, _ string, id uuid.UUID) (*store.Session, error) {
			return s.Store.Session(ctx, tenant, id)
		}
	}, []string{"tenant-reads"}},
	{"cancels runs of any tenant", func(s *broken) {
		s.requestCancel = func(ctx context.Context, _ string, id uuid.UUID) (*store.Run, error) {
			return s.Store.RequestCancel(ctx, tenant, id)
		}
	}, []string{"tenant-writes"}},
}
