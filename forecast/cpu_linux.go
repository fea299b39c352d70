package forecast

import (
	"time"

	"golang.org/x/sys/unix"
)

// usedTime is the time of cores that this thread has used, or, with all, the time of all threads.
func usedTime(all bool) time.Duration {
	who := unix.RUSAGE_THREAD
	if all {
		who = unix.RUSAGE_SELF
	}
	var u unix.Rusage
	if unix.Getrusage(who, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
