package sqlite

import (
	"context"
	"embed"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// applicationID marks a database file as one of ours ("EvSt"); see PRAGMA application_id.
const applicationID = 0x45765374

// A migration leads from the schema version before it to its own.
type migration struct {
	version int
	sql     string
}

// migrations returns all of them in order. They are compiled in, so a fault in their names is
// one of this package.
func migrations() []migration {
	entries, err := migrationFiles.ReadDir("migrations")
	if err != nil {
		panic(err)
	}
	var all []migration
	for i, entry := range entries {
		number, _, _ := strings.Cut(entry.Name(), "_")
		version, err := strconv.Atoi(number)
		if err != nil || version != i+1 {
			panic("sqlite: migration " + entry.Name() + " is out of order")
		}
		text, err := migrationFiles.ReadFile(path.Join("migrations", entry.Name()))
		if err != nil {
			panic(err)
		}
		all = append(all, migration{version: version, sql: string(text)})
	}
	return all
}

// Migrate creates the database at path, or brings its schema up to date. [Open] does so by
// itself unless [Options.ManualMigrate] is set. It needs the file for itself: store.ErrLocked
// if it is open elsewhere.
func Migrate(path string) error {
	s, err := Open(path, nil)
	if err != nil {
		return err
	}
	return s.Close()
}

// inspect refuses a file that is not ours, without writing to it. One that does not exist or is
// empty will become ours.
//
// A power cut at the birth of a database leaves a journal beside it, for there was no log yet.
// What it says must be undone before anybody can read the file, and that is all the writing that
// a file with a journal meets, whoever it belongs to: its own program would begin with it.
func inspect(ctx context.Context, path string) error {
	info, err := os.Stat(path)
	if os.IsNotExist(err) || err == nil && info.Mode().IsRegular() && info.Size() == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("sqlite: %w", err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("sqlite: %s is not a file", path)
	}
	mode := "ro"
	if _, err := os.Stat(path + "-journal"); err == nil {
		mode = "rw"
	}
	c, err := connect(path, "mode="+mode+"&_busy_timeout=10000")
	if err != nil {
		return err
	}
	defer c.close()
	id, err := c.pragma(ctx, "application_id")
	if err != nil {
		return fmt.Errorf("sqlite: %w", err)
	}
	if id == applicationID {
		return nil
	}
	var objects int64
	err = c.each(ctx, `SELECT count(*) FROM sqlite_schema`, func(r row) error {
		objects = r.int(0)
		return nil
	})
	if err != nil {
		return fmt.Errorf("sqlite: %w", err)
	}
	version, err := c.pragma(ctx, "user_version")
	if err != nil {
		return fmt.Errorf("sqlite: %w", err)
	}
	if id != 0 || version != 0 || objects != 0 {
		return fmt.Errorf("sqlite: %s is the database of another program", path)
	}
	return nil
}

// migrate brings the schema up to date, all steps in one transaction. With manual set it only
// checks.
func migrate(ctx context.Context, c *conn, all []migration, manual bool) error {
	if err := c.exec(ctx, `BEGIN EXCLUSIVE`); err != nil {
		return fmt.Errorf("sqlite: migrate: %w", err)
	}
	err := migrateTo(ctx, c, all, manual)
	if err == nil {
		err = c.exec(ctx, `COMMIT`)
	}
	if err != nil {
		_ = c.exec(ctx, `ROLLBACK`) // the first error is the one to tell
		return fmt.Errorf("sqlite: migrate: %w", err)
	}
	return nil
}

func migrateTo(ctx context.Context, c *conn, all []migration, manual bool) error {
	version, err := c.pragma(ctx, "user_version")
	if err != nil {
		return err
	}
	newest := int64(len(all))
	switch {
	case version > newest:
		return fmt.Errorf("the schema is version %d and this program knows none beyond %d: use a newer one", version, newest)
	case version == newest:
		return nil
	case manual:
		return fmt.Errorf("the schema is version %d and %d is needed: call sqlite.Migrate first", version, newest)
	}
	for _, m := range all[version:] {
		if err := c.script(m.sql); err != nil {
			return fmt.Errorf("to version %d: %w", m.version, err)
		}
	}
	return c.script(fmt.Sprintf(`PRAGMA application_id = %d; PRAGMA user_version = %d`, applicationID, newest))
}
