package redisserver

import "syscall"

// attributes make the server die with this program, and leave the keyboard's interrupts to it.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
