package launcher

import (
	"errors"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// supported is true: a child dies with its parent, however that ends, so a killed job leaves
// nothing behind.
const supported = true

// childAttributes put a child in a process group of its own. The system kills it when the
// thread that starts it ends.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// childSlack is how late a child's timers may be, in nanoseconds. While the Go runtime's
// threads often wait, one of them wakes every 20 us to check the others. With ranks that share
// cores these checks took an eighth of the machine, and the slack delays them. Exact pauses
// do not use such timers (env.Sleep).
const childSlack = uintptr(2 * time.Millisecond)

// withSlack runs start, whose child inherits childSlack. Without it a job is only slower.
func withSlack(start func() error) error {
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, childSlack, 0, 0, 0)
	defer func() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0) }()
	return start()
}

// waitExited waits until a child has ended, and does not reap it.
func waitExited(pid int) {
	for {
		if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// socketPair is two connected sockets, which children do not inherit.
func socketPair() ([2]int, error) {
	return unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
}
