package chaos

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

// A ledger is the files that the tools of all lives write to. It looks at them all the time, for a
// line does not say when it was written.
type ledger struct {
	dir string

	mu    sync.Mutex // guards what follows
	files map[string]*ledgerFile
	lines []Line
}

type ledgerFile struct {
	path   string
	offset int64
	seen   time.Time
	rest   []byte // of a line that is not whole yet
}

// look is the time between two looks, by which the time of a line is uncertain.
const look = 5 * time.Millisecond

// add returns the file for a life.
func (l *ledger) add(life string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	path := filepath.Join(l.dir, life+".ledger")
	l.files[life] = &ledgerFile{path: path, seen: time.Now()}
	return path
}

// follow looks at the files until ctx ends, and once more.
func (l *ledger) follow(ctx context.Context) {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			l.read()
		case <-ctx.Done():
			l.read()
			return
		}
	}
}

func (l *ledger) read() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for life, f := range l.files {
		before := time.Now()
		text := f.more()
		after := time.Now()
		for {
			line, rest, ok := bytes.Cut(text, []byte("\n"))
			if !ok {
				break
			}
			if entry, ok := parseLine(string(line)); ok {
				entry.Life, entry.After, entry.Before = life, f.seen, after
				l.lines = append(l.lines, entry)
			}
			text = rest
		}
		f.rest, f.seen = bytes.Clone(text), before
	}
}

// more returns what follows what was read before.
func (f *ledgerFile) more() []byte {
	file, err := os.Open(f.path)
	if err != nil {
		return f.rest // not written yet
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || info.Size() == f.offset {
		return f.rest
	}
	b := make([]byte, info.Size()-f.offset)
	n, _ := file.ReadAt(b, f.offset)
	f.offset += int64(n)
	return append(f.rest, b[:n]...)
}

// lineOf is what a call writes: its run, its name, and whether it must be made once.
func lineOf(run uuid.UUID, name string, once bool) string {
	if once {
		name += "!"
	}
	return run.String() + "/" + name
}

func parseLine(text string) (l Line, ok bool) {
	call, key, ok := strings.Cut(text, "\t")
	if !ok {
		return l, false
	}
	run, name, ok := strings.Cut(call, "/")
	if !ok {
		return l, false
	}
	id, err := uuid.Parse(run)
	return Line{Run: id, Name: name, Once: strings.HasSuffix(name, "!"), Key: key}, err == nil
}

// call is how the line is written in the ledger.
func (l Line) call() string { return l.Run.String() + "/" + l.Name }
