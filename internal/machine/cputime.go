package machine

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ticksPerSecond is the unit of CPU times under /proc: USER_HZ, which is 100 on all architectures that ecrec runs on.
const ticksPerSecond = 100

// CPUTimes are the times that all cores of the machine have spent since it started.
type CPUTimes struct {
	Busy  time.Duration // in processes and in the kernel
	Idle  time.Duration // also while I/O was under way
	Steal time.Duration // the host ran something else
}

// ReadCPUTimes reads /proc/stat. ok is false where the system has no such file.
func ReadCPUTimes() (c CPUTimes, ok bool) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return c, false
	}
	return parseCPUTimes(string(text))
}

// parseCPUTimes reads the line "cpu  user nice system idle iowait irq softirq steal guest guest_nice". The time of guests is
// also in user and nice. It is not ok if all are 0, as in some sandboxes.
func parseCPUTimes(text string) (c CPUTimes, ok bool) {
	line, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return c, false
	}
	var n [8]time.Duration
	for i := range n {
		ticks, err := strconv.ParseInt(fields[i+1], 10, 64)
		if err != nil {
			return c, false
		}
		n[i] = ticksToTime(ticks)
	}
	c = CPUTimes{Busy: n[0] + n[1] + n[2] + n[5] + n[6], Idle: n[3] + n[4], Steal: n[7]}
	return c, c.Busy+c.Idle > 0
}

func ticksToTime(ticks int64) time.Duration {
	return time.Duration(ticks) * (time.Second / ticksPerSecond)
}

// ProcessTime returns the CPU time of this process and of its children that have ended.
func ProcessTime() (sum time.Duration) {
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var u unix.Rusage
		if unix.Getrusage(who, &u) == nil {
			sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return sum
}

// TreeTime returns the CPU time of a process, of its descendants, and of their children that have ended. ok is false
// where /proc has no such process.
func TreeTime(root int) (sum time.Duration, ok bool) {
	names, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is valid
	all := map[int]processTimes{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		if p, ok := parseProcess(string(text)); ok {
			all[p.id] = p
		}
	}
	return sumTree(all, root)
}

// KernelTime returns the CPU time of the kernel's own threads that run now. Some of them write files back. ok is false where they are
// not shown, as in a container.
func KernelTime() (sum time.Duration, ok bool) {
	const kthreadd = 2 // the parent of all of them
	if name, err := os.ReadFile("/proc/2/comm"); err != nil || string(name) != "kthreadd\n" {
		return 0, false
	}
	return TreeTime(kthreadd)
}

// processTimes are those of a process, with its ended children.
type processTimes struct {
	id, parent int
	time       time.Duration
}

// parseProcess reads "id (name) state parent ..." of /proc/ID/stat. The name may have spaces and brackets.
func parseProcess(text string) (p processTimes, ok bool) {
	open, end := strings.Index(text, " ("), strings.LastIndex(text, ") ")
	if open < 0 || end < 0 {
		return p, false
	}
	fields := strings.Fields(text[end+2:])
	if len(fields) < 15 {
		return p, false
	}
	var err error
	if p.id, err = strconv.Atoi(text[:open]); err != nil {
		return p, false
	}
	p.parent, _ = strconv.Atoi(fields[1]) // a number
	for _, f := range fields[11:15] {     // utime, stime, cutime, cstime
		ticks, _ := strconv.ParseInt(f, 10, 64)
		p.time += ticksToTime(ticks)
	}
	return p, true
}

func sumTree(all map[int]processTimes, root int) (sum time.Duration, ok bool) {
	if _, ok := all[root]; !ok {
		return 0, false
	}
	for id := range all {
		at := id
		for range len(all) { // a circle cannot be, unless ids were used again meanwhile
			if at == root {
				sum += all[id].time
				break
			}
			p, ok := all[at]
			if !ok {
				break
			}
			at = p.parent
		}
	}
	return sum, true
}

// Kernel returns the name and the release of the operating system: "Linux 6.1.0-18-amd64".
func Kernel() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:])
}
