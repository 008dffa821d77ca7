package sqlite

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/store"
)

// plans returns how SQLite executes each statement that the connection has prepared.
func plans(t *testing.T, c *conn) map[string][]string {
	t.Helper()
	inputs := map[string]int{}
	for sql, s := range c.stmts {
		inputs[sql] = s.raw.NumInput()
	}
	all := map[string][]string{}
	for sql, n := range inputs {
		all[sql] = nil
		require.NoError(t, c.each(context.Background(), `EXPLAIN QUERY PLAN `+sql, func(v row) error {
			all[sql] = append(all[sql], v.text(3))
			return nil
		}, make([]any, n)...), sql)
	}
	return all
}

func TestNoStatementReadsAWholeTable(t *testing.T) {
	s := open(t, &Options{Readers: 1})
	exercise(t, s)
	reader := <-s.readers
	defer func() { s.readers <- reader }()
	seen := 0
	for _, c := range []*conn{s.writer.conn, reader} {
		for sql, plan := range plans(t, c) {
			seen++
			for _, line := range plan {
				// What a recursion has found so far is no table, and of running all is wanted.
				scan := strings.HasPrefix(line, "SCAN ") && !slices.Contains([]string{"SCAN chain", "SCAN up", "SCAN running"}, line)
				assert.False(t, scan, "%s\n%s", sql, strings.Join(plan, "\n"))
			}
		}
	}
	assert.Greater(t, seen, 50)
}

// turn plays one turn of a conversation: a question, a tool call with its result, an answer.
func turn(t testing.TB, s *Store, session uuid.UUID) {
	d := drive(t, s, "tenant", session, at("entrypoint", checkpoint.Input, 1), at("entrypoint", checkpoint.Step, 0))
	require.NoError(t, d.commit(t.Context(), checkpoint.Running, at("call_model", checkpoint.Step, 1)))
	require.NoError(t, d.commit(t.Context(), checkpoint.Running, at("call_tools", checkpoint.Step, 1)))
	require.NoError(t, d.commit(t.Context(), checkpoint.Completed,
		at("call_model", checkpoint.Step, 1), at("exit", checkpoint.Step, 0), at("exit", checkpoint.Finish, 0)))
}

func TestATurnTakesAtMostTwoThousandBytes(t *testing.T) {
	for sessions, turns := range map[int]int{1: 600, 60: 10} {
		s := open(t, &Options{Synchronous: Normal})
		size := func() int64 {
			require.NoError(t, s.writer.conn.script(`PRAGMA wal_checkpoint(TRUNCATE)`))
			info, err := os.Stat(s.path)
			require.NoError(t, err)
			return info.Size()
		}
		empty := size()
		ids := make([]uuid.UUID, sessions)
		for i := range ids {
			ids[i] = uuid.New()
		}
		for range turns {
			for _, id := range ids {
				turn(t, s, id)
			}
		}
		each := (size() - empty) / int64(sessions*turns)
		t.Logf("%d sessions of %d turns: %d bytes a turn", sessions, turns, each)
		assert.LessOrEqual(t, each, int64(2000), "%d sessions of %d turns", sessions, turns)
	}
}

func TestADeletedSessionLeavesNoRow(t *testing.T) {
	s := open(t, nil)
	kept := exercise(t, s)
	require.NoError(t, s.DeleteSession(t.Context(), "t", kept))
	for table, n := range rows(t, s) {
		assert.Zero(t, n, table)
	}
	// And of two, only the one.
	gone := uuid.New()
	turn(t, s, kept)
	before := rows(t, s)
	turn(t, s, gone)
	require.NoError(t, s.DeleteSession(t.Context(), "tenant", gone))
	assert.Equal(t, before, rows(t, s))
}

func TestALongChainOfPatchesComesBackInOrder(t *testing.T) {
	s := open(t, &Options{Synchronous: Normal})
	session := uuid.New()
	first := at("entrypoint", checkpoint.Input, 0)
	first.Document = &store.Document{Body: []byte("0")}
	d := drive(t, s, "t", session, first)
	for i := range 512 {
		step := at("call_model", checkpoint.Step, 0)
		step.Document = &store.Document{Patch: true, Body: fmt.Append(nil, i+1)}
		require.NoError(t, d.commit(t.Context(), checkpoint.Running, step, at("exit", checkpoint.Step, 0)))
	}
	p := d.load(t)
	require.Len(t, p.Documents, 513)
	for i, doc := range p.Documents {
		require.Equal(t, store.Document{Patch: i > 0, Body: fmt.Append(nil, i)}, doc)
	}
}

func TestWordsOfALaterVersionAreKept(t *testing.T) {
	assert.Equal(t, int64(0), statuses.encode(checkpoint.Running), "the index of the running runs says 0")
	assert.Equal(t, checkpoint.Reason("later"), reasons.decode(reasons.encode("later")))
	assert.Equal(t, checkpoint.Failed, checkpoint.ParseStatus(string(statuses.decode(int64(99)))))
}

func TestCloseLeavesTheWholeDatabaseInOneFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "everstep.db")
	s, err := Open(path, nil)
	require.NoError(t, err)
	session := exercise(t, s)
	// Another program that looks on, which keeps SQLite from removing the log.
	onlooker, err := connect(path, "mode=ro")
	require.NoError(t, err)
	defer onlooker.close()
	_, err = onlooker.pragma(t.Context(), "user_version")
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.NoError(t, s.Close(), "again")
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	moved := filepath.Join(t.TempDir(), "copy.db")
	require.NoError(t, os.WriteFile(moved, whole, 0o600))
	s, err = Open(moved, nil)
	require.NoError(t, err)
	defer s.Close()
	p, err := s.Load(t.Context(), &store.Load{Tenant: "t", Session: session})
	require.NoError(t, err)
	assert.NotEmpty(t, p.Messages)
}
