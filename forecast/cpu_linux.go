package forecast

import (
	"time"

	"golang.org/x/sys/unix"
)

// usedTime is the time of cores that this thread has used, or, with all, the time of all threads.
func usedTime(all bool) time.Duration {
	clock := int32(unix.CLOCK_THREAD_CPUTIME_ID)
	if all {
		clock = unix.CLOCK_PROCESS_CPUTIME_ID
	}
	var t unix.Timespec
	if unix.ClockGettime(clock, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
