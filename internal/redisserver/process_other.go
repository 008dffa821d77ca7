//go:build !unix

package redisserver

import (
	"errors"
	"os"
	"syscall"
)

func attributes() *syscall.SysProcAttr { return nil }

func freeze(*os.Process, bool) error { return errors.ErrUnsupported }
