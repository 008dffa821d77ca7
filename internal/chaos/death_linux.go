package chaos

import "syscall"

// dieWithParent lets no server outlive a harness that was killed.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
