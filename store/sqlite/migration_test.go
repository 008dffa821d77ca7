package sqlite

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMigratingTwiceChangesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "everstep.db")
	require.NoError(t, Migrate(path))
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, Migrate(path))
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, before, after)
}

func TestAPowerCutAtTheBirthIsUndone(t *testing.T) {
	dir := t.TempDir()
	born := filepath.Join(dir, "born.db")
	c, err := connect(born, "_journal_mode=DELETE")
	require.NoError(t, err)
	// So small a cache makes SQLite write into the file, behind the journal, before the commit.
	require.NoError(t, c.script(`PRAGMA cache_size = 1; BEGIN; CREATE TABLE t (b BLOB); INSERT INTO t VALUES (zeroblob(500000))`))
	cut := filepath.Join(dir, "cut.db")
	for _, suffix := range []string{"", "-journal"} {
		b, err := os.ReadFile(born + suffix)
		require.NoError(t, err)
		require.NotEmpty(t, b)
		require.NoError(t, os.WriteFile(cut+suffix, b, 0o644))
	}
	require.NoError(t, c.close())
	s, err := Open(cut, nil)
	require.NoError(t, err)
	require.NoError(t, s.Close())
}

func TestAManualMigrationIsAskedFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "everstep.db")
	_, err := Open(path, &Options{ManualMigrate: true})
	require.ErrorContains(t, err, "sqlite.Migrate")
	require.NoError(t, Migrate(path))
	s, err := Open(path, &Options{ManualMigrate: true})
	require.NoError(t, err)
	require.NoError(t, s.Close())
}

func TestAMigrationHappensWholeOrNotAtAll(t *testing.T) {
	s := open(t, nil)
	all := migrations()
	newest := len(all) + 1
	next := append(all, migration{version: newest, sql: `CREATE TABLE more (a INTEGER) STRICT; CREATE TABLE broken (`})
	require.ErrorContains(t, migrate(t.Context(), s.writer.conn, next, false), fmt.Sprintf("to version %d", newest))
	assert.NotContains(t, rows(t, s), "more")
	next[newest-1].sql = `CREATE TABLE more (a INTEGER) STRICT`
	require.NoError(t, migrate(t.Context(), s.writer.conn, next, false))
	assert.Contains(t, rows(t, s), "more")
	version, err := s.writer.conn.pragma(t.Context(), "user_version")
	require.NoError(t, err)
	assert.Equal(t, int64(newest), version)
}

func TestADatabaseOfANewerVersionIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "everstep.db")
	require.NoError(t, Migrate(path))
	sql(t, path, `PRAGMA user_version = 7`)
	_, err := Open(path, nil)
	require.ErrorContains(t, err, "version 7")
	require.ErrorContains(t, err, "use a newer one")
}

func TestAFileOfSomebodyElseIsRefusedAndLeftAsItIs(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	require.NoError(t, os.WriteFile(text, []byte("This is not a database, but it is long enough to be looked into by one who expects one."), 0o600))
	files := map[string]string{text: "not a database"}
	for name, script := range map[string]string{
		"table":   `CREATE TABLE theirs (a)`,
		"wal":     `PRAGMA journal_mode = WAL; CREATE TABLE theirs (a); INSERT INTO theirs VALUES (1)`,
		"id":      `PRAGMA application_id = 5; CREATE TABLE theirs (a)`,
		"version": `PRAGMA user_version = 1`,
	} {
		path := filepath.Join(dir, name)
		sql(t, path, script)
		files[path] = "another program"
	}
	for path, want := range files {
		before, err := os.ReadFile(path)
		require.NoError(t, err)
		_, err = Open(path, nil)
		require.ErrorContains(t, err, want, path)
		after, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, before, after, path)
	}
	_, err := Open(dir, nil)
	require.ErrorContains(t, err, "not a file")
}

// sql runs a script on a database without any of the store's settings.
func sql(t *testing.T, path, script string) {
	t.Helper()
	c, err := connect(path, "")
	require.NoError(t, err)
	require.NoError(t, c.script(script))
	require.NoError(t, c.close())
}

func TestAnyNameOfAFileIsOne(t *testing.T) {
	dir := t.TempDir()
	for i, name := range []string{"a b.db", "what?.db", "50%.db", "50%20.db", "#1.db", "ünï.db", "a&mode=memory", "it's;\"x\".db"} {
		path := filepath.Join(dir, fmt.Sprint(i), name)
		require.NoError(t, os.Mkdir(filepath.Dir(path), 0o700))
		s, err := Open(path, nil)
		require.NoError(t, err, name)
		_, err = s.CreateSession(t.Context(), "t", uuid.New())
		require.NoError(t, err, name)
		require.NoError(t, s.Close())
		entries, err := os.ReadDir(filepath.Dir(path))
		require.NoError(t, err)
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		assert.Equal(t, []string{name, name + ".lock"}, names, "and after Close it is all there is")
	}
}

func TestWhatIsNoFileIsRefused(t *testing.T) {
	for _, path := range []string{"", ":memory:", "file::memory:", "file:x.db?mode=memory"} {
		_, err := Open(path, nil)
		require.ErrorContains(t, err, "store/memory", path)
	}
	_, err := Open(filepath.Join(t.TempDir(), "missing", "everstep.db"), nil)
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = Open(filepath.Join(t.TempDir(), "everstep.db"), &Options{Synchronous: 7})
	require.ErrorContains(t, err, "Synchronous")
}

func TestEveryConnectionHasTheSettings(t *testing.T) {
	for sync, level := range map[Synchronous]int64{Full: 2, Normal: 1} {
		s := open(t, &Options{Synchronous: sync, Readers: 3})
		check := func(c *conn, queryOnly int64) {
			for name, want := range map[string]int64{
				"synchronous": level, "busy_timeout": 10000, "foreign_keys": 1, "journal_size_limit": 64 << 20,
				"fullfsync": 1, "checkpoint_fullfsync": 1, "mmap_size": 0, "query_only": queryOnly,
			} {
				got, err := c.pragma(context.Background(), name)
				require.NoError(t, err)
				assert.Equal(t, want, got, name)
			}
			require.NoError(t, c.each(context.Background(), `PRAGMA journal_mode`, func(v row) error {
				assert.Equal(t, "wal", v.text(0))
				return nil
			}))
		}
		check(s.writer.conn, 0)
		require.Equal(t, 3, s.count)
		for range s.count {
			c := <-s.readers
			check(c, 1)
			s.readers <- c
		}
	}
}
