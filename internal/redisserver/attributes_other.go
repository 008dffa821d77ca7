//go:build !linux

package redisserver

import "syscall"

func attributes() *syscall.SysProcAttr { return nil }
