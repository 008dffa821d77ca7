package chaos

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/store"
	"github.com/everstep-go/everstep/store/postgres"
)

// auditSQL makes the database write down each change of a run, and who made it: with the name of the
// connection, not with what the statement claims. The rows of a run, and those of a session in which
// its active run changes, are written under the lock of their row, so their numbers are in order.
const auditSQL = `
CREATE SCHEMA chaos;
CREATE TABLE chaos.audit (
	n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at timestamptz, writer text, run uuid, session uuid, status text, code text,
	owner uuid, write_id uuid, epoch bigint, last bigint, places bigint, waiting boolean, cancel boolean, attached boolean
);
CREATE FUNCTION chaos.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	INSERT INTO chaos.audit (at, writer, run, session, status, code, owner, write_id, epoch, last, places, waiting, cancel, attached)
	VALUES (clock_timestamp(), current_setting('application_name'), NEW.id, NEW.session, NEW.status, convert_from(NEW.code, 'UTF8'),
		NEW.owner, NEW.write_id, NEW.epoch, NEW.last, NEW.places, NEW.waiting, NEW.cancel, NEW.attached);
	RETURN NULL;
END $$;
CREATE TRIGGER chaos_insert AFTER INSERT ON everstep.runs FOR EACH ROW EXECUTE FUNCTION chaos.note();
CREATE TRIGGER chaos_update AFTER UPDATE ON everstep.runs FOR EACH ROW WHEN (
	(OLD.status, OLD.owner, OLD.write_id, OLD.epoch, OLD.last, OLD.places, OLD.waiting, OLD.cancel) IS DISTINCT FROM
	(NEW.status, NEW.owner, NEW.write_id, NEW.epoch, NEW.last, NEW.places, NEW.waiting, NEW.cancel)
) EXECUTE FUNCTION chaos.note();`

// database is the one that the replicas share.
const database = "chaos"

// install makes the tables of the store, and the audit.
func install(ctx context.Context, dsn string) error {
	st, err := postgres.Open(ctx, dsn, nil)
	if err != nil {
		return err
	}
	defer st.Close()
	return query(ctx, dsn, func(c *pgx.Conn) error {
		_, err := c.Exec(ctx, auditSQL)
		return err
	})
}

// query does something with a connection of its own.
func query(ctx context.Context, dsn string, do func(*pgx.Conn) error) error {
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	return do(c)
}

// unfinished counts the runs that have not ended.
func unfinished(ctx context.Context, dsn string) (n int, err error) {
	err = query(ctx, dsn, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, `SELECT count(*) FROM everstep.runs WHERE status = 'running'`).Scan(&n)
	})
	return n, err
}

// load reads what the database holds in the end.
func (h *History) load(ctx context.Context, dsn string) error {
	return query(ctx, dsn, func(c *pgx.Conn) error {
		rows, err := c.Query(ctx, `SELECT at, writer, run, session, status, code, owner, write_id, epoch, last, places, waiting, cancel, attached FROM chaos.audit ORDER BY n`)
		if err != nil {
			return err
		}
		h.Rows, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (r Row, err error) {
			err = row.Scan(&r.At, &r.Writer, &r.Run, &r.Session, &r.Status, &r.Code, &r.Owner, &r.WriteID, &r.Epoch, &r.Last, &r.Places, &r.Waiting, &r.Cancel, &r.Attached)
			return r, err
		})
		if err != nil {
			return err
		}
		rows, err = c.Query(ctx, `SELECT s.id, c.run, c.id, c.parent, c.seq FROM everstep.checkpoints c JOIN everstep.sessions s USING (sid) ORDER BY c.sid, c.seq`)
		if err != nil {
			return err
		}
		h.Checkpoints, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (p Checkpoint, err error) {
			err = row.Scan(&p.Session, &p.Run, &p.ID, &p.Parent, &p.Seq)
			return p, err
		})
		if err != nil {
			return err
		}
		rows, err = c.Query(ctx, `SELECT s.id, m.run, m.id, m.body FROM everstep.messages m JOIN everstep.sessions s USING (sid) WHERE m.role = 'tool' ORDER BY m.sid, m.seq`)
		if err != nil {
			return err
		}
		h.Results, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (r Result, err error) {
			m := store.Message{Role: message.RoleTool}
			if err := row.Scan(&r.Session, &r.Run, &m.ID, &m.Body); err != nil {
				return r, err
			}
			decoded, err := m.Decode()
			if err != nil {
				return r, err
			}
			result, ok := decoded.(*message.Tool)
			if !ok {
				return r, fmt.Errorf("a message of a tool is a %T", decoded)
			}
			r.Call, r.Content, r.Error = result.ToolCallID, result.Text(), result.Error
			return r, nil
		})
		return err
	})
}

// terminateBackends ends all connections of a life.
func (h *harness) terminateBackends(ctx context.Context, life string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		err := query(ctx, h.dsn, func(c *pgx.Conn) error {
			_, err := c.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1`, life)
			return err
		})
		if err == nil || ctx.Err() != nil {
			return err
		}
		wait(ctx, 50*time.Millisecond) // the database comes up
	}
}
