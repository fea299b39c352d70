package bench

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// directFlag opens a file without the page cache.
const directFlag = unix.O_DIRECT

// endWithParent makes the kernel send SIGTERM to a child when the thread that started it ends.
func endWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} }
