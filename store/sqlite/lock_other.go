//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package sqlite

import (
	"fmt"
	"os"
)

// exclusive would be the parameter for a file that no other program may open.
const exclusive = ""

// lock opens the lock file and locks nothing: on this system it is up to the user that only one
// process has the database open.
func lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	return f, nil
}
