package machine

import (
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// AddressSpaceLeft returns the bytes that this process may still map, and the limit of its
// address space (RLIMIT_AS, ulimit -v). ok is false if there is no limit.
func AddressSpaceLeft() (left, limit int64, ok bool) {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_AS, &r); err != nil || r.Cur > math.MaxInt64 {
		return 0, 0, false
	}
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, 0, false
	}
	var pages int64
	if _, err := fmt.Sscan(string(statm), &pages); err != nil {
		return 0, 0, false
	}
	limit = int64(r.Cur)
	return max(0, limit-pages*int64(os.Getpagesize())), limit, true
}
