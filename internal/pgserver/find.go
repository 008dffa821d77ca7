package pgserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ErrMissing says that PostgreSQL's programs are not installed.
var ErrMissing = errors.New("pgserver: PostgreSQL is not installed (initdb, postgres and psql are needed)")

// find returns the folder of the server's programs: the one given, that of pg_config, the newest of
// Debian's, or one of PATH.
func find(dir string) (string, error) {
	if dir != "" {
		if !complete(dir) {
			return "", fmt.Errorf("%w: not in %s", ErrMissing, dir)
		}
		return dir, nil
	}
	var dirs []string
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	versions, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	slices.SortFunc(versions, func(a, b string) int { return version(b) - version(a) })
	dirs = append(dirs, versions...)
	dirs = append(dirs, filepath.SplitList(os.Getenv("PATH"))...)
	for _, dir := range dirs {
		if complete(dir) {
			return dir, nil
		}
	}
	return "", ErrMissing
}

// version is that of a folder such as /usr/lib/postgresql/15/bin.
func version(dir string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
	return n
}

func complete(dir string) bool {
	for _, name := range []string{"initdb", "postgres", "psql"} {
		if _, err := exec.LookPath(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}
