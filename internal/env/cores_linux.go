package env

import (
	"math"
	"runtime"

	"golang.org/x/sys/unix"
)

// ShareOfCores returns this process's share of the cores that it may run on. Each of these
// cores is shared by the processes that may run on it, of this one and others, which are
// process ids. A process that this one cannot see counts as if it had the same cores.
func ShareOfCores(others []int) (share float64) {
	var own unix.CPUSet
	if unix.SchedGetaffinity(0, &own) != nil {
		return float64(runtime.NumCPU()) / float64(1+len(others))
	}
	sets := make([]unix.CPUSet, len(others))
	for i, pid := range others {
		if pid <= 0 || unix.SchedGetaffinity(pid, &sets[i]) != nil {
			sets[i] = own
		}
	}
	for cpu := range 64 * len(own) {
		if !own.IsSet(cpu) {
			continue
		}
		n := 1
		for i := range sets {
			if sets[i].IsSet(cpu) {
				n++
			}
		}
		share += 1 / float64(n)
	}
	return math.Round(share*1e6) / 1e6 // thirds of three cores are one
}
