package reflex

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// Workspaces are the directories that runs work in: one for each thread, a cache of a saved
// snapshot.
type Workspaces interface {
	// Open returns the directory of a thread, as it was saved last. Empty: there is none.
	Open(ctx context.Context, t Thread) (string, error)
	// Save keeps the directory of a thread as it is. It does nothing to one that was not opened.
	Save(ctx context.Context, t Thread) error
	// Carry gives a thread what another one has at this moment, the unsaved too.
	Carry(ctx context.Context, from, to Thread) error
	// Materialise gives a thread the files of a project at a ref, such as a branch or a tag; empty
	// means the one that the project has. It returns ErrUnknownProject if there is no such one.
	Materialise(ctx context.Context, t Thread, project, ref string) error
	// Knows reports whether Materialise has that project at that ref: it is asked before a thread is
	// opened for it.
	Knows(ctx context.Context, project, ref string) (bool, error)
	// Dismiss removes the directory of a thread. What was saved stays.
	Dismiss(ctx context.Context, t Thread) error
}

// NoWorkspaces has no directories and knows no projects.
type NoWorkspaces struct{}

var _ Workspaces = NoWorkspaces{}

func (NoWorkspaces) Open(context.Context, Thread) (string, error)        { return "", nil }
func (NoWorkspaces) Save(context.Context, Thread) error                  { return nil }
func (NoWorkspaces) Carry(context.Context, Thread, Thread) error         { return nil }
func (NoWorkspaces) Dismiss(context.Context, Thread) error               { return nil }
func (NoWorkspaces) Knows(context.Context, string, string) (bool, error) { return false, nil }
func (NoWorkspaces) Materialise(_ context.Context, _ Thread, project, _ string) error {
	return fmt.Errorf("%w %q", ErrUnknownProject, project)
}

// Directories are [Workspaces] under a directory: live ones in it, snapshots of them beside. A
// snapshot is written whole before it replaces the one before. A project is a directory without
// refs: one that is asked for is unknown. For a thread that is carried elsewhere the directory is
// copied, so both have their own from then on; there are no branches. For projects in a version
// control system implement [Workspaces] with that.
type Directories struct {
	root     string
	projects map[string]string
	ignored  []string

	mu sync.Mutex // one copy at a time
}

var _ Workspaces = (*Directories)(nil)

// NewDirectories returns workspaces under root, which is created if need be. Projects are
// directories by their names. Directories of the ignored names, at any depth, are not carried along.
func NewDirectories(root string, projects map[string]string, ignored ...string) (*Directories, error) {
	for _, dir := range []string{"live", "saved"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o700); err != nil {
			return nil, fmt.Errorf("reflex: workspaces: %w", err)
		}
	}
	return &Directories{root: root, projects: projects, ignored: ignored}, nil
}

// dir returns the directory of a thread, under a name that no id can lead astray. The caller holds
// mu.
func (d *Directories) dir(kind string, t Thread) string {
	sum := sha256.Sum256([]byte(t.ID))
	dir := filepath.Join(d.root, kind, hex.EncodeToString(sum[:12]))
	mend(dir)
	return dir
}

// mend finishes what a process began that died while it replaced a directory. If the old one is out of
// the way, the new one was whole.
func mend(dir string) {
	if exists(dir) || !exists(dir+".old") {
		return
	}
	if exists(dir + ".new") {
		_ = os.Rename(dir+".new", dir) // or the old one is taken back
	}
	if !exists(dir) {
		_ = os.Rename(dir+".old", dir) // or there is none, as the caller will see
	}
}

func (d *Directories) Open(_ context.Context, t Thread) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	live := d.dir("live", t)
	if exists(live) {
		return live, nil
	}
	if saved := d.dir("saved", t); exists(saved) {
		return live, d.replace(saved, live, nil)
	}
	return live, d.empty(live)
}

func (d *Directories) empty(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("reflex: workspace: %w", err)
	}
	return nil
}

func (d *Directories) Save(_ context.Context, t Thread) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if live := d.dir("live", t); exists(live) {
		return d.replace(live, d.dir("saved", t), nil)
	}
	return nil
}

func (d *Directories) Carry(_ context.Context, from, to Thread) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, kind := range []string{"live", "saved"} {
		if source := d.dir(kind, from); exists(source) {
			return d.replace(source, d.dir("live", to), d.ignored)
		}
	}
	return nil
}

func (d *Directories) Materialise(_ context.Context, t Thread, project, ref string) error {
	source, ok := d.projects[project]
	if !ok || ref != "" {
		return fmt.Errorf("%w %q at %q", ErrUnknownProject, project, ref)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.replace(source, d.dir("live", t), nil)
}

func (d *Directories) Knows(_ context.Context, project, ref string) (bool, error) {
	_, ok := d.projects[project]
	return ok && ref == "", nil
}

// Prune removes the directories and snapshots of threads that were neither saved nor made since, and
// returns how many. [Engine.Prune] does not touch them.
func (d *Directories) Prune(ctx context.Context, before time.Time) (int, error) {
	n := 0
	for _, kind := range []string{"live", "saved"} {
		entries, err := os.ReadDir(filepath.Join(d.root, kind))
		if err != nil {
			return n, fmt.Errorf("reflex: workspaces: %w", err)
		}
		for _, entry := range entries {
			if ctx.Err() != nil {
				return n, context.Cause(ctx)
			}
			removed, err := d.prune(filepath.Join(d.root, kind, entry.Name()), before)
			if err != nil {
				return n, fmt.Errorf("reflex: workspace: %w", err)
			}
			if removed {
				n++
			}
		}
	}
	return n, nil
}

func (d *Directories) prune(dir string, before time.Time) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	info, err := os.Stat(dir)
	if err != nil || !info.ModTime().Before(before) {
		return false, nil // somebody else removed it, or it is not old
	}
	return true, os.RemoveAll(dir)
}

func (d *Directories) Dismiss(_ context.Context, t Thread) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := os.RemoveAll(d.dir("live", t)); err != nil {
		return fmt.Errorf("reflex: workspace: %w", err)
	}
	return nil
}

func exists(dir string) bool {
	info, err := os.Stat(dir)
	return err == nil && info.IsDir()
}

// replace makes target a copy of source. The copy is whole before it is seen.
func (d *Directories) replace(source, target string, ignored []string) error {
	next, last := target+".new", target+".old"
	err := errors.Join(os.RemoveAll(next), os.RemoveAll(last))
	if err == nil {
		err = copyTree(source, next, ignored)
	}
	if err == nil && exists(target) {
		err = os.Rename(target, last)
	}
	if err == nil {
		err = os.Rename(next, target)
	}
	if err == nil {
		err = os.RemoveAll(last)
	}
	if err != nil {
		return fmt.Errorf("reflex: workspace: %w", err)
	}
	return nil
}

func copyTree(source, target string, ignored []string) error {
	return filepath.WalkDir(source, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(source, path)
		if err != nil {
			return err
		}
		to := filepath.Join(target, rel)
		info, err := entry.Info()
		switch {
		case err != nil:
			return err
		case entry.IsDir() && rel != "." && slices.Contains(ignored, entry.Name()):
			return fs.SkipDir
		case entry.IsDir():
			return os.MkdirAll(to, 0o700)
		case info.Mode()&fs.ModeSymlink != 0:
			link, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(link, to)
		case info.Mode().IsRegular():
			return copyFile(path, to, info.Mode().Perm())
		}
		return nil // sockets and the like stay
	})
}

func copyFile(from, to string, mode fs.FileMode) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	_, err = io.Copy(out, in)
	return err
}
