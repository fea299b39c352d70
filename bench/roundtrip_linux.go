package bench

import (
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Rounds of a measurement, of which the median counts, and its longest time: cores that others keep busy wait for each other.
const (
	tripBatches = 5
	tripRounds  = 4000
	longestTrip = 100 * time.Millisecond
)

// coreRoundTrip returns how long a cache line takes from the first of the process's cores to the last one and back: tens of
// nanoseconds between cores that share a cache, hundreds between others. The host of a virtual machine moves its cores, so it can change
// at any time. It takes at most about 100 ms, and is unknown for one core, or if others keep the cores busy.
func coreRoundTrip() (time.Duration, bool) {
	var cores unix.CPUSet
	if runtime.GOMAXPROCS(0) < 2 || unix.SchedGetaffinity(0, &cores) != nil || cores.Count() < 2 {
		return 0, false
	}
	first, last := -1, -1
	for cpu := range 64 * len(cores) {
		if !cores.IsSet(cpu) {
			continue
		}
		if first < 0 {
			first = cpu
		}
		last = cpu
	}
	t := &trip{deadline: time.Now().Add(longestTrip)}
	go t.pass(last, 1)
	return t.pass(first, 0)
}

// trip is a number that two cores increment by turns. -1: one of them gave up.
type trip struct {
	count    atomic.Int64
	deadline time.Time
}

// pass increments the number whenever it is 2i + turn, on a thread that is bound to a core meanwhile.
func (t *trip) pass(cpu int, turn int64) (time.Duration, bool) {
	var took []time.Duration
	ended := make(chan bool)
	go func() {
		runtime.LockOSThread()
		var before, set unix.CPUSet
		set.Set(cpu)
		ok := unix.SchedGetaffinity(0, &before) == nil && unix.SchedSetaffinity(0, &set) == nil
		for batch := int64(0); ok && batch < tripBatches; batch++ {
			began := time.Now()
			ok = t.increment(2*batch*tripRounds + turn)
			took = append(took, time.Since(began)/tripRounds)
		}
		if !ok {
			t.count.Store(-1)
		}
		if before.Count() > 0 && unix.SchedSetaffinity(0, &before) == nil {
			runtime.UnlockOSThread() // else the thread ends with this goroutine, since it is bound
		}
		ended <- ok
	}()
	if !<-ended {
		return 0, false
	}
	slices.Sort(took)
	return took[len(took)/2], true
}

// increment waits for each second number from one on, and increments it.
func (t *trip) increment(from int64) bool {
	for next := from; next < from+2*tripRounds; next += 2 {
		for spins := 1; t.count.Load() != next; spins++ {
			if t.count.Load() < 0 || spins%1024 == 0 && time.Now().After(t.deadline) {
				return false
			}
		}
		t.count.CompareAndSwap(next, next+1) // unless the other one has given up
	}
	return true
}
