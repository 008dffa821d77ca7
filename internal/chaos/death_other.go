//go:build unix && !linux

package chaos

import "syscall"

func dieWithParent() *syscall.SysProcAttr { return nil }
