package filelock

import (
	"errors"
	"os"
	"syscall"
)

// ErrHeld is the error for a lock that another process holds.
var ErrHeld = errors.New("another process holds the lock")

// Mode is the kind of a lock.
type Mode int

// The kinds. Several files can have a Shared lock at once. An Exclusive lock excludes all others.
const (
	Shared    Mode = syscall.LOCK_SH
	Exclusive Mode = syscall.LOCK_EX
)

// Try locks a file without waiting. The error is ErrHeld if another process holds the lock. Any
// other error means that the file system has no locks.
func Try(f *os.File, mode Mode) error {
	for {
		switch err := syscall.Flock(int(f.Fd()), int(mode)|syscall.LOCK_NB); err {
		case nil:
			return nil
		case syscall.EINTR:
		case syscall.EWOULDBLOCK:
			return ErrHeld
		default:
			return os.NewSyscallError("flock", err)
		}
	}
}
