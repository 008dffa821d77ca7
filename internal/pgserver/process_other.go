//go:build !unix

package pgserver

import "syscall"

func giveAway(string) error { return nil }

func attributes() *syscall.SysProcAttr { return nil }
