package machine

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Memory is the machine's memory, as the kernel reports it. Sizes are in bytes.
type Memory struct {
	Total     int64 // without the kernel's own memory
	Available int64 // can be used without swapping
	SwapTotal int64
	SwapFree  int64

	// HugePages is the number of pages reserved for hugetlbfs, each HugePageBytes long.
	HugePages     int64
	HugePageBytes int64
}

// ReadMemory reads /proc/meminfo.
func ReadMemory() (Memory, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return Memory{}, err
	}
	return parseMemory(string(text))
}

// parseMemory reads lines like "MemTotal:  32619660 kB" and "HugePages_Total:  0".
func parseMemory(text string) (m Memory, err error) {
	want := map[string]*int64{"MemTotal": &m.Total, "MemAvailable": &m.Available, "SwapTotal": &m.SwapTotal, "SwapFree": &m.SwapFree,
		"HugePages_Total": &m.HugePages, "Hugepagesize": &m.HugePageBytes}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		to := want[name]
		if to == nil {
			continue
		}
		number, isKiB := strings.CutSuffix(strings.TrimSpace(value), " kB")
		if *to, err = strconv.ParseInt(strings.TrimSpace(number), 10, 64); err != nil {
			return m, fmt.Errorf("/proc/meminfo: %s: %w", name, err)
		}
		if isKiB {
			*to <<= 10
		}
	}
	if m.Total == 0 {
		return m, errors.New("/proc/meminfo has no MemTotal")
	}
	return m, nil
}

// AvailableMemory returns the bytes that this process may still use without swapping:
// the kernel's estimate, or less if a cgroup limits it. ok is false if neither can be
// read.
func AvailableMemory() (n int64, ok bool) {
	m, err := ReadMemory()
	left, limited := memoryLeft()
	switch {
	case err != nil:
		return left, limited
	case limited:
		return min(m.Available, left), true
	}
	return m.Available, true
}

// Size formats a number of bytes for people.
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
