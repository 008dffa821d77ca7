//go:build unix && !linux

package pgserver

import "syscall"

func dieWithParent(*syscall.SysProcAttr) {}
