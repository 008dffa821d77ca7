//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package sqlite

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/everstep-go/everstep/store"
)

// exclusive is the parameter for a file that no other program may open. The connections of this
// process then share the index of the log in its memory rather than in a file.
const exclusive = "&vfs=unix-excl"

// lock takes the lock file for this process, or says that another has it. The system frees it
// when the process dies, however it dies. The file stays: removing it would let two processes
// lock two files of the same name.
func lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err == nil {
		return f, nil
	}
	_ = f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, fmt.Errorf("sqlite: lock %s: %w", path, store.ErrLocked)
	}
	return nil, fmt.Errorf("sqlite: lock %s: %w", path, err)
}
