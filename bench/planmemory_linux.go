package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// watchMemory sends the most memory of a process and its descendants until over is closed.
func watchMemory(pid int, over <-chan struct{}, most chan<- float64) {
	const every = 50 * time.Millisecond
	largest := 0.0
	for {
		largest = max(largest, memoryOf(pid))
		select {
		case <-over:
			most <- largest
			return
		case <-time.After(every):
		}
	}
}

// memoryOf is the memory of a process and its descendants: their own, and their shares of shared memory, without the program.
func memoryOf(pid int) (bytes float64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid)) // it may have ended
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		if name == "Pss_Anon" || name == "Pss_Shmem" {
			kib, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
			bytes += 1024 * kib
		}
	}
	bytes -= programInMemory(pid)
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, path := range lists {
		children, _ := os.ReadFile(path)
		for _, child := range strings.Fields(string(children)) {
			if id, err := strconv.Atoi(child); err == nil {
				bytes += memoryOf(id)
			}
		}
	}
	return bytes
}

// programInMemory is the memory of a process's program that counts as shared memory, because its file is in memory (tmpfs).
func programInMemory(pid int) (bytes float64) {
	program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	var fs unix.Statfs_t
	if err != nil || unix.Statfs(fmt.Sprintf("/proc/%d/exe", pid), &fs) != nil || fs.Type != unix.TMPFS_MAGIC {
		return 0
	}
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps", pid))
	ofProgram := false
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		switch kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64); {
		case strings.Contains(name, "-"): // the head of a mapping: ADDRESS-ADDRESS MODE OFFSET DEVICE:DEVICE INODE PATH
			ofProgram = strings.HasSuffix(strings.TrimSpace(line), " "+program)
		case err != nil || !ofProgram:
		case name == "Pss":
			bytes += 1024 * kib
		case name == "Anonymous": // written: it counts as the process's own
			bytes -= 1024 * kib
		}
	}
	return bytes
}
