package cli

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// unread returns the number of bytes of a pipe that have not been read, 0 if unknown.
func unread(pipe *os.File) int {
	n, err := unix.IoctlGetInt(int(pipe.Fd()), unix.TIOCINQ)
	if err != nil {
		return 0
	}
	return n
}

// self returns the path of this program, which holds even if its file has been replaced.
func self() (string, error) { return "/proc/self/exe", nil }

// childOfReport keeps signals of the terminal from a child, and kills it when this process ends.
func childOfReport() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
