package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/store"
)

// A commit is one statement and so one round trip.
//
// The fence is checked by locking the run: who has to wait for the lock sees the run as it is
// afterwards, so a takeover that came first shuts this write out, and one that comes later waits
// for it and loads what it wrote. The session follows: its row gives the sequences. No row comes
// back if the fence does not hold, and nothing is written then.
//
// Sequences arrive as offsets from the last one of the session. An offset of a document that is
// NULL stands for the document that was in force before.
//
// What follows are its parts: those that have nothing to do are left out, for each costs the server
// as much as a small statement. See [commitStatement].
const commitFence = `WITH clock AS MATERIALIZED (SELECT ` + sqlNow + ` AS now),
fence AS MATERIALIZED (
	SELECT r.sid, r.seq, r.id, r.last, r.line, r.document, r.waiting, r.places FROM everstep.runs r
	WHERE ` + fenced + ` AND r.last = $6
		AND NOT (r.waiting AND $9::bigint > 0)
		AND NOT (r.cancel AND $7::text NOT IN ('running', 'cancelled'))
		AND ($10::uuid = '00000000-0000-0000-0000-000000000000' OR r.write_id <> $10)
	FOR NO KEY UPDATE
),
session AS (
	UPDATE everstep.sessions s SET
		seq = s.seq + $9,
		latest = greatest(s.latest, clock.now),
		head = CASE WHEN (f.last > 0 OR $9 > 0) AND (s.active = f.id OR $8::boolean AND s.active = '00000000-0000-0000-0000-000000000000')
			THEN CASE WHEN $9 > 0 THEN s.seq + $9 ELSE f.last END ELSE s.head END,
		active = CASE WHEN $8 AND s.active = f.id THEN '00000000-0000-0000-0000-000000000000' ELSE s.active END,
		waiting = s.waiting - CASE WHEN $8 AND f.waiting THEN 1 ELSE 0 END
	FROM fence f, clock WHERE s.sid = f.sid
	RETURNING s.sid, s.seq - $9 AS base, s.latest AS at, clock.now, f.seq AS run, f.last, CASE WHEN $9 > 0 THEN s.seq ELSE f.last END AS next,
		f.line, f.document, CASE WHEN $9 > 0 OR $8 THEN 0 ELSE f.places END AS places
),
run AS (
	UPDATE everstep.runs r SET
		last = s.next, document = coalesce(s.base + $37::bigint, s.document), places = s.places + cardinality($34::bytea[]),
		lease = s.now + $11::bigint, takeovers = 0, write_id = $10, written_at = s.at,
		written = ARRAY(SELECT s.base + o FROM unnest($14::bigint[]) WITH ORDINALITY AS w(o, n) ORDER BY n),
		status = $7, waiting = r.waiting AND NOT $8,
		updated = CASE WHEN $8 THEN s.at ELSE r.updated END,
		code = CASE WHEN $8 THEN $12::bytea ELSE r.code END, error = CASE WHEN $8 THEN $13::bytea ELSE r.error END
	FROM session s WHERE r.sid = s.sid AND r.seq = s.run
)`

const commitEnd = `,
ended AS (
	DELETE FROM everstep.running u USING session s WHERE u.sid = s.sid AND u.seq = s.run
)`

const commitDocuments = `,
documents AS (
	INSERT INTO everstep.documents (sid, seq, base, body)
	SELECT s.sid, s.base + d.at, CASE WHEN d.patch THEN nullif(coalesce(s.base + d.before, s.document), 0) END, d.body
	FROM session s, unnest($24::bigint[], $25::boolean[], $26::bigint[], $27::bytea[]) AS d(at, patch, before, body)
)`

const commitMessages = `,
messages AS (
	INSERT INTO everstep.messages (sid, seq, line, role, created, id, run, checkpoint, body)
	SELECT s.sid, s.base + m.at, s.line, m.role, s.at, m.id, m.run, m.checkpoint, m.body
	FROM session s, unnest($28::bigint[], $29::text[], $30::uuid[], $31::uuid[], $32::uuid[], $33::bytea[]) AS m(at, role, id, run, checkpoint, body)
)`

const commitCheckpoints = `,
checkpoints AS (
	INSERT INTO everstep.checkpoints (sid, seq, id, run, line, node, next, status, reason, parent, document, version, created, metadata)
	SELECT s.sid, s.base + c.at, c.id, $3, s.line, c.node, c.next, c.status, c.reason, c.parent, coalesce(s.base + c.document, s.document), c.version, s.at, c.metadata
	FROM session s, unnest($14::bigint[], $15::uuid[], $16::bytea[], $17::bytea[], $18::text[], $19::text[], $20::uuid[], $21::bigint[], $22::bigint[], $23::bytea[])
		AS c(at, id, node, next, status, reason, parent, document, version, metadata)
)`

const commitCleared = `,
cleared AS (
	DELETE FROM everstep.tasks t USING session s WHERE t.sid = s.sid AND t.checkpoint = s.last RETURNING 1
)`

