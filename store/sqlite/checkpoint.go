package sqlite

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/store"
)

// checkpointColumns of checkpoints c, with the ids of their runs r and parents p; see
// checkpointJoins. A parent outside the session stands as its id in c itself.
const (
	checkpointColumns = `c.k, c.id, r.id, c.line, c.node, c.next, c.status, c.reason, coalesce(p.id, c.parent), c.document, c.version, c.created, c.metadata`
	checkpointJoins   = ` CROSS JOIN runs r ON r.k = (c.k >> 32 << 32) + c.run
		LEFT JOIN checkpoints p ON typeof(c.parent) = 'integer' AND p.k = (c.k >> 32 << 32) + c.parent `
)

func scanCheckpoint(session uuid.UUID, v row) checkpoint.Checkpoint {
	cp := checkpoint.Checkpoint{
		Seq: v.int(0) & seqMask, ID: v.id(1), SessionID: session, RunID: v.id(2), Line: v.int(3),
		Node: v.text(4), Next: v.text(5), Reason: reasons.decode(v[7]), ParentID: v.id(8),
		Status:   checkpoint.ParseStatus(string(statuses.decode(v[6]))),
		Document: v.int(9), Version: int(v.int(10)), CreatedAt: v.time(11),
	}
	if b := v.blob(12); b != nil {
		cp.Metadata = b
	}
	return cp
}

// checkpointAt returns a checkpoint that is known to be there.
func checkpointAt(ctx context.Context, c *conn, in *session, seq int64) (*checkpoint.Checkpoint, error) {
	var cp *checkpoint.Checkpoint
	err := c.each(ctx, `SELECT `+checkpointColumns+` FROM checkpoints c`+checkpointJoins+`WHERE c.k = CAST(? AS INTEGER)`, func(v row) error {
		found := scanCheckpoint(in.ID, v)
		cp = &found
		return nil
	}, key(in.sid, seq))
	if err == nil && cp == nil {
		err = fmt.Errorf("checkpoint %d is missing: the database is damaged", seq)
	}
	return cp, err
}

// Checkpoint implements [store.Store].
func (s *Store) Checkpoint(ctx context.Context, tenant string, id uuid.UUID) (*checkpoint.Checkpoint, error) {
	var cp *checkpoint.Checkpoint
	err := s.read(ctx, "checkpoint", func(c *conn) error {
		err := c.each(ctx, `SELECT `+checkpointColumns+`, s.id FROM checkpoints c CROSS JOIN sessions s ON s.sid = c.k >> 32`+checkpointJoins+
			`WHERE c.id = CAST(? AS BLOB) AND s.tenant = CAST(? AS TEXT)`, func(v row) error {
			found := scanCheckpoint(v.id(13), v)
			cp = &found
			return nil
		}, id[:], tenant)
		if err == nil && cp == nil {
			err = &store.NotFoundError{Resource: store.CheckpointResource, ID: id}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return cp, nil
}
