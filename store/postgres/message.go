package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/store"
)

// messageColumns leave out the name and the metadata of the header: the body has them.
const messageColumns = `m.seq, m.line, m.role, m.created, m.id, m.run, m.checkpoint, m.body`

// scanMessage reads a row of messageColumns and what follows them.
func scanMessage(m *store.Message, row pgx.Row, more ...any) error {
	return row.Scan(append([]any{&m.Seq, &m.Line, (*string)(&m.Role), intoTime{&m.CreatedAt}, &m.ID, &m.RunID, &m.CheckpointID, &m.Body}, more...)...)
}

// CreateMessage implements [store.Store].
func (s *Store) CreateMessage(ctx context.Context, tenant string, m *store.Message) (*store.Message, error) {
	made := *m
	made.RunID, made.CheckpointID = uuid.Nil, uuid.Nil
	err := s.write(ctx, "create message", unwritten, func(ctx context.Context, c *pgx.Conn) error {
		var sid int64
		taken := false
		b := s.batch()
		b.exec(begin)
		b.each(`SELECT s.sid FROM everstep.sessions s WHERE s.tenant = $1 AND s.id = $2 FOR NO KEY UPDATE`, func(row pgx.Row) error { return row.Scan(&sid) }, []byte(tenant), uid(m.SessionID))
		b.each(`SELECT EXISTS (SELECT 1 FROM everstep.sessions s JOIN everstep.messages m ON m.sid = s.sid WHERE s.tenant = $1 AND s.id = $2 AND m.id = $3)`,
			func(row pgx.Row) error { return row.Scan(&taken) }, []byte(tenant), uid(m.SessionID), uid(m.ID))
		if err := b.send(ctx, c); err != nil {
			return err
		}
		switch {
		case sid == 0:
			return missingSession(m.SessionID)
		case taken:
			return fmt.Errorf("message %s: %w", m.ID, store.ErrExists)
		}
		b = s.batch()
		b.each(`WITH s AS (
				UPDATE everstep.sessions SET seq = seq + 1, base = base + 1, latest = greatest(latest, `+sqlNow+`) WHERE sid = $2 RETURNING sid, seq, latest
			)
			INSERT INTO everstep.messages (sid, seq, line, role, created, id, run, checkpoint, body) SELECT sid, seq, $3, $4, latest, $5, $6, $6, $7 FROM s
			RETURNING seq, created`,
			func(row pgx.Row) error { return row.Scan(&made.Seq, intoTime{&made.CreatedAt}) },
			s.clock(), sid, checkpoint.Base, string(m.Role), uid(m.ID), uid(uuid.Nil), notNull(m.Body))
		b.exec(done)
		made.Line = checkpoint.Base
		return b.send(ctx, c)
	})
	if err != nil {
		return nil, err
	}
	made.Body = append([]byte{}, m.Body...)
	return &made, nil
}

// newestMessage selects the most recently created message of an id in a tenant.
const newestMessage = ` FROM everstep.messages m JOIN everstep.sessions s ON s.sid = m.sid WHERE s.tenant = $1 AND m.id = $2 ORDER BY m.created DESC, m.sid DESC, m.seq DESC LIMIT 1`

// DeleteMessage implements [store.Store].
func (s *Store) DeleteMessage(ctx context.Context, tenant string, id uuid.UUID) error {
	return s.write(ctx, "delete message", unwritten, func(ctx context.Context, c *pgx.Conn) error {
		tag, err := c.Exec(ctx, s.sql(`WITH newest AS (SELECT m.sid, m.seq`+newestMessage+`),
			s AS (UPDATE everstep.sessions s SET base = base + 1, latest = greatest(s.latest, `+strings.ReplaceAll(sqlNow, "$1", "$3")+`) FROM newest WHERE s.sid = newest.sid RETURNING newest.sid, newest.seq)
			DELETE FROM everstep.messages m USING s WHERE m.sid = s.sid AND m.seq = s.seq`), []byte(tenant), uid(id), s.clock())
		if err == nil && tag.RowsAffected() == 0 {
			return &store.NotFoundError{Resource: store.MessageResource, ID: id}
		}
		return err
	})
}

// Message implements [store.Store].
func (s *Store) Message(ctx context.Context, tenant string, id uuid.UUID) (*store.Message, error) {
	var m store.Message
	err := s.read(ctx, "message", func(ctx context.Context, c *pgx.Conn) error {
		err := scanMessage(&m, c.QueryRow(ctx, s.sql(`SELECT `+messageColumns+`, s.id`+newestMessage), []byte(tenant), uid(id)), &m.SessionID)
		if errors.Is(err, pgx.ErrNoRows) {
			return &store.NotFoundError{Resource: store.MessageResource, ID: id}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return &m, nil
}