const commitTasks = `,
tasks AS (
	INSERT INTO everstep.tasks AS t (sid, checkpoint, key, done, place, value)
	SELECT s.sid, s.next, k.key, k.done, s.places + k.place, k.value
	FROM session s, unnest($34::bytea[], $35::boolean[], $36::bytea[]) WITH ORDINALITY AS k(key, done, value, place)
	WHERE s.next > 0 ` + keepDone + `
)`

// parts are those of a commit that have something to do.
type parts struct{ ended, steps, documents, messages, tasks bool }

// A statement is SQL with the numbers of the arguments it takes, of a longer list.
type statement struct {
	sql  string
	args []int
}

var statements sync.Map // *statement by parts

// commitStatement returns the statement for a commit with these parts.
func commitStatement(p parts) *statement {
	if known, ok := statements.Load(p); ok {
		return known.(*statement)
	}
	text := commitFence
	for _, part := range []struct {
		needed bool
		sql    string
	}{
		{p.ended, commitEnd}, {p.documents, commitDocuments}, {p.messages, commitMessages}, {p.steps, commitCheckpoints},
		{p.ended || p.steps, commitCleared}, {p.tasks, commitTasks},
	} {
		if part.needed {
			text += part.sql
		}
	}
	text += ` SELECT line, at, base FROM session`
	// A parameter that no part mentions would have no type.
	st, numbers := &statement{}, map[string]string{}
	st.sql = parameter.ReplaceAllStringFunc(text, func(old string) string {
		if numbers[old] == "" {
			n, _ := strconv.Atoi(old[1:])
			st.args = append(st.args, n-1)
			numbers[old] = "$" + strconv.Itoa(len(st.args))
		}
		return numbers[old]
	})
	statements.Store(p, st)
	return st
}

var parameter = regexp.MustCompile(`\$[0-9]+`)

// keepDone is what happens to a task that is there: one that is done stays as it is, one that was
// started and is done now gets its place among those that are done.
const keepDone = `ON CONFLICT (sid, checkpoint, sha256(key)) DO UPDATE SET done = excluded.done, place = excluded.place, value = excluded.value WHERE t.done < excluded.done`

// A write is the rows of a commit by their columns.
type write struct {
	at, documents, versions             []int64
	ids, parents                        []pgtype.UUID
	nodes, nexts, metadata              [][]byte
	statuses, reasons                   []string
	inForce                             []pgtype.Int8
	patches                             []bool
	before                              []pgtype.Int8
	bodies                              [][]byte
	messages                            []int64
	roles                               []string
	messageIDs, messageRuns, stamps     []pgtype.UUID
	messageBodies, taskKeys, taskValues [][]byte
	taskDone                            []bool
	length, document                    int64
}

// add adds a step. Its messages come before its checkpoint.
func (w *write) add(step *store.Step) {
	cp := &step.Checkpoint
	for i := range step.Messages {
		m := &step.Messages[i]
		w.length++
		w.messages = append(w.messages, w.length)
		w.roles = append(w.roles, string(m.Role))
		w.messageIDs = append(w.messageIDs, uid(m.ID))
		w.messageRuns = append(w.messageRuns, uid(m.RunID))
		w.stamps = append(w.stamps, uid(cp.ID))
		w.messageBodies = append(w.messageBodies, notNull(m.Body))
	}
	w.length++
	if d := step.Document; d != nil {
		w.documents = append(w.documents, w.length)
		w.patches = append(w.patches, d.Patch)
		w.before = append(w.before, offset(w.document))
		w.bodies = append(w.bodies, notNull(d.Body))
		w.document = w.length
	}
	w.at = append(w.at, w.length)
	w.ids = append(w.ids, uid(cp.ID))
	w.nodes = append(w.nodes, []byte(cp.Node))
	w.nexts = append(w.nexts, []byte(cp.Next))
	w.statuses = append(w.statuses, string(cp.Status))
	w.reasons = append(w.reasons, string(cp.Reason))
	w.parents = append(w.parents, uid(cp.ParentID))
	w.inForce = append(w.inForce, offset(w.document))
	w.versions = append(w.versions, int64(cp.Version))
	w.metadata = append(w.metadata, cp.Metadata)
}

// addTasks adds tasks, each key once: one statement cannot change a row twice.
func (w *write) addTasks(tasks []store.Task) {
	var kept []store.Task
	for _, t := range tasks {
		i := slices.IndexFunc(kept, func(k store.Task) bool { return k.Key == t.Key })
		switch {
		case i < 0:
			kept = append(kept, t)
		case !kept[i].Done && t.Done:
			kept = append(slices.Delete(kept, i, i+1), t)
		}
	}
	w.taskKeys = [][]byte{} // NULL has no cardinality
	for _, t := range kept {
		w.taskKeys = append(w.taskKeys, []byte(t.Key))
		w.taskDone = append(w.taskDone, t.Done)
		w.taskValues = append(w.taskValues, t.Value)
	}
}

// commitment is a commit as it is sent.
type commitment struct {
	sql     string
	args    []any
	offsets []int64 // of the checkpoints
}

