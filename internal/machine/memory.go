package machine

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// AvailableMemory is how many bytes this process may still take without
// swapping: what the kernel deems available, or less where a cgroup limits it.
// ok is false where neither can be read.
func AvailableMemory() (n int64, ok bool) {
	n, ok = memAvailable()
	if limit, limited := cgroupLeft("/sys/fs/cgroup"); limited && (!ok || limit < n) {
		return limit, true
	}
	return n, ok
}

func memAvailable() (int64, bool) {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, false
	}
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		if f := strings.Fields(s.Text()); len(f) >= 2 && f[0] == "MemAvailable:" {
			kib, err := strconv.ParseInt(f[1], 10, 64)
			return kib << 10, err == nil
		}
	}
	return 0, false
}

// cgroupLeft is the memory left under the limit of a version 2 cgroup. Page
// cache counts as used there but is given back on demand.
func cgroupLeft(dir string) (int64, bool) {
	limit, ok := readInt(dir + "/memory.max")
	if !ok {
		return 0, false
	}
	used, ok := readInt(dir + "/memory.current")
	if !ok {
		return 0, false
	}
	return max(0, limit-used+inactiveFile(dir)), true
}

func inactiveFile(dir string) int64 {
	b, err := os.ReadFile(dir + "/memory.stat")
	if err != nil {
		return 0
	}
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		if v, found := strings.CutPrefix(s.Text(), "inactive_file "); found {
			n, _ := strconv.ParseInt(v, 10, 64)
			return n
		}
	}
	return 0
}

func readInt(name string) (int64, bool) {
	b, err := os.ReadFile(name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return n, err == nil
}

// Size writes a number of bytes for people.
func Size(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	x, u := float64(n), 0
	for ; x >= 1024 && u < len(units)-1; u++ {
		x /= 1024
	}
	if u == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.3g %s", x, units[u])
}
