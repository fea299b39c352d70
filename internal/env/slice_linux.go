package env

import (
	"time"

	"golang.org/x/sys/unix"
)

// longSlice is the longest slice of the system.
const longSlice = 100 * time.Millisecond

// LongSlices sets the time slice of each thread of this process to 100 ms, or with false to
// the system's default. A thread then keeps its core until it waits or 100 ms are over, even
// if another thread with such slices is ready. Processes with shorter slices still get a
// core at once.
//
// It is for processes of a job with one core each, whose threads plan and move rows while
// one computes. In default slices of about 3 ms they preempt each other, and each returns
// to a cold cache. Two processes with a thread each used 5 % more CPU time because of that
// than one process with two threads, in which Go's scheduler lets goroutines run for 10 ms.
//
// It may do nothing: slices can be chosen since Linux 6.12 (sched(7)).
func LongSlices(on bool) {
	slice := time.Duration(0) // the system's default
	if on {
		slice = longSlice
	}
	eachThread(func(id int) { setSlice(id, slice) })
}

// setSlice sets a thread's slice, unless its scheduling policy was changed.
func setSlice(thread int, d time.Duration) {
	attr, err := unix.SchedGetAttr(thread, 0)
	if err != nil || attr.Policy != unix.SCHED_NORMAL {
		return
	}
	attr.Size, attr.Flags, attr.Runtime = unix.SizeofSchedAttr, 0, uint64(d)
	_ = unix.SchedSetAttr(thread, attr, 0) // without it everything works, only slower
}
