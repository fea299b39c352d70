package env

import (
	"os"
	"runtime"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// slices returns the slices of the process's threads.
func slices(t *testing.T) (all []uint64) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Skip(err)
	}
	for _, th := range threads {
		id, _ := strconv.Atoi(th.Name())
		if attr, err := unix.SchedGetAttr(id, 0); err == nil {
			all = append(all, attr.Runtime)
		}
	}
	return all
}

// TestLongSlices reads the slices from the system, including that of a new thread.
func TestLongSlices(t *testing.T) {
	usual := slices(t)[0]
	if usual == 0 {
		t.Skip("this system's slices cannot be chosen")
	}
	LongSlices(true)
	defer LongSlices(false)
	started, done := make(chan bool), make(chan bool)
	go func() {
		runtime.LockOSThread() // which ends with the goroutine
		started <- true
		<-done
	}()
	<-started
	for _, s := range slices(t) {
		if s != uint64(longSlice) {
			t.Errorf("a thread's slice is %d ns", s)
		}
	}
	close(done)
	LongSlices(false)
	for _, s := range slices(t) {
		if s != usual {
			t.Errorf("a thread's slice is %d ns, at first it was %d", s, usual)
		}
	}
}
