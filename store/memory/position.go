package memory

import (
	"bytes"
	"context"
	"slices"
	"sort"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/store"
)

// Load implements [store.Store]. Only references are gathered under the lock: what they point to
// never changes, so that the copying of a long history keeps nobody waiting.
func (s *Store) Load(ctx context.Context, l *store.Load) (*store.Position, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	out, p, messages, err := s.load(l)
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if p != nil {
		out.Checkpoint = p.snapshot()
	}
	out.Messages = cloneMessages(messages)
	if p != nil {
		for _, d := range p.document.chain() {
			out.Documents = append(out.Documents, store.Document{Patch: d.patch, Body: bytes.Clone(d.body)})
		}
	}
	return out, nil
}

func (s *Store) load(l *store.Load) (*store.Position, *position, []*store.Message, error) {
	var (
		ses *session
		p   *position
		out = &store.Position{}
	)
	switch {
	case l.Run != uuid.Nil:
		r, err := s.run(l.Tenant, l.Run)
		if err != nil {
			return nil, nil, nil, err
		}
		ses, p = r.session, r.last
		switch {
		case p != nil:
		case r.Branch:
			p = r.start
		default:
			p = ses.head
		}
		out.Run = r.snapshot()
	default:
		var err error
		if ses, err = s.session(l.Tenant, l.Session); err != nil {
			return nil, nil, nil, err
		}
		p = ses.head
		if l.Checkpoint != uuid.Nil {
			p = s.checkpoints[key{l.Tenant, l.Checkpoint}]
			if p == nil || p.SessionID != ses.ID {
				return nil, nil, nil, &store.NotFoundError{Resource: store.CheckpointResource, ID: l.Checkpoint}
			}
		}
	}
	if p != nil {
		for _, t := range p.tasks {
			t.Value = bytes.Clone(t.Value)
			out.Tasks = append(out.Tasks, t)
		}
	}
	out.Session = ses.snapshot()
	return out, p, ses.history(p), nil
}

// history returns the messages that a position sees, by sequence: those of its line and of the
// lines it came from, and all that no run brought.
func (ses *session) history(p *position) []*store.Message {
	base := ses.onLine[checkpoint.Base]
	if p == nil {
		return slices.Clone(base)
	}
	var spans [][]*store.Message
	size := len(base)
	for _, span := range checkpoint.History(ses.lines, p.Line, p.Seq) {
		line := ses.onLine[span.Line]
		line = line[after(line, span.From):after(line, span.To)]
		spans = append(spans, line)
		size += len(line)
	}
	out := make([]*store.Message, 0, size)
	for _, span := range spans {
		for _, m := range span {
			for len(base) > 0 && base[0].Seq < m.Seq {
				out, base = append(out, base[0]), base[1:]
			}
			out = append(out, m)
		}
	}
	return append(out, base...)
}

// after returns the index of the first message with a sequence greater than seq.
func after(list []*store.Message, seq int64) int {
	return sort.Search(len(list), func(i int) bool { return list[i].Seq > seq })
}
