package env

import (
	"time"

	"golang.org/x/sys/unix"
)

// longSlice is the longest that the system knows.
const longSlice = 100 * time.Millisecond

// LongSlices has each thread of this process keep its core until it waits, or 100 ms
// are over, where another of the same kind wants it; false: for as long as is usual.
// Processes whose slices are shorter still get a core at once.
//
// It is for processes of a job that have a core each, and threads that plan and move rows
// beside the one that computes: in usual slices of some 3 ms these push each other off,
// and each comes back to a cold cache. Two processes with a thread each took 5 % more
// CPU time for that than one with two threads, whose Go scheduler lets goroutines run
// for 10 ms.
//
// It may do nothing: slices can be chosen since Linux 6.12 (sched(7)).
func LongSlices(on bool) {
	slice := time.Duration(0) // the system's choice
	if on {
		slice = longSlice
	}
	eachThread(func(id int) { setSlice(id, slice) })
}

// setSlice sets a thread's slice. Whose policy somebody has chosen keeps it.
func setSlice(thread int, d time.Duration) {
	attr, err := unix.SchedGetAttr(thread, 0)
	if err != nil || attr.Policy != unix.SCHED_NORMAL {
		return
	}
	attr.Size, attr.Flags, attr.Runtime = unix.SizeofSchedAttr, 0, uint64(d)
	_ = unix.SchedSetAttr(thread, attr, 0) // without it all is the same, and slower
}