func newCommitment(now pgtype.Int8, c *store.Commit) commitment {
	var w write
	for i := range c.Steps {
		w.add(&c.Steps[i])
	}
	w.addTasks(c.Tasks)
	ended := c.Status.Ended()
	all := [...]any{
		now, []byte(c.Tenant), uid(c.Run), uid(c.Owner), c.Epoch, c.After, string(c.Status), ended, w.length,
		uid(c.WriteID), int64(c.Lease), []byte(c.ErrorCode), []byte(c.Error),
		w.at, w.ids, w.nodes, w.nexts, w.statuses, w.reasons, w.parents, w.inForce, w.versions, w.metadata,
		w.documents, w.patches, w.before, w.bodies,
		w.messages, w.roles, w.messageIDs, w.messageRuns, w.stamps, w.messageBodies,
		w.taskKeys, w.taskDone, w.taskValues, offset(w.document),
	}
	st := commitStatement(parts{ended: ended, steps: len(w.at) > 0, documents: len(w.documents) > 0, messages: len(w.messages) > 0, tasks: len(w.taskKeys) > 0})
	out := commitment{sql: st.sql, args: make([]any, len(st.args)), offsets: w.at}
	for i, n := range st.args {
		out.args[i] = all[n]
	}
	return out
}

// scan reads what the statement returns.
func (m *commitment) scan(row pgx.Row) (c store.Committed, err error) {
	var base int64
	if err := row.Scan(&c.Line, intoTime{&c.CreatedAt}, &base); err != nil {
		return c, err
	}
	for _, offset := range m.offsets {
		c.Seqs = append(c.Seqs, base+offset)
	}
	return c, nil
}

// Commit implements [store.Store].
func (s *Store) Commit(ctx context.Context, w *store.Commit) (*store.Committed, error) {
	var committed store.Committed
	err := s.write(ctx, "commit", unwritten, func(ctx context.Context, c *pgx.Conn) error {
		if err := checkStatus(w.Status); err != nil {
			return err
		}
		m := newCommitment(s.clock(), w)
		var err error
		for range attempts {
			committed, err = m.scan(c.QueryRow(ctx, s.sql(m.sql), m.args...))
			if !errors.Is(err, pgx.ErrNoRows) {
				return err
			}
			var r *run
			if r, err = s.findRun(ctx, c, w.Tenant, w.Run); err != nil {
				return err
			}
			if w.WriteID != uuid.Nil && r.writeID == w.WriteID {
				committed = r.committed() // by an earlier call whose answer got lost
				return nil
			}
			if err := r.refuses(w); err != nil {
				return err
			}
			// It was refused, but would not be any more: a takeover has been given back, say.
		}
		return fmt.Errorf("run %s changes all the time: %w", w.Run, store.ErrConflict)
	})
	if err != nil {
		return nil, err
	}
	return &committed, nil
}

// refuses is why a commit is not accepted.
func (r *run) refuses(w *store.Commit) error {
	if err := r.check(w.Fence); err != nil {
		return err
	}
	switch {
	case w.After != r.Last:
		return fmt.Errorf("run %s is at %d, not %d: %w", r.ID, r.Last, w.After, store.ErrConflict)
	case r.Waiting && len(w.Steps) > 0:
		return fmt.Errorf("run %s waits for its session: %w", r.ID, store.ErrConflict)
	case r.CancelRequested && w.Status != checkpoint.Running && w.Status != checkpoint.Cancelled:
		return fmt.Errorf("run %s: %w", r.ID, store.ErrCancelRequested)
	}
	return nil
}

func checkStatus(s checkpoint.Status) error {
	if checkpoint.ParseStatus(string(s)) != s {
		return fmt.Errorf("unknown run status %q", s)
	}
	return nil
}

// saveTaskSQL is to a task what those parts are to a commit. It leaves the session alone.
const saveTaskSQL = `WITH fence AS (
	UPDATE everstep.runs r SET places = r.places + 1, takeovers = 0
	WHERE ` + fenced + ` AND r.last = $1::bigint AND r.last > 0
	RETURNING r.sid, r.last, r.places
),
task AS (
	INSERT INTO everstep.tasks AS t (sid, checkpoint, key, done, place, value)
	SELECT sid, last, $6::bytea, $7::boolean, places, $8::bytea FROM fence ` + keepDone + `
)
SELECT FROM fence`

// SaveTask implements [store.Store]. It needs no write id: a task that is saved again is the same.
func (s *Store) SaveTask(ctx context.Context, t *store.SaveTask) error {
	return s.write(ctx, "save task", unwritten, func(ctx context.Context, c *pgx.Conn) error {
		tag, err := c.Exec(ctx, s.sql(saveTaskSQL), t.Checkpoint, []byte(t.Tenant), uid(t.Run), uid(t.Owner), t.Epoch, []byte(t.Task.Key), t.Task.Done, t.Task.Value)
		if err != nil || tag.RowsAffected() > 0 {
			return err
		}
		r, err := s.findRun(ctx, c, t.Tenant, t.Run)
		if err != nil {
			return err
		}
		return cmp.Or(r.check(t.Fence), fmt.Errorf("run %s is at %d, not %d: %w", r.ID, r.Last, t.Checkpoint, store.ErrConflict))
	})
}
