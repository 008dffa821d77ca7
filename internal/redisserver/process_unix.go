//go:build unix

package redisserver

import (
	"os"
	"syscall"
)

func attributes() *syscall.SysProcAttr {
	// A group of its own, so that an interrupt from the keyboard is the program's alone to handle.
	attr := &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(attr)
	return attr
}

func freeze(p *os.Process, stop bool) error {
	if stop {
		return p.Signal(syscall.SIGSTOP)
	}
	return p.Signal(syscall.SIGCONT)
}
