package sqlite

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/store"
)

// messageColumns leave out the name and the metadata of the header: the body has them.
const messageColumns = `m.k, m.line, m.role, m.created, m.id, m.run, m.checkpoint, m.body`

func scanMessage(m *store.Message, session uuid.UUID, v row) {
	m.Seq, m.Line = v.int(0)&seqMask, v.int(1)
	m.Role, m.CreatedAt = roles.decode(v[2]), v.time(3)
	m.ID, m.SessionID, m.RunID, m.CheckpointID = v.id(4), session, v.id(5), v.id(6)
	m.Body = v.blob(7)
}

// insertMessage adds a message, stamped with a checkpoint or, outside any run, with none.
func insertMessage(ctx context.Context, c *conn, k, line int64, m *store.Message, stamp uuid.UUID, at int64) error {
	return c.exec(ctx, `INSERT INTO messages (k, line, role, created, id, run, checkpoint, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
		k, line, roles.encode(m.Role), at, m.ID[:], idOrNull(m.RunID), idOrNull(stamp), notNull(m.Body))
}

// CreateMessage implements [store.Store].
func (s *Store) CreateMessage(ctx context.Context, tenant string, m *store.Message) (*store.Message, error) {
	made := *m
	made.RunID, made.CheckpointID = uuid.Nil, uuid.Nil
	err := s.write(ctx, "create message", func(ctx context.Context, c *conn) error {
		in, err := needSession(ctx, c, tenant, m.SessionID)
		if err != nil {
			return err
		}
		taken, err := c.one(ctx, `SELECT 1 FROM messages INDEXED BY messages_id WHERE id = CAST(? AS BLOB) AND k BETWEEN ? AND ? LIMIT 1`,
			func(row) error { return nil }, m.ID[:], key(in.sid, 0), key(in.sid, seqMask))
		if err != nil {
			return err
		}
		if taken {
			return fmt.Errorf("message %s: %w", m.ID, store.ErrExists)
		}
		seq, err := in.next()
		if err != nil {
			return err
		}
		at := in.at(s.now())
		if err := insertMessage(ctx, c, key(in.sid, seq), checkpoint.Base, &made, uuid.Nil, at); err != nil {
			return err
		}
		made.Seq, made.Line, made.CreatedAt = seq, checkpoint.Base, fromNanos(at)
		in.Base++
		return in.save(ctx, c)
	})
	if err != nil {
		return nil, err
	}
	made.Body = append([]byte{}, m.Body...)
	return &made, nil
}

// newestMessage selects the most recently created message of an id in a tenant.
const newestMessage = ` FROM messages m CROSS JOIN sessions s ON s.sid = m.k >> 32 WHERE m.id = CAST(? AS BLOB) AND s.tenant = CAST(? AS TEXT) ORDER BY m.created DESC, m.k DESC LIMIT 1`

// DeleteMessage implements [store.Store].
func (s *Store) DeleteMessage(ctx context.Context, tenant string, id uuid.UUID) error {
	return s.write(ctx, "delete message", func(ctx context.Context, c *conn) error {
		var k int64
		found, err := c.one(ctx, `SELECT m.k`+newestMessage, func(v row) error {
			k = v.int(0)
			return nil
		}, id[:], tenant)
		if err != nil {
			return err
		}
		if !found {
			return &store.NotFoundError{Resource: store.MessageResource, ID: id}
		}
		if err := c.exec(ctx, `DELETE FROM messages WHERE k = ?`, k); err != nil {
			return err
		}
		return c.exec(ctx, `UPDATE sessions SET base = base + 1, latest = max(latest, ?) WHERE sid = ?`, nanos(s.now()), k>>32)
	})
}

// Message implements [store.Store].
func (s *Store) Message(ctx context.Context, tenant string, id uuid.UUID) (*store.Message, error) {
	var m store.Message
	err := s.read(ctx, "message", func(c *conn) error {
		found, err := c.one(ctx, `SELECT `+messageColumns+`, s.id`+newestMessage, func(v row) error {
			scanMessage(&m, v.id(8), v)
			return nil
		}, id[:], tenant)
		if err == nil && !found {
			err = &store.NotFoundError{Resource: store.MessageResource, ID: id}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return &m, nil
}
