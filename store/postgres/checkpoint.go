package postgres

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/store"
)

const checkpointColumns = `c.seq, c.id, c.run, c.line, c.node, c.next, c.status, c.reason, c.parent, c.document, c.version, c.created, c.metadata`

// scanCheckpoint reads a row of checkpointColumns and what follows them.
func scanCheckpoint(cp *checkpoint.Checkpoint, row pgx.Row, more ...any) error {
	err := row.Scan(append([]any{&cp.Seq, &cp.ID, &cp.RunID, &cp.Line, intoText{&cp.Node}, intoText{&cp.Next}, (*string)(&cp.Status), (*string)(&cp.Reason),
		&cp.ParentID, &cp.Document, &cp.Version, intoTime{&cp.CreatedAt}, (*[]byte)(&cp.Metadata)}, more...)...)
	cp.Status = checkpoint.ParseStatus(string(cp.Status))
	return err
}

// Checkpoint implements [store.Store].
func (s *Store) Checkpoint(ctx context.Context, tenant string, id uuid.UUID) (*checkpoint.Checkpoint, error) {
	var cp checkpoint.Checkpoint
	err := s.read(ctx, "checkpoint", func(ctx context.Context, c *pgx.Conn) error {
		err := scanCheckpoint(&cp, c.QueryRow(ctx, s.sql(`SELECT `+checkpointColumns+`, s.id FROM everstep.checkpoints c JOIN everstep.sessions s ON s.sid = c.sid
			WHERE c.id = $2 AND s.tenant = $1 ORDER BY c.created DESC, c.seq DESC LIMIT 1`), []byte(tenant), uid(id)), &cp.SessionID)
		if errors.Is(err, pgx.ErrNoRows) {
			return &store.NotFoundError{Resource: store.CheckpointResource, ID: id}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return &cp, nil
}
