package memory

import (
	"bytes"
	"context"
	"slices"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/store"
)

// add gives a message its sequence and keeps it. The copy that is kept is never changed, so it
// may be read without the lock.
func (s *Store) add(ses *session, m store.Message) *store.Message {
	m.Seq = ses.next()
	m.Body = bytes.Clone(m.Body)
	m.Name, m.Metadata = "", nil // they are in the body
	ses.messages = append(ses.messages, &m)
	ses.onLine[m.Line] = append(ses.onLine[m.Line], &m)
	k := key{ses.Tenant, m.ID}
	s.messages[k] = append(s.messages[k], &m)
	return &m
}

// forget removes a message from the tenant's messages.
func (s *Store) forget(tenant string, m *store.Message) {
	k := key{tenant, m.ID}
	rest := remove(s.messages[k], m)
	if len(rest) == 0 {
		delete(s.messages, k)
		return
	}
	s.messages[k] = rest
}

func remove(list []*store.Message, m *store.Message) []*store.Message {
	return slices.DeleteFunc(list, func(o *store.Message) bool { return o == m })
}

// latest returns the most recently created message of an id.
func (s *Store) latest(tenant string, id uuid.UUID) (*store.Message, error) {
	list := s.messages[key{tenant, id}]
	if len(list) == 0 {
		return nil, &store.NotFoundError{Resource: store.MessageResource, ID: id}
	}
	return list[len(list)-1], nil
}

func cloneMessage(m *store.Message) *store.Message {
	out := *m
	out.Body = bytes.Clone(m.Body)
	return &out
}

// cloneMessages copies the bodies into one piece of memory: a long history is two allocations.
func cloneMessages(list []*store.Message) []store.Message {
	if len(list) == 0 {
		return nil
	}
	size := 0
	for _, m := range list {
		size += len(m.Body)
	}
	bodies := make([]byte, 0, size)
	out := make([]store.Message, len(list))
	for i, m := range list {
		out[i] = *m
		n := len(bodies)
		bodies = append(bodies, m.Body...)
		out[i].Body = bodies[n:len(bodies):len(bodies)] // no append runs into the next one
	}
	return out
}

// CreateMessage implements [store.Store].
func (s *Store) CreateMessage(ctx context.Context, tenant string, m *store.Message) (*store.Message, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	ses, err := s.session(tenant, m.SessionID)
	if err != nil {
		return nil, err
	}
	for _, old := range s.messages[key{tenant, m.ID}] {
		if old.SessionID == ses.ID {
			return nil, store.ErrExists
		}
	}
	kept := *m
	kept.RunID, kept.CheckpointID = uuid.Nil, uuid.Nil
	kept.CreatedAt = ses.touch(s.now())
	kept.Line = checkpoint.Base
	ses.Base++
	return cloneMessage(s.add(ses, kept)), nil
}

// DeleteMessage implements [store.Store].
func (s *Store) DeleteMessage(ctx context.Context, tenant string, id uuid.UUID) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	m, err := s.latest(tenant, id)
	if err != nil {
		return err
	}
	ses, err := s.session(tenant, m.SessionID)
	if err != nil {
		return err
	}
	ses.messages = remove(ses.messages, m)
	ses.onLine[m.Line] = remove(ses.onLine[m.Line], m)
	s.forget(tenant, m)
	ses.touch(s.now())
	ses.Base++
	return nil
}

// Message implements [store.Store].
func (s *Store) Message(ctx context.Context, tenant string, id uuid.UUID) (*store.Message, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	m, err := s.latest(tenant, id)
	if err != nil {
		return nil, err
	}
	return cloneMessage(m), nil
}
