//go:build unix

package pgserver

import (
	"errors"
	"os"
	osuser "os/user"
	"strconv"
	"syscall"
)

// servant returns who runs the server instead of root, nil if we are not root.
func servant() *syscall.Credential {
	if os.Geteuid() != 0 {
		return nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := osuser.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if errors.Join(err1, err2) == nil {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		}
	}
	return nil
}

// giveAway makes the folder the server's.
func giveAway(dir string) error {
	if c := servant(); c != nil {
		return os.Chown(dir, int(c.Uid), int(c.Gid))
	}
	return nil
}

func attributes() *syscall.SysProcAttr {
	// A group of its own, so that an interrupt from the keyboard is the program's alone to handle.
	attr := &syscall.SysProcAttr{Credential: servant(), Setpgid: true}
	dieWithParent(attr)
	return attr
}
